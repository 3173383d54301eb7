# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What there is of namespaces and quotas, from three lists; and waiting for what Kubernetes does after a write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster.status import is_terminating
from ..engine.apply import ApplyResult
from ..engine.plan import Action
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError
from ..kube.resources import LIMIT_RANGE, NAMESPACE, RESOURCE_QUOTA
from ..labels import OURS, QUOTA
from ..task import TaskFailed
from ..wait.polling import backoff, poll
from .usage import is_counted, quota_name_of

Object = dict[str, Any]

_COUNTING = 5.0  # seconds; the controller takes milliseconds unless the cluster is in trouble


@dataclass(frozen=True)
class Live:
    """Namespaces by name; ResourceQuotas and LimitRanges, everybody's, by namespace."""

    namespaces: dict[str, Object]
    objects: dict[str, list[Object]]

    def namespace(self, name: str) -> Object | None:
        """None also for one that is on its way out: what is in it goes with it."""
        found = self.namespaces.get(name)
        return None if found is None or is_terminating(found) else found

    def in_namespace(self, name: str) -> list[Object]:
        """The quota objects of a namespace that stays."""
        return self.objects.get(name, []) if self.namespace(name) else []

    def of_quota(self, quota: str) -> dict[str, list[Object]]:
        """What there is of a quota of ours, by namespace."""
        found = {name: [obj for obj in self.in_namespace(name) if quota_name_of(obj) == quota] for name in self.objects}
        return {name: objects for name, objects in found.items() if objects}


def read_live(client: Client) -> Live:
    """Three lists, of all namespaces: only so can be seen where a quota is that its manifest no longer names."""
    try:
        kinds = (NAMESPACE, RESOURCE_QUOTA, LIMIT_RANGE)
        namespaces, quotas, limits = run_concurrently(client.select, kinds, client.concurrency)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        raise TaskFailed(
            f"quotas are an administrator's task, it needs the right to list and write namespaces, resourcequotas and "
            f"limitranges in the whole cluster (a ClusterRole): {error}. Nothing was changed."
        ) from error
    objects: dict[str, list[Object]] = defaultdict(list)
    for obj in (*quotas, *limits):
        objects[obj["metadata"]["namespace"]].append(obj)
    return Live({obj["metadata"]["name"]: obj for obj in namespaces}, dict(objects))


def find_rivals(client: Client, outcomes: Iterable[ApplyResult]) -> list[str]:
    """Quotas that somebody else gave, while we wrote, to namespaces that had none when we looked.

    There is no lock: each of two tasks that claim a namespace at the same time looks again after its own write, so the
    one that looks last sees both. Nothing is taken back: the limits of both hold, and who is right is not ours to say.
    """
    claimed = {
        outcome.plan.namespace: outcome.plan.name
        for outcome in outcomes
        for step in outcome.plan.steps
        if step.kind == "ResourceQuota" and step.action is Action.CREATE
    }
    if not claimed:
        return []
    found = [
        (obj["metadata"]["namespace"], quota_name_of(obj))
        for obj in client.select(RESOURCE_QUOTA, labels=f"{OURS},{QUOTA}", metadata_only=True)
    ]
    return [
        f"quota {claimed[namespace]}: somebody else gave the namespace {namespace} to the quota {other} at the same "
        f"time. Both hold now; remove one of them: state absent, its name, namespaces [{namespace}]."
        for namespace, other in found
        if namespace in claimed and other != claimed[namespace]
    ]


def wait_until_counted(client: Client, outcomes: Sequence[ApplyResult]) -> None:
    """After a quota was written where something may run already: wait until Kubernetes has counted it.

    The outcomes get the ResourceQuotas with what is used. After some seconds, what is known then must do.
    """
    waiting = {(o.plan.namespace, step.name): o for o in outcomes for step in o.plan.steps if _counts_anew(o, step)}

    def all_counted() -> bool:
        for obj in client.select(RESOURCE_QUOTA, labels=f"{OURS},{QUOTA}"):
            place = obj["metadata"]["namespace"], obj["metadata"]["name"]
            if place in waiting and is_counted(obj):
                waiting.pop(place).objects["ResourceQuota", place[1]] = obj
        return not waiting

    if waiting:
        poll(all_counted, _COUNTING, backoff(0.1))


def _counts_anew(outcome: ApplyResult, step: Any) -> bool:
    fresh = any(s.kind == "Namespace" and s.action is Action.CREATE for s in outcome.plan.prerequisites)
    return step.kind == "ResourceQuota" and step.action in (Action.CREATE, Action.UPDATE) and not fresh


def wait_until_gone(client: Client, namespaces: Iterable[str], timeout: float) -> set[str]:
    """Wait until the namespaces are no more; those that still are after ``timeout`` seconds."""
    left = set(namespaces)

    def all_gone() -> bool:
        left.intersection_update(obj["metadata"]["name"] for obj in client.select(NAMESPACE, metadata_only=True))
        return not left

    if left:
        poll(all_gone, timeout, backoff(0.5))
    return left
