# SPDX-License-Identifier: BSD-2-Clause
"""When a task shows how far it is."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.reporter import (
    ByteCounter,
    Counter,
    Line,
    ProgressReporter,
    silent,
)


def test_nothing_at_first_and_then_a_line_at_times() -> None:
    times, shown = [100.0], []
    report = ProgressReporter(lambda line: shown.append((times[-1], line)), 30.0, lambda: times[-1])
    for time, due in ((100.1, 1.9), (101.9, 0.1), (102.0, 30.0), (103.0, 29.0), (131.9, 0.1), (140.0, 30.0)):
        times.append(time)
        assert report(f"at {time}") == pytest.approx(due)
    assert shown == [(102.0, "at 102.0"), (140.0, "at 140.0")]


def test_a_line_that_is_not_due_is_not_made() -> None:
    report = ProgressReporter(pytest.fail)
    assert report(lambda: pytest.fail("made")) > 0


def test_what_is_shown_cannot_act_on_the_terminal() -> None:
    times, shown = [0.0], list[str]()
    report = ProgressReporter(shown.append, clock=lambda: times[-1])
    times.append(9.0)
    report("a\x1b[2J\nb")
    assert shown == [r"a\x1b[2J\x0ab"]


def test_how_many_of_several_are_done() -> None:
    lines = list[str]()

    def report(line: Line) -> None:
        lines.append(line if isinstance(line, str) else line())

    counter = Counter(report, 3, "job", "created")
    for _job in range(3):
        counter.add()
    assert lines == [f"{number} of 3 jobs created" for number in (1, 2, 3)]
    Counter(pytest.fail, 1, "job", "created").add()  # A single one has no progress.
    copied = ByteCounter(report, 5 * 2**20)
    copied.add(2**20)
    assert lines[-1] == "1 MiB of 5 MiB copied"
    silent("nothing")
