# SPDX-License-Identifier: BSD-2-Clause
"""The options of gpuctl_pool."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..accelerators.hardware import PoolHardware
from ..namespaces import NamespaceOptions
from ..options import ConcurrencyOptions, DeclaringOptions, option

# What a pool says of its nodes.
HARDWARE_OPTIONS = tuple(each.name for each in fields(PoolHardware) if each.name != "types")


@dataclass(frozen=True, kw_only=True)
class PoolOptions(ConcurrencyOptions, NamespaceOptions, DeclaringOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    src: list[str] | None = option("list", elements="path")
    definition: Any = option("raw")
    allow_empty: bool = option("bool", default=False)
    name: str | None = option("str")
    description: str | None = option("str")
    nodes: Any = option("raw")
    accelerator: str | None = option("str")
    share_backend: str | None = option("str")
    device_class: str | None = option("str")
    sharing: dict[str, Any] | None = option("dict")
    mig: str | None = option("str")
    type_aliases: dict[str, Any] | None = option("dict")
    rdma_resource: str | None = option("str")
    rdma_env: dict[str, Any] | None = option("dict")
    topology: dict[str, Any] | None = option("dict")
    new_nodes: dict[str, Any] | None = option("dict")
    time_limit: dict[str, Any] | None = option("dict")
    queue: Any = option("raw")
    remove_nodes: list[str] | None = option("list", elements="str")
    purge: bool = option("bool", default=True)
    force: bool = option("bool", default=False)
    ignore_jobs: list[str] | None = option("list", elements="str")
    drain: bool = option("bool", default=False)
    drain_timeout: int = option("int", default=600)


POOL_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name")],
    "required_one_of": [("src", "definition", "name")],
    "required_by": dict.fromkeys(("description", "nodes", "remove_nodes", "queue", *HARDWARE_OPTIONS), "name"),
}
