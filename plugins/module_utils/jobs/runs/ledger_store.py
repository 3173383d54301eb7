# SPDX-License-Identifier: BSD-2-Clause
"""Read and write the ledgers (see ledger.py): one ConfigMap per namespace, read once, written where entries differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...cluster.read_jobs import JobId
from ...engine.apply import ApplyResult
from ...engine.guarded_write import NO_VERSION
from ...engine.plan import Action, Plan
from ...kube.errors import ApiError, KubeError, as_sentence
from ...kube.resources import CONFIG_MAP, JOB
from ...kube.times import now_as_text
from ...labels import LEDGER, selector_of
from ...task import Task
from .config_maps import new_config_map, read_config_map
from .ledger import Entry, Writer, entry_of, ledger_changes, read_entries, writer_of

if TYPE_CHECKING:
    from ..job_options import JobOptions
    from ..restart_copies import RestartCopies, RestartCopy


_ATTEMPTS = 10  # Each conflict is a write of another run; the last attempt takes any version.


class LedgerStore:
    """The ledgers of all namespaces.

    One that cannot be read or written causes one warning, and fails nothing; but while the server does not answer,
    nothing is deleted that only the ledger would remember.
    """

    def __init__(self, task: Task[JobOptions]) -> None:
        self._task = task
        self._entries: dict[str, dict[str, Entry]] = {}
        self._ledgers: dict[str, Mapping[str, Any]] = {}  # as last read
        self._texts: dict[str, dict[str, str]] = {}  # by namespace, as last read or written
        self._known: dict[str, dict[str, str | None]] = {}  # … and as first read, with what this run has written
        self._versions: dict[str, str] = {}
        self._missing: set[str] = set()
        self._inaccessible: set[str] = set()
        self._replaced: dict[str, dict[str, Entry]] = defaultdict(dict)  # by namespace and name, as they were before
        self._announced: set[tuple[str, str]] = set()
        self._only_announced: set[JobId] = set()  # There was no entry before the restart.
        self._begun: set[JobId] = set()
        self._may_have_copies: set[JobId] = set()
        self._warned: set[JobId] = set()
        self.new_runs: set[JobId] = set()
        """The trainings whose run, or its end, the ledger did not know before they were recorded last."""
        self.new_ends: set[JobId] = set()
        self._lock = Lock()

    def forget(self) -> None:
        """Read the ledgers again when they are needed next: another run may have written them."""
        self._entries.clear()
        self._missing.clear()

    def entry(self, namespace: str, name: str) -> Entry | None:
        """The last run of a training. An entry that cannot be read counts as none, with a warning."""
        found = self._read_ledger(namespace).get(name)
        if found is None and name in self._texts[namespace] and (namespace, name) not in self._warned:
            self._warned.add((namespace, name))
            self._task.warn(
                f"the entry of training {name} in the ledger of namespace {namespace} (ConfigMap {LEDGER}) cannot be "
                f"read, so the training counts as one that has not run. Correct the entry, or delete it."
            )
        return found

    def writer(self, namespace: str, name: str) -> Writer:
        """Who wrote the entry of a training."""
        self._read_ledger(namespace)
        return writer_of(self._ledgers[namespace], name)

    def copies(self, jobs: Iterable[JobId]) -> dict[JobId, RestartCopy]:
        """What restarts of these jobs were about to create when they were interrupted.

        A copy counts as long as the ledger says that its Job is being replaced: others may create ControllerRevisions.
        """
        found: dict[JobId, RestartCopy] = {}
        for job, copies in self._restart_copies.find(jobs).items():
            entry = self.entry(*job)
            uid = entry.uid if entry and entry.is_being_replaced else None
            copy = next((copy for copy in copies if copy.uid == uid), None)
            if copy is not None:
                found[job] = copy
                self._may_have_copies.add(job)
        return found

    def before_replacing(self, plan: Plan, plans: Sequence[Plan]) -> None:
        """Record that the plan's training will be created again, before its Job is deleted. Raises KubeError.

        One write per namespace, for all of ``plans``, before the first deletion. Threads may call this at once.
        """
        if not _replaces(plan):
            return
        if _is_restart(plan):
            with self._lock:
                copies = self._restart_copies
            copies.save(plan)
        with self._lock:
            if _is_restart(plan):
                self._may_have_copies.add((plan.namespace, plan.name))
            self._begun.add((plan.namespace, plan.name))
            if _run_of(plan) in self._announced:
                return
            entries = self._read_ledger(plan.namespace)
            replaced = {each.name: each for each in plans if each.namespace == plan.namespace and _replaces(each)}
            known = {name: entries[name] for name in replaced if name in entries}
            # A restart without a record is announced as well: its copy only counts with the announcement.
            new = {
                name: entry_of(each.steps[0].live, "")
                for name, each in replaced.items()
                if name not in entries and _is_restart(each)
            }
            now = now_as_text()
            open_entries = {
                name: entry.being_replaced(replaced[name].steps[0].live["metadata"]["uid"], now)
                for name, entry in {**known, **new}.items()
            }
            try:
                self._send_keys(plan.namespace, {name: str(entry) for name, entry in open_entries.items()})
            except KubeError as error:
                if not isinstance(error, ApiError) or error.is_transient:
                    error.may_be_written = False  # The job has not been touched.
                    raise
                self._warn_inaccessible(plan.namespace, error)
            self._announced |= {_run_of(each) for each in replaced.values()}
            self._replaced[plan.namespace].update(known)
            self._only_announced |= {(plan.namespace, name) for name in new}
            entries.update(open_entries)

    def record(self, results: Sequence[ApplyResult], before_writing: Callable[[], None] = lambda: None) -> None:
        """Write the trainings that are live: at most one write per namespace, none for entries that are up to date.

        ``before_writing`` is called once it is known what is new.
        """
        self.new_runs, self.new_ends = set(), set()
        seen: dict[str, dict[str, Entry]] = defaultdict(dict)
        begun = self._begun - self._untouched(results)
        for namespace, replaced in self._replaced.items():  # After a failure, some plans are not begun.
            seen[namespace] |= {name: entry for name, entry in replaced.items() if (namespace, name) not in begun}
        closed = {job for job in self._only_announced if job not in begun}
        restored: set[JobId] = set()
        for result in results:
            plan, workload = result.plan, result.workload
            if self._task.check_mode or plan.kind != "training" or workload is None or workload["kind"] != "Job":
                continue
            job = plan.namespace, plan.name
            if job in self._may_have_copies:
                if result.error is not None:  # What is missing is in the copy.
                    continue
                restored.add(job)
            manifest = plan.manifest
            if manifest is None:  # A task without manifests: the live Job is a run of the recorded manifest.
                known = self._read_or_warn(plan.namespace).get(plan.name)
                if known is None:
                    continue
                if known.is_being_replaced and not known.manifest:
                    closed.add(job)
                    continue
                manifest = known.manifest
            seen[plan.namespace][plan.name] = entry_of(workload, manifest)
        for namespace, name in self._discard(restored):  # The next task closes the entry, and deletes the copy.
            seen[namespace].pop(name, None)
            closed.discard((namespace, name))
        for namespace, entries in seen.items():
            known_entries = self._read_or_warn(namespace)
            for name, entry in entries.items():
                former = known_entries.get(name)
                if entry.result and (former is None or former[:5] != entry[:5]):
                    self.new_ends.add((namespace, name))
                if former is None or former.uid != entry.uid:
                    self.new_runs.add((namespace, name))
        before_writing()
        for namespace in dict.fromkeys([*seen, *sorted(namespace for namespace, _name in closed)]):
            entries, known_entries = seen.get(namespace, {}), self._read_or_warn(namespace)
            removed = {name: None for place, name in closed if place == namespace and name in known_entries}
            self._write_or_warn(namespace, {**ledger_changes(known_entries, entries), **removed})
            known_entries.update(entries)
            for name in removed:
                del known_entries[name]
        self._only_announced -= closed

    def remove(self, results: Iterable[ApplyResult]) -> None:
        """Remove the trainings that were deleted, so that they run again when they are declared again."""
        removed: dict[str, dict[str, None]] = defaultdict(dict)
        others: dict[str, dict[str, Entry]] = defaultdict(dict)  # not of the Jobs that were deleted
        for result in results:
            plan = result.plan
            # The kind is None for a job deleted by name that did not exist: Kubernetes may have removed a training.
            if self._task.check_mode or result.error is not None or plan.kind not in ("training", None):
                continue
            entry = self._read_or_warn(plan.namespace).pop(plan.name, None)
            if entry is None:
                continue
            removed[plan.namespace][plan.name] = None
            if not plan.steps or plan.steps[0].live["metadata"]["uid"] != entry.uid:
                others[plan.namespace][plan.name] = entry
        for namespace, entries in others.items():
            for name in self._live(namespace, entries):
                del removed[namespace][name]
        for namespace, name in self._discard((place, name) for place, names in removed.items() for name in names):
            removed[namespace].pop(name)
        for namespace, keys in removed.items():
            self._write_or_warn(namespace, keys)

    @cached_property
    def _restart_copies(self) -> RestartCopies:
        """Imported by tasks that restart something, or find an interrupted restart."""
        from ..restart_copies import RestartCopies

        return RestartCopies(self._task)

    def _untouched(self, results: Iterable[ApplyResult]) -> set[JobId]:
        """The jobs that the server did not let be replaced. Those with a copy may lack what only that has."""
        refused = (result.plan for result in results if result.error and not result.conflict)
        return {(plan.namespace, plan.name) for plan in refused if not plan.steps} - self._may_have_copies

    def _read_ledger(self, namespace: str) -> dict[str, Entry]:
        if namespace not in self._entries:
            try:
                found = read_config_map(self._task.client(), namespace, LEDGER)
            except ApiError as error:
                if not error.is_forbidden:
                    raise
                self._warn_inaccessible(namespace, error)
                found = None
            if found is None:
                self._missing.add(namespace)
            self._remember(namespace, found or {})
            self._ledgers[namespace] = found or {}
            entries = self._entries[namespace] = read_entries(self._texts[namespace])
            interrupted = (name for name, entry in entries.items() if entry.is_being_replaced)
            self._may_have_copies |= {(namespace, name) for name in interrupted}
        return self._entries[namespace]

    def _remember(self, namespace: str, ledger: Mapping[str, Any]) -> None:
        self._texts[namespace] = ledger.get("data") or {}
        self._known.setdefault(namespace, dict(self._texts[namespace]))
        self._versions[namespace] = ledger.get("metadata", {}).get("resourceVersion", NO_VERSION)

    def _read_or_warn(self, namespace: str) -> dict[str, Entry]:
        """The same after jobs were applied, when nothing may fail any more."""
        try:
            return self._read_ledger(namespace)
        except KubeError as error:
            self._warn_inaccessible(namespace, error)
            return self._entries.setdefault(namespace, {})

    def _write_or_warn(self, namespace: str, keys: Mapping[str, str | None]) -> None:
        try:
            self._send_keys(namespace, keys)
        except KubeError as error:
            self._warn_inaccessible(namespace, error)

    def _send_keys(self, namespace: str, keys: Mapping[str, str | None]) -> None:
        """Write only the keys named, so that concurrent runs keep each other's entries.

        Where another run has written the same training since this one first read the ledger, the live Job tells which
        one counts.
        """
        if not keys or namespace in self._inaccessible:
            return
        metadata = {"name": LEDGER, "namespace": namespace}
        client = self._task.client()
        if namespace in self._missing:
            self._missing.discard(namespace)  # another run may have created it
            if created := client.create(new_config_map(LEDGER, namespace, keys)):
                self._remember(namespace, created)
                self._known[namespace].update(keys)
                return
        for attempt in range(_ATTEMPTS):
            now, known = self._texts[namespace], self._known[namespace]
            keys = {
                name: text
                for name, text in keys.items()
                if now.get(name) in (known.get(name), text) or self._is_of_live_job(namespace, name, text)
            }
            if not keys:
                return
            version = {"resourceVersion": self._versions[namespace]} if attempt < _ATTEMPTS - 1 else {}
            try:
                self._remember(namespace, client.merge_patch(CONFIG_MAP, {**metadata, **version}, {"data": keys}))
                known.update(keys)
                return
            except ApiError as error:
                if error.status != 409 or attempt == _ATTEMPTS - 1:
                    raise
            self._remember(namespace, client.get(CONFIG_MAP, namespace, LEDGER) or {})

    def _live(self, namespace: str, entries: Mapping[str, Entry]) -> list[str]:
        """The entries of Jobs that another run has created since this one read the cluster."""
        labels = selector_of(set(entries))
        try:
            jobs = self._task.client().list_objects(JOB, namespace, labels=labels, metadata_only=True)
        except KubeError:
            return list(entries)  # It is not known, and an entry too many does less harm.
        uids = {job["metadata"]["uid"] for job in jobs}
        return [name for name, entry in entries.items() if entry.uid in uids]

    def _is_of_live_job(self, namespace: str, name: str, text: str | None) -> bool:
        """Whether an entry, None for a removed one, fits the Job by now; another run has written one for it as well."""
        job = self._task.client().get(JOB, namespace, name)
        entry = read_entries({name: text}).get(name) if text else None
        return (job and job["metadata"]["uid"]) == (entry and entry.uid)

    def _discard(self, jobs: Iterable[JobId]) -> set[JobId]:
        """Before the ledger is written: once it says that a run has begun, no task looks for copies any more.

        Returns the jobs whose copies could not be deleted.
        """
        wanted = self._may_have_copies & set(jobs)
        left = self._restart_copies.discard(sorted(wanted)) if wanted else set()
        self._may_have_copies -= wanted - left
        return left

    def _warn_inaccessible(self, namespace: str, error: KubeError) -> None:
        self._inaccessible.add(namespace)
        forbidden = isinstance(error, ApiError) and error.is_forbidden
        hint = " Grant get, create and patch on configmaps there." if forbidden else ""
        self._task.warn(
            f"the ledger of finished trainings in namespace {namespace} (ConfigMap {LEDGER}) is not up to date, "
            f"so they may run again once Kubernetes has removed them: {as_sentence(error)}{hint}"
        )


def _run_of(plan: Plan) -> tuple[str, str]:
    """The namespace and uid of the Job that the plan replaces."""
    return plan.namespace, str(plan.steps[0].live["metadata"]["uid"])


def _replaces(plan: Plan) -> bool:
    """Whether a training is deleted and created again."""
    return plan.kind == "training" and bool(plan.steps) and plan.steps[0].replaces


def _is_restart(plan: Plan) -> bool:
    """Whether that happens without a manifest."""
    return _replaces(plan) and plan.steps[0].action is Action.RESTART
