# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The result of a wait. In its own file because all tasks have one, and most of them do not wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..cluster.live_jobs import JobId


@dataclass(frozen=True)
class WaitResult:
    """Of ``jobs``: why some are not running, the last lines of logs that may tell why, the live workloads, and an error
    for each that did not reach the goal. ``problem`` is the message for all of them; None if there is no error."""

    jobs: Collection[JobId] = ()
    reasons: Mapping[JobId, str] = field(default_factory=dict)
    logs: Mapping[JobId, Sequence[str]] = field(default_factory=dict)
    workloads: Mapping[JobId, dict[str, Any]] = field(default_factory=dict)
    errors: Mapping[JobId, str] = field(default_factory=dict)
    problem: str | None = None
