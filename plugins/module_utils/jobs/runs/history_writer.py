# SPDX-License-Identifier: BSD-2-Clause
"""What a task of gpuctl_job adds to the history: the runs that it submits or ends, and the ends that it sees."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from ...cluster.pod_times import Hold, hold_of
from ...cluster.read_jobs import ByJob, JobId, read_pods
from ...cluster.related import own_pods
from ...cluster.status import is_ready, pods_wanted
from ...engine.apply import ApplyResult
from ...engine.plan import WORKLOAD_KINDS, Action, Plan, Step
from ...kube.errors import ApiError, KubeError, as_sentence
from ...kube.times import time_as_text
from ...labels import HISTORY
from ...manifest.digest import digest_of
from ...manifest.problems import abridged
from ...manifest.secrets import shown_manifest
from ...task import Task
from .config_maps import read_config_map
from .ledger import RunResult
from .run_history import (
    DELETED,
    REPLACED,
    KeyChanges,
    Keys,
    end_keys,
    end_of,
    exit_code_of,
    good_keys,
    job_keys,
    live_keys,
    log_keys,
    pod_keys,
)
from .run_store import NotTheHistory, write_history

if TYPE_CHECKING:
    from ...manifest.job_blocks import JobManifest
    from ..job_options import JobOptions

Object = Mapping[str, Any]
Logs = Mapping[JobId, Sequence[str]]


class HistoryWriter:
    """The history of all namespaces. What cannot be read or written, also at the next attempt, is one warning for each.

    Each write has what those before it could not write: what is recorded before a job ends is not known any more then.
    """

    def __init__(self, task: Task[JobOptions], models: Mapping[JobId, JobManifest]) -> None:
        self._task, self._models = task, models
        self._pods: dict[str, Sequence[Object]] = {}  # by uid of the workload
        self._stopping_plans: dict[JobId, Plan] = {}
        self._written: dict[str, KeyChanges] = defaultdict(dict)
        self._unwritten: dict[str, KeyChanges] = {}
        self._inaccessible: set[str] = set()
        self._warned: set[str] = set()

    def before(self, plans: Sequence[Plan]) -> None:
        """Record what the plans are about to stop: afterwards nothing says any more how long its pods ran.

        Where planning has read the pods, those are taken. A run that is still there has not ended, whatever is recorded
        of its deletion: a plan may fail, or its task be killed.
        """
        now = datetime.now(timezone.utc)
        known = {_live_workload(plan)["metadata"]["uid"]: plan.pods for plan in plans if plan.pods is not None}
        self._pods |= {uid: pods for uid, pods in known.items() if pods is not None}
        self._read_missing_pods({_job_id(plan): _live_workload(plan) for plan in plans if plan.pods is None})
        self._stopping_plans |= {_job_id(plan): plan for plan in plans}
        keys: dict[str, KeyChanges] = defaultdict(dict)
        for plan in plans:
            keys[plan.namespace].update(self._stopped_keys(plan, now))
        self._write_keys(keys, is_last=False)

    def after(
        self,
        results: Sequence[ApplyResult],
        begun: Collection[JobId],
        ended: Collection[JobId],
        logs: Logs | None,
    ) -> None:
        """Record what the task has done: at most one write per namespace, none where there is nothing new.

        ``begun`` and ``ended`` are the trainings whose run, or whose end, is new to the ledger. ``logs`` are the
        last lines of what has failed by the end of a wait, None before it.
        """
        now = datetime.now(timezone.utc)
        self._read_missing_pods(
            {
                _job_id(result.plan): workload
                for result in results
                if (workload := result.workload) and _job_id(result.plan) in ended and end_of(workload)
            }
        )
        keys: dict[str, KeyChanges] = defaultdict(dict)
        for plan in self._untouched_plans(results) if logs is None else ():
            if end_of(_live_workload(plan)) is None:
                keys[plan.namespace] |= dict.fromkeys(end_keys(_live_workload(plan)["metadata"]["uid"], RunResult()))
        for result in results:
            job, workload, own = _job_id(result.plan), result.workload, keys[result.plan.namespace]
            stopped = self._stopping_plans.get(job)
            if stopped and result.error is None and self._has_ended_pods(stopped, waited=logs is not None):
                own.update(self._stopped_keys(stopped, now))
            if workload is None:
                continue
            begun_keys = self._begun_keys(result, workload, now, is_unknown=job in begun)
            own.update(self._good_keys(result, workload, begun_keys))
            own.update(begun_keys)
            end = end_of(workload)
            if end and job in ended:
                own.update(self._ended_keys(workload, end, now))
            if end and end.result == "Failed" and (lines := (logs or {}).get(job)):
                own.update(log_keys(workload["metadata"]["uid"], lines))
        self._write_keys(keys, is_last=True)

    def _untouched_plans(self, results: Sequence[ApplyResult]) -> list[Plan]:
        """The plans to end a run that were not begun, or refused by the server, or made otherwise meanwhile."""
        by_job = {_job_id(result.plan): result for result in results}

        def is_untouched(plan: Plan) -> bool:
            result = by_job.get(_job_id(plan))
            if result is None or (result.error and not result.conflict and not result.plan.steps):
                return True
            workload = result.workload
            return workload is not None and workload["metadata"]["uid"] == _live_workload(plan)["metadata"]["uid"]

        untouched = [job for job, plan in self._stopping_plans.items() if _ends_run(plan) and is_untouched(plan)]
        return [self._stopping_plans.pop(job) for job in untouched]

    def _stopped_keys(self, plan: Plan, now: datetime) -> Keys:
        """What a plan stops: pods, and the run where they are not those of a job that goes on."""
        if not _ends_run(plan):  # The task that has submitted it may have been killed before it recorded that.
            held = self._held_keys(_live_workload(plan), now)
            return {**live_keys(_live_workload(plan), now), **held} if held else held
        result = REPLACED if _stopping_step(plan).replaces else DELETED
        return self._ended_keys(_live_workload(plan), RunResult(result, time_as_text(now)), now)

    def _begun_keys(self, result: ApplyResult, workload: Object, now: datetime, *, is_unknown: bool) -> Keys:
        """A run that the task has submitted or changed, or that an interrupted one has not recorded."""
        plan, model = result.plan, self._models.get(_job_id(result.plan))
        live = plan.steps[0].live if plan.steps else {}
        former = live["metadata"]["uid"] if live.get("kind") in WORKLOAD_KINDS else None
        is_new = workload["metadata"]["uid"] != former
        if (plan.changed and (is_new or (plan.action is Action.UPDATE and model))) or (is_unknown and not plan.ended):
            digest = plan.manifest or (digest_of(model) if model else "")
            return job_keys(workload, digest=digest, manifest=shown_manifest(model) if model else None)
        # What has ended may have had another manifest.
        return live_keys(workload, now) if is_unknown else {}

    def _good_keys(self, result: ApplyResult, workload: Object, begun: Keys) -> Keys:
        """The manifest before an update, if its pods were ready when it was replaced."""
        live, uid = result.plan.steps[0].live if result.plan.steps else {}, workload["metadata"]["uid"]
        is_service = workload["kind"] != "Job" and live.get("kind") == workload["kind"]
        if not (is_service and is_ready(live) and pods_wanted(live)):
            return Keys()
        submitted = json.loads(begun.get(f"{uid}.job", "{}"))
        if not submitted.get("digest"):
            return Keys()
        try:
            head = read_config_map(self._task.client(), result.plan.namespace, HISTORY) or {}
        except KubeError:  # The write that follows says what is wrong.
            return Keys()
        return good_keys(uid, head.get("data") or {}, submitted["digest"])

    def _ended_keys(self, workload: Object, end: RunResult, now: datetime) -> Keys:
        """How a run ended; if it had ended before it was deleted, then as it did."""
        pods = own_pods(workload, self._pods.get(workload["metadata"]["uid"], ()))
        found = end_of(workload) or end
        started = workload.get("status", {}).get("startTime")
        return {
            **live_keys(workload, now),
            **self._held_keys(workload, now),
            **end_keys(workload["metadata"]["uid"], found, started_at=started, exit_code=exit_code_of(pods)),
        }

    def _held_keys(self, workload: Object, now: datetime) -> Keys:
        """What its pods held; those that the task stops, until now at least."""
        keys, uid = Keys(), workload["metadata"]["uid"]
        for hold in self._holds(workload):
            if hold.goes_on:
                hold = hold._replace(end=now.timestamp(), exact=False)
            keys |= pod_keys(uid, hold)
        return keys

    def _has_ended_pods(self, plan: Plan, *, waited: bool) -> bool:
        """Whether pods went on until the plan ended them, and are gone: a Job is only replaced then, all else is waited
        for. Without any, the end is the one that was recorded before."""
        gone = _stopping_step(plan).replaces is not waited
        return gone and any(hold.goes_on for hold in self._holds(_live_workload(plan)))

    def _holds(self, workload: Object) -> list[Hold]:
        return [hold_of(pod) for pod in own_pods(workload, self._pods.get(workload["metadata"]["uid"], ()))]

    def _read_missing_pods(self, workloads: Mapping[JobId, Object]) -> None:
        missing = {job: one["metadata"]["uid"] for job, one in workloads.items()}
        missing = {job: uid for job, uid in missing.items() if uid not in self._pods}
        if not missing:
            return
        try:
            found = self._list_pods(missing)
        except KubeError as error:  # The history is no reason not to do what the task is for.
            names = abridged([f"{namespace}/{name}" for namespace, name in missing], 5)
            self._task.warn(f"the history does not have the GPU-hours of the pods of {names}: {as_sentence(error)}")
            found = {}
        self._pods |= {uid: found.get(job, ()) for job, uid in missing.items()}

    def _list_pods(self, jobs: Collection[JobId]) -> ByJob:
        try:
            return read_pods(self._task.client(), jobs)
        except KubeError as error:
            if isinstance(error, ApiError) and error.is_forbidden:
                raise
            return read_pods(self._task.client(), jobs)

    def _write_keys(self, keys: Mapping[str, KeyChanges], *, is_last: bool) -> None:
        for namespace in dict.fromkeys([*keys, *self._unwritten]):
            found = {**self._unwritten.pop(namespace, {}), **keys.get(namespace, {})}
            written = self._written[namespace]
            new = {key: text for key, text in found.items() if written.get(key) != text}
            if not new or namespace in self._inaccessible:
                continue
            try:
                write_history(self._task.client(), namespace, new)
                written.update(new)
            except KubeError as error:
                self._unwritten[namespace] = new
                forbidden = isinstance(error, ApiError) and error.is_forbidden
                if forbidden or isinstance(error, NotTheHistory):
                    self._inaccessible.add(namespace)
                if is_last or namespace in self._inaccessible:
                    self._warn_of_error(namespace, error, forbidden=forbidden)

    def _warn_of_error(self, namespace: str, error: KubeError, *, forbidden: bool) -> None:
        if namespace in self._warned:
            return
        self._warned.add(namespace)
        hint = " Grant get, list, create, patch and delete on configmaps there." if forbidden else ""
        self._task.warn(
            f"the history of jobs in namespace {namespace} (ConfigMap {HISTORY}) is not up to date: "
            f"{as_sentence(error)}{hint}"
        )


def _job_id(plan: Plan) -> JobId:
    return plan.namespace, plan.name


def _stopping_step(plan: Plan) -> Step:
    """What a plan that stops pods does to their workload; a pause may begin with what a queue has of it."""
    return next(step for step in plan.steps if step.kind in WORKLOAD_KINDS)


def _live_workload(plan: Plan) -> Object:
    return _stopping_step(plan).live


def _ends_run(plan: Plan) -> bool:
    step = _stopping_step(plan)
    return step.action is Action.DELETE or step.replaces
