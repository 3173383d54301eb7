# SPDX-License-Identifier: BSD-2-Clause
"""Read the cluster, and why jobs are not running: a fixed number of lists, however many jobs and nodes."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any, TypeVar

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError, if_allowed
from ..kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    DEVICE_CLASS,
    EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    KUEUE_WORKLOAD,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Resource,
)
from ..kube.shapes import OddObject, UnreadableObject
from ..labels import APP, MANAGED, job_name_of, pod_security_of
from .admission import pod_groups_of, queue_of, waiting_in_queue, waiting_in_volcano
from .declared import Declared
from .device_shortage import claims_devices
from .devices import Inventory, count_devices, inventory_of
from .endpoints import SecretKey
from .node_loss import nodes_in_doubt
from .nodes import FAULTY, Node, PodUse, slim_node, slim_pod, with_use
from .preemption import PREEMPTED, last_preemption, may_be_preempted, preemption_text
from .reason import PendingReason, Surroundings, reason_for
from .status import is_admitted_by_kueue, is_suspended

Object = Mapping[str, Any]
JobId = tuple[str, str]  # namespace, name
ByJob = dict[JobId, list[dict[str, Any]]]
K = TypeVar("K")

WORKLOADS = (JOB, DEPLOYMENT, STATEFUL_SET)
_WORKLOAD_KINDS = frozenset(resource.kind for resource in WORKLOADS)
OWNED = (*WORKLOADS, SERVICE, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP)
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # Finished pods hold no resources.

_READ_SINGLY = 3  # Of more nodes or namespaces than that, all are listed.
_SOME_NODES = 5  # One of them is usually ready.
_NAMED_IN_SELECTOR = 20  # More names would make the URL long; then the objects of all jobs are read.


def read_jobs(client: Client, jobs: Iterable[JobId], resources: Sequence[Resource] = OWNED) -> ByJob:
    """The objects of the given jobs, by job; a job without any has an empty list.

    Raises UnreadableObject for a workload that is not like its kind: a plan without it would create it again.
    """
    names: dict[str, set[str]] = defaultdict(set)
    wanted = set(jobs)
    for namespace, name in wanted:
        names[namespace].add(name)

    def read(query: tuple[str, Resource]) -> list[dict[str, Any]]:
        namespace, resource = query
        return client.list_objects(resource, namespace, labels=selector_of(names[namespace]))

    found: ByJob = {job: [] for job in wanted}
    for objects in run_concurrently(read, product(sorted(names), resources), client.concurrency):
        for obj in objects:
            job = obj["metadata"]["namespace"], job_name_of(obj) or ""
            # A workload is named as its job. Others with its label are somebody else's.
            if job in found and (obj["kind"] not in _WORKLOAD_KINDS or obj["metadata"]["name"] == job[1]):
                found[job].append(obj)
    for job in wanted if set(resources) & set(WORKLOADS) else ():
        if odd := odd_workload(client, job):
            raise UnreadableObject(odd)
    if set(resources) >= set(OWNED):
        claiming = [job for job, objects in found.items() if any(map(claim_templates_of, objects))]
        for job, templates in read_claim_templates(client, claiming).items():
            found[job] += templates
    return found


def read_claim_templates(client: Client, jobs: Iterable[JobId]) -> ByJob:
    """The ResourceClaimTemplates of jobs, which few jobs have: a list for each of their namespaces."""
    jobs = list(jobs)
    return read_jobs(client, jobs, (RESOURCE_CLAIM_TEMPLATE,)) if jobs else {}


def claim_templates_of(workload: Object) -> list[str]:
    """The names of the templates that the pods of a workload get their claims from."""
    spec = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    claims = spec.get("resourceClaims") or () if workload["kind"] in _WORKLOAD_KINDS else ()
    return [one["resourceClaimTemplateName"] for one in claims if "resourceClaimTemplateName" in one]


def odd_workload(client: Client, job: JobId) -> OddObject | None:
    """The workload of a job, where a list has left it out."""
    found = (client.odd_objects.get((resource.kind, *job)) for resource in WORKLOADS)
    return next(filter(None, found), None)


def read_pods(client: Client, jobs: Iterable[JobId]) -> ByJob:
    """Their pods, by job."""
    return read_jobs(client, jobs, (POD,))


def read_events(client: Client, namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """The warnings of the given namespaces, oldest first."""
    return _events(client, sorted(set(namespaces)), "type=Warning")


def _events(client: Client, namespaces: Iterable[str | None], fields: str) -> list[dict[str, Any]]:
    found = (client.list_objects(EVENT, namespace, fields=fields) for namespace in namespaces)
    return by_time(chain.from_iterable(found))


def by_time(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, the one last seen at the end."""

    def last_seen(event: Object) -> str:
        in_series = (event.get("series") or {}).get("lastObservedTime")
        return str(in_series or event.get("lastTimestamp") or event.get("eventTime") or "")

    return sorted(events, key=last_seen)


