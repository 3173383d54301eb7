# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_history: record what the cluster says of the runs of jobs, before it forgets.

The tasks of gpuctl_job record what they do themselves. Pods that are preempted or moved, and Jobs whose time to live
passes between two such runs, are only known to a history that is written regularly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ...cluster.declared import read_declared
from ...cluster.pod_times import hold_of
from ...jobs.runs.ledger import Entry, RunResult
from ...jobs.runs.run_history import (
    DELETED,
    MOST_KEPT,
    UNKNOWN,
    HistoryLimits,
    Keys,
    PastRun,
    end_keys,
    end_of,
    exit_code_of,
    gone_keys,
    live_keys,
    log_keys,
    pod_keys,
    read_limits,
    visited_keys,
)
from ...jobs.runs.run_store import outdated_keys, prune, set_limits, write_history
from ...kube.client import Client
from ...kube.errors import KubeError, as_sentence
from ...labels import HISTORY, MAIN_CONTAINER
from ...listed_namespaces import ListedNamespacesOptions, in_requested_namespaces
from ...manifest.problems import number_of
from ...namespaces import listed_namespaces
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from ...wait.job_wait import end_of_log
from .past_runs import KnownRuns, read_known_runs

Object = Mapping[str, Any]

_LOGS = 50  # of one task; the next one reads others


@dataclass(frozen=True, kw_only=True)
class JobHistoryOptions(ListedNamespacesOptions):
    keep_days: int = option("int", default=HistoryLimits().days)
    keep_mebibytes: int = option("int", default=HistoryLimits().mebibytes)
    logs: bool = option("bool", default=True)


HistoryTask = Task[JobHistoryOptions]


def run(task: HistoryTask) -> dict[str, Any]:
    """Returns ``changed``, the numbers of runs by namespace, and ``msg``."""
    options = task.options
    for name in ("keep_days", "keep_mebibytes"):
        if (value := getattr(options, name)) < 1:
            raise TaskFailed(f"O({name}): {value} is below 1. Give 1 or more.")
        if value > MOST_KEPT:
            raise TaskFailed(f"O({name}): {value} is above {MOST_KEPT}. Give {MOST_KEPT} or less.")
    limits = HistoryLimits(options.keep_days, options.keep_mebibytes)
    task, own = in_requested_namespaces(task)
    client, now = task.client(), datetime.now(timezone.utc)
    known = read_known_runs(client, listed_namespaces(task, task.options.namespaces or None))
    read_declared(client, task.warn)
    # By uid: a job that was deleted and created again has the same name, but is another run.
    live = {obj["metadata"]["uid"] for obj in known.workloads}
    places = {*known.histories, *known.ledgers, *(obj["metadata"]["namespace"] for obj in known.workloads)}
    rows, unread = [], _LOGS if options.logs else 0
    for namespace in sorted(places):
        runs = known.runs(namespace)
        keys = observed_keys(known, namespace, runs, now)
        if not task.check_mode:
            logs = _missing_logs(task, known, namespace, runs, unread)
            unread -= len(logs)
            keys |= {key: text for log in logs for key, text in log.items()}
        new = {key: text for key, text in keys.items() if not _is_known(known, namespace, key, text)}
        removed = known.prevented_ends(namespace)
        outdated = outdated_keys(known.histories.get(namespace, ()), runs, limits, now, live)
        began = sum(key.endswith(".was") and key.partition(".")[0] not in runs for key in new)
        rows.append(
            {
                "namespace": namespace,
                "runs": len(
                    {*runs, *(key.partition(".")[0] for key in new)} - {key.partition(".")[0] for key in outdated}
                ),
                "new_runs": began,
                "new_ends": sum(key.endswith(".end") for key in new),
                "removed_runs": len({key.partition(".")[0] for key in outdated}),
                "error": None,
            }
        )
        if not task.check_mode and (new or runs):
            try:
                _write_and_prune(
                    client, known, namespace, {**removed, **outdated, **new, **visited_keys(now)}, limits, now
                )
            except KubeError as error:
                rows[-1]["error"] = as_sentence(error)
    failed = [row for row in rows if row["error"]]
    ends, begun = sum(row["new_ends"] for row in rows), sum(row["new_runs"] for row in rows)
    message = f"{number_of(len(rows), 'namespace')}: {number_of(begun, 'new run')}, {number_of(ends, 'new end')}"
    result = {
        "changed": any(row["new_runs"] or row["new_ends"] or row["removed_runs"] for row in rows),
        "namespace": own,
        "results": rows,
        "msg": message,
    }
    if failed:
        errors = "\n".join(f"namespace {row['namespace']}: {row['error']}" for row in failed)
        raise TaskFailed(f"{errors}\n{message}", **{key: result[key] for key in ("changed", "namespace", "results")})
    return result


