# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_node_info: the nodes, what they have, and what is used of it."""

from __future__ import annotations

from typing import Any

from .task import Task

NODE_STATES = ("active", "maintaining", "faulty")


def node_info_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_node_info beside those of the connection."""
    return {
        "nodes": {"type": "list", "elements": "str"},
        "pool": {"type": "str"},
        "gpu_type": {"type": "str"},
        "status": {"type": "str", "choices": list(NODE_STATES)},
        "full": {"type": "bool", "default": False},
    }


def run(task: Task) -> dict[str, Any]:
    """Two lists of requests, nodes and unfinished pods, in pages; with ``full`` the nodes once more."""
    from .cluster.nodes import node_row
    from .cluster.read import read_nodes
    from .kube.resources import NODE

    nodes = read_nodes(task.client())[0]
    wanted = {
        name: value
        for name, value in (
            ("pool", task.params["pool"]),
            ("gpu_type", task.params["gpu_type"]),
            ("status", task.params["status"]),
        )
        if value
    }
    names = set(task.params["nodes"] or ())
    rows = [
        node_row(node)
        for node in sorted(nodes, key=lambda node: node.name)
        if (not names or node.name in names) and all(getattr(node, name) == value for name, value in wanted.items())
    ]
    if task.params["full"]:
        objects = {node["metadata"]["name"]: node for node in task.client().select(NODE)}
        rows = [{**row, "object": objects.get(row["node_name"])} for row in rows]
    return {"changed": False, "results": rows}
