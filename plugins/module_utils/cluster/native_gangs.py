# SPDX-License-Identifier: BSD-2-Clause
"""Trainings whose pods Kubernetes itself starts together (queue: native of pools), by their PodGroups.

Sources: pkg/controller/job/job_scheduling_manager.go, pkg/scheduler/schedule_one_podgroup.go (alpha in 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ..kube.client import Client
from ..kube.resources import NATIVE_VERSION, Object, Resource
from ..labels import NATIVE_GANG
from .pending_reason import PendingReason
from .read_devices import list_or_none

K = TypeVar("K")
_POD_GROUP = Resource("PodGroup", NATIVE_VERSION, "podgroups")


def waiting_gangs(
    client: Client, gangs: Mapping[K, Object], pods: Mapping[K, Sequence[Object]]
) -> dict[K, PendingReason]:
    """Why gangs with pods without a node are not started: a list for each of their namespaces."""
    groups: dict[str, dict[str, Object]] = {}  # by namespace and name
    for job, workload in gangs.items():
        namespace = workload["metadata"]["namespace"]
        if namespace not in groups and any(map(native_group_of, pods.get(job, ()))):
            found = list_or_none(client, _POD_GROUP, namespace) or []
            groups[namespace] = {group["metadata"]["name"]: group for group in found}
    reasons = {
        job: waiting_for_gang(workload, pods.get(job, ()), groups.get(workload["metadata"]["namespace"], {}))
        for job, workload in gangs.items()
    }
    return {job: reason for job, reason in reasons.items() if reason}


def native_group_of(pod: Object) -> str | None:
    """The PodGroup that the Job controller has put a pod into."""
    name: str | None = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return name


def waiting_for_gang(workload: Object, pods: Iterable[Object], groups: Mapping[str, Object]) -> PendingReason | None:
    """Why the pods of a Job that Kubernetes starts as a whole are not started; None if they are. ``pods`` are its own,
    ``groups`` the PodGroups of its namespace, by name."""
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    names = {native_group_of(pod) for pod in waiting}
    if None in names:
        return PendingReason(
            "its pods are in no PodGroup, so they are started one by one: the Job controller has made none",
            "Switch on the feature gate WorkloadWithJob of kube-controller-manager, and restart the job",
        )
    own = next((groups[name] for name in sorted(filter(None, names)) if name in groups), {})
    conditions: list[Object] = (own.get("status") or {}).get("conditions") or []
    found = next((one for one in conditions if one.get("type") == "PodGroupScheduled"), {})
    if found.get("status") != "False":
        return None
    pods_together = workload["metadata"]["annotations"][NATIVE_GANG]
    message = found.get("message") or ""
    if found.get("reason") != "Unschedulable":  # SchedulerError
        return PendingReason(f"the scheduler has failed to start its {pods_together} pods together: {message}")
    return PendingReason(
        f"its {pods_together} pods are only started together, and have not found room for all since "
        f"{found.get('lastTransitionTime') or 'an unknown time'}"
    )
