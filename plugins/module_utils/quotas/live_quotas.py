# SPDX-License-Identifier: BSD-2-Clause
"""Read namespaces and quotas, and wait for what Kubernetes does after a write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..cluster.status import is_terminating, why_terminating
from ..engine.apply import ApplyResult
from ..engine.plan import Action
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError
from ..kube.resources import LIMIT_RANGE, NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_QUOTA, UNFINISHED
from ..labels import MANAGED, QUOTA, is_managed, job_name_of
from ..manifest.problems import abridged, number_of
from ..reporter import Report, silent
from ..task import TaskFailed
from ..wait.polling import backoff, poll
from .usage import is_counted, quota_name_of

Object = dict[str, Any]

_COUNTING = 5.0  # seconds; the quota controller takes milliseconds unless the cluster is in trouble
_MOST_NAMES = 10


@dataclass(frozen=True)
class LiveQuotas:
    """Namespaces by name; all ResourceQuotas and LimitRanges by namespace, managed by us or not; levels of policies."""

    namespaces: dict[str, Object]
    objects: dict[str, list[Object]]
    levels: Mapping[str, str] = field(default_factory=dict)

    def namespace(self, name: str) -> Object | None:
        """None also for a terminating namespace, whose objects are deleted with it."""
        found = self.namespaces.get(name)
        return None if found is None or is_terminating(found) else found

    def in_namespace(self, name: str) -> list[Object]:
        """The quota objects of a namespace that is not terminating."""
        return self.objects.get(name, []) if self.namespace(name) else []

    def terminating(self, name: str) -> Object | None:
        """The namespace, if it was deleted and is still there."""
        found = self.namespaces.get(name)
        return found if found is not None and is_terminating(found) else None

    def of_quota(self, quota: str) -> dict[str, list[Object]]:
        """The managed objects of a quota, by namespace."""
        found = {name: [obj for obj in self.in_namespace(name) if quota_name_of(obj) == quota] for name in self.objects}
        return {name: objects for name, objects in found.items() if objects}

    def left_of(self, quota: str) -> list[str]:
        """The terminating namespaces that have objects of a quota."""
        return [
            name
            for name, objects in self.objects.items()
            if self.terminating(name) and any(quota_name_of(obj) == quota for obj in objects)
        ]


def read_live_quotas(client: Client) -> LiveQuotas:
    """Three lists of the whole cluster: only they show where a quota is that its manifest no longer names."""
    from .policy_levels import levels_of_policies

    try:
        kinds = (NAMESPACE, RESOURCE_QUOTA, LIMIT_RANGE)
        namespaces, quotas, limits = run_concurrently(client.list_objects, kinds, client.concurrency)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        raise TaskFailed(
            f"{error}. Managing quotas requires permission to list and write namespaces, resourcequotas and "
            f"limitranges in the whole cluster (a ClusterRole)."
        ) from error
    objects: dict[str, list[Object]] = defaultdict(list)
    for obj in (*quotas, *limits):
        objects[obj["metadata"]["namespace"]].append(obj)
    by_name = {obj["metadata"]["name"]: obj for obj in namespaces}
    return LiveQuotas(by_name, dict(objects), levels_of_policies(client, namespaces))


def contents_lost(client: Client, namespaces: Iterable[str], ignored_jobs: Collection[str] = ()) -> list[str]:
    """A blocker for each namespace whose deletion would also delete running pods, or claims with their data.

    Pods of ``ignored_jobs`` (``<namespace>/<name>``) do not count.
    """

    def look(namespace: str) -> str | None:
        # All pods, not only those of jobs: deleting a namespace deletes whatever is in it.
        running = client.list_objects(POD, namespace, fields=UNFINISHED, metadata_only=True)
        pods = [pod for pod in running if not (is_managed(pod) and f"{namespace}/{job_name_of(pod)}" in ignored_jobs)]
        claims = [
            claim
            for claim in client.list_objects(PERSISTENT_VOLUME_CLAIM, namespace, metadata_only=True)
            if not is_terminating(claim)  # It has been deleted already.
        ]
        found = [
            f"{noun} {_object_names(objects)}" for noun, objects in (("pods", pods), ("claims", claims)) if objects
        ]
        if not found:
            return None
        return (
            f"namespace {namespace}: its deletion would also delete {' and '.join(found)}. Delete them first, "
            f"use O(force=true), or keep the namespaces with O(delete_namespaces=false)."
        )

    return [blocker for blocker in run_concurrently(look, namespaces, client.concurrency) if blocker]


def _object_names(objects: list[Object]) -> str:
    return abridged(sorted(obj["metadata"]["name"] for obj in objects), _MOST_NAMES)


def concurrent_claims(live: LiveQuotas, results: Iterable[ApplyResult]) -> list[str]:
    """Errors for the namespaces that got a quota from this task and another one at the same time.

    There is no lock: each task looks again after its own writes, so that the last one sees both quotas. Nothing is
    rolled back: both limit the namespace, and only a person can decide which of them should.
    """
    claimed = {
        result.plan.namespace: result.plan.name
        for result in results
        for step in result.plan.steps
        if step.kind == "ResourceQuota" and step.action is Action.CREATE
    }
    found = [(namespace, quota_name_of(obj)) for namespace in claimed for obj in live.in_namespace(namespace)]
    return [
        f"quota {claimed[namespace]}: another task added the namespace {namespace} to the quota {other} at the same "
        f"time, and both limit it now. Remove one of them: state absent, its name, namespaces [{namespace}]."
        for namespace, other in dict.fromkeys(found)
        if other not in (None, claimed[namespace])
    ]


def wait_until_counted(client: Client, results: Sequence[ApplyResult]) -> None:
    """Wait for the usage of changed quotas, where something may already be running.

    The results get the ResourceQuotas with their usage. After ``_COUNTING`` seconds, they keep what they have.
    """
    waiting = {(o.plan.namespace, step.name): o for o in results for step in o.plan.steps if _usage_changes(o, step)}

    def all_counted() -> bool:
        for obj in client.list_objects(RESOURCE_QUOTA, labels=f"{MANAGED},{QUOTA}"):
            place = obj["metadata"]["namespace"], obj["metadata"]["name"]
            if place in waiting and is_counted(obj):
                waiting.pop(place).objects["ResourceQuota", place[1]] = obj
        return not waiting

    if waiting:
        poll(all_counted, _COUNTING, backoff(0.1))


def _usage_changes(result: ApplyResult, step: Any) -> bool:
    # Nothing runs in a new namespace, so there is nothing that the controller could count.
    is_new_namespace = any(s.kind == "Namespace" and s.action is Action.CREATE for s in result.plan.prerequisites)
    return step.kind == "ResourceQuota" and step.action in (Action.CREATE, Action.UPDATE) and not is_new_namespace


def wait_until_gone(
    client: Client, namespaces: Iterable[str], timeout: float, progress: Report = silent
) -> dict[str, str]:
    """Wait for deletions; returns the namespaces that still exist after ``timeout`` seconds, and what keeps each."""
    left = dict.fromkeys(sorted(namespaces), "")

    def slim(obj: Object) -> tuple[str, str] | None:
        return (obj["metadata"]["name"], why_terminating(obj)) if is_terminating(obj) else None

    def all_gone() -> bool:
        nonlocal left  # One that is not terminating has been created again by others.
        left = {found[0]: found[1] for found in client.list_slim(NAMESPACE, slim) if found and found[0] in left}
        if left:
            number = number_of(len(left), "namespace")
            progress(lambda: f"waiting for {number} to be deleted: {_with_reasons(left)}")
        return not left

    if left:
        poll(all_gone, timeout, backoff(0.5))
    return left


def _with_reasons(left: Mapping[str, str]) -> str:
    return abridged([f"{name} ({why.rstrip('.')})" if why else name for name, why in left.items()], _MOST_NAMES)


def still_terminating(left: Mapping[str, str], seconds: int) -> str:
    """The error for namespaces that a wait has not seen go, with what keeps each."""
    names = abridged(list(left), _MOST_NAMES)
    reasons = [f"{name}: {why}" for name, why in left.items() if why][:_MOST_NAMES]
    noun = "namespace" if len(left) == 1 else "namespaces"
    hint = "Remove what keeps it, or raise O(wait_timeout)." if reasons else "Raise O(wait_timeout)."
    return "\n".join([f"{noun} {names} still terminating after {seconds} s. {hint}", *reasons])
