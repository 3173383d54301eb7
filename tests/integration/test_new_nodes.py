# SPDX-License-Identifier: BSD-2-Clause
"""Pools to which an autoscaler adds nodes, also at 0 nodes: what is declared of these (new_nodes)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import advised
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE as FIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from kubesim import Cluster

from .manifests import training
from .tasks import perform

NEW = {"max": 2, "gpu": 8, "gpu-type": "H100", "cpu": 64}
BURST: dict[str, Any] = {"kind": "pool", "pool": {"name": "burst"}, "new_nodes": NEW}
EMPTY = "Pool burst has no nodes."
MAY_GET = "of 2 that pool burst may still get."
NO_HELP = "The nodes that pool burst may still get do not help (2; max 2, gpu 8, gpu_type H100, cpu 64)."


def job(name: str = "llm", **resources: Any) -> dict[str, Any]:
    return training(name, resources={"gpu": 8, "pool": "burst", **resources})


def fit(cluster: Cluster, **resources: Any) -> tuple[str, str]:
    (row,) = perform(FIT, cluster, definition=[job(**resources)])["results"]
    return row["verdict"], row["reason"]


def add_node(cluster: Cluster, name: str) -> None:
    """What an autoscaler does, by the template of the node group."""

    def label(node: dict[str, Any]) -> None:
        node["metadata"]["labels"]["runwhere.ai/pool"] = "burst"

    cluster.call(lambda: cluster.registry.modify("Node", None, name, label))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as found:
        assert perform(POOL, found, definition=BURST)["changed"]
        assert not perform(POOL, found, definition=BURST)["changed"]
        yield found


@pytest.mark.parametrize(
    ("resources", "verdict", "reason"),
    [
        ({}, "after_nodes", f"{EMPTY} It runs after 1 node is added, {MAY_GET}"),
        ({"node_count": 2}, "after_nodes", f"{EMPTY} It runs after 2 nodes are added, {MAY_GET}"),
        ({"gpu-type": "h100"}, "after_nodes", f"{EMPTY} It runs after 1 node is added, {MAY_GET}"),
        ({"node_count": 3}, "never", f"{EMPTY} {NO_HELP}"),
        ({"gpu": 16}, "never", f"{EMPTY} {NO_HELP}"),
        ({"cpu": 96}, "never", f"{EMPTY} {NO_HELP}"),
        ({"gpu-type": "A100"}, "never", f"{EMPTY} {NO_HELP}"),
    ],
    ids=["one", "two", "type", "too many", "too large", "too few CPUs", "another type"],
)
def test_fit_says_what_runs_after_nodes_are_added(
    cluster: Cluster, resources: dict[str, Any], verdict: str, reason: str
) -> None:
    assert fit(cluster, **resources) == (verdict, reason)


def test_nodes_that_are_there_count(cluster: Cluster) -> None:
    add_node(cluster, "node-2")
    assert fit(cluster)[0] == "now"
    assert fit(cluster, node_count=2)[1].endswith("It runs after 1 node is added, of 1 that pool burst may still get.")
    assert perform(JOB, cluster, definition=[job("other")], wait=True, wait_timeout=60)["changed"]
    assert fit(cluster)[1].endswith("It runs after 1 node is added, of 1 that pool burst may still get.")
    add_node(cluster, "node-1")
    assert fit(cluster, node_count=2)[0] == "after_jobs"


def test_other_jobs_of_the_task_have_the_free_nodes(cluster: Cluster) -> None:
    add_node(cluster, "node-2")
    first, second = perform(FIT, cluster, definition=[job("one"), job("two")])["results"]
    assert first["verdict"] == "now"
    assert second["verdict"] == "after_nodes"
    for row, text in (
        (first, "node-2."),
        (second, "It runs after 1 node is added, of 1 that pool burst may still get."),
    ):
        other = "two" if row is first else "one"
        either = f"Job default/{other} of this task needs its room too, and whichever is created first gets it."
        assert row["reason"].endswith(f"{text} {either}")
    both = perform(FIT, cluster, definition=[job("one"), job("two", node_count=2)])["results"]
    assert [row["verdict"] for row in both] == ["now", "after_nodes"]
    assert both[1]["reason"].endswith("It runs after other jobs have ended and pool burst has got more nodes.")


def test_running_jobs_may_have_to_end_as_well(cluster: Cluster) -> None:
    add_node(cluster, "node-2")
    assert perform(JOB, cluster, definition=[job("other")], wait=True, wait_timeout=60)["changed"]
    verdict, reason = fit(cluster, node_count=2)
    assert verdict == "after_nodes"
    assert reason.endswith("It runs after other jobs have ended and pool burst has got more nodes.")


def test_a_pool_with_more_nodes_than_declared_gets_none(cluster: Cluster) -> None:
    perform(POOL, cluster, definition={**BURST, "new_nodes": {**NEW, "max": 1}})
    for name in ("node-1", "node-2"):
        add_node(cluster, name)
    verdict, reason = fit(cluster, node_count=3)
    assert verdict == "never"
    assert "-1" not in reason


def test_a_job_waits_for_the_first_node_of_its_pool(cluster: Cluster) -> None:
    for asked in (False, True):
        checked = perform(advised(JOB), cluster, definition=[job()], check=True, predict=True, wait_for_nodes=asked)
        assert checked["results"][0]["fit"]["verdict"] == "after_nodes"
        assert checked["warnings"] == []
    late = perform(JOB, cluster, definition=[job()], wait=True, wait_timeout=3)
    assert "is not ready after 3 s" in late["msg"], "a lack of nodes is not final"
    assert late["warnings"] == []
    add_node(cluster, "node-2")
    assert "failed" not in perform(JOB, cluster, definition=[job()], wait=True, wait_timeout=60)


def test_a_pool_that_does_not_grow_is_given_up_at_once(cluster: Cluster) -> None:
    perform(POOL, cluster, name="burst", new_nodes={})
    over = perform(JOB, cluster, definition=[job()], wait=True, wait_timeout=60)
    assert "cannot become ready" in over["msg"] or "pool burst has no nodes" in over["msg"]
    assert "after 60 s" not in over["msg"]
    assert fit(cluster)[0] == "never"


def test_the_nodes_of_an_autoscaler_keep_their_labels(cluster: Cluster) -> None:
    add_node(cluster, "node-2")
    cluster.requests.reset()
    for purge in (True, False):
        run = perform(POOL, cluster, definition={**BURST, "nodes": []}, purge=purge)
        assert not run["changed"], run
    assert [each.path for each in cluster.requests.writes() if "/nodes/" in each.path] == []
    assert perform(POOL, cluster, name="burst", remove_nodes=["node-2"])["results"][0]["removed"] == ["node-2"]
    add_node(cluster, "node-2")
    assert perform(POOL, cluster, name="burst", state="absent")["results"][0]["removed"] == ["node-2"]


def test_wrong_declarations_are_refused(cluster: Cluster) -> None:
    for wrong, place in (({"gpu": 8}, "new_nodes.max"), ({**NEW, "gpus": 8}, "new_nodes.gpus")):
        run = perform(POOL, cluster, definition={**BURST, "new_nodes": wrong})
        assert run["failed"]
        assert place in run["msg"], run["msg"]
