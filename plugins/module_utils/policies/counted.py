# SPDX-License-Identifier: BSD-2-Clause
"""What the quotas of a policy count: accelerators by the names of resources and of DeviceClasses. Pure.

Kubernetes counts by namespace and by such a name. It knows nothing of pools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..accelerators.catalog import catalog, device_class_key
from ..accelerators.hardware import DEFAULT_ACCELERATOR, PoolHardware
from ..manifest.problems import enumerated
from .guards import CLASS_RESOURCE, partition_pattern, whole_resources
from .policy_rules import PolicyRules


def is_limited(policy: PolicyRules) -> bool:
    """Whether the policy has quotas."""
    return any(rules.is_limited for rules in policy.namespaces.values())


def counted_names(listed: Iterable[str], classes: Iterable[str], pools: Iterable[PoolHardware] = ()) -> tuple[str, ...]:
    """What can be asked for in the cluster: devices and partitions that its nodes list, those of its pools, which may
    have no nodes yet, and DeviceClasses in both ways."""
    whole, partition = set(whole_resources()), re.compile(partition_pattern())
    on_nodes = {name for name in listed if name in whole or partition.fullmatch(name)}
    in_pools = {name for each in (PoolHardware(), *pools) for name in _asked_in(each)}
    names = {name for each in classes for name in (each, CLASS_RESOURCE + each)}
    return tuple(sorted({*on_nodes, *in_pools, *names}))


def quota_key(name: str) -> str:
    """The key of a ResourceQuota for a resource or a DeviceClass."""
    return f"requests.{name}" if "/" in name else device_class_key(name)


def limits_of_pools(most: Mapping[str, int], hardware: Mapping[str, PoolHardware]) -> dict[str, int]:
    """The limits of pools by what their pods ask for."""
    return {name: number for pool, number in most.items() for name in _asked_in(hardware[pool])}


def pool_problems(policy: PolicyRules, hardware: Mapping[str, PoolHardware]) -> list[str]:
    """Why numbers of accelerators in pools cannot be enforced. ``hardware`` has the pools that are declared."""
    found = []
    for rules in policy.namespaces.values():
        where = f"policy {policy.name}, teams.{rules.team}.max_gpus_in_pools"
        by_name: dict[str, list[str]] = {}
        for pool in rules.max_gpus_in_pools or ():
            if pool not in hardware:
                found.append(f"{where}: pool not declared: {pool}. Declare it first with M(gpuctl_pool).")
            elif hardware[pool].mig or hardware[pool].sharing:
                found.append(f"{where}: pool with divided GPUs: {pool}. Use max_gpus, which counts each part as one.")
            else:
                for name in _asked_in(hardware[pool]):
                    by_name.setdefault(name, []).append(pool)
        for name, pools in by_name.items():
            if len(pools) > 1:
                found.append(
                    f"{where}: pools {enumerated(pools, 'and')} have the same {name}, by which Kubernetes counts. Use "
                    f"max_gpus for their sum, a namespace for each pool, or pools with a queue and shares of the team."
                )
    return list(dict.fromkeys(found))


def _asked_in(hardware: PoolHardware) -> list[str]:
    if hardware.device_class:
        return [hardware.device_class, CLASS_RESOURCE + hardware.device_class]
    return [catalog().profiles[hardware.accelerator or DEFAULT_ACCELERATOR].device.resource]
