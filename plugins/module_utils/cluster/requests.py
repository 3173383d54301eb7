# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What a pod takes from its node, by Kubernetes' own rule. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ..quantity import parse

Amounts = dict[str, int]
"""Resource name -> amount: CPU in thousandths of a core, memory in bytes, everything else in whole units."""


def pod_requests(pod: Mapping[str, Any], resources: Iterable[str]) -> Amounts:
    """What a pod requests of each of the resources.

    The rule is that of component-helpers' ``resource.PodRequests``: containers and sidecars (init containers that
    restart always) run side by side; every other init container runs alone with the sidecars started before it, so the
    larger of the two counts. The pod's overhead comes on top.
    """
    spec = pod["spec"]
    containers, init_containers = spec.get("containers") or (), spec.get("initContainers") or ()
    amounts: Amounts = {}
    for resource in resources:
        running = sum(_requested(container, resource) for container in containers)
        sidecars, peak = 0, 0
        for container in init_containers:
            amount = _requested(container, resource)
            if container.get("restartPolicy") == "Always":
                sidecars += amount
                peak = max(peak, sidecars)
            else:
                peak = max(peak, sidecars + amount)
        overhead = amount_of(resource, (spec.get("overhead") or {}).get(resource))
        amounts[resource] = max(running + sidecars, peak) + overhead
    return amounts


def amount_of(resource: str, quantity: str | int | None) -> int:
    """A quantity of a resource in the units of ``Amounts``; 0 for none."""
    return _amount(resource == "cpu", str(quantity)) if quantity is not None else 0


@lru_cache(maxsize=4096)
def _amount(thousandths: bool, quantity: str) -> int:
    value = parse(quantity).value
    return int(value * 1000 if thousandths else value)


def _requested(container: Mapping[str, Any], resource: str) -> int:
    return amount_of(resource, ((container.get("resources") or {}).get("requests") or {}).get(resource))
