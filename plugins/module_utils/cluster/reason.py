# SPDX-License-Identifier: BSD-2-Clause
"""Why a job is not running and what to do about it, from its workload, pods, events and the nodes. Pure.

Each reason says whether it is final: a wait ends early only when no amount of time can help.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..kube.resources import Object
from ..kube.times import read_time
from ..labels import GPU_HOURS_UNTIL, KUEUE_QUEUE
from ..manifest.problems import number_of
from ..quantity import parse
from ..redaction import live_secret_values, redact_messages
from .admission import queue_of
from .devices import Inventory, claims_devices
from .node_loss import loss_hint, loss_text, split_by_loss
from .nodes import Node
from .pending_reason import PendingReason
from .pod_status import HARMLESS, container_statuses, pod_phase
from .pool_declarations import NATIVE
from .related import has_succeeded, is_about_pod, is_about_workload, own_pods
from .rollout import during_update
from .shortage import Shortages
from .start_failure import (
    concerns_template,
    config_hint,
    is_node_fault,
    pull_secret_hint,
    refusal_hint,
    root_cause,
    runtime_cause,
    start_faults,
    start_hint,
    volume_hint,
)
from .status import TIMED_OUT, failure_of, is_suspended, is_terminating, pods_wanted, status_of
from .time_limits import expiry_text, limit_text


@dataclass(frozen=True)
class ClusterView:
    """What is known of the cluster around a job's pods.

    ``shortages``: what pods find on no node, with how much is missing where usage is known; None where nodes were not
    read.
    ``pod_nodes``: those that pods which are not ready are on. ``preemption``: who preempted the job, in words.
    ``devices``: those that claims can have; None where they were not read. ``jobs``: the jobs of pods, by uid.
    ``queued``: what a job in a queue waits for, where Kueue's Workload or Volcano's PodGroup was read.
    ``forbidden``: what a policy says against as many pods as the job asks for.
    """

    shortages: Shortages | None = None
    pod_nodes: Sequence[Node] = ()
    preemption: str = ""
    devices: Inventory | None = None
    jobs: Mapping[str, str] = field(default_factory=dict)
    queued: PendingReason | None = None
    forbidden: str = ""


def reason_for(
    workload: Object, pods: Iterable[Object], events: Iterable[Object], around: ClusterView = ClusterView()
) -> str | None:
    """The most important reason as a sentence; None when nothing keeps the job from running (yet)."""
    return next((reason.sentence for reason in pending_reasons(workload, pods, events, around)), None)


def pending_reasons(
    workload: Object, pods: Iterable[Object], events: Iterable[Object], around: ClusterView = ClusterView()
) -> Iterator[PendingReason]:
    """Why a workload is not running, the most important reason first.

    The order: pods on lost nodes, containers that do not run, the end of the workload, pods that are not scheduled or
    not ready, pods that were not created at all (a quota), pods that failed earlier, and pods that are being stopped.
    None of them matters to a workload that is being deleted. ``events`` are warnings, oldest first.
    The messages of others are quoted without the workload's secrets. While an update is not done, each says what of
    the job still serves.
    """
    found, seen = [*pods], [*events]
    if secrets := live_secret_values(workload):
        workload, found, seen = redact_messages((workload, found, seen), secrets)
    for reason in _reasons(workload, found, seen, around):
        yield during_update(reason, workload, found)


def _reasons(
    workload: Object, pods: Sequence[Object], events: Sequence[Object], around: ClusterView
) -> Iterator[PendingReason]:
    if is_terminating(workload):
        yield _being_deleted(_Pods.of(workload, pods, around), around)
        return
    if is_suspended(workload):
        yield around.queued or _paused_reason(workload)
        return
    found = _Pods.of(workload, pods, around)
    if not failure_of(workload):
        yield from _lost_pods(workload, found.lost, around)
    yield from _not_none(found.problem(pod, events) for pod in found.active)
    gave_up = list(_gave_up(workload, found, events))
    gang = around.queued if queue_of(workload).backend == NATIVE else None
    alone = [pod for pod in found.active if not (gang and _waits_for_others(pod))]
    unscheduled = [
        _preempted(reason, around) for reason in _not_none(_unscheduled(workload, pod, events, around) for pod in alone)
    ]
    if gang:
        unscheduled = [replace(reason, text=f"{gang.text}: {reason.text}") for reason in unscheduled] or [gang]
    elif around.queued:  # What it waits for in the queue of Volcano, unless no wait can help.
        unscheduled = sorted([around.queued, *unscheduled], key=lambda reason: not reason.final)
    # A Job with the condition Failed is over; Progressing=False of a Deployment is only a report.
    if workload["kind"] == "Job" or not unscheduled:
        yield from gave_up
        yield from unscheduled
    else:  # A Deployment that misses its progress deadline still runs once its pods get a node.
        yield from unscheduled
        yield from (replace(reason, final=False) for reason in gave_up)
    yield from _not_none(_start_problem(workload, pod, events) for pod in found.active)
    yield from _not_none(_not_ready(pod, events) for pod in found.active)
    yield from _creation_refusals(workload, found, events)
    if around.forbidden and found.number < pods_wanted(workload):
        # The update of its ReplicaSet is refused: the controller leaves no event and no condition then
        # (deployment/sync.go, scaleReplicaSet).
        yield PendingReason(f"no further pods can be created: {around.forbidden}", needs_user=True)
    succeeded = sum(has_succeeded(pod) for pod in (*found.active, *found.finished))
    if status_of(workload) != "Running" and succeeded < pods_wanted(workload):  # else others have taken their place
        yield from _not_none(found.problem(pod, events) for pod in found.finished)
    yield from _stopping(workload, found, around)
    yield from _lost_pods(workload, found.lost_and_replaced, around)


@dataclass(frozen=True)
class _Pods:
    """The pods of a workload, by what they say about it."""

    active: Sequence[Object]
    finished: Sequence[Object]  # the newest first
    stopping: Sequence[Object]  # another pod starts only once they have ended
    lost: Sequence[Object]
    lost_and_replaced: Sequence[Object]
    alone: Mapping[str, str]  # what is to be said of a rank without peers, by the name of its pod

    @classmethod
    def of(cls, workload: Object, pods: Iterable[Object], around: ClusterView) -> _Pods:
        own = own_pods(workload, pods)
        lost, here = split_by_loss(own, around.pod_nodes)
        finished = [pod for pod in here if pod_phase(pod) in ("Failed", "Succeeded")]
        finished.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
        left = [pod for pod in here if pod_phase(pod) not in ("Failed", "Succeeded")]
        # A ReplicaSet replaces a pod once it terminates, a StatefulSet and our Jobs (podReplacementPolicy) once it has
        # ended.
        replaced_at_once = workload["kind"] == "Deployment"
        return cls(
            active=[pod for pod in left if not is_terminating(pod)],
            finished=[pod for pod in finished if not is_terminating(pod)],
            stopping=[pod for pod in left if is_terminating(pod) and not replaced_at_once],
            lost=[pod for pod in lost if not (is_terminating(pod) and replaced_at_once)],
            lost_and_replaced=[pod for pod in lost if is_terminating(pod) and replaced_at_once],
            alone=_without_peers(workload, own, pods_wanted(workload)),
        )

    def problem(self, pod: Object, events: Iterable[Object]) -> PendingReason | None:
        """What keeps its containers from running; of a rank that is alone, that too."""
        reason, alone = _container_problem(pod, events), self.alone.get(pod["metadata"]["name"], "")
        if not (reason and alone):
            return reason
        hint = f"{reason.hint}. Start all ranks again with O(state=restarted)".lstrip(". ")
        return replace(reason, text=f"{reason.text}; {alone}", hint=hint)

    @property
    def number(self) -> int:
        """How many the controller counts as there."""
        return len(self.active) + len(self.stopping) + len(self.lost)


def _lost_pods(workload: Object, pods: Sequence[Object], around: ClusterView) -> Iterator[PendingReason]:
    if pods:
        yield PendingReason(loss_text(pods, around.pod_nodes), loss_hint(workload, pods))


def _without_peers(workload: Object, pods: Collection[Object], wanted: int) -> dict[str, str]:
    """What is to be said of pods of a training that were created after another rank had succeeded: it runs no more."""
    is_indexed = workload["spec"].get("completionMode") == "Indexed"
    done = [pod for pod in pods if is_indexed and has_succeeded(pod)]
    states = [one.get("state") or {} for pod in done for one in pod["status"].get("containerStatuses") or ()]
    first = min(filter(None, ((state.get("terminated") or {}).get("finishedAt") for state in states)), default="9999")
    late = (pod["metadata"]["name"] for pod in pods if pod["metadata"]["creationTimestamp"] > first)
    return dict.fromkeys(late, f"it was started when {len(done)} of {wanted} ranks had succeeded, which answer no more")


def _preempted(reason: PendingReason, around: ClusterView) -> PendingReason:
    return replace(reason, text=f"{around.preemption}; {reason.text}") if around.preemption else reason


def _waits_for_others(pod: Object) -> bool:
    """Whether the scheduler has found room for it, but not for all pods that are only started together with it."""
    # pkg/scheduler/schedule_one_podgroup.go, errPodGroupUnschedulable
    return str((refused_condition(pod) or {}).get("message")).startswith("pod group is unschedulable")


def _stopping(workload: Object, found: _Pods, around: ClusterView) -> Iterator[PendingReason]:
    """Pods whose end is being waited for; between the end of a preempted pod and the next one, who preempted it."""
    for pod in found.stopping:
        yield _preempted(PendingReason(_stopping_text(pod), "Another pod starts in its place after that"), around)
    if around.preemption and found.number < pods_wanted(workload):
        yield PendingReason(around.preemption)


def _stopping_text(pod: Object) -> str:
    until = pod["metadata"]["deletionTimestamp"]
    return f"pod {pod['metadata']['name']} is being stopped, and has until {until} to end"


def _being_deleted(found: _Pods, around: ClusterView) -> PendingReason:
    """A deleted workload stays until its pods have ended, and starts no others."""
    if lost := [*found.lost, *found.lost_and_replaced]:
        text = f"the job is being deleted, but {loss_text(lost, around.pod_nodes)}"
        return PendingReason(text, "Use O(state=absent) with O(force=true), which no longer waits for the node")
    pods = f": {_stopping_text(found.stopping[0])}" if found.stopping else ""
    return PendingReason(f"the job is being deleted{pods}", "To run it again, apply its manifest with O(state=present)")


def _not_none(candidates: Iterable[PendingReason | None]) -> Iterator[PendingReason]:
    return (candidate for candidate in candidates if candidate)


def _paused_reason(workload: Object) -> PendingReason:
    queue = (workload["metadata"].get("labels") or {}).get(KUEUE_QUEUE)
    if workload["kind"] == "Job" and queue:
        return PendingReason(f"the job is waiting in queue {queue} for Kueue to admit it")
    if expired := expiry_text(workload):
        return PendingReason(expired, "To let it run for as long again, resume it with O(state=resumed)")
    how = "suspended (spec.suspend)" if workload["kind"] == "Job" else "scaled to 0 replicas"
    return PendingReason(f"the job is {how}", "Resume it with O(state=resumed)")


def _gave_up(workload: Object, found: _Pods, events: Sequence[Object]) -> Iterator[PendingReason]:
    """Why a workload has given up: the causes of its failed pods, then its own message."""
    message = failure_of(workload)
    if not message:
        return
    if status_of(workload) == TIMED_OUT:
        text = f"the training was stopped at its time limit ({limit_text(workload)})"
        yield PendingReason(text, _AFTER_TIME_LIMIT, final=True)
        return
    for cause in _not_none(found.problem(pod, events) for pod in found.finished):
        yield replace(cause, final=True)
    limit = workload["spec"].get("progressDeadlineSeconds")
    in_time = f"for {limit} s no further pod became ready" if limit else "its pods did not become ready in time"
    what = "the training failed" if workload["kind"] == "Job" else in_time
    yield PendingReason(f"{what}: {_first_line(message)}", final=True)


# The limit is no part of what a training runs: another one does not make it a changed manifest (digest.py).
_AFTER_TIME_LIMIT = (
    "To go on from its last checkpoint, submit it again with O(rerun=on_failure), and with a longer job.time_limit if "
    "it needs one. The time that its pods waited for nodes counts"
)


def _creation_refusals(workload: Object, found: _Pods, events: Sequence[Object]) -> Iterator[PendingReason]:
    """Why pods were not created, the latest refusal first."""
    # A Deployment copies the condition from its ReplicaSets (deployment/progress.go). Jobs and StatefulSets have none:
    # their controllers only record events, which the server keeps for an hour (--event-ttl).
    conditions = workload.get("status", {}).get("conditions") or ()
    refusals = [one for one in conditions if one["type"] == "ReplicaFailure" and one["status"] == "True"]
    if found.number + workload.get("status", {}).get("succeeded", 0) < pods_wanted(workload):  # else they are past
        failed = (event for event in reversed(events) if event.get("reason") == "FailedCreate")
        refusals += [event for event in failed if is_about_workload(event, workload)]
    return (_refusal_reason(refusal.get("message") or "", workload) for refusal in refusals)


# From pkg/kubelet: images/types.go, container/sync_result.go, kuberuntime/kuberuntime_container.go.
_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_PULL_FAILED = _PULL - {"ErrImagePull"}  # The kubelet waits before its next try, or will not try again.
_NOT_STARTED = frozenset({"ContainerCannotRun", "StartError"})  # ended before the command began
_NOT_CREATED = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
# Messages of registries and networks after which the same pull may work a minute later.
_TRANSIENT = re.compile(
    r"time(d )?out|deadline exceeded|connection (refused|reset)|toomanyrequests|too many requests|unexpected EOF"
    r"|\b(429|50[0234])\b|temporar|try again|no space left",
    re.IGNORECASE,
)


def _container_problem(pod: Object, events: Iterable[Object]) -> PendingReason | None:
    name = pod["metadata"]["name"]
    for container in container_statuses(pod):
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message") or ""
        ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
        if "running" in state:  # _not_ready checks readiness.
            continue
        if reason in _PULL:
            return _pull_problem(pod, container, message, reason, events)
        if reason in _NOT_CREATED:
            return _not_created(pod, container, message, reason)
        loops = reason == "CrashLoopBackOff"  # The first restart follows at once: the container has ended twice.
        again = loops or container.get("restartCount", 0) > 0
        if ended and (again or ended.get("exitCode") or ended.get("reason") == "OOMKilled"):
            what, hint = _container_end(pod, container, ended, again, events)
            text = f"the container of pod {name} {what}"
            has_log = ended.get("reason") not in _NOT_STARTED
            return PendingReason(text, hint, final=loops, log=(name, container["name"]) if has_log else None)
        if reason and reason not in HARMLESS:
            return PendingReason(f"pod {name} is in {reason}{f': {_first_line(message)}' if message else ''}")
    if pod_phase(pod) == "Failed":
        status = pod["status"]
        causes = filter(None, (status.get("reason"), _first_line(status.get("message") or "")))
        return PendingReason(f"pod {name} failed: {': '.join(causes) or 'no reason given'}")
    return None


def _pull_problem(pod: Object, container: Object, message: str, reason: str, events: Iterable[Object]) -> PendingReason:
    own = [event for event in events if _is_about(event, pod)]
    cause = _pull_cause(message) or _pull_cause(_pull_event_message(own))
    name = pod["metadata"]["name"]
    text = f"image {container.get('image')} of pod {name} cannot be pulled{f': {cause}' if cause else ''}"
    missing = pull_secret_hint((str(event.get("message")) for event in reversed(own)), pod["metadata"]["namespace"])
    hint = missing or "Check environment.image, and environment.imagePullSecret for a private registry"
    return PendingReason(text, hint, final=reason in _PULL_FAILED and not _TRANSIENT.search(cause))


def _not_created(pod: Object, container: Object, message: str, reason: str) -> PendingReason:
    cause = root_cause(message, str(container.get("image"))) or _first_line(runtime_cause(message)) or reason
    text = f"the container of pod {pod['metadata']['name']} cannot start: {cause}"
    if reason == "CreateContainerConfigError":
        hint = config_hint(message, pod)
    else:
        hint = start_hint(message, _container_spec(container, pod), pod["spec"].get("nodeName"))
    return PendingReason(text, hint.text, needs_user=hint.needs_user)


def _container_spec(container: Object, pod: Object) -> Object:
    """The container's part of the pod's spec, from its status."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    return next((one for one in containers if one["name"] == container["name"]), {})


