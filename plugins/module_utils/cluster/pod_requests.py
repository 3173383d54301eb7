# SPDX-License-Identifier: BSD-2-Clause
"""What a pod requests from its node, by Kubernetes' own rule. Pure.

The rule is that of component-helpers' ``resource.PodRequests`` as the scheduler calls it (resource/helpers.go).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from ..quantity import parse

Amounts = dict[str, int]
"""Resource name -> amount: CPU in thousandths of a core, memory in bytes, everything else in whole units."""

_Container = Mapping[str, Any]
_Requests = Callable[[_Container], Mapping[str, Any]]

_POD_LEVEL = ("cpu", "memory")  # may be requested for the pod as a whole, which replaces the sum of the containers


def pod_requests(pod: Mapping[str, Any], resources: Iterable[str]) -> Amounts:
    """What a pod requests of each of the resources.

    Containers and sidecars (init containers that always restart) run at the same time; any other init container runs
    alone with the sidecars started before it: the larger sum counts. Requests of the pod as a whole replace it. During
    a resize, the largest of what is wanted, granted and in force counts. The pod's overhead is added.
    """
    spec = pod["spec"]
    for_the_pod = (spec.get("resources") or {}).get("requests") or {}
    overhead, containers = spec.get("overhead") or {}, [*(spec.get("containers") or ())]
    views = _request_views(pod)  # Most pods have one container, and lists have thousands of such pods.
    if len(containers) == len(views) == 1 and not (spec.get("initContainers") or for_the_pod or overhead):
        return {resource: amount_of(resource, views[0](containers[0]).get(resource)) for resource in resources}
    amounts: Amounts = {}
    for resource in resources:
        if resource in _POD_LEVEL and resource in for_the_pod:
            amount = amount_of(resource, for_the_pod[resource])
        else:
            amount = max(_of_containers(spec, resource, view) for view in views)
        amounts[resource] = amount + amount_of(resource, overhead.get(resource))
    return amounts


def pod_limits(spec: Mapping[str, Any], resources: Iterable[str]) -> Amounts:
    """The sum of what its containers are limited to, of each of the resources that they limit."""
    limits = partial(_container_amounts, kind="limits")
    return {name: amount for name in resources if (amount := _of_containers(spec, name, limits))}


def limits_as_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The pod's spec with its limits in place of its requests, whose arithmetic is the same."""

    def limited(one: Mapping[str, Any]) -> dict[str, Any]:
        return {**one, "resources": {"requests": (one.get("resources") or {}).get("limits") or {}}}

    lists = {name: [limited(one) for one in spec.get(name) or ()] for name in ("containers", "initContainers")}
    return {**limited(spec), **lists}


def amount_of(resource: str, quantity: str | int | None) -> int:
    """A quantity of a resource in the units of ``Amounts``, fractions of them rounded up; 0 for none."""
    return _whole_amount(resource == "cpu", str(quantity)) if quantity is not None else 0


@lru_cache(maxsize=4096)
def _whole_amount(thousandths: bool, quantity: str) -> int:
    value = parse(quantity).value
    return math.ceil(value * 1000 if thousandths else value)


def _of_containers(spec: Mapping[str, Any], resource: str, requests: _Requests) -> int:
    running = sum(amount_of(resource, requests(container).get(resource)) for container in spec.get("containers") or ())
    sidecars, peak = 0, 0
    for container in spec.get("initContainers") or ():
        amount = amount_of(resource, requests(container).get(resource))
        peak = max(peak, sidecars + amount)
        # A sidecar stays (KEP-753): what comes after it runs beside it.
        if container.get("restartPolicy") == "Always":
            sidecars += amount
    return max(running + sidecars, peak)


def _request_views(pod: Mapping[str, Any]) -> list[_Requests]:
    """Ways to read a container's requests; more than one once the kubelet reports what it has granted."""
    status = pod.get("status", {})
    entries = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    granting = {entry["name"]: entry for entry in entries if "allocatedResources" in entry or "resources" in entry}
    if not granting:
        return [_container_amounts]
    infeasible = any(
        condition["type"] == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )

    def granted(container: _Container) -> Mapping[str, Any]:
        found: Mapping[str, Any] | None = granting.get(container["name"], {}).get("allocatedResources")
        return found if found is not None else ({} if infeasible else _container_amounts(container))

    def in_force(container: _Container) -> Mapping[str, Any]:
        found: Mapping[str, Any] | None = (granting.get(container["name"], {}).get("resources") or {}).get("requests")
        return found if found is not None else granted(container)

    # A resize that the node can never grant does not count (KEP-1287).
    return [granted, in_force] if infeasible else [_container_amounts, granted, in_force]


def _container_amounts(container: _Container, kind: str = "requests") -> Mapping[str, Any]:
    return (container.get("resources") or {}).get(kind) or {}
