# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Read and write the ledgers: one ConfigMap per namespace with trainings, read once and written with what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..engine.apply import ApplyResult
from ..kube.errors import ApiError, KubeError
from ..kube.resources import CONFIG_MAP
from ..labels import FIELD_MANAGER, LEDGER, MANAGED_BY
from ..task import Task
from .ledger import Entry, entry_of, ledger_changes, read_entries

if TYPE_CHECKING:
    from .job import JobOptions


class LedgerStore:
    """What the ledgers say. A ledger that may not be read or written is told of once, and fails nothing."""

    def __init__(self, task: Task[JobOptions]) -> None:
        self._task = task
        self._entries: dict[str, dict[str, Entry]] = {}
        self._missing: set[str] = set()
        self._closed: set[str] = set()

    def entry(self, namespace: str, name: str) -> Entry | None:
        """What is remembered of a training."""
        return self._ledger(namespace).get(name)

    def record(self, outcomes: Iterable[ApplyResult]) -> None:
        """Remember the trainings that are live: at most one write per namespace, none for what is known."""
        seen: dict[str, dict[str, Entry]] = defaultdict(dict)
        for outcome in outcomes:
            plan, workload = outcome.plan, outcome.workload
            if self._task.check_mode or plan.kind != "training" or workload is None or workload["kind"] != "Job":
                continue
            manifest = plan.manifest
            if manifest is None:  # A task without manifests: what lives is a run of the manifest that was known.
                known = self._known(plan.namespace).get(plan.name)
                if known is None:
                    continue
                manifest = known.manifest
            seen[plan.namespace][plan.name] = entry_of(workload, manifest)
        for namespace, entries in seen.items():
            self._write(namespace, ledger_changes(self._known(namespace), entries))
            self._entries[namespace].update(entries)

    def forget(self, outcomes: Iterable[ApplyResult]) -> None:
        """Forget the trainings that were deleted, so that they run anew when they are declared again."""
        gone: dict[str, dict[str, None]] = defaultdict(dict)
        for outcome in outcomes:
            plan = outcome.plan
            # A job that is deleted by name and was not there may be a training that has been.
            if (
                not self._task.check_mode
                and plan.kind in ("training", None)
                and plan.name in self._known(plan.namespace)
            ):
                gone[plan.namespace][plan.name] = None
        for namespace, keys in gone.items():
            self._write(namespace, keys)

    def _ledger(self, namespace: str) -> dict[str, Entry]:
        if namespace not in self._entries:
            try:
                found = self._task.client().get(CONFIG_MAP, namespace, LEDGER)
            except ApiError as error:
                if not error.is_forbidden:
                    raise
                self._close(namespace, error)
                found = None
            if found is None:
                self._missing.add(namespace)
            self._entries[namespace] = read_entries((found or {}).get("data") or {})
        return self._entries[namespace]

    def _known(self, namespace: str) -> dict[str, Entry]:
        """The same, when what it is about has been done already, so that nothing may fail any more."""
        try:
            return self._ledger(namespace)
        except KubeError as error:
            self._close(namespace, error)
            return self._entries.setdefault(namespace, {})

    def _write(self, namespace: str, keys: Mapping[str, str | None]) -> None:
        """A merge patch touches the keys that it names only, so that runs at the same time keep each other's."""
        if not keys or namespace in self._closed:
            return
        metadata = {"name": LEDGER, "namespace": namespace}
        client = self._task.client()
        try:
            made = namespace in self._missing and client.create(_new_ledger(metadata, keys))
            self._missing.discard(namespace)  # by whomever it was made
            if not made:
                client.merge_patch(CONFIG_MAP, metadata, {"data": keys})
        except KubeError as error:
            self._close(namespace, error)

    def _close(self, namespace: str, error: KubeError) -> None:
        self._closed.add(namespace)
        forbidden = isinstance(error, ApiError) and error.is_forbidden
        remedy = " Allow get, create and patch of configmaps there." if forbidden else ""
        self._task.warn(
            f"what is remembered of finished trainings in namespace {namespace} ({LEDGER}) is not up to date, "
            f"so that they may run again once Kubernetes has removed them: {error}.{remedy}"
        )


def _new_ledger(metadata: Mapping[str, Any], keys: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        # No label ``app``: it is the namespace's, and no object of a job.
        "metadata": {**metadata, "labels": {MANAGED_BY: FIELD_MANAGER}},
        "data": {name: value for name, value in keys.items() if value is not None},
    }