def _pull_cause(message: str) -> str:
    """The kubelet's message without its start, which only repeats the image."""
    start = r'^(Back-off pulling image|Failed to pull image) ("[^"]*"|\S+?)(: (ErrImagePull: )?|$)'
    return _first_line(re.sub(r"^rpc error: code = \w+ desc = ", "", re.sub(start, "", message)))


def _pull_event_message(events: Sequence[Object]) -> str:
    """Why the last pull failed; older kubelets only say so in an event while the container waits for the next pull."""
    messages = (str(event.get("message")) for event in reversed(events))
    return next((text for text in messages if text.startswith("Failed to pull image")), "")


def _container_end(
    pod: Object, container: Object, ended: Mapping[str, Any], again: bool, events: Iterable[Object]
) -> tuple[str, str]:
    """How a container ended, maybe not for the first time, and the hint."""
    restarts = _restart_count(container) if again else ""
    if ended.get("reason") == "OOMKilled":
        return f"{'keeps running' if again else 'ran'} out of memory (OOMKilled){restarts}", "Raise resources.memory"
    if ended.get("reason") in _NOT_STARTED:
        message = ended.get("message") or ""
        hint = start_hint(message, _container_spec(container, pod), pod["spec"].get("nodeName")).text
        return f"cannot start: {_first_line(runtime_cause(message)) or ended['reason']}", hint
    if seconds := _missed_startup(pod, container, ended, events):
        hint = "Read its logs for the cause, or raise service.startup_timeout if it needs longer"
        return f"is stopped when its health check has not succeeded {seconds} s after its start{restarts}", hint
    if not ended.get("exitCode"):
        return f"keeps ending without an error{restarts}", "Set environment.command to a program that keeps running"
    how = f"{'keeps failing' if again else 'failed'} with exit code {ended.get('exitCode')}{restarts}"
    return how, "Read its logs for the cause"


