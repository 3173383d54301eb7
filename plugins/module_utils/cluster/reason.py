# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Why a job does not run, in one sentence that says what to do, from its workload, pods, events and the nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..labels import KUEUE_QUEUE
from .events import is_about_pod, is_about_workload
from .nodes import Node
from .shortage import shortage_of
from .status import failure_of, status_of

Object = Mapping[str, Any]


def reason_for(
    workload: Object,
    pods: Iterable[Object],
    events: Iterable[Object],
    nodes: Sequence[Node] | None = None,
) -> str | None:
    """The most telling obstacle, or None when nothing stands in the way (yet).

    What keeps a container from running counts most, then what ended the workload, then what keeps a pod from being
    placed or ready, and then what kept pods from being made at all (a quota: there is no pod to look at then). Failed
    pods explain a workload that has nothing else to show. ``events`` are warnings, oldest first. ``nodes`` with what is
    used of them allow to say what is short; without them the scheduler's own words are given.
    """
    if status_of(workload) == "Paused":
        return _sentence(_paused(workload))
    events = list(events)
    pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    finished = [pod for pod in pods if _phase(pod) in ("Failed", "Succeeded")]
    pods = [pod for pod in pods if _phase(pod) not in ("Failed", "Succeeded")]
    gave_up = _gave_up(workload)
    found = (
        _first(_container_problem(pod) for pod in pods)
        or (gave_up and (_first(_container_problem(pod) for pod in finished) or gave_up))
        or _first(_unschedulable(pod, nodes) for pod in pods)
        or _first(_mount_problem(pod, events) for pod in pods)
        or _first(_not_ready(pod, events) for pod in pods)
        or _replica_failure(workload)
        or _first(_failed_create(event, workload) for event in reversed(events))
        or _first(_container_problem(pod) for pod in finished)
    )
    return _sentence(found)


