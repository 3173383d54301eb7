# SPDX-License-Identifier: BSD-2-Clause
"""Read nodes, and the unfinished pods, which use them."""

from __future__ import annotations

from collections.abc import Iterable

from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.resources import NODE, POD, UNFINISHED
from ..labels import JOB_TYPE
from .nodes import FAULTY, Node, PodUse, slim_node, slim_pod, with_use

_SOME_NODES = 5  # One of them is usually ready.


def read_uses(client: Client, of_jobs: list[PodUse] | None = None) -> list[PodUse]:
    """All unfinished pods. ``of_jobs``: those of jobs, if they have been read; only the others are read then."""
    others = "" if of_jobs is None else f"!{JOB_TYPE}"
    return [*(of_jobs or ()), *client.list_slim(POD, slim_pod, fields=UNFINISHED, labels=others)]


def read_nodes_and_uses(client: Client) -> tuple[list[Node] | None, list[PodUse] | None]:
    """The nodes, with their usage as far as the account may read it, and all unfinished pods; None where it may not."""
    uses = if_allowed(lambda: read_uses(client), None)
    nodes = if_allowed(lambda: client.list_slim(NODE, slim_node), None)
    return nodes if nodes is None or uses is None else with_use(nodes, uses), uses


def read_node(client: Client, name: str) -> list[Node]:
    """The node of that name, if there is one that may be listed: permission to list includes none to get."""
    return if_allowed(lambda: client.list_slim(NODE, slim_node, fields=f"metadata.name={name}"), list[Node]())


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
