# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_quota_info: the quotas that gpuctl_quota made, and what is used of them."""

from __future__ import annotations

from typing import Any

from ..task import ModuleSpec, Task


def quota_info_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_quota_info beside those of the connection."""
    return {
        "name": {"type": "str"},
        "namespaces": {"type": "list", "elements": "str"},
        "full": {"type": "bool", "default": False},
    }


def run(task: Task) -> dict[str, Any]:
    """One list request for the whole cluster, or one for each of the given namespaces."""
    found = sorted(_read(task), key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))
    return {"changed": False, "results": [_row(obj, full=task.params["full"]) for obj in found]}


MODULE = ModuleSpec(quota_info_argument_spec(), run)


def _read(task: Task) -> list[dict[str, Any]]:
    from ..kube.concurrency import run_concurrently
    from ..kube.resources import RESOURCE_QUOTA
    from ..labels import OURS, QUOTA
    from .usage import quota_name_of

    client, name = task.client(), task.params["name"]
    places = [None] if task.params["namespaces"] is None else list(dict.fromkeys(task.params["namespaces"]))

    def read(place: str | None) -> list[dict[str, Any]]:
        return client.list_objects(RESOURCE_QUOTA, place, labels=f"{OURS},{QUOTA}")

    found = run_concurrently(read, places, client.concurrency)
    # By name here and not in the selector, in which a name could be anything.
    return [obj for objects in found for obj in objects if name is None or quota_name_of(obj) == name]


def _row(obj: dict[str, Any], *, full: bool) -> dict[str, Any]:
    from .usage import description_of, over_quota, quota_name_of, usage

    return {
        "name": quota_name_of(obj),
        "namespace": obj["metadata"]["namespace"],
        "description": description_of(obj),
        **usage(obj),
        "over_quota": over_quota(obj),
        **({"object": obj} if full else {}),
    }
