# SPDX-License-Identifier: BSD-2-Clause
"""Durations and times as options give them: the same ones in each option. Pure."""

from __future__ import annotations

import re

from .kube.times import read_time

_DURATION = re.compile(r"(?:(\d{1,5})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s?)?")
_UNITS = (604_800, 86_400, 3_600, 60, 1)
# Seconds, of jobs. Five minutes of the shortest one are for a last checkpoint.
SHORTEST_TIME_LIMIT, LONGEST_TIME_LIMIT = 15 * 60, 366 * 86_400
# YAML turns an unquoted time into a datetime, which reaches the module with a space in it.
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_BLANK = re.compile(r"(?<=\d) (?=\d)")


class InvalidTime(ValueError):
    """The text is for the user."""


def seconds_of(text: str) -> int | None:
    """The seconds of ``90``, ``10m``, ``1h30m``, ``2d`` or ``4w``; None for what is no duration, and 0 for nothing."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    return sum(int(number or 0) * unit for number, unit in zip(found.groups(), _UNITS, strict=True))


def duration(name: str, text: str) -> float:
    """The seconds of an option. Raises InvalidTime for what is no duration, and for 0."""
    seconds = seconds_of(text.strip())
    if not seconds:
        raise InvalidTime(f"O({name}): not a duration: {text}. Use one such as 90s, 10m, 1h30m, 2d or 4w.")
    return float(seconds)


def moment(name: str, text: str, now: float) -> float:
    """The time of ``-2h``, ``now``, a date in UTC or an RFC 3339 time, in seconds since 1970. Raises InvalidTime."""
    found = _parse_moment(text.strip(), now)
    # What is before 1970 was not meant, and may be before the year 1.
    if found is None or found <= 0:
        raise InvalidTime(f"O({name}): not a time: {text}. Use 2026-08-01, 2026-08-01T12:00:00Z or -2h.")
    return found


def _parse_moment(text: str, now: float) -> float | None:
    if text == "now":
        return now
    if text.startswith("-"):
        seconds = seconds_of(text[1:])
        return now - seconds if seconds else None
    try:
        if _DATE.fullmatch(text):
            text += "T00:00:00Z"
        return read_time(_BLANK.sub("T", text).upper()).timestamp()
    except (ValueError, OverflowError):
        return None
