# SPDX-License-Identifier: BSD-2-Clause
"""Read what the pods of a job have written: gpuctl_job_log without ``follow``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from ...cluster.lookup import pods_of_job_or_pod, sweep_text
from ...cluster.pod_status import pod_status
from ...cluster.read_jobs import ByJob, JobId, read_pods
from ...cluster.read_nodes import read_node
from ...cluster.secret_references import referenced_secret_values
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.container_log import read_log
from ...kube.errors import ApiError, cut, if_allowed
from ...kube.resources import DEPLOYMENT, JOB, STATEFUL_SET
from ...labels import JOB_TYPE, MAIN_CONTAINER, job_name_of
from ...logs.host_file import HostFile, parse_mode
from ...logs.log_grep import Grep, GrepFailed
from ...logs.log_history import ServedLog, missing_message, rotated_message, started_at
from ...logs.log_lines import Excerpt, View, last_lines, split_log, stream_lines
from ...logs.log_pods import choose_pods, not_started_message, sort_pods
from ...logs.log_query import ALL, log_query
from ...manifest.problems import number_of
from ...namespaces import NamespaceOptions, allowed_namespaces, named_job
from ...options import option
from ...redaction import SHORTEST_SECRET, live_secret_values
from ...task import Task, TaskFailed
from ..jobs.absence import NoPods, named_sweep, not_started_reasons
from .silence import silence_text

_AT_ONCE = 8  # pods; fewer than the connections that the client keeps


@dataclass(frozen=True, kw_only=True)
class JobLogOptions(NamespaceOptions):
    name: str = option("str", required=True)
    namespace: str | None = option("str")
    pod: str | None = option("str")
    container: str = option("str", default=MAIN_CONTAINER)
    tail: int = option("int", default=100)
    since: str | None = option("str")
    previous: bool = option("bool", default=False)
    grep: str | None = option("str")
    timestamps: bool = option("bool", default=False)
    limit_bytes: int = option("int", default=262_144)
    dest: str | None = option("path")
    mode: Any = option("raw")
    follow: bool = option("bool", default=False)


def run(task: Task[JobLogOptions]) -> dict[str, Any]:
    """Lists the pods of the job, and reads the logs of the selected ones, several at a time.

    Returns ``changed``, ``results``, ``msg`` and, with a file, ``dest``. Raises TaskFailed if there is no pod to read,
    or if no log could be read and that is not because the pods have not started.
    """
    request = log_request(task.options)
    try:
        return _run(task, request)
    except OSError as problem:
        if request.file is None:
            raise
        raise TaskFailed(f"O(dest): {task.options.dest} cannot be written: {problem.strerror or problem}.") from None


def _run(task: Task[JobLogOptions], request: LogRequest) -> dict[str, Any]:
    job = named_job(task)
    pods, secrets = _pods_to_read(task, job, request)
    logs = _read_all(task.client(), pods, request, secrets)
    _explain_not_started(task.client(), logs, request.options.container)
    _explain_silence(task.client(), logs)
    _raise_or_warn(task, logs)
    excerpts = [log.excerpt for log in logs if log.excerpt]
    lines = sum(excerpt.count for excerpt in excerpts)
    return {
        "changed": _write_logs(task, request, logs),
        "results": [log.row for log in logs],
        "msg": f"{number_of(lines, 'line')} of {number_of(len(excerpts), 'pod')}",
        **({"dest": task.options.dest} if request.file else {}),
    }


# -- options ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogRequest:
    """The options, with those parsed that need it. ``query`` goes to the server, which follows no log here."""

    options: JobLogOptions
    query: Mapping[str, str]
    file: HostFile | None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the number of lines is limited: what is missing then was not left out by an option."""
        return not (self.options.since or self.options.grep or self.options.previous)

    @property
    def streams(self) -> bool:
        """Whether lines go to the file as they arrive, which requires that only the server counts them."""
        return self.file is not None and (not self.options.grep or self.options.tail == ALL)


def log_request(options: JobLogOptions) -> LogRequest:
    """Raises TaskFailed with all mistakes in the options, before any request."""
    mistakes: list[str] = []
    query: dict[str, str] = {}
    file = None
    if options.tail < 1 and options.tail != ALL:
        mistakes.append(f"O(tail): {options.tail} is too small. Give 1 or more, or {ALL} for all lines.")
    try:
        tail = ALL if options.grep else options.tail  # Only lines that match count.
        query = log_query(options.container, tail=tail, since=options.since, previous=options.previous)
    except ValueError as problem:
        mistakes.append(str(problem))
    try:
        re.compile(options.grep or "")
    except (re.error, OverflowError, RecursionError) as problem:
        mistakes.append(f"O(grep): {cut(repr(options.grep), 100)} is not a regular expression: {problem}.")
    if options.limit_bytes < 1:
        mistakes.append(f"O(limit_bytes): {options.limit_bytes} is too small. Give 1 or more.")
    try:
        mode = parse_mode(options.mode)
        file = HostFile(options.dest, mode) if options.dest else None
    except ValueError as problem:
        mistakes.append(str(problem))
    if options.follow:
        mistakes += [
            f"O(follow): cannot be combined with O({name}). Leave one of them out."
            for name in ("dest", "previous")
            if getattr(options, name)
        ]
    if mistakes:
        raise TaskFailed(" ".join(mistakes))
    return LogRequest(options, query, file)


