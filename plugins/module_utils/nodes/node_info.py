# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_node_info: the nodes, their resources and usage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster.declared import read_declared
from ..cluster.lookup import not_found, pool_not_found
from ..cluster.nodes import Node, node_row, slim_node
from ..cluster.read_devices import read_nodes_with_usage
from ..kube.resources import NODE
from ..kube.shapes import MalformedObject
from ..labels import PREFIX
from ..options import Options, option
from ..task import ModuleSpec, Task, TaskFailed

NODE_STATUSES = ("active", "maintaining", "faulty")


@dataclass(frozen=True, kw_only=True)
class NodeInfoOptions(Options):
    nodes: list[str] | None = option("list", elements="str")
    pool: str | None = option("str")
    gpu_type: str | None = option("str")
    status: str | None = option("str", choices=list(NODE_STATUSES))
    label_keys: list[str] | None = option("list", elements="str", no_log=False)
    full: bool = option("bool", default=False)
    must_exist: bool = option("bool", default=False)

    def selects(self, node: Node) -> bool:
        filters = ((self.pool, node.pool), (self.status, node.status))
        is_named = not self.nodes or node.name in self.nodes
        return is_named and self._is_of_type(node) and all(wanted in (None, "", found) for wanted, found in filters)

    def _is_of_type(self, node: Node) -> bool:
        """As in manifests of jobs, upper and lower case are the same."""
        return not self.gpu_type or (node.gpu_type or "").lower() == self.gpu_type.lower()

    def may_select(self, name: str) -> bool:
        """The same for a node that cannot be read: its name decides, and there must be no other filter."""
        return (not self.nodes or name in self.nodes) and not (self.pool or self.gpu_type or self.status)


def run(task: Task[NodeInfoOptions]) -> dict[str, Any]:
    """Sends two lists of requests, nodes and unfinished pods, in pages."""
    options = task.options
    objects: dict[str, Any] = {}

    def slim(obj: dict[str, Any]) -> Node:
        if options.full:
            obj["metadata"].pop("managedFields", None)
            objects[obj["metadata"]["name"]] = obj
        return slim_node(obj)

    label_keys = [full_key(key) for key in options.label_keys or ()]
    rows = [
        {**node_row(node, label_keys), "problem": None, **({"object": objects[node.name]} if options.full else {})}
        for node in select_nodes(task, slim)
    ]
    malformed = [each for each in task.malformed_objects() if each.kind == NODE.kind]
    rows += [_malformed_node_row(each) for each in malformed if options.may_select(each.name)]
    return {"changed": False, "results": rows}


MODULE = ModuleSpec(NodeInfoOptions, run)


def full_key(key: str) -> str:
    """The key of a label, which may lack its prefix."""
    return key if "/" in key else f"{PREFIX}{key}"


def _malformed_node_row(obj: MalformedObject) -> dict[str, Any]:
    """The row of a node that cannot be read."""
    blank = node_row(Node(obj.name, "", {}, {}, ""))
    return {**dict.fromkeys(blank), "node_name": obj.name, "problem": obj.sentence}


def select_nodes(task: Task[NodeInfoOptions], slim: Callable[[dict[str, Any]], Node]) -> list[Node]:
    """The nodes that the options select, by name. Warns of what they name and the cluster does not have, or fails."""
    client = task.client()
    declared = read_declared(client, task.warn, again=True)
    # A node says what it has, and nothing of what is used: that is the sum of what its pods request.
    nodes = read_nodes_with_usage(client, slim, declared=declared)[0]
    problems = list(_names_not_found(task, nodes))
    if problems and task.options.must_exist:
        raise TaskFailed("\n".join(problems), not_found=problems)
    for problem in problems:
        task.warn(problem)
    return sorted(filter(task.options.selects, nodes), key=lambda node: node.name)


def _names_not_found(task: Task[NodeInfoOptions], nodes: Sequence[Node]) -> Iterator[str]:
    """An empty list alone may be a misspelling."""
    options = task.options
    names = {node.name for node in nodes} | {each.name for each in task.malformed_objects() if each.kind == NODE.kind}
    for name in dict.fromkeys(options.nodes or ()):
        if name not in names:
            yield not_found("node", name, sorted(names))
    pools, types = {node.pool for node in nodes}, {node.gpu_type for node in nodes if node.gpu_type}
    if options.pool and options.pool not in pools and (problem := pool_not_found(task.client(), options.pool, pools)):
        yield problem
    if options.gpu_type and options.gpu_type.lower() not in map(str.lower, types):
        yield not_found("GPU type", options.gpu_type, sorted(types))
