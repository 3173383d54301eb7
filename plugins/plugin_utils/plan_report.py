# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a directory would change in a cluster, as a report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..module_utils.manifest.problems import abridged, number_of, qualified_name
from .merged_reports import limit_texts
from .report import Bar, Bars, Details, Figures, Names, Notes, Report, Row, Section, Table, Text
from .screens import CLUSTER, place_of
from .text_table import Column

_FIRST, _NAMES = 12, 3
# Jobs that lose work come first, what only follows from others last.
_ORDER = ("refused", "delete", "recreate", "restart", "update", "create")
_JOBS = ("training", "inference", "notebook", "compute")
_FOLLOWS = ("queue", "access", "priority")

_CHANGE_COLUMNS = (
    CLUSTER,
    Column("status", "CHANGE"),
    Column("kind", "KIND", drop=1),
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9, optional=True),
    Column("pods", "PODS", numeric=True, optional=True),
    Column("gpus", "GPUS", numeric=True, optional=True),
    Column("lost", "LOST", numeric=True, optional=True),
    Column("runs", "RUNS", optional=True),
    Column("fields", "FIELDS", optional=True, on="page"),
)
_POOL_COLUMNS = (
    CLUSTER,
    Column("pool", "POOL", least=12),
    Column("nodes", "NODES", numeric=True),
    Column("gpus", "GPUS", numeric=True),
    Column("used", "IN USE", numeric=True),
)
_NODE_COLUMNS = (
    CLUSTER,
    Column("node", "NODE"),
    Column("pool", "POOL"),
    Column("gpus", "GPUS", numeric=True),
    Column("used", "IN USE", numeric=True),
)
_TEAM_COLUMNS = (
    CLUSTER,
    Column("namespace", "TEAM", least=12),
    Column("held", "GPUS HELD", numeric=True),
    Column("gpu", "GPU QUOTA", numeric=True, optional=True),
    Column("cpu", "CPU QUOTA", numeric=True, drop=1, optional=True),
    Column("memory", "MEMORY QUOTA", numeric=True, drop=2, optional=True),
)


def plan_report(result: Mapping[str, Any]) -> Report:
    """What is wrong, what changes, what that costs, and what pools and teams have then."""
    rows = _by_interest(result["results"])
    sources = f"Plan of {abridged([str(path) for path in result['src']], 2)}"
    refused = [f"Refused: {text}" for text in _problems(result)]
    warnings = [*(f"Warning: {text}" for text in result["notes"]), *_preemptions(rows)]
    changes = Table(
        _CHANGE_COLUMNS,
        [_cells(row) for row in rows],
        number_of(len(rows), "manifest"),
        noun="change",
        first=_FIRST,
        head="name",
    )
    if rows:  # Who reads "update teams" wants to know of what kind that is.
        with_kinds = replace(changes, rows=[_with_kind(row) for row in changes.rows])
        changes = replace(changes, keep=["kind"], narrow=[with_kinds])
    pools = Table(_POOL_COLUMNS, [_pool_cells(row) for row in result["pools"]], "Before and after", first=None)
    nodes = Table(_NODE_COLUMNS, [_node_cells(row) for row in result["nodes"]], "Nodes before and after")
    teams = Table(_TEAM_COLUMNS, _teams(result), "Where something changes", noun="team", first=_FIRST)
    left = [f"{row['kind']} {place_of(row)}" for row in result["not_declared"]]
    return Report(
        "Plan of changes to the GPU cluster",
        [
            Section("", [Text(text) for text in (f"{sources}: {result['msg']}", *limit_texts(result))], on="screen"),
            Section(
                "Look at this first",
                [
                    Notes(refused, "bad", noun="problem", first=_FIRST),
                    Notes(warnings, "warning", noun="warning", first=_FIRST),
                ],
            ),
            Section("In numbers", [Figures(_plan_figures(result))], on="page"),
            Section(
                "What changes", [changes if rows else Text("Everything is as declared.")], on="" if rows else "page"
            ),
            Section("Reasons", [Notes(_reason_lines(rows), "warning", noun="reason", first=_FIRST)]),
            Section("", [Text(text) for text in _costs(result)], on="screen", tight=True),
            Section("Pools", [pools, *_pool_bars(result)]),
            Section("Nodes", [Notes(_node_moves(result), noun="move", first=_FIRST)]),
            Section("", [nodes], on="page"),
            Section("Teams", [teams]),
            Section("Not declared any more", [Names("No longer declared by this source, and left as is", left)]),
        ],
        lead=f"{sources}, made {result['made_at'].replace('T', ' ').rstrip('Z')} UTC. {result['msg']}",
        footer="runwhere.gpuctl. Nothing was changed.",
    )


