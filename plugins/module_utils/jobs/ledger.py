# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What is remembered of trainings beyond their Jobs, and which of them are run again. Pure.

Kubernetes deletes a finished Job when its time to live has passed. The playbook that declares the training runs on, and
must not spend a day of GPUs on what is done. So a ConfigMap in each namespace, the ledger, has an entry for each
training: made when the training is submitted, completed when its end is first seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..kube.times import read_time

RERUN = ("never", "on_change", "on_failure", "always")

# A ConfigMap holds 1 MiB (pkg/apis/core/validation, ValidateConfigMap). An entry has some 250 bytes, and the server
# keeps 80 more for each key in managedFields, which count for etcd's limit of 1.5 MiB.
MAX_ENTRIES = 2000

_RESULTS = {"Complete": "Succeeded", "Failed": "Failed"}  # by the condition of the Job


class RunResult(NamedTuple):
    """How a run ended: ``Succeeded`` or ``Failed``, and when (RFC 3339). None for what nobody saw."""

    result: str | None = None
    finished_at: str | None = None


class Entry(NamedTuple):
    """The last run of a training. ``manifest`` is the digest of what was asked for, "" where that is not known."""

    manifest: str
    uid: str
    submitted_at: str
    ttl_seconds: int | None = None
    result: str | None = None
    finished_at: str | None = None

    def __str__(self) -> str:
        """The value of the training's key in the ledger."""
        return json.dumps({name: value for name, value in self._asdict().items() if value is not None})


def read_entries(data: Mapping[str, str]) -> dict[str, Entry]:
    """The entries of a ledger, by the name of their training. What is no entry is left out, and replaced in time."""
    entries = {}
    for name, text in data.items():
        try:
            entry = Entry(**json.loads(text))
            _earliest_removal(entry)
        except (AttributeError, OverflowError, TypeError, ValueError):
            continue
        entries[name] = entry
    return entries


def entry_of(job: Mapping[str, Any], manifest: str) -> Entry:
    """The entry for a live Job that was made from a manifest with that digest."""
    metadata, last_run = job["metadata"], _ending_of(job) or RunResult()
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    return Entry(manifest, metadata["uid"], metadata["creationTimestamp"], ttl, last_run.result, last_run.finished_at)


def last_run_result(job: Mapping[str, Any] | None, entry: Entry | None, now: datetime) -> RunResult | None:
    """How the last run of a training ended. None: it has not, or somebody deleted it before, or there was none.

    ``job`` is its live Job. A Job that went without that its end was seen has finished, if its time to live can have
    passed since its submission; sooner only a person can have deleted it.
    """
    if job is not None:
        return _ending_of(job)
    if entry is None:
        return None
    if entry.result is not None:
        return RunResult(entry.result, entry.finished_at)
    removal = _earliest_removal(entry)
    return RunResult() if removal and removal <= now else None


def is_run_again(rerun: str, last_run: RunResult, *, changed: bool) -> bool:
    """Whether a training that has ended is run again; ``changed`` is its manifest's state since then.

    ``on_failure`` is ``on_change``, and runs again what is known to have failed. An end that nobody saw is none: to
    repeat a training that was well overwrites its results.
    """
    if rerun in ("never", "always"):
        return rerun == "always"
    return changed or (rerun == "on_failure" and last_run.result == "Failed")


def why_not_again(rerun: str, last_run: RunResult, *, changed: bool) -> str:
    """The sentences for a training that is not run again: how it ended, and what to do to run it all the same."""
    ended = (
        f"It {last_run.result.lower()} at {last_run.finished_at}"
        if last_run.result
        else "It has ended, nobody saw how,"
    )
    manifest = "its manifest has changed since" if changed else "its manifest is the same"
    remedy = "always"
    if changed:
        remedy = "on_change"
    elif last_run.result == "Failed" and rerun == "on_change":
        remedy = "on_failure"
    return f"{ended} and is not run again: {manifest}, and rerun is {rerun}. rerun={remedy} runs it again."


def ledger_changes(entries: Mapping[str, Entry], seen: Mapping[str, Entry]) -> dict[str, str | None]:
    """The keys of a ledger to write so that it knows what was seen; None removes a key.

    When there are more than MAX_ENTRIES, the longest ago submitted go.
    """
    written: dict[str, str | None] = {name: str(entry) for name, entry in seen.items() if entries.get(name) != entry}
    if written:
        oldest_first = sorted({**entries, **seen}.items(), key=lambda item: item[1].submitted_at)
        surplus = [name for name, dummy in oldest_first[: max(0, len(oldest_first) - MAX_ENTRIES)]]
        written = {**written, **dict.fromkeys(surplus)}
    return {name: value for name, value in written.items() if value is not None or name in entries}


def _ending_of(job: Mapping[str, Any]) -> RunResult | None:
    for condition in job.get("status", {}).get("conditions") or ():
        if condition["type"] in _RESULTS and condition["status"] == "True":
            return RunResult(_RESULTS[condition["type"]], condition.get("lastTransitionTime"))
    return None


def _earliest_removal(entry: Entry) -> datetime | None:
    """When Kubernetes removes the Job, if it ends at once; None for never."""
    submitted = read_time(entry.submitted_at)
    return None if entry.ttl_seconds is None else submitted + timedelta(seconds=entry.ttl_seconds)
