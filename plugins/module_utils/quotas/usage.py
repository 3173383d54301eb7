# SPDX-License-Identifier: BSD-2-Clause
"""The usage of ResourceQuotas, and where it exceeds the limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..accelerators.catalog import MEMORY, QUOTA_OF_CLASS, DeviceResource, catalog
from ..accelerators.hardware import DEFAULT_ACCELERATOR
from ..labels import DESCRIPTION, QUOTA, is_managed
from ..quantity import parse

Object = Mapping[str, Any]
_REQUESTS = "requests."


def quota_keys() -> dict[str, tuple[str, ...]]:
    """The limits of a manifest's quota -> the keys of a ResourceQuota; those of ``accelerators`` are not listed."""
    profile = catalog().profiles[DEFAULT_ACCELERATOR]
    first, *others = profile.backends.values()
    return {
        # Of CPU and memory, a quota can limit both; of extended resources only requests, which equal the limits.
        "cpu": ("requests.cpu", "limits.cpu"),
        "memory": ("requests.memory", "limits.memory"),
        "gpu": (profile.device.quota_key,),
        "gpu_share": (first.memory.quota_key,),
        "gpu_memory": tuple(key for each in others for key in (each.memory.quota_key, *each.quota)),
        "pods": ("pods",),
    }


def no_usage() -> dict[str, None]:
    """``usage`` where there is no ResourceQuota that can be read."""
    return dict.fromkeys((*quota_keys(), "accelerators", "device_classes"))


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
    ``accelerators`` and ``device_classes`` have the same of each of those that is limited, by its name.
    """
    fixed = {resource: _resource_usage(keys, resource_quota) for resource, keys in quota_keys().items()}
    others = {"accelerators": _accelerator_usage(resource_quota), "device_classes": _device_classes(resource_quota)}
    return {**fixed, **{name: found or None for name, found in others.items()}}


def over_quota(resource_quota: Object) -> list[dict[str, Any]]:
    """The ``resource``, ``used`` and ``hard`` of exceeded limits: a limit can be lowered below the usage."""
    uses = usage(resource_quota)
    for group in ("accelerators", "device_classes"):
        uses |= {f"{group}.{name}": use for name, use in (uses.pop(group) or {}).items()}
    return [
        {"resource": resource, "used": use["used"], "hard": use["hard"]}
        for resource, use in uses.items()
        if use and use["used"] is not None and parse(use["used"]).value > parse(use["hard"]).value
    ]


def unknown_extended_keys(resource_quota: Object) -> list[str]:
    """The keys of extended resources that belong to no accelerator known to the task."""
    hard = (resource_quota.get("spec") or {}).get("hard") or {}
    return [key for key in hard if "/" in key and not key.endswith(QUOTA_OF_CLASS) and _row_of(key) is None]


def _row_of(key: str) -> DeviceResource | None:
    """The accelerator that a key limits."""
    return catalog().row(key.removeprefix(_REQUESTS)) if key.startswith(_REQUESTS) else None


def _accelerator_usage(resource_quota: Object) -> dict[str, Any]:
    known = {key for keys in quota_keys().values() for key in keys}
    hard = (resource_quota.get("spec") or {}).get("hard") or {}
    rows = {key: row for key in hard if key not in known and (row := _row_of(key))}
    return {row.limit_name: _resource_usage((key,), resource_quota) for key, row in sorted(rows.items())}


def _device_classes(resource_quota: Object) -> dict[str, Any]:
    keys = [key for key in (resource_quota.get("spec") or {}).get("hard") or {} if key.endswith(QUOTA_OF_CLASS)]
    return {key.removesuffix(QUOTA_OF_CLASS): _resource_usage((key,), resource_quota) for key in sorted(keys)}


def is_counted(resource_quota: Object) -> bool:
    """Whether the status belongs to the current limits: the quota controller copies them when it counts."""
    status = resource_quota.get("status") or {}
    wanted, counted = (resource_quota.get("spec") or {}).get("hard") or {}, status.get("hard") or {}
    return wanted.keys() == counted.keys() and all(parse(wanted[key]) == parse(counted[key]) for key in wanted)


def _resource_usage(keys: Iterable[str], resource_quota: Object) -> dict[str, Any] | None:
    hard = (resource_quota.get("spec") or {}).get("hard") or {}
    used = (resource_quota.get("status") or {}).get("used") or {}
    uses = {key: _usage_share(hard[key], used.get(key)) for key in keys if key in hard}
    if not uses:
        return None
    key = max(uses, key=lambda key: -1.0 if uses[key]["percent"] is None else uses[key]["percent"])
    most, row = uses[key], _row_of(key)
    if key.endswith((".cpu", ".memory")):  # Those are quantities, the others numbers.
        return most
    whole = {name: None if most[name] is None else int(parse(most[name]).value) for name in ("used", "hard")}
    if row and row.kind == MEMORY and row.unit != "Gi":
        return {
            **{name: row.quantity(amount) if amount is not None else None for name, amount in whole.items()},
            "percent": most["percent"],
        }
    return {**whole, "percent": most["percent"]}


def _usage_share(hard: str, used: str | None) -> dict[str, Any]:
    limit, percent = parse(hard).value, None
    if used is not None:
        percent = round(float(100 * parse(used).value / limit), 1) if limit else 100.0
    return {"used": used, "hard": hard, "percent": percent}


def unenforced_keys(resource_quota: Object) -> list[str]:
    """The keys of a ResourceQuota that Kubernetes ignores: it enforces ``requests.<key>``."""
    return [key for key in (resource_quota.get("spec", {}).get("hard") or {}) if catalog().row(key)]
