# SPDX-License-Identifier: BSD-2-Clause
"""Read why jobs are not running: a fixed number of lists, however many jobs and nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from ..kube.client import Client
from ..kube.discovery import preferred_versions
from ..kube.errors import if_allowed
from ..kube.resources import EVENT, KUEUE_WORKLOAD, NODE, POD_GROUP, Object
from .admission import pod_groups_of, queue_of
from .declared import read_declared
from .devices import claims_devices
from .events_by_object import EventsByObject
from .node_loss import nodes_in_doubt
from .nodes import FAULTY, Node, PodUse, slim_node
from .pending_reason import PendingReason
from .pool_declarations import NATIVE
from .preemption import PREEMPTED, by_start_of_name, last_preemption, may_be_preempted, preemption_text
from .read_devices import list_or_none, read_devices
from .read_jobs import JobId, read_pods
from .read_nodes import read_node, read_nodes_and_uses, read_uses
from .reason import ClusterView, reason_for
from .shortage import Shortages
from .status import is_admitted_by_kueue, is_suspended

K = TypeVar("K")

_READ_SINGLY = 3  # Of more nodes or namespaces than that, all are listed.
_ABOUT_GROUPS = "involvedObject.kind=PodGroup,reason=Unschedulable"


def read_events(client: Client, namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """The warnings of the given namespaces, oldest first."""
    return _read_events(client, sorted(set(namespaces)), "type=Warning")


def _read_events(client: Client, namespaces: Iterable[str | None], fields: str) -> list[dict[str, Any]]:
    found = (client.list_objects(EVENT, namespace, fields=fields) for namespace in namespaces)
    return by_time(chain.from_iterable(found))


def by_time(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, the one last seen at the end."""

    def last_seen(event: Object) -> str:
        in_series = (event.get("series") or {}).get("lastObservedTime")
        return str(in_series or event.get("lastTimestamp") or event.get("eventTime") or "")

    return sorted(events, key=last_seen)


def read_reasons(client: Client, workloads: Mapping[JobId, Object]) -> dict[JobId, str]:
    """Why the given workloads are not running, where a reason is known.

    Two lists per namespace, and those of ``reasons_of``. Reasons leave out what the account has no permission to read.
    """
    if not workloads:
        return {}
    namespaces = {namespace for namespace, dummy in workloads}
    found = if_allowed(lambda: (read_pods(client, workloads), read_events(client, namespaces)), None)
    return reasons_of(client, workloads, *found) if found else {}


def reasons_of(
    client: Client, workloads: Mapping[K, Object], pods: Mapping[K, Sequence[Object]], events: Sequence[Object]
) -> dict[K, str]:
    """The same from pods and events that were read already; the keys can be any.

    Reads the nodes and all unfinished pods if a pod has no node, and devices and claims if it waits for some; the nodes
    of pods that are not ready, and who preempted pods that are missing.
    """
    active = {job: workload for job, workload in workloads.items() if not is_suspended(workload)}
    nodes: list[Node] | None = None
    uses: list[PodUse] | None = None
    if not all(pod["spec"].get("nodeName") for job in active for pod in pods.get(job, ())):
        nodes, uses = read_nodes_and_uses(client)
    waiting = [pod for job in active for pod in pods.get(job, ()) if not pod["spec"].get("nodeName")]
    places = {pod["metadata"]["namespace"] for pod in waiting if claims_devices(pod)}
    devices = read_devices(client, places) if nodes is not None and places else None
    names = {use.uid: f"job {use.job} in namespace {use.namespace}" for use in uses or () if use.job}
    if nodes is None:
        pod_nodes = _nodes_in_doubt(client, chain(*(pods.get(job, ()) for job in active)))
    else:  # Of the others nothing is said, and each job looks at all of these.
        pod_nodes = [node for node in nodes if node.status == FAULTY]
    preemptions = _read_preemptions(client, active, pods, uses)
    queued = read_queued(client, workloads, pods)
    forbidden = read_forbidden(client, active, pods)
    shortages = None if nodes is None else Shortages(nodes)
    by_object = EventsByObject(events)
    found = {
        job: reason_for(
            workload,
            pods.get(job, ()),
            by_object.of(workload, {pod["metadata"]["name"] for pod in pods.get(job, ())}),
            ClusterView(
                shortages, pod_nodes, preemptions.get(job, ""), devices, names, queued.get(job), forbidden.get(job, "")
            ),
        )
        for job, workload in workloads.items()
    }
    return {job: reason for job, reason in found.items() if reason}