# -- reading ---------------------------------------------------------------------------------------------------------


@dataclass
class _Log:
    """The log of one pod: an excerpt (with a file, its lines are in ``part``), or why there is none."""

    pod: dict[str, Any]
    excerpt: Excerpt | None = None
    part: BinaryIO | None = None
    error: str | None = None
    not_started: bool = False
    silence: str = ""  # what the server said where it could not reach the kubelet, perhaps

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def row(self) -> dict[str, Any]:
        metadata = self.pod["metadata"]
        return {
            "pod": self.name,
            "name": job_name_of(self.pod),
            "namespace": metadata["namespace"],
            "kind": (metadata.get("labels") or {}).get(JOB_TYPE),
            "node": self.pod["spec"].get("nodeName"),
            "status": pod_status(self.pod),
            "lines": self.excerpt.lines if self.excerpt else [],
            "truncated": bool(self.excerpt and self.excerpt.truncated),
            "first_timestamp": self.excerpt.first_timestamp if self.excerpt else None,
            "last_timestamp": self.excerpt.last_timestamp if self.excerpt else None,
            "error": self.error,
        }


def _pods_to_read(
    task: Task[JobLogOptions], job: tuple[str, str], request: LogRequest
) -> tuple[list[dict[str, Any]], set[str]]:
    """The pods to read, and the secrets to mask in their logs. The job may be named by a pod, or by its sweep."""
    client = task.client()
    job, named, found = pods_of_job_or_pod(client, job)
    by_job = {job: found} if found else _pods_of_sweep(task, job)
    pods = [pod for each in by_job.values() for pod in sort_pods(each)]
    secrets = task.masked.union(*(pod_secrets(client, each, own) for each, own in by_job.items() if own))
    try:
        return choose_pods(pods, request.options.pod or named, request.options.container), secrets
    except ValueError as problem:
        raise TaskFailed(f"job {job[1]} in namespace {job[0]}: {problem}") from None


def _pods_of_sweep(task: Task[JobLogOptions], job: JobId) -> ByJob:
    """The pods by job. Raises TaskFailed if it is no sweep, or has none."""
    try:
        jobs = named_sweep(task.client(), job, allowed_namespaces(task))
    except NoPods as reason:
        raise TaskFailed(str(reason)) from None
    pods = read_pods(task.client(), jobs)
    if not any(pods.values()):
        raise TaskFailed(f"{sweep_text(job[1], jobs)} None of them has pods.")
    return dict(sorted(pods.items()))


def pod_secrets(client: Client, job: tuple[str, str], pods: Sequence[Mapping[str, Any]]) -> set[str]:
    """The secrets of the pods. From them, not the workload: the manifest may have changed since they were created.

    Which variables are marked as secret only the workload knows. It is read if there is one that may be.
    """

    def of_pods(marks: Mapping[str, Any]) -> set[str]:
        return {text for pod in pods for text in live_secret_values({"metadata": marks, "spec": {"template": pod}})}

    referenced = referenced_secret_values(client, job[0], (pod["spec"] for pod in pods))
    known = of_pods({}) | referenced
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    values = {each.get("value") or "" for container in containers for each in container.get("env") or ()}
    owners = {owner["kind"] for pod in pods for owner in pod["metadata"].get("ownerReferences") or ()}
    resources = [resource for kind, resource in _WORKLOAD_OF.items() if kind in owners]
    if all(value in known or len(value) < SHORTEST_SECRET for value in values):
        return known
    found = [if_allowed(partial(client.get, resource, *job), None) for resource in resources]
    return known.union(*(of_pods(workload["metadata"]) for workload in found if workload))


# By what owns the pods.
_WORKLOAD_OF = {"Job": JOB, "ReplicaSet": DEPLOYMENT, "StatefulSet": STATEFUL_SET}


def _read_all(client: Client, pods: Sequence[dict[str, Any]], request: LogRequest, secrets: set[str]) -> list[_Log]:
    options = request.options
    with Grep(options.grep or "") as grep:
        view = View(options.limit_bytes, secrets, grep.search if options.grep else None, options.timestamps)
        try:
            return run_concurrently(lambda pod: _read_pod_log(client, pod, request, view), pods, _AT_ONCE)
        except GrepFailed as problem:
            raise TaskFailed(str(problem)) from None


