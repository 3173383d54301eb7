# SPDX-License-Identifier: BSD-2-Clause
"""What `make chaos` does where a case cannot be played, and what histories are."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from chaos import histories, run, stage
from chaos.faults import Case
from chaos.histories import HistoryVerdict
from chaos.oracle import Violation
from chaos.places import Place
from chaos.runner import Outcome
from chaos.scenarios import BY_NAME, Do, Scenario
from chaos.snapshot import Snapshot
from chaos.stage import Stage

PLAYED, BROKEN = "notebook-new/500/3", "training-new/500/3"


@pytest.mark.parametrize("problem", [AssertionError("the setup fails"), SystemExit("no token")])
def test_a_case_whose_setup_breaks_is_named_and_the_others_are_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, problem: BaseException
) -> None:
    prepare = stage.prepare

    def breaking(scenario: Scenario, place: Place, do: object) -> None:
        if scenario.name == "training-new":
            raise problem
        prepare(scenario, place, do)  # type: ignore[arg-type]

    monkeypatch.setattr(stage, "prepare", breaking)
    arguments = ["--case", BROKEN, "--case", PLAYED, "--workers", "2", "--results", str(tmp_path / "chaos.jsonl")]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        run.main()
    printed = capsys.readouterr().out
    assert ended.value.code == 1
    assert "   1 played,      1 held" in printed, printed
    assert f"2 not played, because what comes before the fault went wrong: {BROKEN}, training-new/none/0" in printed
    assert str(problem) in printed


def test_a_history_is_the_same_each_time_and_another_one_by_its_number() -> None:
    one, again, other = ([str(turn) for turn in histories.turns_of(name)] for name in ("1:1", "1:1", "1:2"))
    assert one == again != other


def test_histories_have_every_fault() -> None:
    turns = [turn for name in histories.names(100, 1) for turn in histories.turns_of(name)]
    assert {turn.fault.name for turn in turns if turn.fault} == {fault.name for fault in histories.OF_HISTORIES}
    assert {turn.act.options.get("state") for turn in turns if isinstance(turn.act, Do)} >= {"paused", "absent"}


def test_a_pod_that_the_records_lack_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of a history without any fault are right; without a record of what is deleted, they are not."""
    smallest = [
        histories.Turn("apply solo", histories.job(histories._JOBS["solo"](1)), 1),
        histories.Turn("delete solo", histories.job(name="solo", state="absent"), 5),
    ]
    monkeypatch.setattr(histories, "turns_of", lambda name: smallest)
    found = Stage()
    try:
        right = histories.play(found, "1:1")
        forget = histories.Turn("forget", _forget, 1)
        monkeypatch.setattr(histories, "turns_of", lambda name: [*smallest, forget])
        wrong = histories.play(found, "1:1")
    finally:
        found.close()
    assert (right.wrong, round(right.hours)) == ([], 5)
    assert wrong.wrong == ["solo: 0.00 GPU-hours, and its pods ran 5.00"]
    assert histories.has_failed([wrong])
    assert not histories.has_failed([right])


def _forget(place: Place) -> None:
    place.api.delete("configmap", "gpuctl-history", place.names["@ns"])


def test_the_figures_of_histories() -> None:
    verdicts = [
        HistoryVerdict("1:1", tasks=4, struck=2, killed=1, hours=10.0),
        HistoryVerdict("1:2", tasks=3, hours=5.0, wrong=["solo: 1.00 GPU-hours, and its pods ran 5.00"]),
        HistoryVerdict("1:3", tasks=2, hours=1.0, unknown=["the history of jobs is not up to date"]),
    ]
    *lines, last = histories.summary(verdicts)
    assert lines[0] == "WRONG 1:2 solo: 1.00 GPU-hours, and its pods ran 5.00"
    assert lines[-1].endswith('make chaos ARGS="--history 1:2"')
    assert last == (
        "3 histories, 9 tasks, 2 faults, of which 1 ended the task; 16 GPU-hours: 1 right, "
        "1 not known, as a task said, 1 wrong."
    )


@pytest.mark.parametrize(("late", "plays"), [(0, 1), (2, 3), (99, 5)])
def test_a_case_is_played_again_where_the_server_itself_was_too_late(
    monkeypatch: pytest.MonkeyPatch, late: int, plays: int
) -> None:
    """What is broken then is no measure; where it is so each time, it counts."""
    played: list[int] = []

    def play(_self: Stage, case: Case, _reference: stage.Reference) -> stage.Verdict:
        played.append(len(played))
        return stage.Verdict(str(case), True, [Violation("exit", "no")], [], 1.0, overloaded=len(played) <= late)

    monkeypatch.setattr(Stage, "_play", play)
    bare = Stage.__new__(Stage)
    verdict = bare.play(Case.parse(PLAYED), stage.Reference("notebook-new"))
    assert len(played) == plays
    assert verdict.violations


@pytest.mark.parametrize("first", [Outcome(None), Outcome({"msg": "cannot reach the API server x"}, failed=True)])
def test_a_race_is_not_measured_by_runs_that_had_no_answer(monkeypatch: pytest.MonkeyPatch, first: Outcome) -> None:
    """On a busy machine a run without any fault may not end in its time: what it leaves is not what is right."""
    done = Outcome({"msg": "1 job: 1 create"})
    outcomes = iter([first, done, done, done])
    bare = Stage.__new__(Stage)
    monkeypatch.setattr(Stage, "_place", lambda _self, _scenario: nullcontext())
    monkeypatch.setattr(Stage, "_run", lambda _self, _do, _place: (next(outcomes), []))
    monkeypatch.setattr(stage, "prepare", lambda *_arguments: None)
    monkeypatch.setattr(stage, "_at_rest", lambda _place: Snapshot.of([]))
    scenario = BY_NAME["inference-new"]
    assert bare._serial(scenario, [scenario.action, scenario.rivals[0]]) == ({}, True)
    assert next(outcomes, None) is None, "both were played again"
