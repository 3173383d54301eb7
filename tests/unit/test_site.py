# SPDX-License-Identifier: BSD-2-Clause
"""The documentation site: its front page, the order of options, and the search for Chinese words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from outside_packages import imported

ROOT = Path(__file__).resolve().parents[2]
docs = imported(ROOT / "tools" / "docs.py")


def row(option: str) -> str:
    return f'  * - .. raw:: html\n\n        <div id="parameter-{option}"></div>\n\n    - text of {option}\n\n'


PAGE = (
    "Title\n\n\nParameters\n----------\n\n.. list-table::\n  :header-rows: 1\n\n  * - Parameter\n    - Comments\n\n"
    + "".join(map(row, ("api_key", "claim", "claim/size", "context", "namespace", "state")))
    + "\n.. Attributes\n\nrest\n"
)


def test_a_modules_own_options_come_first_with_their_suboptions() -> None:
    page = docs.own_options_first(PAGE, ["namespace", "state", "claim"])
    assert re.findall(r"text of (\S+)", page) == ["namespace", "state", "claim", "claim/size", "api_key", "context"]
    assert page.count(".. list-table::") == page.count("  * - Parameter\n") == 2
    assert page.endswith("\n.. Attributes\n\nrest\n")


def test_a_page_without_options_stays_as_it_is() -> None:
    assert docs.own_options_first("Title\n", []) == "Title\n"


def test_required_options_come_first() -> None:
    own = docs.own_options(ROOT / "plugins" / "modules" / "gpuctl_kubeconfig.py")
    assert own[:4] == ["dest", "name", "state", "kind"]


def test_the_navigation_has_the_guides_by_task_and_then_the_reference() -> None:
    sections = [{"title": "Run a job", "toctree": ["guide_x", "playbook_submit"]}]
    text = docs.navigation(sections, ["gpuctl_job_module", "index", "jobs_role"])
    assert re.findall(r":caption: (.*)", text)[:3] == ["Run a job", "Roles", "Modules"]
    assert "   docsite/guide_x\n   submit <docsite/playbook_submit>\n" in text
    assert "   gpuctl_job <gpuctl_job_module>\n" in text


def test_the_front_page_has_three_doors_to_pages_that_exist() -> None:
    text = docs.FRONT.read_text(encoding="utf-8")
    doors = re.findall(r"(?m)^([A-Z][\w ]+)\n-+$", text)
    assert doors == ["Run a job", "Run a cluster", "Automate"]
    guides = re.findall(r":doc:`docsite/(\w+)`", text)
    assert len(guides) == 8
    assert [name for name in guides if not (ROOT / "docs" / "docsite" / "rst" / f"{name}.rst").exists()] == []


@pytest.mark.parametrize(("run", "expected"), [("配额", ["配额"]), ("资源池", ["资源", "源池"]), ("池", ["池"])])
def test_chinese_is_searched_by_pairs(run: str, expected: list[str]) -> None:
    assert imported(ROOT / "tools" / "site_search.py").pairs(run) == expected
