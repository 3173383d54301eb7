# SPDX-License-Identifier: BSD-2-Clause
"""The ledger: a record of each training that outlives its Job, and the rules for running one again. Pure.

Kubernetes deletes a finished Job when its time to live has passed. The playbook that declares the training keeps
running, and must not spend a day of GPUs on it again. So a ConfigMap in each namespace has an entry for each training:
created when the training is submitted, completed when its end is first seen.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ...cluster.status import ENDED, FAILURES, TIMED_OUT, is_terminating, status_of
from ...kube.times import read_time
from ...labels import FIELD_MANAGER
from .config_maps import read_object

RERUN = ("never", "on_change", "on_failure", "always")

# A ConfigMap holds 1 MiB (pkg/apis/core/validation, ValidateConfigMap). An entry has some 250 bytes, and the server
# keeps 80 more for each key in managedFields, which count for etcd's limit of 1.5 MiB.
MAX_ENTRIES = 2000

_LONGEST = 4096  # characters of an entry that may be one of ours

_WORDS = {"Succeeded": "succeeded", "Failed": "failed", TIMED_OUT: "reached its time limit"}


class Writer(NamedTuple):
    """Who wrote an entry: the field manager by its own account, and when it last wrote to the ledger.

    Every tenant of the namespace who may write the ConfigMap can write an entry, and name any manager.
    """

    manager: str
    time: str | None = None

    @property
    def is_gpuctl(self) -> bool:
        return self.manager == FIELD_MANAGER

    def __str__(self) -> str:
        return f"field manager {self.manager or 'unknown'}{f', last at {self.time}' if self.time else ''}"


class RunResult(NamedTuple):
    """How a run ended: ``Succeeded``, ``Failed`` or ``TimedOut``, and when (RFC 3339). None if the end was not seen."""

    result: str | None = None
    finished_at: str | None = None


class Entry(NamedTuple):
    """The last run of a training. ``manifest`` is the digest of its manifest, "" if that is unknown.

    ``finished_at`` without a ``result`` is when a task was about to delete the Job and create it again.
    """

    manifest: str
    uid: str
    submitted_at: str
    ttl_seconds: int | None = None
    result: str | None = None
    finished_at: str | None = None

    @property
    def is_being_replaced(self) -> bool:
        """Whether a task began to replace the Job, and no task has recorded the new one."""
        return self.finished_at is not None and self.result is None

    def being_replaced(self, uid: str, moment: str) -> Entry:
        """The entry to write before the Job with that uid is deleted to be created again.

        A time to live or a result would make a missing Job one that has ended. Without them, it counts as deleted
        before its end, so the next task creates it; version 1.0.0 reads it the same way.
        """
        return self._replace(uid=uid, ttl_seconds=None, result=None, finished_at=moment)

    def known_as(self, manifest: str, former_manifests: Collection[str]) -> Entry:
        """The entry with the digest ``manifest``, if an earlier version recorded a former one of the same manifest."""
        return self._replace(manifest=manifest) if self.manifest in former_manifests else self

    def __str__(self) -> str:
        """The value of the training's key in the ledger."""
        return json.dumps({name: value for name, value in self._asdict().items() if value is not None})


def read_entries(data: Mapping[str, str]) -> dict[str, Entry]:
    """The entries of a ledger by the names of their trainings, without the invalid ones."""
    entries = {}
    for name, text in data.items():
        if (entry := _read_entry(text)) is not None:
            entries[name] = entry
    return entries


def _read_entry(text: str) -> Entry | None:
    """Every field has its type: an account that may write the ConfigMap can write anything."""
    try:
        entry = Entry(**read_object(text, _LONGEST))
        _earliest_removal(entry)
        if entry.finished_at:
            read_time(entry.finished_at)
    except (AttributeError, OverflowError, TypeError, ValueError):
        return None
    texts = isinstance(entry.manifest, str) and isinstance(entry.uid, str)
    seconds = entry.ttl_seconds is None or (
        isinstance(entry.ttl_seconds, int) and not isinstance(entry.ttl_seconds, bool)
    )
    return entry if texts and seconds and entry.result in (None, *ENDED) else None


