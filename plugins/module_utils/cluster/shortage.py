# SPDX-License-Identifier: BSD-2-Clause
"""Why a pod fits on no node: what it needs, where it may run, how much is missing there, and what helps. Pure.

The scheduler's message only counts nodes by reason ("0/40 nodes are available: 32 node(s) didn't match ..."). It does
not name the pool or the GPU type, nor how much is free, nor whether any node is large enough.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..accelerators.catalog import BROKEN, MEMORY, catalog, has_word, whole_devices
from ..kube.resources import Object
from ..labels import DEFAULT_POOL, GPU_TYPE, JOB_TYPE, POOL, priority_class_name
from ..manifest.problems import enumerated, nearest
from .alike_pods import deciding_amounts
from .node_affinity import unmet_expressions
from .nodes import ACTIVE, FAULTY, MAINTAINING, Node, Taint, cores, counted_requests, gibibytes
from .pending_reason import UNKNOWN_POOL, UNKNOWN_TYPE
from .related import main_container
from .taints import untolerated_taints

Place = tuple[str, list[Node]]  # in words, and its nodes
_HIGHEST = priority_class_name("high")


@dataclass(frozen=True)
class Shortage:
    """What a pod does not find. ``lasting``: waiting does not help, only other nodes or another manifest do.
    ``needs_user``: nor is it likely to help. ``refused``: the job is wrong for the hardware, and not to be written.
    ``unknown``: the field of the manifest that names what no node has: its pool or its GPU type."""

    text: str
    hint: str = ""
    lasting: bool = False
    needs_user: bool = False
    refused: bool = False
    unknown: str = ""


def shortage_of(pod: Object, nodes: Sequence[Node], refusal: str = "") -> Shortage | None:
    """What an unscheduled pod finds on no node; None when these checks find no cause.

    Lasting causes come first. Of nodes read without their usage, only the ``refusal``, the scheduler's message, shows
    that they are in use.
    """
    return shortage_at(pod, place_of(pod, nodes), refusal)


class Shortages:
    """What pods find on none of these nodes: found once for all that are alike, because both may be thousands."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._known: dict[str, Shortage | None] = {}

    def of(self, pod: Object, refusal: str = "") -> Shortage | None:
        """As ``shortage_of`` finds it."""
        spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
        # All of a pod that this file looks at.
        fields = [spec.get(name) for name in ("nodeSelector", "tolerations", "priorityClassName")]
        fields += [(spec.get("affinity") or {}).get("nodeAffinity"), main_container(spec["containers"]).get("image")]
        alike = repr((deciding_amounts(pod), fields, labels.get(JOB_TYPE), refusal))
        if alike not in self._known:
            self._known[alike] = shortage_of(pod, self.nodes, refusal)
        return self._known[alike]


def shortage_at(pod: Object, found: Shortage | Place, refusal: str = "") -> Shortage | None:
    """The same of a pod that may run in the place that ``place_of`` has found."""
    if isinstance(found, Shortage):
        return found
    place, members = found
    counted = counted_requests(pod)
    requests = {resource: amount for resource, amount in counted.items() if _nodes_list(resource)}
    return (
        _invalid_configuration(counted, members, place)
        or _of_another_architecture(pod, members, place)
        or _larger_than_any(requests, members, place, pod)
        or _larger_than_a_device(counted, members, place)
        or _too_much_together(requests, members, place)
        or _none_accepts_pods(members, place)
        or (_nothing_free if members[0].is_usage_known else partial(_seem_full, refusal))(
            requests, members, place, _wait_hint(pod)
        )
    )


def _wait_hint(pod: Object) -> str:
    """A job of the highest priority cannot be raised."""
    if pod["spec"].get("priorityClassName") == _HIGHEST:
        return "Wait for other jobs to finish, or delete one"
    return "Wait for other jobs to finish, delete one, or raise job.priority"


