# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_history_info: the runs of jobs, those that are gone as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ...accelerators.catalog import DEVICES, PARTITIONS, SHARES, catalog
from ...cluster.declared import read_declared
from ...cluster.lookup import namespaces_not_found, not_found
from ...cluster.pod_times import Hold, hold_of
from ...cluster.status import status_of
from ...given_times import InvalidTime
from ...jobs.job_options import JOB_KINDS
from ...jobs.runs.run_history import (
    REPLACED,
    RESULTS,
    UNKNOWN,
    PastRun,
    end_of,
    exit_code_of,
    live_keys,
    read_history,
    run_of_entry,
)
from ...kube.times import read_time, time_as_text
from ...listed_namespaces import ListedNamespacesOptions, in_requested_namespaces, read_permitted
from ...namespaces import allowed_namespaces, listed_namespaces
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from ..fitting_lists import namespaces_left_out
from .past_runs import KnownRuns, read_known_runs, submitter_of, user_of
from .run_times import time_ago

UNFINISHED_RUN = "Running"

Row = Mapping[str, Any]


def recency(row: Row) -> tuple[str, str, bool]:
    """Sorts runs, the latest last. Times are whole seconds: of two runs of a job in one of them, that which was
    replaced is the earlier one."""
    return row["submitted_at"] or "", row["name"], row["result"] != REPLACED


@dataclass(frozen=True, kw_only=True)
class JobHistoryInfoOptions(ListedNamespacesOptions):
    name: str | None = option("str")
    kind: str | None = option("str", choices=list(JOB_KINDS))
    user: str | None = option("str")
    pool: str | None = option("str")
    sweep: str | None = option("str")
    result: list[str] | None = option("list", elements="str", choices=[UNFINISHED_RUN, *RESULTS])
    since: str | None = option("str")
    limit: int = option("int", default=100)
    manifests: bool = option("bool", default=False)
    must_exist: bool = option("bool", default=False)


InfoTask = Task[JobHistoryInfoOptions]


def run(task: InfoTask) -> dict[str, Any]:
    """The runs, the newest first."""
    options, now = task.options, datetime.now(timezone.utc)
    task.require_non_negative("limit")
    try:
        since = time_ago(options.since, now) if options.since else None
    except InvalidTime as problem:
        raise TaskFailed(str(problem)) from None
    task, own = in_requested_namespaces(task)
    task, known = read_permitted(task, _known_runs)
    read_declared(task.client(), task.warn)
    found = list(history_rows(known, now))
    ends, every = {row["uid"]: end for row, end in found}, [row for row, _end in found]
    named = _runs_named(options.name, every, known) if options.name else every
    if options.must_exist and not named:
        _require_name(task, every)
    rows = [row for row in named if _matches_filters(row, options, since, ends[row["uid"]])]
    rows.sort(key=recency, reverse=True)
    shown = rows[: options.limit] if options.limit else rows
    if not options.manifests:
        shown = [{**row, "manifest": None} for row in shown]
    result = {"changed": False, "namespace": own, "results": shown, "total": len(rows)}
    if options.name and named and not rows:
        names = {row["name"] for row in named}
        what = f"Job {names.pop()}" if len(names) == 1 else f"Sweep {options.name}"
        result["msg"] = f"{what} has runs, but none that the other options ask for."
    return result


MODULE = ModuleSpec(JobHistoryInfoOptions, run, report="history")


def _known_runs(task: InfoTask) -> KnownRuns:
    return read_known_runs(task.client(), listed_namespaces(task, task.options.namespaces or None))


def _runs_named(name: str, rows: Sequence[dict[str, Any]], known: KnownRuns) -> list[dict[str, Any]]:
    """The runs of the job or the sweep of that name, or else of the job of the pod. Pure."""
    if found := [row for row in rows if name in (row["name"], row["sweep"])]:
        return found
    jobs = {job for job, pods in known.pods.items() if any(pod["metadata"]["name"] == name for pod in pods)}
    return [row for row in rows if (row["namespace"], row["name"]) in jobs]


def _require_name(task: InfoTask, rows: Sequence[Row]) -> None:
    """Raises TaskFailed if what the option ``name`` names does not exist, as far as everything was read."""
    client, options = task.client(), task.options
    if not options.name or namespaces_left_out(client):
        return
    seen = {row["namespace"] for row in rows}
    empty = [place for place in options.namespaces or () if place not in seen]
    names = sorted({row[kind] for row in rows for kind in ("name", "sweep") if row[kind]})
    where = f" in namespace {options.namespaces[0]}" if options.namespaces and len(options.namespaces) == 1 else ""
    advice = f"Neither a job nor a recorded run{where} has that name."
    problems = [
        *namespaces_not_found(client, empty, allowed_namespaces(task)),
        not_found("job", options.name, names, advice),
    ]
    raise TaskFailed("\n".join(problems), not_found=problems)


