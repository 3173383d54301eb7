# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_status adds to the rows of gpuctl_job_info, and the status of several clusters as one."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import merged_status, with_restarts
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import TaskFailed

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


READ = {"jobs": [JOB], "pods": [], "quotas": [], "pools": [], "nodes": [], "namespace": "team", "unreadable": {}}


def test_the_rows_of_several_clusters_name_theirs() -> None:
    merged = merged_status({"east": READ, "west": {"failed": True, "msg": "cannot reach it"}})
    assert merged["jobs"] == [{"cluster": "east", **JOB}]
    assert merged["clusters"] == [
        {"cluster": "east", "error": None, "is_found": True, "namespace": "team", "unreadable": {}},
        {"cluster": "west", "error": "cannot reach it", "is_found": True, "namespace": None, "unreadable": None},
    ]


def test_one_cluster_is_enough_to_have_a_job() -> None:
    lacks = {"failed": True, "msg": "job not found: a", "not_found": ["job not found: a"]}
    assert [each["is_found"] for each in merged_status({"east": READ, "west": lacks})["clusters"]] == [True, False]
    with pytest.raises(TaskFailed, match=r"^job not found: a$"):
        merged_status({"east": lacks, "west": lacks})


@pytest.mark.parametrize("result", [None, [], {}, {"jobs": 1}])
def test_what_is_no_status_of_a_cluster_is_refused(result: object) -> None:
    with pytest.raises(TaskFailed, match="that of west is no result of"):
        merged_status({"east": READ, "west": result})
