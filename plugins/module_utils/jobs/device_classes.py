# SPDX-License-Identifier: BSD-2-Clause
"""Jobs in pools whose devices only a DeviceClass offers, although the pool declares none.

Read only where pods would find no node, and where the live job claims devices: other tasks send no request for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..accelerators.catalog import DeviceResource, catalog
from ..accelerators.equipment import equipment
from ..accelerators.hardware import UnfitHardware
from ..cluster.declared import Declared
from ..cluster.devices import Device, DeviceClass, Inventory
from ..cluster.nodes import Node, slim_node
from ..cluster.read_devices import read_offered_devices
from ..cluster.read_jobs import JobId
from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.resources import NODE
from .select import SelectedJob


@dataclass
class FoundClasses:
    """By pool the class whose devices jobs claim, and by job the sentence where there are several.

    ``extended`` are jobs whose resource is that of a class, so that the scheduler makes their claims.
    """

    by_pool: dict[str, str] = field(default_factory=dict)
    ambiguous: dict[JobId, str] = field(default_factory=dict)
    extended: set[JobId] = field(default_factory=set)


def find_classes(client: Client, jobs: Iterable[SelectedJob], declared: Declared) -> FoundClasses:
    """Three lists, if there are jobs that request whole devices or partitions of a pool without a device_class."""
    wanted = [(job, rows) for job in jobs if (rows := _unclaimed_devices(job, declared))]
    found = FoundClasses()
    if not wanted:
        return found
    inventory = read_offered_devices(client)
    if inventory is None or not inventory.classes or not inventory.devices:
        return found
    nodes = if_allowed(lambda: client.list_slim(NODE, slim_node), list[Node]())
    for job, rows in wanted:
        pool = job.pool
        members = [node for node in nodes if node.pool == pool]
        if any(node.allocatable.get(row.resource) is not None for node in members for row in rows):
            continue  # A device plugin offers them.
        names = _classes_of(rows, members, inventory)
        if any(inventory.classes[name].extended == row.resource for name in names for row in rows):
            found.extended.add(job.id)
        elif len(names) == 1:
            found.by_pool[pool] = names[0]
        elif names:
            found.ambiguous[job.id] = (
                f"job {job.name} in namespace {job.namespace}: several DeviceClasses offer the "
                f"{catalog().profiles[rows[0].profile].noun} of pool {pool}: {', '.join(names)}. Declare one of them "
                f"as device_class of the pool."
            )
    return found


def _unclaimed_devices(job: SelectedJob, declared: Declared) -> list[DeviceResource]:
    """What a job requests as resources, of a vendor whose devices a driver may offer."""
    resources = job.model.resources if job.model else None
    if resources is None or not resources.gpu or resources.gpu_share is not None:
        return []
    try:
        gets = equipment(resources, declared.hardware(resources.pool))
    except UnfitHardware:  # said when it is built
        return []
    if gets.devices is not None or not gets.profile.part("dra"):
        return []
    return [row for row, _amount in gets.requests]


def _classes_of(rows: Sequence[DeviceResource], nodes: Sequence[Node], inventory: Inventory) -> list[str]:
    """The classes of the devices that are on the nodes, as far as their selectors are understood."""
    block: Mapping[str, object] = catalog().profiles[rows[0].profile].part("dra")
    offered = [
        device
        for device in inventory.devices
        if device.id[0] == block["driver"] and any(device.reaches(node) for node in nodes)
    ]
    values = _attribute_values(block, rows)
    devices = [device for device in offered if values.items() <= device.attributes.items()]
    return sorted(name for name, each in (inventory.classes or {}).items() if _selects_any(each, devices))


def _selects_any(each: DeviceClass, devices: Iterable[Device]) -> bool:
    return bool(each.selection.conditions) and any(device.meets(each.selection) for device in devices)


def _attribute_values(block: Mapping[str, object], rows: Sequence[DeviceResource]) -> dict[str, object]:
    """The attributes of whole devices, or of the partitions, by ``domain/name``."""
    partition = rows[0].partition
    part: object = (block.get("partitions") or {}) if partition else block
    values = dict(part.get("values") or {}) if isinstance(part, Mapping) else {}
    return {f"{block['driver']}/{name}": value for name, value in values.items()}