def _read_pod_log(client: Client, pod: dict[str, Any], request: LogRequest, view: View) -> _Log:
    log = _Log(pod)
    if not pod["spec"].get("nodeName"):
        # The server would answer with an empty log (LogLocation in pkg/registry/core/pod/strategy.go).
        log.not_started = True
        return log
    part = request.file.part() if request.file else None
    try:
        log.excerpt = read_log(
            client,
            pod["metadata"]["namespace"],
            log.name,
            request.query,
            lambda pieces: _excerpt(pieces, request, view, part),
        )
        log.part = part
    except ApiError as error:
        if error.is_forbidden:
            raise
        log.not_started = error.status == 400 and "is waiting to start" in error.message
        log.silence = error.message if error.status >= 500 else ""
        log.error = _log_error(error, log.name, request)
    return log


def _excerpt(pieces: Iterator[bytes], request: LogRequest, view: View, part: BinaryIO | None) -> Excerpt:
    """The lines that are wanted; with a file they replace what an interrupted attempt left in ``part``."""
    lines = split_log(pieces, view)
    if part is None:
        return last_lines(lines, request.options.tail, request.options.limit_bytes)
    part.seek(0)
    part.truncate()
    if request.streams:
        return stream_lines(lines, part.write)
    kept = last_lines(lines, request.options.tail, request.options.limit_bytes)
    part.writelines(f"{line}\n".encode() for line in kept.lines)
    return Excerpt([], kept.count, kept.truncated, kept.last_timestamp, kept.first_timestamp)


def _log_error(error: ApiError, pod: str, request: LogRequest) -> str:
    if error.status == 404:
        return f"pod {pod} was deleted, and its log with it"
    if request.options.previous and error.status == 400 and "not found" in error.message:
        return f"container {request.options.container} of pod {pod} was never restarted, so it has no previous log"
    return str(error)


# -- reporting -------------------------------------------------------------------------------------------------------


def _explain_not_started(client: Client, logs: Sequence[_Log], container: str) -> None:
    by_job: dict[tuple[str, str], list[_Log]] = defaultdict(list)
    for log in logs:
        if log.not_started:
            by_job[log.row["namespace"], log.row["name"]].append(log)
    for job, waiting in by_job.items():
        reasons = not_started_reasons(client, job, [log.pod for log in waiting])
        for log in waiting:
            log.error = reasons.get(log.name) or not_started_message(log.pod, container)


def _explain_silence(client: Client, logs: Sequence[_Log]) -> None:
    """The node that is lost, in place of the address that did not answer."""
    silent = [log for log in logs if log.silence]
    names = {log.pod["spec"]["nodeName"] for log in silent}
    nodes = [node for name in sorted(names) for node in read_node(client, name)]
    for log in silent:
        log.error = silence_text(log.pod, nodes, log.silence) or log.error


def _raise_or_warn(task: Task[JobLogOptions], logs: Sequence[_Log]) -> None:
    """Fail if no log could be read and waiting will not help; otherwise warn about those that are missing."""
    failed = [log for log in logs if log.error and not log.not_started]
    if failed and len(failed) == len(logs):
        errors = "; ".join(dict.fromkeys(str(log.error) for log in failed))
        raise TaskFailed(f"no log could be read: {errors}", results=[log.row for log in logs])
    for log in failed:
        task.warn(str(log.error))


def _write_logs(task: Task[JobLogOptions], request: LogRequest, logs: Sequence[_Log]) -> bool:
    """Write the logs one after the other, several under headings as ``tail`` writes them. No log, no write."""
    history = request.file.history() if request.file else None
    read = [(_served_log(log, excerpt, request), log.part) for log in logs if (excerpt := log.excerpt)]
    parts = []
    for served, part in read:
        whole, message = part, rotated_message(served)
        if history and part and request.file and request.is_plain:
            whole, missing = history.extend(served, part, request.file.part(), only=len(read) == 1)
            kept = missing or whole is not part
            message = missing_message(served, str(request.options.dest)) if missing else None if kept else message
        if message and request.is_plain:
            task.warn(message)
        if whole:
            parts.append((f"==> {served.pod} <==\n".encode() if len(read) > 1 else b"", whole))
    if request.file is None or not parts:
        return False
    return request.file.replace(parts, check_mode=task.check_mode)


def _served_log(log: _Log, excerpt: Excerpt, request: LogRequest) -> ServedLog:
    size = log.part.seek(0, 2) if log.part else sum(len(line) for line in excerpt.lines)
    complete = (request.options.tail == ALL or excerpt.count < request.options.tail) and not excerpt.truncated
    return ServedLog(log.name, started_at(log.pod, request.options.container), excerpt.first_timestamp, complete, size)