def place_of(pod: Object, nodes: Sequence[Node]) -> Shortage | Place:
    """Where the pod may run, in words, and those nodes; a shortage if there are none."""
    place, members = _pool_of(pod, nodes)
    if not members:
        return _empty_pool(place, nodes)
    selector = dict(pod["spec"].get("nodeSelector") or {})
    selector.pop(POOL, None)
    for label in [key for key in selector if key == GPU_TYPE or key in catalog().product_labels]:
        wanted_type = selector.pop(label)
        typed = [node for node in members if node.labels.get(label) == wanted_type]
        if not typed:
            return _unknown_type(wanted_type, label, members, place)
        members, place = typed, f"{place} with GPU type {wanted_type}"
    labelled = [node for node in members if all(node.labels.get(key) == value for key, value in selector.items())]
    if not labelled:
        labels = ", ".join(f"{key}={value}" for key, value in selector.items())
        return Shortage(f"no node of {place} matches its node selector {labels}", lasting=True)
    wanted = [node for node in labelled if not unmet_expressions(pod["spec"], node.labels)]
    if not wanted:
        return _unmet_affinity(pod, labelled, place)
    members = [node for node in wanted if not _untolerated(node, pod)]
    if not members:
        return _all_tainted(pod, wanted, place)
    if len(members) < len(wanted):
        place = f"{place} whose taints it tolerates"
    return place, members


def _pool_of(pod: Object, nodes: Sequence[Node]) -> tuple[str, list[Node]]:
    """Where the pod may run, in words and as nodes: a pool, the nodes without one, or anywhere (for other pods)."""
    pool = (pod["spec"].get("nodeSelector") or {}).get(POOL)
    if pool is None and not _avoids_pools(pod):
        return "the cluster", list(nodes)
    pool = pool or DEFAULT_POOL
    return f"pool {pool}", [node for node in nodes if node.pool == pool]


