# SPDX-License-Identifier: BSD-2-Clause
"""How long a job may run, by its manifest or its pool. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ... import labels
from ...accelerators.hardware import PoolHardware, UnfitHardware
from ...given_times import seconds_of

if TYPE_CHECKING:
    from ...manifest.job_blocks import JobManifest

_PREFIXES = {"training": "", "notebook": "notebook_"}  # of the keys of a pool; inference and compute are services


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


def pool_limits(kind: str, hardware: PoolHardware) -> tuple[str | None, str | None]:
    """The default and the maximum of a pool for jobs of a kind, as they are declared. One that cannot be read is None,
    because a person may have edited it."""
    prefix = _PREFIXES.get(kind, "service_")
    declared = [hardware.time_limit.get(f"{prefix}{name}", "") for name in ("default", "max")]
    default, most = (text if seconds_of(text) else None for text in declared)
    return default or most, most


def time_limit_of(manifest: JobManifest, hardware: PoolHardware) -> TimeLimit | None:
    """The limit of a job; None if it may run for ever. Raises UnfitHardware for one beyond that of its pool."""
    pool, (default, most) = manifest.resources.pool, pool_limits(manifest.kind, hardware)
    if manifest.job.time_limit is None:
        return TimeLimit(default, pool) if default else None
    limit = TimeLimit(manifest.job.time_limit)
    if most and limit.seconds > (seconds_of(most) or 0):
        problem = f"pool {pool} allows at most {most}: {limit.text}"
        how = ", with checkpoints to go on from" if manifest.kind == "training" else ", and resume the job after it"
        raise UnfitHardware("job.time_limit", problem, f"Use a shorter one{how}")
    return limit


def limit_annotations(manifest: JobManifest, hardware: PoolHardware) -> dict[str, str]:
    """What the workload of a job records of its limit."""
    limit = time_limit_of(manifest, hardware)
    return limit.annotations if limit else {}
