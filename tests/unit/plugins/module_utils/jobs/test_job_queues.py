# SPDX-License-Identifier: BSD-2-Clause
"""A job stays in the queue that it started in, as Kueue demands, and its place there is the one that Kueue gives it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.admission import JobQueue
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.queue_reasons import (
    Admissions,
    PodGroups,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_queues import kept_queue

RUNNING: dict[str, Any] = {"Job": {"active": 1, "ready": 1}, "Deployment": {"readyReplicas": 1}}
IN_POOL = {"kueue": "gpuctl-big", "volcano": "gpuctl-big.ml"}
Asked = str | None  # a queueing system, of the pool; or with a name of its own, as in kueue/mine


def workload(kind: str, queue: Asked = None, **more: Any) -> dict[str, Any]:
    backend, _slash, name = (queue or "none").partition("/")
    name = name or IN_POOL.get(backend, "")
    labels = {"runwhere.ai/pool": "big", **({"kueue.x-k8s.io/queue-name": name} if backend == "kueue" else {})}
    metadata = {"name": "job", "namespace": "ml", "uid": "1", "labels": labels}
    template = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": name}}} if backend == "volcano" else {}
    spec = {"template": {**template, "spec": {"schedulerName": "volcano"} if backend == "volcano" else {}}}
    spec |= more.pop("spec", {})
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": {}, **more}


@pytest.mark.parametrize("backend", ["kueue", "volcano"])
@pytest.mark.parametrize(
    ("kind", "live", "wanted", "kept"),
    [
        ({"kind": "Job"}, None, "POOL", "none"),
        ({"kind": "Job"}, "POOL", None, "POOL"),
        ({"kind": "Job", "spec": {"suspend": True}}, None, "POOL", None),
        ({"kind": "Job", "status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}, None,
         "POOL", "none"),
        ({"kind": "Job"}, "kueue/mine", "kueue/other", None),
        ({"kind": "Job"}, "POOL", "POOL", None),
        ({"kind": "Deployment"}, None, "POOL", "none"),
        ({"kind": "Deployment", "status": {}}, None, "POOL", None),
    ],
    ids=[
        "a running job gets none",
        "a running job keeps its own",
        "a suspended one may change",
        "a finished one is not run again for it",
        "what the manifest says counts",
        "the same",
        "a running service gets none",
        "one without ready pods may",
    ],
)  # fmt: skip
def test_the_queue_of_what_runs_is_kept(
    backend: str, kind: dict[str, Any], live: Asked, wanted: Asked, kept: str | None
):
    def asked(name: Asked) -> Asked:
        return backend if name == "POOL" else name

    former = workload(queue=asked(live), **{"status": RUNNING[kind["kind"]], **kind})
    found = kept_queue(workload(kind["kind"], asked(wanted)), [former])
    queues = {None: None, "none": JobQueue("none"), "POOL": JobQueue(backend, IN_POOL[backend])}
    assert found == queues[kept]


@pytest.mark.parametrize(("live", "wanted", "kept"), [("kueue", None, True), ("volcano", None, False)])
def test_only_kueue_keeps_a_service_without_pods(live: str, wanted: Asked, kept: bool):
    former = workload("Deployment", live)
    assert (kept_queue(workload("Deployment", wanted), [former]) is not None) is kept


def test_a_running_job_stays_with_the_former_system_of_its_pool():
    former = workload("Job", "kueue", status=RUNNING["Job"])
    assert kept_queue(workload("Job", "volcano"), [former]) == JobQueue("kueue", "gpuctl-big")


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
    reason = Admissions([*others, own]).reason(workload("Job", "kueue/q"), "q")
    assert reason is not None
    assert place in reason.text
    assert "since 2026-01-02T00:00:00Z" in reason.text


def test_a_job_that_kueue_does_not_know_has_no_place():
    assert Admissions([]).reason(workload("Job", "kueue/q"), "q") is None


def test_a_job_that_was_evicted_waits_since_then():
    evicted = {
        "type": "Evicted",
        "status": "True",
        "message": "preempted",
        "lastTransitionTime": "2026-01-05T00:00:00Z",
    }
    own = {**admission("a", "1", "2026-01-02T00:00:00Z"), "status": {"conditions": [evicted]}}
    reason = Admissions([own]).reason(workload("Job", "kueue/q"), "q")
    assert reason is not None
    assert "since 2026-01-05T00:00:00Z, number 1 of 1 that wait there: preempted" in reason.text


def group(name: str, phase: str, queue: str = "q", message: str = "", members: int = 2) -> dict[str, Any]:
    said = [{"type": "Unschedulable", "status": "True", "message": message}] if message else []
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-01-02T00:00:00Z"},
        "spec": {"queue": queue, "minMember": members},
        "status": {"phase": phase, "conditions": said},
    }


EVENTS = [
    {"involvedObject": {"name": "other"}, "message": "another"},
    {"involvedObject": {"name": "own"}, "message": "queue resource quota insufficient: insufficient nvidia.com/gpu"},
]


@pytest.mark.parametrize(
    ("own", "others", "said"),
    [
        (group("own", "Pending"), [], "all of its pods since 2026-01-02T00:00:00Z (its place is not known"),
        (group("own", "Pending"), [], "configuration): queue resource quota insufficient: insufficient nvidia.com/gpu"),
        (group("own", "Inqueue", message="1/2 tasks in gang unschedulable"), [], "configuration): 1/2 tasks in gang"),
        (group("own", "Pending", members=1), [], "for Volcano to schedule its pod since"),
        (group("own", "Pending"), [group("a", "Inqueue"), group("b", "Pending")], ", and 2 more of this namespace"),
        (group("own", "Pending"), [group("a", "Running"), group("b", "Pending", "r")], "00Z (its place"),
        (group("own", ""), [], "waiting in queue q for Volcano"),
        (group("own", "Running"), [], None),
        (group("own", "Completed"), [], None),
    ],
)
def test_what_volcano_says(own: dict[str, Any], others: list[dict[str, Any]], said: str | None):
    reason = PodGroups([own, *others], EVENTS).reason(own["metadata"]["name"])
    assert (reason is None) if said is None else (reason is not None and said in reason.text)
