# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports as one HTML file: a page that loads nothing, and the blocks that it is made of. Pure.

A block is Markup, and so is what `badge` or `sparkline` returns for a cell. Every other value is text and is escaped,
so that nothing from a cluster becomes HTML. The page's own policy forbids scripts and requests in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

LEVELS = ("good", "warning", "bad", "neutral")

Value = float | int | None


class Markup(str):
    """HTML, in which all text is escaped."""

    __slots__ = ()


class PageColumn(NamedTuple):
    """A column of a table: the key of its cells, its heading, and the unit in a line of its own below that."""

    key: str
    title: str
    unit: str = ""
    numeric: bool = False


class Bar(NamedTuple):
    """A bar in segments, whose names are those of the legend, and the text behind it."""

    label: str
    segments: Sequence[tuple[str, float]]
    text: str


def html_page(title: str, blocks: Iterable[Markup], *, lead: str = "", footer: str = "") -> str:
    """A whole page with a title, a sentence below it, and when and of what it was made at its end."""
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{_HATCH}<header>\n",
            f"<h1>{_text(title)}</h1>\n",
            f'<p class="lead">{_text(lead)}</p>\n' if lead else "",
            "</header>\n<main>\n",
            *(f"{block}\n" for block in blocks),
            "</main>\n",
            f"<footer>{_text(footer)}</footer>\n" if footer else "",
            "</body>\n</html>\n",
        ]
    )


def section(title: str, *blocks: Markup) -> Markup:
    return Markup(f"<section>\n<h2>{_text(title)}</h2>\n" + "\n".join(blocks) + "\n</section>")


def paragraph(text: str) -> Markup:
    return Markup(f"<p>{_text(text)}</p>")


def note(text: str, level: str = "neutral") -> Markup:
    """A paragraph that stands out; its level is a colour only, so the text says what is wrong."""
    return Markup(f'<p class="note {_level(level)}">{_text(text)}</p>')


def badge(text: str, level: str = "neutral") -> Markup:
    """A status within a cell or an item."""
    return Markup(f'<span class="badge {_level(level)}">{_text(text)}</span>')


def items(texts: Iterable[Any]) -> Markup:
    return Markup("<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>")


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """Names and their values, one below the other."""
    rows = (f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in pairs)
    return Markup('<dl class="facts">' + "".join(rows) + "</dl>")


def tiles(figures: Iterable[tuple[str, Any, str]]) -> Markup:
    """The most important figures of a page: what each is, its value, and a remark or ``""``."""
    shown = (
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd>"
        + (f'<dd class="remark">{_text(remark)}</dd>' if remark else "")
        + "</div>"
        for name, value, remark in figures
    )
    return Markup('<dl class="tiles">' + "".join(shown) + "</dl>")


def code(text: str) -> Markup:
    """Text as it is, such as a log or a manifest."""
    return Markup(f'<pre tabindex="0"><code>{_text(text)}</code></pre>')


def changed_lines(lines: Iterable[str]) -> Markup:
    """A unified diff: what its lines begin with says what was added and removed, a colour stresses it."""
    elements = {"+": "ins", "-": "del"}
    shown = []
    for line in lines:
        element = elements.get(line[:1], "span")
        shown.append(f"<{element}>{_text(line)}</{element}>\n")
    return Markup('<pre class="diff" tabindex="0"><code>' + "".join(shown) + "</code></pre>")


def disclosure(summary: str, *blocks: Markup, is_open: bool = False) -> Markup:
    """Blocks that a click shows."""
    opened = " open" if is_open else ""
    return Markup(f"<details{opened}><summary>{_text(summary)}</summary>\n" + "\n".join(blocks) + "\n</details>")


def page_table(
    caption: str,
    columns: Sequence[PageColumn],
    rows: Iterable[Mapping[str, Any]],
    totals: Mapping[str, Any] | None = None,
) -> Markup:
    """A table whose first column names its rows; on a narrow screen it scrolls, and that column stays.

    A cell that a row lacks, or that is None, is empty.
    """
    head = "".join(
        f'<th scope="col"{_alignment(column)}>{_text(column.title)}'
        + (f" <small>{_text(column.unit)}</small>" if column.unit else "")
        + "</th>"
        for column in columns
    )
    body = "\n".join(_row(columns, row) for row in rows)
    foot = f"\n<tfoot>{_row(columns, totals)}</tfoot>" if totals is not None else ""
    return Markup(
        f'<div class="table" role="region" aria-label="{_text(caption)}" tabindex="0"><table>\n'
        f"<caption>{_text(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>{foot}\n"
        "</table></div>"
    )


