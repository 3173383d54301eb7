# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Why a job does not run, in one sentence that says what to do, from its workload, pods, events and the nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..labels import job_name_of
from .nodes import Node
from .shortage import shortage_of
from .status import failure_of


def reason_for(
    workload: Mapping[str, Any],
    pods: Iterable[Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    nodes: Sequence[Node] | None = None,
) -> str | None:
    """The most telling obstacle, or None when nothing stands in the way (yet).

    What keeps a container from running counts most, then what ended the workload, then what keeps a pod from being
    placed, and last what kept pods from being made at all (a quota: there is no pod to look at then). ``events`` are
    the namespace's warnings, oldest first. ``nodes`` with what is used of them allow to say what is short; without
    them the scheduler's own words are given.
    """
    pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    found = (
        _first(_container_problem(pod) for pod in pods)
        or failure_of(workload)
        or _first(_unschedulable(pod, nodes) for pod in pods)
        or _first(_mount_problem(event, pods) for event in events)
        or _replica_failure(workload)
        or _first(_failed_create(event, workload) for event in reversed(list(events)))
    )
    return found.rstrip(". \n") + "." if found else None


def pod_status(pod: Mapping[str, Any]) -> str:
    """The phase of a pod, or the container's reason where that says more: ``ImagePullBackOff``, ``OOMKilled`` ..."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for container in _containers(pod):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            reason = (state.get(kind) or {}).get("reason")
            if reason and reason not in _HARMLESS:
                return str(reason)
    return str(status.get("reason") or status.get("phase") or "Pending")


def _first(candidates: Iterable[str | None]) -> str | None:
    return next((candidate for candidate in candidates if candidate), None)


_HARMLESS = frozenset({"ContainerCreating", "PodInitializing", "Completed"})
_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _container_problem(pod: Mapping[str, Any]) -> str | None:
    name = pod["metadata"]["name"]
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message") or ""
        ended = (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated")
        if reason in _PULL:
            return (
                f"the image {container.get('image')} of pod {name} cannot be pulled ({_short(message) or reason}); "
                f"check environment.image, and imagePullSecret for a private registry"
            )
        if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
            return f"the container of pod {name} cannot be started: {_short(message) or reason}"
        if ended and (ended.get("exitCode") or ended.get("reason") == "OOMKilled"):
            again = "keeps ending" if reason == "CrashLoopBackOff" else "ended"
            return f"the container of pod {name} {again} {_ending(ended)}"
        if reason and reason not in _HARMLESS:
            return f"pod {name} is in {reason}: {_short(message)}"
    if pod.get("status", {}).get("phase") == "Failed":
        status = pod["status"]
        return (
            f"pod {name} failed: {' '.join(filter(None, (status.get('reason'), _short(status.get('message') or ''))))}"
        )
    return None


def _ending(ended: Mapping[str, Any]) -> str:
    if ended.get("reason") == "OOMKilled":
        return "because it ran out of memory (OOMKilled); raise resources.memory"
    return f"with exit code {ended.get('exitCode')}; read its logs for the cause"


# What the scheduler says of evicting others (and, since 1.34, of resource claims) helps nobody here.
_PREEMPTION = re.compile(r"\s*(no new claims to deallocate, )?preemption:.*", re.DOTALL)


def _unschedulable(pod: Mapping[str, Any], nodes: Sequence[Node] | None) -> str | None:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and condition.get("message"):
            shortage = shortage_of(pod, nodes) if nodes is not None else None
            said = _PREEMPTION.sub("", condition["message"]).rstrip(". ")
            explained = f"{shortage} (scheduler: {said})" if shortage else said
            return f"pod {pod['metadata']['name']} cannot be placed: {explained}"
    return None


def _mount_problem(event: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str | None:
    """A pod that waits for a volume shows it in events alone."""
    involved = event.get("involvedObject") or {}
    waiting = {pod["metadata"]["uid"] for pod in pods if pod.get("status", {}).get("phase") == "Pending"}
    if event.get("reason") not in ("FailedMount", "FailedAttachVolume") or involved.get("uid") not in waiting:
        return None
    return f"pod {involved.get('name')} waits for a volume: {_short(event.get('message') or '')}"


def _replica_failure(workload: Mapping[str, Any]) -> str | None:
    for condition in workload.get("status", {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return _refused(condition.get("message") or "")
    return None


def _failed_create(event: Mapping[str, Any], workload: Mapping[str, Any]) -> str | None:
    """A refusal to create pods, told by the workload's own controller."""
    if event.get("reason") != "FailedCreate":
        return None
    involved = event.get("involvedObject") or {}
    ours = involved.get("uid") == workload["metadata"]["uid"] or (
        involved.get("kind") == "ReplicaSet"
        and str(involved.get("name", "")).rpartition("-")[0] == job_name_of(workload)
    )
    return _refused(event.get("message") or "") if ours else None


# The text of the quota admission plug-in (apiserver/pkg/admission/plugin/resourcequota/controller.go).
_QUOTA = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)")


def _refused(message: str) -> str:
    quota = _QUOTA.search(message)
    if not quota:
        return f"pods cannot be created: {_short(message)}"
    name, requested, used, limited = quota.groups()
    amounts = [dict(part.split("=", 1) for part in text.split(",")) for text in (requested, used, limited)]
    each = "; ".join(
        f"{resource.removeprefix('requests.')}: {amounts[0][resource]} more asked for, "
        f"{amounts[1].get(resource, '?')} of {amounts[2].get(resource, '?')} in use"
        for resource in amounts[0]
    )
    return (
        f"the quota {name} of the namespace is exhausted ({each}); delete a job, ask for less, or have the quota raised"
    )


def _short(message: str) -> str:
    """The first line, without the ending that will be set anew."""
    return message.strip().partition("\n")[0].rstrip(". ")
