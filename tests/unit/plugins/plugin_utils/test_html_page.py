# SPDX-License-Identifier: BSD-2-Clause
"""Pages are well formed, whatever the texts in them, and what is drawn is said in words as well."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import block_html, html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report import (
    Bar,
    Bars,
    Block,
    Curve,
    Curves,
    Details,
    Facts,
    Figures,
    Group,
    Groups,
    Logs,
    Names,
    Notes,
    Reasons,
    Report,
    Section,
    Table,
    Text,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import Column

HOSTILE = """</style><script>alert(1)</script>" onload='x' & {title} ü"""
COLUMNS = (
    Column("name", HOSTILE),
    Column("status", "STATUS"),
    Column("hours", "HELD h", numeric=True),
    Column("age", "AGE", on="screen"),
)


def parsed(block: Block) -> ElementTree.Element:
    return ElementTree.fromstring(f"<x>{block_html(block)}</x>")


def table(*rows: dict[str, object], totals: dict[str, object] | None = None) -> ElementTree.Element:
    return parsed(Table(COLUMNS, rows, "t", totals=totals))


@pytest.mark.parametrize(
    "block",
    [
        Text(HOSTILE),
        Text(HOSTILE, "bad"),
        Notes([HOSTILE]),
        Notes([HOSTILE], "warning"),
        Names(HOSTILE, [HOSTILE]),
        Groups([Group(HOSTILE, [(HOSTILE, HOSTILE)])]),
        Table(COLUMNS, [{"name": HOSTILE, "status": HOSTILE, "hours": HOSTILE}], HOSTILE, totals={"name": HOSTILE}),
        Table(COLUMNS, [{"name": Details(HOSTILE, [HOSTILE])}], "t"),
        Reasons([{"name": HOSTILE, "namespace": HOSTILE, "status": HOSTILE, "reason": HOSTILE}]),
        Facts(HOSTILE, [("status", HOSTILE, HOSTILE), ("image", HOSTILE, HOSTILE)]),
        Figures([(HOSTILE, HOSTILE, HOSTILE)]),
        Bars(HOSTILE, [Bar(HOSTILE, [(HOSTILE, 1.0)], HOSTILE)], [HOSTILE], unit=HOSTILE),
        Curves([Curve(HOSTILE, [1, None, 2], HOSTILE, None, HOSTILE, HOSTILE, HOSTILE)], HOSTILE, HOSTILE),
        Logs([(HOSTILE, [HOSTILE])]),
    ],
    ids=lambda block: type(block).__name__,
)
def test_no_text_becomes_html(block: Block) -> None:
    tree = parsed(block)
    texts = [*tree.itertext(), *(each.get("aria-label", "") for each in tree.iter())]
    assert any(HOSTILE in text for text in texts)
    assert not any("onload" in name for each in tree.iter() for name in each.attrib)
    assert tree.find(".//script") is None


def test_a_page_allows_no_request_and_escapes_its_own_texts() -> None:
    text = html_page(Report(HOSTILE, [Section(HOSTILE, [Text("a")])], lead=HOSTILE, footer=HOSTILE))
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 5
    assert text.count("{title}") == 5
    assert "http" not in text.replace("http-equiv", "")


def test_a_page_has_what_is_for_pages_and_no_empty_sections() -> None:
    shown = [Section(on, [Text(f"on {on}")], on=on) for on in ("page", "screen", "full", "short")]
    text = html_page(Report("t", [*shown, Section("empty", [Notes([]), Table(COLUMNS, [], "t")])]))
    assert [on for on in ("page", "screen", "full", "short", "empty") if f"<h2>{on}</h2>" in text] == ["page", "full"]


def test_the_first_cell_of_each_row_names_it() -> None:
    tree = table({"name": "a", "hours": 2}, totals={"name": "all", "hours": 2})
    assert [(each.get("scope"), each.text) for each in tree.findall(".//tbody/tr/*")] == [
        ("row", "a"),
        (None, None),
        (None, "2"),
    ]
    assert [each.text for each in tree.findall(".//tfoot/tr/*")] == ["all", None, "2"]


def test_another_cell_names_a_row_where_the_table_says_so() -> None:
    tree = parsed(Table(COLUMNS, [{"name": "a", "status": "Failed"}], "t", head="status"))
    assert [each.get("class") for each in tree.findall(".//tbody/tr/th/span")] == ["badge bad"]


def test_a_missing_cell_is_empty_and_zero_is_not() -> None:
    tree = table({"name": "a"}, {"name": "b", "hours": 0}, {"name": "c", "hours": None})
    assert [each.text for each in tree.findall(".//tbody//td[@class='number']")] == [None, "0", None]


def test_bars_have_one_scale_and_a_text() -> None:
    bars = [Bar("a", [("busy", 6.0), ("not known", 2.0)], "8"), Bar("b", [("busy", 4.0)], "4")]
    tree = parsed(Bars("t", bars, ("busy", "not known"), unit="GPU-hours"))
    widths = [(each.get("class"), each.get("width")) for each in tree.findall(".//div[@class='bar']//rect")]
    assert widths == [("series0", "75.00"), ("unknown", "25.00"), ("series0", "50.00")]
    drawings = tree.findall(".//svg[@role='img']")
    assert drawings[0].get("aria-label") == "a: busy 6.0, not known 2.0 GPU-hours"


def test_bars_of_nothing_have_no_length() -> None:
    tree = parsed(Bars("t", [Bar("a", [("busy", 0.0)], "0")], ("busy",), unit="h"))
    assert [each.get("width") for each in tree.findall(".//div[@class='bar']//rect")] == ["0.00"]


@pytest.mark.parametrize(
    ("values", "high", "line"),
    [
        ([0, 1], None, "M0.0 99.0L1000.0 1.0"),
        ([0, None, 1, 1], None, "M0.0 99.0L0.0 99.0M666.7 1.0L1000.0 1.0"),
        ([None, None], None, ""),
        ([], None, ""),
        ([0, 0], None, "M0.0 99.0L1000.0 99.0"),
        ([5], None, "M0.0 1.0L0.0 1.0"),
        ([-5, 200], 100.0, "M0.0 99.0L1000.0 1.0"),
    ],
    ids=["a rise", "a gap", "only gaps", "nothing", "zero", "one value", "beyond the scale"],
)
def test_a_curve_has_gaps_where_nothing_is_known(values: list[float | None], high: float | None, line: str) -> None:
    path = parsed(Curves([Curve("t", values, "", high, "", "", "")], "", "")).find(".//path[@class='line']")
    assert path is not None
    assert path.get("d") == line
