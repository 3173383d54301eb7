# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One job with its pods, events and curves, as a screen and as a page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.times import read_time
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import abridged
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import (
    Markup,
    PageColumn,
    badge,
    curve,
    facts,
    html_page,
    note,
    page_table,
    paragraph,
    section,
    short_number,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import Paint, sweep_screen, wrapped
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.sparkline import BLOCKS, on_grid, sparkline
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import (
    Column,
    cell_text,
    table_lines,
    text_width,
)

Row = Mapping[str, Any]

_TITLES = {
    "utilization": "Utilization",
    "memory": "Memory",
    "tensor_activity": "Tensor cores",
    "power": "Power",
    "temperature": "Temperature",
    "network": "Network",
    "throughput": "Throughput",
}
_FACTS = (
    ("status", "Status"),
    ("reason", "Reason"),
    ("kind", "Kind"),
    ("pool", "Pool"),
    ("ready", "Ready pods"),
    ("autoscaler", "Autoscaling"),
    ("gpu", "GPUs per pod"),
    ("gpu_type", "GPU type"),
    ("image", "Image"),
    ("priority", "Priority"),
    ("submitted_by", "Submitted by"),
    ("description", "Description"),
    ("created_at", "Created"),
    ("started_at", "Started"),
    ("finished_at", "Finished"),
    ("access_urls", "URL"),
)
_POD_COLUMNS = (
    Column("job_id", "POD", least=20),
    Column("status", "STATUS"),
    Column("restarts", "RESTARTS", drop=2),
    Column("node", "NODE", least=10),
    Column("ip", "IP", drop=3),
    Column("age", "AGE", drop=1),
)
_EVENT_COLUMNS = (
    Column("age", "LAST"),
    Column("count", "COUNT", drop=1),
    Column("reason", "REASON"),
    Column("object", "OBJECT", least=12, drop=2),
    Column("message", "MESSAGE", least=20),
)
_FIRST_EVENTS = 10
_NARROWEST, _WIDEST = 10, 60  # characters of a sparkline
_LEVELS = {"Running": "good", "Succeeded": "good", "Failed": "bad", "Paused": "neutral"}


def is_description(result: Row) -> bool:
    """Whether this is what the playbook describe shows: jobs with pods and events, and curves or why there are none."""
    return "curves" in result and "results" in result


def description_screen(result: Row, width: int, *, everything: bool, paint: Paint, levels: str = BLOCKS) -> list[str]:
    """The jobs of that name, mostly one; of a sweep a table."""
    if len({job["name"] for job in result["results"]}) > 1:
        return sweep_screen(result["results"], width, everything=everything, paint=paint)
    lines: list[str] = []
    for job in result["results"]:
        lines += [*([""] if lines else []), *_job_lines(job, width, everything=everything, paint=paint)]
    return [*lines, "", *_curve_lines(result["curves"], width, levels)] if lines else ["No job of that name."]


def description_page(result: Row) -> str:
    """The same as a page."""
    jobs = result["results"]
    names = ", ".join(f"{job['name']} in {job['namespace']}" for job in jobs) or "no job"
    blocks = [block for job in jobs for block in _job_blocks(job)]
    return html_page(f"Job {names}", [*blocks, section("Metrics", *_curve_blocks(result["curves"]))])


# -- the screen


def _job_lines(job: Row, width: int, *, everything: bool, paint: Paint) -> list[str]:
    lines = [f"{job['kind'] or 'job'} {job['name']} in namespace {job['namespace']}"]
    longest = max(len(title) for _key, title in _FACTS)
    for key, title, value in _known(job):
        first, *more = wrapped(cell_text(value), width - longest - 2) or [""]
        shown = paint("status", first) if key == "status" else first
        lines += [f"{title:<{longest}}  {shown}", *(f"{'':<{longest}}  {line}" for line in more)]
    if pods := job.get("pods"):
        lines += ["", *table_lines(pods, _POD_COLUMNS, width, paint)]
    events = _merged_events(job.get("events") or ())
    shown_events = events if everything else events[-_FIRST_EVENTS:]
    if shown_events:
        lines += ["", *table_lines(shown_events, _EVENT_COLUMNS, width)]
    if len(shown_events) < len(events):
        lines.append(f"… and {len(events) - len(shown_events)} earlier events. Add -e gpuctl_all=true to list all.")
    return lines


def _merged_events(events: Iterable[Row]) -> list[Row]:
    """The events, the oldest first; those that say the same of several objects as one, with the age of the last."""
    merged: dict[tuple[str, str], list[Row]] = {}
    for event in events:
        same = merged.pop((event["reason"], event["message"]), [])
        merged[event["reason"], event["message"]] = [*same, event]
    return [
        {
            **same[-1],
            "count": sum(event["count"] for event in same),
            "object": abridged(list(dict.fromkeys(event["object"] for event in same)), 1),
        }
        for same in merged.values()
    ]


def _curve_lines(curves: Row, width: int, levels: str) -> list[str]:
    if "series" not in curves:
        return wrapped(f"No metrics: {curves.get('msg') or 'not asked for'}", width)
    drawn = list(_curves(curves))
    rows = [
        {
            "metric": _title(summary),
            **{key: shown_value(summary[key], summary["unit"]) for key in ("average", "peak", "at_end")},
        }
        for summary, _values in drawn
    ]
    columns = (
        Column("metric", "METRIC"),
        Column("average", "AVERAGE", drop=2),
        Column("peak", "PEAK", drop=1),
        Column("at_end", "LAST"),
    )
    lines = table_lines(rows, columns, width)
    widest = max(map(text_width, lines))
    if (room := width - widest - 2) >= _NARROWEST:
        texts = [
            "",
            *(sparkline(values, min(room, _WIDEST), high=_high(summary), levels=levels) for summary, values in drawn),
        ]
        blanks = (" " * (widest + 2 - text_width(line)) for line in lines)
        lines = [f"{line}{blank}{text}".rstrip() for line, blank, text in zip(lines, blanks, texts, strict=True)]
    head = f"{_minute(curves['start'])} to {_minute(curves['end'])}, {_coverage(curves)}:"
    return [*wrapped(head, width), *lines]


# -- the page


def _job_blocks(job: Row) -> Iterator[Markup]:
    shown = [
        (title, badge(str(value), _LEVELS.get(str(value), "warning")) if key == "status" else cell_text(value))
        for key, title, value in _known(job)
    ]
    yield section(f"{job['kind'] or 'job'} {job['name']} in namespace {job['namespace']}", facts(shown))
    if pods := job.get("pods"):
        columns = [PageColumn(column.key, _page_title(column)) for column in _POD_COLUMNS]
        yield section("Pods", page_table("Pods of the job", columns, pods))
    if events := _merged_events(job.get("events") or ()):
        columns = [PageColumn(column.key, _page_title(column)) for column in _EVENT_COLUMNS]
        yield section("Events", page_table("Warnings, the oldest first", columns, events))


def _page_title(column: Column) -> str:
    return column.title if column.title == "IP" else column.title.capitalize()


def _curve_blocks(curves: Row) -> Iterator[Markup]:
    if "series" not in curves:
        yield note(f"No metrics: {curves.get('msg') or 'not asked for'}", "warning")
        return
    yield paragraph(f"From {curves['start']} to {curves['end']}, {_coverage(curves)}.")
    for summary, values in _curves(curves):
        unit = summary["unit"] or ""
        factor, shown_unit = _scale(summary["peak"], unit)
        told = ", ".join(
            f"{shown_value(summary[key], unit)} {words}"
            for key, words in (("average", "on average"), ("peak", "at most"), ("at_end", "at the end"))
        )
        yield curve(
            _title(summary),
            [None if value is None else value / factor for value in values],
            label=told,
            unit=shown_unit,
            start=_minute(curves["start"]),
            end=_minute(curves["end"]),
            high=100.0 if unit == "ratio" else None,
        )


# -- both


def _known(job: Row) -> Iterator[tuple[str, str, Any]]:
    """The facts that there are, as key, title and value."""
    for key, title in _FACTS:
        value = job.get(key)
        if value not in (None, "", []):
            yield key, title, autoscaler_text(value) if key == "autoscaler" else value


def autoscaler_text(row: Row) -> str:
    """``1 to 4 replicas, has 2, wants 4. DCGM_FI_DEV_GPU_UTIL: 95, target 60.`` Why it cannot is the job's reason."""
    counts = [
        f"{row['min_replicas']} to {row['max_replicas']} replicas",
        *([] if row["current_replicas"] is None else [f"has {row['current_replicas']}"]),
        *([f"wants {row['desired_replicas']}"] if row["desired_replicas"] else []),
    ]
    metrics = [
        f"{one['metric']}: {one['current'] or 'not measured'}, target {one['target']}." for one in row["metrics"]
    ]
    limited = [f"{row['limited'][:1].upper()}{row['limited'][1:]}"] if row["limited"] else []
    return " ".join([f"{', '.join(counts)}.", *metrics, *limited])


def shown_value(value: float, unit: str | None) -> str:
    """A value with its unit: ``62 %``, ``71.3 GiB``, ``1.2 kW``."""
    factor, shown = _scale(value, unit or "")
    return f"{short_number(value / factor)} {shown}".rstrip()


_SCALES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "ratio": ((0.01, "%"),),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1, "B")),
    "bytes per second": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "watts": ((1e3, "kW"), (1, "W")),
    "celsius": ((1, "°C"),),
    "tokens per second": ((1, "tokens/s"),),
}


