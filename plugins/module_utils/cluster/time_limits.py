# SPDX-License-Identifier: BSD-2-Clause
"""When a job ends at its time limit. Pure.

Kubernetes ends a Job, by its activeDeadlineSeconds. It has no deadline for Deployments and StatefulSets, which
gpuctl_expire pauses. Their time counts from a fact that neither restarts of pods nor another submit of the manifest
change: the creation of the workload, or the last resumption. What annotations say may be anybody's: a time that is none
or in the future, and a limit that is none, do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..given_times import LONGEST_TIME_LIMIT, seconds_of
from ..kube.times import read_time, time_as_text
from ..labels import EXPIRED_AT, EXTENDED_LIMIT, RESUMED_AT, TIME_LIMIT, TIME_LIMIT_OF
from .status import ENDED, status_of

_DEFAULT_GRACE = 30  # seconds (core/v1/defaults.go, SetDefaults_PodSpec)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_SKEW = timedelta(minutes=5)  # of the clock of who has resumed a job


def ends_at(workload: Mapping[str, Any], now: datetime | None = None) -> datetime | None:
    """When a running job ends at the latest; None without a limit. A paused one starts again with all of its time."""
    if status_of(workload) in (*ENDED, "Paused"):
        return None
    if workload["kind"] == "Job":
        started, seconds = workload.get("status", {}).get("startTime"), limit_seconds(workload)
        return end_after(started, seconds) if started and seconds is not None else None
    limit = recorded_limit(workload)
    return period_start(workload, now) + timedelta(seconds=limit) if limit else None


def limit_seconds(job: Mapping[str, Any]) -> int | None:
    """How long the pods of a Job may run: until they get SIGTERM, and their grace period; None without a limit."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    return None if seconds is None else int(seconds) + grace_seconds(job)


def grace_seconds(job: Mapping[str, Any]) -> int:
    return int(job["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))


def end_after(started: str, seconds: float) -> datetime | None:
    try:
        return read_time(started) + timedelta(seconds=seconds)
    except OverflowError:  # Kubernetes takes int64.
        return None


# -- services and notebooks --------------------------------------------------------------------------------------------


def period_start(workload: Mapping[str, Any], now: datetime | None = None) -> datetime:
    """Since when the time of a service counts. A resumption after ``now`` does not count."""
    created = read_time(workload["metadata"]["creationTimestamp"])
    resumed = noted_time(workload, RESUMED_AT)
    return max(created, resumed) if resumed and (now is None or resumed <= now + _SKEW) else created


def recorded_limit(workload: Mapping[str, Any]) -> int | None:
    """The seconds that its annotations give a service, with what it was extended to; None if they give no limit."""
    declared = declared_seconds(workload)
    return max(declared, noted_seconds(workload, EXTENDED_LIMIT) or 0) if declared else None


def declared_seconds(workload: Mapping[str, Any]) -> int | None:
    """The limit of the manifest, or of the pool when it was submitted, in seconds."""
    return noted_seconds(workload, TIME_LIMIT)


def noted_seconds(workload: Mapping[str, Any], name: str) -> int | None:
    """The seconds of a duration in an annotation; None for anything else."""
    seconds = seconds_of(_note(workload, name))
    return seconds if seconds and seconds <= LONGEST_TIME_LIMIT else None


def noted_time(workload: Mapping[str, Any], name: str) -> datetime | None:
    """The time in an annotation; None for anything else."""
    try:
        found = read_time(_note(workload, name))
    except ValueError:
        return None
    return found if 1970 < found.year < 9000 else None  # so that other time zones and sums are times, too


def _note(workload: Mapping[str, Any], name: str) -> str:
    return str((workload["metadata"].get("annotations") or {}).get(name, ""))


# -- in words ----------------------------------------------------------------------------------------------------------


def limit_text(workload: Mapping[str, Any]) -> str:
    """``12h, the default of pool a100``, or ``16h, extended``"""
    seconds = (limit_seconds if workload["kind"] == "Job" else recorded_limit)(workload) or 0
    pool = _note(workload, TIME_LIMIT_OF)
    extended = seconds > (declared_seconds(workload) or seconds)
    return f"{span_text(seconds)}{', extended' if extended else f', the default of pool {pool}' if pool else ''}"


def expiry_text(workload: Mapping[str, Any]) -> str | None:
    """Why a service is paused, if it was at its time limit. That may have been its pool's, which it does not record."""
    expired = noted_time(workload, EXPIRED_AT)
    return f"the job reached its time limit and was paused at {time_as_text(expired)}" if expired else None


def span_text(seconds: int) -> str:
    """``12h``, ``90m``: as a manifest gives it."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds % size == 0), (1, "s"))
    return f"{seconds // size}{unit}"