MODULE = ModuleSpec(JobHistoryOptions, run, report="recorded_runs")


def observed_keys(known: KnownRuns, namespace: str, runs: Mapping[str, PastRun], now: datetime) -> Keys:
    """What the cluster says of the runs of a namespace: what is live, and what is gone since. Pure."""
    keys: Keys = {}
    visited = known.visited(namespace)
    live = {obj["metadata"]["uid"]: obj for obj in known.workloads if obj["metadata"]["namespace"] == namespace}
    for uid, workload in live.items():
        pods = known.pods_of(workload)
        if uid not in runs:
            keys |= live_keys(workload, now)
        there = set()
        for pod in pods:
            hold = hold_of(pod)
            there.add(hold.uid)
            keys |= pod_keys(uid, hold)
        if uid in runs:
            keys |= _gone_pods(runs[uid], there, visited)
        if (end := end_of(workload)) and not (uid in runs and runs[uid].has_ended):
            started = workload.get("status", {}).get("startTime")
            keys |= end_keys(uid, end, started_at=started, exit_code=exit_code_of(pods))
    entries = {entry.uid: entry for entry in known.ledgers.get(namespace, {}).values()}
    for uid, run in runs.items():
        if uid not in live:
            keys |= _gone_pods(run, set(), visited)
            if not run.has_ended:
                keys |= gone_keys(uid, _end_of_gone(entries.get(uid), run), now)
    return keys


def _gone_pods(run: PastRun, there: set[str], visited: float) -> Keys:
    """Deleted pods whose end was not observed: they held their devices at least until they were last seen."""
    gone = [hold for hold in run.known_holds(visited) if hold.uid not in there and run.holds[hold.uid].end is None]
    return {key: text for hold in gone for key, text in pod_keys(run.uid, hold).items()}


def _end_of_gone(entry: Entry | None, run: PastRun) -> RunResult:
    """How a run ended whose workload no longer exists: as the ledger has it, else unknown."""
    if entry is not None and entry.result:
        return RunResult(entry.result, entry.finished_at)
    return RunResult(UNKNOWN if run.kind in ("training", None) else DELETED)


def _is_known(known: KnownRuns, namespace: str, key: str, text: str) -> bool:
    return any((each.get("data") or {}).get(key) == text for each in known.histories.get(namespace, ()))


def _missing_logs(
    task: HistoryTask, known: KnownRuns, namespace: str, runs: Mapping[str, PastRun], most: int
) -> list[Keys]:
    """The last lines of failed runs whose log is not kept yet, with secrets masked."""
    found: list[Keys] = []
    for workload in known.workloads:
        uid = workload["metadata"]["uid"]
        end = end_of(workload) if workload["metadata"]["namespace"] == namespace else None
        if len(found) >= most or end is None or end.result != "Failed" or (uid in runs and runs[uid].log):
            continue
        pod = _failed_pod(known.pods_of(workload))
        name = pod["metadata"]["name"] if pod else ""
        lines = end_of_log(task, workload, [pod], namespace, name, MAIN_CONTAINER, previous=False) if pod else []
        if lines:
            found.append(log_keys(uid, lines))
    return found


def _failed_pod(pods: Iterable[Object]) -> Object | None:
    """The pod that failed last."""
    failed = [pod for pod in pods if pod.get("status", {}).get("phase") == "Failed"]
    return max(failed, key=lambda pod: hold_of(pod).end or 0.0, default=None)


def _write_and_prune(
    client: Client,
    known: KnownRuns,
    namespace: str,
    keys: Mapping[str, str | None],
    limits: HistoryLimits,
    now: datetime,
) -> None:
    """Write, then remove what is too old."""
    config_maps = known.histories.get(namespace, [])
    head = next((each for each in config_maps if each["metadata"]["name"] == HISTORY), None)
    write_history(client, namespace, keys)
    if read_limits(head) != limits:
        set_limits(client, namespace, limits)
    prune(client, namespace, config_maps, limits, now)