def _scale(value: float, unit: str) -> tuple[float, str]:
    steps = _SCALES.get(unit, ((1, unit),))
    return next(((factor, name) for factor, name in steps if abs(value) >= factor), steps[-1])


def _curves(curves: Row) -> Iterator[tuple[Row, list[float | None]]]:
    """What is known of each curve of the whole job, with a value for each step."""
    start, end = (read_time(curves[name]).timestamp() for name in ("start", "end"))
    for summary in curves["summary"]:
        points = _points(curves["series"], summary)
        first = end - int((end - start) / curves["step"] + 1e-9) * curves["step"]
        yield summary, on_grid(points, first, end, curves["step"])


def _points(series: Iterable[Row], summary: Row) -> list[tuple[float, float]]:
    for each in series:
        labels = each["labels"]
        if each["metric"] == summary["metric"] and summary["labels"].items() <= labels.items():
            return [tuple(point) for point in each["points"]]
    return []


def _title(summary: Row) -> str:
    labels = [value for _name, value in sorted(summary["labels"].items())]
    words = {"receive": "received", "transmit": "sent"}
    return " ".join([_TITLES[summary["metric"]], *(words.get(label, label) for label in labels)])


def _high(summary: Row) -> float | None:
    return 1.0 if summary["unit"] == "ratio" else None


def _coverage(curves: Row) -> str:
    known = curves.get("coverage")
    return "how much of it is known is not known" if known is None else f"{known * 100:.3g} % of it is known"


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")
