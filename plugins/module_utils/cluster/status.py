# SPDX-License-Identifier: BSD-2-Clause
"""The status of a job, from its workload, the predicates that waiting needs, and what a pause is. Pure.

The status never comes from the pods: counting them cannot distinguish a finished training from one whose pods
were removed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..kube.errors import as_sentence, cut
from ..labels import KUEUE_QUEUE, PAUSED_REPLICAS

TIMED_OUT = "TimedOut"
FAILURES = ("Failed", TIMED_OUT)
ENDED = ("Succeeded", *FAILURES)
STUCK = ("Pending", "Partially Running", "Paused", *FAILURES)  # the statuses that call for a reason

# FailureTarget (since 1.31) is set while the last pods still terminate, Failed once they have.
_FAILED = frozenset({"Failed", "FailureTarget"})


def status_of(workload: Mapping[str, Any]) -> str:
    """``Pending``, ``Running``, ``Partially Running``, ``Paused``, ``Succeeded``, ``Failed`` or ``TimedOut``.

    A Job that waits in a queue of Kueue is suspended as well, but pending, unless a pause was asked for.
    """
    if workload["kind"] == "Job":
        status = _job_status(workload)
        waits = status == "Paused" and is_admitted_by_kueue(workload) and kept_replicas(workload) is None
        return "Pending" if waits else status
    wanted = workload["spec"].get("replicas", 1)
    ready = workload.get("status", {}).get("readyReplicas", 0)
    if wanted == 0:
        return "Paused"
    if ready >= wanted:
        return "Running"
    return "Partially Running" if ready else "Pending"


def needs_reason(workload: Mapping[str, Any]) -> bool:
    """Whether something is to be said of a job. Where old replicas serve, it runs while its update fails."""
    return status_of(workload) in STUCK or old_replicas(workload) > 0


def old_replicas(workload: Mapping[str, Any]) -> int:
    """The replicas of before an update; its controller does not count those that are terminating."""
    status = workload.get("status", {})
    if workload["kind"] != "Deployment":
        return 0
    return max(0, int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0)))


def is_ready(workload: Mapping[str, Any]) -> bool:
    """Every pod of the current generation is ready; a training may also have succeeded."""
    status, spec = workload.get("status", {}), workload["spec"]
    if workload["kind"] == "Job":
        if _job_status(workload) == "Succeeded":
            return True
        return bool(status.get("ready", 0) >= spec.get("parallelism", 1) - status.get("succeeded", 0) > 0)
    wanted = spec.get("replicas", 1)
    if _is_outdated(workload):
        return False
    if workload["kind"] == "StatefulSet":
        # With OnDelete the controller never replaces a pod itself, so the revisions may differ for ever.
        rolls = spec.get("updateStrategy", {}).get("type") != "OnDelete"
        current = not rolls or status.get("updateRevision") == status.get("currentRevision")
        return bool(current and status.get("readyReplicas", 0) == wanted)
    # ``replicas`` counts old pods until the rollout has removed them (as kubectl rollout status does).
    return all(status.get(count, 0) == wanted for count in ("updatedReplicas", "replicas", "availableReplicas"))


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Whether an object was deleted and only waits for its finalizers, dependents or grace period."""
    return "deletionTimestamp" in obj["metadata"]


def why_terminating(namespace: Mapping[str, Any]) -> str:
    """What keeps a namespace that was deleted, as sentences of the namespace controller; "" while it does not say."""
    reasons = [
        as_sentence(cut(one.get("message") or one.get("reason") or ""))
        for one in (namespace.get("status") or {}).get("conditions") or ()
        if one["status"] == "True" and (one.get("message") or one.get("reason"))
    ]
    held = namespace["metadata"].get("finalizers")
    return " ".join([*reasons, *([f"It has the finalizers {cut(', '.join(held))}."] if held else [])])


def being_deleted(namespace: Mapping[str, Any] | None) -> str:
    """A sentence for a namespace that was deleted and is still there, with what keeps it; "" for any other."""
    if namespace is None or not is_terminating(namespace):
        return ""
    return f"namespace {namespace['metadata']['name']} is being deleted. {why_terminating(namespace)}".rstrip()


def is_rolled_out(workload: Mapping[str, Any]) -> bool:
    """All wanted pods were created from the current template, ready or not; always true for a Job."""
    updated = workload.get("status", {}).get("updatedReplicas", 0)
    return workload["kind"] == "Job" or bool(not _is_outdated(workload) and updated >= pods_wanted(workload))


def is_complete(workload: Mapping[str, Any]) -> bool:
    """A training has succeeded. Other kinds never finish: they are complete when they are ready."""
    return _job_status(workload) == "Succeeded" if workload["kind"] == "Job" else is_ready(workload)


def failure_of(workload: Mapping[str, Any]) -> str | None:
    """The server's message why the workload will not become ready; None while it still may."""
    if _is_outdated(workload):
        return None
    for condition in workload.get("status", {}).get("conditions") or ():
        failed = condition["type"] in _FAILED and condition["status"] == "True"
        timed_out = condition["type"] == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded"
        if failed or (timed_out and condition["status"] == "False"):
            return str(condition.get("message") or condition.get("reason"))
    return None


