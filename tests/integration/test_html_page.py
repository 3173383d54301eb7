# SPDX-License-Identifier: BSD-2-Clause
"""The pages of reports in a real browser: they load nothing, fit the screen, and anybody can read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.html_page import html_page
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report import (
    Bar,
    Bars,
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
    Report,
    Section,
    Table,
    Text,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import Column

from .browser import Browser, chromium

pytestmark = pytest.mark.nightly  # A browser takes seconds to start.

_COLUMNS = (
    Column("name", "NAME"),
    Column("status", "STATUS"),
    *(Column(f"c{number}", "GPU-HOURS", numeric=True) for number in range(8)),
    Column("fields", "FIELDS"),
)


def every_block() -> str:
    row = {
        "name": "a-rather-long-name-of-a-training-job-that-does-not-fit",
        "status": "Failed",
        **{f"c{number}": "12,345.6" for number in range(8)},
        "fields": Details("2 fields", ["spec.replicas", "spec.template.spec.containers[main].image"]),
    }
    bars = [
        Bar("team-a", [("busy", 40.0), ("idle", 10.0), ("not known", 5.0)], "55.0"),
        Bar("team-b", [("busy", 4.0), ("idle", 30.0), ("not known", 0.0)], "34.0"),
    ]
    curve = Curve("GPU utilisation", [0.1, 0.5, None, 0.9, 0.95], "%", 1, "61 %", "95 %", "95 %")
    address = "https://example.com/" + "long/" * 30
    return html_page(
        Report(
            "Every block",
            [
                Section(
                    "",
                    [
                        Figures([("Held", "12,345 h", "GPU-hours"), ("Busy", "81 %", ""), ("Cost", "1,234.00", "EUR")]),
                        *(Text(f"A note of level {level}", level) for level in ("good", "warning", "bad")),
                    ],
                ),
                Section(
                    "Words",
                    [
                        Text("A paragraph with <markup> in its text."),
                        Notes(["one", "two"]),
                        Names("Not declared", ["a", "b"]),
                        Groups(
                            [Group("Deployment/team-a/chat", [("spec.replicas: declared 2, live 3", "by kubectl")])]
                        ),
                        Facts("Job", [("status", "Status", "Running"), ("url", "An address", address)]),
                        Logs([("The last lines", ["a line of a log " * 30])]),
                    ],
                ),
                Section(
                    "Figures",
                    [
                        Bars("GPU-hours by team", bars, ("busy", "idle", "not known"), unit="GPU-hours"),
                        Curves([curve], "10:00", "11:00"),
                        Table(_COLUMNS, [row, row], "Jobs", totals={"name": "All", "c0": "24,691.2"}),
                    ],
                ),
            ],
            lead="What pages are made of",
            footer="Made by a test",
        )
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(every_block())
    return file


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_page_fits_the_screen_and_is_accessible(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.requests.clear()
    browser.open(page, width=width, dark=dark)
    assert browser.requests == [page.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.accessibility_problems() == []


def test_the_scheme_of_the_system_decides_the_colours(browser: Browser, page: Path) -> None:
    grounds = []
    for dark in (False, True):
        browser.open(page, width=1280, dark=dark)
        grounds.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def test_a_page_asks_for_nothing_even_if_markup_slips_in(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    slipped = '<img src="http://127.0.0.1:9/x.png"><script>document.title = "run"</script>'
    page.write_text(html_page(Report("Safe", [])).replace("</main>", f"{slipped}</main>"))
    browser.open(page, width=1280)
    assert browser.evaluate("document.title") == "Safe"
    loaded = browser.evaluate("performance.getEntriesByType('resource').filter(e => e.transferSize > 0).length")
    assert loaded == 0
