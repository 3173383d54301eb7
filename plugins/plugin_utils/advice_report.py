# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What jobs asked for and did not use, as a report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..module_utils.manifest.problems import abridged, enumerated, number_of
from .merged_reports import limit_texts
from .report import Block, Figures, Notes, Reasons, Report, Row, Section, Table, Text
from .screens import CLUSTER
from .text_table import Column, time_range

_COLUMNS = (
    CLUSTER,
    Column("name", "NAME", least=12),
    Column("namespace", "NAMESPACE", least=9),
    Column("kind", "KIND", drop=4),
    Column("field", "FIELD"),
    Column("asked", "ASKED", numeric=True),
    Column("p50", "P50", drop=3, numeric=True),
    Column("p95", "P95", drop=2, numeric=True),
    Column("peak", "PEAK", numeric=True),
    Column("advised", "ADVISED", numeric=True),
    Column("saved", "SAVES", numeric=True),
    Column("cost", "COST", drop=1, optional=True, numeric=True),
    Column("coverage", "MEASURED", numeric=True, on="page"),
)
_SAVED_COLUMNS = (
    Column("jobs", "JOBS", numeric=True),
    Column("gpu", "GPU·H", numeric=True),
    Column("gib", "GIB·H", numeric=True, drop=2),
    Column("core", "CORE·H", numeric=True, drop=3),
    Column("cost", "COST", numeric=True, drop=1, optional=True),
)
_UNITS = {"GPU": "gpu", "GiB": "gib", "core": "core"}
_FIRST_GROUPS = 5
_FIRST_REASONS = 10
_MOST_NAMES = 5
_MEANING = (
    "Advised: the highest peak of any pod, and of memory and CPU a quarter more. Peaks of pods that are gone count.",
    "Saves: what the smaller request would have saved in this time, in hours of the pods that are there.",
    "Replicas: as many as all their peaks together fit into, with their GPUs busy for half of the time. Two at least.",
    "A GPU that was never used had less than the utilization of an idle one, and less than 1 GiB of memory in use.",
    "What is not known is no reason for advice.",
)


def advice_report(result: Mapping[str, Any]) -> Report:
    """What to change and what that saves, why, and about which jobs nothing can be said."""
    rows = result["results"]
    unknown = [_unknown_reason(row) for row in result["unknown"]]
    table = Table(_with_currency(result), [_advice_cells(row) for row in rows], "What saves most first", noun="row")
    rest: list[Block] = [*map(Text, _unmeasured(result["unmeasured"]))]
    rest.append(Notes([*limit_texts(result), *result["notes"]]))
    return Report(
        "What jobs ask for and do not use",
        [
            Section("", [Text(time_range(result))], on="screen"),
            Section("", [Figures(_advice_figures(result))], on="page"),
            Section("Advice", [table] if rows else []),
            Section("", [Reasons(rows, _FIRST_REASONS)], on="screen"),
            *(Section(f"By {title.lower()}", [_saved_by(result, key, title)]) for key, title in _several(rows)),
            Section("Evidence", [Reasons(rows, None)] if rows else [], on="page"),
            Section("", [Text(_summary(result))]),
            Section("", [Reasons(unknown, 3)], on="screen"),
            Section("Not known", [Reasons(unknown, None)] if unknown else [], on="page"),
            Section("", rest),
            Section("How to read this", [Notes(_MEANING)], on="page"),
        ],
        lead=time_range(result),
        footer="runwhere.gpuctl, from Kubernetes and Prometheus.",
    )


def _with_currency(result: Mapping[str, Any], columns: Iterable[Column] = _COLUMNS) -> list[Column]:
    title = f"COST {result['currency']}".rstrip()
    return [replace(each, title=title) if each.key == "cost" else each for each in columns]


