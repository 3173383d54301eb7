# SPDX-License-Identifier: BSD-2-Clause
"""Why a job is not running and what to do about it, from its workload, pods, events and the nodes. Pure.

Each reason says whether it is final: a wait ends early only when no amount of time can help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..labels import KUEUE_QUEUE
from ..quantity import parse
from .nodes import Node
from .related import is_about_pod, is_about_workload
from .shortage import shortage_of
from .status import failure_of, is_terminating, pods_wanted, status_of

Object = Mapping[str, Any]


@dataclass(frozen=True)
class PendingReason:
    """One thing that keeps a job from running. ``final``: it will not pass by itself. ``needs_user``: only a person
    can mend it, and may be about to.

    ``log`` names the pod and container whose log may explain why it ended, ``refusal`` is the server's message if it
    refuses to create pods.
    """

    text: str
    hint: str = ""
    final: bool = False
    needs_user: bool = False
    log: tuple[str, str] | None = None
    refusal: str | None = None
    needs_other_nodes: bool = False

    @property
    def sentence(self) -> str:
        """The text and the hint, for ``reason``."""
        return " ".join(part.rstrip(". \n") + "." for part in (self.text, self.hint) if part)


def reason_for(
    workload: Object, pods: Iterable[Object], events: Iterable[Object], nodes: Sequence[Node] | None = None
) -> str | None:
    """The most important reason as a sentence; None when nothing keeps the job from running (yet)."""
    return next((reason.sentence for reason in pending_reasons(workload, pods, events, nodes)), None)


def pending_reasons(
    workload: Object, pods: Iterable[Object], events: Iterable[Object], nodes: Sequence[Node] | None = None
) -> Iterator[PendingReason]:
    """Why a workload is not running, the most important reason first.

    The order: containers that do not run, the end of the workload, pods that are not scheduled or not ready, pods that
    were not created at all (a quota), and pods that failed earlier. ``events`` are warnings, oldest first. ``nodes``
    with their usage show what is missing; without them, the scheduler's message is quoted.
    """
    if status_of(workload) == "Paused":
        yield _paused(workload)
        return
    events = list(events)
    pods = [pod for pod in pods if not is_terminating(pod)]
    finished = [pod for pod in pods if _phase(pod) in ("Failed", "Succeeded")]
    pods = [pod for pod in pods if _phase(pod) not in ("Failed", "Succeeded")]
    yield from _each(_container_problem(pod, events) for pod in pods)
    gave_up = list(_gave_up(workload, finished, events))
    unscheduled = list(_each(_unscheduled(pod, nodes) for pod in pods))
    if workload["kind"] == "Job" or not unscheduled:
        yield from gave_up
        yield from unscheduled
    else:  # A Deployment that misses its progress deadline still runs once its pods get a node.
        yield from unscheduled
        yield from (replace(reason, final=False) for reason in gave_up)
    yield from _each(_mount_problem(pod, events) for pod in pods)
    yield from _each(_not_ready(pod, events) for pod in pods)
    conditions = workload.get("status", {}).get("conditions") or ()
    refusals = [one for one in conditions if one["type"] == "ReplicaFailure" and one["status"] == "True"]
    if len(pods) + workload.get("status", {}).get("succeeded", 0) < pods_wanted(workload):  # else the refusal is past
        failed = (event for event in reversed(events) if event.get("reason") == "FailedCreate")
        refusals += [event for event in failed if is_about_workload(event, workload)]
    yield from (_refused(refusal.get("message") or "") for refusal in refusals)
    if status_of(workload) != "Running":  # else others have taken their place
        yield from _each(_container_problem(pod, events) for pod in finished)


def pod_status(pod: Object) -> str:
    """The phase of a pod, or the more specific reason of a container: ``ImagePullBackOff``, ``OOMKilled`` ..."""
    status = pod.get("status", {})
    if is_terminating(pod):
        return "Terminating"
    if _phase(pod) == "Succeeded":  # even if a sidecar reports that it was stopped
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


def _paused(workload: Object) -> PendingReason:
    queue = (workload["metadata"].get("labels") or {}).get(KUEUE_QUEUE)
    if workload["kind"] == "Job" and queue:
        return PendingReason(f"the job is waiting in queue {queue} for Kueue to admit it")
    how = "suspended (spec.suspend)" if workload["kind"] == "Job" else "scaled to 0 replicas"
    return PendingReason(f"the job is {how}", "Resume it with state=resumed")


def _gave_up(workload: Object, finished: Iterable[Object], events: Sequence[Object]) -> Iterator[PendingReason]:
    """Why a workload has given up: the causes of its failed pods, then its own message."""
    message = failure_of(workload)
    if not message:
        return
    for cause in _each(_container_problem(pod, events) for pod in finished):
        yield replace(cause, final=True)
    what = "the training failed" if workload["kind"] == "Job" else "its pods did not become ready in time"
    yield PendingReason(f"{what}: {_short(message)}", final=True)


_HARMLESS = frozenset({"ContainerCreating", "PodInitializing", "Completed"})
_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_PULL_FAILED = _PULL - {"ErrImagePull"}  # The kubelet waits before its next try, or will not try again.
_NOT_STARTED = frozenset({"ContainerCannotRun", "StartError"})  # ended before the command began
_NOT_CREATED = {
    "CreateContainerConfigError": "Create what is missing in the namespace, or correct environment.env",
    "CreateContainerError": "Check environment.command",
    "RunContainerError": "Check environment.command",
}
# Messages of registries and networks after which the same pull may work a minute later.
_TRANSIENT = re.compile(
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
        if "running" in state:  # An earlier end does not matter; _not_ready checks readiness.
            continue
        if reason in _PULL:
            cause = _pull_cause(message) or _pull_cause(_pull_event_message(pod, events))
            text = f"image {container.get('image')} of pod {name} cannot be pulled{f': {cause}' if cause else ''}"
            hint = "Check environment.image, and environment.imagePullSecret for a private registry"
            return PendingReason(text, hint, final=reason in _PULL_FAILED and not _TRANSIENT.search(cause))
        if reason in _NOT_CREATED:
            text = f"the container of pod {name} cannot start: {_short(message) or reason}"
            return PendingReason(text, _NOT_CREATED[reason])
        if ended and (ended.get("exitCode") or ended.get("reason") == "OOMKilled"):
            # The first restart follows at once: in a crash loop the container has ended twice.
            loops = reason == "CrashLoopBackOff"
            what, hint = _end_of(ended, loops)
            text = f"the container of pod {name} {what}"
            has_log = ended.get("reason") not in _NOT_STARTED
            return PendingReason(text, hint, final=loops, log=(name, container["name"]) if has_log else None)
        if reason and reason not in _HARMLESS:
            return PendingReason(f"pod {name} is in {reason}{f': {_short(message)}' if message else ''}")
    if _phase(pod) == "Failed":
        status = pod["status"]
        causes = filter(None, (status.get("reason"), _short(status.get("message") or "")))
        return PendingReason(f"pod {name} failed: {': '.join(causes) or 'no reason given'}")
    return None


def _pull_cause(message: str) -> str:
    """The kubelet's message without its start, which only repeats the image."""
    start = r'^(Back-off pulling image|Failed to pull image) ("[^"]*"|\S+?)(: (ErrImagePull: )?|$)'
    return _short(re.sub(start, "", message))


