# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_job_log: what the pods of a job have written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from ..kube.concurrency import run_concurrently
from ..labels import DEFAULT_NAMESPACE, JOB_TYPE, MAIN_CONTAINER, job_name_of
from ..options import Options, option
from ..task import ModuleSpec, Task, TaskFailed

if TYPE_CHECKING:
    from ..kube.client import Client
    from ..kube.errors import ApiError
    from .host_file import HostFile
    from .lines import Excerpt, View

_AT_ONCE = 8  # pods; fewer than the connections that the client keeps


@dataclass(frozen=True, kw_only=True)
class JobLogOptions(Options):
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


def run(task: Task[JobLogOptions]) -> dict[str, Any]:
    """One list of pods, and then the logs of those that were asked for, side by side.

    Returns ``changed``, ``results``, ``msg`` and, with a file, ``dest``. Raises TaskFailed when there is no pod to ask,
    or when every pod refuses for another reason than that it has not started.
    """
    request = _request(task.options)
    job = (task.options.namespace or DEFAULT_NAMESPACE, task.options.name)
    pods, secrets = _pods(task, job, request)
    logs = run_concurrently(lambda pod: _read(task.client(), pod, request, secrets), pods, _AT_ONCE)
    _explain(task.client(), job, logs, request.container)
    _judge(task, logs)
    return {
        "changed": _write(request.file, logs, check_mode=task.check_mode),
        "results": [log.row for log in logs],
        "msg": _summary(logs),
        **({"dest": task.options.dest} if request.file else {}),
    }


MODULE = ModuleSpec(JobLogOptions, run)


# -- what was asked for ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    """The options, understood. ``query`` goes to the server; ``tail`` and ``limit`` count what comes back."""

    pod: str | None
    container: str
    previous: bool
    query: Mapping[str, str]
    tail: int
    limit: int
    pattern: re.Pattern[str] | None
    timestamps: bool
    file: HostFile | None

    @property
    def passes_on(self) -> bool:
        """Lines go to the file as they come: the server counts them, or nobody does."""
        from .log_query import ALL

        return self.file is not None and (self.pattern is None or self.tail == ALL)


def _request(options: JobLogOptions) -> _Request:
    """Raises TaskFailed with everything that is wrong with the options; nothing was sent then."""
    from .host_file import HostFile, parse_mode
    from .log_query import ALL, log_query

    mistakes: list[str] = []
    query: dict[str, str] = {}
    pattern = file = None
    if options.tail < 1 and options.tail != ALL:
        mistakes.append(f"tail is {options.tail}; it must be 1 or more, or {ALL} for all lines")
    try:
        query = log_query(
            options.container,
            tail=options.tail,
            since=options.since,
            previous=options.previous,
            whole=bool(options.grep),
        )
    except ValueError as problem:
        mistakes.append(str(problem))
    try:
        pattern = re.compile(options.grep) if options.grep else None
    except re.error as problem:
        mistakes.append(f"grep is {options.grep!r}, which is no regular expression: {problem}")
    if options.limit_bytes < 1:
        mistakes.append(f"limit_bytes is {options.limit_bytes}; it must be 1 or more")
    try:
        mode = parse_mode(options.mode)
        file = HostFile(options.dest, mode) if options.dest else None
    except ValueError as problem:
        mistakes.append(str(problem))
    if mistakes:
        raise TaskFailed("; ".join(mistakes))
    return _Request(
        pod=options.pod or None,
        container=options.container,
        previous=options.previous,
        query=query,
        tail=options.tail,
        limit=options.limit_bytes,
        pattern=pattern,
        timestamps=options.timestamps,
        file=file,
    )


# -- reading ---------------------------------------------------------------------------------------------------------


@dataclass
class _Log:
    """One pod and what became of its log: an excerpt (in ``part`` with a file), or why there is none."""

    pod: dict[str, Any]
    excerpt: Excerpt | None = None
    part: BinaryIO | None = None
    error: str | None = None
    not_started: bool = False

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def row(self) -> dict[str, Any]:
        from ..cluster.reason import pod_status

        metadata = self.pod["metadata"]
        return {
            "pod": self.name,
            "name": job_name_of(self.pod),
            "namespace": metadata["namespace"],
            "kind": metadata["labels"].get(JOB_TYPE),
            "node": self.pod["spec"].get("nodeName"),
            "status": pod_status(self.pod),
            "lines": self.excerpt.lines if self.excerpt else [],
            "truncated": bool(self.excerpt and self.excerpt.truncated),
            "last_timestamp": self.excerpt.last_timestamp if self.excerpt else None,
            "error": self.error,
        }


