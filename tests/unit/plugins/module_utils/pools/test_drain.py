# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that are paused while devices are divided are resumed, whatever happens meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import drain
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import TaskFailed

JOBS = {"a100": [("ml", "one"), ("ml", "two")], "h100": [("ml", "three")]}


class Jobs:
    """What is done to jobs, some of which fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failing: tuple[str, str]) -> None:
        self.done: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self.paused_before: set[str] = set()
        self.task: Any = SimpleNamespace(check_mode=False, warn=self.warnings.append)
        self._failing = failing
        monkeypatch.setattr(drain, "_to_state", self._to_state)

    def _to_state(self, task: Any, job: tuple[str, str], state: str) -> dict[str, Any]:
        self.done.append((job[1], state))
        if (job[1], state) in self._failing:
            raise TaskFailed(f"{job[1]} failed.", changed=True)
        return {"changed": job[1] not in self.paused_before, "diff": []}

    @property
    def resumed(self) -> set[str]:
        return {name for name, state in self.done if state == "resumed"}


def test_a_job_whose_pause_takes_too_long_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch, ("three", "paused"))
    with pytest.raises(TaskFailed, match="three failed"), drain.drained(jobs.task, JOBS):
        raise AssertionError("nothing is divided")
    assert jobs.resumed == {"one", "three"}


def test_a_job_that_cannot_be_resumed_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch, ("one", "resumed"))
    with (
        pytest.raises(TaskFailed, match="job one in namespace ml is still paused: one failed"),
        drain.drained(jobs.task, JOBS),
    ):
        pass
    assert jobs.resumed == {"one", "two", "three"}


def test_the_first_failure_is_the_one_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch, ("one", "resumed"))
    with pytest.raises(TaskFailed, match="too late"), drain.drained(jobs.task, JOBS):
        raise TaskFailed("too late")
    assert jobs.resumed == {"one", "two", "three"}
    assert jobs.warnings == ["job one in namespace ml is still paused: one failed."]


def test_a_job_that_a_user_had_paused_stays_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch)
    jobs.paused_before = {"two"}
    with drain.drained(jobs.task, JOBS):
        pass
    assert jobs.resumed == {"one", "three"}


def test_check_mode_resumes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(monkeypatch)
    jobs.task.check_mode = True
    with drain.drained(jobs.task, JOBS):
        pass
    assert jobs.resumed == set()
