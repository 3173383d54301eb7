# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Why a job does not run, in one sentence that says what to do, from its workload, pods, events and the nodes. Pure.

Each obstacle says whether it is final: waiting for a job ends early only where no time can help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..labels import KUEUE_QUEUE
from ..quantity import parse
from .events import is_about_pod, is_about_workload
from .nodes import Node
from .shortage import shortage_of
from .status import failure_of, pods_wanted, status_of

Object = Mapping[str, Any]


@dataclass(frozen=True)
class PendingReason:
    """One thing that stands in a job's way. ``final``: without somebody's help it always will.

    ``refusal`` is the server's text where it does not let pods be made, ``log`` the pod and container that ended and
    whose log may tell more.
    """

    text: str
    final: bool = False
    log: tuple[str, str] | None = None
    refusal: str | None = None
    needs_other_nodes: bool = False

    @property
    def sentence(self) -> str:
        return self.text.rstrip(". \n") + "."


def reason_for(
    workload: Object,
    pods: Iterable[Object],
    events: Iterable[Object],
    nodes: Sequence[Node] | None = None,
) -> str | None:
    """The sentence of the most telling obstacle, or None when nothing stands in the way (yet)."""
    return next((blocker.sentence for blocker in pending_reasons(workload, pods, events, nodes)), None)


def pending_reasons(
    workload: Object,
    pods: Iterable[Object],
    events: Iterable[Object],
    nodes: Sequence[Node] | None = None,
) -> Iterator[PendingReason]:
    """What stands in the way of a workload, the most telling first.

    What keeps a container from running counts most, then what ended the workload, then what keeps a pod from being
    placed or ready, and then what kept pods from being made at all (a quota: there is no pod to look at then). Failed
    pods explain a workload that has nothing else to show. ``events`` are warnings, oldest first. ``nodes`` with what is
    used of them allow to say what is short; without them the scheduler's own words are given.
    """
    if status_of(workload) == "Paused":
        yield PendingReason(_paused(workload))
        return
    events = list(events)
    pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    finished = [pod for pod in pods if _phase(pod) in ("Failed", "Succeeded")]
    pods = [pod for pod in pods if _phase(pod) not in ("Failed", "Succeeded")]
    yield from _each(_container_problem(pod, events) for pod in pods)
    gave_up = list(_gave_up(workload, finished, events))
    unplaced = list(_each(_unschedulable(pod, nodes) for pod in pods))
    if workload["kind"] == "Job" or not unplaced:
        yield from gave_up
        yield from unplaced
    else:  # A service whose pods wait for a node may miss its deadline, and runs all the same when they have one.
        yield from unplaced
        yield from (replace(blocker, final=False) for blocker in gave_up)
    yield from _each(_mount_problem(pod, events) for pod in pods)
    yield from _each(_not_ready(pod, events) for pod in pods)
    yield from _each([_replica_failure(workload)])
    if len(pods) + workload.get("status", {}).get("succeeded", 0) < pods_wanted(workload):  # else it is past
        yield from _each(_failed_create(event, workload) for event in reversed(events))
    yield from _each(_container_problem(pod, events) for pod in finished)


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


def _each(candidates: Iterable[PendingReason | None]) -> Iterator[PendingReason]:
    return (candidate for candidate in candidates if candidate)


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase") or "Pending")


# -- the workload itself ---------------------------------------------------------------------------------------------


def _paused(workload: Object) -> str:
    if workload["kind"] != "Job":
        return "it is scaled to 0 copies; state=resumed gives it its copies back"
    queue = (workload["metadata"].get("labels") or {}).get(KUEUE_QUEUE)
    if queue:
        return f"it waits in the queue {queue} until Kueue admits it"
    return "it is suspended (spec.suspend); state=resumed lets it go on"


def _gave_up(workload: Object, finished: Iterable[Object], events: Sequence[Object]) -> Iterator[PendingReason]:
    """The end of a workload, told by the pods that failed where there are any."""
    message = failure_of(workload)
    if not message:
        return
    for told in _each(_container_problem(pod, events) for pod in finished):
        yield replace(told, final=True)
    what = "the training has failed" if workload["kind"] == "Job" else "its pods did not become ready in time"
    yield PendingReason(f"{what}: {_short(message)}", final=True)


# -- containers ------------------------------------------------------------------------------------------------------

