# SPDX-License-Identifier: BSD-2-Clause
"""What has happened between two looks at a job."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.job_transitions import (
    Known,
    PodsOfJob,
    deletion,
    job_transitions,
    known_at_first,
    recorded_end,
    settled,
)

NOW = datetime(2026, 8, 1, 12, 0, 0, tzinfo=timezone.utc)
PATIENCE = timedelta(hours=2)


def at(minute: int, second: int = 0) -> str:
    return f"2026-08-01T11:{minute:02}:{second:02}Z"


def condition(type: str, time: str, status: str = "True") -> dict[str, Any]:
    return {"type": type, "status": status, "lastTransitionTime": time}


def training(*conditions: dict[str, Any], queue: str = "", **status: Any) -> dict[str, Any]:
    """A Job with two pods; ``suspend`` follows the condition."""
    suspended = any(one["type"] == "Suspended" and one["status"] == "True" for one in conditions)
    labels = {"app": "llm", **({"kueue.x-k8s.io/queue-name": queue} if queue else {})}
    return {
        "kind": "Job",
        "metadata": {
            "name": "llm", "namespace": "ml", "uid": "u", "creationTimestamp": at(0), "labels": labels, "generation": 1,
        },
        "spec": {"parallelism": 2, "completions": 2, "suspend": suspended},
        "status": {"conditions": list(conditions), **status},
    }  # fmt: skip


def changed(workload: dict[str, Any]) -> dict[str, Any]:
    """The same after a change of its spec."""
    return {**workload, "metadata": {**workload["metadata"], "generation": 2}}


def service(replicas: int = 1, ready: int = 0, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "ml", "uid": "u", "creationTimestamp": at(0), "generation": 7},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready, "observedGeneration": 7, "conditions": list(conditions)},
    }


RUNS = {"active": 2, "ready": 2}
RAN = PodsOfJob(started_at=at(5), ran=True)
NEW = Known("ml", "llm", "", at(0))
PENDING = NEW._replace(status="Pending")
RUNNING = PENDING._replace(status="Running", since=at(5), started=True)
PAUSED = RUNNING._replace(status="Paused", since=at(10), flipped=at(10))

# What is seen, what is known, what the pods say -> type and time of each transition.
CASES: dict[str, tuple[dict[str, Any], Known, PodsOfJob, list[tuple[str, str | None]]]] = {
    "a new job": (training(), NEW, PodsOfJob(), [("job.submitted", at(0))]),
    "a new job that runs already": (
        training(**RUNS), NEW, RAN, [("job.submitted", at(0)), ("job.started", at(5))],
    ),
    "a job whose whole life was missed": (
        training(condition("Complete", at(30)), succeeded=2, completionTime=at(30)), NEW, RAN,
        [("job.submitted", at(0)), ("job.started", at(5)), ("job.succeeded", at(30))],
    ),
    "its start is unknown": (
        training(condition("Complete", at(30)), succeeded=2, completionTime=at(30)), PENDING, PodsOfJob(),
        [("job.started", None), ("job.succeeded", at(30))],
    ),
    "a failure before any container ran": (
        training(condition("Failed", at(30))), PENDING, PodsOfJob(), [("job.failed", at(30))],
    ),
    "a failure": (training(condition("Failed", at(30))), RUNNING, RAN, [("job.failed", at(30))]),
    "its last pods still end": (training(condition("FailureTarget", at(30))), RUNNING, RAN, [("job.failed", at(30))]),
    "nothing new": (training(**RUNS), RUNNING, RAN, []),
    "a job that has been reported as failed": (
        training(condition("Failed", at(30))), RUNNING._replace(status="Failed"), RAN, [],
    ),
    "a partly running job has not started": (training(active=2, ready=1), PENDING, RAN, []),
    "a pause": (training(condition("Suspended", at(10))), RUNNING, RAN, [("job.paused", at(10))]),
    "a resumption": (training(condition("Suspended", at(20), "False")), PAUSED, PodsOfJob(), [("job.resumed", at(20))]),
    "a resumption, and it runs": (
        training(condition("Suspended", at(20), "False"), **RUNS), PAUSED, PodsOfJob(at(21), True),
        [("job.resumed", at(20)), ("job.started", at(21))],
    ),
    "a pause and a resumption that were missed": (
        training(condition("Suspended", at(20), "False"), **RUNS), RUNNING, PodsOfJob(at(21), True),
        [("job.paused", None), ("job.resumed", at(20)), ("job.started", at(21))],
    ),
    "a resumption and a pause that were missed": (
        training(condition("Suspended", at(30))), PAUSED, PodsOfJob(), [("job.resumed", None), ("job.paused", at(30))],
    ),
    "a job that is created paused": (
        training(condition("Suspended", at(0, 1))), NEW, PodsOfJob(), [("job.submitted", at(0))],
    ),
    "a job that is paused right after its creation": (
        changed(training(condition("Suspended", at(0, 1)))), NEW, PodsOfJob(),
        [("job.submitted", at(0)), ("job.paused", at(0, 1))],
    ),
    "a job that waits in a queue of Kueue": (
        training(condition("Suspended", at(0, 1)), queue="q"), NEW, PodsOfJob(), [("job.submitted", at(0))],
    ),
    "Kueue admits it": (
        training(condition("Suspended", at(2), "False"), queue="q", **RUNS), PENDING._replace(flipped=at(0, 1)), RAN,
        [("job.started", at(5))],
    ),
    "Kueue evicts it": (
        training(condition("Suspended", at(40)), queue="q"), RUNNING._replace(flipped=at(2)), RAN,
        [("job.preempted", at(40))],
    ),
    "a preemption of two pods is one": (
        training(active=2, ready=0), RUNNING,
        PodsOfJob(at(5), True, ((at(20), "PreemptionByScheduler", "a"), (at(20, 30), "PreemptionByScheduler", "b"))),
        [("job.preempted", at(20))],
    ),
    "two preemptions": (
        training(active=2, ready=0), RUNNING,
        PodsOfJob(at(5), True, ((at(20), "PreemptionByScheduler", "a"), (at(25), "PreemptionByScheduler", "b"))),
        [("job.preempted", at(20)), ("job.preempted", at(25))],
    ),
    "a preemption that was reported": (
        training(active=2, ready=0), RUNNING._replace(preempted=at(25)),
        PodsOfJob(at(5), True, ((at(20), "PreemptionByScheduler", "a"),)), [],
    ),
    "a service that is ready": (service(1, 1), PENDING, RAN, [("job.started", at(5))]),
    "a service that is scaled to zero": (service(0), RUNNING, RAN, [("job.paused", "2026-08-01T12:00:00Z")]),
    "a service that misses its deadline": (
        service(1, 0, {**condition("Progressing", at(30), "False"), "reason": "ProgressDeadlineExceeded"}), PENDING,
        PodsOfJob(), [("job.failed", at(30))],
    ),
    "a service that recovers": (
        service(1, 1), RUNNING._replace(status="Failed", run=at(30), started=False), PodsOfJob(at(40), True),
        [("job.started", at(40))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_has_happened(case: str) -> None:
    workload, known, pods, expected = CASES[case]
    found = list(job_transitions(workload, known, pods, NOW, PATIENCE))
    assert [(step.type, step.time) for step in found] == expected
    assert len({step.key for step in found}) == len(found)


@pytest.mark.parametrize("case", CASES)
def test_nothing_happens_twice(case: str) -> None:
    """What was reported is known afterwards, after each step."""
    workload, known, pods, expected = CASES[case]
    for _step in expected:
        known = next(iter(job_transitions(workload, known, pods, NOW, PATIENCE))).after
    assert list(job_transitions(workload, known, pods, NOW, PATIENCE)) == []


def test_a_change_that_kubernetes_has_not_followed_is_waited_for() -> None:
    workload = training(**RUNS)
    workload["spec"]["suspend"] = True
    assert list(job_transitions(workload, RUNNING, RAN, NOW, PATIENCE)) == []


def test_a_job_that_is_being_deleted_has_no_transitions_but_its_end() -> None:
    workload = training(condition("Suspended", at(10)))
    workload["metadata"]["deletionTimestamp"] = at(11)
    assert list(job_transitions(workload, RUNNING, RAN, NOW, PATIENCE)) == []
    ended = training(condition("Failed", at(30)))
    ended["metadata"]["deletionTimestamp"] = at(31)
    assert [step.type for step in job_transitions(ended, RUNNING, RAN, NOW, PATIENCE)] == ["job.failed"]


def test_a_job_waits_too_long_once_until_it_runs_and_waits_again() -> None:
    waits = timedelta(minutes=30)
    (step,) = job_transitions(training(), PENDING, PodsOfJob(), NOW, waits)
    assert (step.type, step.facts["pending_seconds"]) == ("job.pending_too_long", 3600)
    assert list(job_transitions(training(), step.after, PodsOfJob(), NOW, waits)) == []
    runs = settled(training(**RUNS), step.after._replace(started=True), NOW)
    again = settled(training(), runs, NOW)
    later = NOW + waits
    assert [one.type for one in job_transitions(training(), again, PodsOfJob(), later, waits)] == [
        "job.pending_too_long"
    ]


@pytest.mark.parametrize("status", ["Succeeded", "Failed"])
def test_a_job_that_has_ended_may_be_deleted(status: str) -> None:
    assert deletion(RUNNING._replace(status=status), NOW) is None


def test_the_deletion_of_a_running_job_is_reported() -> None:
    step = deletion(RUNNING, NOW)
    assert step
    assert (step.type, step.old_status) == ("job.deleted", "Running")


def test_what_the_ledger_has_of_a_job_that_is_gone() -> None:
    found = list(recorded_end(PENDING, "Succeeded", at(50)))
    assert [(step.type, step.time) for step in found] == [("job.started", None), ("job.succeeded", at(50))]
    assert [step.type for step in recorded_end(RUNNING, "Failed", at(50))] == ["job.failed"]


def test_what_is_known_survives_json() -> None:
    known = known_at_first(training(), {"job_type": "training"})
    assert Known(**known._asdict()) == known
