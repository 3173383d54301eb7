# SPDX-License-Identifier: BSD-2-Clause
"""The options of gpuctl_node_label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..options import ConcurrencyOptions, option


@dataclass(frozen=True, kw_only=True)
class NodeLabelOptions(ConcurrencyOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    nodes: list[str] | None = option("list", elements="str", aliases=["node", "name"])
    pool: str | None = option("str")
    selector: str | None = option("str")
    labels: dict[str, Any] | None = option("dict")
    keys: list[str] | None = option("list", elements="str", no_log=False)
    overwrite: bool = option("bool", default=False)
    continue_on_error: bool = option("bool", default=False)


NODE_LABEL_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("nodes", "pool", "selector"), ("labels", "keys")],
    "required_one_of": [("nodes", "pool", "selector")],
    "required_if": [("state", "present", ("labels",)), ("state", "absent", ("labels", "keys"), True)],
}
