# SPDX-License-Identifier: BSD-2-Clause
"""ansible-rulebook itself runs the rulebooks of the collection: from a change in the cluster to what it leads to."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from .api import Api, eventually
from .receivers import http_receiver
from .rulebooks import ROOT, needs_rulebook, rulebook
from .test_event_source import job, submit

pytestmark = [needs_rulebook, pytest.mark.timeout(300)]

RULEBOOKS = ROOT / "extensions" / "eda" / "rulebooks"
TOKEN = "token-of-alertmanager"
ALERT = {
    "status": "firing",
    "labels": {"alertname": "GpuTemperatureHigh", "namespace": "ml", "job_name": "llm", "severity": "critical"},
    "annotations": {"summary": "GPU 3 of node-1 has 86 degrees {{ lookup('env', 'HOME') }}"},
    "startsAt": "2026-08-01T10:00:00Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus/graph",
    "fingerprint": "c0ffee",
}
PAYLOAD = {
    "version": "4", "groupKey": "{}", "truncatedAlerts": 0, "status": "firing", "receiver": "eda", "alerts": [ALERT],
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3).running() as cluster:
        yield cluster


@pytest.fixture
def api(cluster: Cluster, tmp_path: Path) -> Api:
    cluster.kubeconfig(tmp_path / "kubeconfig")
    return Api(str(tmp_path / "kubeconfig"))


def test_a_failure_reaches_a_webhook_once_over_a_restart(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    """And what a job writes into its log or its description is no template for Ansible."""
    command = f"lookup('pipe', 'touch {tmp_path / 'evil'}')"
    evil = f"{{{{ {command} }}}}"
    description = f"#jinja2:variable_start_string:'[[',variable_end_string:']]'\n[[ {command} ]]"
    environment = {"K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig")}
    variables = {"gpuctl_state_file": str(tmp_path / "state"), "gpuctl_namespaces": ["default"]}
    with http_receiver() as receiver:
        environment |= {"GPUCTL_NOTIFY_URL": receiver.url, "GPUCTL_NOTIFY_SECRET": "s3cret-of-the-hook"}
        with rulebook(tmp_path, "runwhere.gpuctl.notify", environment, variables) as first:
            first.wait_for("watching")
            _fail(api, "first", evil, description)
            eventually(lambda: receiver.requests, 90)
            # What was sent is recorded within two seconds; a process that is killed before sends it again.
            eventually(lambda: "Failed" in (tmp_path / "state").read_text())
            first.stop()
        _fail(api, "second", evil, description)
        eventually(lambda: (api.get("job", "second", "default").get("status") or {}).get("failed"))
        with rulebook(tmp_path, "runwhere.gpuctl.notify", environment, variables) as again:
            eventually(lambda: len(receiver.requests) > 1, 90)
            again.stop()
        events = [request.json["event"] for request in receiver.requests]
    assert [(event["type"], event["job"]) for event in events] == [("job.failed", "first"), ("job.failed", "second")]
    assert events[0]["last_lines"] == [evil.replace("{", "\uff5b")]
    assert events[0]["description"] == description.replace("#jinja2", "\uff03jinja2").replace("\\", "\uff3c")
    assert events[0]["exit_code"] == 3
    assert not (tmp_path / "evil").exists()
    assert "s3cret-of-the-hook" not in first.output + again.output


def test_the_other_rulebooks(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    """A lost node's jobs are started elsewhere, of one cluster of two, and an alert is sent once.

    One process: Java takes seconds to start.
    """
    together = tmp_path / "together.yml"
    texts = [(RULEBOOKS / f"{name}.yml").read_text(encoding="utf-8") for name in ("requeue", "alerts")]
    together.write_text(yaml.safe_dump([ruleset for text in texts for ruleset in yaml.safe_load(text)]))
    port = _free_port()
    variables = {"gpuctl_namespaces": ["default"], "gpuctl_alert_token": TOKEN, "gpuctl_alert_port": port}
    labels = {"runwhere.ai/job-type": "training", "app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    variables["gpuctl_cluster"] = "east"
    with http_receiver() as receiver, Cluster(nodes=1).running() as west:
        west.kubeconfig(tmp_path / "west")
        submit(Api(str(tmp_path / "west")), "default", name="llm")
        of_west = eventually(lambda: _running_pod(Api(str(tmp_path / "west")), "llm"))
        hosts = {
            name: {"ansible_connection": "local", "gpuctl_cluster_kubeconfig": str(tmp_path / path)}
            for name, path in (("east", "kubeconfig"), ("west", "west"))
        }
        groups = {"gpuctl_clusters": {"hosts": hosts}}
        environment = {"K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig"), "GPUCTL_NOTIFY_URL": receiver.url}
        with rulebook(tmp_path, str(together), environment, variables, groups=groups) as running:
            running.wait_for("watching")
            submit(api, "default", name="llm")
            pod = eventually(lambda: _running_pod(api, "llm"))
            node = pod["spec"]["nodeName"]
            _lose(api, node)
            moved = eventually(lambda: _pod_elsewhere(api, "llm", node), 90)
            for _time in range(2):
                eventually(lambda: _post(port, PAYLOAD), 60)
            eventually(lambda: receiver.requests, 90)
            _post(port, {**PAYLOAD, "alerts": [{**ALERT, "status": "resolved"}]})
            eventually(lambda: len(receiver.requests) > 1, 90)
            running.stop()
        told = [request.json for request in receiver.requests]
        untouched = _running_pod(Api(str(tmp_path / "west")), "llm")
    assert untouched["metadata"]["uid"] == of_west["metadata"]["uid"]
    assert moved["metadata"]["labels"].items() >= labels.items()
    assert [(each["title"], each["event"]["status"]) for each in told] == [
        ("alert llm", "firing"),
        ("alert llm", "resolved"),
    ]
    assert told[0]["message"] == ALERT["annotations"]["summary"].replace("{", "\uff5b")


def test_no_text_of_an_alert_runs_a_command(tmp_path: Path) -> None:
    """Where a rulebook passes texts on, and the playbook makes facts of them; ansible-rulebook reads each as Python."""
    port, found = _free_port(), tmp_path / "found.json"
    expression = f'lookup("pipe", "touch {tmp_path / "evil"}; echo evil")'
    notes = {
        "joined": f"'{{' '{{ {expression} }}}}'",
        "hexadecimal": f"['\\x7b\\x7b {expression} }}}}']",
        "header": f"'#' 'jinja2:variable_start_string:\"[[\",variable_end_string:\"]]\"\\n[[ {expression} ]]'",
        "secret": "$ANSIBLE_VAULT;1.1;AES256\n6162",
        "summary": f"{{{{ {expression} }}}}",
    }
    texts = {name: f"{{{{ event.annotations.{name} }}}}" for name in notes}
    passed_on = {"texts": texts, "all": "{{ event.annotations }}"}
    action = {"run_playbook": {"name": "play.yml", "extra_vars": passed_on}}
    rule = {"name": "Pass all of it on", "condition": 'event.type == "alert"', "action": action}
    sources = [{
        "eda.builtin.webhook": {"host": "127.0.0.1", "port": port, "token": TOKEN},
        "filters": [{"runwhere.gpuctl.alert": {}}],
    }]  # fmt: skip
    ruleset = {"name": "Texts", "hosts": "all", "gather_facts": False, "sources": sources, "rules": [rule]}
    facts = {name: f"{{{{ texts.{name} }}}}" for name in notes}
    tasks = [
        {"ansible.builtin.set_fact": facts},
        {"ansible.builtin.debug": {"msg": {name: [f"{{{{ {name} }}}}", f"{{{{ {name}[0] }}}}"] for name in facts}}},
        {"ansible.builtin.debug": {"msg": "{{ item }}"}, "loop": "{{ all.values() | list }}"},
        {"ansible.builtin.copy": {"content": "{{ texts | to_json }}", "dest": str(found), "mode": "0600"}},
    ]
    (tmp_path / "rulebook.yml").write_text(yaml.safe_dump([ruleset]))
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": tasks,
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    with rulebook(tmp_path, str(tmp_path / "rulebook.yml"), {}, {}) as running:
        eventually(lambda: _post(port, {**PAYLOAD, "alerts": [{**ALERT, "annotations": notes}]}), 90)
        eventually(found.exists, 90)
        running.stop()
    told = json.loads(found.read_text())
    assert told["joined"] == f"\uff5b\uff5b {expression} }}}}", "one text, as Python reads it"
    assert set(told) == set(notes)
    assert not (tmp_path / "evil").exists()


def _fail(api: Api, name: str, log: str, description: str) -> None:
    body = job(name, run=1, code=3)
    body["metadata"].setdefault("annotations", {})["runwhere.ai/description"] = description
    body["spec"]["template"]["metadata"]["annotations"]["lab/log"] = log
    api.create("job", body, "default")


def _running_pod(api: Api, name: str) -> Any:
    pods = api.list("pod", "default", f"app={name}")
    return next((pod for pod in pods if pod["status"].get("phase") == "Running"), None)


def _pod_elsewhere(api: Api, name: str, node: str) -> Any:
    pod = _running_pod(api, name)
    return pod if pod and pod["spec"]["nodeName"] != node else None


def _lose(api: Api, node: str) -> None:
    """As the node controller does when a kubelet falls silent."""
    now = "2026-08-01T10:00:00Z"
    condition = {
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.", "lastTransitionTime": now, "lastHeartbeatTime": now,
    }  # fmt: skip
    path = f"/api/v1/nodes/{node}/status"
    status, answer = api.call(
        "PATCH", path, {"status": {"conditions": [condition]}}, "application/strategic-merge-patch+json"
    )
    assert status == 200, answer


def _post(port: int, payload: dict[str, Any]) -> bool:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/endpoint",
        json.dumps(payload).encode(),
        {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
