# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs with their pods, events and curves, as a report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..module_utils.kube.times import read_time
from ..module_utils.manifest.problems import abridged, number_of
from .advice_report import advice_table
from .html_page import short_number
from .report import Block, Curve, Curves, Facts, Reasons, Report, Row, Section, Table, Text
from .screens import JOB_COLUMNS, job_cells, status_counts, without_own_pods
from .sparkline import on_grid
from .text_table import Column, cell_text, minute

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
    ("ends_at", "Ends by"),
    ("access_urls", "URL"),
)
_POD_COLUMNS = (
    Column("job_id", "POD", least=20),
    Column("status", "STATUS"),
    Column("restarts", "RESTARTS", drop=2),
    Column("node", "NODE", least=10),
    Column("ip", "IP", drop=3),
    Column("shown_image", "IMAGE", least=16, optional=True),
    Column("age", "AGE", drop=1),
)
_EVENT_COLUMNS = (
    Column("age", "LAST"),
    Column("count", "COUNT", drop=1),
    Column("reason", "REASON"),
    Column("object", "OBJECT", least=12, drop=2),
    Column("message", "MESSAGE", least=32, wraps=True),
)
_FIRST_EVENTS = 10


def description_report(result: Mapping[str, Any]) -> Report:
    """The jobs of that name, mostly one; of a sweep a table, and on a page each of its jobs."""
    jobs = result["results"]
    names = ", ".join(f"{job['name']} in {job['namespace']}" for job in jobs) or "no job"
    metrics = Section("Metrics", list(_curve_blocks(result["curves"])), tight=True)
    if len({job["name"] for job in jobs}) > 1:
        sections = [_sweep_section(jobs), *(each._replace(on="page") for job in jobs for each in _job_sections(job))]
    else:
        sections = [each for job in jobs for each in _job_sections(job)]
        sections.append(metrics if jobs else Section("", [Text("No job of that name.")]))
        sections += _advice_sections(result.get("advice") or {})
    return Report(f"Job {names}", sections)


def _sweep_section(jobs: Sequence[Row]) -> Section:
    name, namespace = jobs[0].get("sweep"), jobs[0]["namespace"]
    head = f"sweep {name} in namespace {namespace}, {number_of(len(jobs), 'job')}: {status_counts(jobs)}"
    more = f"Give -e gpuctl_name={jobs[0]['name']} for the pods, events and curves of one."
    table = Table(JOB_COLUMNS, [job_cells(job) for job in jobs], f"Sweep {name}", noun="job")
    return Section("", [Text(head), table, Reasons(jobs), Text(more)], on="screen")


def _job_sections(job: Row) -> Iterator[Section]:
    title = f"{job['kind'] or 'job'} {job['name']} in namespace {job['namespace']}"
    facts = Facts(title, [(key, name, cell_text(value)) for key, name, value in _known_facts(job)])
    yield Section(title, [facts])
    pods = _pods_with_images(job.get("pods") or [])
    yield Section("Pods", [Table(_POD_COLUMNS, pods, "Pods of the job", first=None)])
    events = _merged_events(job)
    oldest = "Warnings, the oldest first"
    yield Section("Events", [Table(_EVENT_COLUMNS, events, oldest, noun="event", first=_FIRST_EVENTS, ends=True)])


def _advice_sections(advice: Row) -> Iterator[Section]:
    """What it asks for and does not use, where that is known."""
    if rows := advice.get("results"):
        yield Section("Advice", [advice_table(advice), Reasons(rows, None)])


def _pods_with_images(pods: Sequence[Row]) -> list[Row]:
    """The pods, each with its image where they have several, as during an update: the end of it where that differs."""
    images = [str(pod.get("image") or "") for pod in pods]
    ends = [image.rpartition("/")[2] for image in images]
    shown = ends if len(set(ends)) > 1 else images if len(set(images)) > 1 else [""] * len(images)
    return [{**pod, "shown_image": image} for pod, image in zip(pods, shown, strict=True)]


def _curve_blocks(curves: Row) -> Iterator[Block]:
    if "series" not in curves:
        yield Text(f"No metrics: {curves.get('msg') or 'not asked for'}", "warning")
        return
    start, end = (str(minute(curves[name])) for name in ("start", "end"))
    yield Text(f"{start} to {end}, {_coverage_text(curves)}:")
    yield Curves([_known_curve(curves, summary) for summary in curves["summary"]], start, end)