def enforced_levels(client: Client, namespaces: Iterable[str]) -> dict[str, str]:
    """The Pod Security level that each namespace enforces; none for one without that label, or that may not be read."""

    def read(name: str) -> str | None:
        namespace = if_allowed(lambda: client.get(NAMESPACE, None, name), None) or {"metadata": {}}
        return pod_security_of(namespace)

    names = sorted(set(namespaces))
    levels = zip(names, run_concurrently(read, names, client.concurrency), strict=True)
    return {name: level for name, level in levels if level}


def selector_of(names: set[str]) -> str:
    """The label selector of the named jobs' objects; of many jobs, that of all jobs' objects."""
    if len(names) > _NAMED_IN_SELECTOR:
        return f"{MANAGED},{APP}"  # The ledger and the history of a namespace are of no job.
    return f"{MANAGED},{APP} in ({','.join(sorted(names))})"


def read_nodes_with_usage(
    client: Client, slim: Callable[[dict[str, Any]], Node] = slim_node, *, declared: Declared
) -> tuple[list[Node], list[PodUse]]:
    """All nodes with their usage, and all unfinished pods: two lists, in pages, and those of ``with_devices``."""
    uses = read_uses(client)
    nodes, found = with_devices(client, with_use(client.list_slim(NODE, slim), uses), uses, declared)
    return nodes, found or []


def with_devices(
    client: Client, nodes: list[Node], uses: list[PodUse] | None, declared: Declared
) -> tuple[list[Node], list[PodUse] | None]:
    """The same with the devices that are claimed: two lists, where a pool declares some or a pod claims some.

    Or where a vendor's label says that a node has devices, and the node lists none.
    """
    unlisted = any(node.product and not node.devices for node in nodes)
    if not declared.claims_devices and not unlisted and not any(use.claims for use in uses or ()):
        return nodes, uses
    inventory = read_taken_devices(client)
    return count_devices(nodes, uses, inventory) if inventory else (nodes, uses)


def read_uses(client: Client) -> list[PodUse]:
    """All unfinished pods."""
    return client.list_slim(POD, slim_pod, fields=UNFINISHED)


def _read_nodes(client: Client) -> tuple[list[Node] | None, list[PodUse] | None]:
    """The nodes, with their usage as far as the account may read it, and all unfinished pods; None where it may not."""
    uses = if_allowed(lambda: read_uses(client), None)
    nodes = if_allowed(lambda: client.list_slim(NODE, slim_node), None)
    return nodes if nodes is None or uses is None else with_use(nodes, uses), uses


