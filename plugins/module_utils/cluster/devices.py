# SPDX-License-Identifier: BSD-2-Clause
"""The devices that drivers offer (ResourceSlices) and that claims have taken, by Dynamic Resource Allocation. Pure.

The node itself lists none of them. Of a pool of a driver, the slices of the highest generation count, and only once all
of them are there. Partitions that share counters overlap: of these, the sets of counters are counted, which are the
devices that the partitions belong to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ..accelerators.catalog import catalog
from ..accelerators.device_selectors import Selection, Values, selection_of
from ..kube.resources import Object
from ..quantity import parse
from .node_affinity import term_admits
from .nodes import Node, PodUse, Taint, taints_of
from .pod_requests import Amounts
from .taints import untolerated_taints

DeviceId = tuple[str, str, str]  # driver, pool, device
CounterId = tuple[str, str, str, str]  # driver, pool, set, counter

#: On a claim that the scheduler made for what a pod requests as an extended resource.
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True)
class Device:
    """A device of a driver. Attributes and capacity are by ``domain/name``; ``where`` says which nodes reach it."""

    id: DeviceId
    attributes: Values
    capacity: Mapping[str, str]
    where: Object
    taints: tuple[Taint, ...] = ()
    counters: Mapping[CounterId, Fraction] = field(default_factory=dict)
    shared: bool = False

    @property
    def node(self) -> str | None:
        """The node that it is part of; None for one that several nodes reach."""
        return self.where.get("nodeName")

    def reaches(self, node: Node) -> bool:
        if self.node:
            return self.node == node.name
        terms = (self.where.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        return bool(self.where.get("allNodes")) or any(term_admits(term, node.name, node.labels) for term in terms)

    def meets(self, selection: Selection) -> bool:
        """Whether it has what is understood of selectors."""
        return all(one.is_met(self.id[0], self.attributes, self.capacity) for one in selection.conditions)

    def untolerated(self, tolerations: Iterable[Object]) -> list[str]:
        """The keys of the taints that keep a claim off it."""
        return [taint.key for taint in untolerated_taints(self.taints, tolerations)]


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim with the devices that it has, and the uids of the pods that hold it."""

    namespace: str
    name: str
    devices: tuple[DeviceId, ...]
    pods: tuple[tuple[str, str], ...]  # name, uid
    extended: bool
    spec: Object

    @property
    def is_allocated(self) -> bool:
        return bool(self.devices)


@dataclass(frozen=True)
class DeviceClass:
    """``extended``: the extended resource that is this class as well."""

    name: str
    selection: Selection
    extended: str | None = None


@dataclass(frozen=True)
class Inventory:
    """All devices, the claims that have some by device, and the pools of drivers that are being updated."""

    devices: tuple[Device, ...] = ()
    taken: Mapping[DeviceId, Sequence[Claim]] = field(default_factory=dict)
    left: Mapping[CounterId, Fraction] = field(default_factory=dict)
    updating: tuple[tuple[str, str], ...] = ()
    claims: Mapping[tuple[str, str], Claim] = field(default_factory=dict)
    classes: Mapping[str, DeviceClass] | None = None  # None where they were not read
    is_usage_known: bool = True  # False if only the claims of some namespaces could be read

    def is_free(self, device: Device) -> bool:
        """Whether no claim has it, nor too much of what it consists of."""
        if device.id in self.taken and not device.shared:
            return False
        return all(self.left.get(counter, Fraction(0)) >= amount for counter, amount in device.counters.items())

    def holders(self, device: Device) -> list[Claim]:
        """The claims that have it, or another partition of what it consists of."""
        if not device.counters:
            return list(self.taken.get(device.id, ()))
        sets = {counter[:3] for counter in device.counters}
        overlapping = (one for one in self.devices if any(counter[:3] in sets for counter in one.counters))
        return [claim for one in overlapping for claim in self.taken.get(one.id, ())]


def inventory_of(
    slices: Iterable[Object], claims: Iterable[Object], classes: Iterable[Object] | None = None
) -> Inventory:
    pools: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for one in slices:
        spec = one["spec"]
        pools[spec["driver"], spec["pool"]["name"]].append(spec)
    devices: list[Device] = []
    left: dict[CounterId, Fraction] = {}
    updating = []
    for (driver, pool), specs in sorted(pools.items()):
        # A driver replaces its slices one by one, with a new generation (api/resource/v1 types.go, ResourcePool).
        newest = max(spec["pool"]["generation"] for spec in specs)
        specs = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if any(spec["pool"]["resourceSliceCount"] != len(specs) for spec in specs):
            updating.append((driver, pool))
            continue
        for spec in specs:
            left |= _counters(driver, pool, spec.get("sharedCounters") or (), "name")
            devices += _devices_in(spec)
    found = {(claim.namespace, claim.name): claim for claim in map(_parse_claim, claims)}
    taken: dict[DeviceId, list[Claim]] = defaultdict(list)
    for claim in found.values():
        for device_id in claim.devices:
            taken[device_id].append(claim)
    for device in devices:
        if device.id in taken:
            for counter, amount in device.counters.items():
                left[counter] = left.get(counter, Fraction(0)) - amount
    by_name = None if classes is None else {one.name: one for one in map(_device_class, classes)}
    return Inventory(tuple(devices), dict(taken), left, tuple(updating), found, by_name)


