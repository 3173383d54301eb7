# SPDX-License-Identifier: BSD-2-Clause
"""The usage of ResourceQuotas, and where it exceeds the limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..accelerators import catalog
from ..labels import DESCRIPTION, QUOTA, is_managed
from ..quantity import parse

Object = Mapping[str, Any]


def quota_keys() -> dict[str, tuple[str, ...]]:
    """The limits of a manifest's quota -> the keys of a ResourceQuota."""
    return {
        "cpu": ("requests.cpu", "limits.cpu"),
        "memory": ("requests.memory", "limits.memory"),
        "gpu": ("requests.nvidia.com/gpu",),
        "gpu_share": ("requests.aliyun.com/gpu-mem",),
        "pods": ("pods",),
    }


def quota_name_of(obj: Object) -> str | None:
    """The quota that a managed object belongs to; None for unmanaged objects."""
    name: str | None = (obj["metadata"].get("labels") or {}).get(QUOTA)
    return name if is_managed(obj) else None


def description_of(obj: Object) -> str | None:
    """The description from the manifest."""
    text: str | None = (obj["metadata"].get("annotations") or {}).get(DESCRIPTION)
    return text


def usage(resource_quota: Object) -> dict[str, dict[str, Any] | None]:
    """``used``, ``hard`` and ``percent`` of ``cpu``, ``memory``, ``gpu``, ``gpu_share``, ``pods``; None if unlimited.

    CPU and memory have two limits, for requests and for limits; the one with the higher percentage is returned.
    ``used`` and ``percent`` are None until Kubernetes has counted. A limit of 0 is always 100 percent used.
    """
    return {resource: _use(resource, resource_quota) for resource in quota_keys()}


def over_quota(resource_quota: Object) -> list[dict[str, Any]]:
    """The ``resource``, ``used`` and ``hard`` of exceeded limits: a limit can be lowered below the usage."""
    return [
        {"resource": resource, "used": use["used"], "hard": use["hard"]}
        for resource, use in usage(resource_quota).items()
        if use and use["used"] is not None and parse(use["used"]).value > parse(use["hard"]).value
    ]


def is_counted(resource_quota: Object) -> bool:
    """Whether the status belongs to the current limits: the quota controller copies them when it counts."""
    status = resource_quota.get("status") or {}
    wanted, counted = (resource_quota.get("spec") or {}).get("hard") or {}, status.get("hard") or {}
    return wanted.keys() == counted.keys() and all(parse(wanted[key]) == parse(counted[key]) for key in wanted)


def _use(resource: str, resource_quota: Object) -> dict[str, Any] | None:
    hard = (resource_quota.get("spec") or {}).get("hard") or {}
    used = (resource_quota.get("status") or {}).get("used") or {}
    uses = [_share(hard[key], used.get(key)) for key in quota_keys()[resource] if key in hard]
    if not uses:
        return None
    most = max(uses, key=lambda use: -1.0 if use["percent"] is None else use["percent"])
    if resource not in ("cpu", "memory"):  # Those are quantities, the others numbers.
        whole = {name: None if most[name] is None else int(parse(most[name]).value) for name in ("used", "hard")}
        return {**whole, "percent": most["percent"]}
    return most


def _share(hard: str, used: str | None) -> dict[str, Any]:
    limit, percent = parse(hard).value, None
    if used is not None:
        percent = round(float(100 * parse(used).value / limit), 1) if limit else 100.0
    return {"used": used, "hard": hard, "percent": percent}


def unenforced_keys(resource_quota: Object) -> list[str]:
    """The keys of a ResourceQuota that Kubernetes ignores: it enforces ``requests.<key>``."""
    return [key for key in (resource_quota.get("spec", {}).get("hard") or {}) if catalog().row(key)]