def read_reasons(client: Client, workloads: Mapping[JobId, Object]) -> dict[JobId, str]:
    """Why the given workloads are not running, where a reason is known.

    Two lists per namespace, and those of ``reasons_of``. Reasons leave out what may not be read.
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
        nodes, uses = _read_nodes(client)
    waiting = [pod for job in active for pod in pods.get(job, ()) if not pod["spec"].get("nodeName")]
    places = {pod["metadata"]["namespace"] for pod in waiting if claims_devices(pod)}
    devices = read_devices(client, places) if nodes is not None and places else None
    names = {use.uid: f"job {use.job} in namespace {use.namespace}" for use in uses or () if use.job}
    pod_nodes = nodes if nodes is not None else _nodes_in_doubt(client, chain(*(pods.get(job, ()) for job in active)))
    preemptions = _preemptions(client, active, pods, uses)
    queued = read_queued(client, workloads, pods)
    here: dict[str, list[Object]] = defaultdict(list)
    for event in events:
        here[event["metadata"]["namespace"]].append(event)
    found = {
        job: reason_for(
            workload,
            pods.get(job, ()),
            here[workload["metadata"]["namespace"]],
            Surroundings(nodes, pod_nodes, preemptions.get(job, ""), devices, names, queued.get(job)),
        )
        for job, workload in workloads.items()
    }
    return {job: reason for job, reason in found.items() if reason}


def read_queued(
    client: Client, workloads: Mapping[K, Object], pods: Mapping[K, Sequence[Object]]
) -> dict[K, PendingReason]:
    """What jobs wait for in queues of Kueue and of Volcano: nothing is asked without any.

    Kueue's Workloads or Volcano's PodGroups in each of their namespaces; none where they cannot be read.
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
    return {**_waiting_for_kueue(client, suspended), **_waiting_for_volcano(client, grouped, pods)}


def _waiting_for_kueue(client: Client, waiting: Mapping[K, Object]) -> dict[K, PendingReason]:
    version = client.preferred_version(KUEUE_WORKLOAD.api_version.partition("/")[0]) if waiting else None
    if version is None:
        return {}
    resource = replace(KUEUE_WORKLOAD, api_version=version)
    found = {}
    for namespace, here in _by_namespace(waiting).items():
        none: list[dict[str, Any]] = []
        admissions = if_allowed(partial(client.list_objects, resource, namespace), none)
        for job, workload in here.items():
            if reason := waiting_in_queue(workload, queue_of(workload).name or "", admissions):
                found[job] = reason
    return found


def _waiting_for_volcano(
    client: Client, waiting: Mapping[K, Object], pods: Mapping[K, Sequence[Object]]
) -> dict[K, PendingReason]:
    found = {}
    for namespace, here in _by_namespace(waiting).items():
        groups = _list_or_none(client, POD_GROUP, namespace) or []
        none: list[dict[str, Any]] = []
        events = if_allowed(partial(_events, client, [namespace], _ABOUT_GROUPS), none) if groups else none
        for job in here:
            names = pod_groups_of(pods.get(job, ()))
            own = (group for group in groups if group["metadata"]["name"] in names)
            if reason := next(filter(None, (waiting_in_volcano(group, groups, events) for group in own)), None):
                found[job] = reason
    return found


_ABOUT_GROUPS = "involvedObject.kind=PodGroup,reason=Unschedulable"


def _by_namespace(workloads: Mapping[K, Object]) -> dict[str, dict[K, Object]]:
    found: dict[str, dict[K, Object]] = defaultdict(dict)
    for job, workload in workloads.items():
        found[workload["metadata"]["namespace"]][job] = workload
    return found


def read_devices(client: Client, namespaces: Iterable[str]) -> Inventory | None:
    """All devices, claims and classes: three lists; None where the server has none or the account may not read them.

    Of an account that may not read all claims, those of the given namespaces.
    """
    slices = _list_or_none(client, RESOURCE_SLICE)
    if slices is None:
        return None
    claims = _list_or_none(client, RESOURCE_CLAIM)
    is_usage_known = claims is not None
    if claims is None:
        claims = [one for name in set(namespaces) for one in _list_or_none(client, RESOURCE_CLAIM, name) or ()]
    found = inventory_of(slices, claims, _list_or_none(client, DEVICE_CLASS))
    return replace(found, is_usage_known=is_usage_known)


def read_taken_devices(client: Client) -> Inventory | None:
    """The same without the classes, and one list alone where drivers offer no devices."""
    slices = _list_or_none(client, RESOURCE_SLICE)
    claims = _list_or_none(client, RESOURCE_CLAIM) if slices else slices
    return None if slices is None or claims is None else inventory_of(slices, claims)


