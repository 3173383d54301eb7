# SPDX-License-Identifier: BSD-2-Clause
"""A range of time, as options give it. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from ..kube.times import read_time

_DURATION = re.compile(r"(?P<number>[1-9][0-9]{0,4})(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
THIS_MONTH, LAST_MONTH = "this-month", "last-month"

EXPECTED = (
    f"Use a duration such as 24h, 7d or 4w, {THIS_MONTH} or {LAST_MONTH}, or O(start) and O(end) as 2026-08-01 or "
    f"2026-08-01T12:00:00Z"
)


class InvalidRange(ValueError):
    """The text says why."""


def usage_range(duration: str | None, start: str | None, end: str | None, now: datetime) -> tuple[datetime, datetime]:
    """From when to when, in UTC; the end is now at the latest. Raises InvalidRange."""
    if duration and (start or end):
        raise InvalidRange("O(range) and O(start) or O(end) are both set. Use one of them.")
    if start or end:
        if not start:
            raise InvalidRange("O(end) without O(start). Set O(start) as well.")
        since, until = _time("start", start), _time("end", end) if end else now
    else:
        since, until = _of_duration(duration or "24h", now)
    until = min(until, now)
    if since >= until:
        raise InvalidRange(f"the range is empty: {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC. {EXPECTED}.")
    return since, until


def time_ago(text: str, now: datetime) -> datetime:
    """The beginning of ``7d``, or a time. Raises InvalidRange."""
    return _of_duration(text, now)[0] if _DURATION.fullmatch(text) else _time("since", text)


def _of_duration(text: str, now: datetime) -> tuple[datetime, datetime]:
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if text == THIS_MONTH:
        return month, now
    if text == LAST_MONTH:
        return (month - timedelta(days=1)).replace(day=1), month
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidRange(f"O(range): not a range: {text}. {EXPECTED}.")
    return now - timedelta(**{_UNITS[found["unit"]]: int(found["number"])}), now


def _time(name: str, text: str) -> datetime:
    try:
        if _DAY.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
        return read_time(text).astimezone(timezone.utc)
    except (OverflowError, ValueError):
        forms = "24h, 7d, 4w, 2026-08-01" if name == "since" else "2026-08-01"
        raise InvalidRange(f"O({name}): not a time: {text}. Use {forms} or 2026-08-01T12:00:00Z.") from None
