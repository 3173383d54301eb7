# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs that wait are delayed by one that runs now, and with which time limit they are not."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.declared import Declared
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_facts import placed_pod, roomy_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit import delayed_jobs
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.delayed_jobs import with_delays
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_snapshot import FitSnapshot
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.job_fit import rows_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_ends import JobEnd
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.select import SelectedJob
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
HIGH, MEDIUM, LOW = 1_000_000, 500_000, 100
CLASSES = {
    "gpuctl-high": {"value": HIGH},
    "gpuctl-medium": {"value": MEDIUM},
    "gpuctl-low": {"value": LOW, "preemptionPolicy": "Never"},
}
POOL = {"runwhere.ai/pool": "a"}


def node(name: str, **labels: str) -> Object:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {**POOL, **labels}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(job: str, on: str | None, gpus: int = 8, priority: int = MEDIUM, number: int = 0, **spec: Any) -> Object:
    main = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    metadata = {
        "name": f"{job}-{on}-{number}",
        "namespace": "team-b",
        "uid": f"{job}-{on}-{number}",
        "labels": {"app": job, "runwhere.ai/job-type": "training", **POOL},
        "creationTimestamp": "2026-03-01T10:00:00Z",
        **spec.pop("metadata", {}),
    }
    where: Object = {"nodeName": on} if on else {"nodeSelector": POOL}
    status = {"startTime": "2026-03-01T10:00:00Z"} if on else spec.pop("status", {})
    return {
        "metadata": metadata,
        "spec": {"priority": priority, "containers": [main], **where, **spec},
        "status": status,
    }


def waiting(job: str = "big", gpus: int = 8, **more: Any) -> Object:
    return pod(job, None, gpus, **more)


def training(gpu: int = 2, limit: str | None = None, *, name: str = "new", priority: str = "medium") -> SelectedJob:
    manifest = {
        "kind": "training",
        "job": {"name": name, "priority": priority, "time_limit": limit},
        "environment": {"image": "registry.example.com/ml:v1", "command": ["run"]},
        "resources": {"pool": "a", "gpu": gpu, "cpu": "1", "memory": "1Gi"},
    }
    model = Training.model_validate(manifest)
    return SelectedJob("team-a", name, "training", model=model).built(Declared())


def ends(**hours: float) -> dict[tuple[str, str], JobEnd]:
    return {("team-b", name): JobEnd(NOW + timedelta(hours=one), "deadline") for name, one in hours.items()}


def judged(
    nodes: list[Object],
    pods: list[Object],
    *jobs: SelectedJob,
    known: dict[tuple[str, str], JobEnd] | None = None,
    declared: Declared | None = None,
    **lists: Any,
) -> list[Object]:
    lists = {"priority_classes": CLASSES, **lists}
    snapshot = FitSnapshot([roomy_node(one) for one in nodes], [placed_pod(one) for one in pods], **lists)
    return rows_of(
        snapshot, jobs, declared or Declared(), ends(old=5) if known is None else known, NOW, with_delays=with_delays
    )


def names(row: Object) -> list[str]:
    return [one["name"] for one in row["delays"]]


OLD = pod("old", "n1", 4)


def test_a_job_that_takes_what_another_one_is_about_to_get() -> None:
    (row,) = judged([node("n1")], [OLD, waiting()], training())
    assert row["verdict"] == "now"
    assert row["reason"] == (
        "It runs now: on n1. Unless it ends within 5 h, it delays job team-b/big, which runs then without it."
    )
    assert row["hint"] == "With job.time_limit 4h, it ends before that."
    assert row["delays"] == [{"namespace": "team-b", "name": "big", "runs_at": "2026-03-01T17:00:00Z"}]
    assert row["backfill_limit"] == "4h"


def test_a_limit_that_is_too_long_is_named() -> None:
    (row,) = judged([node("n1")], [OLD, waiting()], training(limit="1d"))
    assert row["hint"] == "With job.time_limit 4h instead of 1d, it ends before that."


@pytest.mark.parametrize(("limit", "expected"), [("301m", ["big"]), ("5h", []), ("4h", [])])
def test_a_job_that_ends_in_time_delays_nothing(limit: str, expected: list[str]) -> None:
    (row,) = judged([node("n1")], [OLD, waiting()], training(limit=limit))
    assert names(row) == expected


def test_nobody_waits() -> None:
    (row,) = judged([node("n1")], [OLD], training())
    assert (row["delays"], row["backfill_limit"], row["hint"]) == ([], None, None)
    assert row["reason"] == "It runs now: on n1."


def spread(how: str) -> Object:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": how}]}