def _missed_startup(pod: Object, container: Object, ended: Mapping[str, Any], events: Iterable[Object]) -> int | None:
    """The seconds that a container had to start, if it was stopped because it did not: its exit code does not say so.

    The kubelet says that with the event Killing as well, which is no warning, so it is not read.
    """
    probe = _container_spec(container, pod).get("startupProbe") or {}
    times = [ended.get(name) for name in ("startedAt", "finishedAt")]
    missed = (e for e in events if e.get("reason") == "Unhealthy" and _is_about(e, pod))
    if not (probe and all(times) and any(str(e.get("message")).startswith("Startup probe failed") for e in missed)):
        return None
    period = int(probe.get("periodSeconds", 10))
    seconds = int(probe.get("failureThreshold", 3)) * period
    start, end = (read_time(str(time)) for time in times)
    # The first of the probes comes within the first period.
    return seconds if (end - start).total_seconds() >= seconds - period else None


def _restart_count(container: Object) -> str:
    number = container.get("restartCount", 0)
    return f" ({number_of(number, 'restart')})" if number else ""


# The part of the scheduler's message about evicting others (and, since 1.34, about resource claims) does not help here.
_PREEMPTION = re.compile(r"\s*((no new claims to deallocate|still not schedulable), )?preemption:.*", re.DOTALL)
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([-.a-z0-9]+)" not found')
_DEFAULT_SCHEDULER = "default-scheduler"
# No node has the labels (pkg/scheduler/framework/plugins/nodeaffinity): all we learn without permission to list nodes.
_NO_NODE_MATCHES = re.compile(r"^0/(\d+) nodes are available: \1 node\(s\) didn't match Pod's node affinity/selector")


