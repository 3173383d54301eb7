# SPDX-License-Identifier: BSD-2-Clause
"""Which pods of a job have a thread that follows their log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow import follow_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.followed_jobs import FollowedJobs
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.job_log import JobLogOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.pod_log import Start


def training(name: str, condition: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "labels": {"app": name}}
    conditions = [{"type": condition, "status": "True", "message": f"why {name}"}] if condition else []
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {},
        "status": {"active": 0 if condition else 1, "ready": 0 if condition else 1, "conditions": conditions},
    }


class StillLog:
    """A PodLog without a thread."""

    def __init__(self, client: Any, pod: dict[str, Any], *others: Any, **more: Any) -> None:
        self.pod, self.pod_name, self.over = pod, pod["metadata"]["name"], False

    def start(self) -> None:
        pass


def running(name: str) -> dict[str, Any]:
    status = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    metadata = {"name": name, "uid": name, "namespace": "ml", "creationTimestamp": "2026-01-31T08:00:00Z"}
    return {"metadata": {**metadata, "labels": {"app": name.rpartition("-")[0]}}, "spec": {}, "status": status}


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
    given = cast(Any, (task, screen, FollowedJobs([training("sft")]), cache, None, SimpleNamespace(search=None)))
    following = follow_log._Following(*given)

    following._start_threads(Start(tail=10))
    following._start_threads(Start())
    assert list(following._logs) == ["sft-0", "sft-1"]
    assert len(warnings) == 1

    following._logs["sft-0"].over = True
    following._start_threads(Start())
    assert list(following._logs) == ["sft-0", "sft-1", "sft-2"]


def test_a_sweep_has_ended_when_all_its_jobs_have() -> None:
    jobs = FollowedJobs([training("lr-1"), training("lr-2"), training("lr-3")], "lr")
    assert (jobs.title, jobs.status_text, jobs.status) == ("sweep lr", "3 Running", "Running")
    jobs.update([training("lr-1", "Complete"), training("lr-2", "Failed"), training("other")], now=10)
    assert (jobs.status_text, jobs.status) == ("1 Succeeded, 1 Failed, 1 Deleted", "Failed")
    assert list(jobs.failures()) == ["lr-2"]
    assert not jobs.have_ended(now=14), "the third may be created again"
    assert jobs.have_ended(now=15)
    jobs.update([training("lr-1", "Complete"), training("lr-2", "Complete"), training("lr-3")], now=16)
    assert not jobs.have_ended(now=99)
    assert list(jobs.unfinished()) == [("ml", "lr-3")]


def test_the_pods_of_a_sweep_are_those_of_its_jobs() -> None:
    jobs = FollowedJobs([training("lr-1"), training("lr-2")], "lr")
    pods = jobs.sorted_pods([running("lr-2-b"), running("lr-3-c"), running("lr-1-a")])
    assert [jobs.short_name(pod) for pod in pods] == ["1-a", "2-b"]


def test_a_sweep_of_one_job_is_that_job() -> None:
    jobs = FollowedJobs([training("lr-1")], "lr")
    assert (jobs.title, jobs.status_text, jobs.short_name(running("lr-1-a"))) == ("job lr-1", "Running", "a")