POOL_B = {"runwhere.ai/pool": "b"}
IN_B = {"labels": {"runwhere.ai/job-type": "training", **POOL_B}}
LATER = {"creationTimestamp": "2026-03-01T11:00:00Z"}
N1, N2 = node("n1"), node("n2")
CASES: dict[str, tuple[list[Object], list[Object], list[str]]] = {
    "it may run elsewhere": ([N1, N2], [OLD, pod("x", "n2", 6), waiting()], []),
    "elsewhere there is too little": ([N1, N2], [OLD, pod("x", "n2", 7), waiting()], ["big"]),
    "there is room for both": ([N1], [OLD, waiting(gpus=6)], []),
    "the other one may run elsewhere then": ([N1, N2], [OLD, pod("old", "n2", 4), waiting()], []),
    "another pool": ([N1], [OLD, waiting(nodeSelector=POOL_B, metadata=IN_B)], []),
    "it waits for no job": ([N1], [OLD, waiting(gpus=9)], []),
    "what it waits for does not end": ([N1], [pod("x", "n1", 4), waiting()], []),
    "what it waits for is overdue": ([N1], [pod("late", "n1", 4), waiting()], []),
    "one of what it waits for does not end": ([N1], [OLD, pod("x", "n1", 2), waiting()], []),
    "it preempts the new one": ([N1], [pod("old", "n1", 4, HIGH), waiting(priority=HIGH)], []),
    "it never preempts": (
        [N1],
        [pod("old", "n1", 4, HIGH), waiting(priority=HIGH, preemptionPolicy="Never")],
        ["big"],
    ),
    "it preempts what runs": ([N1], [pod("old", "n1", 4, LOW), waiting()], []),
    "a less important one": ([N1], [OLD, waiting(priority=LOW, preemptionPolicy="Never")], ["big"]),
    "a pod of none of our jobs": ([N1], [OLD, waiting(metadata={"labels": {"app": "big"}})], []),
    "one that is deleted": ([N1], [OLD, waiting(metadata={"deletionTimestamp": "2026-03-01T11:00:00Z"})], []),
    "one that room is kept for": ([N1], [OLD, waiting(priority=LOW, status={"nominatedNodeName": "n1"})], []),
    "one with gates": ([N1], [OLD, waiting(schedulingGates=[{"name": "queue"}])], []),
    "one of another scheduler": ([N1], [OLD, waiting(schedulerName="volcano")], []),
    "one that claims devices": ([N1], [OLD, waiting(resourceClaims=[{"name": "gpu"}])], []),
    "one with volumes that are not known": (
        [N1],
        [OLD, waiting(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}])],
        [],
    ),
    "one that has to be spread": ([N1], [OLD, waiting(**spread("DoNotSchedule"))], []),
    "one that should be spread": ([N1], [OLD, waiting(**spread("ScheduleAnyway"))], ["big"]),
    "pods that differ": ([N1, N2], [OLD, pod("x", "n2"), waiting(), waiting(gpus=7, number=1)], []),
    "part of it runs": ([N1, N2], [OLD, pod("big", "n2"), waiting()], ["big"]),
    "it waits for its own pods": ([N1], [OLD, pod("big", "n1", 1), waiting()], []),
    "pods that need two nodes": (
        [N1, N2],
        [OLD, pod("old", "n2", 8), waiting(), waiting(number=1)],
        ["big"],
    ),
    "a gang": (
        [N1, N2],
        [OLD, pod("old", "n2", 8), *(waiting(number=each, schedulingGroup={"podGroupName": "g"}) for each in (0, 1))],
        ["big"],
    ),
    "the first of two gets the room": ([N1], [OLD, waiting(), waiting("late", metadata=LATER)], ["big"]),
    "the more important of two gets the room": ([N1], [OLD, waiting(priority=LOW), waiting("late")], ["late"]),
    "it gets what another one leaves": (
        [N1],
        [pod("old", "n1", 6), waiting(gpus=4), waiting("late", 4, metadata=LATER)],
        ["late"],
    ),
    "one whose start is not known goes first": (
        [N1],
        [OLD, waiting("odd", schedulerName="volcano"), waiting(metadata=LATER)],
        [],
    ),
    "one that may take a part of its room before": (
        [N1],
        [pod("old", "n1", 4), pod("x", "n1", 1), waiting(), waiting("two", 4), waiting("two", 4, number=1)],
        [],
    ),
    "only the first five are looked at": (
        [N1],
        [OLD, *(waiting(f"w{each}", 9) for each in range(5)), waiting(metadata=LATER)],
        [],
    ),
    "those of other pools do not count": (
        [N1],
        [OLD, *(waiting(f"w{each}", nodeSelector=POOL_B, metadata=IN_B) for each in range(60)), waiting()],
        ["big"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_who_is_delayed(case: str) -> None:
    nodes, pods, expected = CASES[case]
    (row,) = judged(nodes, pods, training(), known=ends(old=5, late=-1))
    assert row["verdict"] == "now"
    assert names(row) == expected


SOONER = pod("sooner", "n1", 2)


@pytest.mark.parametrize(
    ("limit", "delayed", "advised"), [(None, ["one", "two"], "5h"), ("7h", ["one"], "5h"), ("5h", [], None)]
)
def test_the_first_that_is_delayed_decides(limit: str | None, delayed: list[str], advised: str | None) -> None:
    pods = [OLD, SOONER, waiting("two", 5, metadata=LATER), waiting("one", 3)]
    (row,) = judged([N1], pods, training(2, limit), known=ends(old=9, sooner=6))
    assert names(row) == delayed
    assert row["backfill_limit"] == advised
    if limit is None:
        assert "it delays jobs team-b/one, team-b/two, the first of which runs then without it." in row["reason"]


def test_a_less_important_one_that_gets_room_sooner_keeps_it() -> None:
    """At 6 h ``one`` finds room for its pod, and ``big`` no longer does at 9 h: it was not known to run then."""
    pods = [OLD, SOONER, waiting("one", 3, metadata=LATER), waiting("big", 8)]
    (row,) = judged([N1], pods, training(2), known=ends(old=9, sooner=6))
    assert names(row) == ["one"]


def test_one_of_two_nodes_is_left() -> None:
    """Whichever it takes, it delays one of both; which one is not known."""
    pods = [OLD, pod("older", "n2", 4), waiting("one"), waiting("two", metadata=LATER)]
    rows = judged([N1, N2], pods, training(4), training(4, name="x"), known=ends(old=9, older=9))
    assert [names(row) for row in rows] == [["two"], ["two"]]


def test_jobs_of_a_task_are_looked_at_one_by_one() -> None:
    jobs = [training(1, name=f"new-{number}", limit=f"{number + 10}h") for number in range(3)]
    short = training(1, "4h", name="short")
    rows = judged([N1], [OLD, waiting()], jobs[0], short, *jobs[1:])
    assert [(row["name"], names(row)) for row in rows] == [
        ("new-0", ["big"]),
        ("short", []),
        ("new-1", ["big"]),
        ("new-2", ["big"]),
    ]


def test_of_very_many_unlike_jobs_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_jobs, "_UNLIKE", 2)
    limits = ["6h", "7h", "8h", "6h"]
    rows = judged([N1], [OLD, waiting()], *(training(1, limit, name=f"n{at}") for at, limit in enumerate(limits)))
    assert [bool(row["delays"]) for row in rows] == [True, True, False, True]


def test_a_pool_that_grows_may_get_a_node_before() -> None:
    pools = {"a": Declaration("a", hardware=PoolHardware(new_nodes={"max": 8, "gpu": 8}))}
    (row,) = judged([N1], [OLD, waiting()], training(), declared=Declared(pools))
    assert names(row) == []


def test_a_job_that_runs_already_or_waits_itself_takes_nothing_new() -> None:
    for own in (
        pod("new", "n1", 2, metadata={"namespace": "team-a"}),
        waiting("new", metadata={"namespace": "team-a"}),
    ):
        (row,) = judged([N1], [OLD, waiting(), own], training())
        assert (row["verdict"], names(row)) == ("now", [])


def test_what_is_used_of_a_quota_is_counted_once() -> None:
    """The pods that wait have been let in."""
    hard = {"requests.nvidia.com/gpu": "12"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": hard}}
    (row,) = judged([N1], [OLD, waiting()], training(), quotas={"team-b": [quota], "team-a": []})
    assert names(row) == ["big"]


def test_without_the_pods_of_others_nothing_is_known() -> None:
    snapshot = FitSnapshot([roomy_node(N1)], None, priority_classes=CLASSES)
    (row,) = rows_of(snapshot, [training()], Declared(), {}, NOW, with_delays=with_delays)
    assert (row["verdict"], row["delays"], row["backfill_limit"]) == ("unknown", [], None)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (0.2, None),
        (0.33, None),
        (0.34, "15m"),
        (1.2, "1h"),
        (1.4, "75m"),
        (3.08, "165m"),
        (3.09, "3h"),
        (5, "4h"),
        (48.1, "2d"),
        (99, "98h"),
        (24 * 1000, "366d"),
    ],
)
def test_a_limit_is_one_that_a_person_gives(hours: float, expected: str | None) -> None:
    (row,) = judged([N1], [OLD, waiting()], training(), known=ends(old=hours))
    assert row["backfill_limit"] == expected
    assert names(row) == ["big"]
    assert (row["hint"] is None) == (expected is None)
    if expected:
        assert names(judged([N1], [OLD, waiting()], training(limit=expected), known=ends(old=hours))[0]) == []
