# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One of the tables of gpuctl_status alone, with all of its rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from .screens import (
    CLUSTER,
    NOT_KNOWN,
    POD_COLUMNS,
    POOL_COLUMNS,
    Paint,
    Room,
    jobs_block,
    joined_blocks,
    limits_of_clusters,
    own_namespace_texts,
    quotas_block,
    reasons_block,
    with_unknown,
)
from .text_table import Column, table_lines, text_width, wrapped

Result = Mapping[str, Any]

_TABLES = ("jobs", "nodes", "pools", "quotas")

# What is left out first on a narrow terminal has the highest `drop`.
_COLUMNS = {
    "nodes": (
        CLUSTER,
        Column("node_name", "NODE", least=16),
        Column("status", "STATUS"),
        Column("gpu_type", "GPU TYPE", drop=1),
        Column("gpu_total", "GPUS"),
        Column("gpu_used", "USED"),
        Column("gpu_free", "FREE"),
        Column("bound_pools", "POOL", least=8),
        Column("cpu", "CPU", drop=3, numeric=True),
        Column("memory", "MEMORY", drop=2, numeric=True),
    ),
    "pools": (
        *POOL_COLUMNS,
        Column("gpu_type", "GPU TYPES", drop=2, optional=True),
        Column("description", "DESCRIPTION", least=12, drop=1, optional=True),
    ),
}
_LABELS = (CLUSTER, Column("node_name", "NODE", least=16), Column("labels", "LABELS", least=20))


def data_lines(result: Result, table: str | None) -> list[str]:
    """The rows as JSON or YAML, in which neither leaves control characters as they are."""
    tables = [*_TABLES, *(["clusters"] if "clusters" in result else [])]
    rows = json.dumps(result[table] if table else {name: result[name] for name in tables}, indent=2)
    # Plain data again: Ansible's types are not those that PyYAML knows.
    text = rows if result["format"] == "json" else yaml.safe_dump(json.loads(rows), sort_keys=False, allow_unicode=True)
    return text.splitlines()


def table_screen(
    table: str, result: Result, width: int, *, everything: bool, paint: Paint, labels: bool = False
) -> list[str]:
    """The table, and below it what explains it. `labels`: those of the nodes instead of their GPUs."""
    room = None if everything else Room()
    blocks = _table_blocks(table, result, width, room, paint, labels)
    namespace = result.get("namespace") if table in ("jobs", "quotas") else None
    notes = [*own_namespace_texts(namespace), *limits_of_clusters(result.get("clusters") or ())]
    return joined_blocks([*blocks, *(wrapped(text, width, indent="  ") for text in notes)])


def _table_blocks(
    table: str, result: Result, width: int, room: Room | None, paint: Paint, labels: bool
) -> list[list[str]]:
    unreadable = result.get("unreadable") or {}
    if table == "jobs":
        pods = table_lines(result["pods"], POD_COLUMNS, width, paint) if result["pods"] else []
        jobs = [] if pods else jobs_block(result["jobs"], width, room=room, paint=paint)
        return [jobs, pods, reasons_block(result["jobs"], width, room.reasons if room else None)]
    if table == "quotas":
        return [quotas_block(result["quotas"], unreadable, width, room) or ["No quotas."]]
    if "nodes" in unreadable:
        return [wrapped(f"The {table} are not shown: {unreadable['nodes']}", width)]
    rows = [with_unknown(row) for row in result[table]]
    columns = _LABELS if labels else _COLUMNS[table]
    if labels and any(text_width(line) > width for line in table_lines(rows, columns)):
        rows = [{**row, "labels": own} for row in rows for own in _one_by_one(row["labels"])]
    lines = table_lines(rows, columns, width, paint) if rows else [f"No {table}."]
    missing = [NOT_KNOWN[part] for part in ("usage", "pools") if part in unreadable and not labels]
    return [lines, *(wrapped(text, width) for text in missing if table == "pools" or text == NOT_KNOWN["usage"])]


def _one_by_one(labels: Mapping[str, str]) -> list[dict[str, str]]:
    return [{key: value} for key, value in labels.items()] or [{}]