def _avoids_pools(pod: Object) -> bool:
    """Whether the pod only runs on nodes without a pool label, as jobs/objects/scheduling.py has it for jobs."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    rule = {"key": POOL, "operator": "DoesNotExist"}
    return bool(terms) and all(rule in (term.get("matchExpressions") or ()) for term in terms)


def _empty_pool(place: str, nodes: Sequence[Node]) -> Shortage:
    if not nodes:
        return Shortage("the cluster has no nodes", lasting=True)
    pools = sorted({node.pool for node in nodes} - {DEFAULT_POOL})
    existing = f"existing pools: {_enumerate(pools)}" if pools else "no pools exist"
    if place == f"pool {DEFAULT_POOL}" and pools:
        return Shortage("it names no pool, and every node is in one", f"Set resources.pool ({existing})", True)
    meant = _did_you_mean(nearest(place.removeprefix("pool "), pools))
    hint = f"{meant}Correct resources.pool ({existing}), or add nodes to the pool with M(gpuctl_pool)"
    return Shortage(f"{place} has no nodes", hint, lasting=True, unknown=UNKNOWN_POOL)


def _unmet_affinity(pod: Object, nodes: Sequence[Node], place: str) -> Shortage:
    """What the required node affinity of the pod asks for and no node has."""
    unmet = {json.dumps(each): each for node in nodes for each in unmet_expressions(pod["spec"], node.labels)}
    expression = next(iter(unmet.values()))
    key = expression["key"]
    for profile in catalog().profiles.values():
        labels = profile.part("labels")
        if key == (labels.get("memory") or {}).get("label"):
            values = sorted({node.labels[key] for node in nodes if node.labels.get(key)})
            has = f"it says {_enumerate(values)}" if values else "none has it"
            text = f"no node of {place} has {profile.noun} with the memory that it needs (label {key}: {has})"
            return Shortage(text, "Lower resources.gpu-memory, or set resources.pool to another pool", lasting=True)
        if key == labels.get("domain"):
            text = f"no node of {place} is in a domain of fast links (label {key})"
            return Shortage(text, "Remove resources.interconnect, or set resources.pool to another pool", lasting=True)
    wanted = ",".join(expression.get("values") or ())
    text = " ".join([key, expression["operator"], *([wanted] if wanted else [])])
    return Shortage(f"no node of {place} matches its node affinity {text}", lasting=True)


def _invalid_configuration(requests: Mapping[str, int], nodes: Sequence[Node], place: str) -> Shortage | None:
    """The configuration of the devices that it needs is invalid on every node."""
    for profile in {row.profile for row, amount in catalog().rows_in(requests) if amount}:
        if all(node.counted_as.get(profile) == BROKEN for node in nodes):
            products = sorted({node.product for node in nodes if node.product})
            what, names = catalog().profiles[profile].noun, _enumerate(products)
            text = f"the configuration of the {what} is invalid on every node of {place} ({names})"
            hint = "Correct it, for NVIDIA with the node label nvidia.com/mig.config"
            return Shortage(text, hint, needs_user=True, refused=True)
    return None


def _of_another_architecture(pod: Object, nodes: Sequence[Node], place: str) -> Shortage | None:
    """The name of the image says what CPUs it is for, and no node has those."""
    image = str(main_container(pod["spec"]["containers"]).get("image") or "")
    meant = {arch for arch, words in _ARCHITECTURES.items() if has_word(image, words)}
    present = {node.labels.get(_ARCH) for node in nodes}
    if not meant or None in present or meant & present:
        return None
    text = f"the image is for CPUs of {_enumerate(sorted(meant))}, but the nodes of {place} have those of "
    hint = "Use another image, or set resources.pool to another pool"
    return Shortage(f"{text}{_enumerate(sorted(filter(None, present)))}", hint, lasting=True, refused=True)


_ARCH = "kubernetes.io/arch"
_ARCHITECTURES = {"amd64": ("amd64", "x86_64"), "arm64": ("arm64", "aarch64")}


def _larger_than_a_device(requests: Mapping[str, int], nodes: Sequence[Node], place: str) -> Shortage | None:
    """A share of more memory than one device has. Unknown memory of a device counts as enough."""
    for row, amount in (each for each in catalog().rows_in(requests) if each[0].kind == MEMORY):
        memories = [catalog().profiles[row.profile].device_memory(node.labels) for node in nodes]
        known = [memory for memory in memories if memory is not None]
        if len(known) == len(nodes) and row.bytes(amount) > max(known):
            singular = catalog().profiles[row.profile].singular
            most = f"the largest {singular} of {place} has {gibibytes(max(known), math.floor)}"
            text = f"it needs {row.text(amount)}, but {most}"
            return Shortage(text, "Lower resources.gpu-share", lasting=True, refused=True)
    return None


def _unknown_type(wanted: str, label: str, nodes: Sequence[Node], place: str) -> Shortage:
    types = sorted({node.labels[label] for node in nodes if node.labels.get(label)})
    if types:
        meant = _did_you_mean(_same_type(wanted, types))
        hint = f"{meant}Available GPU types: {_enumerate(types)}. Correct resources.gpu-type, or remove it"
        return Shortage(f"GPU type {wanted} not found in {place}", hint, lasting=True, unknown=UNKNOWN_TYPE)
    text = f"GPU type {wanted} not found in {place}, where no node has the label {label}"
    hint = "Remove resources.gpu-type, or set the label with M(gpuctl_pool,gpuctl_node_label)"
    return Shortage(text, hint, lasting=True, unknown=UNKNOWN_TYPE)


def _did_you_mean(word: str | None) -> str:
    return f"Did you mean {word}? " if word else ""


def _same_type(wanted: str, types: Iterable[str]) -> str | None:
    """The GPU type that was meant: in another case, with other separators, or without the size of its memory.

    Similar letters are not enough: an H100 is no A100.
    """

    def plain(text: str) -> str:
        return re.sub(r"[^a-z0-9]", "", text.lower())

    alike = {each: plain(each) for each in types}
    same = [each for each, text in alike.items() if text == plain(wanted)]
    parts = [each for each, text in alike.items() if text.startswith(plain(wanted)) or plain(wanted).startswith(text)]
    found = same or parts
    return found[0] if len(found) == 1 else None


def _untolerated(node: Node, pod: Object) -> list[Taint]:
    """The taints that keep the pod off a node, without those that Kubernetes sets for the node's conditions."""
    # Those come and go with the conditions, and are reported as the status of the node.
    taints = (taint for taint in node.taints if not taint.key.startswith("node.kubernetes.io/"))
    return list(untolerated_taints(taints, pod["spec"].get("tolerations") or ()))