def refused_condition(pod: Object) -> Mapping[str, Any] | None:
    """The condition PodScheduled where it is False: the scheduler found no node for the pod; else None."""
    if pod["spec"].get("nodeName"):
        return None
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), None)


def _unscheduled(workload: Object, pod: Object, events: Sequence[Object], around: ClusterView) -> PendingReason | None:
    condition = refused_condition(pod)
    if condition:
        return _unschedulable_reason(pod, condition, around)
    if unclaimed := _missing_claim(workload, pod, events):
        return unclaimed
    scheduler = pod["spec"].get("schedulerName") or _DEFAULT_SCHEDULER
    if pod["spec"].get("nodeName") or scheduler == _DEFAULT_SCHEDULER:
        return None
    text = f"pod {pod['metadata']['name']} is waiting for the scheduler {scheduler}, which has not processed it yet"
    return PendingReason(text, "Check that the scheduler is installed")


def _missing_claim(workload: Object, pod: Object, events: Sequence[Object]) -> PendingReason | None:
    """The scheduler says nothing of a pod without its claims; the controller that makes them does, in events."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    made = {one["name"] for one in pod.get("status", {}).get("resourceClaimStatuses") or ()}
    missing = [one for one in spec.get("resourceClaims") or () if one["name"] not in made]
    if spec.get("nodeName") or not missing:
        return None
    refusals = [e for e in events if e.get("reason") == "FailedResourceClaimCreation" and _is_about(e, pod)]
    for event in reversed(refusals if any("resourceClaimTemplateName" in one for one in missing) else ()):
        message = _CLAIM_OF_POD.sub("", event.get("message") or "")
        if quota_refusal(message):
            return _refusal_reason(message, workload)
        template = _NO_TEMPLATE.search(message)
        if template and _is_early(event, pod):
            return PendingReason(f"pod {name} is waiting for its ResourceClaimTemplate {template[1]}")
        what = f"ResourceClaimTemplate {template[1]} not found" if template else _first_line(message)
        hint = "Apply its manifest again with O(state=present)" if template else ""
        return PendingReason(f"pod {name} gets no devices: {what}", hint, needs_user=True)
    if claim := next((one["resourceClaimName"] for one in missing if "resourceClaimName" in one), None):
        text = f"pod {name} is not scheduled as long as its ResourceClaim {claim} is missing or being deleted"
        return PendingReason(text)
    return None


def _is_early(event: Object, pod: Object) -> bool:
    """The workload is applied before the template, so that the first attempt to make a claim may fail."""
    seen = event.get("lastTimestamp") or pod["metadata"]["creationTimestamp"]
    return (read_time(seen) - read_time(pod["metadata"]["creationTimestamp"])).total_seconds() < _TEMPLATE_FOLLOWS


_TEMPLATE_FOLLOWS = 5  # seconds

# pkg/controller/resourceclaim, syncPod and handleClaim
_CLAIM_OF_POD = re.compile(r"^PodResourceClaim [-a-z0-9]+: (create ResourceClaim : )?")
_NO_TEMPLATE = re.compile(r'resourceclaimtemplate\.resource\.k8s\.io "([-.a-z0-9]+)" not found')
_SELECTOR_FAILS = re.compile(r"claim \S+: (selector #\d+): CEL runtime error: (.*)", re.DOTALL)


def _unschedulable_reason(pod: Object, condition: Mapping[str, Any], around: ClusterView) -> PendingReason:
    shortages, name = around.shortages, pod["metadata"]["name"]
    # The scheduler does not look at a gated pod (KEP-3521): nodes and claims cannot be the reason.
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return PendingReason(f"pod {name} is waiting for its scheduling gates to be removed: {', '.join(gates)}")
    message = _PREEMPTION.sub("", condition.get("message") or "").rstrip(". ")
    claim = _NO_CLAIM.search(message)
    if claim:
        return missing_claim(f"pod {name}", claim[1], pod["metadata"]["namespace"])
    # An error of CEL ends the allocation of the claim; it does not only exclude the device.
    if fails := _SELECTOR_FAILS.search(message):
        text = f"pod {name} cannot be scheduled: {fails[1]} of its claim fails on a device: {_first_line(fails[2])}"
        return PendingReason(text, "Correct the selector: not every device has what it names", needs_user=True)
    about_claims = "persistentvolumeclaim" in message.lower()  # reported first, whatever the nodes have free
    shortage = None
    if shortages and around.devices is not None and claims_devices(pod):
        from .device_shortage import device_shortage  # few pods claim devices

        shortage = device_shortage(pod, shortages.nodes, around.devices, around.jobs)
    elif shortages and not about_claims and not claims_devices(pod):
        shortage = shortages.of(pod, message)
    if not shortage:
        text = f"pod {name} cannot be scheduled{'' if message else ': the scheduler gave no reason'}"
        lasting = shortages is None and _NO_NODE_MATCHES.search(message) is not None
        return PendingReason(text, final=lasting, needs_other_nodes=lasting, scheduler=message)
    return PendingReason(
        f"pod {name} cannot be scheduled: {shortage.text}",
        shortage.hint,
        final=shortage.lasting,
        needs_user=shortage.needs_user,
        needs_other_nodes=shortage.lasting or shortage.needs_user,
        scheduler=message.partition(" nodes are available: ")[2],
    )


def missing_claim(subject: str, claim: str, namespace: str) -> PendingReason:
    """Why a pod whose PersistentVolumeClaim does not exist is not scheduled."""
    text = f"{subject} cannot be scheduled: PersistentVolumeClaim {claim} not found"
    create = f"M(gpuctl_workspace namespace={namespace} claim.name={claim} claim.size=100Gi)"
    hint = f"Create it with {create}, ask an administrator for it, or correct storage.workdirs"
    return PendingReason(text, hint, needs_user=True, predicted=True)


def _start_problem(workload: Object, pod: Object, events: Iterable[Object]) -> PendingReason | None:
    """What keeps the node from starting the containers: a volume, the sandbox or its network. Only events show it."""
    faults = start_faults(pod, [event for event in events if _is_about(event, pod)])
    if not faults:
        return None
    message, name, node = str(faults[-1].get("message") or ""), pod["metadata"]["name"], pod["spec"]["nodeName"]
    if is_node_fault(faults[-1]):
        text = f"pod {name} cannot start on node {node}: {_first_line(runtime_cause(message))}"
        cordon = f"If this lasts, take the node out of use (kubectl cordon {node})"
        return PendingReason(text, f"{cordon} and restart the job with O(state=restarted)")
    text = f"pod {name} is waiting for a volume: {_first_line(message)}"
    if not concerns_template(message, workload, pod):
        return PendingReason(text)
    hint = volume_hint(message, pod)
    return PendingReason(text, hint.text, needs_user=hint.needs_user)


def _not_ready(pod: Object, events: Sequence[Object]) -> PendingReason | None:
    """A container that runs and whose health check does not (yet) succeed, maybe after it has ended several times."""
    starting = [c for c in container_statuses(pod) if "running" in (c.get("state") or {}) and not c.get("ready")]
    if not starting or pod_phase(pod) != "Running":
        return None
    failures = [event for event in events if event.get("reason") == "Unhealthy" and _is_about(event, pod)]
    cause = f": {_first_line(failures[-1].get('message') or '')}" if failures else " yet"
    text = f"pod {pod['metadata']['name']} is running but not ready{cause}"
    for container in starting:
        ended = (container.get("lastState") or {}).get("terminated")
        if ended and container.get("restartCount"):
            what, hint = _container_end(pod, container, ended, True, events)
            return PendingReason(f"{text}; its container {what}", hint)
    return PendingReason(text)


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
        hard, used = (quota.get("spec") or {}).get("hard") or {}, (quota.get("status") or {}).get("used") or {}
        return any(
            resource in hard
            and resource in self.limited
            and parse(hard[resource]) == parse(self.limited[resource])
            and parse(used.get(resource, "0")).value + parse(requested).value > parse(hard[resource]).value
            for resource, requested in self.requested.items()
        )


# The message of the quota admission plugin (apiserver/pkg/admission/plugin/resourcequota/controller.go).
# Any account that can create events can write anything there, and the name becomes part of a selector.
_QUOTA = re.compile(r"exceeded quota: ([-.a-z0-9]+), requested: (\S+), used: (\S+), limited: (\S+)")


def quota_refusal(message: str) -> QuotaRefusal | None:
    """The quota that the server's message is about; None when it is about something else."""
    found = _QUOTA.search(message)
    if not found:
        return None
    try:
        return QuotaRefusal(found[1], *map(_amounts, found.groups()[1:]))
    except ValueError:
        return None