_HARMLESS = frozenset({"ContainerCreating", "PodInitializing", "Completed"})
_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_NOT_STARTED = frozenset({"ContainerCannotRun", "StartError"})  # ended before the command began
# The kubelet has tried and waits before it tries again, or knows that trying is no use.
_PULL_FAILED = _PULL - {"ErrImagePull"}
# What registries and networks say when the same pull may work a minute later.
_PASSING = re.compile(
    r"time(d )?out|deadline exceeded|connection (refused|reset)|toomanyrequests|too many requests|unexpected EOF"
    r"|\b(429|50[0234])\b|temporar|try again|no space left",
    re.IGNORECASE,
)


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _container_problem(pod: Object, events: Iterable[Object]) -> PendingReason | None:
    name = pod["metadata"]["name"]
    for container in _containers(pod):
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message") or ""
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if "running" in state:  # What ended before is past; whether it is ready is asked elsewhere.
            continue
        if reason in _PULL:
            cause = _pull_cause(message) or _pull_cause(_told_of_pull(pod, events))
            text = (
                f"the image {container.get('image')} of pod {name} cannot be pulled{f' ({cause})' if cause else ''}; "
                f"check environment.image, and imagePullSecret for a private registry"
            )
            return PendingReason(text, final=reason in _PULL_FAILED and not _PASSING.search(cause))
        if reason == "CreateContainerConfigError":
            return PendingReason(
                f"the container of pod {name} cannot be started: {_short(message) or reason}; "
                f"create what is missing in the namespace, or correct environment.env"
            )
        if reason in ("CreateContainerError", "RunContainerError"):
            return PendingReason(
                f"the container of pod {name} cannot be started: {_short(message) or reason}; check environment.command"
            )
        if ended and (ended.get("exitCode") or ended.get("reason") == "OOMKilled"):
            # It has ended twice when Kubernetes calls it a crash loop: the first restart follows at once.
            loops = reason == "CrashLoopBackOff"
            text = f"the container of pod {name} {_ending(ended, 'keeps ending' if loops else 'ended')}"
            return PendingReason(text, final=loops, log=(name, container["name"]))
        if reason and reason not in _HARMLESS:
            return PendingReason(f"pod {name} is in {reason}{f': {_short(message)}' if message else ''}")
    if _phase(pod) == "Failed":
        status = pod["status"]
        causes = filter(None, (status.get("reason"), _short(status.get("message") or "")))
        return PendingReason(f"pod {name} failed: {': '.join(causes) or 'no cause was given'}")
    return None


def _pull_cause(message: str) -> str:
    """The kubelet's message without its beginning, which only repeats the image's name."""
    return _short(
        re.sub(r'^(Back-off pulling image|Failed to pull image) ("[^"]*"|\S+?)(: (ErrImagePull: )?|$)', "", message)
    )


def _told_of_pull(pod: Object, events: Iterable[Object]) -> str:
    """Why the last try failed, by its event: older kubelets do not say it of a container that waits for the next."""
    metadata = pod["metadata"]
    told = [
        str(event.get("message"))
        for event in events
        if str(event.get("message")).startswith("Failed to pull image") and _is_of(event, metadata)
    ]
    return told[-1] if told else ""


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
# Not one node has the labels, which those who may not look at nodes learn from the scheduler's count alone (source of
# the words: pkg/scheduler/framework/plugins/nodeaffinity).
_NO_NODE_MATCHES = re.compile(r"^0/(\d+) nodes are available: \1 node\(s\) didn't match Pod's node affinity/selector")


def refused_condition(pod: Object) -> Mapping[str, Any] | None:
    """The condition by which the scheduler says that it has no node for the pod; None while it does not."""
    if pod["spec"].get("nodeName"):
        return None
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), None)


def _unschedulable(pod: Object, nodes: Sequence[Node] | None) -> PendingReason | None:
    spec, name = pod["spec"], pod["metadata"]["name"]
    condition = refused_condition(pod)
    if condition:
        return _not_placed(pod, condition, nodes)
    scheduler = spec.get("schedulerName") or _OWN_SCHEDULER
    if not spec.get("nodeName") and scheduler != _OWN_SCHEDULER:
        return PendingReason(
            f"pod {name} waits for the scheduler {scheduler}, which has not looked at it; check that it is installed"
        )
    return None


def _not_placed(pod: Object, condition: Mapping[str, Any], nodes: Sequence[Node] | None) -> PendingReason:
    name = pod["metadata"]["name"]
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return PendingReason(f"pod {name} is held back until {' and '.join(gates)} lets it go")
    said = _PREEMPTION.sub("", condition.get("message") or "").rstrip(". ")
    claim = _NO_CLAIM.search(said)
    if claim:
        return PendingReason(
            f"pod {name} cannot be placed: the claim {claim[1]} does not exist; create it, or correct storage.workdirs"
        )
    about_claims = "persistentvolumeclaim" in said.lower()  # said first, whatever the nodes have free
    shortage = shortage_of(pod, nodes) if nodes is not None and not about_claims else None
    if not shortage:
        text = f"pod {name} cannot be placed: {said or 'the scheduler gave no reason'}"
        lasting = nodes is None and _NO_NODE_MATCHES.search(said) is not None
        return PendingReason(text, final=lasting, needs_other_nodes=lasting)
    # What we work out can be held against what the scheduler counted.
    counts = said.partition(" nodes are available: ")[2]
    text = f"pod {name} cannot be placed: {shortage.text}{f' (scheduler: {counts})' if counts else ''}"
    return PendingReason(text, final=shortage.lasting, needs_other_nodes=shortage.lasting)