def _all_tainted(pod: Object, nodes: Sequence[Node], place: str) -> Shortage:
    keys = sorted({taint.key for node in nodes for taint in _untolerated(node, pod)})
    if len(keys) == 1 and keys[0] in catalog().taints():
        text = f"the nodes of {place} only accept jobs that use GPUs (taint {keys[0]})"
        return Shortage(text, "Set resources.pool to a pool with other nodes", lasting=True)
    # Not lasting: maintenance and driver upgrades set taints and remove them.
    text = f"every node of {place} has a taint that it does not tolerate: {_enumerate(keys)}"
    return Shortage(text, "Set resources.pool to another pool")


def _larger_than_any(requests: Mapping[str, int], nodes: Sequence[Node], place: str, pod: Object) -> Shortage | None:
    for resource in requests:
        largest = max(node.allocatable.get(resource, 0) for node in nodes)
        if requests[resource] <= largest:
            continue
        noun = _resource_noun(resource)
        if not largest:
            # While its device plugin restarts, a node lists 0 (for five minutes: pkg/kubelet/cm/devicemanager,
            # endpointStopGracePeriod), and keeps its GPU type.
            lasting = not any(node.gpu_type for node in nodes)
            unknown = not any(resource in node.allocatable for node in nodes)
            hint = f"Set resources.pool to a pool with {noun}, or install the device plugin for {resource}"
            return Shortage(f"no node of {place} has {noun}", hint, lasting, needs_user=unknown)
        training = (pod["metadata"].get("labels") or {}).get(JOB_TYPE) == "training"
        spread = (
            ", or spread the training with resources.node_count" if training and whole_devices({resource: 1}) else ""
        )
        needs, most = _request(resource, requests[resource]), _at_most(resource, largest)
        text = f"{needs}, but the largest node of {place} has {most}"
        return Shortage(text, f"Lower resources.{_manifest_field(resource)}{spread}", lasting=True)
    return None


def _too_much_together(requests: Mapping[str, int], nodes: Sequence[Node], place: str) -> Shortage | None:
    """Each resource has a node that is large enough, but no node has enough of all."""
    if any(all(node.allocatable.get(key, 0) >= requests[key] for key in requests) for node in nodes):
        return None
    needed = [key for key in requests if requests[key]]
    needs = _enumerate([_resource_amount(key, requests[key], math.ceil) for key in needed])
    text = f"it needs {needs} on one node, and no node of {place} is that large"
    fields = _enumerate([f"resources.{_manifest_field(key)}" for key in needed])
    # A node whose device plugin restarts lists 0 for a while.
    lasting = not any(node.gpu_type and not node.gpu_total for node in nodes)
    return Shortage(text, f"Lower one of {fields}, or set resources.pool to another pool", lasting)


def _none_accepts_pods(nodes: Sequence[Node], place: str) -> Shortage | None:
    if any(node.status == ACTIVE for node in nodes):
        return None
    hint = "Make a node schedulable again, or set resources.pool to another pool"
    if len(nodes) == 1:
        return Shortage(f"the only node of {place} is {_UNAVAILABLE[nodes[0].status]}", hint)
    return Shortage(f"none of the {len(nodes)} nodes of {place} accepts pods: {_unavailable_counts(nodes)}", hint)


