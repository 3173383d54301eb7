# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Times as the API server writes them: RFC 3339 in UTC (metav1.Time to the second, metav1.MicroTime to six digits)."""

from __future__ import annotations

from datetime import datetime, timezone


def read_time(text: str) -> datetime:
    """Raises ValueError for what is no such time."""
    # fromisoformat of Python 3.10 does not read the Z; strptime would load what it knows of languages first, which
    # takes longer than a request.
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"{text} is no time of an API server")
    return moment


def now_as_text() -> str:
    """As a MicroTime."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