def _cells(row: Row) -> dict[str, Any]:
    fields = [f"{one['kind']} {one['name']}: {path}" for one in row["resources"] for path in one["changes"]]
    return {
        **row,
        "status": change_word(row),
        "pods": _narrow_arrow(row["pods_before"], row["pods_after"])
        if row["pods_before"] or row["pods_after"]
        else None,
        "gpus": _narrow_arrow(row["gpus_before"], row["gpus_after"])
        if row["gpus_before"] or row["gpus_wanted"]
        else None,
        "lost": _period(row["hours_lost"]) if row["hours_lost"] else None,
        "runs": (row["verdict"] or "").replace("_", " ") or None,
        "fields": Details(number_of(len(fields), "field"), fields) if fields else None,
    }


def change_word(row: Row) -> str:
    """What happens, as a person says it."""
    if row["problem"]:
        return "refused"
    return "restart" if row["restarts"] and row["action"] == "update" else str(row["action"])


def _with_kind(cells: Row) -> Row:
    """A job is known by what else is in its row."""
    return cells if cells["kind"] in _JOBS else {**cells, "name": f"{cells['kind']} {cells['name']}"}


def _by_interest(rows: Iterable[Row]) -> list[Row]:
    def rank(row: Row) -> tuple[bool, int, float]:
        word = change_word(row)
        return row["kind"] in _FOLLOWS, _ORDER.index(word) if word in _ORDER else len(_ORDER), -row["hours_lost"]

    return sorted(rows, key=rank)


def _problems(result: Row) -> list[str]:
    return [
        line if _names_itself(each, line) else f"{each['kind']} {place_of(each)}: {line}"
        for each in result["problems"]
        for line in str(each["problem"]).splitlines()
    ]


def _names_itself(problem: Row, line: str) -> bool:
    """Where it begins: a path that a policy forbids may have the name of the job as well. No line names its cluster."""
    if problem.get("cluster"):
        return False
    return not problem["name"] or str(problem["name"]) in line.partition(": ")[0]


def _reason_lines(rows: Iterable[Row]) -> list[str]:
    found = []
    for row in rows:
        if row["problem"]:
            continue
        parts = [row["reason"], row["hint"] if row["reason"] else None, row["note"]]
        if text := " ".join(filter(None, parts)):
            found.append(f"{place_of(row)}: {text}")
    return found


def _preemptions(rows: Iterable[Row]) -> list[str]:
    """Whose work ends for jobs of the plan: jobs of others, which no row is about."""
    return [
        f"Preempts: {place_of(row)} preempts {', '.join(row['preempts'])}, or others of the same priority."
        for row in rows
        if row["preempts"] and not row["problem"]
    ]


def _costs(result: Row) -> list[str]:
    totals = result["totals"]
    lines = []
    if totals["pods_ending"]:
        lost = f" Running work that is lost: {_period(totals['hours_lost'])}, {totals['gpu_hours_lost']:.1f} GPU-hours."
        lines.append(f"Pods that end: {totals['pods_ending']}.{lost if totals['hours_lost'] else ''}")
    gpus = (("GPUs that become free", totals["gpus_freed"]), ("GPUs that are taken", totals["gpus_taken"]))
    if taken := [f"{what}: {number}." for what, number in gpus if number]:
        lines.append(" ".join(taken))
    return lines


