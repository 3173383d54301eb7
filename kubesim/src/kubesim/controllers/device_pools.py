# SPDX-License-Identifier: BSD-2-Clause
"""The pools of devices that a node can reach, from ResourceSlices.

Source: staging dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubesim.quantity import Quantity

from .base import Object
from .scheduler_filters import term_matches
from .scheduler_nodes import NodeInfo

DeviceId = tuple[str, str, str]  # driver, pool, device
Counters = dict[tuple[str, str], Quantity]  # by counter set and counter


@dataclass(frozen=True)
class Device:
    id: DeviceId
    spec: Object
    slice: Object

    @property
    def shared(self) -> bool:
        return bool(self.spec.get("allowMultipleAllocations"))

    @property
    def consumes(self) -> Counters:
        return _counters(self.spec.get("consumesCounters") or (), "counterSet")


@dataclass
class Pool:
    """`devices`: those of slices for this node; `others`: those for other nodes, whose counters count all the same."""

    driver: str
    name: str
    incomplete: bool = False
    invalid: bool = False
    devices: list[Device] = field(default_factory=list)
    others: list[Device] = field(default_factory=list)
    counters: Counters = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        return not (self.incomplete or self.invalid)


def pools_of(node: NodeInfo, slices: Iterable[Object]) -> list[Pool]:
    """Of each pool the highest generation, if all its slices are there; in order of driver and name."""
    found: dict[tuple[str, str], list[Object]] = {}
    for one in slices:
        found.setdefault((one["spec"]["driver"], one["spec"]["pool"]["name"]), []).append(one)
    pools = (_pool(node, driver, name, group) for (driver, name), group in sorted(found.items()))
    return [pool for pool in pools if pool is not None]


def _pool(node: NodeInfo, driver: str, name: str, slices: list[Object]) -> Pool | None:
    newest = max(one["spec"]["pool"]["generation"] for one in slices)
    current = [one for one in slices if one["spec"]["pool"]["generation"] == newest]
    near = [one for one in current if _concerns(one, node)]
    if not near:
        return None
    pool = Pool(driver, name)
    if len(current) != near[0]["spec"]["pool"]["resourceSliceCount"]:
        pool.incomplete = True
        return pool
    for one in sorted(current, key=lambda one: one["metadata"]["name"]):
        pool.counters |= _counters(one["spec"].get("sharedCounters") or (), "name")
        devices = [Device((driver, name, device["name"]), device, one) for device in one["spec"].get("devices") or ()]
        (pool.devices if one in near else pool.others).extend(devices)
    ids = [device.id for device in pool.devices]
    unknown = any(counter not in pool.counters for one in (*pool.devices, *pool.others) for counter in one.consumes)
    pool.invalid = len(set(ids)) < len(ids) or unknown
    return pool


def _concerns(one: Object, node: NodeInfo) -> bool:
    spec = one["spec"]
    if spec.get("sharedCounters"):
        return True
    if spec.get("perDeviceNodeSelection"):
        return any(is_for(device, node) for device in spec.get("devices") or ())
    return is_for(spec, node)


def is_for(where: Object, node: NodeInfo) -> bool:
    """Whether a slice, or a device with a node of its own, is for this node."""
    if where.get("nodeName"):
        return bool(where["nodeName"] == node.name)
    if where.get("allNodes"):
        return True
    terms = (where.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    return any(term_matches(term, node) for term in terms)


def _counters(sets: Iterable[Object], name: str) -> Counters:
    return {
        (one[name], counter): Quantity.parse(value["value"])
        for one in sets
        for counter, value in (one.get("counters") or {}).items()
    }