def _several(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """By what the advice is added up: teams and images, where there are several."""
    keys = (("namespace", "Team"), ("image", "Image"))
    return [(key, title) for key, title in keys if len({row.get(key) for row in rows}) > 1]


def _saved_by(result: Mapping[str, Any], key: str, title: str) -> Table:
    """What each could save, that with the most GPU-hours first."""
    groups: dict[str, list[Row]] = {}
    for row in result["results"]:
        groups.setdefault(row.get(key) or "", []).append(row)

    def cells(name: str, rows: Sequence[Row]) -> dict[str, Any]:
        hours = {unit: sum(row["saved_hours"] for row in rows if row["unit"] == unit) for unit in _UNITS}
        costs = [row["saved_cost"] for row in rows if row["saved_cost"] is not None]
        return {
            key: name,
            "jobs": len({(row.get("cluster"), row["namespace"], row["name"]) for row in rows}),
            **{_UNITS[unit]: _hours_text(hours[unit]) if hours[unit] else None for unit in _UNITS},
            "cost": f"{sum(costs):,.2f}" if costs else None,
            "order": tuple(-hours[unit] for unit in _UNITS),
        }

    found = sorted((cells(name, rows) for name, rows in groups.items()), key=lambda row: (row["order"], row[key]))
    columns = [Column(key, title.upper(), least=16), *_with_currency(result, _SAVED_COLUMNS)]
    return Table(columns, found, f"Saves, by {title.lower()}", noun=title.lower(), first=_FIRST_GROUPS)


def advice_table(result: Mapping[str, Any]) -> Table:
    """The advice on one job."""
    columns = [each for each in _with_currency(result) if each.key not in ("cluster", "name", "namespace", "kind")]
    return Table(columns, [_advice_cells(row) for row in result["results"]], "What it could ask for", noun="row")


def _advice_cells(row: Row) -> dict[str, Any]:
    used, unit = row["used"], row["unit"]
    return {
        **row,
        "field": row["what"].rpartition(".")[2],
        **{key: _amount_text(used[name], unit) for key, name in (("p50", "p50"), ("p95", "p95"), ("peak", "max"))},
        "saved": f"{_hours_text(row['saved_hours'])} {unit}·h",
        "cost": None if row["saved_cost"] is None else f"{row['saved_cost']:,.2f}",
        "coverage": f"{row['coverage'] * 100:.0f} %",
    }


def _amount_text(amount: float | None, unit: str) -> str | None:
    """Memory as manifests have it: 31Gi, 29.5Gi."""
    if amount is None:
        return None
    text = f"{amount:.3g}" if amount < 100 else f"{amount:.0f}"
    return f"{text}Gi" if unit == "GiB" else text


def _hours_text(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:,.1f}"


def _summary(result: Mapping[str, Any]) -> str:
    totals = result["totals"]
    number, jobs = totals["advised_jobs"], number_of(totals["jobs"], "job")
    if not totals["jobs"]:
        return "There are no jobs to look at."
    if not number:
        return f"{jobs} looked at, and no advice."
    asks = "asks for more than it uses" if number == 1 else "ask for more than they use"
    return f"{number} of {jobs} {asks}: {enumerated(_savings(result), 'and')} in this time."


def _savings(result: Mapping[str, Any]) -> list[str]:
    totals = result["totals"]
    cost = totals["saved_cost"]
    price = f" ({cost:,.2f} {result['currency']}".rstrip() + ")" if cost is not None else ""
    return [
        f"{_hours_text(totals[key])} {noun}{price if key == 'saved_gpu_hours' else ''}"
        for key, noun in (
            ("saved_gpu_hours", "GPU-hours"),
            ("saved_gib_hours", "GiB-hours of memory"),
            ("saved_core_hours", "core-hours"),
        )
        if totals[key]
    ]


def _advice_figures(result: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    totals = result["totals"]
    found = [
        ("GPU-hours to save", _hours_text(totals["saved_gpu_hours"]), "held, and not needed"),
        ("Memory", _hours_text(totals["saved_gib_hours"]), "GiB-hours"),
        ("CPU", _hours_text(totals["saved_core_hours"]), "core-hours"),
        ("Jobs with advice", totals["advised_jobs"], f"of {totals['jobs']}"),
    ]
    if totals["saved_cost"] is not None:
        found.insert(1, ("Cost", f"{totals['saved_cost']:,.2f}", result["currency"]))
    return found


def _unknown_reason(row: Row) -> dict[str, Any]:
    fields = enumerated([what.removeprefix("resources.") for what in row["what"]], "and")
    return {**row, "reason": f"{fields} not known: {row['reason']}."}


def _unmeasured(names: Sequence[str]) -> Iterable[str]:
    """In one line: they are no advice."""
    if names:
        jobs = number_of(len(names), "job")
        yield f"{jobs} of which Prometheus knows no pod: {abridged(list(names), _MOST_NAMES)}."