def read_offered_devices(client: Client) -> Inventory | None:
    """What drivers offer, and the classes of it, whoever has it."""
    slices = _list_or_none(client, RESOURCE_SLICE)
    classes = _list_or_none(client, DEVICE_CLASS) if slices else None
    return None if slices is None or classes is None else inventory_of(slices, (), classes)


def without_managed_fields(obj: dict[str, Any]) -> dict[str, Any]:
    """``managedFields`` are a third of an object, and mostly not used."""
    obj["metadata"].pop("managedFields", None)
    return obj


def _list_or_none(client: Client, resource: Resource, namespace: str | None = None) -> list[dict[str, Any]] | None:
    """None where the server has no such kind, or the account may not read it."""
    try:
        return client.list_objects(resource, namespace)
    except ApiError as error:
        if error.is_forbidden or error.status == 404:
            return None
        raise


def _nodes_in_doubt(client: Client, pods: Iterable[Object]) -> list[Node]:
    """The nodes of those pods that may not be ready because of their node; none if listing nodes is forbidden."""
    names = nodes_in_doubt(pods)
    if len(names) <= _READ_SINGLY:
        return [node for name in sorted(names) for node in read_node(client, name)]
    nodes = if_allowed(lambda: client.list_slim(NODE, slim_node), list[Node]())
    return [node for node in nodes if node.name in names]


def read_node(client: Client, name: str) -> list[Node]:
    """The node of that name, if there is one that may be listed: permission to list includes none to get."""
    return if_allowed(lambda: client.list_slim(NODE, slim_node, fields=f"metadata.name={name}"), list[Node]())


def _preemptions(
    client: Client, workloads: Mapping[K, Object], pods: Mapping[K, Sequence[Object]], uses: Sequence[PodUse] | None
) -> dict[K, str]:
    """Who preempted pods of the workloads, in words; ``uses`` are all unfinished pods where they were read already."""
    hit = {job: obj for job, obj in workloads.items() if may_be_preempted(obj, pods.get(job, ()))}
    namespaces = {obj["metadata"]["namespace"] for obj in hit.values()}
    places = namespaces if len(namespaces) <= _READ_SINGLY else {None}
    events = if_allowed(lambda: _events(client, places, PREEMPTED), list[dict[str, Any]]())
    found = {job: event for job, obj in hit.items() if (event := last_preemption(obj, events))}
    if found and uses is None:
        uses = if_allowed(lambda: read_uses(client), list[PodUse]())
    return {job: preemption_text(event, uses or ()) for job, event in found.items()}


def read_lost_nodes(client: Client) -> set[str]:
    """The names of nodes that are not ready; none if listing nodes is forbidden."""
    nodes = if_allowed(lambda: client.list_slim(NODE, slim_node), None) or ()
    return {node.name for node in nodes if node.status == FAULTY}


def node_address(client: Client) -> str | None:
    """The address of any node that is ready, for node ports; None if there is none or listing nodes is forbidden."""

    def of_ready(nodes: Iterable[Node]) -> str | None:
        return next((node.address for node in nodes if node.address and node.status != FAULTY), None)

    def read() -> str | None:
        some = client.list_first(NODE, limit=_SOME_NODES)
        return of_ready(map(slim_node, some)) or (
            of_ready(client.list_slim(NODE, slim_node)) if len(some) == _SOME_NODES else None
        )

    return if_allowed(read, None)


def secret_value(client: Client, namespace: str, place: SecretKey) -> tuple[str | None, str]:
    """The value; or None, and why."""
    where = f"key {place.key} of Secret {place.name}"
    try:
        secret = client.get(SECRET, namespace, place.name)
    except ApiError as error:
        if error.is_forbidden:
            return None, f"reading {where} is forbidden"
        raise
    if secret is not None and not client.is_readable(SECRET, secret):
        return None, f"Secret {place.name} cannot be read"
    data = (secret or {}).get("data") or {}
    if place.key not in data:
        return None, f"{where} not found"
    try:
        value = base64.b64decode(data[place.key])
    except ValueError:
        return None, f"{where} is not in Base64"
    return value.decode(errors="replace").strip(), f"{where} is empty"