def _known_curve(curves: Row, summary: Row) -> Curve:
    """What is known of a curve of the whole job, with a value for each step."""
    start, end = (read_time(curves[name]).timestamp() for name in ("start", "end"))
    first = end - int((end - start) / curves["step"] + 1e-9) * curves["step"]
    points = on_grid(_points(curves["series"], summary), first, end, curves["step"])
    factor, unit = _unit_scale(summary["peak"], summary["unit"] or "")
    average, peak, last = (shown_value(summary[key], summary["unit"]) for key in ("average", "peak", "at_end"))
    values = [None if value is None else value / factor for value in points]
    return Curve(
        _curve_title(summary), values, unit, 100.0 if summary["unit"] == "ratio" else None, average, peak, last
    )


def _merged_events(job: Row) -> list[Row]:
    """The events, the oldest first; those that say the same of several objects as one, with the age of the last.

    A Job that cannot create its pods tries again with another name each time, which its message quotes.
    """
    merged: dict[tuple[str, str], list[Row]] = {}
    for event in job.get("events") or ():
        said = event["reason"], without_own_pods(job["name"], event["message"])
        merged[said] = [*merged.pop(said, []), event]
    return [
        {
            **same[-1],
            "count": sum(event["count"] for event in same),
            "object": abridged(list(dict.fromkeys(event["object"] for event in same)), 1),
        }
        for same in merged.values()
    ]


def _known_facts(job: Row) -> Iterator[tuple[str, str, Any]]:
    """The facts that there are, as key, title and value."""
    for key, title in _FACTS:
        value = job.get(key)
        if value not in (None, "", []):
            texts = {"autoscaler": autoscaler_text, "access_urls": ", ".join}
            yield key, title, texts[key](value) if key in texts else value


def autoscaler_text(row: Row) -> str:
    """``1 to 4 replicas, has 2, wants 4. DCGM_FI_DEV_GPU_UTIL: 95, target 60.`` Why it cannot is the job's reason."""
    counts = [
        f"{row['min_replicas']} to {row['max_replicas']} replicas",
        *([] if row["current_replicas"] is None else [f"has {row['current_replicas']}"]),
        *([f"wants {row['desired_replicas']}"] if row["desired_replicas"] else []),
    ]
    metrics = [
        f"{_metric_title(one)}: {one['current'] or 'not measured'}, target {one['target']}." for one in row["metrics"]
    ]
    limited = [f"{row['limited'][:1].upper()}{row['limited'][1:]}"] if row["limited"] else []
    return " ".join([f"{', '.join(counts)}.", *metrics, *limited])


def _metric_title(metric: Row) -> str:
    """As the manifest has it, with what it is called in the cluster."""
    name, exported = metric["autoscaling_metric"], metric["metric"]
    return str(name if name == exported else f"{name} ({exported})")


def shown_value(value: float, unit: str | None) -> str:
    """A value with its unit: ``62 %``, ``71.3 GiB``, ``1.2 kW``."""
    factor, shown = _unit_scale(value, unit or "")
    return f"{short_number(value / factor)} {shown}".rstrip()


_SCALES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "ratio": ((0.01, "%"),),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1, "B")),
    "bytes per second": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "watts": ((1e3, "kW"), (1, "W")),
    "celsius": ((1, "°C"),),
    "tokens per second": ((1, "tokens/s"),),
}


def _unit_scale(value: float, unit: str) -> tuple[float, str]:
    steps = _SCALES.get(unit, ((1, unit),))
    return next(((factor, name) for factor, name in steps if abs(value) >= factor), steps[-1])


def _points(series: Iterable[Row], summary: Row) -> list[tuple[float, float]]:
    for each in series:
        labels = each["labels"]
        if each["metric"] == summary["metric"] and summary["labels"].items() <= labels.items():
            return [tuple(point) for point in each["points"]]
    return []


def _curve_title(summary: Row) -> str:
    labels = [value for _name, value in sorted(summary["labels"].items())]
    words = {"receive": "received", "transmit": "sent"}
    return " ".join([_TITLES[summary["metric"]], *(words.get(label, label) for label in labels)])


def _coverage_text(curves: Row) -> str:
    known = curves.get("coverage")
    return "how much of it is known is not known" if known is None else f"{known * 100:.3g} % of it is known"