def _row(columns: Sequence[PageColumn], row: Mapping[str, Any]) -> str:
    cells = []
    for number, column in enumerate(columns):
        element, scope = ("td", "") if number else ("th", ' scope="row"')
        value = row.get(column.key)
        shown = "" if value is None else _text(value)
        cells.append(f"<{element}{scope}{_alignment(column)}>{shown}</{element}>")
    return f"<tr>{''.join(cells)}</tr>"


def _alignment(column: PageColumn) -> str:
    return ' class="number"' if column.numeric else ""


def bar_chart(caption: str, bars: Sequence[Bar], legend: Sequence[str], *, unit: str) -> Markup:
    """Horizontal bars to one scale. ``legend``: the names of the segments in their order; the last may be what is not
    known, and is hatched if its name says so."""
    longest = max((sum(value for _name, value in each.segments) for each in bars), default=0.0) or 1.0
    classes = {
        name: "unknown" if name == "not known" else f"series{number % _SERIES}" for number, name in enumerate(legend)
    }
    keys = "".join(f"<li>{_swatch(classes[name])}{_text(name)}</li>" for name in legend)
    rows = "\n".join(_bar(each, classes, longest, unit) for each in bars)
    return Markup(
        f'<figure class="bars"><figcaption>{_text(caption)} <small>{_text(unit)}</small></figcaption>\n'
        f'<ul class="legend">{keys}</ul>\n<div>\n{rows}\n</div></figure>'
    )


def _bar(row: Bar, classes: Mapping[str, str], longest: float, unit: str) -> str:
    parts, start = [], 0.0
    for name, value in row.segments:
        width = 100 * max(value, 0.0) / longest
        parts.append(f'<rect class="{classes[name]}" x="{start:.2f}" y="0" width="{width:.2f}" height="10"/>')
        start += width
    told = ", ".join(f"{name} {value:,.1f}" for name, value in row.segments)
    return (
        f'<div class="bar"><span>{_text(row.label)}</span>'
        f'<svg role="img" aria-label="{_text(row.label)}: {_text(told)} {_text(unit)}" viewBox="0 0 100 10" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg><span class="number">{_text(row.text)}</span></div>'
    )


def _swatch(name: str) -> str:
    square = f'<rect class="{name}" width="10" height="10"/>'
    return f'<svg class="swatch" aria-hidden="true" viewBox="0 0 10 10">{square}</svg>'


def sparkline_svg(values: Sequence[Value], label: str, *, low: float = 0.0, high: float | None = None) -> Markup:
    """A small curve for a cell. ``label`` says in words what it shows; None is a gap."""
    return Markup(
        f'<svg class="spark" role="img" aria-label="{_text(label)}" viewBox="0 0 100 20" preserveAspectRatio="none">'
        f"{_curve(values, 100, 20, low, high)}</svg>"
    )


def curve(
    title: str,
    values: Sequence[Value],
    *,
    label: str,
    unit: str = "",
    start: str = "",
    end: str = "",
    low: float = 0.0,
    high: float | None = None,
) -> Markup:
    """A curve with its scale, over the width of the page. ``start`` and ``end`` are times as text.

    ``label`` says in words what it shows, such as its average and its peak; None is a gap.
    """
    top = _top(values, low, high)
    return Markup(
        f'<figure class="curve"><figcaption>{_text(title)}</figcaption>\n'
        f'<div class="plot"><span class="top">{short_number(top)} {_text(unit)}</span>'
        f'<span class="low">{short_number(low)}</span>'
        f'<svg role="img" aria-label="{_text(title)}: {_text(label)}" viewBox="0 0 1000 100" '
        f'preserveAspectRatio="none"><path class="grid" d="M0 0.5H1000M0 50H1000M0 99.5H1000"/>'
        f"{_curve(values, 1000, 100, low, top)}</svg>"
        f'<span class="start">{_text(start)}</span><span class="end">{_text(end)}</span></div>\n'
        f'<p class="remark">{_text(label)}</p></figure>'
    )