def _amounts(text: str) -> dict[str, str]:
    """``cpu=2,memory=1Gi`` by resource. Raises ValueError for anything else."""
    amounts = dict(part.split("=", 1) for part in text.split(","))
    for amount in amounts.values():
        parse(amount)
    return amounts


def _refusal_reason(message: str, workload: Object) -> PendingReason:
    quota = quota_refusal(message)
    if not quota:
        lasting = _LASTING_REFUSAL.search(message) is not None
        hint = refusal_hint(message, workload["metadata"]["namespace"])
        text = f"pods cannot be created: {_first_line(message)}"
        return PendingReason(text, hint.text, final=lasting, needs_user=hint.needs_user, refusal=message)
    if too_small := too_small_quota(quota, pods_wanted(workload)):
        return replace(too_small, refusal=message)
    each = "; ".join(
        f"{name}: {text}"
        for name, text in by_resource(
            {
                resource: f"{requested} requested, {quota.used.get(resource, '?')} of "
                f"{quota.limited.get(resource, '?')} used"
                for resource, requested in quota.requested.items()
            }
        )
    )
    text = f"quota {quota.quota} of the namespace is exhausted ({each})"
    return PendingReason(text, "Delete a job, request less, or have the quota raised", final=True, refusal=message)


def too_small_quota(quota: QuotaRefusal, number: int) -> PendingReason | None:
    """The reason if the quota would not even allow that many pods if nothing else used it."""
    impossible = {
        resource: f"{requested} requested{f' by each of {number} pods' if number > 1 else ''}, at most "
        f"{quota.limited[resource]} allowed"
        for resource, requested in quota.requested.items()
        if resource in quota.limited and parse(requested).value * number > parse(quota.limited[resource]).value
    }
    if not impossible:
        return None
    if budget := used_up_budget(quota.quota):
        return PendingReason(*budget, final=True, predicted=True)
    each = "; ".join(f"{name}: {text}" for name, text in by_resource(impossible))
    text = f"quota {quota.quota} of the namespace is too small for the job ({each})"
    return PendingReason(text, "Request less, or have the quota raised", final=True, predicted=True)