def pods_ready(workload: Mapping[str, Any]) -> int:
    return int(workload.get("status", {}).get("ready" if workload["kind"] == "Job" else "readyReplicas", 0))


def pods_wanted(workload: Mapping[str, Any]) -> int:
    """The number of pods that should exist now."""
    spec = workload["spec"]
    return int(spec.get("parallelism", 1) if workload["kind"] == "Job" else spec.get("replicas", 1))


# A training is paused by ``suspend`` of its Job. Deployments and StatefulSets have no such field: they are scaled to
# zero, and an annotation keeps the number of replicas to resume with. An autoscaler ignores a workload without replicas
# (pkg/controller/podautoscaler/horizontal.go, ScalingDisabled), so it can stay. ``suspend`` of a Job in a Kueue queue
# belongs to Kueue; such a job is paused by ``spec.active`` of its Kueue Workload, and the annotation tells a pause from
# the time that it waits for Kueue.


def is_paused(workload: Mapping[str, Any]) -> bool:
    """Whether the workload should have no pods although it has not ended; false for a Job that Kueue admits."""
    return status_of(workload) == "Paused" and not is_admitted_by_kueue(workload)


def is_suspended(workload: Mapping[str, Any]) -> bool:
    """Whether the workload has no pods although it has not ended: it is paused, or waits for Kueue."""
    return (_job_status(workload) if workload["kind"] == "Job" else status_of(workload)) == "Paused"


def is_held(workload: Mapping[str, Any]) -> bool:
    """Whether the workload stays paused until it is resumed.

    One that was scaled to zero without the annotation was not paused by gpuctl: its manifest decides.
    """
    return is_paused(workload) and (workload["kind"] == "Job" or kept_replicas(workload) is not None)


def is_admitted_by_kueue(workload: Mapping[str, Any]) -> bool:
    """Whether Kueue decides by ``suspend`` when the workload runs.

    For Deployments and StatefulSets, Kueue gates the pods instead and lets them be scaled to zero and back (kueue
    pkg/controller/jobs/statefulset, ValidateUpdate).
    """
    return workload["kind"] == "Job" and KUEUE_QUEUE in (workload["metadata"].get("labels") or {})


def kept_replicas(workload: Mapping[str, Any]) -> int | None:
    """The number of replicas to resume with; None if the annotation is missing or not a number."""
    text = (workload["metadata"].get("annotations") or {}).get(PAUSED_REPLICAS, "")
    return int(text) if text.isdecimal() and int(text[:11]) < 2**31 else None


def stay_paused(desired: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The desired workload, paused if the live one is: applying a manifest does not resume a job.

    The manifest's replicas are kept for the resumption.
    """
    desired = dict(desired)
    if not is_held(live) or is_admitted_by_kueue(desired):
        return desired
    if desired["kind"] == "Job":
        return {**desired, "spec": {**desired["spec"], "suspend": True}}
    kept = kept_replicas(live)
    replicas = desired["spec"].get("replicas", 1 if kept is None else kept)
    annotations = {**desired["metadata"].get("annotations", {}), PAUSED_REPLICAS: str(replicas)}
    return {
        **desired,
        "metadata": {**desired["metadata"], "annotations": annotations},
        "spec": {**desired["spec"], "replicas": 0},
    }


def _is_outdated(workload: Mapping[str, Any]) -> bool:
    """Whether the status is older than the last change of the spec. Jobs have no observedGeneration."""
    observed = workload.get("status", {}).get("observedGeneration", 0)
    return workload["kind"] != "Job" and bool(observed < workload["metadata"].get("generation", 0))


def _job_status(job: Mapping[str, Any]) -> str:
    status = job.get("status", {})
    true = {condition["type"] for condition in status.get("conditions") or () if condition["status"] == "True"}
    completions = job["spec"].get("completions")
    if "Complete" in true or (completions and status.get("succeeded", 0) >= completions):
        return "Succeeded"
    if true & _FAILED:
        late = (one["type"] in _FAILED and one.get("reason") == "DeadlineExceeded" for one in status["conditions"])
        return TIMED_OUT if any(late) else "Failed"  # JobReasonDeadlineExceeded (batch/v1)
    # The spec, as the condition Suspended follows only when the controller has seen it.
    if job["spec"].get("suspend"):
        return "Paused"
    # ``active`` also counts pods without a node; ``ready`` does not (absent from old servers).
    if not status.get("active") or status.get("ready") == 0:
        return "Pending"
    return "Running" if status.get("ready", math.inf) >= _pods_to_run(job) else "Partially Running"


def _pods_to_run(job: Mapping[str, Any]) -> int:
    """The number of pods that should run at the same time now: those that have succeeded are not replaced.

    The controller counts a pod as succeeded only when it has removed its finalizer; until then it is listed.
    """
    status, spec = job.get("status", {}), job["spec"]
    counted_soon = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
    parallelism = spec.get("parallelism", 1)
    left = spec.get("completions", parallelism) - status.get("succeeded", 0) - len(counted_soon)
    return int(min(parallelism, left))