def read_forbidden(
    client: Client, workloads: Mapping[K, Object], pods: Mapping[K, Sequence[Object]], *, again: bool = False
) -> dict[K, str]:
    """What policies say against Deployments with fewer pods than they ask for, such as after a ``kubectl scale``.

    ``again``: also where this connection has read the policies before.
    """
    lacking = {
        job: workload
        for job, workload in workloads.items()
        if workload["kind"] == "Deployment" and len(pods.get(job, ())) < workload["spec"].get("replicas", 1)
    }
    if not lacking:
        return {}
    declared = read_declared(client, lambda _text: None, again=again)
    denying = [policy for policy in declared.policies if policy.action == "deny"]
    if not denying:
        return {}
    from ..policies.guards import broken_rules  # Here: many clusters have no policy.

    found = {}
    for job, workload in lacking.items():
        texts = (broken_rules(policy, workload["metadata"]["namespace"], [workload]) for policy in denying)
        if text := next((text.rstrip(".") for _place, text in chain.from_iterable(texts)), ""):
            found[job] = text
    return found


def read_queued(
    client: Client, workloads: Mapping[K, Object], pods: Mapping[K, Sequence[Object]]
) -> dict[K, PendingReason]:
    """What jobs wait for in queues of Kueue and of Volcano, or to be started as a whole: nothing is asked without any.

    Kueue's Workloads or PodGroups in each of their namespaces; none where they cannot be read.
    """
    suspended = {
        job: workload
        for job, workload in workloads.items()
        if is_admitted_by_kueue(workload) and is_suspended(workload)
    }
    grouped = {
        job: workload
        for job, workload in workloads.items()
        if queue_of(workload).backend == "volcano" and pod_groups_of(pods.get(job, ()))
    }
    gangs = {
        job: workload
        for job, workload in workloads.items()
        if queue_of(workload).backend == NATIVE and any(not pod["spec"].get("nodeName") for pod in pods.get(job, ()))
    }
    found = {**_waiting_for_kueue(client, suspended), **_waiting_for_volcano(client, grouped, pods)}
    if gangs:
        from .native_gangs import waiting_gangs  # Here: few clusters have them.

        found |= waiting_gangs(client, gangs, pods)
    return found


def _waiting_for_kueue(client: Client, waiting: Mapping[K, Object]) -> dict[K, PendingReason]:
    version = preferred_versions(client).get(KUEUE_WORKLOAD.api_version.partition("/")[0]) if waiting else None
    if version is None:
        return {}
    from .queue_reasons import Admissions  # Here: many clusters have no queues.

    resource = replace(KUEUE_WORKLOAD, api_version=version)
    found = {}
    for namespace, here in _workloads_by_namespace(waiting).items():
        none: list[dict[str, Any]] = []
        admissions = Admissions(if_allowed(partial(client.list_objects, resource, namespace), none))
        for job, workload in here.items():
            if reason := admissions.reason(workload, queue_of(workload).name or ""):
                found[job] = reason
    return found


def _waiting_for_volcano(
    client: Client, waiting: Mapping[K, Object], pods: Mapping[K, Sequence[Object]]
) -> dict[K, PendingReason]:
    if not waiting:
        return {}
    from .queue_reasons import PodGroups

    found = {}
    for namespace, here in _workloads_by_namespace(waiting).items():
        groups = list_or_none(client, POD_GROUP, namespace) or []
        none: list[dict[str, Any]] = []
        events = if_allowed(partial(_read_events, client, [namespace], _ABOUT_GROUPS), none) if groups else none
        pod_groups = PodGroups(groups, events)
        for job in here:
            names = sorted(pod_groups_of(pods.get(job, ())))
            if reason := next(filter(None, map(pod_groups.reason, names)), None):
                found[job] = reason
    return found


def _workloads_by_namespace(workloads: Mapping[K, Object]) -> dict[str, dict[K, Object]]:
    found: dict[str, dict[K, Object]] = defaultdict(dict)
    for job, workload in workloads.items():
        found[workload["metadata"]["namespace"]][job] = workload
    return found


def _nodes_in_doubt(client: Client, pods: Iterable[Object]) -> list[Node]:
    """The nodes of those pods that may not be ready because of their node; none if listing nodes is forbidden."""
    names = nodes_in_doubt(pods)
    if len(names) <= _READ_SINGLY:
        return [node for name in sorted(names) for node in read_node(client, name)]
    nodes = if_allowed(lambda: client.list_slim(NODE, slim_node), list[Node]())
    return [node for node in nodes if node.name in names]


def _read_preemptions(
    client: Client, workloads: Mapping[K, Object], pods: Mapping[K, Sequence[Object]], uses: Sequence[PodUse] | None
) -> dict[K, str]:
    """Who preempted pods of the workloads, in words; ``uses`` are all unfinished pods where they were read already."""
    hit = {job: obj for job, obj in workloads.items() if may_be_preempted(obj, pods.get(job, ()))}
    namespaces = {obj["metadata"]["namespace"] for obj in hit.values()}
    places = namespaces if len(namespaces) <= _READ_SINGLY else {None}
    events = if_allowed(lambda: _read_events(client, places, PREEMPTED), list[dict[str, Any]]())
    by_start = by_start_of_name(events)
    found = {job: event for job, obj in hit.items() if (event := last_preemption(obj, by_start))}
    if found and uses is None:
        uses = if_allowed(lambda: read_uses(client), list[PodUse]())
    by_uid = {use.uid: use for use in uses or ()}
    return {job: preemption_text(event, by_uid) for job, event in found.items()}