_BUDGET = re.compile(rf"{GPU_HOURS_UNTIL}(?P<day>\d{{4}}-\d\d-\d\d)(?P<low>-low)?(?:-of-(?P<of>[-a-z0-9]{{1,63}}))?")


def used_up_budget(quota: str) -> tuple[str, str] | None:
    """What it means that a quota of this name refuses pods, and what to do, if it is that of a budget of GPU-hours."""
    found = _BUDGET.fullmatch(quota)
    if found is None:
        return None
    of, other = (f" for {found['of']}", ", use another accelerator") if found["of"] else ("", "")
    text = f"the GPU-hours of the namespace{of} are used up until {found['day']} 00:00 UTC"
    if found["low"]:
        text += ", except for jobs with priority low or opportunistic"
        return text, f"Submit it with priority low{other}, or have the budget raised"
    return text, f"Submit it again then{other}, or have the budget raised"


def by_resource(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is said of the resources of a quota, in one order; of limits only what is not said of the requests."""
    said = {key.removeprefix("requests."): text for key, text in sorted(texts.items())}
    limits = {name: name.removeprefix("limits.") for name in said if name.startswith("limits.")}
    first = [(name, text) for name, text in said.items() if name not in limits]
    return first + [(name, said[name]) for name, requests in limits.items() if said.get(requests) != said[name]]


# Admission or validation rejects the pod itself. A namespace that is seconds old may lack its service account.
_LASTING_REFUSAL = re.compile(r"(?:is forbidden: (?!error looking up service account)|is invalid: )")
_LONGEST = 240


def _first_line(message: str) -> str:
    """The first line, cut after ``_LONGEST`` characters, without the full stop that ``sentence`` adds."""
    line = message.strip().partition("\n")[0].rstrip(". ")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"
