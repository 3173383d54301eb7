# SPDX-License-Identifier: BSD-2-Clause
"""Which cases there are and which of them a run takes; what is made of their verdicts; running a task in a fork."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import yaml
from chaos.cases import all_cases, sample
from chaos.faults import FAULTS, Case, Group
from chaos.oracle import PROMISES, Violation
from chaos.report import figures, table, write_page
from chaos.runner import Runner, TaskCall
from chaos.scenarios import BY_NAME, SCENARIOS
from chaos.stage import Reference, Verdict

ROOT = Path(__file__).resolve().parents[3]
REFERENCES = {
    "training-new": Reference("training-new", requests=["GET /a", "PATCH /a"]),
    "inference-new": Reference("inference-new", requests=["GET /a", "GET /a", "GET /a"], watches=[3]),
    "pool-move": Reference("pool-move", requests=["PATCH /a"]),
}


def test_a_case_is_named_by_its_id():
    case = Case.parse("training-recreate/reset-after-always/7")
    assert (case.scenario, case.kind.name, case.always, case.k) == ("training-recreate", "reset-after", True, 7)
    assert str(case) == "training-recreate/reset-after-always/7"


@pytest.mark.parametrize("text", ["", "a/b", "a/nothing/1", "a/500/x", "a/500/01"])
def test_what_is_no_case(text: str):
    with pytest.raises(ValueError, match=r"unknown|invalid"):
        Case.parse(text)


def test_every_request_is_struck_by_every_fault():
    cases = {str(case) for case in all_cases(REFERENCES)}
    assert {"training-new/500/1", "training-new/500-always/2", "training-new/kill/2", "training-new/race/1"} <= cases
    assert {case for case in cases if "watch-cut/" in case} == {"inference-new/watch-cut/3"}
    assert {case.split("/")[0] for case in cases if "/skew/" in case} == {"pool-move"}
    assert not {case for case in cases if case.endswith("/0") or "/none/" in case or "slow-always" in case}


def test_a_sample_is_that_of_its_seed():
    wanted = {Group.REQUEST: 20, Group.KILL: 3, Group.RACE: None}
    one, again, other = (sample(all_cases(REFERENCES), wanted, seed) for seed in (1, 1, 2))
    assert one == again != other
    groups = [case.kind.group for case in one]
    assert (groups.count(Group.REQUEST), groups.count(Group.KILL)) == (20, 3)
    assert groups.count(Group.RACE) == sum(case.kind.group is Group.RACE for case in all_cases(REFERENCES))


def test_a_sample_hardly_changes_when_other_cases_come():
    more = {**REFERENCES, "notebook-new": Reference("notebook-new", requests=["GET /b"])}
    one, other = (set(sample(all_cases(each), {Group.REQUEST: 40}, 1)) for each in (REFERENCES, more))
    assert len(one & other) > 25


def verdict(case: str, *oracles: str, reached: bool = True) -> Verdict:
    return Verdict(case, reached, [Violation(oracle, "text") for oracle in oracles], [], 1.0)


VERDICTS = [
    verdict("training-new/500/1"),
    verdict("training-new/500/2", "heals"),
    verdict("training-new/kill/1", "exit"),
    verdict("training-new/reset/1", reached=False),
]


def test_figures_count_what_was_struck():
    assert figures(VERDICTS) == [("faults", 2, 1), ("kills", 1, 0), ("races", 0, 0)]
    assert "1 cases ended before" in table(VERDICTS)


def test_figures_replace_those_of_the_same_command_on_such_a_cluster(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures -->\nnone yet\n<!-- end of figures -->\nafter\n")
    write_page(page, VERDICTS, "simulated clusters", "make chaos-short")
    write_page(page, VERDICTS[:1], "a real API server", "make chaos-short")
    write_page(page, VERDICTS[:1], "simulated clusters", "make chaos-short")
    assert page.read_text().splitlines() == [
        "before",
        "<!-- figures -->",
        "| command | on | faults | kills | races |",
        "|---|---|---|---|---|",
        "| `make chaos-short` | a real API server | 1 of 1 |  |  |",
        "| `make chaos-short` | simulated clusters | 1 of 1 |  |  |",
        "<!-- end of figures -->",
        "after",
    ]


def test_the_short_run_applies_no_jobs_concurrently():
    """The order of their requests is another one in every run."""
    cases = [Case.parse(text) for text in yaml.safe_load((ROOT / "tests" / "chaos" / "short.yaml").read_text())]
    assert [str(case) for case in cases if case.scenario.startswith("batch")] == []
    assert {case.kind.group for case in cases} == set(Group)


def test_scenarios_are_named_once_and_begin_where_they_keep_something():
    assert len(BY_NAME) == len(SCENARIOS)
    assert [each.name for each in SCENARIOS if each.keeps and not each.setup] == []


def test_the_page_on_reliability_lists_every_promise_and_fault():
    page = (ROOT / "docs" / "reliability.md").read_text()
    assert [text for text in PROMISES.values() if text not in page] == []
    assert [name for name in FAULTS if name != "none" and f"`{name}`" not in page] == []


@pytest.fixture(scope="module")
def runner() -> Runner:
    return Runner()


def test_a_task_in_a_fork(runner: Runner):
    outcome = runner.run(TaskCall("gpuctl_job", {"state": "present"}))
    assert outcome.failed
    assert "is required" in outcome.message
    outcome = runner.run(TaskCall("gpuctl_job", {"definition": {"kind": "training"}}))
    assert "job: required" in outcome.message or "job" in outcome.message


def test_a_task_that_is_killed_has_no_result(runner: Runner):
    pid = runner.start(TaskCall("gpuctl_job", {"state": "present"}))
    os.kill(pid, signal.SIGKILL)
    assert runner.wait().killed
