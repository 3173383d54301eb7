# SPDX-License-Identifier: BSD-2-Clause
"""What ends by itself: a training at its time limit, a budget of GPU-hours, and a notebook that nobody uses."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from integration.ansible import Ansible
from integration.api import Api, eventually
from integration.pools import POOL, Field
from integration.prometheus_double import Asked, Reply, prometheus_double, vector

from .jobs import GPU, NEVER, free_gpus, has_gpus, info, logged, pods
from .programs import OBEDIENT, jupyter, python, shell

# Counts for ever, saves where it is on SIGTERM, slowly, and continues from there.
COUNTER = """
import itertools, os, pathlib, signal, sys, time

checkpoint = pathlib.Path(os.environ["CHECKPOINT"])
begin = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("from step", begin)


def save(number, frame):
    time.sleep(3)
    checkpoint.write_text(str(step))
    sys.exit(143)


signal.signal(signal.SIGTERM, save)
for step in itertools.count(begin):
    time.sleep(0.25)
"""
_UNTIL_SIGTERM = 600  # seconds: the shortest time limit without what is kept for a last checkpoint
_IDLE = 300  # seconds, the shortest time


@pytest.mark.timeout(_UNTIL_SIGTERM + 300)
def test_a_training_saves_at_its_time_limit_and_continues_from_there(
    ansible: Ansible, api: Api, namespace: str, one_node: str
):
    environment = {"env": {"CHECKPOINT": f"/tmp/{namespace}"}}
    storage = {"workdirs": [{"path": "/tmp", "type": "Directory"}]}
    manifest = python(
        "training", "count", COUNTER, environment=environment, storage=storage, resources={"pool": one_node}
    )
    manifest["job"]["time_limit"] = "15m"
    started = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=NEVER)
    assert not started.failed, started.message
    assert info(ansible, namespace, "count")["time_left"].endswith("m")

    eventually(lambda: info(ansible, namespace, "count")["status"] == "TimedOut", _UNTIL_SIGTERM + 120)
    late = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_for="complete", wait_timeout=5)
    assert late.failed
    assert "the training was stopped at its time limit" in late.message
    assert "submit it again with rerun=on_failure" in late.message

    again = ansible.job(definition=manifest, namespace=namespace, rerun="on_failure", wait=True, wait_timeout=NEVER)
    assert not again.failed, again.message
    (line,) = eventually(lambda: logged(ansible, namespace, "count"))
    assert int(line.removeprefix("from step ")) > _UNTIL_SIGTERM, "what it had done until its limit is kept"


@pytest.mark.timeout(1500)
def test_a_used_up_budget_refuses_the_next_pod_with_gpus(
    ansible: Ansible, api: Api, namespace: str, field: Field, free_nodes: list[str]
):
    gpus = free_gpus(api, api.get("node", free_nodes[0])) if free_nodes else 0
    if gpus < 4:
        pytest.skip("needs a node with four free GPUs, which use up a GPU-hour in a quarter of an hour")
    limits = {"gpu": 2 * gpus, "gpu_hours": {"limit": 1}}
    quota = {"kind": "quota", "quota": {"name": namespace}, "users": {namespace: limits}}
    assert ansible.module("gpuctl_quota", definition=quota).changed
    field.set_labels(free_nodes[0], {POOL: field.pool("budget")})
    burn = shell("training", "burn", OBEDIENT, resources={"gpu": gpus, "pool": field.pool("budget")})
    started = ansible.job(definition=burn, namespace=namespace, wait=True, wait_timeout=NEVER)
    assert not started.failed, started.message

    def state() -> str:
        result = ansible.module("gpuctl_budget", namespaces=[namespace])
        assert not result.failed, result.message
        (row,) = result.result["results"]
        return str(row["state"])

    assert state() == "ok"
    eventually(lambda: state() == "used_up", 3600 / gpus + 120)

    status, answer = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", _pod_with_gpu())
    assert status == 403
    assert "exceeded quota: gpuctl-gpu-hours-until-" in answer["message"]
    late = ansible.job(
        definition=shell("training", "late", OBEDIENT, resources={"gpu": 1}),
        namespace=namespace,
        wait=True,
        wait_timeout=30,
    )
    assert late.failed
    assert "the GPU-hours of the namespace are used up until" in late.message
    assert pods(api, namespace, "late") == []
    cpu = ansible.job(definition=shell("training", "cpu", "true"), namespace=namespace, wait=True, wait_timeout=NEVER)
    assert not cpu.failed, cpu.message
    assert info(ansible, namespace, "burn")["status"] == "Running", "what runs goes on"


def _pod_with_gpu() -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/none:1", "resources": {"limits": {GPU: "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": {"containers": [container]}}


@pytest.mark.timeout(900)
def test_an_idle_notebook_is_paused_and_comes_back_with_its_files(
    cluster_admin: Ansible, api: Api, namespace: str, one_node: str
):
    """The notebook server is real, and what Prometheus says of its GPU is not."""
    if not has_gpus(api):
        pytest.skip("no node of the cluster has GPUs")
    token, text = secrets.token_hex(16), secrets.token_hex(8)
    storage = {"workdirs": [{"path": "/tmp", "type": "Directory"}]}
    resources = {"gpu": 1, "pool": one_node}
    manifest = jupyter(token, directory=f"/tmp/{namespace}", storage=storage, resources=resources)
    started = cluster_admin.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=NEVER)
    assert not started.failed, started.message
    path = f"/api/v1/namespaces/{namespace}/services/svc-lab:http/proxy/api/contents/note.txt?token={token}"
    status, answer = api.call("PUT", path, {"type": "file", "format": "text", "content": text})
    assert status == 201, answer

    def prometheus(asked: Asked) -> Reply:
        expression = asked.parameters["query"]
        if expression.startswith("count("):
            return vector()
        value = _IDLE / 3600 if "count_over_time" in expression else 0
        return vector(({"namespace": namespace, "pod": "lab-0"}, str(value)))

    with prometheus_double(prometheus) as server:

        def action() -> str:
            options = {"action": "pause", "idle_for": "5m", "grace": "1m", "prometheus_url": server.url}
            result = cluster_admin.module("gpuctl_idle", namespaces=[namespace], **options)
            assert not result.failed, result.message
            assert token not in result.screen
            (row,) = result.result["results"]
            print(row["reason"])
            assert result.changed == (row["action"] != "none")
            return str(row["action"])

        assert action() == "none"
        eventually(lambda: action() == "warn", _IDLE + 120)
        eventually(lambda: action() == "pause", 180)
    eventually(lambda: pods(api, namespace, "lab") == [], NEVER)
    assert info(cluster_admin, namespace, "lab")["status"] == "Paused"

    back = cluster_admin.job(name="lab", namespace=namespace, state="resumed", wait=True, wait_timeout=NEVER)
    assert not back.failed, back.message
    status, answer = api.call("GET", path)
    assert (status, answer["content"]) == (200, text)
