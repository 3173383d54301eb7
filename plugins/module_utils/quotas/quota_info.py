# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_quota_info: the quotas of gpuctl_quota and their usage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any

from ..cluster.declared import read_declared
from ..cluster.lookup import namespaces_not_found, not_found
from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.resources import NAMESPACE, RESOURCE_QUOTA, Resource
from ..kube.shapes import MalformedObject
from ..labels import MANAGED, pod_security_of
from ..listed_namespaces import ListedNamespacesOptions, in_requested_namespaces, list_each, read_permitted
from ..manifest.problems import abridged
from ..namespaces import allowed_namespaces, listed_namespaces
from ..options import option
from ..queues.teams import shares_of
from ..task import ModuleSpec, Task
from .counting_budgets import budgets_by_namespace
from .gpu_hours import gpu_hours_row
from .usage import description_of, no_usage, over_quota, quota_name_of, unknown_extended_keys, usage


@dataclass(frozen=True, kw_only=True)
class QuotaInfoOptions(ListedNamespacesOptions):
    name: str | None = option("str")
    full: bool = option("bool", default=False)


def run(task: Task[QuotaInfoOptions]) -> dict[str, Any]:
    """Sends two list requests for the whole cluster, or two requests for each of the given namespaces.

    Warns of what the options name and the cluster does not have: an empty list alone may be a misspelling.
    """
    task, own = in_requested_namespaces(task)
    task, rows = read_permitted(task, read_quota_rows)
    found = {row["namespace"] for row in rows}
    empty = [name for name in task.options.namespaces or () if name not in found]
    if not task.options.name:  # Else a quota that is not in a namespace says nothing of that.
        for problem in namespaces_not_found(task.client(), empty, allowed_namespaces(task)):
            task.warn(problem)
    return {"changed": False, "namespace": own, "results": rows}


def read_quota_rows(task: Task[QuotaInfoOptions]) -> list[dict[str, Any]]:
    """Warns of a quota that is in none of the namespaces."""
    namespaces, name = listed_namespaces(task, task.options.namespaces), task.options.name
    client = task.client()
    # Those of gpuctl_budget as well.
    listed = list_each(partial(client.list_objects, labels=MANAGED), [RESOURCE_QUOTA], namespaces, client.concurrency)
    everything = [obj for obj in listed if quota_name_of(obj)]
    everything.sort(key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))
    # Filtered by name here, because any name is allowed but not every one is valid in a selector.
    found = [obj for obj in everything if name is None or quota_name_of(obj) == name]
    if name and not found:
        advice = "Check its name."
        if namespaces:
            searched = abridged(namespaces, 3)
            advice = f"Check its name, or look elsewhere than in {searched}: O(namespaces), O(all_namespaces)."
        task.warn(not_found("quota", name, sorted({quota_name_of(obj) or "" for obj in everything}), advice))
    levels = _pod_security(client, namespaces) if found else {}
    if any(unknown_extended_keys(obj) for obj in found):
        read_declared(client, task.warn)
    now, places = datetime.now(timezone.utc), budgets_by_namespace(listed)
    rows = [
        _quota_row(obj, levels, full=task.options.full)
        | {"gpu_hours": gpu_hours_row(obj, places[obj["metadata"]["namespace"]][0], now)}
        for obj in found
    ]
    # Which quota an object belongs to that cannot be read, its labels may not say.
    rows += [_malformed_row(each) for each in task.malformed_objects() if each.kind == RESOURCE_QUOTA.kind]
    return rows


MODULE = ModuleSpec(QuotaInfoOptions, run)


def _pod_security(client: Client, namespaces: list[str] | None) -> dict[str, str | None]:
    """The levels by namespace; without those that the account may not read."""

    def read(kind: Resource, namespace: str | None) -> list[dict[str, Any]]:
        if namespace is None:
            return if_allowed(lambda: client.list_objects(kind, metadata_only=True), [])
        found = if_allowed(lambda: client.get(kind, None, namespace), None)
        return [found] if found else []

    found = list_each(read, [NAMESPACE], namespaces, client.concurrency)
    return {obj["metadata"]["name"]: pod_security_of(obj) for obj in found}


def _malformed_row(obj: MalformedObject) -> dict[str, Any]:
    """The row of a ResourceQuota that cannot be read."""
    where = {"name": None, "namespace": obj.namespace, "description": None, "pod_security": None}
    quota: dict[str, Any] = {"gpu_hours": None, "shares": {}, "opportunistic": None, "over_quota": []}
    return {**where, **no_usage(), **quota, "problem": obj.sentence}


def _quota_row(obj: dict[str, Any], levels: Mapping[str, str | None], *, full: bool) -> dict[str, Any]:
    return {
        "name": quota_name_of(obj),
        "namespace": obj["metadata"]["namespace"],
        "description": description_of(obj),
        **usage(obj),
        "shares": shares_of(obj),
        "opportunistic": bool((obj.get("spec") or {}).get("scopeSelector")),
        "pod_security": levels.get(obj["metadata"]["namespace"]),
        "over_quota": over_quota(obj),
        "problem": None,
        **({"object": obj} if full else {}),
    }
