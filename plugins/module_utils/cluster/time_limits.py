# SPDX-License-Identifier: BSD-2-Clause
"""When Kubernetes ends a Job at the latest, by its activeDeadlineSeconds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..kube.times import read_time
from ..labels import TIME_LIMIT_OF
from .status import ENDED, status_of

_DEFAULT_GRACE = 30  # seconds (core/v1/defaults.go, SetDefaults_PodSpec)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


def limit_seconds(job: Mapping[str, Any]) -> int | None:
    """How long the pods of a Job may run: until they get SIGTERM, and their grace period; None without a limit."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    if seconds is None:
        return None
    return int(seconds) + int(job["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))


def ends_at(workload: Mapping[str, Any]) -> datetime | None:
    """When a running Job ends at the latest; None without a limit. A paused one starts again with all of its time."""
    started = workload.get("status", {}).get("startTime")
    if workload["kind"] != "Job" or not started or status_of(workload) in (*ENDED, "Paused"):
        return None
    seconds = limit_seconds(workload)
    return None if seconds is None else end_after(started, seconds)


def end_after(started: str, seconds: int) -> datetime | None:
    try:
        return read_time(started) + timedelta(seconds=seconds)
    except OverflowError:  # Kubernetes takes int64.
        return None


def limit_text(job: Mapping[str, Any]) -> str:
    """``12h, the default of pool a100``"""
    seconds = limit_seconds(job) or 0
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds % size == 0), (1, "s"))
    pool = (job["metadata"].get("annotations") or {}).get(TIME_LIMIT_OF)
    return f"{seconds // size}{unit}{f', the default of pool {pool}' if pool else ''}"
