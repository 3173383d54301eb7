# SPDX-License-Identifier: BSD-2-Clause
"""What the status of a pod says about the runs of its container, and what a log says about lines that are missing."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event
from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow import pod_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.log_position import LogPosition
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.pod_log import (
    ContainerState,
    PodLog,
    Start,
    container_state,
    end_text,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_lines import View

FAILED, DONE = {"exitCode": 1, "reason": "Error"}, {"exitCode": 0, "reason": "Completed"}


def pod(policy: str, phase: str = "Running", restarts: int = 0, last: Any = None, **state: Any) -> dict[str, Any]:
    status = {
        "name": "main",
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }
    return {
        "metadata": {"name": "p", "namespace": "ml"},
        "spec": {"restartPolicy": policy, "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [status]},
    }


STATES = {
    "created": (pod("Never", "Pending", waiting={}), ContainerState()),
    "runs": (pod("Never", running={}), ContainerState(started=True)),
    "has ended": (pod("Never", terminated=FAILED), ContainerState(ended=FAILED, final=True)),
    "is to be restarted": (pod("Always", terminated=FAILED), ContainerState(ended=FAILED)),
    "has ended well, and is not restarted": (
        pod("OnFailure", terminated=DONE), ContainerState(ended=DONE, final=True),
    ),
    "crash loop": (
        pod("Always", restarts=3, last=FAILED, waiting={}), ContainerState(3, ended=FAILED, last=FAILED),
    ),
    "runs again": (
        pod("Always", restarts=4, last=FAILED, running={}), ContainerState(4, started=True, last=FAILED),
    ),
    "the pod has ended": (pod("Always", "Failed", terminated=FAILED), ContainerState(ended=FAILED, final=True)),
}  # fmt: skip


@pytest.mark.parametrize(("given", "state"), STATES.values(), ids=STATES)
def test_which_run_of_a_container_is_the_current_one(given: dict[str, Any], state: ContainerState) -> None:
    assert container_state(given, "main") == state


def test_how_a_container_has_ended() -> None:
    assert end_text({"exitCode": 137, "reason": "OOMKilled"}) == "exit code 137 (OOMKilled)"
    assert end_text(FAILED) == "exit code 1"


def reader() -> PodLog:
    none = cast(Any, None)
    return PodLog(none, pod("Never"), "main", View(1000), Start(), submit=none, stopped=Event(), lines=none, note=none)


def new(log: PodLog, position: LogPosition, seconds: Iterable[int]) -> list[str]:
    found = [(f"2026-01-31T08:00:{second:02}.000000000Z line {second}".encode(), False) for second in seconds]
    return [line.text for line in log._new_lines(found, position, None) or ()]


@pytest.mark.parametrize(("size", "waited", "leaps"), [(200, 0, True), (2000, 0, False), (200, 30, False)])
def test_a_file_that_the_kubelet_left_out_shows_as_a_leap_in_time(
    monkeypatch: pytest.MonkeyPatch, size: int, waited: float, leaps: bool
) -> None:
    """Not if no file can have become full, nor if the container was silent for as long."""
    monkeypatch.setattr(pod_log, "_ROTATED_SIZE", size)
    log, position = reader(), LogPosition(whole=True)
    new(log, position, range(10))
    log._read_at -= waited
    text = "(lines before 2026-01-31T08:00:20.000000000Z may have been rotated away before they were read)"
    assert new(log, position, [20]) == ([text] if leaps else []) + ["line 20"]


def test_lines_that_are_gone_after_a_break_are_reported_once() -> None:
    log, position = reader(), LogPosition(whole=True)
    new(log, position, [1, 2])
    position.resume()
    text = "(lines before 2026-01-31T08:00:30.000000000Z were rotated away before they could be read)"
    assert new(log, position, [30, 31]) == [text, "line 30", "line 31"]


def test_lines_of_another_run_of_the_container_are_not_taken() -> None:
    log, position = reader(), LogPosition(whole=True)
    new(log, position, [1, 2])
    position.resume()
    found = [(b"2026-01-31T08:00:30.000000000Z other", False)]
    assert log._new_lines(found, position, lambda: False) is None
    position.resume()
    assert new(log, position, [2, 3]) == ["line 3"]
