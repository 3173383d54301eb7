# SPDX-License-Identifier: BSD-2-Clause
"""When jobs that run end, as far as that can be known. Pure.

Trainings: by their deadline, their sweep, or earlier runs. Others: by their time limit, at which gpuctl_expire pauses
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any, NamedTuple

from ...cluster.read_jobs import JobId
from ...cluster.time_limits import end_after, limit_seconds, period_start, recorded_limit
from ...given_times import LONGEST_TIME_LIMIT
from ...jobs.runs.ledger import read_entries
from ...jobs.runs.run_history import read_history
from ...kube.times import read_time
from ...labels import SWEEP, job_name_of

Object = Mapping[str, Any]

DEADLINE, SWEEP_RUNS, LAST_RUNS, AT_LIMIT = "deadline", "sweep", "last_runs", "time_limit"
_RUNS = 5  # The last ones tell more than what a job took months ago.


class JobEnd(NamedTuple):
    """The expected end of a job, and what it is expected by. A deadline is the latest, all else is an estimate."""

    at: datetime
    basis: str


def slim_job(job: Object) -> Object:
    """What of a Job tells when it ends."""
    metadata, status = job["metadata"], job.get("status") or {}
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "sweep": (metadata.get("labels") or {}).get(SWEEP),
        "deadline": limit_seconds(job),
        "started": status.get("startTime"),
        "completed": status.get("completionTime"),
    }


def limited_service(workload: Object, now: datetime) -> tuple[JobId, JobEnd] | None:
    """When a notebook or service ends that runs, from its metadata; None without a limit."""
    limit = recorded_limit(workload)
    end = period_start(workload, now) + timedelta(seconds=limit) if limit else None
    return ((workload["metadata"]["namespace"], job_name_of(workload) or ""), JobEnd(end, AT_LIMIT)) if end else None


def run_lengths(config_map: Object) -> dict[JobId, list[tuple[str, float]]]:
    """Of one ConfigMap of a history: when runs that succeeded have started, and how many seconds they took, by job."""
    found: dict[JobId, list[tuple[str, float]]] = defaultdict(list)
    for run in read_history([config_map]).values():
        if run.result == "Succeeded" and run.started_at and run.finished_at:
            took = _seconds_between(run.started_at, run.finished_at)
            if took is not None:
                found[run.namespace, run.name].append((run.started_at, took))
    return found


def expected_ends(
    jobs: Iterable[Object],
    ledgers: Iterable[Object],
    pod_deadlines: Mapping[JobId, datetime],
    histories: Iterable[Mapping[JobId, Sequence[tuple[str, float]]]] = (),
) -> dict[JobId, JobEnd]:
    """``pod_deadlines``: when Kubernetes ends the pods of a job at the latest, by their own deadline. ``histories`` are
    what ``run_lengths`` has found."""
    jobs = list(jobs)
    lengths: dict[JobId, list[tuple[str, float]]] = defaultdict(list)
    for history in histories:
        for job_id, runs in history.items():
            lengths[job_id] += runs
    sweeps: dict[tuple[str, str], list[float]] = defaultdict(list)
    for job in jobs:
        if job["sweep"] and job["started"] and job["completed"]:
            took = _seconds_between(job["started"], job["completed"])
            if took is not None:
                sweeps[job["namespace"], job["sweep"]].append(took)
    entries = {(one["metadata"]["namespace"]): read_entries(one.get("data") or {}) for one in ledgers}
    found: dict[JobId, JobEnd] = {name: JobEnd(at, DEADLINE) for name, at in pod_deadlines.items()}
    for job in jobs:
        if not job["started"] or job["completed"]:
            continue
        name = job["namespace"], job["name"]
        spans = [(job["deadline"], DEADLINE)]
        if durations := sweeps.get((job["namespace"], job["sweep"] or "")):
            spans.append((median(durations), SWEEP_RUNS))
        entry = entries.get(job["namespace"], {}).get(job["name"])
        if runs := sorted(lengths.get(name, ()))[-_RUNS:]:
            spans.append((median(took for _start, took in runs), LAST_RUNS))
        elif entry and entry.uid != job["uid"] and entry.result == "Succeeded" and entry.finished_at:
            spans.append((_seconds_between(entry.submitted_at, entry.finished_at), LAST_RUNS))
        ends = ((end_after(job["started"], took), basis) for took, basis in spans if took is not None)
        candidates = [*([found[name]] if name in found else []), *(JobEnd(at, basis) for at, basis in ends if at)]
        if candidates:
            found[name] = min(candidates)
    return found


def _seconds_between(since: str, until: str) -> float | None:
    """None if no run takes so long: who may write a ConfigMap in the namespace can write anything."""
    took = (read_time(until) - read_time(since)).total_seconds()
    return took if 0 <= took <= LONGEST_TIME_LIMIT else None
