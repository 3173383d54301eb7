# SPDX-License-Identifier: BSD-2-Clause
"""Every playbook, where a tenant has written into all that it shows: nothing is evaluated, and no screen is moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.inert_text import inert
from integration.ansible import Ansible
from integration.api import Api
from integration.manifests import compute, training
from integration.test_playbooks import run

from .test_tenant import planted_history, write_ledger
from .trap import ESCAPES, Trap, acts_on_a_terminal

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

EVIL, RUN = "evil", "run-1"
# In the order in which they are run: what deletes comes last.
VARIABLES: dict[str, dict[str, Any]] = {
    "status": {"pods": True, "all": True},
    "describe": {"name": "evil,train"},
    "logs": {"name": EVIL},
    "history": {},
    "usage": {"group_by": ["job", "user"]},
    "advise": {"prometheus_url": "http://127.0.0.1:9"},
    "record_history": {},
    "idle": {"prometheus_url": "http://127.0.0.1:9"},
    "expire": {},
    "budget": {},
    "doctor": {},
    "fit": {"src": "@dir"},
    "submit": {"src": "@dir"},
    "plan": {"dir": "@dir"},
    "drift": {"dir": "@dir"},
    "provision": {"dir": "@dir"},
    "extend": {"name": EVIL, "by": "1h", "takeover": True},
    "pause": {"name": EVIL, "takeover": True},
    "resume": {"name": EVIL, "takeover": True},
    "scale": {"name": EVIL, "replicas": 2, "takeover": True},
    "job_state": {"name": EVIL, "state": "restarted", "takeover": True},
    "restart": {"name": EVIL, "takeover": True},
    "rollback": {"name": EVIL, "takeover": True},
    "requeue": {"event": {"jobs": [{"namespace": "@ns", "job": EVIL}]}},
    "notify": {"event": "@event", "notify_url": "http://127.0.0.1:9", "notify_service": "slack"},
    "delete": {"name": EVIL, "takeover": True, "confirm": True},
    "teardown": {"dir": "@dir", "confirm": True, "takeover": True},
}


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "sprung")


def test_what_a_tenant_has_written_everywhere(
    ansible: Ansible, api: Api, namespace: str, trap: Trap, tmp_path: Path
) -> None:
    directory = tmp_path / "cluster"
    directory.mkdir()
    (directory / "train.yaml").write_text(yaml.safe_dump(training(job={"name": "train", "namespace": namespace})))
    assert not ansible.job(definition=[compute(EVIL), training()], namespace=namespace).failed
    texts = [f"{text} {ESCAPES}" for text in trap.texts] + trap.texts
    plant(api, namespace, texts)
    given = json.dumps(VARIABLES).replace("@dir", str(directory)).replace("@ns", namespace)
    for number, (playbook, variables) in enumerate(json.loads(given).items()):
        write_over(api, namespace, texts[number % len(texts)])
        if variables.get("event") == "@event":
            variables["event"] = inert({"type": "job.failed", "job": EVIL, "message": texts[0], "last_lines": texts})
        done = run(ansible, playbook, namespace=namespace, **variables)
        assert not trap.sprung, playbook
        assert not acts_on_a_terminal(done.output), (playbook, done.output)
        for words in ("bug in runwhere.gpuctl", "Traceback", "Unexpected Exception"):
            assert words not in done.output, (playbook, done.output)


def write_over(api: Api, namespace: str, text: str) -> None:
    """The annotations of a job that is still there."""
    annotations = {
        "runwhere.ai/description": text,
        "runwhere.ai/submitted-by": json.dumps({"user": text, "host": text, "login": text}),
        "runwhere.ai/sweep": text,
        "runwhere.ai/warning": text,
    }
    api.patch("deployment", EVIL, {"metadata": {"annotations": annotations}}, namespace, missing_ok=True)


def plant(api: Api, namespace: str, texts: list[str]) -> None:
    """A history, a ledger, an unmanaged workload and events of the tenant."""
    data = {}
    for number, text in enumerate(texts):
        known = {"name": EVIL, "kind": "compute", "submitted_at": "2026-08-01T10:00:00Z", "pool": text, "image": text}
        ended = {"result": "Failed", "finished_at": "2026-08-01T11:00:00Z", "reason": text, "seen": 1785585600}
        data[f"{RUN}{number}.job"] = json.dumps({**known, "submitter": json.dumps({"user": text}), "sweep": text})
        data[f"{RUN}{number}.end"] = json.dumps(ended)
        data[f"{RUN}{number}.log"] = json.dumps({"lines": texts})
    api.create("configmap", planted_history("gpuctl-history-7", data), namespace)
    entry = {"manifest": texts[0], "uid": texts[1], "submitted_at": "2026-01-01T00:00:00Z", "result": texts[2]}
    write_ledger(api, namespace, train=json.dumps(entry), evil=json.dumps(entry))
    pod = {"metadata": {"labels": {"app": "theirs"}}, "spec": {"containers": [{"name": "main", "image": "a"}]}}
    spec = {"selector": {"matchLabels": {"app": "theirs"}}, "template": pod, "replicas": 0}
    metadata = {"name": "theirs", "annotations": {"runwhere.ai/description": texts[0]}}
    api.create("deployment", {"metadata": metadata, "spec": spec}, namespace)
    for kind, name, version in (("Deployment", EVIL, "apps/v1"), ("Job", "train", "batch/v1")):
        live = api.get(kind.lower(), name, namespace)
        about = {"kind": kind, "name": name, "namespace": namespace, "uid": live["metadata"]["uid"]}
        for number, text in enumerate(texts):
            event = {
                "metadata": {"name": f"{name}-{number}"},
                "type": "Warning",
                "reason": "FailedCreate",
                "message": text,
                "involvedObject": {**about, "apiVersion": version},
                "lastTimestamp": "2026-08-01T10:00:00Z",
            }
            assert api.call("POST", f"/api/v1/namespaces/{namespace}/events", event)[0] == 201
