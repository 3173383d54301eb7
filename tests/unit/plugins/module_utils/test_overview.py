# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_status adds to the rows of gpuctl_job_info."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import with_restarts

NOW = datetime(2026, 1, 1, 1, tzinfo=timezone.utc)
JOB = {"name": "a", "namespace": "team", "kind": "training"}


def pod(**fields: Any) -> dict[str, Any]:
    return {**JOB, "restarts": 0, "started_at": None, "node": None, **fields}


def test_a_job_without_pods() -> None:
    (job,) = with_restarts([JOB], [], NOW)
    assert job == {**JOB, "restarts": 0, "running_for": None, "nodes": []}


def test_the_pods_of_a_job_and_no_others() -> None:
    pods = [
        pod(restarts=2, started_at="2026-01-01T00:10:00Z", node="node-2"),
        pod(restarts=1, started_at="2026-01-01T00:40:00Z", node="node-1"),
        pod(namespace="other", restarts=9, started_at="2026-01-01T00:59:00Z", node="node-9"),
        pod(),
    ]
    (job,) = with_restarts([JOB], pods, NOW)
    assert job == {**JOB, "restarts": 3, "running_for": "20m", "nodes": ["node-1", "node-2"]}
