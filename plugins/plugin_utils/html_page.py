# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report as one HTML file that loads nothing. Pure.

Markup.format escapes every value that is not Markup, so nothing from a cluster becomes HTML. The page's own policy
forbids scripts and requests in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from .report import (
    LEVELS,
    STATUS_KEYS,
    Bar,
    Bars,
    Block,
    Curve,
    Curves,
    Details,
    Facts,
    Figures,
    Groups,
    Logs,
    Names,
    Notes,
    Reasons,
    Report,
    Row,
    Section,
    Table,
    Text,
    Value,
)
from .screens import shared_reasons
from .text_table import Column, cell_text

_PAGE = Markup("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{hatch}<header>
<h1>{title}</h1>
{lead}</header>
<main>
{main}
</main>
<footer>{footer}</footer>
</body>
</html>
""")


def html_page(report: Report) -> str:
    lead = Markup('<p class="lead">{}</p>\n').format(report.lead) if report.lead else ""
    sections = (_section(section) for section in report.sections if section.on in ("", "page", "full"))
    main = Markup("\n").join(filter(None, sections))
    style = Markup(Path(__file__).with_suffix(".css").read_text(encoding="utf-8").partition("*/")[2])
    return str(_PAGE.format(title=report.title, style=style, hatch=_HATCH, lead=lead, main=main, footer=report.footer))


def _each_value(template: str, values: Iterable[Any], between: str = "") -> Markup:
    """The values, each in the template. A tuple fills several places."""
    filled = Markup(template)
    return Markup(between).join(
        filled.format(*value) if isinstance(value, tuple) else filled.format(value) for value in values
    )


def _section(section: Section) -> Markup:
    blocks = Markup("\n").join(filter(None, map(block_html, section.blocks)))
    title = Markup("<h2>{}</h2>\n").format(section.title) if section.title else ""
    return Markup("<section>\n{}{}\n</section>").format(title, blocks) if blocks else Markup("")


def block_html(block: Block) -> Markup:
    match block:
        case Text():
            return _paragraph(block.text, block.level)
        case Notes():
            return _notes_html(block.texts, block.level)
        case Reasons():
            return _notes_html(shared_reasons(block.rows), "")
        case Names():
            return (
                Markup("<p>{}:</p>\n{}").format(block.text, _notes_html(block.names, "")) if block.names else Markup("")
            )
        case Groups():
            return _each_value(
                "<h3>{}</h3>\n<ul>{}</ul>", ((title, _items_html(items)) for title, items in block.groups)
            )
        case Table():
            return _table_html(block) if block.rows else Markup("")
        case Facts():
            rows = ((name, _cell(key, value)) for key, name, value in block.facts)
            return _list_html("facts", _each_value("<div><dt>{}</dt><dd>{}</dd></div>", rows))
        case Figures():
            figures = ((name, value, _remark(remark)) for name, value, remark in block.figures)
            return _list_html("tiles", _each_value("<div><dt>{}</dt><dd>{}</dd>{}</div>", figures))
        case Bars():
            return _bars_html(block)
        case Curves():
            return _each_value("{}", (_curve_html(curve, block) for curve in block.curves), "\n")
        case Logs():
            code = Markup('<pre tabindex="0"><code>{}</code></pre>')
            return Markup("\n").join(_details(title, code.format("\n".join(lines))) for title, lines in block.logs)


def _paragraph(text: str, level: str = "") -> Markup:
    return Markup('<p class="note {}">{}</p>').format(level, text) if level else Markup("<p>{}</p>").format(text)


def _notes_html(texts: Sequence[str], level: str) -> Markup:
    if level:
        return _each_value("{}", (_paragraph(text, level) for text in texts), "\n")
    return Markup("<ul>{}</ul>").format(_each_value("<li>{}</li>", texts)) if texts else Markup("")


def _items_html(items: Iterable[tuple[str, str]]) -> Markup:
    remarks = ((text, Markup("<small>{}</small>").format(remark) if remark else "") for text, remark in items)
    return _each_value("<li>{}{}</li>", remarks)


def _list_html(name: str, rows: Markup) -> Markup:
    return Markup('<dl class="{}">{}</dl>').format(name, rows)


def _remark(text: str) -> Markup:
    return Markup('<dd class="remark">{}</dd>').format(text) if text else Markup("")


def _details(summary: str, block: Markup) -> Markup:
    return Markup("<details><summary>{}</summary>\n{}\n</details>").format(summary, block)


def _table_html(table: Table) -> Markup:
    """A table whose rows have names; on a narrow screen it scrolls, and the names stay."""
    values = {column.key: [row.get(column.key) for row in table.rows] for column in table.columns}
    columns = [column for column in table.columns if column.on != "screen" and column.is_shown(values[column.key])]
    right = {column.key for column in columns if column.is_right(values[column.key])}
    head = _each_value(
        '<th scope="col"{}>{}</th>', ((_number_class(column.key in right), column.title) for column in columns)
    )
    rows = [_row_html(table, columns, right, row) for row in table.rows]
    foot = (
        ""
        if table.totals is None
        else Markup("\n<tfoot>{}</tfoot>").format(_row_html(table, columns, right, table.totals))
    )
    return Markup(
        '<div class="table" role="region" aria-label="{caption}" tabindex="0"><table>\n'
        "<caption>{caption}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>{foot}\n</table></div>"
    ).format(caption=table.caption, head=head, body=Markup("\n").join(rows), foot=foot)


def _row_html(table: Table, columns: Sequence[Column], right: set[str], row: Row) -> Markup:
    named = table.head or columns[0].key
    cells = (
        (
            "th" if key == named else "td",
            Markup(' scope="row"') if key == named else "",
            _number_class(key in right),
            cell,
        )
        for key, cell in ((column.key, _cell(column.key, row.get(column.key))) for column in columns)
    )
    return Markup("<tr>{}</tr>").format(_each_value("<{0}{1}{2}>{3}</{0}>", cells))


def _number_class(is_one: bool) -> Markup:
    return Markup(' class="number"' if is_one else "")


def _cell(key: str, value: Any) -> Markup | str:
    """What is missing is an empty cell."""
    if value in (None, ""):
        return ""
    if isinstance(value, Details):
        return _details(value.summary, _notes_html(value.texts, ""))
    if key in STATUS_KEYS:
        return Markup('<span class="badge {}">{}</span>').format(LEVELS.get(str(value), "neutral"), value)
    return cell_text(value)


def _bars_html(block: Bars) -> Markup:
    """Horizontal bars to one scale."""
    longest = max((sum(value for _name, value in each.segments) for each in block.bars), default=0.0) or 1.0
    classes = {
        name: "unknown" if name == "not known" else f"series{number % _SERIES}"
        for number, name in enumerate(block.legend)
    }
    keys = _each_value(
        '<li><svg class="swatch" aria-hidden="true" viewBox="0 0 10 10"><rect class="{}" width="10" height="10"/></svg>'
        "{}</li>",
        ((classes[name], name) for name in block.legend),
    )
    return Markup(
        '<figure class="bars"><figcaption>{} <small>{}</small></figcaption>\n'
        '<ul class="legend">{}</ul>\n<div>\n{}\n</div></figure>'
    ).format(
        block.caption,
        block.unit,
        keys,
        Markup("\n").join(_bar_html(each, classes, longest, block) for each in block.bars),
    )


def _bar_html(row: Bar, classes: Mapping[str, str], longest: float, block: Bars) -> Markup:
    parts, start = [], 0.0
    for name, value in row.segments:
        width = 100 * max(value, 0.0) / longest
        parts.append((classes[name], f"{start:.2f}", f"{width:.2f}"))
        start += width
    said = ", ".join(f"{name} {value:,.1f}" for name, value in row.segments)
    return Markup(
        '<div class="bar"><span>{}</span><svg role="img" aria-label="{}" viewBox="0 0 100 10" '
        'preserveAspectRatio="none">{}</svg><span class="number">{}</span></div>'
    ).format(
        row.label,
        f"{row.label}: {said} {block.unit}",
        _each_value('<rect class="{}" x="{}" y="0" width="{}" height="10"/>', parts),
        row.text,
    )


def _curve_html(curve: Curve, block: Curves) -> Markup:
    """A curve with its scale, over the width of the page, and what it shows in words."""
    values = [float(value) for value in curve.values if value is not None]
    top = (curve.high if curve.high is not None else max(values, default=0.0)) or 1.0
    return Markup(
        '<figure class="curve"><figcaption>{title}</figcaption>\n'
        '<div class="plot"><span class="top">{top} {unit}</span><span class="low">0</span>'
        '<svg role="img" aria-label="{title}: {said}" viewBox="0 0 1000 100" preserveAspectRatio="none">'
        '<path class="grid" d="M0 0.5H1000M0 50H1000M0 99.5H1000"/>{line}</svg>'
        '<span class="start">{start}</span><span class="end">{end}</span></div>\n<p class="remark">{said}</p></figure>'
    ).format(
        title=curve.title,
        top=short_number(top),
        unit=curve.unit,
        said=f"{curve.average} on average, {curve.peak} at most, {curve.last} at the end",
        line=_line_paths(curve.values, top),
        start=block.start,
        end=block.end,
    )


def _line_paths(values: Sequence[Value], top: float) -> Markup:
    """The line and the area below it, in pieces between the gaps. A value alone becomes a short line."""
    step = 1000 / max(len(values) - 1, 1)
    lines: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            share = min(max(value / top, 0.0), 1.0)
            lines[-1].append(f"{number * step:.1f} {1 + 98 * (1 - share):.1f}")
    pieces = [line if len(line) > 1 else [line[0], line[0]] for line in lines if line]
    strokes = "".join("M" + "L".join(piece) for piece in pieces)
    areas = "".join(
        f"M{piece[0].split()[0]} 100L" + "L".join(piece) + f"L{piece[-1].split()[0]} 100Z" for piece in pieces
    )
    return Markup('<path class="area" d="{}"/><path class="line" d="{}"/>').format(areas, strokes)


def short_number(value: float) -> str:
    """Three digits, or all before the point: ``0.5``, ``71.3``, ``12,345``."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


_SERIES = 4

# What is not known has a pattern, not a colour of its own. Every drawing of the page may refer to it.
_HATCH = Markup(
    '<svg class="hidden" aria-hidden="true" width="0" height="0"><defs><pattern id="hatch" width="2" height="2" '
    'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="1" height="2" class="hatch"/></pattern>'
    "</defs></svg>\n"
)