def pod_status(pod: Object) -> str:
    """The phase of a pod, or the container's reason where that says more: ``ImagePullBackOff``, ``OOMKilled`` ..."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    if _phase(pod) == "Succeeded":  # A sidecar that was stopped then does not count.
        return "Succeeded"
    for container in _containers(pod):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            reason = (state.get(kind) or {}).get("reason")
            if reason and reason not in _HARMLESS:
                return str(reason)
    return str(status.get("reason") or _phase(pod))


def _first(candidates: Iterable[str | None]) -> str | None:
    return next((candidate for candidate in candidates if candidate), None)


def _sentence(text: str | None) -> str | None:
    return text.rstrip(". \n") + "." if text else None


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase") or "Pending")


# -- the workload itself ---------------------------------------------------------------------------------------------


def _paused(workload: Object) -> str:
    if workload["kind"] != "Job":
        return "it is scaled to 0 copies"
    queue = (workload["metadata"].get("labels") or {}).get(KUEUE_QUEUE)
    if queue:
        return f"it waits in the queue {queue} until Kueue admits it"
    return "it is suspended (spec.suspend)"


def _gave_up(workload: Object) -> str | None:
    message = failure_of(workload)
    if not message:
        return None
    what = "the training has failed" if workload["kind"] == "Job" else "its pods did not become ready in time"
    return f"{what}: {_short(message)}"


# -- containers ------------------------------------------------------------------------------------------------------

_HARMLESS = frozenset({"ContainerCreating", "PodInitializing", "Completed"})
_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_NOT_STARTED = frozenset({"ContainerCannotRun", "StartError"})  # ended before the command began


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _container_problem(pod: Object) -> str | None:
    name = pod["metadata"]["name"]
    for container in _containers(pod):
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message") or ""
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if "running" in state:  # What ended before is past; whether it is ready is asked elsewhere.
            continue
        if reason in _PULL:
            return (
                f"the image {container.get('image')} of pod {name} cannot be pulled{_pull_cause(message)}; "
                f"check environment.image, and imagePullSecret for a private registry"
            )
        if reason == "CreateContainerConfigError":
            return (
                f"the container of pod {name} cannot be started: {_short(message) or reason}; "
                f"create what is missing in the namespace, or correct environment.env"
            )
        if reason in ("CreateContainerError", "RunContainerError"):
            return (
                f"the container of pod {name} cannot be started: {_short(message) or reason}; check environment.command"
            )
        if ended and (ended.get("exitCode") or ended.get("reason") == "OOMKilled"):
            again = "keeps ending" if reason == "CrashLoopBackOff" else "ended"
            return f"the container of pod {name} {_ending(ended, again)}"
        if reason and reason not in _HARMLESS:
            return f"pod {name} is in {reason}{f': {_short(message)}' if message else ''}"
    if _phase(pod) == "Failed":
        status = pod["status"]
        causes = filter(None, (status.get("reason"), _short(status.get("message") or "")))
        return f"pod {name} failed: {': '.join(causes) or 'no cause was given'}"
    return None


def _pull_cause(message: str) -> str:
    """The kubelet's message without its beginning, which only repeats the image's name."""
    cause = re.sub(r'^(Back-off pulling image|Failed to pull image) ("[^"]*"|\S+?)(: (ErrImagePull: )?|$)', "", message)
    return f" ({_short(cause)})" if cause.strip() else ""


def _ending(ended: Mapping[str, Any], again: str) -> str:
    if ended.get("reason") == "OOMKilled":
        return f"{again} because it ran out of memory (OOMKilled); raise resources.memory"
    if ended.get("reason") in _NOT_STARTED:
        message = ended.get("message") or ""
        cause = message[message.find("exec: ") :] if "exec: " in message else message
        return f"cannot be started: {_short(cause) or ended['reason']}; check environment.command"
    return f"{again} with exit code {ended.get('exitCode')}; read its logs for the cause"


# -- pods ------------------------------------------------------------------------------------------------------------

# What the scheduler says of evicting others (and, since 1.34, of resource claims) helps nobody here.
_PREEMPTION = re.compile(r"\s*(no new claims to deallocate, )?preemption:.*", re.DOTALL)
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_OWN_SCHEDULER = "default-scheduler"


def _unschedulable(pod: Object, nodes: Sequence[Node] | None) -> str | None:
    spec, name = pod["spec"], pod["metadata"]["name"]
    if spec.get("nodeName"):
        return None
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"pod {name} {_not_placed(pod, condition, nodes)}"
    scheduler = spec.get("schedulerName") or _OWN_SCHEDULER
    if scheduler != _OWN_SCHEDULER:
        return f"pod {name} waits for the scheduler {scheduler}, which has not looked at it; check that it is installed"
    return None


def _not_placed(pod: Object, condition: Mapping[str, Any], nodes: Sequence[Node] | None) -> str:
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return f"is held back until {' and '.join(gates)} lets it go"
    said = _PREEMPTION.sub("", condition.get("message") or "").rstrip(". ")
    claim = _NO_CLAIM.search(said)
    if claim:
        return f"cannot be placed: the claim {claim[1]} does not exist; create it, or correct storage.workdirs"
    about_claims = "persistentvolumeclaim" in said.lower()  # said first, whatever the nodes have free
    shortage = shortage_of(pod, nodes) if nodes is not None and not about_claims else None
    if not shortage:
        return f"cannot be placed: {said or 'the scheduler gave no reason'}"
    # What we work out can be held against what the scheduler counted.
    counts = said.partition(" nodes are available: ")[2]
    return f"cannot be placed: {shortage}{f' (scheduler: {counts})' if counts else ''}"


def _mount_problem(pod: Object, events: Iterable[Object]) -> str | None:
    """A pod that waits for a volume shows it in events alone."""
    metadata = pod["metadata"]
    if _phase(pod) != "Pending" or not pod["spec"].get("nodeName"):
        return None
    for event in events:
        if event.get("reason") in ("FailedMount", "FailedAttachVolume") and _is_of(event, metadata):
            message = _short(event.get("message") or "")
            return f"pod {metadata['name']} waits for a volume: {message}; check storage.workdirs"
    return None


def _not_ready(pod: Object, events: Sequence[Object]) -> str | None:
    """A container that runs, but whose health check does not (yet) succeed."""
    metadata = pod["metadata"]
    starting = [c for c in _containers(pod) if "running" in (c.get("state") or {}) and not c.get("ready")]
    if not starting or _phase(pod) != "Running":
        return None
    told = [event for event in events if event.get("reason") == "Unhealthy" and _is_of(event, metadata)]
    if told:
        return f"pod {metadata['name']} runs, but is not ready: {_short(told[-1].get('message') or '')}"
    return f"pod {metadata['name']} runs, but is not ready yet"


def _is_of(event: Object, metadata: Mapping[str, Any]) -> bool:
    return is_about_pod(event, metadata["namespace"], {metadata["name"]})


# -- pods that were not made -----------------------------------------------------------------------------------------


def _replica_failure(workload: Object) -> str | None:
    for condition in workload.get("status", {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return _refused(condition.get("message") or "")
    return None


def _failed_create(event: Object, workload: Object) -> str | None:
    """A refusal to create pods, told by the workload's own controller."""
    if event.get("reason") != "FailedCreate" or not is_about_workload(event, workload):
        return None
    return _refused(event.get("message") or "")


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


_LONGEST = 240


def _short(message: str) -> str:
    """The first line, without the ending that will be set anew, and no longer than a person reads."""
    line = message.strip().partition("\n")[0].rstrip(". ")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
