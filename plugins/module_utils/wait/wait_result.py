# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What the waiting for jobs has found, if there was any. Beside it and not in it: most tasks wait for nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..cluster.live_jobs import JobId


@dataclass(frozen=True)
class WaitResult:
    """What the waiting for ``jobs`` has found: why those that do not run do not, and ends of logs that may tell more.

    ``problem`` says why it was in vain.
    """

    jobs: Collection[JobId] = ()
    reasons: Mapping[JobId, str] = field(default_factory=dict)
    logs: Mapping[JobId, Sequence[str]] = field(default_factory=dict)
    problem: str | None = None
