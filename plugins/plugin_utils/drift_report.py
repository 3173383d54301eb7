# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between a directory and a cluster, as a report. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..module_utils.manifest.problems import number_of, qualified_name
from .merged_reports import limit_texts
from .report import Figures, Group, Groups, Logs, Report, Row, Section, Text
from .text_table import cut, minute

_FIRST_OBJECTS = 20
_LONGEST_VALUE = 160
# The titles of figures, by what is the matter with a row.
_CHANGES = {
    "missing": "Missing",
    "changed": "Changed",
    "removed": "Removed",
    "undeclared": "No longer declared",
    "added": "Added",
}
# The title of a list of whole objects, by what is the matter with them.
_WHOLE = {
    "missing": "Missing. Each was deleted, or never applied:",
    "undeclared": "No longer declared:",
    "added": "Beside a job, from others. Delete it yourself if it is not meant:",
}


def drift_report(result: Mapping[str, Any]) -> Report:
    """The differences by object, each with who made it and when; then whole objects, problems, and what is no drift."""
    drift = [row for row in result["results"] if row["level"] != "info"]
    others = [row for row in result["results"] if row["level"] == "info"]
    changes = Counter(row["change"] for row in drift)
    problems = [(_problem_line(each), "") for each in result["problems"]]
    fields = [row["id"] for row in drift if row["field"]]
    argument = _restore_argument(fields)
    restore = "To restore a field, name it as it is listed, with its object:"
    commands = [(restore, [argument])] if argument else []
    delete = "To delete what is no longer declared, confirm it with the name of the source:"
    prune = [(delete, [f"-e 'gpuctl_prune={result['source']}'"])] if result["undeclared"] else []
    return Report(
        "Drift",
        [
            Section("", [Text(text) for text in (str(result["msg"]), *limit_texts(result))], on="screen"),
            Section("", [Figures([(title, changes[change], "") for change, title in _CHANGES.items()])], on="page"),
            Section("", [] if drift or problems else [Text("Everything is as declared.", "good")], on="page"),
            Section("Fields", [_fields(drift)]),
            Section("Whole objects", [_whole_objects(drift)]),
            Section(
                "Problems", [Groups([Group("Cannot be applied as it is declared:", problems)] if problems else [])]
            ),
            Section("Restore fields", [Logs(commands)]),
            Section("Delete what is no longer declared", [Logs(prune)]),
            Section("", [Logs([("Fields that can be restored", fields)] if fields else [])], on="page"),
            Section("No drift", [_fields(others), _whole_objects(others)], on="full"),
            Section("", [Text(_hidden(len(others)))] if others else [], on="short"),
        ],
        lead=f"{result['msg']} Compared: {', '.join(result['src'])}.",
        footer="Made by runwhere.gpuctl.drift.",
    )


def _fields(rows: Iterable[Row]) -> Groups:
    objects: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["field"] is not None:
            objects[row.get("cluster"), row["kind"], row["namespace"], row["name"]].append(row)
    groups = [
        Group(
            f"{_row_place(own[0])} ({own[0]['manifest']}){_last_run(own[0])}:",
            [(f"{row['field']}: {difference(row)}", blame_text(row)) for row in own],
        )
        for own in objects.values()
    ]
    return Groups(groups, noun="object", first=_FIRST_OBJECTS)


def _whole_objects(rows: Sequence[Row]) -> Groups:
    groups = []
    for change, title in _WHOLE.items():
        own = [row for row in rows if row["field"] is None and row["change"] == change]
        entries = [(_object_line(row), blame_text(row) if change == "added" else "") for row in own]
        groups += [Group(title, entries)] if own else []
    return Groups(groups)


def _object_line(row: Row) -> str:
    by = f", submitted by {row['submitted_by']}" if row["submitted_by"] else ""
    theirs = ". It is theirs, and no drift" if row["level"] == "info" else ""
    does = f" {row['live']}" if row["live"] else ""
    return f"{_row_place(row)} ({row['manifest']}{by}){does}{theirs}"


def _problem_line(each: Row) -> str:
    about = f"{each['kind']} {each['manifest']}: " if each["manifest"] else ""
    cluster = f"{each['cluster']}: " if each.get("cluster") else ""
    return f"{cluster}{about}{each['problem'].removeprefix(about)}"


def _hidden(number: int) -> str:
    verb = "is" if number == 1 else "are"
    return (
        f"{number_of(number, 'row')} about controllers and jobs of others {verb} not shown, and no drift. "
        "Add -e gpuctl_all=true to list all."
    )


def _restore_argument(fields: Iterable[str]) -> str:
    """An example to copy, of a field whose name neither a shell nor Ansible reads as anything else.

    An account that may change a workload chooses names, such as those of variables and mount paths.
    """
    field = next(filter(_PLAIN.fullmatch, fields), None)
    return f"-e 'gpuctl_restore={field}'" if field else ""


_PLAIN = re.compile(r"[\w./:,@%+\[\]-]+", re.ASCII)


def _row_place(row: Row) -> str:
    return qualified_name(row.get("cluster"), row["kind"], row["namespace"], row["name"])


def _last_run(row: Row) -> str:
    """Since which of our runs the object may differ."""
    if not row["last_run"]:
        return ""
    by = f", submitted by {row['submitted_by']}" if row["submitted_by"] else ""
    return f"{by}, last written by gpuctl {minute(row['last_run'])} UTC"


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
    when = f", {minute(row['time'])} UTC" if row["time"] else ", at an unknown time" if row["manager"] else ""
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


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(" ".join(text.split()), _LONGEST_VALUE) or '""'
