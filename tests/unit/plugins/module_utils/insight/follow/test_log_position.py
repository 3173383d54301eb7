# SPDX-License-Identifier: BSD-2-Clause
"""Where reading goes on after a broken connection: every line is taken once, however they come again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow import log_position
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.log_position import (
    GAP,
    NEW,
    SEEN,
    LogPosition,
)

Entry = tuple[float, str]  # seconds, text


def raw(entry: Entry) -> tuple[bytes, str]:
    seconds, text = entry
    timestamp = f"2026-01-31T08:00:{int(seconds) + 10:02}.{round(seconds % 1 * 1e9):09}Z"
    return f"{timestamp} {text}".encode(), timestamp


def read(position: LogPosition, entries: Sequence[Entry]) -> list[str]:
    """The texts of the lines that are new."""
    return [entry[1] for entry in entries if position.add(*raw(entry)) == NEW]


def since(position: LogPosition) -> int:
    assert position.since is not None
    return int(position.since[17:19]) - 10


def served(log: Sequence[Entry], second: int) -> list[Entry]:
    """As the kubelet gives it."""
    return [entry for entry in log if entry[0] >= second]


LOGS: dict[str, list[Entry]] = {
    "a line each second": [(number, f"line {number}") for number in range(20)],
    "many lines a second": [(number / 50, f"line {number}") for number in range(500)],
    "equal timestamps": [(number // 10, f"line {number}") for number in range(200)],
    "equal lines": [(number // 10, "same") for number in range(200)],
    "equal lines among others": [(number // 10, f"line {number % 3}") for number in range(200)],
    "two streams out of order": [(number / 7 + (0.9 if number % 2 else 0), f"line {number}") for number in range(100)],
}


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("seed", range(5))
def test_each_line_once_however_often_the_connection_breaks(log: list[Entry], seed: int) -> None:
    choose = random.Random(seed)
    position, found, written = LogPosition(whole=True), [], 0
    while written < len(log):
        written = min(len(log), written + choose.randrange(1, 30))
        position.resume()
        there = served(log[:written], since(position) if position.since else 0)
        # Connections may break before all has come again.
        found += read(position, there[: choose.randrange(len(there) // 2, len(there) + 1)])
    position.resume()
    found += read(position, served(log, since(position)))
    assert found == [text for _seconds, text in log]


def test_the_time_to_go_on_from_leaves_room_for_another_order() -> None:
    position = LogPosition(whole=True)
    assert (position.since, position.is_empty) == (None, True)
    read(position, [(5.9, "a")])
    assert position.since == "2026-01-31T08:00:14Z"


@pytest.mark.parametrize("zone", ["+08:00", "-03:30"])
def test_nodes_have_zones(zone: str) -> None:
    position = LogPosition(whole=True)
    position.add(b"a", f"2026-01-31T08:00:05.123456789{zone}")
    assert position.since == {"+08:00": "2026-01-31T00:00:04Z", "-03:30": "2026-01-31T11:30:04Z"}[zone]


def test_lines_before_the_last_ones_that_were_asked_for_do_not_come_later() -> None:
    log: list[Entry] = [(3.0, f"line {number}") for number in range(10)]
    position = LogPosition(whole=False)
    assert read(position, log[-2:]) == ["line 8", "line 9"]
    position.resume()
    assert read(position, [*log, (3.0, "line 10"), (4.0, "line 11")]) == ["line 10", "line 11"]


def test_what_was_rotated_away_in_between_is_a_gap() -> None:
    position = LogPosition(whole=True)
    read(position, [(1.0, "a"), (2.0, "b")])
    position.resume()
    assert position.add(*raw((9.0, "z"))) == GAP
    assert not position.is_known
    position.skip()
    assert position.add(*raw((9.0, "z"))) == NEW
    position.resume()
    assert position.add(*raw((9.0, "z"))) == SEEN


def test_a_log_that_was_rotated_up_to_known_lines_has_no_gap() -> None:
    position = LogPosition(whole=True)
    read(position, [(1.0, "a"), (1.5, "b"), (2.0, "c")])
    position.resume()
    assert [position.add(*raw(entry)) for entry in ((2.0, "c"), (2.5, "d"))] == [SEEN, NEW]


def test_a_burst_takes_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_position, "_MOST_KEPT", 100)
    log: list[Entry] = [(3.0, f"line {number}") for number in range(1000)]
    position = LogPosition(whole=True)
    assert read(position, log[:950]) == [text for _seconds, text in log[:950]]
    assert len(position._hashes) <= 100
    position.resume()
    assert read(position, log) == [text for _seconds, text in log[950:]]
