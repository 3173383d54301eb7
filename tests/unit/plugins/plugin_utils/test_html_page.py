# SPDX-License-Identifier: BSD-2-Clause
"""Pages are well formed, whatever the texts in them, and what is drawn is said in words as well."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import (
    Bar,
    PageColumn,
    badge,
    bar_chart,
    changed_lines,
    code,
    curve,
    disclosure,
    facts,
    html_page,
    items,
    note,
    page_table,
    paragraph,
    section,
    sparkline_svg,
    tiles,
)

HOSTILE = """</style><script>alert(1)</script>" onload='x' & ü"""
COLUMNS = (PageColumn("name", HOSTILE), PageColumn("hours", "Held", HOSTILE, numeric=True))


def parsed(block: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<x>{block}</x>")


@pytest.mark.parametrize(
    "block",
    [
        paragraph(HOSTILE),
        section(HOSTILE, paragraph("a")),
        note(HOSTILE, "bad"),
        badge(HOSTILE),
        items([HOSTILE, badge(HOSTILE)]),
        facts([(HOSTILE, HOSTILE)]),
        tiles([(HOSTILE, HOSTILE, HOSTILE)]),
        code(HOSTILE),
        changed_lines([f"+{HOSTILE}", f"-{HOSTILE}", HOSTILE]),
        disclosure(HOSTILE, paragraph("a"), is_open=False),
        page_table(HOSTILE, COLUMNS, [{"name": HOSTILE, "hours": HOSTILE}], {"name": HOSTILE}),
        bar_chart(HOSTILE, [Bar(HOSTILE, [(HOSTILE, 1.0)], HOSTILE)], [HOSTILE], unit=HOSTILE),
        sparkline_svg([1, None, 2], HOSTILE),
        curve(HOSTILE, [1, 2], label=HOSTILE, unit=HOSTILE, start=HOSTILE, end=HOSTILE),
    ],
    ids=lambda block: block[1:12],
)
def test_no_text_becomes_html(block: str) -> None:
    tree = parsed(block)
    texts = [*tree.itertext(), *(each.get("aria-label", "") for each in tree.iter())]
    assert any(HOSTILE in text for text in texts)
    assert not any("onload" in name for each in tree.iter() for name in each.attrib)
    assert tree.find(".//script") is None


def test_a_page_allows_no_request_and_escapes_its_own_texts() -> None:
    text = html_page(HOSTILE, [paragraph("a")], lead=HOSTILE, footer=HOSTILE)
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 4
    assert "http" not in text.replace("http-equiv", "")


def test_the_first_cell_of_each_row_names_it() -> None:
    tree = parsed(page_table("t", COLUMNS, [{"name": "a", "hours": 2}], {"name": "all", "hours": 2}))
    assert [(each.get("scope"), each.text) for each in tree.findall(".//tbody/tr/*")] == [("row", "a"), (None, "2")]
    assert [each.text for each in tree.findall(".//tfoot/tr/*")] == ["all", "2"]


def test_a_missing_cell_is_empty_and_zero_is_not() -> None:
    tree = parsed(page_table("t", COLUMNS, [{"name": "a"}, {"name": "b", "hours": 0}, {"name": "c", "hours": None}]))
    assert [each.text for each in tree.findall(".//tbody//td")] == [None, "0", None]


def test_bars_have_one_scale_and_a_text() -> None:
    bars = [Bar("a", [("busy", 6.0), ("not known", 2.0)], "8"), Bar("b", [("busy", 4.0)], "4")]
    tree = parsed(bar_chart("t", bars, ("busy", "not known"), unit="GPU-hours"))
    widths = [(each.get("class"), each.get("width")) for each in tree.findall(".//div[@class='bar']//rect")]
    assert widths == [("series0", "75.00"), ("unknown", "25.00"), ("series0", "50.00")]
    drawings = tree.findall(".//svg[@role='img']")
    assert drawings[0].get("aria-label") == "a: busy 6.0, not known 2.0 GPU-hours"


def test_bars_of_nothing_have_no_length() -> None:
    tree = parsed(bar_chart("t", [Bar("a", [("busy", 0.0)], "0")], ("busy",), unit="h"))
    assert [each.get("width") for each in tree.findall(".//div[@class='bar']//rect")] == ["0.00"]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0, 1], "M0.0 19.0L100.0 1.0"),
        ([0, None, 1, 1], "M0.0 19.0L0.0 19.0M66.7 1.0L100.0 1.0"),
        ([None, None], ""),
        ([], ""),
        ([0, 0], "M0.0 19.0L100.0 19.0"),
        ([5], "M0.0 1.0L0.0 1.0"),
    ],
)
def test_a_curve_has_gaps_where_nothing_is_known(values: list[float | None], line: str) -> None:
    path = parsed(sparkline_svg(values, "label")).find(".//path[@class='line']")
    assert path is not None
    assert path.get("d") == line


def test_values_beyond_the_scale_stay_in_the_drawing() -> None:
    path = parsed(sparkline_svg([-5, 200], "label", high=100)).find(".//path[@class='line']")
    assert path is not None
    assert path.get("d") == "M0.0 19.0L100.0 1.0"


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="level: 'red'"):
        badge("x", "red")
