# SPDX-License-Identifier: BSD-2-Clause
"""Jobs, pods and events as rows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.events_by_object import EventsByObject
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_rows import (
    age,
    event_row,
    job_row,
    pod_row,
)

from ...cluster.live_objects import GPU_TYPE, container, event, pod, with_container, workload

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
NOW = START + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172799, "47h"), (172800, "2d")],
)
def test_age(seconds: int, text: str) -> None:
    assert age("2026-01-01T00:00:00Z", START + timedelta(seconds=seconds)) == text


def test_age_of_a_time_with_microseconds() -> None:
    assert age("2026-01-01T00:00:00.500000Z", NOW) == "4m"


def test_a_job() -> None:
    labels = {"runwhere.ai/pool": "a", "runwhere.ai/priority": "high"}
    status = {"active": 1, "ready": 1, "startTime": "2026-01-01T00:01:00Z"}
    obj = workload("Job", labels=labels, status=status)
    obj["metadata"]["annotations"] = {"runwhere.ai/description": "微调"}
    spec = obj["spec"]["template"]["spec"]
    spec["nodeSelector"] = {GPU_TYPE: "A100"}
    main = {"name": "main", "image": "reg/ml:v1", "resources": {"requests": {"nvidia.com/gpu": "4", "cpu": "32"}}}
    spec["containers"] = [{"name": "proxy", "image": "injected"}, main]
    assert job_row(obj, NOW) == {
        "name": "x",
        "namespace": "ml",
        "kind": "training",
        "status": "Running",
        "ready": "1/1",
        "pods_wanted": 1,
        "pool": "a",
        "priority": "high",
        "gpu": 4,
        "gpu_type": "A100",
        "gpu_share": None,
        "accelerators": [
            {
                "accelerator": "nvidia",
                "resource": "nvidia.com/gpu",
                "counts": "devices",
                "partition": None,
                "unit": None,
                "amount": 4,
            }
        ],
        "cpu": "32",
        "memory": None,
        "image": "reg/ml:v1",
        "description": "微调",
        "sweep": None,
        "submitted_by": None,
        "managed": True,
        "workload": "Job/x",
        "copy_of_kueue": False,
        "created_at": "2026-01-01T00:00:00Z",
        "started_at": "2026-01-01T00:01:00Z",
        "finished_at": None,
        "ends_at": None,
        "time_left": None,
        "age": "5m",
    }


def test_the_end_of_a_training_with_a_time_limit() -> None:
    limited = workload("Job", status={"startTime": "2026-01-01T00:01:00Z"}, activeDeadlineSeconds=2 * 3600 - 30)
    row = job_row(limited, NOW)
    assert (row["ends_at"], row["time_left"]) == ("2026-01-01T02:01:00Z", "116m")


def test_a_job_of_the_former_command_line() -> None:
    obj = workload("Job")
    obj["metadata"]["labels"] = {"runwhere.ai/job-type": "training"}
    obj["spec"]["template"]["spec"]["containers"] = [{"name": "x", "image": "i", "resources": {}}]
    row = job_row(obj, NOW)
    assert {key: row[key] for key in ("name", "pool", "gpu", "managed", "image")} == {
        "name": "x",
        "pool": "default",
        "gpu": 0,
        "managed": False,
        "image": "i",
    }


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({}, None),
        ({"completionTime": "2026-01-01T00:02:00Z"}, "2026-01-01T00:02:00Z"),
        (
            {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:03:00Z"}]},
            "2026-01-01T00:03:00Z",
        ),
    ],
    ids=["not yet", "succeeded", "failed"],
)
def test_when_a_training_finished(status: dict[str, Any], finished: str | None) -> None:
    assert job_row(workload("Job", status=status), NOW)["finished_at"] == finished


def test_a_pod() -> None:
    status = {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "containerStatuses": [
            container(ready=True, restartCount=2, state={"running": {"startedAt": "2026-01-01T00:04:00Z"}})
        ],
    }
    assert pod_row(pod(nodeName="n1", status=status), NOW) == {
        "job_id": "x-1",
        "name": "x",
        "namespace": "ml",
        "kind": "training",
        "status": "Running",
        "ready": "1/1",
        "restarts": 2,
        "started_at": "2026-01-01T00:04:00Z",
        "node": "n1",
        "ip": "10.1.2.3",
        "age": "5m",
        "image": "reg/ml:v1",
    }


STATUSES: dict[str, tuple[dict[str, Any], str]] = {
    "without a node": (pod(), "Pending"),
    "without any status": (pod(status={"x": 1}), "Pending"),
    "starting": (pod(status=with_container(state={"waiting": {"reason": "ContainerCreating"}})), "Pending"),
    "pulling in vain": (
        pod(status=with_container(state={"waiting": {"reason": "ImagePullBackOff"}})),
        "ImagePullBackOff",
    ),
    "crashing": (
        pod(status=with_container("Running", state={"waiting": {"reason": "CrashLoopBackOff"}})),
        "CrashLoopBackOff",
    ),
    "killed for its memory": (
        pod(status=with_container("Failed", state={"terminated": {"reason": "OOMKilled", "exitCode": 137}})),
        "OOMKilled",
    ),
    "failed": (pod(status=with_container("Failed", state={"terminated": {"reason": "Error", "exitCode": 1}})), "Error"),
    "ended well": (
        pod(status=with_container("Succeeded", state={"terminated": {"reason": "Completed", "exitCode": 0}})),
        "Succeeded",
    ),
    "ended well, its sidecar did not": (
        pod(
            status={
                **with_container("Succeeded", state={"terminated": {"reason": "Completed", "exitCode": 0}}),
                "initContainerStatuses": [container(state={"terminated": {"reason": "Error", "exitCode": 137}})],
            }
        ),
        "Succeeded",
    ),
    "an init container that crashes": (
        pod(
            status={
                "phase": "Pending",
                "initContainerStatuses": [container(state={"waiting": {"reason": "CrashLoopBackOff"}})],
            }
        ),
        "CrashLoopBackOff",
    ),
    "evicted": (pod(status={"phase": "Failed", "reason": "Evicted"}), "Evicted"),
    "being deleted": (pod(deleted=True, status=with_container("Running", state={"running": {}})), "Terminating"),
}


@pytest.mark.parametrize(("obj", "status"), STATUSES.values(), ids=STATUSES)
def test_the_status_of_a_pod(obj: dict[str, Any], status: str) -> None:
    assert pod_row(obj, NOW)["status"] == status


def test_the_events_of_a_job_are_its_own() -> None:
    events = [
        event("FailedCreate", "a", "ReplicaSet", "x-6d4b", count=3, lastTimestamp="2026-01-01T00:04:30Z"),
        event("FailedCreate", "b", "ReplicaSet", "x-y-6d4b"),
        event("FailedScheduling", "c", eventTime="2026-01-01T00:04:00.000000Z", lastTimestamp=None),
        event("FailedScheduling", "d", name="y-1"),
        event("Told", "e", "Deployment", "x", series={"count": 7, "lastObservedTime": "2026-01-01T00:04:50.000000Z"}),
    ]
    found = EventsByObject(events).of(workload("Deployment"), {"x-1"})
    assert [event_row(each, NOW) for each in found] == [
        {"object": "ReplicaSet/x-6d4b", "reason": "FailedCreate", "message": "a", "count": 3, "age": "30s"},
        {"object": "Pod/x-1", "reason": "FailedScheduling", "message": "c", "count": 1, "age": "60s"},
        {"object": "Deployment/x", "reason": "Told", "message": "e", "count": 7, "age": "10s"},
    ]


def test_the_events_of_a_namesake_in_another_namespace_are_not() -> None:
    other = event("FailedScheduling", "c")
    other["metadata"]["namespace"] = "elsewhere"
    assert EventsByObject([other]).of(workload("Job"), {"x-1"}) == []