def _curve(values: Sequence[Value], width: int, height: int, low: float, high: float | None) -> str:
    """The line and the area below it, in pieces between the gaps. A value alone becomes a short line."""
    top = _top(values, low, high)
    step = width / max(len(values) - 1, 1)
    lines: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            lines.append([])
            continue
        share = min(max((value - low) / (top - low), 0.0), 1.0)
        lines[-1].append(f"{number * step:.1f} {1 + (height - 2) * (1 - share):.1f}")
    pieces = [line if len(line) > 1 else [line[0], line[0]] for line in lines if line]
    strokes = "".join("M" + "L".join(piece) for piece in pieces)
    areas = "".join(
        f"M{piece[0].split()[0]} {height}L" + "L".join(piece) + f"L{piece[-1].split()[0]} {height}Z" for piece in pieces
    )
    return f'<path class="area" d="{areas}"/><path class="line" d="{strokes}"/>'


def short_number(value: float) -> str:
    """Three digits, or all before the point: ``0.5``, ``71.3``, ``12,345``."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _top(values: Sequence[Value], low: float, high: float | None) -> float:
    top = high if high is not None else max((value for value in values if value is not None), default=low)
    return float(top) if top > low else low + 1.0


def _text(value: Any) -> str:
    return value if isinstance(value, Markup) else escape(str(value), quote=True)


def _level(level: str) -> str:
    if level not in LEVELS:
        raise ValueError(f"level: {level!r}. Use one of {', '.join(LEVELS)}.")
    return level


_SERIES = 4

# What is not known has a pattern, not a colour of its own. Every drawing of the page may refer to it.
_HATCH = (
    '<svg class="hidden" aria-hidden="true" width="0" height="0"><defs><pattern id="hatch" width="2" height="2" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="1" height="2" class="hatch"/></pattern>'
    "</defs></svg>\n"
)

# Text has a contrast of 4.5 to its background in both schemes, and what is drawn one of 3 (WCAG 2.2, 1.4.3 and 1.4.11).
_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--raised:#f5f6f8;--ink:#1b1f24;--dim:#57606a;--rule:#d0d7de;--link:#0550ae;
--good:#116329;--good-paper:#dafbe1;--warning:#7a4d00;--warning-paper:#fff8c5;--bad:#a40e26;--bad-paper:#ffebe9;
--series0:#1f6feb;--series1:#b35900;--series2:#2c7d59;--series3:#8250df;--area:#1f6feb33}
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--raised:#161b22;--ink:#e6edf3;--dim:#9ea7b3;--rule:#3d444d;
--link:#79c0ff;--good:#7ee787;--good-paper:#12261e;--warning:#f2cc60;--warning-paper:#2b2210;--bad:#ffa198;
--bad-paper:#301418;--series0:#58a6ff;--series1:#f0883e;--series2:#56d4a0;--series3:#bc8cff;--area:#58a6ff33}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.5rem;max-width:80rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
h1{margin:0;font-size:1.75rem;line-height:1.25}
h2{margin:2.5rem 0 .75rem;font-size:1.25rem;border-bottom:1px solid var(--rule);padding-bottom:.25rem}
p{margin:.5rem 0;max-width:48rem}
.lead,.remark,small,footer{color:var(--dim)}
.lead{margin:.25rem 0 1.5rem}
footer{margin-top:3rem;padding-top:.75rem;border-top:1px solid var(--rule);font-size:.875rem}
dl,dd,figure,ul{margin:0}
main>ul,section>ul,details>ul{padding-left:1.25rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.75rem}
.tiles>div{background:var(--raised);border:1px solid var(--rule);border-radius:.5rem;padding:.75rem 1rem}
.tiles dt{color:var(--dim);font-size:.875rem}
.tiles dd{font-size:1.5rem;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.3}
.tiles dd.remark{font-size:.875rem;font-weight:400}
.facts>div{display:grid;grid-template-columns:minmax(8rem,14rem) 1fr;gap:.25rem 1rem;padding:.25rem 0;
border-bottom:1px solid var(--rule)}
.facts{margin:.75rem 0}
.facts dt{color:var(--dim)}
.note{padding:.5rem .75rem;border-left:.25rem solid var(--dim);background:var(--raised);border-radius:.25rem}
.note.good{border-color:var(--good);background:var(--good-paper)}
.note.warning{border-color:var(--warning);background:var(--warning-paper)}
.note.bad{border-color:var(--bad);background:var(--bad-paper)}
.badge{display:inline-block;padding:0 .5rem;border:1px solid currentColor;border-radius:1rem;font-size:.875rem;
color:var(--dim)}
.badge.good{color:var(--good);background:var(--good-paper)}
.badge.warning{color:var(--warning);background:var(--warning-paper)}
.badge.bad{color:var(--bad);background:var(--bad-paper)}
.table{overflow-x:auto;border:1px solid var(--rule);border-radius:.5rem;margin:.75rem 0}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:.9375rem}
caption{text-align:left;padding:.5rem .75rem;color:var(--dim)}
th,td{padding:.375rem .75rem;text-align:left;vertical-align:top;border-top:1px solid var(--rule);
overflow-wrap:normal}
thead th{background:var(--raised);vertical-align:bottom;white-space:nowrap}
thead small{display:block;font-weight:400}
tbody th{font-weight:500;min-width:14rem;overflow-wrap:anywhere}
tfoot th,tfoot td{font-weight:600;border-top:2px solid var(--dim)}
th:first-child{position:sticky;left:0;background:var(--paper)}
thead th:first-child{background:var(--raised)}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{margin:.5rem 0;padding:.75rem;overflow-x:auto;background:var(--raised);border:1px solid var(--rule);
border-radius:.5rem;font:.875rem/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;overflow-wrap:normal}
.diff ins,.diff del{text-decoration:none}
.diff ins{color:var(--good);background:var(--good-paper)}
.diff del{color:var(--bad);background:var(--bad-paper)}
details{margin:.5rem 0}
td details{margin:0}
summary{cursor:pointer;color:var(--link)}
.hidden{position:absolute}
figure{margin:1rem 0}
figcaption{font-weight:600}
figcaption small{font-weight:400}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;list-style:none;margin:.25rem 0 .75rem;
font-size:.875rem}
.swatch{width:.75rem;height:.75rem;margin-right:.375rem}
.bar{display:grid;grid-template-columns:minmax(6rem,14rem) 1fr minmax(5rem,auto);gap:.25rem 1rem;align-items:center;
padding:.1875rem 0}
.bar svg{width:100%;height:1.125rem;background:var(--raised)}
.series0{fill:var(--series0)}.series1{fill:var(--series1)}.series2{fill:var(--series2)}.series3{fill:var(--series3)}
.unknown{fill:url(#hatch)}.hatch{fill:var(--dim)}
.free{fill:var(--raised);stroke:var(--dim)}
.pools>div{display:grid;grid-template-columns:repeat(auto-fit,minmax(16rem,1fr));gap:0 1.5rem}
.pools h3{margin:1rem 0 0;font-size:1rem}
.pools figure{margin:.5rem 0}
.pools figcaption{font-weight:400;font-size:.875rem;color:var(--dim)}
.pools ul{display:flex;flex-wrap:wrap;gap:.5rem 1rem;list-style:none;padding:0;margin:.25rem 0}
.pools li{display:grid;font-size:.8125rem}
.spark{width:8rem;height:1.5rem;vertical-align:middle}
.line{fill:none;stroke:var(--series0);stroke-width:2;stroke-linecap:round;vector-effect:non-scaling-stroke}
.area{fill:var(--area)}
.grid{fill:none;stroke:var(--rule);vector-effect:non-scaling-stroke}
.plot{display:grid;grid-template-columns:auto 1fr auto;column-gap:.5rem;font-size:.8125rem;color:var(--dim)}
.plot svg{grid-area:1/2/3/4;width:100%;height:9rem}
.plot .top{grid-area:1/1;text-align:right}.plot .low{grid-area:2/1;text-align:right;align-self:end}
.plot .start{grid-area:3/2}.plot .end{grid-area:3/3}
@media (max-width:40rem){body{padding:1rem}h1{font-size:1.375rem}
.tiles{grid-template-columns:repeat(auto-fit,minmax(8rem,1fr))}.tiles dd{font-size:1.25rem}
.facts>div{grid-template-columns:1fr;gap:0}
.bar{grid-template-columns:1fr auto}.bar svg{grid-area:2/1/3/3}
tbody th{min-width:7rem;max-width:10rem}.plot svg{height:7rem}}
@media print{body{max-width:none;padding:0}.table{overflow:visible}section{break-inside:avoid-page}}
"""
