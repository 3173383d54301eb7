# SPDX-License-Identifier: BSD-2-Clause
"""The pods whose logs are read."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_pods import (
    choose_pods,
    not_started_message,
    sort_pods,
)

INDEX = "batch.kubernetes.io/job-completion-index"


def pod(name: str, minute: int = 0, *, rank: int | None = None, as_label: bool = True, **spec: Any) -> dict[str, Any]:
    marks = {} if rank is None else {"labels" if as_label else "annotations": {INDEX: str(rank)}}
    created = f"2026-01-31T08:{minute:02}:00Z"
    return {
        "metadata": {"name": name, "creationTimestamp": created, **marks},
        "spec": {"containers": [{"name": "main"}], **spec},
    }


def names(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


PLAIN = [pod("c", 1), pod("b", 2), pod("a", 2)]
RANKED = [pod("r1", 0, rank=1), pod("r0-second", 5, rank=0), pod("r0-first", 1, rank=0, as_label=False)]
TEN = [pod(f"r{rank}", rank=rank) for rank in (10, 9, 2)]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [(PLAIN, ["c", "a", "b"]), (RANKED, ["r0-first", "r0-second", "r1"]), (TEN, ["r2", "r9", "r10"])],
    ids=["by age, then by name", "by rank, then by age", "ranks are numbers"],
)
def test_order(pods, expected):
    assert names(sort_pods(pods)) == expected


CHOSEN = {
    "all": (PLAIN, None, ["c", "a", "b"]),
    "a name": (PLAIN, "a", ["a"]),
    "the oldest": (PLAIN, "0", ["c"]),
    "the newest": (PLAIN, "2", ["b"]),
    "a rank, with all its tries": (RANKED, "0", ["r0-first", "r0-second"]),
    "a rank, not a place": (TEN, "2", ["r2"]),
    "a name that is a number": ([pod("7"), pod("8")], "8", ["8"]),
}


@pytest.mark.parametrize(("pods", "wanted", "expected"), CHOSEN.values(), ids=CHOSEN)
def test_choice(pods, wanted, expected):
    assert names(choose_pods(sort_pods(pods), wanted, "main")) == expected


ABSENT = {
    "another name": (PLAIN, "d", "main", "pod d not found. Pods: c, a, b."),
    "a place too far": (PLAIN, "3", "main", "pod 3 not found. Pods: c, a, b."),
    "a rank that is not there": (TEN, "0", "main", "pod 0 not found. Pods: r2, r9, r10."),
    "no number": (PLAIN, "-1", "main", "pod -1 not found. Pods: c, a, b."),
    "too many to list": (
        [pod(f"p{number:02}") for number in range(25)],
        "x",
        "main",
        f"pod x not found. Pods: {', '.join(f'p{number:02}' for number in range(20))} and 5 more.",
    ),
    "another container": (
        [pod("a", initContainers=[{"name": "setup"}]), pod("b")],
        None,
        "side",
        "container side not found. Containers: main, setup.",
    ),
}


@pytest.mark.parametrize(("pods", "wanted", "container", "message"), ABSENT.values(), ids=ABSENT)
def test_unknown_pods_and_containers(pods, wanted, container, message):
    with pytest.raises(ValueError, match=r"not found") as caught:
        choose_pods(sort_pods(pods), wanted, container)
    assert str(caught.value) == message


def test_pods_without_the_container_are_left_out():
    setup = pod("new", 1, initContainers=[{"name": "setup"}])
    assert names(choose_pods([pod("old"), setup], None, "setup")) == ["new"]


NOT_STARTED = {
    "its container waits": (
        {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "Creating"}}}]},
        "Creating",
    ),
    "another container waits": (
        {
            "phase": "Pending",
            "initContainerStatuses": [{"name": "setup", "state": {"waiting": {"reason": "Creating"}}}],
        },
        "Creating",
    ),
    "nothing is known": ({}, "Pending"),
}


@pytest.mark.parametrize(("status", "state"), NOT_STARTED.values(), ids=NOT_STARTED)
def test_what_is_said_of_a_pod_that_has_not_started(status, state):
    waiting = {**pod("a"), "status": status}
    assert not_started_message(waiting, "main") == f"container main of pod a has not started yet ({state})"
