# SPDX-License-Identifier: BSD-2-Clause
"""A newer version of the collection on what a former one has submitted, through the playbooks that people run."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.fields import applied_by
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.submitter import Submitter
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import resource_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER, SUBMITTED_BY

from .ansible import Ansible, Run
from .api import Api, eventually
from .recorder import Recorder

FORMER = Path(__file__).parents[1] / "unit" / "fixtures" / "former"
APPLY = "application/apply-patch+yaml"
JOBS = ("dist", "serve", "lab", "web")


@pytest.fixture(params=["1.0.0"])
def submitted(request: pytest.FixtureRequest, ansible: Ansible, api: Api, namespace: str) -> Path:
    """A directory of manifests whose objects the former version has applied, by the user who upgrades."""
    directory = ansible.directory / "cluster"
    directory.mkdir()
    priority = {"metadata": {"name": "gpuctl-medium", "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER}}}
    api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {**priority, "value": 500})
    for entry in yaml.safe_load_all((FORMER / f"built-by-{request.param}.yaml").read_text(encoding="utf-8")):
        name = entry["manifest"]["job"]["name"]
        if name not in JOBS:
            continue
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(entry["manifest"]))
        uid = ""
        for obj in entry["objects"]:
            applied = json.loads(json.dumps(applied_by(FIELD_MANAGER, obj)).replace('"former"', f'"{namespace}"'))
            for owner in applied["metadata"].get("ownerReferences", ()):
                owner["uid"] = uid
            if SUBMITTED_BY in applied["metadata"].get("annotations", {}):
                applied["metadata"]["annotations"][SUBMITTED_BY] = str(
                    Submitter(getpass.getuser(), socket.gethostname())
                )
            path = f"{resource_of(obj).path(namespace, obj['metadata']['name'])}?fieldManager={FIELD_MANAGER}"
            status, answer = api.call("PATCH", path, applied, APPLY)
            assert status == 201, answer
            uid = uid or answer["metadata"]["uid"]
    eventually(lambda: len(pods(api, namespace)) == 5)
    return directory


def pods(api: Api, namespace: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in api.list("pod", namespace)}


def provision(ansible: Ansible, namespace: str, *arguments: str, **variables: Any) -> Run:
    given = json.dumps({"gpuctl_dir": "cluster", "gpuctl_namespace": namespace, **variables})
    return ansible.run("ansible-playbook", "runwhere.gpuctl.provision", "-e", given, "--diff", *arguments)


@pytest.mark.parametrize("submitted", ["1.0.0", "1.1.0"], indirect=True)
def test_an_upgrade_restarts_nothing_and_is_no_drift(
    ansible: Ansible, api: Api, namespace: str, submitted: Path, recorder: Recorder
):
    before = pods(api, namespace)
    objects = "Everything is as declared. 4 objects {} their source, cluster."
    for arguments, sentence in ((["--check"], "would record"), ([], "now record")):
        done = provision(ansible, namespace, *arguments)
        assert done.status == 0, done.output
        assert objects.format(sentence) in " ".join(done.output.split()), done.output
    recorder.clear()
    for arguments in (["--check"], []):
        done = provision(ansible, namespace, *arguments)
        assert done.status == 0, done.output
        assert "changed=0" in done.output, done.output
    assert recorder.writes == []
    assert pods(api, namespace) == before
    for kind in ("deployment", "statefulset", "job", "service"):
        for obj in api.list(kind, namespace):
            assert obj["metadata"]["annotations"]["runwhere.ai/source"] == "cluster"
            template = (obj["spec"].get("template") or {}).get("metadata") or {}
            assert "runwhere.ai/source" not in (template.get("annotations") or {})


def test_upgrade_asks_for_what_is_new(ansible: Ansible, api: Api, namespace: str, submitted: Path):
    drift = provision(ansible, namespace, "--check", gpuctl_upgrade=True)
    assert drift.status == 2, drift.output
    assert "readinessProbe" in drift.output

    path = str(submitted / "lab.yaml")
    given = json.dumps({"gpuctl_src": path, "gpuctl_namespace": namespace, "gpuctl_upgrade": "true"})
    done = ansible.run("ansible-playbook", "runwhere.gpuctl.submit", "-e", given)
    assert done.status == 0, done.output
    (container,) = api.get("statefulset", "lab", namespace)["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["tcpSocket"] == {"port": 8888}
    again = ansible.run("ansible-playbook", "runwhere.gpuctl.submit", "-e", given)
    assert "changed=0" in again.output, again.output