def _plan_figures(result: Row) -> list[tuple[str, Any, str]]:
    totals = result["totals"]
    changes = sum(not row["problem"] for row in result["results"])
    lost = f"{totals['gpu_hours_lost']:.1f} GPU-hours" if totals["hours_lost"] else ""
    return [
        ("Changes", changes, f"{result['unchanged']} manifests stay as they are"),
        ("Refused", len(result["problems"]), "the plan cannot be applied" if result["problems"] else ""),
        ("Restarts", totals["restarts"], f"pods that end: {totals['pods_ending']}" if totals["pods_ending"] else ""),
        ("Work lost", _period(totals["hours_lost"]), lost),
        ("GPUs", f"{totals['gpus_taken'] - totals['gpus_freed']:+d}", "in use"),
        ("Nodes moved", totals["nodes_moved"], ""),
    ]


def _period(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 or not hours else f"{max(1, round(hours * 60))} min"


def _pool_cells(row: Row) -> dict[str, Any]:
    return {
        "cluster": row.get("cluster"),
        "pool": row["pool"],
        "nodes": _arrow(row["nodes_before"], row["nodes_after"]),
        "gpus": _arrow(row["gpus_before"], row["gpus_after"]),
        "used": _arrow(row["used_before"], row["used_after"]),
    }


def _node_cells(row: Row) -> dict[str, Any]:
    return {
        **row,
        "pool": _arrow(row["pool_before"], row["pool_after"]),
        "used": _arrow(row["used_before"], row["used_after"]),
    }


def _arrow(before: Any, after: Any) -> str:
    shown = ["-" if value is None else str(value) for value in (before, after)]
    return shown[0] if before == after else " -> ".join(shown)


def _narrow_arrow(before: Any, after: Any) -> str:
    return _arrow(before, after).replace(" ", "")


def _pool_bars(result: Row) -> list[Bars]:
    """The GPUs of each pool before and after, in use and free."""
    bars = []
    for row in result["pools"]:
        for when in ("before", "after"):
            used, gpus = row[f"used_{when}"] or 0, row[f"gpus_{when}"] or 0
            segments = [("in use", float(used)), ("free", float(max(gpus - used, 0)))]
            bars.append(Bar(f"{qualified_name(row.get('cluster'), row['pool'])} {when}", segments, f"{used} of {gpus}"))
    return [Bars("GPUs in use", bars, ("in use", "free"), "GPUs")] if bars else []


def _node_moves(result: Row) -> list[str]:
    """The nodes that change their pool, those without jobs together."""
    lines, quiet = [], dict[tuple[str, str], list[str]]()
    for node in result["nodes"]:
        if not node["moves"]:
            continue
        name = qualified_name(node.get("cluster"), node["node"])
        if node["jobs"]:
            jobs = abridged([f"{place_of(job)} ({number_of(job['gpus'], 'GPU')})" for job in node["jobs"]], _NAMES)
            lines.append(
                f"{name} moves from pool {node['pool_before']} to {node['pool_after']}. Pods on it continue, "
                f"but new pods of these jobs go elsewhere: {jobs}."
            )
        else:
            quiet.setdefault((node["pool_before"], node["pool_after"]), []).append(name)
    for (before, after), nodes in quiet.items():
        verb = "moves" if len(nodes) == 1 else "move"
        lines.append(f"{abridged(nodes, _NAMES)} {verb} from pool {before} to {after}. No job is on it.")
    return lines


def _teams(result: Row) -> list[dict[str, Any]]:
    """Namespaces in which something changes."""
    teams: dict[tuple[str, str], dict[str, Any]] = {}
    for row in result["teams"]:
        teams[row.get("cluster") or "", row["namespace"]] = {
            "held": _arrow(row["gpus_before"], row["gpus_after"]),
            "changes": row["gpus_before"] != row["gpus_after"],
        }
    for row in result["quotas"]:
        found = teams.setdefault((row.get("cluster") or "", row["namespace"]), {"held": "0", "changes": False})
        found[row["resource"]] = _arrow(row["hard_before"], row["hard_after"])
        found["changes"] = found["changes"] or row["hard_before"] != row["hard_after"]
    return [
        {"cluster": cluster, "namespace": name, **teams[cluster, name]}
        for cluster, name in sorted(teams)
        if teams[cluster, name]["changes"]
    ]
