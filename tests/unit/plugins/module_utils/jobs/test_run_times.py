# SPDX-License-Identifier: BSD-2-Clause
"""Ranges of time of the accounts and the history."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.given_times import InvalidTime
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.run_times import time_ago, usage_range


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[misc,arg-type]


NOW = utc(2026, 3, 31, 12)

RANGES = {
    "a day by default": ((None, None, None), (utc(2026, 3, 30, 12), NOW)),
    "hours": (("36h", None, None), (utc(2026, 3, 30), NOW)),
    "weeks": (("4w", None, None), (utc(2026, 3, 3, 12), NOW)),
    "several units": (("1d12h", None, None), (utc(2026, 3, 30), NOW)),
    "this month": (("this-month", None, None), (utc(2026, 3, 1), NOW)),
    "last month": (("last-month", None, None), (utc(2026, 2, 1), utc(2026, 3, 1))),
    "days": ((None, "2026-01-01", "2026-02-01"), (utc(2026, 1, 1), utc(2026, 2, 1))),
    "until now": ((None, "2026-03-31T06:00:00+02:00", None), (utc(2026, 3, 31, 4), NOW)),
    "before now, as for curves": ((None, "-2d", "-1d"), (utc(2026, 3, 29, 12), utc(2026, 3, 30, 12))),
    "not in the future": ((None, "-1h", "2030-01-01"), (utc(2026, 3, 31, 11), NOW)),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range(name: str) -> None:
    options, expected = RANGES[name]
    assert usage_range(*options, NOW) == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("7d", "2026-01-01", None), "both set"),
        ((None, None, "2026-01-01"), "without O(start)"),
        (("yesterday", None, None), "O(range): not a range: yesterday. Use a duration such as 24h"),
        (("7", None, None), "O(range): not a range: 7. "),
        (("0d", None, None), "O(range): not a range: 0d. "),
        (("99999w", None, None), "the range is longer than ten years: 1970-01-01 to 2026-03-31. Use "),
        ((None, "2001-01-01", None), "the range is longer than ten years: 2001-01-01 to "),
        ((None, "2026-02-01", "2026-01-01"), "the range is empty: 2026-02-01 00:00 to 2026-01-01 00:00 UTC. "),
        ((None, "soon", None), "O(start): not a time: soon. Use 2026-08-01, "),
    ],
)
def test_what_is_no_range(options: tuple[str | None, str | None, str | None], text: str) -> None:
    with pytest.raises(InvalidTime) as caught:
        usage_range(*options, NOW)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7d", utc(2026, 3, 24, 12)), ("-7d", utc(2026, 3, 24, 12)), ("2026-03-01", utc(2026, 3, 1))],
)
def test_since(text: str, expected: datetime) -> None:
    assert time_ago(text, NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "99999w", "0001-01-01"])
def test_since_never(text: str) -> None:
    with pytest.raises(InvalidTime, match=r"^O\(since\): not a time: -?[0-9a-z-]+\. Use 24h, "):
        time_ago(text, NOW)
