# SPDX-License-Identifier: BSD-2-Clause
"""What a wait reports: line by line while it lasts, and at its end."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pending_reason import PendingReason
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ConnectionProblem
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import COMPLETION_INDEX
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.goals import (
    COMPLETE,
    DELETED,
    PAUSED,
    READY,
    SCHEDULED,
    Goal,
    after_restart,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.loop import JobStatus
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.progress import (
    UnreachedGoal,
    progress_line,
    wait_errors,
    wait_problem,
)

from ..cluster.live_objects import pod, with_container, workload

POD = {"kind": "Pod", **pod()}
UNSCHEDULED = PendingReason("pod web-1 cannot be scheduled: none is free")
PULL = PendingReason("image x cannot be pulled", "Check environment.image", final=True)


def deployment(ready: int = 0, **fields: Any) -> JobStatus:
    return JobStatus(workload("Deployment", status={"readyReplicas": ready}), **fields)


def rollout(ready: int, updated: int, replicas: int, generation: int = 1) -> JobStatus:
    """Of two pods."""
    counts = {"readyReplicas": ready, "updatedReplicas": updated, "replicas": replicas}
    return JobStatus(workload("Deployment", status={**counts, "observedGeneration": generation}))


ENDING = with_container("Running", state={"terminated": {"exitCode": 0}})


def training(
    *pod_statuses: str | dict[str, Any], pods: int = 2, spec: dict[str, Any] | None = None, **status: Any
) -> JobStatus:
    """With pods of these phases or statuses, all of them on a node."""
    statuses = [{"phase": given} if isinstance(given, str) else given for given in pod_statuses]
    live = [{**POD, **pod(f"x-{number}", status=given, nodeName="n1")} for number, given in enumerate(statuses)]
    return JobStatus(workload("Job", status=status, **{"parallelism": pods, "completions": pods, **(spec or {})}), live)


def ranks(number: int, *ready: int) -> JobStatus:
    """A distributed training of which some nodes are ready."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    found = training(*[status] * len(ready), pods=number, active=number, ready=len(ready))
    assert found.workload is not None
    found.workload["spec"]["completionMode"] = "Indexed"
    for rank, live in zip(ready, found.pods, strict=True):
        live["metadata"]["annotations"] = {COMPLETION_INDEX: str(rank)}
    return found


READY_NOW = deployment(2, reached_goal=True)
WAITING = deployment(1, blocker=UNSCHEDULED)

# the goal, the statuses, the line
LINES: dict[str, tuple[Goal, dict[tuple[str, str], JobStatus], str]] = {
    "one job": (
        READY,
        {("ml", "web"): WAITING},
        "0 of 1 job ready after 40 s (timeout: 600 s); "
        "waiting for web (Partially Running, 1 of 2 pods ready: pod web-1 cannot be scheduled: none is free)",
    ),
    "no reason is known": (
        READY,
        {("ml", "web"): deployment()},
        "0 of 1 job ready after 40 s (timeout: 600 s); waiting for web (Pending, 0 of 2 pods ready)",
    ),
    "all are ready": (READY, {("ml", "a"): READY_NOW}, "1 of 1 job ready after 40 s (timeout: 600 s)"),
    "of many some are named": (
        READY,
        {("ml", f"web-{number}"): READY_NOW if number < 2 else deployment() for number in range(10)},
        "2 of 10 jobs ready after 40 s (timeout: 600 s); waiting for web-2 (Pending, 0 of 2 pods ready), "
        "web-3 (Pending, 0 of 2 pods ready), web-4 (Pending, 0 of 2 pods ready), 5 more",
    ),
    "several namespaces": (
        COMPLETE,
        {("ml", "a"): READY_NOW, ("research", "a"): deployment(fatal=PULL)},
        "1 of 2 jobs complete after 40 s (timeout: 600 s); "
        "waiting for research/a (Pending: image x cannot be pulled. Check environment.image)",
    ),
    "jobs to be deleted": (
        DELETED,
        {("ml", "a"): JobStatus(None, [POD]), ("ml", "b"): JobStatus(None, reached_goal=True)},
        "1 of 2 jobs deleted after 40 s (timeout: 600 s); waiting for a (1 pod left)",
    ),
    "a long reason": (
        READY,
        {("ml", "a"): deployment(blocker=PendingReason("long " * 100))},
        f"0 of 1 job ready after 40 s (timeout: 600 s); waiting for a (Pending: {('long ' * 100)[:299]}…)",
    ),
}