def history_rows(known: KnownRuns, now: datetime) -> Iterator[tuple[dict[str, Any], float | None]]:
    """A row for each run that is live, in a history or in a ledger; and when it ended, or if it is gone was last known
    to run. Pure."""
    live = {obj["metadata"]["uid"]: obj for obj in known.workloads}
    places = {*known.histories, *known.ledgers, *(obj["metadata"]["namespace"] for obj in known.workloads)}
    for namespace in sorted(places):
        runs = known.runs(namespace)
        own = {uid: obj for uid, obj in live.items() if obj["metadata"]["namespace"] == namespace}
        for uid, workload in own.items():
            runs.setdefault(uid, _run_of_live(workload, now))
        for name, entry in known.ledgers.get(namespace, {}).items():
            runs.setdefault(entry.uid, run_of_entry(namespace, name, entry))
        for uid, one in runs.items():
            if uid in own:
                row = _live_row(one, own[uid], known)
                yield row, read_time(row["finished_at"]).timestamp() if row["finished_at"] else None
            else:
                yield _gone_row(one, known.visited(namespace)), one.last_known


def _run_of_live(workload: Mapping[str, Any], now: datetime) -> PastRun:
    """A run that is not recorded yet."""
    metadata = {"namespace": workload["metadata"]["namespace"]}
    (found,) = read_history([{"metadata": metadata, "data": live_keys(workload, now)}]).values()
    return found


def _live_row(run: PastRun, workload: Mapping[str, Any], known: KnownRuns) -> dict[str, Any]:
    pods = known.pods_of(workload)
    end = end_of(workload)
    if end and not run.has_ended:
        run.result, run.finished_at, run.exit_code = end.result, end.finished_at, exit_code_of(pods)
    run.started_at = run.started_at or workload.get("status", {}).get("startTime")
    there = {hold.uid: hold for hold in map(hold_of, pods)}
    gone = [hold for hold in run.known_holds(known.visited(run.namespace)) if hold.uid not in there]
    row = _run_row(run, [*there.values(), *gone])
    return {**row, "result": run.result or UNFINISHED_RUN, "status": status_of(workload)}


def _gone_row(run: PastRun, visited: float) -> dict[str, Any]:
    row = _run_row(run, run.known_holds(visited))
    if run.result in (None, UNKNOWN):
        reason = "It no longer exists, and its end was not observed."
        row |= {"result": UNKNOWN, "reason": reason}
    return {**row, "status": None}


def _run_row(run: PastRun, holds: Iterable[Hold]) -> dict[str, Any]:
    now, held = datetime.now(timezone.utc).timestamp(), list(holds)
    starts = [hold.start for hold in held if hold.start is not None]
    # A restarted or preempted run begins again, and its Job says so; what its pods say is the first time.
    started = time_as_text(datetime.fromtimestamp(min(starts), timezone.utc)) if starts else run.started_at
    amounts = [(row, hold.seconds(0.0, now) / 3600 * amount) for hold in held for row, amount in _held_amounts(hold)]
    is_known = bool(held)
    return {
        "name": run.name,
        "namespace": run.namespace,
        "kind": run.kind,
        "uid": run.uid,
        "result": run.result,
        "reason": run.reason,
        "exit_code": run.exit_code,
        "submitted_at": run.submitted_at,
        "started_at": started,
        "finished_at": run.finished_at,
        "duration_seconds": _run_duration(started, run.finished_at),
        "submitted_by": submitter_of(run),
        "user": user_of(run.submitter),
        "pool": run.pool,
        "priority": run.priority,
        "sweep": run.sweep,
        "gpu_type": run.gpu_type,
        "image": run.image,
        "gpu_hours": round(sum(hours for row, hours in amounts if row == DEVICES), 4) if is_known else None,
        "partition_hours": round(sum(hours for row, hours in amounts if row != DEVICES), 4) if is_known else None,
        "gpu_hours_exact": all(hold.exact for hold in held) if is_known else None,
        "preemptions": sum(hold.preempted for hold in held),
        "manifest_digest": run.digest,
        "manifest": run.manifest,
        "manifest_note": run.manifest_note,
        "log": run.log,
    }


def _held_amounts(hold: Hold) -> Iterator[tuple[str, int]]:
    for row, amount in catalog().rows_in(hold.amounts):
        if row.kind in (DEVICES, PARTITIONS, SHARES):
            yield row.kind, amount


def _matches_filters(row: Row, options: JobHistoryInfoOptions, since: datetime | None, end: float | None) -> bool:
    for name in ("kind", "pool", "sweep"):
        if getattr(options, name) and row[name] != getattr(options, name):
            return False
    if options.user and options.user not in (row["user"], row["submitted_by"]):
        return False
    if options.result and row["result"] not in options.result:
        return False
    # A run belongs to the time in which it ran: one that has not ended, to now.
    return since is None or end is None or end >= since.timestamp()


def _run_duration(started: str | None, finished: str | None) -> int | None:
    if not started or not finished:
        return None
    return max(0, int((read_time(finished) - read_time(started)).total_seconds()))
