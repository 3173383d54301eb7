# SPDX-License-Identifier: BSD-2-Clause
"""The query of ``GET …/pods/<name>/log`` (core/v1 PodLogOptions). Pure."""

from __future__ import annotations

import re
from datetime import datetime

from ..given_times import seconds_of

ALL = -1
"""As a number of lines: all (as in ``kubectl logs --tail``)."""


def log_query(container: str, *, tail: int, since: str | None, previous: bool) -> dict[str, str]:
    """The query for the last ``tail`` lines. Raises ValueError as ``since_query`` does.

    Timestamps are always included: they say up to where a log was read.
    """
    query = {"container": container, "timestamps": "true", **since_query(since)}
    if tail != ALL:
        query["tailLines"] = str(tail)
    if previous:
        query["previous"] = "true"
    return query


def since_query(since: str | None) -> dict[str, str]:
    """``sinceSeconds`` for seconds and durations (``600``, ``10m``, ``1h30m``), ``sinceTime`` for RFC 3339 times.

    Nothing for None and "". Raises ValueError with a message for the user.
    """
    text = (since or "").strip()
    if not text:
        return {}
    seconds = seconds_of(text)
    if seconds is not None:
        if seconds < 1:  # validation.ValidatePodLogOptions
            raise ValueError(f"O(since): {text!r} is too short. Give one second or more.")
        return {"sinceSeconds": str(seconds)}
    time = _TIME.fullmatch(text)
    if time is None or not _is_real(f"{time['date']}T{time['time']}"):
        raise ValueError(
            f"O(since): {text!r} is invalid. Give seconds (600), a duration (10m, 2h, 1h30m, 1d) or a time with its "
            f"zone (2026-01-31T08:00:00Z)."
        )
    return {"sinceTime": f"{time['date']}T{time['time']}{time['fraction'] or ''}{time['zone'].upper()}"}


# YAML turns an unquoted time into a datetime, which reaches the module with a space or a T before the time of day.
_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<time>\d\d:\d\d:\d\d)(?P<fraction>\.\d{1,9})?(?P<zone>[Zz]|[+-]\d\d:\d\d)"
)


def _is_real(moment: str) -> bool:
    try:
        datetime.fromisoformat(moment)
    except ValueError:
        return False
    return True