STOPPING = {**POD, "metadata": {**POD["metadata"], "deletionTimestamp": "2026-01-01T00:02:00Z"}}
JOB_DELETED = workload("Job")
JOB_DELETED["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

# the goal, the status of one job that has not reached it, what a line of progress says about it
STATES: dict[str, tuple[Goal, JobStatus, str]] = {
    "a training that runs": (
        COMPLETE,
        training("Running", "Running", active=2, ready=2),
        "Running, 2 of 2 pods ready",
    ),
    "a training that runs after a try that failed": (
        COMPLETE,
        training("Failed", "Running", pods=1, active=1, ready=1, failed=1),
        "Running, 1 of 1 pods ready, 1 failed",
    ),
    "a training of which one pod has ended": (
        COMPLETE,
        training("Succeeded", "Running", active=1, ready=1, succeeded=1),
        "Running, 1 of 2 pods ready, 1 succeeded",
    ),
    "a training of which one pod has just ended": (
        COMPLETE,
        training(ENDING, "Running", active=2, ready=2),
        "Running, 1 of 2 pods ready, 1 succeeded",
    ),
    "a training whose pods have ended and are not counted yet": (
        COMPLETE,
        training("Succeeded", "Succeeded", active=0, ready=0),
        "2 of 2 pods succeeded",
    ),
    "a training whose containers have ended": (
        COMPLETE,
        training(ENDING, ENDING, active=2, ready=0),
        "2 of 2 pods succeeded",
    ),
    "a training without one of its nodes": (
        READY,
        ranks(2, 0),
        "Partially Running, 1 of 2 pods ready, rank 1 not ready",
    ),
    "a training without most of its nodes": (
        READY,
        ranks(16, 1, 3),
        "Partially Running, 2 of 16 pods ready, ranks 0, 2, 4, 5, 6 and 9 others not ready",
    ),
    "a training that is to be scheduled": (
        SCHEDULED,
        training("Pending", active=1, ready=0),
        "Pending, 1 of 2 pods placed on nodes",
    ),
    "a rollout": (READY, rollout(ready=2, updated=1, replicas=3), "Running, 1 of 2 pods updated, 2 old left"),
    "a rollout whose last pod stops": (
        after_restart(READY),
        rollout(ready=2, updated=2, replicas=3),
        "Running, 2 of 2 pods updated, 1 old left",
    ),
    "a change that no controller has seen": (
        READY,
        rollout(ready=2, updated=2, replicas=2, generation=0),
        "Running, 0 of 2 pods updated",
    ),
    "a service that is new": (READY, rollout(ready=1, updated=2, replicas=2), "Partially Running, 1 of 2 pods ready"),
    "a pause": (PAUSED, training("Running", "Failed", spec={"suspend": True}), "1 pod left"),
    "a deletion in the foreground": (DELETED, JobStatus(JOB_DELETED, [POD, POD]), "Job and 2 pods left"),
    "pods that use their grace period": (
        DELETED,
        JobStatus(None, [STOPPING, POD]),
        "2 pods left, until 2026-01-01T00:02:00Z at the latest",
    ),
    "a deletion of what had no pods": (DELETED, JobStatus(JOB_DELETED), "Job left"),
    "a job that was deleted by others": (
        READY,
        JobStatus(None, fatal=PendingReason("the job was deleted during the wait", final=True)),
        "the job was deleted during the wait",
    ),
}


@pytest.mark.parametrize(("goal", "job_status", "state"), STATES.values(), ids=STATES)
def test_the_state_of_a_job_in_a_line(goal: Goal, job_status: JobStatus, state: str) -> None:
    line = progress_line(goal, {("ml", "x"): job_status}, 40, 600)
    assert line == f"0 of 1 job {goal.word} after 40 s (timeout: 600 s); waiting for x ({state})"


@pytest.mark.parametrize(("goal", "job_statuses", "line"), LINES.values(), ids=LINES)
def test_a_line_of_progress(goal: Goal, job_statuses: dict[tuple[str, str], JobStatus], line: str) -> None:
    assert progress_line(goal, job_statuses, 40.2, 600) == line


def unreached_goal(
    name: str, job_status: JobStatus, reason: str | None = None, log: tuple[str, ...] = ()
) -> UnreachedGoal:
    return UnreachedGoal(f"inference {name} in namespace ml", job_status, reason, log)


GONE = ConnectionProblem("cannot reach the API server.")
TIMED_OUT = unreached_goal("slow", WAITING, "pod web-1 cannot be scheduled: none is free.")
FATAL = unreached_goal("fatal", deployment(fatal=PULL), PULL.sentence)

# the goal, the jobs that did not reach it, the number of jobs, keep_going, the message
PROBLEMS: dict[str, tuple[Goal, list[UnreachedGoal], int, bool, str]] = {
    "one timed out": (
        READY,
        [TIMED_OUT],
        1,
        False,
        "inference slow in namespace ml is not ready after 600 s: Partially Running, 1 of 2 pods ready. Reason: "
        "pod web-1 cannot be scheduled: none is free.",
    ),
    "one timed out, with a log": (
        READY,
        [unreached_goal("slow", deployment(), "it failed.", ("1", "2", "3", "4", "5", "6"))],
        1,
        False,
        "inference slow in namespace ml is not ready after 600 s: Pending, 0 of 2 pods ready. Reason: it failed.\n"
        "The log ends with:\n  2\n  3\n  4\n  5\n  6",
    ),
    "some timed out": (
        READY,
        [TIMED_OUT, unreached_goal("other", deployment())],
        5,
        False,
        "2 of 5 jobs are not ready after 600 s:\n"
        "inference slow in namespace ml: Partially Running, 1 of 2 pods ready. Reason: "
        "pod web-1 cannot be scheduled: none is free.\n"
        "inference other in namespace ml: Pending, 0 of 2 pods ready",
    ),
    "one is fatal": (
        READY,
        [FATAL],
        1,
        False,
        "inference fatal in namespace ml will not become ready: image x cannot be pulled. Check environment.image.",
    ),
    "one is fatal, with a log": (
        COMPLETE,
        [unreached_goal("fatal", deployment(fatal=PULL), "it failed.", ("1", "2", "3", "4", "5", "6"))],
        1,
        False,
        "inference fatal in namespace ml will not become complete: it failed.\n"
        "The log ends with:\n  2\n  3\n  4\n  5\n  6",
    ),
    "one is fatal, which ends the wait for the others": (
        READY,
        [FATAL, TIMED_OUT],
        5,
        False,
        "inference fatal in namespace ml will not become ready: "
        "image x cannot be pulled. Check environment.image.\n"
        "Other jobs: 3 ready, 1 not ready yet.",
    ),
    "one is fatal, another timed out": (
        READY,
        [TIMED_OUT, FATAL],
        5,
        True,
        "inference fatal in namespace ml will not become ready: "
        "image x cannot be pulled. Check environment.image.\n"
        "inference slow in namespace ml is not ready after 600 s: Partially Running, 1 of 2 pods ready. Reason: "
        "pod web-1 cannot be scheduled: none is free.",
    ),
    "one is not paused": (
        PAUSED,
        [unreached_goal("web", training("Running", "Failed", spec={"suspend": True}))],
        1,
        False,
        "inference web in namespace ml is not paused after 600 s: Pod x-0 still terminating",
    ),
    "a large one is not deleted": (
        DELETED,
        [unreached_goal("web", training(*["Running"] * 64, pods=64))],
        1,
        False,
        "inference web in namespace ml is not deleted after 600 s: "
        "Pod x-0, Pod x-1, Pod x-2, Pod x-3, Pod x-4 and 59 more still terminating",
    ),
    "one cannot be read": (
        READY,
        [unreached_goal("web", deployment(1, unreadable=GONE))],
        5,
        False,
        "It is not known whether inference web in namespace ml is ready: cannot reach the API server. "
        "Last seen: Partially Running, 1 of 2 pods ready.",
    ),
    "none could ever be read": (
        READY,
        [unreached_goal("web", JobStatus(unreadable=GONE)), unreached_goal("other", JobStatus(unreadable=GONE))],
        2,
        False,
        "It is not known whether 2 of 2 jobs are ready: cannot reach the API server.",
    ),
    "some cannot be read": (
        READY,
        [unreached_goal("web", deployment(1, unreadable=GONE)), unreached_goal("other", JobStatus(unreadable=GONE))],
        5,
        True,
        "It is not known whether 2 of 5 jobs are ready: cannot reach the API server.\n"
        "inference web in namespace ml: last seen Partially Running, 1 of 2 pods ready",
    ),
    "one is not deleted": (
        DELETED,
        [unreached_goal("web", JobStatus(None, [POD]))],
        1,
        False,
        "inference web in namespace ml is not deleted after 600 s: Pod x-1 still terminating",
    ),
}


@pytest.mark.parametrize(("goal", "unreached", "number", "keep_going", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_the_message_of_a_failed_wait(
    goal: Goal, unreached: list[UnreachedGoal], number: int, keep_going: bool, message: str
) -> None:
    assert wait_problem(goal, unreached, number, 600, keep_going=keep_going) == message


FATAL_ERROR = "will not become ready: image x cannot be pulled. Check environment.image."
TIMEOUT_ERROR = (
    "not ready after 600 s: Partially Running, 1 of 2 pods ready. Reason: pod web-1 cannot be scheduled: none is free."
)

# the jobs that did not reach the goal, keep_going, the error of each
ERRORS: dict[str, tuple[dict[str, UnreachedGoal], bool, dict[str, str]]] = {
    "none": ({}, False, {}),
    "the one that timed out": ({"slow": TIMED_OUT}, False, {"slow": TIMEOUT_ERROR}),
    "the fatal one, which ended the wait for the other": (
        {"slow": TIMED_OUT, "fatal": FATAL},
        False,
        {"fatal": FATAL_ERROR},
    ),
    "the one that cannot be read": (
        {"web": unreached_goal("web", deployment(unreadable=GONE))},
        True,
        {"web": "not known whether it is ready: cannot reach the API server."},
    ),
    "both": ({"slow": TIMED_OUT, "fatal": FATAL}, True, {"slow": TIMEOUT_ERROR, "fatal": FATAL_ERROR}),
}


@pytest.mark.parametrize(("unreached", "keep_going", "texts"), ERRORS.values(), ids=ERRORS)
def test_the_errors_of_a_failed_wait(
    unreached: dict[str, UnreachedGoal], keep_going: bool, texts: dict[str, str]
) -> None:
    found = wait_errors(READY, {("ml", name): job for name, job in unreached.items()}, 600, keep_going=keep_going)
    assert {name: text for (_namespace, name), text in found.items()} == texts


def test_of_hundreds_of_jobs_ten_are_listed() -> None:
    fatal = [unreached_goal(f"fatal-{number}", deployment(fatal=PULL), PULL.sentence) for number in range(100)]
    timed_out = [unreached_goal(f"slow-{number}", deployment()) for number in range(100)]
    lines = wait_problem(READY, [*timed_out, *fatal], 200, 600, keep_going=True).splitlines()
    assert len(lines) == 10 + 1 + 1 + 10 + 1
    assert lines[10] == "90 more jobs failed as well; see results."
    assert lines[11] == "100 of 200 jobs are not ready after 600 s:"
    assert lines[-1] == "90 more jobs are not ready; see results."
