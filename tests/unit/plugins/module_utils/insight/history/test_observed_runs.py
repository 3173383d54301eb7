# SPDX-License-Identifier: BSD-2-Clause
"""What a visit writes of the runs that it sees, and of those that it no longer does."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_times import Hold
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history import observed_keys
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.past_runs import KnownRuns
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import RunResult
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_history import (
    end_keys,
    job_keys,
    pod_keys,
    visited_keys,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
STARTED = NOW - timedelta(hours=5)


def workload() -> dict[str, Any]:
    labels = {"app": "sft", "runwhere.ai/job-type": "training", "app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    metadata = {"name": "sft", "namespace": "ml", "uid": "run-1", "creationTimestamp": "2026-03-01T07:00:00Z"}
    spec = {"parallelism": 1, "template": {"spec": {"containers": [{"name": "main"}]}}}
    return {"kind": "Job", "metadata": {**metadata, "labels": labels}, "spec": spec, "status": {"active": 1}}


def known(data: dict[str, str], *live: dict[str, Any]) -> KnownRuns:
    history = {"kind": "ConfigMap", "metadata": {"name": "gpuctl-history", "namespace": "ml"}, "data": data}
    return KnownRuns({"ml": [history]}, workloads=list(live))


def visit(runs: KnownRuns) -> dict[str, Any]:
    return {key: json.loads(text) for key, text in observed_keys(runs, "ml", runs.runs("ml"), NOW).items()}


@pytest.mark.parametrize("result", [None, "Deleted", "Replaced", "Succeeded"])
def test_a_pod_that_is_gone_with_its_run_ends_when_it_was_seen_last(result: str | None) -> None:
    """Also if a task has recorded the end of the run, before its pods were seen again: they would hold for ever."""
    seen = NOW - timedelta(minutes=10)
    hold = Hold("pod-1", "sft-0", STARTED.timestamp(), STARTED.timestamp(), None, {"nvidia.com/gpu": 8}, "a")
    data = {**job_keys(workload()), **pod_keys("run-1", hold), **visited_keys(seen)}
    if result:
        data |= end_keys("run-1", RunResult(result, "2026-03-01T11:55:00Z"))
    found = visit(known(data))
    assert found["run-1.pod.pod-1"]["end"] == seen.timestamp()
    assert ("run-1.end" in found) == (result is None)


@pytest.mark.parametrize("result", ["Deleted", "Replaced", "Unknown"])
def test_an_end_that_was_not_reached_is_taken_back(result: str) -> None:
    runs = known({**job_keys(workload()), **end_keys("run-1", RunResult(result))}, workload())
    assert runs.runs("ml")["run-1"].result is None
    assert runs.prevented_ends("ml") == {"run-1.end": None}


@pytest.mark.parametrize("result", ["Succeeded", "Failed", "TimedOut"])
def test_an_end_that_was_observed_stays(result: str) -> None:
    runs = known({**job_keys(workload()), **end_keys("run-1", RunResult(result))}, workload())
    assert runs.runs("ml")["run-1"].result == result
    assert runs.prevented_ends("ml") == {}
