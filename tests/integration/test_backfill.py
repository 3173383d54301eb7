# SPDX-License-Identifier: BSD-2-Clause
"""What runs now in the room that a waiting job is about to get: gpuctl_fit_info and submit --check name the job that is
delayed, and the time limit with which it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import advised
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE as FIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_info import MODULE as JOB_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fit_report import fit_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import changes_screen
from kubesim import Cluster

from .api import eventually
from .manifests import inference, training
from .tasks import perform

OTHERS = "team-b"
Row = dict[str, Any]


def pool(name: str, *nodes: str) -> Row:
    return {"kind": "pool", "pool": {"name": name}, "nodes": list(nodes)}


def job(name: str, gpu: int, limit: str | None = None, *, pool: str = "a", priority: str = "medium") -> Row:
    block = {"name": name, "priority": priority, **({"time_limit": limit} if limit else {})}
    return training(name, job=block, resources={"gpu": gpu, "pool": pool})


def submit(cluster: Cluster, *jobs: Row, waits: bool = False) -> None:
    done = perform(JOB, cluster, definition=list(jobs), namespace=OTHERS, wait=not waits, wait_timeout=60)
    assert not done.get("failed"), done["msg"]
    if waits:
        names = {each["job"]["name"] for each in jobs}
        eventually(lambda: names <= {pod["metadata"]["labels"]["app"] for pod in refused_pods(cluster)}, 30)


def pods_of(cluster: Cluster) -> list[Row]:
    return [one for one in cluster.objects() if one["kind"] == "Pod"]


def refused_pods(cluster: Cluster) -> list[Row]:
    """Those that the scheduler has found no node for."""
    return [
        pod
        for pod in pods_of(cluster)
        if any(one.get("reason") == "Unschedulable" for one in pod["status"].get("conditions") or ())
    ]


def runs(cluster: Cluster, name: str) -> bool:
    return any(
        pod["metadata"]["labels"].get("app") == name and pod["status"].get("phase") == "Running"
        for pod in pods_of(cluster)
    )


def judged(cluster: Cluster, *jobs: Row) -> Row:
    (row, *_others) = perform(FIT, cluster, definition=list(jobs), namespace="default")["results"]
    return {name: row[name] for name in ("verdict", "delays", "backfill_limit", "hint")}


UNDISTURBED = {"verdict": "now", "delays": [], "backfill_limit": None, "hint": None}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Of pool a, half of one node is in use for five hours, and the other node for good. Pool b is free."""
    with Cluster(nodes=3).running() as found:
        found.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHERS}}])
        for one in (pool("a", "node-1", "node-2"), pool("b", "node-3")):
            assert perform(POOL, found, definition=one)["changed"]
        submit(found, inference("serve", job={"priority": "high"}, resources={"gpu": 8, "pool": "a"}))
        submit(found, job("half", 4, "5h", priority="high"))
        yield found


def test_a_job_that_would_keep_a_waiting_one_from_its_room_says_until_when_it_may_run(cluster: Cluster) -> None:
    assert judged(cluster, job("small", 2)) == UNDISTURBED
    submit(cluster, job("big", 8), waits=True)
    (half,) = perform(JOB_INFO, cluster, name="half", all_namespaces=True)["results"]
    delays = [{"namespace": OTHERS, "name": "big", "runs_at": half["ends_at"]}]
    hint = "With job.time_limit 4h instead of 20h, it ends before that."
    expected = {"verdict": "now", "delays": delays, "backfill_limit": "4h", "hint": hint}
    assert judged(cluster, job("small", 2, "20h")) == expected
    assert judged(cluster, job("small", 2)) == {**expected, "hint": hint.replace(" instead of 20h", "")}
    assert judged(cluster, job("small", 2, "4h")) == UNDISTURBED
    assert judged(cluster, job("small", 2, pool="b")) == UNDISTURBED

    # Check mode says the same, on its short screen too; the report of fit does.
    wanted = job("small", 2, "20h")
    checked = perform(advised(JOB), cluster, check=True, definition=[wanted], namespace="default")
    (row,) = checked["results"]
    assert {name: row["fit"][name] for name in expected} == expected
    told = perform(FIT, cluster, definition=[wanted], namespace="default")
    screens = (
        changes_screen(
            checked["results"], checked["msg"], 80, everything=False, paint=lambda _key, text: text, predicts=True
        ),
        screen_lines(fit_report(told), View(80)),
    )
    for screen in screens:
        text = " ".join(" ".join(screen).split())
        assert re.search(r"Unless it ends within [45] h, it delays job team-b/big, which runs then without it\.", text)
        assert hint in text

    # The cluster agrees: while it runs, the room that ends is not enough.
    submit(cluster, wanted)
    assert perform(JOB, cluster, name="half", namespace=OTHERS, state="absent", wait=True)["changed"]
    eventually(lambda: not runs(cluster, "half"), 30)
    assert not runs(cluster, "big")
    assert perform(JOB, cluster, name="small", namespace=OTHERS, state="absent", wait=True)["changed"]
    eventually(lambda: runs(cluster, "big"), 30)


def test_what_a_more_important_job_preempts_does_not_delay_it(cluster: Cluster) -> None:
    submit(cluster, job("big", 8, priority="high"), waits=True)
    assert judged(cluster, job("small", 2)) == UNDISTURBED
    assert judged(cluster, job("small", 2, priority="high"))["backfill_limit"] == "4h"
    # The cluster agrees.
    submit(cluster, job("small", 2))
    assert perform(JOB, cluster, name="half", namespace=OTHERS, state="absent", wait=True)["changed"]
    eventually(lambda: runs(cluster, "big"), 30)


def test_nothing_is_said_of_a_job_whose_start_is_not_known(cluster: Cluster) -> None:
    submit(cluster, job("half", 4, priority="high"))  # without its limit
    submit(cluster, job("big", 8), waits=True)
    assert judged(cluster, job("small", 2)) == UNDISTURBED


def test_an_account_that_sees_only_its_namespace_claims_nothing(cluster: Cluster) -> None:
    submit(cluster, job("big", 8), waits=True)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "own", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    cluster.load([binding, account])
    options = {"definition": [job("small", 2)], "namespace": "default"}
    (row,) = perform(FIT, cluster, **options, api_key=cluster.service_account_token("default", "default"))["results"]
    assert (row["verdict"], row["delays"], row["backfill_limit"]) == ("unknown", [], None)


def test_who_waits_costs_no_requests(cluster: Cluster) -> None:
    def requests(*jobs: Row) -> list[str]:
        cluster.requests.reset()
        found = judged(cluster, *jobs)
        assert bool(found["delays"]) == bool(refused_pods(cluster))
        return sorted(f"{entry.verb} {entry.resource}" for entry in cluster.requests)

    requests(job("small", 2))  # A first task reads what later ones know.
    before = requests(job("small", 2))
    submit(cluster, job("big", 8), waits=True)
    assert requests(job("small", 2)) == before
    submit(cluster, *(job(f"big-{number}", 8) for number in range(30)), waits=True)
    assert requests(*(job(f"small-{number}", 1, f"{number + 6}h") for number in range(30))) == before
    assert cluster.requests.writes() == []
