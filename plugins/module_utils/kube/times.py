# SPDX-License-Identifier: BSD-2-Clause
"""Times of the API server: RFC 3339 in UTC, in seconds (metav1.Time) or microseconds (metav1.MicroTime)."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache

_FRACTION = re.compile(r"\.\d+")


def read_time(text: str) -> datetime:
    """Raises ValueError for anything else."""
    # Python 3.10's fromisoformat accepts neither the Z nor nanoseconds, which logs have. strptime would first load
    # locales, longer than a request takes.
    text = _FRACTION.sub(lambda digits: digits[0][:7].ljust(7, "0"), text) if "." in text else text
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"not an RFC 3339 time: {text}")
    return moment


@lru_cache(maxsize=4096)
def is_time(text: str) -> bool:
    try:
        return bool(read_time(text))
    except ValueError:
        return False


def time_as_text(moment: datetime) -> str:
    """A Time."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_as_text() -> str:
    """A MicroTime."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
