# SPDX-License-Identifier: BSD-2-Clause
"""The Kubernetes objects of a quota: a ResourceQuota per namespace, and a LimitRange with it. Pure."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

from .. import labels
from ..accelerators.catalog import MEMORY, DeviceResource, catalog, device_class_key
from ..accelerators.hardware import UnfitHardware
from ..engine.fields import is_owned
from ..jobs.objects.priority import OPPORTUNISTIC
from ..kube.api_objects import Object, sparse
from ..quantity import GIB, canonical, parse
from .usage import quota_keys

if TYPE_CHECKING:
    from ..manifest.quota_model import GpuHours, Limits, Quota

# The default of a container without a request is the first amount or, if that is less, a quarter of the limit in whole
# units, so that four such containers fit into any quota.
_DEFAULTS = {"cpu": (Fraction(1), Fraction(1, 1000), "m"), "memory": (Fraction(GIB), Fraction(1024**2), "Mi")}
_SHARE = 4
# Valid for pods, cpu, memory and extended resources (IsResourceQuotaScopeValidForResource). Unlike spec.scopes it can
# change in place (ValidateResourceQuotaUpdate), so there is no moment without a limit.
_GUARANTEED = {"scopeName": "PriorityClass", "operator": "NotIn", "values": [labels.priority_class_name(OPPORTUNISTIC)]}


def namespace(name: str, *, managed: bool, pod_security: str | None = None) -> Object:
    """A labelled namespace; the label of managed objects is only set if gpuctl creates the namespace.

    ``pod_security`` is enforced on pods. Kubernetes checks workloads only to warn, and audits what it does not reject.
    """
    marks = {labels.NAMESPACE: "true", **({labels.MANAGED_BY: labels.FIELD_MANAGER} if managed else {})}
    if pod_security:
        # Enforced alone, a level refuses the pods of a workload that was accepted in silence: warn says so at once.
        for mode in ("enforce", "audit", "warn"):
            marks |= {f"{labels.POD_SECURITY}{mode}": pod_security, f"{labels.POD_SECURITY}{mode}-version": "latest"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": marks}}


def has_level_of_ours(live: Object) -> bool:
    """Whether the namespace has a Pod Security level that ``namespace`` has given it."""
    return is_owned(live, ("metadata", "labels", labels.POD_SECURITY_ENFORCED), labels.FIELD_MANAGER)


def resource_quota(quota: Quota, name: str) -> Object:
    """The ResourceQuota of a quota in one of its namespaces, with only the limits of the manifest."""
    limits = quota.namespaces[name]
    selector = {"matchExpressions": [_GUARANTEED]} if limits.opportunistic else None
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _with_notes(_quota_metadata(quota, name), limits),
        "spec": sparse({"hard": _hard_limits(limits), "scopeSelector": selector}),
    }


def limit_range(quota: Quota, name: str) -> Object | None:
    """Defaults for containers without CPU or memory requests; None if the quota limits neither.

    Under a quota for CPU or memory, the API server rejects every pod that does not specify its amount (resourcequota
    admission, "must specify"). A resource without a limit needs no default. Requests equal limits, as in all jobs. GPUs
    have no default, because every pod would get one.
    """
    limits = quota.namespaces[name]
    given = {"cpu": limits.cpu, "memory": limits.memory}
    defaults = {name: _default_limit(limit, *_DEFAULTS[name]) for name, limit in given.items() if limit is not None}
    if not defaults:
        return None
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": _quota_metadata(quota, name),
        "spec": {"limits": [{"type": "Container", "default": defaults, "defaultRequest": defaults}]},
    }


def _hard_limits(limits: Limits) -> dict[str, str]:
    """The limits by the keys of a ResourceQuota. Raises UnfitHardware for an unknown accelerator."""
    keys, known = quota_keys(), catalog()
    given = {name: value for name in keys if (value := getattr(limits, name)) is not None}
    # The key of a backend's own scheduler has the amount of the same resource: limits.nvidia.com/gpumem.
    rows = {key: known.row(key.partition(".")[2]) for name in given for key in keys[name]}
    hard = {key: _limit_amount(rows[key], str(value)) for name, value in given.items() for key in keys[name]}
    for name, amount in limits.accelerators.items():
        row = known.limited(name)
        hard[row.quota_key] = _limit_amount(row, amount)
    return hard | {device_class_key(name): str(number) for name, number in limits.device_classes.items()}


def _limit_amount(row: DeviceResource | None, value: str) -> str:
    """The limit in the unit of the resource. Jobs request whole units, so a fraction could not be used."""
    return str(row.floor(value)) if row and row.kind == MEMORY else value


def _default_limit(limit: str, most: Fraction, unit: Fraction, suffix: str) -> str:
    # Not 0 for a limit of 0: containers that request nothing would pass that quota.
    amount = min(most, parse(limit).value / _SHARE) or most
    return canonical(f"{max(amount // unit, 1)}{suffix}")


def _with_notes(metadata: Object, limits: Limits) -> Object:
    """What is no limit of Kubernetes': gpuctl makes queues of shares, and gpuctl_budget enforces budgets."""
    given = {labels.SHARES: limits.shares, labels.GPU_HOURS: limits.gpu_hours and _budget(limits.gpu_hours)}
    notes = {key: json.dumps(value, sort_keys=True) for key, value in given.items() if value}
    return sparse({**metadata, "annotations": {**metadata.get("annotations", {}), **notes}})


def _budget(hours: GpuHours) -> Object:
    """Raises UnfitHardware for what is no accelerator, and for one that is counted as another."""
    known = {row.profile for each in catalog().profiles.values() if (row := catalog().row(each.device.resource))}
    for name in sorted(hours.accelerators.keys() - known):
        problem, hint = f"no accelerator with a resource of its own: {name}", f"Known are {', '.join(sorted(known))}"
        raise UnfitHardware(f"gpu_hours.accelerators.{name}", problem, hint)
    return sparse(hours.model_dump())


def _quota_metadata(quota: Quota, name: str) -> Object:
    described = {labels.DESCRIPTION: quota.quota.description} if quota.quota.description else {}
    return sparse(
        {
            "name": labels.quota_object_name(quota.quota.name, name),
            "namespace": name,
            "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER, labels.QUOTA: quota.quota.name},
            "annotations": described,
        }
    )
