# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that lose their node, to a higher priority or because it dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from integration.ansible import Ansible
from integration.api import Api, eventually
from integration.pools import POOL, Field

from . import settings
from .jobs import free_gpus, info, pods, reason
from .programs import OBEDIENT, shell

NOTICED = 180  # seconds until a node that is silent counts as not ready; the default is 50
TOLERATED = 20  # seconds until its pods are evicted; the default is 300


def running_on(api: Api, namespace: str, name: str) -> set[str]:
    """The nodes of the pods that are not being deleted."""
    return {
        pod["spec"].get("nodeName", "")
        for pod in pods(api, namespace, name)
        if not pod["metadata"].get("deletionTimestamp")
    }


# -- preemption -------------------------------------------------------------------------------------------------------


def test_a_job_that_was_preempted_says_by_whom(ansible: Ansible, api: Api, namespace: str, one_node: str, field: Field):
    (node,) = field.members("one")
    gpus = free_gpus(api, api.get("node", node))
    if not gpus:
        pytest.skip(f"node {node} has no free GPUs")

    def submit(name: str, priority: str) -> None:
        job = shell("training", name, OBEDIENT, job={"priority": priority}, resources={"gpu": gpus, "pool": one_node})
        result = ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=120)
        assert not result.failed, result.message

    submit("small-fry", "low")
    submit("big-fish", "high")
    text = reason(ansible, namespace, "small-fry", "preempted by job big-fish")
    assert node in text
    assert info(ansible, namespace, "small-fry")["status"] == "Pending"

    ansible.job(name="big-fish", namespace=namespace, state="absent")
    eventually(lambda: info(ansible, namespace, "small-fry")["status"] == "Running")
    row = info(ansible, namespace, "small-fry")
    assert row["reason"] is None
    assert not api.get("job", "small-fry", namespace)["status"].get("failed"), "it costs no retry"


# -- a dead node ------------------------------------------------------------------------------------------------------


@pytest.fixture
def dying_pool(field: Field, free_nodes: list[str]) -> tuple[str, str, str]:
    """A node to stop, another one, and a pool that has the first."""
    settings.node_commands()
    if len(free_nodes) < 2:
        pytest.skip("needs two nodes that are ready, without taints and in no pool")
    node, other = free_nodes[:2]
    pool = field.pool("dying")
    field.set_labels(node, {POOL: pool})
    return node, other, pool


@contextmanager
def dead(api: Api, node: str) -> Iterator[None]:
    stop, start = settings.node_commands()
    settings.run_for_node(stop, node)
    try:
        eventually(lambda: ready(api, node) != "True", NOTICED)
        yield
    finally:
        settings.run_for_node(start, node)
        eventually(lambda: ready(api, node) == "True", NOTICED)


def ready(api: Api, node: str) -> str:
    conditions = api.get("node", node)["status"]["conditions"]
    return next(str(condition["status"]) for condition in conditions if condition["type"] == "Ready")


def evict_early(api: Api, namespace: str) -> None:
    """Pods get five minutes on a dead node. The controller reads that when the node gets its taint."""
    for pod in api.list("pod", namespace):
        tolerations = [
            {**toleration, "tolerationSeconds": TOLERATED} if "tolerationSeconds" in toleration else toleration
            for toleration in pod["spec"]["tolerations"]
        ]
        api.patch("pod", pod["metadata"]["name"], {"spec": {"tolerations": tolerations}}, namespace)


@pytest.mark.timeout(900)
def test_the_jobs_of_a_dead_node(
    ansible: Ansible, api: Api, namespace: str, field: Field, dying_pool: tuple[str, str, str]
):
    node, other, pool = dying_pool
    resources = {"pool": pool}
    jobs: dict[str, dict[str, Any]] = {
        "train": shell("training", "train", OBEDIENT, resources=resources),
        "dist": shell("training", "dist", OBEDIENT, resources={**resources, "node_count": 2}),
        "lab": shell("compute", "lab", OBEDIENT, resources=resources),
    }
    result = ansible.job(definition=list(jobs.values()), namespace=namespace, wait=True, wait_timeout=120)
    assert not result.failed, result.message
    evict_early(api, namespace)
    field.set_labels(other, {POOL: pool})

    with dead(api, node):
        # They say so, in info and when they are waited for.
        for name in ("lab", "train", "dist"):  # first the one that gets another pod
            text = reason(ansible, namespace, name, f"node {node}", "not been ready since")
            assert "Kubelet stopped posting node status" in text
        assert "state=restarted with force=true" in reason(ansible, namespace, "train")
        waited = ansible.job(definition=jobs["train"], namespace=namespace, wait=True, wait_timeout=5)
        assert waited.failed
        assert f"node {node}" in waited.message

        # Its logs are missing because of the node, and not because of a connection.
        logs = ansible.module("gpuctl_job_log", name="train", namespace=namespace)
        said = " ".join([logs.message, logs.screen])
        assert f"node {node}" in said
        assert "dial tcp" not in said
        assert "HTTP 500" not in said

        # After the eviction too. Only the Deployment gets another pod by itself.
        def evicted(name: str) -> bool:
            return all(
                "deletionTimestamp" in pod["metadata"]
                for pod in pods(api, namespace, name)
                if pod["spec"].get("nodeName") == node
            )

        eventually(lambda: evicted("train") and evicted("dist"), 120)
        for name in ("train", "dist"):
            reason(ansible, namespace, name, f"node {node}", "not been ready since")
        eventually(lambda: info(ansible, namespace, "lab")["status"] == "Running")

        # force does not wait for the node.
        for name in ("train", "dist"):
            result = ansible.job(
                name=name, namespace=namespace, state="restarted", force=True, wait=True, wait_timeout=60
            )
            assert not result.failed, result.message
            assert running_on(api, namespace, name) == {other}
        assert api.get("service", "svc-dist", namespace), "its headless Service is there"
        uids = {name: api.get("job", name, namespace)["metadata"]["uid"] for name in ("train", "dist")}

    # The node that comes back takes nothing away.
    eventually(lambda: all(running_on(api, namespace, name) == {other} for name in jobs))
    assert {name: api.get("job", name, namespace)["metadata"]["uid"] for name in uids} == uids
    assert {row["status"] for row in ansible.module("gpuctl_job_info", namespaces=[namespace]).result["results"]} == {
        "Running"
    }


@pytest.mark.timeout(900)
def test_a_notebook_of_a_dead_node(
    ansible: Ansible, api: Api, namespace: str, field: Field, dying_pool: tuple[str, str, str]
):
    """A StatefulSet never has two pods of one name: it waits for the dead one, unless force removes it."""
    node, other, pool = dying_pool
    server = "exec python3 -m http.server 8888"
    manifest = shell("notebook", "lab", server, resources={"pool": pool})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=120)
    assert not result.failed, result.message
    field.set_labels(other, {POOL: pool})

    with dead(api, node):
        reason(ansible, namespace, "lab", f"node {node}", "not been ready since", "force=true")
        result = ansible.job(name="lab", namespace=namespace, state="restarted", force=True, wait=True, wait_timeout=60)
        assert not result.failed, result.message
        assert running_on(api, namespace, "lab") == {other}
    eventually(lambda: running_on(api, namespace, "lab") == {other})
    assert info(ansible, namespace, "lab")["status"] == "Running"