def _pull_event_message(pod: Object, events: Iterable[Object]) -> str:
    """Why the last pull failed; older kubelets only say so in an event while the container waits for the next pull."""
    messages = [str(event.get("message")) for event in events if _is_about(event, pod)]
    return next((text for text in reversed(messages) if text.startswith("Failed to pull image")), "")


def _end_of(ended: Mapping[str, Any], loops: bool) -> tuple[str, str]:
    """How a container ended, and the hint."""
    if ended.get("reason") == "OOMKilled":
        return f"{'keeps running' if loops else 'ran'} out of memory (OOMKilled)", "Raise resources.memory"
    if ended.get("reason") in _NOT_STARTED:
        message = ended.get("message") or ""
        cause = message[message.find("exec: ") :] if "exec: " in message else message
        return f"cannot start: {_short(cause) or ended['reason']}", "Check environment.command"
    how = f"{'keeps failing' if loops else 'failed'} with exit code {ended.get('exitCode')}"
    return how, "Read its logs for the cause"


# The part of the scheduler's message about evicting others (and, since 1.34, about resource claims) does not help here.
_PREEMPTION = re.compile(r"\s*(no new claims to deallocate, )?preemption:.*", re.DOTALL)
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_DEFAULT_SCHEDULER = "default-scheduler"
# No node has the labels (pkg/scheduler/framework/plugins/nodeaffinity): all we learn without permission to list nodes.
_NO_NODE_MATCHES = re.compile(r"^0/(\d+) nodes are available: \1 node\(s\) didn't match Pod's node affinity/selector")


def refused_condition(pod: Object) -> Mapping[str, Any] | None:
    """The condition PodScheduled where it is False: the scheduler found no node for the pod; else None."""
    if pod["spec"].get("nodeName"):
        return None
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), None)


def _unscheduled(pod: Object, nodes: Sequence[Node] | None) -> PendingReason | None:
    condition = refused_condition(pod)
    if condition:
        return _unschedulable(pod, condition, nodes)
    scheduler = pod["spec"].get("schedulerName") or _DEFAULT_SCHEDULER
    if pod["spec"].get("nodeName") or scheduler == _DEFAULT_SCHEDULER:
        return None
    text = f"pod {pod['metadata']['name']} is waiting for the scheduler {scheduler}, which has not processed it yet"
    return PendingReason(text, "Check that the scheduler is installed")