def _devices_in(spec: Object) -> Iterator[Device]:
    driver, pool = spec["driver"], spec["pool"]["name"]
    for device in spec.get("devices") or ():
        attributes = device.get("attributes") or {}
        yield Device(
            (driver, pool, device["name"]),
            {_qualified(driver, name): value for name, one in attributes.items() for value in one.values()},
            {_qualified(driver, name): str(one["value"]) for name, one in (device.get("capacity") or {}).items()},
            device if spec.get("perDeviceNodeSelection") else spec,
            taints_of(device),
            _counters(driver, pool, device.get("consumesCounters") or (), "counterSet"),
            bool(device.get("allowMultipleAllocations")),
        )


def _qualified(driver: str, name: str) -> str:
    # Names without a domain are in that of the driver (api/resource/v1 types.go, QualifiedName).
    return name if "/" in name else f"{driver}/{name}"


def _counters(driver: str, pool: str, sets: Iterable[Object], name: str) -> dict[CounterId, Fraction]:
    return {
        (driver, pool, one[name], counter): parse(value["value"]).value
        for one in sets
        for counter, value in (one.get("counters") or {}).items()
    }


def _parse_claim(obj: Object) -> Claim:
    """What administrators look at is not taken."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return Claim(
        metadata["namespace"],
        metadata["name"],
        tuple((one["driver"], one["pool"], one["device"]) for one in results if not one.get("adminAccess")),
        tuple((one["name"], one["uid"]) for one in status.get("reservedFor") or () if one["resource"] == "pods"),
        (metadata.get("annotations") or {}).get(EXTENDED_CLAIM) == "true",
        obj["spec"],
    )


def _device_class(obj: Object) -> DeviceClass:
    spec = obj.get("spec") or {}
    return DeviceClass(obj["metadata"]["name"], selection_of(spec.get("selectors")), spec.get("extendedResourceName"))


# -- devices as accelerators -------------------------------------------------------------------------------------------


def count_devices(
    nodes: Sequence[Node], uses: Sequence[PodUse] | None, inventory: Inventory
) -> tuple[list[Node], list[PodUse] | None]:
    """The nodes and pods with their devices, as amounts of the resource that each device would be.

    A pod counts what it requests itself, so the claims made for extended resources, and those that the annotation of
    our own pods counts already, are left out.
    """
    offered: dict[str, Amounts] = defaultdict(lambda: defaultdict(int))
    used: dict[str, Amounts] = defaultdict(lambda: defaultdict(int))
    by_pod: dict[str, Amounts] = defaultdict(lambda: defaultdict(int))
    counted = {use.uid for use in uses or () if use.counts_claims}
    for unit in _units(inventory):
        if unit.total:
            offered[unit.node][unit.resource] += 1
        for claim in unit.claims[:1]:
            if claim.extended or counted & {uid for _name, uid in claim.pods}:
                continue
            used[unit.node][unit.resource] += 1
            for _name, uid in claim.pods[:1]:
                by_pod[uid][unit.resource] += 1
    known = uses is not None
    found = [
        replace(
            node,
            allocatable=_sum(node.allocatable, offered[node.name]),
            used=_sum(node.used, used[node.name]) if known else node.used,
        )
        if node.name in offered or node.name in used
        else node
        for node in nodes
    ]
    if uses is None:
        return found, None
    return found, [
        use._replace(requests=_sum(use.requests, by_pod[use.uid])) if use.uid in by_pod else use for use in uses
    ]


@dataclass(frozen=True)
class _Unit:
    """One thing to count: a device, a set of counters that partitions share, or a partition that is taken."""

    node: str
    resource: str
    claims: Sequence[Claim]
    total: bool = True


def _units(inventory: Inventory) -> Iterator[_Unit]:
    """Of devices that share counters, each set is one device; a partition of it only counts once it is taken."""
    sets: dict[tuple[str, str, str], list[Device]] = defaultdict(list)
    for device in inventory.devices:
        if not device.node or device.shared:
            continue
        resource, is_whole = resource_of_device(device)
        taken = inventory.taken.get(device.id, ())
        for name in {counter[:3] for counter in device.counters}:
            sets[name].append(device)
        if (resource and not device.counters) or (resource and not is_whole and taken):
            yield _Unit(device.node, resource, taken)
    for members in sets.values():
        whole = [resource for device in members for resource, is_whole in [resource_of_device(device)] if is_whole]
        claims = [claim for device in members for claim in inventory.taken.get(device.id, ())]
        if whole and members[0].node:
            yield _Unit(members[0].node, whole[0], claims)


def resource_of_device(device: Device) -> tuple[str, bool]:
    """The resource of the profile that a device would be, and whether it is a whole one; nothing for other devices."""
    for profile in catalog().profiles.values():
        block = profile.part("dra")
        driver = device.id[0]
        if block.get("driver") != driver:
            continue
        parts = block.get("partitions") or {}
        if parts and _has_values(device, parts.get("values") or {}):
            name = device.attributes.get(f"{driver}/{parts['attribute']}")
            row = profile.partition(str(name)) if name else None
            return (row.resource, False) if row else ("", False)
        if _has_values(device, block.get("values") or {}):
            return profile.device.resource, True
    return "", False


def _has_values(device: Device, values: Mapping[str, Any]) -> bool:
    return all(device.attributes.get(f"{device.id[0]}/{name}") == value for name, value in values.items())


def _sum(amounts: Mapping[str, int], more: Mapping[str, int]) -> Amounts:
    return {name: amounts.get(name, 0) + more.get(name, 0) for name in {**amounts, **more}}


def claims_devices(pod: Object) -> bool:
    """Whether devices decide where the pod can run; the scheduler says so where a resource stands for a class."""
    if pod["spec"].get("resourceClaims"):
        return True
    conditions = pod.get("status", {}).get("conditions") or ()
    return any("cannot allocate all claims" in (one.get("message") or "") for one in conditions)
