# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.given_times import InvalidTime
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.metrics.metrics_range import (
    Life,
    MetricsRange,
    metrics_range,
)

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z
DAY = 86_400.0


RANGES = {
    "a day by default": (None, None, None, (NOW - DAY, NOW)),
    "what the job has lived of a day": (None, None, Life(NOW - 600), (NOW - 600, NOW)),
    "the last day of a long job": (None, None, Life(NOW - 9 * DAY), (NOW - DAY, NOW)),
    "the last day of a job that has ended": (
        None,
        None,
        Life(NOW - 9 * DAY, NOW - 5 * DAY),
        (NOW - 6 * DAY, NOW - 5 * DAY),
    ),
    "not before the job was created": ("-2h", None, Life(NOW - 3600), (NOW - 3600, NOW)),
    "not after it has ended": ("-2h", None, Life(NOW - 5400, NOW - 3600), (NOW - 5400, NOW - 3600)),
    "as given": ("-2h", "-1h", Life(NOW - DAY), (NOW - 7200, NOW - 3600)),
    "not in the future": ("-1h", "2030-01-01", None, (NOW - 3600, NOW)),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_is_within_the_life_of_the_job(name: str) -> None:
    start, end, life, expected = RANGES[name]
    found = metrics_range(start, end, None, life, NOW)
    assert (found.start, found.end) == expected


@pytest.mark.parametrize(
    ("start", "end", "life", "text"),
    [
        (None, "-2h", Life(NOW - 3600), "the range ends before the job was created"),
        ("-30m", None, Life(NOW - DAY, NOW - 3600), "the range starts after the job has ended"),
        ("-1h", "-2h", None, "O(start) is not before O(end)"),
        ("2001-01-01", None, None, "longer than a year"),
    ],
)
def test_ranges_that_have_nothing(start: str | None, end: str | None, life: Life | None, text: str) -> None:
    with pytest.raises(InvalidTime) as caught:
        metrics_range(start, end, None, life, NOW)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("start", "step", "seconds"),
    [("-1m", "auto", 1), ("-1h", "auto", 30), ("-1d", "auto", 900), ("-30d", "auto", 21_600), ("-1h", "5m", 300)],
)
def test_a_curve_has_some_hundred_points(start: str, step: str, seconds: float) -> None:
    assert metrics_range(start, None, step, None, NOW).step == seconds


def test_too_many_points() -> None:
    with pytest.raises(InvalidTime, match="too many points"):
        metrics_range("-30d", None, "1s", None, NOW)


def test_the_last_point_is_at_the_end() -> None:
    span = MetricsRange(100, 175, 20)
    assert (span.steps, span.first) == (4, 115)