def _unschedulable(pod: Object, condition: Mapping[str, Any], nodes: Sequence[Node] | None) -> PendingReason:
    name = pod["metadata"]["name"]
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return PendingReason(f"pod {name} is waiting for its scheduling gates to be removed: {', '.join(gates)}")
    message = _PREEMPTION.sub("", condition.get("message") or "").rstrip(". ")
    claim = _NO_CLAIM.search(message)
    if claim:
        text = f"pod {name} cannot be scheduled: PersistentVolumeClaim {claim[1]} not found"
        return PendingReason(text, "Create it, or correct storage.workdirs")
    about_claims = "persistentvolumeclaim" in message.lower()  # reported first, whatever the nodes have free
    shortage = shortage_of(pod, nodes) if nodes is not None and not about_claims else None
    if not shortage:
        text = f"pod {name} cannot be scheduled: {message or 'the scheduler gave no reason'}"
        lasting = nodes is None and _NO_NODE_MATCHES.search(message) is not None
        return PendingReason(text, final=lasting, needs_other_nodes=lasting)
    # With the scheduler's counts, readers can verify the explanation.
    counts = message.partition(" nodes are available: ")[2]
    text = f"pod {name} cannot be scheduled: {shortage.text}{f' (scheduler: {counts})' if counts else ''}"
    return PendingReason(text, shortage.hint, final=shortage.lasting, needs_other_nodes=shortage.lasting)


def _mount_problem(pod: Object, events: Iterable[Object]) -> PendingReason | None:
    """Only events show that a pod is waiting for a volume."""
    if _phase(pod) != "Pending" or not pod["spec"].get("nodeName"):
        return None
    for event in events:
        if event.get("reason") in ("FailedMount", "FailedAttachVolume") and _is_about(event, pod):
            text = f"pod {pod['metadata']['name']} is waiting for a volume: {_short(event.get('message') or '')}"
            return PendingReason(text, "Check storage.workdirs")
    return None


def _not_ready(pod: Object, events: Sequence[Object]) -> PendingReason | None:
    """A container that runs and whose health check does not (yet) succeed."""
    starting = [c for c in _containers(pod) if "running" in (c.get("state") or {}) and not c.get("ready")]
    if not starting or _phase(pod) != "Running":
        return None
    failures = [event for event in events if event.get("reason") == "Unhealthy" and _is_about(event, pod)]
    cause = f": {_short(failures[-1].get('message') or '')}" if failures else " yet"
    return PendingReason(f"pod {pod['metadata']['name']} is running but not ready{cause}")


def _is_about(event: Object, pod: Object) -> bool:
    return is_about_pod(event, pod["metadata"]["namespace"], {pod["metadata"]["name"]})


@dataclass(frozen=True)
class QuotaRefusal:
    """A pod that a ResourceQuota refused, with the quantities by resource as the server's message has them."""

    quota: str
    requested: Mapping[str, str]
    used: Mapping[str, str]
    limited: Mapping[str, str]

    def still_holds(self, quota: Object | None) -> bool:
        """Whether the quota, as it is now, would refuse the same pod again.

        A deleted one (None) refuses nothing. With other limits it has not been tried yet, and what it counts as used
        may be this very pod.
        """
        if quota is None:
            return False
        hard, used = quota["spec"].get("hard") or {}, (quota.get("status") or {}).get("used") or {}
        return any(
            resource in hard
            and parse(hard[resource]) == parse(self.limited[resource])
            and parse(used.get(resource, "0")).value + parse(requested).value > parse(hard[resource]).value
            for resource, requested in self.requested.items()
        )


# The message of the quota admission plugin (apiserver/pkg/admission/plugin/resourcequota/controller.go).
_QUOTA = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)")


def quota_refusal(message: str) -> QuotaRefusal | None:
    """The quota that the server's message is about; None when it is about something else."""
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
        f"{resource.removeprefix('requests.')}: {requested} requested, "
        f"{quota.used.get(resource, '?')} of {quota.limited.get(resource, '?')} used"
        for resource, requested in quota.requested.items()
    )
    text = f"quota {quota.quota} of the namespace is exhausted ({each})"
    return PendingReason(text, "Delete a job, request less, or have the quota raised", final=True, refusal=message)


# Admission or validation rejects the pod itself. A namespace that is seconds old may lack its service account.
_LASTING_REFUSAL = re.compile(r"(?:is forbidden: (?!error looking up service account)|is invalid: )")
_LONGEST = 240


def _short(message: str) -> str:
    """The first line, cut after ``_LONGEST`` characters, without the full stop that ``sentence`` adds."""
    line = message.strip().partition("\n")[0].rstrip(". ")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
