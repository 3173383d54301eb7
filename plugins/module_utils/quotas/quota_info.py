# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_quota_info: the quotas of gpuctl_quota and their usage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..kube.concurrency import run_concurrently
from ..kube.resources import RESOURCE_QUOTA
from ..kube.shapes import OddObject
from ..labels import MANAGED, QUOTA
from ..options import Options, option
from ..task import ModuleSpec, Task
from .usage import description_of, over_quota, quota_keys, quota_name_of, usage


@dataclass(frozen=True, kw_only=True)
class QuotaInfoOptions(Options):
    name: str | None = option("str")
    namespaces: list[str] | None = option("list", elements="str")
    full: bool = option("bool", default=False)


def run(task: Task[QuotaInfoOptions]) -> dict[str, Any]:
    """Sends one list request for the whole cluster, or one for each of the given namespaces."""
    found = sorted(_read(task), key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))
    rows = [_row(obj, full=task.options.full) for obj in found]
    # Which quota an object belongs to that cannot be read, its labels may not say.
    rows += [_odd_row(odd) for odd in task.odd_objects() if odd.kind == RESOURCE_QUOTA.kind]
    return {"changed": False, "results": rows}


MODULE = ModuleSpec(QuotaInfoOptions, run)


def _read(task: Task[QuotaInfoOptions]) -> list[dict[str, Any]]:
    client, name, namespaces = task.client(), task.options.name, task.options.namespaces

    def read(namespace: str | None) -> list[dict[str, Any]]:
        return client.list_objects(RESOURCE_QUOTA, namespace, labels=f"{MANAGED},{QUOTA}")

    found = run_concurrently(
        read, [None] if namespaces is None else list(dict.fromkeys(namespaces)), client.concurrency
    )
    # Filtered by name here, because any name is allowed but not every one is valid in a selector.
    return [obj for objects in found for obj in objects if name is None or quota_name_of(obj) == name]


def _odd_row(odd: OddObject) -> dict[str, Any]:
    """The row of a ResourceQuota that cannot be read."""
    where = {"name": None, "namespace": odd.namespace, "description": None}
    return {**where, **dict.fromkeys(quota_keys()), "over_quota": [], "problem": odd.sentence}


def _row(obj: dict[str, Any], *, full: bool) -> dict[str, Any]:
    return {
        "name": quota_name_of(obj),
        "namespace": obj["metadata"]["namespace"],
        "description": description_of(obj),
        **usage(obj),
        "over_quota": over_quota(obj),
        "problem": None,
        **({"object": obj} if full else {}),
    }
