# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_pool_info: the pools, their nodes and GPUs, and the jobs in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import ModuleSpec, Task


def pool_info_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_pool_info beside those of the connection."""
    return {"name": {"type": "str"}}


def run(task: Task) -> dict[str, Any]:
    """Three lists of requests: nodes, unfinished pods, and the pools' declarations."""
    from ..cluster.read import read_nodes_with_usage
    from .pool_rows import pool_rows

    nodes, uses = read_nodes_with_usage(task.client())
    rows = pool_rows(_declared(task), nodes, uses)
    name = task.params["name"]
    return {"changed": False, "results": [row for row in rows if not name or row["name"] == name]}


MODULE = ModuleSpec(pool_info_argument_spec(), run)


def _declared(task: Task) -> Mapping[str, str | None]:
    """Name -> description of every pool that gpuctl_pool declared."""
    from ..kube.resources import CONFIG_MAP
    from ..labels import DESCRIPTION, OURS, POOL, SYSTEM_NAMESPACE

    declarations = task.client().list_objects(CONFIG_MAP, SYSTEM_NAMESPACE, labels=f"{OURS},{POOL}")
    return {
        obj["metadata"]["labels"][POOL]: (obj["metadata"].get("annotations") or {}).get(DESCRIPTION)
        for obj in declarations
    }
