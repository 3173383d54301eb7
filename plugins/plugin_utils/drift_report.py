# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between a directory and a cluster, as a screen, as a page, and as data. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import number_of, qualified_name
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import (
    Markup,
    PageColumn,
    badge,
    code,
    html_page,
    items,
    note,
    page_table,
    paragraph,
    section,
    tiles,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import joined_blocks, wrapped
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import cut

Row = Mapping[str, Any]

_FIRST_OBJECTS = 20
_LONGEST_VALUE = 160
_ALL = "Add -e gpuctl_all=true to list all."
_LEVELS = {"error": "bad", "warning": "warning", "info": "neutral"}
_CHANGES = {
    "missing": "missing",
    "changed": "changed",
    "removed": "removed",
    "undeclared": "not declared",
    "added": "added",
}
_TAKE_BACK = "To take a field back, name it as it is listed, with its object:"


def is_drift(result: Mapping[str, Any]) -> bool:
    """Whether gpuctl_drift_info has returned this."""
    return "undeclared" in result and "counts" in result


def drift_screen(result: Mapping[str, Any], width: int, *, everything: bool) -> list[str]:
    """The differences by object, each with who made it and when; then whole objects, and problems."""
    rows = [row for row in result["results"] if everything or row["level"] != "info"]
    objects = list(_by_object(row for row in rows if row["field"] is not None).values())
    shown = objects if everything or len(objects) <= _FIRST_OBJECTS + 1 else objects[:_FIRST_OBJECTS]
    blocks = [wrapped(str(result["msg"]), width), *(_object_lines(own, width) for own in shown)]
    if len(shown) < len(objects):
        blocks.append([f"… and {number_of(len(objects) - len(shown), 'more object')}. {_ALL}"])
    blocks += [_whole_objects(rows, change, title, width) for change, title in _WHOLE.items()]
    blocks.append(_problem_lines(result["problems"], width))
    if argument := _take_back_argument(row["id"] for row in rows if row["field"] and row["level"] != "info"):
        blocks.append([*wrapped(_TAKE_BACK, width), f"  {argument}"])
    hidden = len(result["results"]) - len(rows)
    if hidden:
        verb = "is" if hidden == 1 else "are"
        told = f"{number_of(hidden, 'row')} about controllers and jobs of others {verb} not shown, and no drift. {_ALL}"
        blocks.append(wrapped(told, width))
    return joined_blocks(blocks)


def _take_back_argument(fields: Iterable[str]) -> str:
    """An example to copy, of a field whose name neither a shell nor Ansible reads as anything else.

    Whoever may change a workload chooses names, such as those of variables and mount paths.
    """
    field = next(filter(_PLAIN.fullmatch, fields), None)
    return f"-e 'gpuctl_take_back={field}'" if field else ""


_PLAIN = re.compile(r"[\w./:,@%+\[\]-]+", re.ASCII)


# The title of a list of whole objects, by what is the matter with them.
_WHOLE = {"missing": "Missing. Each was deleted, or never applied:", "undeclared": "Not declared in this directory:"}


def _by_object(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["kind"], row["namespace"], row["name"]].append(row)
    return found


def _place(row: Row) -> str:
    return qualified_name(row["kind"], row["namespace"], row["name"])


def _object_lines(rows: Sequence[Row], width: int) -> list[str]:
    """The object, and each of its fields with who has changed it."""
    lines = wrapped(f"{_place(rows[0])} ({rows[0]['manifest']}){_last_run(rows[0])}:", width, indent="    ")
    for row in rows:
        lines += _indented(f"{row['field']}: {difference(row)}", width, 2)
        lines += _indented(blame_text(row), width, 4)
    return lines


def _indented(text: str, width: int, by: int) -> list[str]:
    return [f"{' ' * by}{line}" for line in wrapped(text, width - by, indent="  ")]


def _last_run(row: Row) -> str:
    """Since which of our runs the object may differ."""
    if not row["last_run"]:
        return ""
    by = f", submitted by {row['submitted_by']}" if row["submitted_by"] else ""
    return f"{by}, last written by gpuctl {moment(row['last_run'])}"


def difference(row: Row) -> str:
    """``declared 2, live 3``"""
    live, declared = _value(row["live"]), _value(row["declared"])
    if row["change"] == "added":
        return f"added {live}"
    if row["change"] == "undeclared":
        return f"live {live}, no longer declared"
    return f"declared {declared}, {'not set' if row['change'] == 'removed' else f'live {live}'}"


def blame_text(row: Row) -> str:
    """Who, and when: as far as the cluster has recorded it."""
    when = f", {moment(row['time'])}" if row["time"] else ", at an unknown time" if row["manager"] else ""
    user = f" ({row['user']})" if row["user"] else ""
    if row["cause"] == "others":
        return f"by {row['manager']}{user}{when}"
    if row["cause"] == "controller":
        return f"by the controller {row['manager']}{when}. This is no drift."
    if row["cause"] == "gpuctl":
        return f"by a run of gpuctl{user}{when}. The manifest is another one, or another task has changed it."
    if row["change"] == "removed":
        return "Not set since, or not applied yet. Kubernetes does not record who removes a field."
    return "By whom is not known."


def moment(time: str) -> str:
    """``2026-11-22 20:24 UTC``"""
    return f"{time[:10]} {time[11:16]} UTC"


def _value(value: Any, longest: int = _LONGEST_VALUE) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(" ".join(text.split()), longest) or '""'


def _whole_objects(rows: Iterable[Row], change: str, title: str, width: int) -> list[str]:
    lines = []
    for row in rows:
        if row["field"] is None and row["change"] == change:
            by = f", submitted by {row['submitted_by']}" if row["submitted_by"] else ""
            theirs = ". It is theirs, and no drift" if row["level"] == "info" else ""
            lines += _indented(f"{_place(row)} ({row['manifest']}{by}){theirs}", width, 2)
    return [title, *lines] if lines else []


def _problem_lines(problems: Sequence[Row], width: int) -> list[str]:
    if not problems:
        return []
    lines = ["Cannot be applied as it is declared:"]
    for each in problems:
        about = f"{each['kind']} {each['manifest']}: " if each["manifest"] else ""
        lines += _indented(f"{about}{each['problem'].removeprefix(about)}", width, 2)
    return lines


# -- page


_COLUMNS = (
    PageColumn("field", "Field"),
    PageColumn("change", "Change"),
    PageColumn("declared", "Declared"),
    PageColumn("live", "Live"),
    PageColumn("by", "By"),
    PageColumn("time", "When", "UTC"),
)
_OBJECT_COLUMNS = (PageColumn("object", "Object"), PageColumn("manifest", "Of"), *_COLUMNS[1:2], PageColumn("by", "By"))


def drift_page(result: Mapping[str, Any]) -> str:
    """All of the result on one page."""
    rows = result["results"]
    counted = [row for row in rows if row["level"] != "info"]
    changes = Counter(row["change"] for row in counted)
    figures = [(word.capitalize(), changes[change], "") for change, word in _CHANGES.items()]
    blocks: list[Markup] = [tiles(figures)]
    if not counted and not result["problems"]:
        blocks.append(note("Everything is as declared.", "good"))
    if result["problems"]:
        told = (f"{each['manifest'] or each['kind']}: {each['problem']}" for each in result["problems"])
        blocks.append(section("Cannot be applied as it is declared", items(told)))
    whole = [row for row in counted if row["field"] is None]
    if whole:
        blocks.append(
            section("Whole objects", page_table("Missing, or not declared", _OBJECT_COLUMNS, map(_cells, whole)))
        )
    tables = [_object_table(own) for own in _by_object(row for row in counted if row["field"] is not None).values()]
    if tables:
        blocks.append(section("Fields", *tables))
    fields = [row["id"] for row in counted if row["field"]]
    if fields:
        listed = [code("\n".join(fields))]
        if argument := _take_back_argument(fields):
            listed.append(code(f"ansible-playbook runwhere.gpuctl.drift … {argument}"))
        blocks.append(section("Take fields back", paragraph("Name one or more of these fields:"), *listed))
    left = [row for row in rows if row["level"] == "info"]
    if left:
        columns = (*_OBJECT_COLUMNS[:2], *_COLUMNS)
        table = page_table("Set by controllers, or submitted by others", columns, map(_cells, left))
        blocks.append(section("No drift", table))
    lead = f"{result['msg']} Compared: {', '.join(result['src'])}."
    return html_page("Drift", blocks, lead=lead, footer="Made by runwhere.gpuctl.drift.")


def _object_table(rows: Sequence[Row]) -> Markup:
    caption = f"{_place(rows[0])} ({rows[0]['manifest']}){_last_run(rows[0])}"
    return page_table(caption, _COLUMNS, map(_cells, rows))


def _cells(row: Row) -> dict[str, Any]:
    is_field = row["field"] is not None
    return {
        "object": _place(row),
        "manifest": row["manifest"],
        "field": row["field"] or "",
        "change": badge(_CHANGES[row["change"]], _LEVELS[row["level"]]),
        "declared": _value(row["declared"], 80) if is_field and row["change"] not in ("added", "undeclared") else "",
        "live": _value(row["live"], 80) if is_field and row["change"] != "removed" else "",
        "by": _by(row),
        "time": moment(row["time"]).removesuffix(" UTC") if row["time"] else "",
    }


def _by(row: Row) -> str:
    if row["field"] is None:
        return str(row["submitted_by"] or "not known") if row["change"] == "undeclared" else "not known"
    who = "a run of gpuctl" if row["cause"] == "gpuctl" else row["manager"] or "not known"
    return f"{who} ({row['user']})" if row["user"] else str(who)