def _nothing_free(requests: Mapping[str, int], nodes: Sequence[Node], place: str, hint: str) -> Shortage | None:
    needed = [resource for resource in requests if requests[resource]]
    columns = {resource: [node.free(resource) for node in nodes] for resource in needed}
    enough = {resource: [left >= requests[resource] for left in column] for resource, column in columns.items()}
    if not needed or any(map(all, zip(*enough.values(), strict=True))):
        return None
    # The scarcest resource explains most: the one that the fewest nodes have enough of.
    scarcest = min(needed, key=lambda resource: sum(enough[resource]))
    free = max(columns[scarcest])
    best, missing = nodes[columns[scarcest].index(free)], requests[scarcest] - free
    if missing <= 0:
        nouns = _enumerate([_resource_noun(resource) for resource in needed])
        return Shortage(f"no single node of {place} has enough {nouns} free at the same time", hint)
    needs, number = _request(scarcest, requests[scarcest]), len(nodes)
    unavailable = _unavailable_counts(nodes)
    if not free:
        none = f"none of the {number} nodes of {place} has any" if number > 1 else f"the only node of {place} has none"
        return Shortage(f"{needs}, but {none} free{f' ({unavailable})' if unavailable else ''}", hint)
    most = (
        f"the most free on one of the {number} nodes of {place} is" if number > 1 else f"the only node of {place} has"
    )
    amount = f"{_at_most(scarcest, free)}{'' if number > 1 else ' free'}"
    where = "; ".join(filter(None, (f"on {best.name}", unavailable)))
    return Shortage(
        f"{needs}, but {most} {amount} ({where}), {_resource_amount(scarcest, missing, math.ceil)} short", hint
    )


def _seem_full(
    refusal: str, requests: Mapping[str, int], nodes: Sequence[Node], place: str, hint: str
) -> Shortage | None:
    """The scheduler counts nodes by what they lack (``7 Insufficient cpu``), but does not say how much is free."""
    lacking = [resource for resource in requests if re.search(rf"Insufficient {re.escape(resource)}\b", refusal)]
    if not lacking:
        return None
    nouns = _enumerate([_resource_noun(resource) for resource in lacking])
    return Shortage(
        f"{_request(lacking[0], requests[lacking[0]])}, but no node of {place} has enough {nouns} free", hint
    )


def _unavailable_counts(nodes: Sequence[Node]) -> str:
    """``2 cordoned and 1 not ready``."""
    counts = {word: sum(node.status == status for node in nodes) for status, word in _UNAVAILABLE.items()}
    return " and ".join(f"{number} {word}" for word, number in counts.items() if number)


_UNAVAILABLE = {MAINTAINING: "cordoned", FAULTY: "not ready"}


def _resource_noun(resource: str) -> str:
    if row := catalog().row(resource):
        return row.noun
    return "CPU" if resource == "cpu" else "memory"


def _nodes_list(resource: str) -> bool:
    """Whether nodes list it, and not only the extender of a scheduler counts it."""
    row = catalog().row(resource)
    return row is None or row.listed


def _manifest_field(resource: str) -> str:
    """The field of ``resources`` in a manifest."""
    row = catalog().row(resource)
    return row.documented if row else resource


def _request(resource: str, number: int) -> str:
    return f"it needs {_resource_amount(resource, number, math.ceil)} on one node"


def _at_most(resource: str, number: int) -> str:
    """Rounded down, so that a little too little never reads as enough."""
    return _resource_amount(resource, number, math.floor)


def _resource_amount(resource: str, number: int, rounded: Callable[[float], float]) -> str:
    if row := catalog().row(resource):
        return row.text(number)
    return f"{cores(number)} CPU" if resource == "cpu" else f"{gibibytes(number, rounded)} of memory"


def _enumerate(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many the first five."""
    words = list(words)
    if len(words) > 6:
        words = [*words[:5], f"{len(words) - 5} others"]
    return enumerated(words, "and")
