# SPDX-License-Identifier: BSD-2-Clause
"""The thread that looks for idle devices outlives what goes wrong."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events import idle_watch
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.idle_watch import IdleWatch
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.jobs_source import JobsSourceOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import KubeError


def test_an_unexpected_error_is_said_once_and_the_next_look_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": "train"}]
    answers: list[Any] = [KubeError("no answer"), *[ZeroDivisionError("division by zero")] * 2, {"results": rows}]

    def find_idle(_task: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(idle_watch, "find_idle", find_idle)
    monkeypatch.setattr(idle_watch, "_INTERVAL", 0.0)
    reported, warned, seen = [], [], Event()

    def report(found: Any) -> None:
        reported.append(found)
        watch.stop()
        seen.set()

    task: Any = SimpleNamespace(options=JobsSourceOptions(), with_options=lambda options: None)
    watch = IdleWatch(task, report, warned.append)
    watch.start()
    assert seen.wait(30)
    watch.join(30)
    assert reported == [rows]
    assert warned == [
        "gpu.idle is not reported: no answer",
        "gpu.idle is not reported: ZeroDivisionError: division by zero",
    ]
