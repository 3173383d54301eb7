# SPDX-License-Identifier: BSD-2-Clause
"""A job stays in the queue that it started in, as Kueue demands, and its place there is the one that Kueue gives it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.admission import waiting_in_queue
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_queues import keep_queue

QUEUE = "kueue.x-k8s.io/queue-name"
RUNNING: dict[str, Any] = {"Job": {"active": 1, "ready": 1}, "Deployment": {"readyReplicas": 1}}


def workload(kind: str, queue: str | None, **more: Any) -> dict[str, Any]:
    labels = {"runwhere.ai/pool": "big", **({QUEUE: queue} if queue else {})}
    metadata = {"name": "job", "namespace": "ml", "uid": "1", "labels": labels}
    return {"kind": kind, "metadata": metadata, "spec": {}, "status": {}, **more}


@pytest.mark.parametrize(
    ("kind", "live", "wanted", "kept"),
    [
        ({"kind": "Job"}, None, "gpuctl-big", None),
        ({"kind": "Job"}, "gpuctl-big", None, "gpuctl-big"),
        ({"kind": "Job", "spec": {"suspend": True}}, None, "gpuctl-big", "gpuctl-big"),
        ({"kind": "Job"}, "mine", "other", "other"),
        ({"kind": "Deployment"}, None, "gpuctl-big", None),
        ({"kind": "Deployment", "status": {}}, None, "gpuctl-big", "gpuctl-big"),
        ({"kind": "Deployment", "status": {}}, "gpuctl-big", None, "gpuctl-big"),
    ],
    ids=[
        "a running job gets none",
        "a running job keeps its own",
        "a suspended one may change",
        "what the manifest says counts",
        "a running service gets none",
        "one without ready pods may",
        "but never loses it",
    ],
)
def test_the_queue_of_what_runs_is_kept(kind: dict[str, Any], live: str | None, wanted: str | None, kept: str | None):
    former = workload(queue=live, **{"status": RUNNING[kind["kind"]], **kind})
    (found,) = keep_queue((workload(kind["kind"], wanted),), [former])
    assert found["metadata"]["labels"].get(QUEUE) == kept


def admission(name: str, uid: str, created: str, priority: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/job-uid": uid}, "creationTimestamp": created},
        "spec": {"queueName": "q", "priority": priority, **more.pop("spec", {})},
        "status": {"conditions": [{"type": kind, "status": "True", "message": kind} for kind in more.pop("is_", ())]},
    }


@pytest.mark.parametrize(
    ("others", "place"),
    [
        ([], "number 1 of 1"),
        ([admission("b", "2", "2026-01-01T00:00:00Z")], "number 2 of 2"),
        ([admission("b", "2", "2026-01-03T00:00:00Z")], "number 1 of 2"),
        ([admission("b", "2", "2026-01-03T00:00:00Z", priority=5)], "number 2 of 2"),
        ([admission("b", "2", "2026-01-01T00:00:00Z", is_=["QuotaReserved"])], "number 1 of 1"),
        ([admission("b", "2", "2026-01-01T00:00:00Z", spec={"active": False})], "number 1 of 1"),
        ([admission("b", "2", "2026-01-01T00:00:00Z", spec={"queueName": "other"})], "number 1 of 1"),
    ],
    ids=["alone", "older", "newer", "priority", "admitted", "paused", "another queue"],
)
def test_the_place_in_the_queue(others: list[dict[str, Any]], place: str):
    own = admission("a", "1", "2026-01-02T00:00:00Z")
    reason = waiting_in_queue(workload("Job", "q"), "q", [*others, own])
    assert reason is not None
    assert place in reason.text


def test_a_job_that_kueue_does_not_know_has_no_place():
    assert waiting_in_queue(workload("Job", "q"), "q", []) is None
