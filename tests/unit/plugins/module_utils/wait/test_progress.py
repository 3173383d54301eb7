# SPDX-License-Identifier: BSD-2-Clause
"""What a wait says: line by line while it lasts, and at its end."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.reason import PendingReason
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.goals import COMPLETE, DELETED, READY, Goal
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.loop import JobStatus
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.progress import (
    ProgressReporter,
    TimedOut,
    errors,
    problem,
    progress_line,
)

from ..cluster.live_objects import pod, workload

PLACE = PendingReason("pod web-1 cannot be placed: none is free")
LOST = PendingReason("the image x cannot be pulled; check environment.image", final=True)


def deployment(ready: int = 0, **fields: Any) -> JobStatus:
    return JobStatus(workload("Deployment", status={"readyReplicas": ready}), **fields)


ARRIVED = deployment(2, reached_goal=True)
WAITING = deployment(1, blocker=PLACE)

# the goal, where the jobs stand, the line
LINES: dict[str, tuple[Goal, dict[tuple[str, str], JobStatus], str]] = {
    "one job": (
        READY,
        {("ml", "web"): WAITING},
        "0 of 1 ready after 40 s of at most 600 s; "
        "waiting for web (Partially Running: pod web-1 cannot be placed: none is free)",
    ),
    "nothing stands in its way": (
        READY,
        {("ml", "web"): deployment()},
        "0 of 1 ready after 40 s of at most 600 s; waiting for web (Pending, 0 of 2 pods ready)",
    ),
    "all are there": (READY, {("ml", "a"): ARRIVED}, "1 of 1 ready after 40 s of at most 600 s"),
    "of many some are named": (
        READY,
        {("ml", f"web-{number}"): ARRIVED if number < 2 else deployment() for number in range(10)},
        "2 of 10 ready after 40 s of at most 600 s; waiting for web-2 (Pending, 0 of 2 pods ready), "
        "web-3 (Pending, 0 of 2 pods ready), web-4 (Pending, 0 of 2 pods ready), 5 more",
    ),
    "several namespaces": (
        COMPLETE,
        {("ml", "a"): ARRIVED, ("research", "a"): deployment(fatal=LOST)},
        "1 of 2 complete after 40 s of at most 600 s; "
        "waiting for research/a (Pending: the image x cannot be pulled; check environment.image)",
    ),
    "jobs that are to go": (
        DELETED,
        {("ml", "a"): JobStatus(None, [pod()]), ("ml", "b"): JobStatus(None, reached_goal=True)},
        "1 of 2 gone after 40 s of at most 600 s; waiting for a (1 pod left)",
    ),
    "a long story": (
        READY,
        {("ml", "a"): deployment(blocker=PendingReason("long " * 100))},
        f"0 of 1 ready after 40 s of at most 600 s; waiting for a (Pending: {('long ' * 100)[:159]}…)",
    ),
}


@pytest.mark.parametrize(("goal", "job_statuses", "line"), LINES.values(), ids=LINES)
def test_a_line_of_progress(goal: Goal, job_statuses: dict[tuple[str, str], JobStatus], line: str) -> None:
    assert progress_line(goal, job_statuses, 40.2, 600) == line


def test_lines_come_when_something_changes_but_not_too_often_and_sometimes_when_nothing_does() -> None:
    times, told = [0.0], []
    announce = ProgressReporter(READY, 600, lambda line: told.append(times[-1]), lambda: times[-1])
    waiting, other = {("ml", "a"): WAITING}, {("ml", "a"): deployment()}
    for time, job_statuses, due in (
        (0.1, waiting, 1.9),  # a start that is quick needs no word
        (2.0, waiting, 30.0),
        (2.5, waiting, 29.5),
        (3.0, other, 1.0),
        (4.0, other, 30.0),
        (20.0, waiting, 30.0),
        (49.0, waiting, 1.0),
        (50.0, waiting, 30.0),
    ):
        times.append(time)
        assert announce(job_statuses) == pytest.approx(due)
    assert told == [2.0, 4.0, 20.0, 50.0]


def late(name: str, job_status: JobStatus, reason: str | None = None, log: tuple[str, ...] = ()) -> TimedOut:
    return TimedOut(f"inference {name} in namespace ml", job_status, reason, log)


SLOW = late("slow", WAITING, "pod web-1 cannot be placed: none is free.")
HOPELESS = late("lost", deployment(fatal=LOST), LOST.sentence)

# the goal, who is late, of how many, is the task to keep going, the message
PROBLEMS: dict[str, tuple[Goal, list[TimedOut], int, bool, str]] = {
    "one was too slow": (
        READY,
        [SLOW],
        1,
        False,
        "not ready after 600 s: inference slow in namespace ml is Partially Running, 1 of 2 pods ready: "
        "pod web-1 cannot be placed: none is free.",
    ),
    "some were too slow": (
        READY,
        [SLOW, late("other", deployment())],
        5,
        False,
        "2 of 5 jobs are not ready after 600 s:\n"
        "inference slow in namespace ml is Partially Running, 1 of 2 pods ready: "
        "pod web-1 cannot be placed: none is free.\n"
        "inference other in namespace ml is Pending, 0 of 2 pods ready",
    ),
    "one is lost": (
        READY,
        [HOPELESS],
        1,
        False,
        "inference lost in namespace ml will not become ready: the image x cannot be pulled; check environment.image.",
    ),
    "one is lost, and its log tells more": (
        COMPLETE,
        [late("lost", deployment(fatal=LOST), "it ended.", ("1", "2", "3", "4", "5", "6"))],
        1,
        False,
        "inference lost in namespace ml will not become complete: it ended.\n"
        "The log ends with:\n  2\n  3\n  4\n  5\n  6",
    ),
    "one is lost, the others were not waited for": (
        READY,
        [HOPELESS, SLOW],
        5,
        False,
        "inference lost in namespace ml will not become ready: "
        "the image x cannot be pulled; check environment.image.\n"
        "Of the other jobs 3 were ready by then, 1 not yet.",
    ),
    "one is lost, the others were waited for in vain": (
        READY,
        [SLOW, HOPELESS],
        5,
        True,
        "inference lost in namespace ml will not become ready: "
        "the image x cannot be pulled; check environment.image.\n"
        "not ready after 600 s: inference slow in namespace ml is Partially Running, 1 of 2 pods ready: "
        "pod web-1 cannot be placed: none is free.",
    ),
    "what is to go is still there": (
        DELETED,
        [late("web", JobStatus(None, [{"kind": "Pod", **pod()}]))],
        1,
        False,
        "not gone after 600 s: inference web in namespace ml still has Pod x-1",
    ),
}


@pytest.mark.parametrize(("goal", "late", "number", "keep_going", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_why_a_wait_was_in_vain(goal: Goal, late: list[TimedOut], number: int, keep_going: bool, message: str) -> None:
    assert problem(goal, late, number, 600, keep_going=keep_going) == message


LOST_TEXT = "will not become ready: the image x cannot be pulled; check environment.image."
SLOW_TEXT = (
    "not ready after 600 s: it is Partially Running, 1 of 2 pods ready: pod web-1 cannot be placed: none is free."
)

# who is late, is the task to keep going, what each of them is said to have failed of
ERRORS: dict[str, tuple[dict[str, TimedOut], bool, dict[str, str]]] = {
    "nobody": ({}, False, {}),
    "the slow one": ({"slow": SLOW}, False, {"slow": SLOW_TEXT}),
    "the lost one, and the slow one was not waited for": ({"slow": SLOW, "lost": HOPELESS}, False, {"lost": LOST_TEXT}),
    "both": ({"slow": SLOW, "lost": HOPELESS}, True, {"slow": SLOW_TEXT, "lost": LOST_TEXT}),
}


@pytest.mark.parametrize(("late", "keep_going", "texts"), ERRORS.values(), ids=ERRORS)
def test_who_has_failed(late: dict[str, TimedOut], keep_going: bool, texts: dict[str, str]) -> None:
    found = errors(READY, {("ml", name): one for name, one in late.items()}, 600, keep_going=keep_going)
    assert {name: text for (_namespace, name), text in found.items()} == texts


def test_of_hundreds_of_jobs_a_few_are_told() -> None:
    lost = [late(f"lost-{number}", deployment(fatal=LOST), LOST.sentence) for number in range(100)]
    slow = [late(f"slow-{number}", deployment()) for number in range(100)]
    lines = problem(READY, [*slow, *lost], 200, 600, keep_going=True).splitlines()
    assert len(lines) == 10 + 1 + 1 + 10 + 1
    assert lines[10] == "The same is true of 90 more; see results."
    assert lines[11] == "100 of 200 jobs are not ready after 600 s:"
    assert lines[-1] == "and 90 more; see results."