def _mount_problem(pod: Object, events: Iterable[Object]) -> PendingReason | None:
    """A pod that waits for a volume shows it in events alone."""
    metadata = pod["metadata"]
    if _phase(pod) != "Pending" or not pod["spec"].get("nodeName"):
        return None
    for event in events:
        if event.get("reason") in ("FailedMount", "FailedAttachVolume") and _is_of(event, metadata):
            message = _short(event.get("message") or "")
            return PendingReason(f"pod {metadata['name']} waits for a volume: {message}; check storage.workdirs")
    return None


def _not_ready(pod: Object, events: Sequence[Object]) -> PendingReason | None:
    """A container that runs, but whose health check does not (yet) succeed."""
    metadata = pod["metadata"]
    starting = [c for c in _containers(pod) if "running" in (c.get("state") or {}) and not c.get("ready")]
    if not starting or _phase(pod) != "Running":
        return None
    told = [event for event in events if event.get("reason") == "Unhealthy" and _is_of(event, metadata)]
    if told:
        return PendingReason(f"pod {metadata['name']} runs, but is not ready: {_short(told[-1].get('message') or '')}")
    return PendingReason(f"pod {metadata['name']} runs, but is not ready yet")


def _is_of(event: Object, metadata: Mapping[str, Any]) -> bool:
    return is_about_pod(event, metadata["namespace"], {metadata["name"]})


# -- pods that were not made -----------------------------------------------------------------------------------------


def _replica_failure(workload: Object) -> PendingReason | None:
    for condition in workload.get("status", {}).get("conditions") or ():
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return _refused(condition.get("message") or "")
    return None


def _failed_create(event: Object, workload: Object) -> PendingReason | None:
    """A refusal to create pods, told by the workload's own controller."""
    if event.get("reason") != "FailedCreate" or not is_about_workload(event, workload):
        return None
    return _refused(event.get("message") or "")


@dataclass(frozen=True)
class QuotaRefusal:
    """A pod that a ResourceQuota did not let in, with the quantities by resource as the server told them."""

    quota: str
    select_jobs: Mapping[str, str]
    used: Mapping[str, str]
    limited: Mapping[str, str]

    def still_holds(self, quota: Object | None) -> bool:
        """Whether the quota, as it is now, would refuse the same pod again.

        One that is gone refuses nothing. One with other limits has not been tried yet, and what it counts as used may
        be this very pod.
        """
        if quota is None:
            return False
        hard, used = quota["spec"].get("hard") or {}, (quota.get("status") or {}).get("used") or {}
        return any(
            resource in hard
            and parse(hard[resource]) == parse(self.limited[resource])
            and parse(used.get(resource, "0")).value + parse(asked).value > parse(hard[resource]).value
            for resource, asked in self.select_jobs.items()
        )


# The text of the quota admission plug-in (apiserver/pkg/admission/plugin/resourcequota/controller.go).
_QUOTA = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)")


def quota_refusal(message: str) -> QuotaRefusal | None:
    """What the server's text says of a quota; None when it is about something else."""
    found = _QUOTA.search(message)
    if not found:
        return None
    amounts = [dict(part.split("=", 1) for part in text.split(",")) for text in found.groups()[1:]]
    return QuotaRefusal(found[1], *amounts)


def _refused(message: str) -> PendingReason:
    quota = quota_refusal(message)
    if not quota:
        lasting = _LASTING_REFUSAL.search(message) is not None
        return PendingReason(f"pods cannot be created: {_short(message)}", final=lasting, refusal=message)
    each = "; ".join(
        f"{resource.removeprefix('requests.')}: {asked} more asked for, "
        f"{quota.used.get(resource, '?')} of {quota.limited.get(resource, '?')} in use"
        for resource, asked in quota.select_jobs.items()
    )
    text = (
        f"the quota {quota.quota} of the namespace is exhausted ({each}); "
        f"delete a job, ask for less, or have the quota raised"
    )
    return PendingReason(text, final=True, refusal=message)


# What admission or validation has against the pod itself. A namespace that is seconds old may lack its service account.
_LASTING_REFUSAL = re.compile(r"(?:is forbidden: (?!error looking up service account)|is invalid: )")


_LONGEST = 240


def _short(message: str) -> str:
    """The first line, without the ending that will be set anew, and no longer than a person reads."""
    line = message.strip().partition("\n")[0].rstrip(". ")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
