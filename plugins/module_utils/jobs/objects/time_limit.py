# SPDX-License-Identifier: BSD-2-Clause
"""How long a training may run, by its manifest or its pool. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ... import labels
from ...accelerators.hardware import PoolHardware, UnfitHardware
from ...given_times import seconds_of
from ...manifest.job_models import Training


class TimeLimit(NamedTuple):
    """A limit as it is declared (``12h``). ``pool`` is the one whose default it is, "" if the manifest says it."""

    text: str
    pool: str = ""

    @property
    def seconds(self) -> int:
        return seconds_of(self.text) or 0

    @property
    def annotations(self) -> dict[str, str]:
        return {labels.TIME_LIMIT: self.text, **({labels.TIME_LIMIT_OF: self.pool} if self.pool else {})}


def time_limit_of(manifest: Training, hardware: PoolHardware) -> TimeLimit | None:
    """The limit of a training; None if it may run for ever. Raises UnfitHardware for one beyond that of its pool."""
    pool, limits = manifest.resources.pool, hardware.time_limit
    most = limits.get("max")
    if manifest.job.time_limit is None:
        text = limits.get("default") or most
        return TimeLimit(text, pool) if text and seconds_of(text) else None
    limit = TimeLimit(manifest.job.time_limit)
    if most and limit.seconds > (seconds_of(most) or limit.seconds):
        problem = f"pool {pool} allows at most {most}: {limit.text}"
        raise UnfitHardware("job.time_limit", problem, "Use a shorter one, with checkpoints to go on from")
    return limit