def writer_of(ledger: Mapping[str, Any], name: str) -> Writer:
    """Who wrote the entry of a training, by the ``managedFields`` of the ledger."""
    for entry in ledger.get("metadata", {}).get("managedFields") or ():
        if f"f:{name}" in ((entry.get("fieldsV1") or {}).get("f:data") or {}):
            return Writer(str(entry.get("manager") or ""), entry.get("time"))
    return Writer("")


def entry_of(job: Mapping[str, Any], manifest: str) -> Entry:
    """The entry for a live Job that was made from a manifest with that digest."""
    metadata, last_run = job["metadata"], run_result(job) or RunResult()
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    return Entry(manifest, metadata["uid"], metadata["creationTimestamp"], ttl, last_run.result, last_run.finished_at)


def last_run_result(job: Mapping[str, Any] | None, entry: Entry | None, now: datetime) -> RunResult | None:
    """How the last run of a training ended. None: it has not ended, was deleted by a user, or never existed.

    ``job`` is the live Job. A Job that disappeared before its end was seen counts as finished if its time to live can
    have passed since its submission; before that, only a user can have deleted it. What was being replaced has not
    ended, whatever its former Job says while it terminates.
    """
    if entry is not None and entry.is_being_replaced and (job is None or is_terminating(job)):
        return None
    if job is not None:
        return run_result(job)
    if entry is None:
        return None
    if entry.result is not None:
        return RunResult(entry.result, entry.finished_at)
    removal = _earliest_removal(entry)
    return RunResult() if removal and removal <= now else None


def should_run_again(rerun: str, last_run: RunResult, *, changed: bool) -> bool:
    """Whether a training that has ended runs again; ``changed``: its manifest has changed since.

    ``on_failure`` is ``on_change`` that also repeats known failures. An end that was not seen is not a failure: to
    repeat a training that succeeded would overwrite its results.
    """
    if rerun in ("never", "always"):
        return rerun == "always"
    return changed or (rerun == "on_failure" and last_run.result in FAILURES)


def not_rerun_reason(rerun: str, last_run: RunResult, *, changed: bool, recorded_by: Writer | None = None) -> str:
    """How a training that is not run again ended, and how to run it again.

    ``recorded_by``: its Job is gone, and only the ledger says so.
    """
    how = _WORDS.get(last_run.result or "")
    ended = f"It {how} at {last_run.finished_at}" if last_run.result else "It has ended with an unknown result"
    if recorded_by is not None:
        ended = f"{ended} according to the ledger ({recorded_by}), which nothing proves once the Job is gone,"
    manifest = "its manifest has changed since" if changed else "its manifest is the same"
    suggestion = "always"
    if changed:
        suggestion = "on_change"
    elif last_run.result in FAILURES and rerun == "on_change":
        suggestion = "on_failure"
    return f"{ended} and is not run again: {manifest}, and O(rerun) is {rerun}. O(rerun={suggestion}) runs it again."


def ledger_changes(entries: Mapping[str, Entry], seen: Mapping[str, Entry]) -> dict[str, str | None]:
    """The keys of a ledger to write for the entries seen; None removes a key.

    Beyond MAX_ENTRIES, those submitted first are removed.
    """
    written: dict[str, str | None] = {name: str(entry) for name, entry in seen.items() if entries.get(name) != entry}
    if written:
        oldest_first = sorted({**entries, **seen}.items(), key=lambda item: item[1].submitted_at)
        surplus = [name for name, dummy in oldest_first[: max(0, len(oldest_first) - MAX_ENTRIES)]]
        written = {**written, **dict.fromkeys(surplus)}
    return {name: value for name, value in written.items() if value is not None or name in entries}


def run_result(job: Mapping[str, Any]) -> RunResult | None:
    """How the run of a live Job ended; None while it runs."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return RunResult(status_of(job), condition.get("lastTransitionTime"))
    return None


def _earliest_removal(entry: Entry) -> datetime | None:
    """When Kubernetes removes the Job if it ends at once; None for never."""
    submitted = read_time(entry.submitted_at)
    return None if entry.ttl_seconds is None else submitted + timedelta(seconds=entry.ttl_seconds)
