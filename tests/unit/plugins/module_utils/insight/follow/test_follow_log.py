# SPDX-License-Identifier: BSD-2-Clause
"""Which pods of a job have a thread that follows their log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow import follow_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.job_log import JobLogOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.pod_log import Start

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sft", "namespace": "ml"}, "spec": {}}


class StillLog:
    """A PodLog without a thread."""

    def __init__(self, client: Any, pod: dict[str, Any], *others: Any, **more: Any) -> None:
        self.pod, self.pod_name, self.over = pod, pod["metadata"]["name"], False

    def start(self) -> None:
        pass


def running(name: str) -> dict[str, Any]:
    status = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    metadata = {"name": name, "uid": name, "namespace": "ml", "creationTimestamp": "2026-01-31T08:00:00Z"}
    return {"metadata": metadata, "spec": {}, "status": status}


def test_pods_beyond_the_limit_are_followed_once_others_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_log, "_MOST_PODS", 2)
    monkeypatch.setattr(follow_log, "PodLog", StillLog)
    monkeypatch.setattr(follow_log, "pod_secrets", lambda *given: set())
    warnings: list[str] = []
    pods = [running(f"sft-{number}") for number in range(3)]
    task = SimpleNamespace(
        options=JobLogOptions(name="sft", namespace="ml"), client=lambda: None, masked=set(), warn=warnings.append
    )
    screen = SimpleNamespace(print=lambda lines: None)
    cache = SimpleNamespace(objects=lambda resource: pods, submit=None, stopped=None)
    given = cast(Any, (task, screen, ("ml", "sft"), JOB, cache, None, SimpleNamespace(search=None)))
    following = follow_log._Following(*given)

    following._start_threads(Start(tail=10))
    following._start_threads(Start())
    assert list(following._logs) == ["sft-0", "sft-1"]
    assert len(warnings) == 1

    following._logs["sft-0"].over = True
    following._start_threads(Start())
    assert list(following._logs) == ["sft-0", "sft-1", "sft-2"]
