# SPDX-License-Identifier: BSD-2-Clause
"""Draw dashboards of Grafana from data of a Prometheus, as one HTML page each with SVG.

It knows the panels that tools/generate_dashboards.py makes: time series, numbers and bars.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

Series = Mapping[str, Any]  # metric, values or value

_COLORS = ("#5794f2", "#73bf69", "#ff9830", "#b877d9", "#f2495c", "#37c2c2", "#fade2a", "#8ab8ff", "#c4a26b", "#96d98d")
_NAMED = {"green": "#56a64b", "orange": "#ff9830", "red": "#f2495c", "blue": "#5794f2"}
_STEPS = {"bytes": 1024.0, "Bps": 1000.0, "watt": 1000.0, "short": 1000.0}
_SUFFIXES = {
    "bytes": (" B", " KiB", " MiB", " GiB", " TiB"),
    "Bps": (" B/s", " kB/s", " MB/s", " GB/s", " TB/s"),
    "watt": (" W", " kW", " MW"),
    "short": ("", " K", " M", " G"),
}
_LEGEND = 8
_FILLED = 4  # with more lines, what is below them is not filled
_UNIT, _GAP, _WIDE = 30, 8, 1360  # height of a grid unit, between panels, of the page
_STYLE = """
body{margin:0;background:#111217;color:#ccccdc;font:13px/1.4 Inter,'DejaVu Sans',Arial,sans-serif}
h1{font-size:18px;font-weight:500;margin:0;padding:14px 16px 2px}p{margin:0;padding:0 16px 10px;color:#8e8ea0}
main{position:relative;margin:0 8px}
section{position:absolute;background:#181b1f;border:1px solid #25272d;border-radius:3px;overflow:hidden}
h2{font-size:13px;font-weight:500;margin:0;padding:7px 10px 0}
svg{display:block}text{fill:#9fa0ae;font-size:11px}.value{font-weight:500;text-anchor:middle}
.none{padding:20px;text-align:center;color:#8e8ea0}
"""


@dataclass(frozen=True)
class Source:
    """Where data come from: a range and a moment of a Prometheus."""

    ask_range: Callable[[str, float, float, float], Sequence[Series]]
    ask: Callable[[str, float], Sequence[Series]]
    start: float
    end: float
    step: float
    variables: Mapping[str, str]

    def expression(self, text: str) -> str:
        """With the values of Grafana's variables."""
        given = {"__range": f"{self.end - self.start:.0f}s", "__range_s": f"{self.end - self.start:.0f}"}
        return re.sub(r"\$(\w+)", lambda found: {**given, **self.variables}.get(found[1], found[0]), text)


def expressions(dashboard: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Title, kind and expression of each target of each panel."""
    return [
        (panel["title"], panel["type"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]
    ]


def page(dashboard: Mapping[str, Any], source: Source) -> str:
    """A dashboard as HTML."""
    panels = dashboard["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * _UNIT + 12
    body = "".join(_panel(panel, source) for panel in panels)
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{html.escape(dashboard["title"])}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(dashboard['title'])}</h1>"
        f'<p>{html.escape(dashboard["description"])}</p><main style="height:{height}px">{body}</main></html>'
    )


def size(dashboard: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of the page."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    return _WIDE, rows * _UNIT + 84


def _panel(panel: Mapping[str, Any], source: Source) -> str:
    place = panel["gridPos"]
    column = (_WIDE - 16) / 24
    width, height = place["w"] * column - _GAP, place["h"] * _UNIT - _GAP
    style = f"left:{place['x'] * column + 4:.0f}px;top:{place['y'] * _UNIT}px;width:{width:.0f}px;height:{height}px"
    draw = {"timeseries": _lines, "stat": _number, "bargauge": _bars}[panel["type"]]
    drawn = draw(panel, source, width, height - 28)
    return f'<section style="{style}"><h2>{html.escape(panel["title"])}</h2>{drawn}</section>'


def _found(panel: Mapping[str, Any], source: Source) -> list[tuple[str, Any]]:
    """The series of all targets in their order: legend, and the value at the end or all points."""
    found: list[tuple[str, Any]] = []
    for target in panel["targets"]:
        text = source.expression(target["expr"])
        if target.get("instant"):
            rows: list[tuple[Any, Any]] = [
                (one["metric"], float(one["value"][1])) for one in source.ask(text, source.end)
            ]
        else:
            rows = [
                (one["metric"], [(float(moment), float(value)) for moment, value in one["values"]])
                for one in source.ask_range(text, source.start, source.end, source.step)
            ]
        named = [(_legend(target["legendFormat"], metric), value) for metric, value in rows]
        found += named if target.get("instant") else sorted(named)
    return found


def _legend(text: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), text).strip()


def _lines(panel: Mapping[str, Any], source: Source, width: float, height: float) -> str:
    rows = _found(panel, source)
    if not rows:
        return '<div class="none">No data</div>'
    defaults = panel["fieldConfig"]["defaults"]
    unit, stacked = defaults.get("unit", "short"), defaults["custom"].get("stacking", {}).get("mode") == "normal"
    limits = [step["value"] for step in defaults["thresholds"]["steps"] if step.get("value") is not None]
    is_line = (defaults["custom"].get("thresholdsStyle") or {}).get("mode") == "line"
    shown = _stacked(rows, source) if stacked else [(name, points, None) for name, points in rows]
    top = defaults.get("max") or _nice(
        max([value for _name, points, _low in shown for _moment, value in points] + (limits if is_line else []))
    )
    left, right, legend = 62.0, 12.0, 18.0 * ((min(len(rows), _LEGEND) + 3) // 4)
    inner, tall = width - left - right, height - legend - 30

    def across(moment: float) -> float:
        return left + (moment - source.start) / (source.end - source.start) * inner

    def up(value: float) -> float:
        return 8 + tall * (1 - min(value, top) / top)

    parts = []
    for number in range(5):
        value = top * number / 4
        parts.append(_across(left, width - right, up(value), "#2c3038"))
        parts.append(_label(left - 6, up(value) + 4, _text(value, unit), "end"))
    for number in range(7):
        moment = source.start + (source.end - source.start) * number / 6
        time = datetime.fromtimestamp(moment, timezone.utc).strftime("%H:%M")
        parts.append(_label(across(moment), tall + 24, time, "end" if number == 6 else "middle"))
    for index, (_name, points, low) in enumerate(shown):
        color = _COLORS[index % len(_COLORS)]
        for run, base in _runs(points, low, source.step):
            line = " ".join(f"{across(moment):.1f},{up(value):.1f}" for moment, value in run)
            below = " ".join(f"{across(moment):.1f},{up(value):.1f}" for moment, value in reversed(base))
            floor = f"{across(run[-1][0]):.1f},{up(0):.1f} {across(run[0][0]):.1f},{up(0):.1f}"
            opacity = 0.55 if stacked else 0.08 if len(rows) < _FILLED else 0
            parts.append(f'<polygon points="{line} {below or floor}" fill="{color}" opacity="{opacity}"/>')
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.4"/>')
    for limit in limits if is_line else []:
        parts.append(_across(left, width - right, up(limit), _NAMED["red"], dashes="6 4"))
    for index, (name, _points, _low) in enumerate(shown[:_LEGEND]):
        x, y = left + index % 4 * inner / 4, tall + 42 + index // 4 * 18
        color = _COLORS[index % len(_COLORS)]
        parts.append(f'<rect x="{x:.0f}" y="{y - 8:.0f}" width="12" height="4" fill="{color}"/>')
        parts.append(f'<text x="{x + 17:.0f}" y="{y - 2:.0f}">{html.escape(_short(name, inner / 4))}</text>')
    return _svg(width, height, parts)


def _short(name: str, room: float) -> str:
    most = int((room - 20) / 6.2)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _stacked(
    rows: Sequence[tuple[str, Sequence[tuple[float, float]]]], source: Source
) -> list[tuple[str, list[tuple[float, float]], list[tuple[float, float]]]]:
    """Each series on top of those before it."""
    below: dict[float, float] = {}
    found = []
    for name, points in rows:
        low = [(moment, below.get(moment, 0.0)) for moment, _value in points]
        high = [(moment, below.get(moment, 0.0) + value) for moment, value in points]
        below.update(high)
        found.append((name, high, low))
    return found


def _runs(points: Any, low: Any, step: float) -> list[tuple[list[Any], list[Any]]]:
    """Without the gaps, over which no line is drawn."""
    cuts = [index + 1 for index, (one, other) in enumerate(pairwise(points)) if other[0] - one[0] > 1.5 * step]
    edges = [0, *cuts, len(points)]
    return [(list(points[one:other]), list(low[one:other]) if low else []) for one, other in pairwise(edges)]


def _number(panel: Mapping[str, Any], source: Source, width: float, height: float) -> str:
    rows = _found(panel, source)
    if not rows:
        return '<div class="none">No data</div>'
    value = rows[0][1]
    value = value[-1][1] if isinstance(value, list) else value
    defaults = panel["fieldConfig"]["defaults"]
    text = _text(value, defaults.get("unit", "short"))
    parts = [
        f'<text class="value" x="{width / 2:.0f}" y="{height / 2 + 14:.0f}" '
        f'style="font-size:34px;fill:{_color(value, defaults)}">{text}</text>'
    ]
    return _svg(width, height, parts)


def _bars(panel: Mapping[str, Any], source: Source, width: float, height: float) -> str:
    rows = _found(panel, source)
    if not rows:
        return '<div class="none">No data</div>'
    defaults = panel["fieldConfig"]["defaults"]
    unit, top = defaults.get("unit", "short"), defaults.get("max") or max(value for _name, value in rows) or 1
    tall, left, right = min(height / len(rows), 34), 190.0, 80.0
    parts = []
    for index, (name, value) in enumerate(rows):
        y, color = index * tall + 8, _color(value, defaults)
        long = max((width - left - right) * min(value / top, 1), 1)
        middle, room = y + tall / 2 + 1, width - left - right
        parts.append(_label(left - 8, middle, _short(name, left), "end"))
        parts.append(f'<rect x="{left}" y="{y:.0f}" width="{room:.0f}" height="{tall - 8:.0f}" fill="#22252b"/>')
        parts.append(f'<rect x="{left}" y="{y:.0f}" width="{long:.1f}" height="{tall - 8:.0f}" fill="{color}"/>')
        parts.append(_label(width - right + 8, middle, _text(value, unit), "start"))
    return _svg(width, height, parts)


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _across(left: float, right: float, y: float, color: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line x1="{left:.0f}" x2="{right:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}"{dashed}/>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return f'<svg width="{width:.0f}" height="{height:.0f}">{"".join(parts)}</svg>'


def _color(value: float, defaults: Mapping[str, Any]) -> str:
    found = "green"
    for step in defaults["thresholds"]["steps"]:
        if step.get("value") is None or value >= step["value"]:
            found = step["color"]
    return _NAMED[found]


def _nice(value: float) -> float:
    """A top for the axis a little above the largest value, that divides well by four."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{value:.0f}") - 1) if value >= 1 else 0.1
    return next(step * power for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * power >= value)


def _text(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{value * 100:.0f}%" if value >= 0.1 or value == 0 else f"{value * 100:.1f}%"
    if unit == "celsius":
        return f"{value:.0f} °C"
    if unit == "h":
        return f"{value:.1f} h"
    if unit == "s":
        return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"
    suffixes, index = _SUFFIXES[unit], 0
    while abs(value) >= _STEPS[unit] and index < len(suffixes) - 1:
        value, index = value / _STEPS[unit], index + 1
    return f"{value:.3g}{suffixes[index]}"