def _pods(task: Task[JobLogOptions], job: tuple[str, str], request: _Request) -> tuple[list[dict[str, Any]], set[str]]:
    """The pods to ask, and what must not show of what they say."""
    from ..cluster.live_jobs import read_pods
    from ..manifest.secrets import live_secret_values
    from .absence import why_no_pods
    from .log_pods import chosen, in_order

    pods = in_order(read_pods(task.client(), [job])[job])
    if not pods:
        raise TaskFailed(why_no_pods(task.client(), job))
    # A container can only tell what its own pod was given; the manifest may have changed since.
    secrets = {text for pod in pods for text in live_secret_values({"spec": {"template": pod}})}
    task.mask(secrets)
    try:
        return chosen(pods, request.pod, request.container), secrets
    except ValueError as problem:
        raise TaskFailed(f"of the job {job[1]} in namespace {job[0]} {problem}") from None


def _read(client: Client, pod: dict[str, Any], request: _Request, secrets: set[str]) -> _Log:
    from ..kube.errors import ApiError
    from .lines import View

    log = _Log(pod)
    if not pod["spec"].get("nodeName"):
        # The server would answer with nothing (LogLocation in pkg/registry/core/pod/strategy.go).
        log.not_started = True
        return log
    part = request.file.part() if request.file else None
    view = View(request.limit, secrets, request.pattern, request.timestamps)
    try:
        log.excerpt = client.read_log(
            pod["metadata"]["namespace"], log.name, request.query, lambda pieces: _taken(pieces, request, view, part)
        )
        log.part = part
    except ApiError as error:
        if error.is_forbidden:
            raise
        log.not_started = error.status == 400 and "is waiting to start" in error.message
        log.error = _refusal(error, log.name, request)
    return log


def _taken(pieces: Iterator[bytes], request: _Request, view: View, part: BinaryIO | None) -> Excerpt:
    """What is wanted of a log; with a file in ``part``, whatever an attempt that broke off has left there."""
    from .lines import Excerpt, last_lines, lines_of, pass_on

    lines = lines_of(pieces, view)
    if part is None:
        return last_lines(lines, request.tail, request.limit)
    part.seek(0)
    part.truncate()
    if request.passes_on:
        return pass_on(lines, part.write)
    kept = last_lines(lines, request.tail, request.limit)
    part.writelines(f"{line}\n".encode() for line in kept.lines)
    return Excerpt([], kept.count, kept.truncated, kept.last_timestamp)


def _refusal(error: ApiError, pod: str, request: _Request) -> str:
    if error.status == 404:
        return f"pod {pod} has gone, and its log with it"
    if request.previous and error.status == 400 and "not found" in error.message:
        return f"the container {request.container} of pod {pod} was never restarted, so it has no previous log"
    return str(error)


# -- telling ---------------------------------------------------------------------------------------------------------


def _explain(client: Client, job: tuple[str, str], logs: Sequence[_Log], container: str) -> None:
    """Say why pods have not started."""
    from .absence import why_not_started
    from .log_pods import not_started

    waiting = [log for log in logs if log.not_started]
    reasons = why_not_started(client, job, [log.pod for log in waiting]) if waiting else {}
    for log in waiting:
        log.error = reasons.get(log.name) or not_started(log.pod, container)


def _judge(task: Task[JobLogOptions], logs: Sequence[_Log]) -> None:
    """Fail when nothing could be read and waiting will not help; warn of what is missing otherwise."""
    failed = [log for log in logs if log.error and not log.not_started]
    if failed and len(failed) == len(logs):
        why = "; ".join(dict.fromkeys(str(log.error) for log in failed))
        raise TaskFailed(f"no log could be read: {why}", results=[log.row for log in logs])
    for log in failed:
        task.warn(str(log.error))


def _write(file: HostFile | None, logs: Sequence[_Log], *, check_mode: bool) -> bool:
    """Several logs go one after the other, under headings as ``tail`` writes them. No log leaves the file as it is."""
    parts = [(log.name, log.part) for log in logs if log.part]
    if file is None or not parts:
        return False
    if len(parts) == 1:
        return file.replace([(b"", parts[0][1])], check_mode=check_mode)
    return file.replace([(f"==> {pod} <==\n".encode(), part) for pod, part in parts], check_mode=check_mode)


def _summary(logs: Sequence[_Log]) -> str:
    excerpts = [log.excerpt for log in logs if log.excerpt]
    lines = sum(excerpt.count for excerpt in excerpts)
    return f"{_number(lines, 'line')} of {_number(len(excerpts), 'pod')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
