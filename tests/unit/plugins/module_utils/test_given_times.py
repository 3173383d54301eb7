# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.given_times import (
    InvalidTime,
    duration,
    moment,
    seconds_of,
)

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z
DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("4w", 2_419_200), ("1w1d", 691_200)],
)
def test_a_duration(text: str, seconds: int) -> None:
    assert duration("step", f" {text} ") == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "h", "1 h", "1.5h", "1m1h", "-5m", "long", "9" * 12])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidTime, match=r"^O\(grace\): not a duration: .*\. Use one such as 90s, "):
        duration("grace", text)
    assert not seconds_of(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("now", NOW),
        ("-2h", NOW - 7200),
        ("-1d12h", NOW - 1.5 * DAY),
        ("-90s", NOW - 90),
        ("-2", NOW - 2),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14t22:13:20z", NOW),
        ("2023-11-14 23:13:20+01:00", NOW),
        ("2023-11-14", NOW - 80_000),
    ],
)
def test_a_time(text: str, time: float) -> None:
    assert moment("start", text, NOW) == time


@pytest.mark.parametrize(
    "text", ["", "-", "2h", "-0s", "yesterday", "2023-11-14T22:13:20", "9999-99-99", "1066-10-14", "-99999w"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidTime, match=r"^O\(start\): "):
        moment("start", text, NOW)
