# SPDX-License-Identifier: BSD-2-Clause
"""Read the devices that drivers offer and claims have (Dynamic Resource Allocation), and nodes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import DEVICE_CLASS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE, Resource
from .declared import Declared
from .devices import Inventory, count_devices, inventory_of
from .nodes import Node, PodUse, slim_node, with_use
from .read_nodes import read_uses

T = TypeVar("T")


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


def read_devices(client: Client, namespaces: Iterable[str]) -> Inventory | None:
    """All devices, claims and classes: three lists; None where the server has none or the account may not read them.

    Of an account that may not read all claims, those of the given namespaces.
    """
    slices = list_or_none(client, RESOURCE_SLICE)
    if slices is None:
        return None
    claims = list_or_none(client, RESOURCE_CLAIM)
    is_usage_known = claims is not None
    if claims is None:
        claims = [one for name in set(namespaces) for one in list_or_none(client, RESOURCE_CLAIM, name) or ()]
    found = inventory_of(slices, claims, list_or_none(client, DEVICE_CLASS))
    return replace(found, is_usage_known=is_usage_known)


def read_taken_devices(client: Client) -> Inventory | None:
    """The same without the classes, and one list alone where drivers offer no devices."""
    slices = list_or_none(client, RESOURCE_SLICE)
    claims = list_or_none(client, RESOURCE_CLAIM) if slices else slices
    return None if slices is None or claims is None else inventory_of(slices, claims)


def read_offered_devices(client: Client) -> Inventory | None:
    """What drivers offer, in use or not, and its DeviceClasses."""
    slices = list_or_none(client, RESOURCE_SLICE)
    classes = list_or_none(client, DEVICE_CLASS) if slices else None
    return None if slices is None or classes is None else inventory_of(slices, (), classes)


def list_or_none(client: Client, resource: Resource, namespace: str | None = None) -> list[dict[str, Any]] | None:
    """None where the server has no such kind, or the account may not read it."""
    return if_served(lambda: client.list_objects(resource, namespace))


def if_served(read: Callable[[], T]) -> T | None:
    """What ``read`` returns; None if the server forbids it, or has no such kind."""
    try:
        return read()
    except ApiError as error:
        if error.is_forbidden or error.status == 404:
            return None
        raise
