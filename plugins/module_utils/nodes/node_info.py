# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_node_info: the nodes, what they have, and what is used of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..task import ModuleSpec, Task

if TYPE_CHECKING:
    from ..cluster.nodes import Node

NODE_STATES = ("active", "maintaining", "faulty")


def node_info_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_node_info beside those of the connection."""
    return {
        "nodes": {"type": "list", "elements": "str"},
        "pool": {"type": "str"},
        "gpu_type": {"type": "str"},
        "status": {"type": "str", "choices": list(NODE_STATES)},
        "label_keys": {"type": "list", "elements": "str", "no_log": False},
        "full": {"type": "bool", "default": False},
    }


def run(task: Task) -> dict[str, Any]:
    """Two lists of requests, nodes and unfinished pods, in pages."""
    from ..cluster.nodes import node_row, slim_node

    objects: dict[str, Any] = {}

    def slim(obj: dict[str, Any]) -> Node:
        if task.params["full"]:
            obj["metadata"].pop("managedFields", None)
            objects[obj["metadata"]["name"]] = obj
        return slim_node(obj)

    label_keys = [_with_prefix(key) for key in task.params["label_keys"] or ()]
    rows = [
        {**node_row(node, label_keys), **({"object": objects[node.name]} if task.params["full"] else {})}
        for node in wanted_nodes(task, slim)
    ]
    return {"changed": False, "results": rows}


MODULE = ModuleSpec(node_info_argument_spec(), run)


def wanted_nodes(task: Task, slim: Callable[[dict[str, Any]], Node]) -> list[Node]:
    """The nodes that the options ``nodes``, ``pool``, ``gpu_type`` and ``status`` choose, by name."""
    from ..cluster.read import read_nodes_with_usage

    nodes = read_nodes_with_usage(task.client(), slim)[0]
    return sorted((node for node in nodes if _is_wanted(task, node)), key=lambda node: node.name)


def _is_wanted(task: Task, node: Node) -> bool:
    params = task.params
    filters = ((params["pool"], node.pool), (params["gpu_type"], node.gpu_type), (params["status"], node.status))
    named = not params["nodes"] or node.name in params["nodes"]
    return named and all(wanted in (None, "", found) for wanted, found in filters)


def _with_prefix(key: str) -> str:
    from ..labels import PREFIX

    return key if "/" in key else f"{PREFIX}{key}"
