# SPDX-License-Identifier: BSD-2-Clause
"""The job controller.

Source: pkg/controller/job/job_controller.go (syncJob, manageJob, trackJobStatusAndRemoveFinalizers), backoff_utils.go.
What the original does to live with stale caches (expectations) is left out: reads here are never stale.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubesim.clock import parse_time, rfc3339
from kubesim.errors import ApiError

from . import job_indexes as indexes
from .base import Controller, Key, Object, batch_delay, counted, key_of
from .events import EventRecorder
from .job_groups import put_into_group
from .job_policies import judge_failure
from .owners import claimed, controller_of, is_controlled_by, owner_index
from .pods import PodControl, deletion_order, is_active, is_deleted, is_ready, is_terminating, restarts

FINALIZER = "batch.kubernetes.io/job-tracking"
MAX_PODS_PER_SYNC = 500
BACKOFF_BASE, BACKOFF_MAX = 10.0, 600.0
GENERATED_NAME_BASE = 58  # what is left of a name for its prefix when five characters are generated


@dataclass
class Backoff:
    """Failures of a job since its last success, and the time of the latest."""

    failures: int = 0
    last: datetime | None = None

    def remaining(self, now: datetime) -> float:
        if not self.failures or self.last is None:
            return 0.0
        delay: float = min(BACKOFF_BASE * 2 ** min(self.failures - 1, 30), BACKOFF_MAX)
        return max(0.0, delay - (now - self.last).total_seconds())


@dataclass
class Sync:
    """One look at a job: its pods by state, and the status that is to be written."""

    job: Object
    pods: list[Object]
    status: Object
    active: list[Object] = field(default_factory=list)
    succeeded: int = 0
    failures: int = 0
    succeeded_indexes: set[int] = field(default_factory=set)
    failed_indexes: set[int] | None = None
    delayed: dict[int, Object] = field(default_factory=dict)
    finished: Object | None = None
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        self.spec = self.job["spec"]
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.completions: int | None = self.spec.get("completions")
        self.per_index: int | None = self.spec.get("backoffLimitPerIndex")
        self.policy = self.spec.get("podFailurePolicy")
        self.only_failed = self.spec.get("podReplacementPolicy") == "Failed" or self.policy is not None
        self.suspended = bool(self.spec.get("suspend"))

    def failed(self, pod: Object) -> bool:
        """Deleted pods count as failed, unless replacements have to wait for the phase Failed."""
        phase = pod.get("status", {}).get("phase")
        return phase == "Failed" or (not self.only_failed and is_deleted(pod) and phase != "Succeeded")

    def valid(self, pod: Object) -> bool:
        return not self.indexed or indexes.valid_index(pod, self.completions or 0)


class JobController(Controller):
    name = "job-controller"
    watches = ("Job", "Pod")
    retry_base, retry_max = 1.0, 60.0

    def __init__(self, registry: Any, makes_groups: bool = False) -> None:
        super().__init__(registry)
        self.makes_groups = makes_groups
        self.recorder = EventRecorder(registry, self.name)
        self.pods = PodControl(registry, self.recorder)
        self.backoffs: dict[Key, Backoff] = {}
        owner_index(registry)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Job":
            self.enqueue(("job", *key_of(obj)))
            if event == "DELETED":
                for pod in owner_index(self.registry).dependents(obj["metadata"]["uid"], "Pod"):
                    self.enqueue(("pod", *key_of(pod)))
            return
        if event != "DELETED" and tracked(obj):
            self.enqueue(("pod", *key_of(obj)))
        for version in (obj, old):
            owner = controller_of(version) if version else None
            if owner is not None and owner["kind"] == "Job":
                delay = batch_delay(owner_index(self.registry).count(owner["uid"]))
                self.enqueue(("job", obj["metadata"]["namespace"], owner["name"]), delay)

    def reconcile(self, key: tuple[str, str, str]) -> None:
        what, namespace, name = key
        if what == "pod":
            self._release_orphan(namespace, name)
        else:
            self._sync((namespace, name))

    def _release_orphan(self, namespace: str, name: str) -> None:
        """A pod whose job is gone or done needs no tracking (syncOrphanPod)."""
        pod = self.registry.get("Pod", namespace, name)
        if pod is None or not tracked(pod):
            return
        owner = controller_of(pod)
        job = self.registry.get("Job", namespace, owner["name"]) if owner else None
        if job is None or not is_controlled_by(pod, job) or finished_condition(job):
            self._untrack(pod)

    def _untrack(self, pod: Object) -> None:
        def drop(copied: Object) -> None:
            left = [name for name in copied["metadata"].get("finalizers") or () if name != FINALIZER]
            copied["metadata"].pop("finalizers", None)
            if left:
                copied["metadata"]["finalizers"] = left

        self.registry.modify("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"], drop)

    def _sync(self, key: Key) -> None:
        job = self.registry.get("Job", *key)
        if job is None or finished_condition(job):
            self.backoffs.pop(key, None)
            return
        if job["spec"].get("managedBy", "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
            return
        sync = self._look(key, job)
        error: ApiError | None = None
        self._decide(key, sync)
        active, ready = len(sync.active), sum(map(is_ready, sync.active))
        terminating = sum(map(is_terminating, sync.pods))
        if sync.finished is not None:
            active, ready, terminating = self._remove(
                sync, sync.active, active, ready, terminating, keep_finalizer=True
            )
        else:
            manage = "deletionTimestamp" not in job["metadata"]
            if manage:
                active, ready, terminating, error = self._manage(key, sync, active, ready, terminating)
            if active == 0 and self._complete(sync):
                message = "Reached expected number of succeeded pods"
                sync.finished = self._condition("SuccessCriteriaMet", "CompletionsReached", message)
            elif manage:
                self._note_suspension(sync)
        for counter in ("active", "ready", "terminating"):
            sync.status.pop(counter, None)
        sync.status |= counted(active=active) | {"ready": ready, "terminating": terminating}
        self._track(key, sync, terminating)
        if error is not None:
            raise error

    # -- looking ---------------------------------------------------------------------------------------------------

    def _look(self, key: Key, job: Object) -> Sync:
        pods = claimed(self.registry, job, "Pod")
        sync = Sync(job, pods, copy.deepcopy(job.get("status") or {}))
        sync.active = [pod for pod in pods if is_active(pod)]
        uncounted = sync.status.setdefault("uncountedTerminatedPods", {})
        known = {state: set(uncounted.get(state) or ()) for state in ("succeeded", "failed")}
        fresh = [pod for pod in pods if tracked(pod) and sync.valid(pod)]
        new_successes = [
            pod
            for pod in fresh
            if pod.get("status", {}).get("phase") == "Succeeded" and pod["metadata"]["uid"] not in known["succeeded"]
        ]
        new_failures = [pod for pod in fresh if sync.failed(pod) and pod["metadata"]["uid"] not in known["failed"]]
        sync.succeeded = sync.status.get("succeeded", 0) + len(new_successes) + len(known["succeeded"])
        counting = [pod for pod in new_failures if judge_failure(sync.policy, pod).counts]
        sync.failures = sync.status.get("failed", 0) + len(counting) + len(known["failed"])
        if "startTime" not in sync.status and not sync.suspended:
            sync.status["startTime"] = self._now()
        sync.backoff = next_backoff(self.backoffs.get(key, Backoff()), new_successes, new_failures)
        if sync.indexed:
            self._look_at_indexes(sync)
        return sync

    def _look_at_indexes(self, sync: Sync) -> None:
        completions = sync.completions or 0
        tracked_pods = [pod for pod in sync.pods if tracked(pod) and sync.valid(pod)]
        sync.succeeded_indexes = indexes.parse(sync.status.get("completedIndexes"), completions) | {
            index
            for pod in tracked_pods
            if pod.get("status", {}).get("phase") == "Succeeded" and (index := indexes.index_of(pod)) is not None
        }
        sync.succeeded = len(sync.succeeded_indexes)
        if sync.per_index is None:
            return
        sync.failed_indexes = indexes.parse(sync.status.get("failedIndexes"), completions)
        for pod in tracked_pods:
            index = indexes.index_of(pod)
            if index is None or not sync.failed(pod):
                continue
            verdict = judge_failure(sync.policy, pod)
            if verdict.action == "FailIndex" or (verdict.counts and indexes.failure_counts(pod)[0] >= sync.per_index):
                sync.failed_indexes.add(index)
        settled = sync.succeeded_indexes | sync.failed_indexes | {indexes.index_of(pod) for pod in sync.active}
        for pod in sorted(
            filter(sync.failed, tracked_pods), key=lambda pod: (sum(indexes.failure_counts(pod)), finish_time(pod))
        ):
            index = indexes.index_of(pod)
            if index is not None and index not in settled:
                sync.delayed[index] = pod

    # -- deciding --------------------------------------------------------------------------------------------------

    def _decide(self, key: Key, sync: Sync) -> None:
        """Whether the job is to end now, and with which condition."""
        for met in sync.status.get("conditions") or ():
            if met["type"] in ("SuccessCriteriaMet", "FailureTarget") and met["status"] == "True":
                sync.finished = met
                return
        sync.finished = self._failure(key, sync) or self._success(sync)

    def _failure(self, key: Key, sync: Sync) -> Object | None:
        spec = sync.spec
        for pod in sync.pods:
            if sync.failed(pod):
                verdict = judge_failure(sync.policy, pod)
                if verdict.action == "FailJob":
                    return self._condition("FailureTarget", "PodFailurePolicy", verdict.message)
        if sync.failures > spec["backoffLimit"] or restarted_too_often(sync):
            message = "Job has reached the specified backoff limit"
            return self._condition("FailureTarget", "BackoffLimitExceeded", message)
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and not sync.suspended:
            left = deadline - (self.clock.now() - parse_time(sync.status["startTime"])).total_seconds()
            if left <= 0:
                message = "Job was active longer than specified deadline"
                return self._condition("FailureTarget", "DeadlineExceeded", message)
            self.enqueue(("job", *key), left)
        if sync.failed_indexes:
            if len(sync.failed_indexes) > spec.get("maxFailedIndexes", len(sync.failed_indexes)):
                message = "Job has exceeded the specified maximal number of failed indexes"
                return self._condition("FailureTarget", "MaxFailedIndexesExceeded", message)
            if len(sync.failed_indexes) + len(sync.succeeded_indexes) >= (sync.completions or 0):
                return self._condition("FailureTarget", "FailedIndexes", "Job has failed indexes")
        return None

    def _success(self, sync: Sync) -> Object | None:
        """By the successPolicy (success_policy.go, matchSuccessPolicy)."""
        completions = sync.completions or 0
        for number, rule in enumerate((sync.spec.get("successPolicy") or {}).get("rules") or ()):
            named = indexes.parse(rule["succeededIndexes"], completions) if "succeededIndexes" in rule else None
            done = sync.succeeded_indexes if named is None else sync.succeeded_indexes & named
            if len(done) >= rule.get("succeededCount", completions if named is None else len(named)):
                return self._condition("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {number}")
        return None

    def _complete(self, sync: Sync) -> bool:
        return sync.succeeded > 0 if sync.completions is None else sync.succeeded >= sync.completions

    def _note_suspension(self, sync: Sync) -> None:
        conditions = sync.status.setdefault("conditions", [])
        old = next((c for c in conditions if c["type"] == "Suspended"), None)
        if sync.suspended == (old is not None and old["status"] == "True"):
            if not conditions:
                del sync.status["conditions"]
            return
        reason, event = ("JobSuspended", "Suspended") if sync.suspended else ("JobResumed", "Resumed")
        message = "Job suspended" if sync.suspended else "Job resumed"
        new = self._condition("Suspended", reason, message, status=str(sync.suspended))
        if old is None:
            conditions.append(new)
        else:
            conditions[conditions.index(old)] = new
        self.recorder.event(sync.job, "Normal", event, message)
        if sync.suspended:
            sync.status.pop("startTime", None)
        else:
            sync.status["startTime"] = self._now()

    # -- pods ------------------------------------------------------------------------------------------------------

    def _manage(
        self, key: Key, sync: Sync, active: int, ready: int, terminating: int
    ) -> tuple[int, int, int, ApiError | None]:
        """Delete pods that are too many, or else create those that are missing; the counters after that."""
        wanted = self._wanted_active(sync, active)
        surplus = indexes.without_place(sync.active, sync.completions or 0) if sync.indexed else []
        names = {pod["metadata"]["name"] for pod in surplus}
        left = [pod for pod in sync.active if pod["metadata"]["name"] not in names]
        surplus += deletion_order(left)[: max(0, active - wanted - len(surplus))]
        if surplus:
            surplus = surplus[:MAX_PODS_PER_SYNC] if not sync.suspended else surplus
            return (*self._remove(sync, surplus, active, ready, terminating, keep_finalizer=False), None)
        missing = wanted - active - (terminating if sync.only_failed else 0)
        if missing <= 0 or sync.suspended:
            return active, ready, terminating, None
        created, error = self._create(key, sync, min(missing, MAX_PODS_PER_SYNC))
        return active + created, ready, terminating, error

    def _wanted_active(self, sync: Sync, active: int) -> int:
        if sync.suspended:
            return 0
        parallelism: int = sync.spec["parallelism"]
        if sync.completions is None:
            return active if sync.succeeded else parallelism
        return max(0, min(parallelism, sync.completions - sync.succeeded))

    def _remove(
        self, sync: Sync, pods: list[Object], active: int, ready: int, terminating: int, *, keep_finalizer: bool
    ) -> tuple[int, int, int]:
        for pod in pods:
            if not keep_finalizer:
                self._untrack(pod)
            self.pods.delete(sync.job, pod)
        return active - len(pods), ready - sum(map(is_ready, pods)), terminating + len(pods)

    def _create(self, key: Key, sync: Sync, missing: int) -> tuple[int, ApiError | None]:
        now = self.clock.now()
        free: list[int] = []
        if sync.indexed:
            free, wait = self._free_indexes(sync, missing, now)
            missing = len(free)
        if sync.per_index is None:
            wait = sync.backoff.remaining(now)
        if wait > 0:
            self.enqueue(("job", *key), wait)
            return 0, None
        template = copy.deepcopy(sync.spec["template"])
        finalizers = template.setdefault("metadata", {}).setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        if self.makes_groups:
            put_into_group(self.registry, sync.job, template)
        job_name = sync.job["metadata"]["name"]

        def create(number: int) -> None:
            if not free:
                self.pods.create(sync.job, template)
                return
            index = free[number]
            indexed = copy.deepcopy(template)
            indexes.add_index(indexed, job_name, index)
            if sync.per_index is not None:
                self._hand_down_failures(sync, indexed, index)
            suffix = f"-{index}-"
            self.pods.create(sync.job, indexed, job_name[: GENERATED_NAME_BASE - len(suffix)] + suffix)

        return self.pods.create_many(missing, create)

    def _free_indexes(self, sync: Sync, missing: int, now: datetime) -> tuple[list[int], float]:
        """Indexes to create pods for now; if there are none, the seconds until there is one (per-index backoff)."""
        busy = sync.pods if sync.only_failed else sync.active
        taken = {indexes.index_of(pod) for pod in busy if is_active(pod) or is_terminating(pod)} - {None}
        taken |= sync.succeeded_indexes | (sync.failed_indexes or set())
        free = indexes.first_free(missing, sync.completions or 0, taken)  # type: ignore[arg-type]
        if sync.per_index is None:
            return free, 0.0
        waits = dict.fromkeys(free, 0.0)
        for index in free:
            last = sync.delayed.get(index)
            if last is not None:
                waits[index] = Backoff(sum(indexes.failure_counts(last)) + 1, finish_time(last)).remaining(now)
        ready = [index for index, wait in waits.items() if wait <= 0]
        return ready, 0.0 if ready or not waits else min(waits.values())

    def _hand_down_failures(self, sync: Sync, template: Object, index: int) -> None:
        last = sync.delayed.get(index)
        counting, ignored = indexes.failure_counts(last) if last is not None else (0, 0)
        if last is not None:
            counts = judge_failure(sync.policy, last).counts
            counting, ignored = counting + counts, ignored + (not counts)
        template["metadata"]["annotations"][indexes.FAILURES] = str(counting)
        if ignored:
            template["metadata"]["annotations"][indexes.IGNORED_FAILURES] = str(ignored)

    # -- tracking --------------------------------------------------------------------------------------------------

    def _track(self, key: Key, sync: Sync, terminating: int) -> None:
        """Count finished pods once: first note them in the status, then take off their finalizer, then count."""
        countable = [pod for pod in sync.pods if tracked(pod) and self._may_untrack(sync, pod)]
        for pod in countable:
            self._note_uncounted(sync, pod)
        if sync.indexed:
            sync.status.pop("completedIndexes", None)
            sync.status.pop("succeeded", None)
            sync.status |= counted(succeeded=len(sync.succeeded_indexes))
            if sync.succeeded_indexes:
                sync.status["completedIndexes"] = indexes.render(sync.succeeded_indexes)
            if sync.failed_indexes is not None:
                sync.status["failedIndexes"] = indexes.render(sync.failed_indexes)
        if sync.finished is not None and sync.finished not in sync.status.get("conditions", ()):
            sync.status.setdefault("conditions", []).append(sync.finished)
        self._write(sync)
        self.backoffs[key] = sync.backoff
        for pod in countable:
            self._untrack(pod)
        uncounted = sync.status["uncountedTerminatedPods"]
        for state in ("succeeded", "failed"):
            total = sync.status.get(state, 0) + len(uncounted.pop(state, ()))
            sync.status |= counted(**{state: total})
        ending = self._ending(sync) if sync.finished is not None and terminating == 0 else None
        self._write(sync)
        if ending is not None:
            self._announce(sync, ending)

    def _may_untrack(self, sync: Sync, pod: Object) -> bool:
        phase = pod.get("status", {}).get("phase")
        if "deletionTimestamp" in sync.job["metadata"] or sync.finished is not None or phase == "Succeeded":
            return True
        if not sync.failed(pod):
            return False
        waiting = sync.delayed.get(index) if (index := indexes.index_of(pod)) is not None else None
        return waiting is None or waiting["metadata"]["uid"] != pod["metadata"]["uid"]

    def _note_uncounted(self, sync: Sync, pod: Object) -> None:
        uid, uncounted = pod["metadata"]["uid"], sync.status["uncountedTerminatedPods"]
        known = [*uncounted.get("succeeded", ()), *uncounted.get("failed", ())]
        if uid in known or not sync.valid(pod):
            return
        if pod.get("status", {}).get("phase") == "Succeeded":
            if not sync.indexed:  # an index is counted once by itself
                uncounted.setdefault("succeeded", []).append(uid)
            return
        ended_badly = sync.finished is not None and sync.finished["type"] != "SuccessCriteriaMet"
        if (sync.failed(pod) or ended_badly) and judge_failure(sync.policy, pod).counts:
            uncounted.setdefault("failed", []).append(uid)

    def _ending(self, sync: Sync) -> Object:
        met = sync.finished or {}
        kind = "Complete" if met["type"] == "SuccessCriteriaMet" else "Failed"
        ending = self._condition(kind, met["reason"], met["message"])
        sync.status["conditions"].append(ending)
        if kind == "Complete":
            sync.status["completionTime"] = ending["lastTransitionTime"]
        return ending

    def _announce(self, sync: Sync, ending: Object) -> None:
        if ending["type"] == "Failed":
            self.recorder.event(sync.job, "Warning", ending["reason"], ending["message"])
            return
        if sync.completions is not None and sync.status.get("succeeded", 0) > sync.completions:
            message = "Too many succeeded pods running after completion count reached"
            self.recorder.event(sync.job, "Warning", "TooManySucceededPods", message)
        self.recorder.event(sync.job, "Normal", "Completed", "Job completed")

    def _write(self, sync: Sync) -> None:
        def write(job: Object) -> None:
            job["status"] = copy.deepcopy(sync.status)

        self.registry.modify("Job", *key_of(sync.job), write, subresource="status")

    def _condition(self, kind: str, reason: str, message: str, status: str = "True") -> Object:
        now = self._now()
        return {
            "type": kind,
            "status": status,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    def _now(self) -> str:
        return rfc3339(self.clock.now())


def tracked(pod: Object) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def finished_condition(job: Object) -> Object | None:
    condition: Object
    for condition in job.get("status", {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return condition
    return None


def restarted_too_often(sync: Sync) -> bool:
    """With restartPolicy OnFailure the limit is on container restarts (pastBackoffLimitOnFailure)."""
    if sync.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    phases = ("Running", "Pending")
    total: int = sum(restarts(pod) for pod in sync.pods if pod.get("status", {}).get("phase") in phases)
    return total >= max(1, int(sync.spec["backoffLimit"]))


def next_backoff(backoff: Backoff, successes: list[Object], failures: list[Object]) -> Backoff:
    """Only failures after the last success count."""
    times = sorted(finish_time(pod) for pod in failures)
    if not successes:
        return Backoff(backoff.failures + len(times), times[-1]) if times else backoff
    last_success = max(finish_time(pod) for pod in successes)
    later = [time for time in times if time > last_success]
    return Backoff(len(later), later[-1] if later else None)


def finish_time(pod: Object) -> datetime:
    """When a pod ended: its containers, else its Ready condition, else its deletion, else its creation."""
    status, metadata = pod.get("status", {}), pod["metadata"]
    ends = [c.get("state", {}).get("terminated", {}).get("finishedAt") for c in status.get("containerStatuses") or ()]
    if ends and all(ends):
        return max(parse_time(end) for end in ends)
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "False" and condition.get("lastTransitionTime"):
            return parse_time(condition["lastTransitionTime"])
    if "deletionTimestamp" in metadata:
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
        return parse_time(metadata["deletionTimestamp"]) - grace
    return parse_time(metadata["creationTimestamp"])
