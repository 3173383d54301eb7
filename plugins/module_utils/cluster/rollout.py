# SPDX-License-Identifier: BSD-2-Clause
"""A service whose update is not done: which of its pods are still the old ones, and how to go back. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..kube.resources import Object
from .pending_reason import PendingReason
from .related import is_pod_ready, pods_of_template
from .status import is_terminating, old_replicas, pods_ready

_REVISION = "deployment.kubernetes.io/revision"


def is_updating(workload: Object) -> bool:
    """Whether the pods of the current template, which is not the first one, have never all been ready."""
    status = workload.get("status", {})
    if workload["kind"] == "StatefulSet":
        return bool(status.get("updateRevision") != status.get("currentRevision"))
    first = (workload["metadata"].get("annotations") or {}).get(_REVISION, "1") == "1"
    # Kept from when the newest ReplicaSet was complete (deployment/progress.go, syncRolloutStatus).
    done = any(one.get("reason") == "NewReplicaSetAvailable" for one in status.get("conditions") or ())
    return workload["kind"] == "Deployment" and not first and not done


def during_update(reason: PendingReason, workload: Object, pods: Iterable[Object]) -> PendingReason:
    """The reason with what still serves, and with the way back where there is something to do."""
    if not is_updating(workload):
        return reason
    serving = _serving_old_pods(workload, pods)
    text = f"the update is not done, {_serve(serving)}: {reason.text}" if serving else reason.text
    back = "To go back to the last manifest that was ready, use O(state=rolled_back)"
    hint = f"{reason.hint.rstrip('. ')}. {back}" if reason.hint else back if reason.final else ""
    return replace(reason, text=text, hint=hint)


def _serve(number: int) -> str:
    return "1 old replica still serves" if number == 1 else f"{number} old replicas still serve"


def _serving_old_pods(workload: Object, pods: Iterable[Object]) -> int:
    """All that are ready but the new ones; a wait reads only these."""
    new = sum(is_pod_ready(pod) and not is_terminating(pod) for pod in pods_of_template(workload, pods))
    # Admission may have changed all pods, so that none is like the template.
    return min(max(0, pods_ready(workload) - new), old_replicas(workload))
