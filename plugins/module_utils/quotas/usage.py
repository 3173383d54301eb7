# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What ResourceQuotas say: how much is used of what, and where more is used than may be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..labels import DESCRIPTION, GPU, GPU_MEMORY, QUOTA, QUOTA_KEYS, is_ours
from ..quantity import parse

Object = Mapping[str, Any]

# Kubernetes takes these names in a quota and never counts them; ``requests.<name>`` is what it enforces.
UNENFORCED_KEYS = (GPU, GPU_MEMORY)

_WHOLE = frozenset({"gpu", "gpu_share", "pods"})  # numbers; the others are quantities


def quota_name_of(obj: Object) -> str | None:
    """The quota that an object of ours belongs to; None for objects of others."""
    name: str | None = (obj["metadata"].get("labels") or {}).get(QUOTA)
    return name if is_ours(obj) else None


def description_of(obj: Object) -> str | None:
    """What the manifest said of the quota."""
    text: str | None = (obj["metadata"].get("annotations") or {}).get(DESCRIPTION)
    return text


def usage(resource_quota: Object) -> dict[str, dict[str, Any] | None]:
    """``cpu``, ``memory``, ``gpu``, ``gpu_share`` and ``pods``: ``used``, ``hard`` and ``percent``; None: not limited.

    CPU and memory are limited twice, as requests and as limits; the greater use counts, as it is exhausted first.
    ``used`` and ``percent`` are None until Kubernetes has counted. Of a limit of 0 everything is used.
    """
    return {resource: _use(resource, resource_quota) for resource in QUOTA_KEYS}


def over_quota(resource_quota: Object) -> list[dict[str, Any]]:
    """What is used more than it may be (``resource``, ``used``, ``hard``): it was, when the limit was lowered."""
    return [
        {"resource": resource, "used": use["used"], "hard": use["hard"]}
        for resource, use in usage(resource_quota).items()
        if use and use["used"] is not None and parse(use["used"]).value > parse(use["hard"]).value
    ]


def is_counted(resource_quota: Object) -> bool:
    """Kubernetes has counted what is used by the present limits (its controller copies them when it does)."""
    status = resource_quota.get("status") or {}
    wanted, counted = resource_quota["spec"].get("hard") or {}, status.get("hard") or {}
    return wanted.keys() == counted.keys() and all(parse(wanted[key]) == parse(counted[key]) for key in wanted)


def _use(resource: str, resource_quota: Object) -> dict[str, Any] | None:
    hard = resource_quota["spec"].get("hard") or {}
    used = (resource_quota.get("status") or {}).get("used") or {}
    uses = [_share(hard[key], used.get(key)) for key in QUOTA_KEYS[resource] if key in hard]
    if not uses:
        return None
    most = max(uses, key=lambda use: -1.0 if use["percent"] is None else use["percent"])
    if resource in _WHOLE:
        whole = {name: None if most[name] is None else int(parse(most[name]).value) for name in ("used", "hard")}
        return {**whole, "percent": most["percent"]}
    return most


def _share(hard: str, used: str | None) -> dict[str, Any]:
    return {"used": used, "hard": hard, "percent": None if used is None else _percent(used, hard)}


def _percent(used: str, hard: str) -> float:
    limit = parse(hard).value
    return round(float(100 * parse(used).value / limit), 1) if limit else 100.0
