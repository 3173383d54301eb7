# SPDX-License-Identifier: BSD-2-Clause
"""A range of time that runs of jobs are in, as options give it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from ...given_times import InvalidTime, moment, seconds_of

THIS_MONTH, LAST_MONTH = "this-month", "last-month"

EXPECTED = (
    f"Use a duration such as 24h, 7d or 4w, {THIS_MONTH} or {LAST_MONTH}, or O(start) and O(end) as 2026-08-01 or "
    f"2026-08-01T12:00:00Z"
)
_LONGEST = timedelta(days=10 * 366)


def usage_range(duration: str | None, start: str | None, end: str | None, now: datetime) -> tuple[datetime, datetime]:
    """From when to when, in UTC; the end is now at the latest. Raises InvalidTime."""
    if duration and (start or end):
        raise InvalidTime("O(range) and O(start) or O(end) are both set. Use one of them.")
    if start or end:
        if not start:
            raise InvalidTime("O(end) without O(start). Set O(start) as well.")
        since, until = _as_time("start", start, now), _as_time("end", end, now) if end else now
    else:
        since, until = _of_duration(duration or "24h", now)
    until = min(until, now)
    if since >= until:
        raise InvalidTime(f"the range is empty: {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC. {EXPECTED}.")
    if until - since > _LONGEST:
        raise InvalidTime(f"the range is longer than ten years: {since:%Y-%m-%d} to {until:%Y-%m-%d}. {EXPECTED}.")
    return since, until


def month_of(time: datetime) -> tuple[datetime, datetime]:
    """The beginning of its month of the calendar, and that of the next one."""
    first = time.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return first, (first + timedelta(days=31)).replace(day=1)


def time_ago(text: str, now: datetime) -> datetime:
    """The beginning of ``7d``, or a time. Raises InvalidTime."""
    if seconds_of(text.strip()):
        text = f"-{text.strip()}"
    try:
        return _as_time("since", text, now)
    except InvalidTime:
        raise InvalidTime(
            f"O(since): not a time: {text}. Use 24h, 7d, 4w, 2026-08-01 or 2026-08-01T12:00:00Z."
        ) from None


def _of_duration(text: str, now: datetime) -> tuple[datetime, datetime]:
    month, _next = month_of(now)
    if text == THIS_MONTH:
        return month, now
    if text == LAST_MONTH:
        return month_of(month - timedelta(days=1))
    seconds = seconds_of(text.strip())
    if not seconds or text.strip().isdecimal():  # A bare number is not meant as seconds since 1970.
        raise InvalidTime(f"O(range): not a range: {text}. {EXPECTED}.")
    return now - min(timedelta(seconds=seconds), timedelta(seconds=now.timestamp())), now


def _as_time(name: str, text: str, now: datetime) -> datetime:
    return datetime.fromtimestamp(moment(name, text, now.timestamp()), timezone.utc)
