# SPDX-License-Identifier: BSD-2-Clause
"""What a task of gpuctl_job adds to the history: the runs that it submits, those that it ends, and ends that it sees.

A task that changes nothing, and sees no end that the ledger does not know, neither reads nor writes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ..cluster.pod_times import hold_of
from ..cluster.read import JobId, read_pods
from ..cluster.related import own_pods
from ..engine.apply import ApplyResult
from ..engine.plan import WORKLOAD_KINDS, Action, Plan
from ..kube.errors import ApiError, KubeError, as_sentence
from ..kube.times import time_as_text
from ..labels import HISTORY
from ..manifest.digest import digest_of
from ..manifest.secrets import secret_values, shown_definition
from ..redaction import redact
from ..task import Task
from .history import Keys, end_keys, end_of, exit_code_of, job_keys, live_keys, log_keys, pod_keys
from .history_store import write_history
from .ledger import RunResult
from .select import SelectedJob

if TYPE_CHECKING:
    from ..manifest.models import JobManifest
    from .job import JobOptions

Object = Mapping[str, Any]

_STOPS_PODS = (Action.DELETE, Action.RECREATE, Action.RESTART, Action.PAUSE)


class HistoryWriter:
    """The history of all namespaces. What cannot be read or written is one warning for each, and fails nothing."""

    def __init__(self, task: Task[JobOptions], jobs: Sequence[SelectedJob]) -> None:
        self._task = task
        self._jobs = {job.id: job for job in jobs}
        self._pods: dict[JobId, Sequence[Object]] = {}
        self._written: dict[str, Keys] = defaultdict(dict)
        self._inaccessible: set[str] = set()

    def look(self, plans: Iterable[Plan]) -> None:
        """Read the pods that the plans are about to stop: afterwards nothing says any more how long they ran.

        Where planning has read them, those are taken.
        """
        if self._task.check_mode:
            return
        stopped = [plan for plan in plans if _stops_pods(plan)]
        self._pods |= {(plan.namespace, plan.name): plan.pods for plan in stopped if plan.pods is not None}
        jobs = [(plan.namespace, plan.name) for plan in stopped]
        self._read_pods([job for job in jobs if job not in self._pods])

    def record(
        self, results: Iterable[ApplyResult], ended: Iterable[JobId], logs: Mapping[JobId, Sequence[str]] | None = None
    ) -> None:
        """Write what the task has done: at most one write per namespace, none where nothing has begun or ended.

        ``ended`` are the trainings whose end nobody has recorded before, ``logs`` the last lines of those that failed.
        """
        if self._task.check_mode:
            return
        now, new_ends = datetime.now(timezone.utc), set(ended)
        keys: dict[str, Keys] = defaultdict(dict)
        for result in results:
            if result.error is None or result.workload is not None:
                own = self._keys(result, now, new_ends, (logs or {}).get((result.plan.namespace, result.plan.name), ()))
                keys[result.plan.namespace] |= own
        for namespace, found in keys.items():
            new = {key: text for key, text in found.items() if self._written[namespace].get(key) != text}
            if new and namespace not in self._inaccessible:
                self._write(namespace, new)

    def _keys(self, result: ApplyResult, now: datetime, new_ends: set[JobId], log: Sequence[str]) -> Keys:
        plan, workload = result.plan, result.workload
        job = plan.namespace, plan.name
        first = plan.steps[0] if plan.steps else None
        live = first.live if first is not None and first.live.get("kind") in WORKLOAD_KINDS else None
        current = workload["metadata"]["uid"] if workload else None
        keys: Keys = {}
        if live and plan.changed and result.error is None and live["metadata"]["uid"] != current:
            keys |= self._ended(job, live, RunResult("Replaced" if workload else "Deleted", time_as_text(now)), now)
        elif live and job in self._pods:
            keys |= self._held(job, live, now)
        is_new = current != (live or {}).get("metadata", {}).get("uid")
        if workload and plan.changed and (is_new or (plan.action is Action.UPDATE and self._model(job))):
            keys |= job_keys(workload, digest=self._digest(plan), manifest=self._manifest(job))
        if workload and job in new_ends and (end := end_of(workload)):
            keys |= self._ended(job, workload, end, now)
        if workload and log and (end_of(workload) or RunResult()).result == "Failed":
            keys |= log_keys(workload["metadata"]["uid"], log)
        return keys

    def _ended(self, job: JobId, workload: Object, end: RunResult, now: datetime) -> Keys:
        """How a run ended; if it had ended before it was deleted, then as it did."""
        uid = workload["metadata"]["uid"]
        if job not in self._pods:
            self._read_pods([job])
        pods = own_pods(workload, self._pods.get(job, ()))
        found = end_of(workload) or end
        started = workload.get("status", {}).get("startTime")
        return {
            **live_keys(workload, now),
            **self._held(job, workload, now),
            **end_keys(uid, found, started_at=started, exit_code=exit_code_of(pods)),
        }

    def _read_pods(self, jobs: Sequence[JobId]) -> None:
        try:
            self._pods.update(read_pods(self._task.client(), jobs) if jobs else {})
        except KubeError:  # The history is no reason not to do what the task is for.
            self._pods |= {job: [] for job in jobs}

    def _held(self, job: JobId, workload: Object, now: datetime) -> Keys:
        """What its pods held; those that the task stops, until now at least."""
        keys: Keys = {}
        for pod in own_pods(workload, self._pods.get(job, ())):
            hold = hold_of(pod)
            if hold.start is not None and hold.end is None:
                hold = hold._replace(end=now.timestamp(), exact=False)
            keys |= pod_keys(workload["metadata"]["uid"], hold)
        return keys

    def _model(self, job: JobId) -> JobManifest | None:
        return self._jobs[job].model if job in self._jobs else None

    def _digest(self, plan: Plan) -> str:
        model = self._model((plan.namespace, plan.name))
        return plan.manifest or (digest_of(model) if model else "")

    def _manifest(self, job: JobId) -> Any:
        """The manifest without its secrets, as the task has it."""
        model = self._model(job)
        if model is None:
            return None
        data = model.model_dump(mode="json", exclude_defaults=True, warnings=False)
        shown = shown_definition({"kind": model.kind, **data})
        return redact(shown, secret_values(model))

    def _write(self, namespace: str, keys: Keys) -> None:
        try:
            write_history(self._task.client(), namespace, keys)
            self._written[namespace] |= keys
        except KubeError as error:
            self._inaccessible.add(namespace)
            forbidden = isinstance(error, ApiError) and error.is_forbidden
            hint = " Grant get, list, create, patch and delete on configmaps there." if forbidden else ""
            self._task.warn(
                f"the history of jobs in namespace {namespace} (ConfigMap {HISTORY}) is not up to date: "
                f"{as_sentence(error)}{hint}"
            )


def _stops_pods(plan: Plan) -> bool:
    return bool(plan.steps) and plan.steps[0].kind in WORKLOAD_KINDS and plan.steps[0].action in _STOPS_PODS
