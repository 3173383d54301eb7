# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""A quota as Kubernetes objects: per namespace a ResourceQuota, and a LimitRange that goes with it."""

from __future__ import annotations

from fractions import Fraction

from .. import labels
from ..jobs.objects.job_objects import Object, sparse
from ..manifest.models import Limits, Quota
from ..quantity import GIB, canonical, parse

# What a container gets that asks for no CPU or memory, at most: a quarter of the namespace's, so that four such pods
# fit into the smallest quota.
_USUAL_CPU = Fraction(1)
_USUAL_MEMORY = Fraction(GIB)
_SHARE = 4

_MILLI = Fraction(1, 1000)
_MIB = 1024**2


def namespace(name: str, *, made_by_us: bool) -> Object:
    """What we say of a namespace. The label that marks our objects is only for those that we make."""
    marks = {labels.NAMESPACE: "true", **({labels.MANAGED_BY: labels.FIELD_MANAGER} if made_by_us else {})}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": marks}}


def resource_quota(quota: Quota, name: str) -> Object:
    """The ResourceQuota of a quota in one of its namespaces. What the manifest does not limit is not in it."""
    limits = quota.namespaces[name]
    hard = {
        key: amount
        for resource, amount in _amounts(limits).items()
        if amount is not None
        for key in labels.QUOTA_KEYS[resource]
    }
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _metadata(quota, name),
        "spec": sparse({"hard": hard}),
    }


def limit_range(quota: Quota, name: str) -> Object | None:
    """Defaults for containers that ask for no CPU or memory; None where the quota limits neither.

    Under a quota for CPU (memory) the API server refuses every pod that does not say how much it takes
    (resourcequota admission, "must specify"), and that is the only reason for defaults: a resource that is not limited
    gets none. Requests equal limits, as in all jobs. GPUs never have a default, it would put one into every pod.
    """
    limits = quota.namespaces[name]
    usual = {
        **({"cpu": _default_cpu(limits.cpu)} if limits.cpu is not None else {}),
        **({"memory": _default_memory(limits.memory)} if limits.memory is not None else {}),
    }
    if not usual:
        return None
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": _metadata(quota, name),
        "spec": {"limits": [{"type": "Container", "default": usual, "defaultRequest": usual}]},
    }


def _amounts(limits: Limits) -> dict[str, str | None]:
    # Jobs ask for whole GiB of shared GPUs: a started one may not be used.
    shared = None if limits.gpu_share is None else str(parse(limits.gpu_share).value // GIB)
    return {
        "cpu": limits.cpu,
        "memory": limits.memory,
        "gpu": _text(limits.gpu),
        "gpu_share": shared,
        "pods": _text(limits.pods),
    }


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _default_cpu(limit: str) -> str:
    share = max(_share(limit, _USUAL_CPU) // _MILLI, 1)
    return canonical(f"{share}m")


def _default_memory(limit: str) -> str:
    share = max(_share(limit, _USUAL_MEMORY) // _MIB, 1)
    return canonical(f"{share}Mi")


def _share(limit: str, usual: Fraction) -> Fraction:
    """A limit of 0 closes the namespace. A default of 0 would slip through it, so the usual amount stays."""
    return min(usual, parse(limit).value / _SHARE) or usual


def _metadata(quota: Quota, name: str) -> Object:
    described = {labels.DESCRIPTION: quota.quota.description} if quota.quota.description else {}
    return sparse(
        {
            "name": labels.quota_object_name(quota.quota.name, name),
            "namespace": name,
            "labels": {labels.MANAGED_BY: labels.FIELD_MANAGER, labels.QUOTA: quota.quota.name},
            "annotations": described,
        }
    )
