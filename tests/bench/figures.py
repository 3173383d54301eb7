# SPDX-License-Identifier: BSD-2-Clause
"""What was measured, as data, as tables and as plots. Pure, but for ``write_page``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.measure import Contender, Group, Step

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"

Points = list[tuple[float, float]]


def as_data(groups: Iterable[Group]) -> list[dict[str, Any]]:
    """A row for each contender in each step, with every round; seconds are those that the tables show."""
    return [
        {
            "group": group.key,
            "title": group.title,
            "size": group.size,
            "step": step.name,
            "contender": contender.name,
            "seconds": [round(seconds, 4) for seconds in group.seconds(contender)],
            "ratios_to": step.reference,
            "ratios": group.ratios(step, contender),
            "mib": round(max(run.mib for run in contender.runs)),
            "requests": contender.runs[-1].requests,
            "busy": round(statistics.median(run.busy for run in contender.runs), 3),
            "server_busy": _server_busy(contender),
            "extrapolated": contender.out_of is not None and contender.out_of > contender.times,
        }
        for group in groups
        for step in group.steps
        for contender in step.contenders
    ]


def as_markdown(groups: Iterable[Group]) -> str:
    """One table for each group."""
    parts = []
    for group in groups:
        lines = [f"### {group.title}", ""]
        if group.base:
            lines += [f"The empty playbook takes {group.base_seconds:.2f} s.", ""]
        lines += [
            "| Step | Contender | Seconds | Ratio | Busy | Server busy | Peak MiB | Requests |",
            "|---|---|---:|---:|---:|---:|---:|---:|",
        ]
        lines += [_row(group, step, contender) for step in group.steps for contender in step.contenders]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _row(group: Group, step: Step, contender: Contender) -> str:
    seconds, ratios = group.seconds(contender), group.ratios(step, contender)
    run = contender.runs[-1]
    server = _server_busy(contender)
    cells = [
        step.name,
        contender.name,
        _spread(seconds),
        "1" if contender.name == step.reference else _spread(ratios) if ratios else "",
        _number(statistics.median(run.busy for run in contender.runs)),
        "" if server is None else _number(server),
        f"{max(run.mib for run in contender.runs):.0f}",
        "" if run.requests is None else f"{run.requests:,}",
    ]
    return f"| {' | '.join(cells)} |"


def _server_busy(contender: Contender) -> float | None:
    known = [run.server_busy for run in contender.runs if run.server_busy is not None]
    return round(statistics.median(known), 3) if known else None


def _spread(values: Sequence[float]) -> str:
    """The median, and where there are several rounds the least and the most."""
    median = _number(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({_number(min(values))} to {_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def as_plots(groups: Sequence[Group]) -> dict[str, str]:
    """SVG pictures by file name: seconds against size for jobs and nodes, memory against size for information."""
    return {
        "performance-jobs-create.svg": _plot("New jobs in one task", "jobs", "s", _series(groups, "jobs", "create")),
        "performance-jobs-unchanged.svg": _plot(
            "Unchanged jobs in one task", "jobs", "s", _series(groups, "jobs", "unchanged")
        ),
        "performance-nodes.svg": _plot("A label on all nodes", "nodes", "s", _series(groups, "nodes", "label")),
        "performance-info-memory.svg": _plot(
            "Peak memory to read all nodes and ten times as many pods",
            "nodes",
            "MiB",
            _series(groups, "info", "read", memory=True),
        ),
        "performance-growth.svg": _plot(
            "Looking at jobs that are as declared", "jobs", "s", _series(groups, "growth", "look")
        ),
    }


def _series(groups: Iterable[Group], key: str, name: str, *, memory: bool = False) -> dict[str, Points]:
    found: dict[str, Points] = {}
    for group in groups:
        for step in group.steps if group.key == key else ():
            for contender in step.contenders if step.name == name else ():
                seconds = statistics.median(group.seconds(contender))
                value = max(run.mib for run in contender.runs) if memory else seconds
                label = contender.name.partition(" (extrapolated")[0]
                found.setdefault(label, []).append((group.size, value))
    return found


_COLOURS = ("#1b6ca8", "#6aa84f", "#cc4125", "#8e7cc3", "#e69138", "#45818e", "#a64d79")
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 400, 64, 44, 470, 350


def _plot(title: str, x_name: str, y_name: str, series: dict[str, Points]) -> str:
    """Both axes logarithmic: what grows with the size is a straight line."""
    xs = [x for points in series.values() for x, _y in points]
    ys = [max(y, 0.01) for points in series.values() for _x, y in points]
    x_low, x_high = _decades(xs)
    y_low, y_high = _decades(ys)

    def at(x: float, y: float) -> tuple[float, float]:
        right = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(max(y, 0.01)) - y_low) / (y_high - y_low)
        return _LEFT + right * (_RIGHT - _LEFT), _BOTTOM - up * (_BOTTOM - _TOP)

    parts = [
        "<!-- SPDX-License-Identifier: BSD-2-Clause -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{title}</text>',
    ]
    for exponent in range(x_low, x_high + 1):
        x, _y = at(10.0**exponent, 10.0**y_low)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{_BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{10**exponent:,}</text>')
    for exponent in range(y_low, y_high + 1):
        _x, y = at(10.0**x_low, 10.0**exponent)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**exponent:g} {y_name}</text>')
    parts.append(f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 38}" text-anchor="middle">{x_name}</text>')
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [at(x, y) for x, y in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        height = _TOP + 20 * number + 8
        parts.append(f'<rect x="{_RIGHT + 16}" y="{height - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{_RIGHT + 32}" y="{height}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _title(picture: str) -> str:
    return picture.partition('font-size="15">')[2].partition("<")[0]


def write_page(page: Path, conditions: str, groups: Sequence[Group]) -> None:
    """Put tables and plots between the marks of the page; what people wrote around them stays."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    plots = as_plots(groups)
    for name, picture in plots.items():
        (page.parent / name).write_text(picture)
    pictures = "\n".join(f"![{_title(picture)}]({name})" for name, picture in plots.items())
    page.write_text(f"{before}{BEGIN}\n\n{conditions}\n\n{pictures}\n\n{as_markdown(groups)}\n\n{END}{after}")
