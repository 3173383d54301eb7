# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a directory would change in a cluster, as a screen, as a page with pictures of the pools, and as data. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import (
    abridged,
    number_of,
    qualified_name,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import (
    Markup,
    PageColumn,
    badge,
    disclosure,
    html_page,
    items,
    note,
    page_table,
    paragraph,
    section,
    tiles,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import joined_blocks, wrapped
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import Column, table_lines

Row = Mapping[str, Any]
Paint = Callable[[str, str], str]

_FIRST = 12
_NAMES = 3
_ALL = "Add -e gpuctl_all=true to list all."
_LEVELS = {
    "create": "good",
    "update": "neutral",
    "scale": "neutral",
    "restart": "warning",
    "recreate": "warning",
    "delete": "bad",
    "refused": "bad",
}
# Jobs that lose work come first, what only follows from others last.
_ORDER = ("refused", "delete", "recreate", "restart", "update", "create")
_JOBS = ("training", "inference", "notebook", "compute")
_FOLLOWS = ("queue", "access", "priority")


def is_plan(result: Mapping[str, Any]) -> bool:
    """Whether gpuctl_plan_info has returned this."""
    return "plan" in result and "not_declared" in result


# -- screen ------------------------------------------------------------------------------------------------------------


def plan_screen(result: Mapping[str, Any], width: int, *, everything: bool, paint: Paint) -> list[str]:
    """What is wrong, what changes, what that costs, and what pools and teams have then."""
    most = None if everything else _FIRST
    rows = _by_interest(result["results"])
    return joined_blocks(
        [
            wrapped(f"{_sources(result)}: {result['msg']}", width),
            _listed("Refused", _problems(result), "problem", width, most),
            _listed("Warning", result["notes"], "warning", width, most),
            _change_lines(rows, width, most, paint),
            [line for text in _reasons(rows)[:most] for line in wrapped(text, width, indent="  ")],
            [line for text in _costs(result) for line in wrapped(text, width)],
            table_lines([_pool_cells(row) for row in result["pools"]], _POOL_COLUMNS, width) if result["pools"] else [],
            [line for text in _moves(result)[:most] for line in wrapped(text, width, indent="  ")],
            _team_lines(result, width, most),
            _left_lines(result, width, most),
        ]
    )


_CHANGE_COLUMNS = (
    Column("change", "CHANGE"),
    Column("kind", "KIND", drop=1),
    Column("name", "NAME", least=14),
    Column("namespace", "NAMESPACE", least=9, optional=True),
    Column("pods", "PODS", numeric=True, optional=True),
    Column("gpus", "GPUS", numeric=True, optional=True),
    Column("lost", "LOST", numeric=True, optional=True),
    Column("runs", "RUNS", optional=True),
)
_POOL_COLUMNS = (
    Column("pool", "POOL", least=12),
    Column("nodes", "NODES", numeric=True),
    Column("gpus", "GPUS", numeric=True),
    Column("used", "IN USE", numeric=True),
)
_TEAM_COLUMNS = (
    Column("namespace", "TEAM", least=12),
    Column("held", "GPUS HELD", numeric=True),
    Column("gpu", "GPU QUOTA", numeric=True, optional=True),
    Column("cpu", "CPU QUOTA", numeric=True, drop=1, optional=True),
    Column("memory", "MEMORY QUOTA", numeric=True, drop=2, optional=True),
)


def _change_lines(rows: Sequence[Row], width: int, most: int | None, paint: Paint) -> list[str]:
    if not rows:
        return []
    cells = [{**_cells(row), "pods": _narrow(row, "pods"), "gpus": _narrow(row, "gpus")} for row in rows[:most]]
    lines = table_lines(cells, _CHANGE_COLUMNS, width, paint)
    if " KIND " not in lines[0]:  # it did not fit, and who reads "update teams" wants to know of what kind that is
        lines = table_lines([_with_kind(row) for row in cells], _CHANGE_COLUMNS, width, paint)
    return lines + _more(len(rows), most, "change")


def _listed(title: str, texts: Sequence[str], noun: str, width: int, most: int | None) -> list[str]:
    lines = [line for text in texts[:most] for line in wrapped(f"{title}: {text}", width, indent="  ")]
    return lines + _more(len(texts), most, noun)


def _with_kind(cells: Row) -> Row:
    """A job is known by what else is in its row."""
    return cells if cells["kind"] in _JOBS else {**cells, "name": f"{cells['kind']} {cells['name']}"}


def _more(number: int, most: int | None, noun: str) -> list[str]:
    rest = 0 if most is None else number - most
    return [f"… and {number_of(rest, f'more {noun}')}. {_ALL}"] if rest > 0 else []


def _cells(row: Row) -> dict[str, Any]:
    return {
        "change": change_word(row),
        "kind": row["kind"],
        "name": row["name"],
        "namespace": row["namespace"],
        "pods": _arrow(row["pods_before"], row["pods_after"]) if row["pods_before"] or row["pods_after"] else None,
        "gpus": _arrow(row["gpus_before"], row["gpus_after"]) if row["gpus_before"] or row["gpus_wanted"] else None,
        "lost": _hours(row["hours_lost"]) if row["hours_lost"] else None,
        "runs": (row["verdict"] or "").replace("_", " ") or None,
    }


def change_word(row: Row) -> str:
    """What happens, as a person says it."""
    if row["problem"]:
        return "refused"
    return "restart" if row["restarts"] and row["action"] == "update" else str(row["action"])


def _by_interest(rows: Iterable[Row]) -> list[Row]:
    def rank(row: Row) -> tuple[bool, int, float]:
        word = change_word(row)
        return row["kind"] in _FOLLOWS, _ORDER.index(word) if word in _ORDER else len(_ORDER), -row["hours_lost"]

    return sorted(rows, key=rank)


def _place(row: Row) -> str:
    return qualified_name(row["namespace"], row["name"])


def _sources(result: Row) -> str:
    return f"Plan of {abridged([str(path) for path in result['src']], 2)}"


def _problems(result: Row) -> list[str]:
    return [
        line if _names_itself(each, line) else f"{each['kind']} {_place(each)}: {line}"
        for each in result["problems"]
        for line in str(each["problem"]).splitlines()
    ]


def _names_itself(problem: Row, line: str) -> bool:
    """Where it begins: a path that a policy forbids may have the name of the job as well."""
    return not problem["name"] or str(problem["name"]) in line.partition(": ")[0]


def _reasons(rows: Iterable[Row]) -> list[str]:
    found = []
    for row in rows:
        if row["problem"]:
            continue
        parts = [row["reason"], row["hint"] if row["reason"] else None, row["note"]]
        if told := " ".join(filter(None, parts)):
            found.append(f"{_place(row)}: {told}")
    return found


def _costs(result: Row) -> list[str]:
    totals = result["totals"]
    lines = []
    if totals["pods_ending"]:
        lost = f" Running work that is lost: {_hours(totals['hours_lost'])}, {totals['gpu_hours_lost']:.1f} GPU-hours."
        lines.append(f"Pods that end: {totals['pods_ending']}.{lost if totals['hours_lost'] else ''}")
    gpus = (("GPUs that become free", totals["gpus_freed"]), ("GPUs that are taken", totals["gpus_taken"]))
    if told := [f"{what}: {number}." for what, number in gpus if number]:
        lines.append(" ".join(told))
    return lines


def _narrow(row: Row, key: str) -> str | None:
    text = _cells(row)[key]
    return str(text).replace(" ", "") if text else None


def _hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 or not hours else f"{max(1, round(hours * 60))} min"


def _pool_cells(row: Row) -> dict[str, Any]:
    return {
        "pool": row["pool"],
        "nodes": _arrow(row["nodes_before"], row["nodes_after"]),
        "gpus": _arrow(row["gpus_before"], row["gpus_after"]),
        "used": _arrow(row["used_before"], row["used_after"]),
    }


def _arrow(before: Any, after: Any) -> str:
    shown = ["-" if value is None else str(value) for value in (before, after)]
    return shown[0] if before == after else " -> ".join(shown)


def _moves(result: Row) -> list[str]:
    """The nodes that change their pool, those without jobs together."""
    lines, quiet = [], dict[tuple[str, str], list[str]]()
    for node in result["nodes"]:
        if not node["moves"]:
            continue
        if node["jobs"]:
            jobs = abridged([f"{_place(job)} ({number_of(job['gpus'], 'GPU')})" for job in node["jobs"]], _NAMES)
            lines.append(
                f"{node['node']} moves from pool {node['pool_before']} to {node['pool_after']}. Pods on it continue, "
                f"but new pods of these jobs go elsewhere: {jobs}."
            )
        else:
            quiet.setdefault((node["pool_before"], node["pool_after"]), []).append(node["node"])
    for (before, after), nodes in quiet.items():
        verb = "moves" if len(nodes) == 1 else "move"
        lines.append(f"{abridged(nodes, _NAMES)} {verb} from pool {before} to {after}. No job is on it.")
    return lines


def _teams(result: Row) -> list[dict[str, Any]]:
    """Namespaces in which something changes."""
    teams: dict[str, dict[str, Any]] = {}
    for row in result["teams"]:
        teams[row["namespace"]] = {
            "held": _arrow(row["gpus_before"], row["gpus_after"]),
            "changes": row["gpus_before"] != row["gpus_after"],
        }
    for row in result["quotas"]:
        found = teams.setdefault(row["namespace"], {"held": "0", "changes": False})
        found[row["resource"]] = _arrow(row["hard_before"], row["hard_after"])
        found["changes"] = found["changes"] or row["hard_before"] != row["hard_after"]
    return [{"namespace": name, **teams[name]} for name in sorted(teams) if teams[name]["changes"]]


def _team_lines(result: Row, width: int, most: int | None) -> list[str]:
    teams = _teams(result)
    return table_lines(teams[:most], _TEAM_COLUMNS, width) + _more(len(teams), most, "team") if teams else []


def _left_lines(result: Row, width: int, most: int | None) -> list[str]:
    left = [f"{row['kind']} {_place(row)}" for row in result["not_declared"]]
    if not left:
        return []
    names = abridged(left, len(left) if most is None else _NAMES)
    return wrapped(f"Not declared in this directory, and left as is: {names}.", width, indent="  ")


# -- page --------------------------------------------------------------------------------------------------------------


def plan_page(result: Mapping[str, Any]) -> str:
    """The plan as a page: warnings first, then what changes, then pools, nodes and teams before and after."""
    rows = _by_interest(result["results"])
    totals = result["totals"]
    blocks: list[Markup] = []
    warned = [
        *(note(f"Refused: {text}", "bad") for text in _problems(result)),
        *(note(text, "warning") for text in result["notes"]),
        *(note(text, "warning") for text in _reasons(rows)),
    ]
    if warned:
        blocks.append(section("Look at this first", *warned))
    blocks.append(section("In numbers", tiles(_tiles(result, totals))))
    blocks.append(section("What changes", *_change_blocks(rows, result)))
    if result["pools"]:
        pools = page_table("Before and after", _PAGE_POOLS, _with_arrows(map(_pool_cells, result["pools"])))
        blocks.append(section("Pools", pools, *_pictures(result), *_move_blocks(result)))
    if teams := _teams(result):
        blocks.append(section("Teams", page_table("Where something changes", _PAGE_TEAMS, _with_arrows(teams))))
    if result["not_declared"]:
        left = items(f"{row['kind']} {_place(row)}" for row in result["not_declared"])
        blocks.append(section("Not declared any more", paragraph("The plan leaves this as it is."), left))
    lead = f"{_sources(result)}, made {result['made_at'].replace('T', ' ').rstrip('Z')} UTC. {result['msg']}"
    title, footer = "Plan of changes to the GPU cluster", "runwhere.gpuctl. Nothing was changed."
    return html_page(title, blocks, lead=lead, footer=footer)


_PAGE_CHANGES = (
    PageColumn("what", "What"),
    PageColumn("badge", "Change"),
    PageColumn("pods", "Pods", numeric=True),
    PageColumn("gpus", "GPUs", numeric=True),
    PageColumn("lost", "Work lost", "running", numeric=True),
    PageColumn("runs", "Runs"),
    PageColumn("fields", "Fields"),
)
_PAGE_POOLS = (
    PageColumn("pool", "Pool"),
    PageColumn("nodes", "Nodes", numeric=True),
    PageColumn("gpus", "GPUs", numeric=True),
    PageColumn("used", "In use", "GPUs", numeric=True),
)
_PAGE_TEAMS = (
    PageColumn("namespace", "Team"),
    PageColumn("held", "GPUs held", numeric=True),
    PageColumn("gpu", "Quota", "GPUs", numeric=True),
    PageColumn("cpu", "Quota", "CPUs", numeric=True),
    PageColumn("memory", "Quota", "memory", numeric=True),
)


def _tiles(result: Row, totals: Row) -> list[tuple[str, Any, str]]:
    changes = sum(not row["problem"] for row in result["results"])
    lost = f"{totals['gpu_hours_lost']:.1f} GPU-hours" if totals["hours_lost"] else ""
    return [
        ("Changes", changes, f"{result['unchanged']} manifests stay as they are"),
        ("Refused", len(result["problems"]), "the plan cannot be applied" if result["problems"] else ""),
        ("Restarts", totals["restarts"], f"pods that end: {totals['pods_ending']}" if totals["pods_ending"] else ""),
        ("Work lost", _hours(totals["hours_lost"]), lost),
        ("GPUs", f"{totals['gpus_taken'] - totals['gpus_freed']:+d}", "in use"),
        ("Nodes moved", totals["nodes_moved"], ""),
    ]


def _change_blocks(rows: Sequence[Row], result: Row) -> list[Markup]:
    if not rows:
        return [paragraph("Everything is as declared.")]
    cells = []
    for row in rows:
        word = change_word(row)
        fields = [f"{one['kind']} {one['name']}: {path}" for one in row["resources"] for path in one["changes"]]
        cells.append(
            {
                **_cells(row),
                "what": f"{row['kind']} {_place(row)}",
                "badge": badge(word, _LEVELS.get(word, "neutral")),
                "fields": disclosure(number_of(len(fields), "field"), items(fields)) if fields else None,
            }
        )
    return [page_table(f"{number_of(len(rows), 'manifest')}", _PAGE_CHANGES, _with_arrows(cells))]


def _with_arrows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A terminal may lack the character; a page does not."""
    return [
        {
            key: text.replace(" -> ", " \N{RIGHTWARDS ARROW} ")
            if isinstance(text, str) and not isinstance(text, Markup)
            else text
            for key, text in row.items()
        }
        for row in rows
    ]


def _move_blocks(result: Row) -> list[Markup]:
    moves = _moves(result)
    return [items(moves)] if moves else []


_SQUARE, _GAP = 12, 3
_ACROSS = 8
_MOST_NODES = 64


def _pictures(result: Row) -> list[Markup]:
    """The nodes of each pool before and after, a square for each GPU."""
    names = [row["pool"] for row in result["pools"]]
    pairs = [(name, *(_nodes_of(result, name, when) for when in ("before", "after"))) for name in names]
    pictures = [
        Markup(
            f'<div class="pools"><h3>{escape(name)}</h3><div>'
            f"{_picture(name, 'before', before)}{_picture(name, 'after', after)}</div></div>"
        )
        for name, before, after in pairs
        if before or after
    ]
    legend = Markup(
        '<ul class="legend">'
        + "".join(
            f'<li><svg class="swatch" aria-hidden="true" viewBox="0 0 10 10"><rect class="{style}" width="10" '
            f'height="10"/></svg>{text}</li>'
            for style, text in (("series0", "in use"), ("free", "free"), ("series1", "in use, on a node that moves"))
        )
        + "</ul>"
    )
    return [legend, *pictures] if pictures else []


def _nodes_of(result: Row, pool: str, when: str) -> list[Row]:
    return [row for row in result["nodes"] if row[f"pool_{when}"] == pool]


def _picture(pool: str, when: str, nodes: Sequence[Row]) -> str:
    used = sum(node[f"used_{when}"] for node in nodes)
    total = sum(node["gpus"] for node in nodes)
    label = f"Pool {pool} {when}: {number_of(len(nodes), 'node')}, {used} of {number_of(total, 'GPU')} in use"
    drawn = nodes[:_MOST_NODES]
    rest = f'<p class="remark">and {len(nodes) - _MOST_NODES} more</p>' if len(nodes) > _MOST_NODES else ""
    lists = "".join(f"<li><span>{escape(node['node'])}</span>{_node(node, when)}</li>" for node in drawn)
    body = f"<ul>{lists}</ul>{rest}" if nodes else '<p class="remark">no node</p>'
    return f"<figure><figcaption>{escape(label)}</figcaption>{body}</figure>"


def _node(node: Row, when: str) -> str:
    number, used = node["gpus"], node[f"used_{when}"]
    rows = max(1, -(-number // _ACROSS))
    step = _SQUARE + _GAP
    style = "series1" if node["moves"] else "series0"
    squares = "".join(
        f'<rect class="{style if place < used else "free"}" x="{place % _ACROSS * step + 0.5}" '
        f'y="{place // _ACROSS * step + 0.5}" width="{_SQUARE}" height="{_SQUARE}" rx="2"/>'
        for place in range(number)
    )
    width, height = min(max(number, 1), _ACROSS) * step, rows * step
    return (
        f'<svg role="img" aria-label="{used} of {number} GPUs in use" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{squares}</svg>'
    )
