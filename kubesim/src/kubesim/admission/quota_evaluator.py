# SPDX-License-Identifier: BSD-2-Clause
"""What an object uses of a quota, and which quotas it counts for: one arithmetic for admission and the controller.

Sources: pkg/quota/v1/evaluator/core/{pods,services}.go,
staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from kubesim import resources
from kubesim.clock import parse_time
from kubesim.device_classes import EXTENDED_CLAIM, IMPLICIT, ExtendedResources, may_be_devices
from kubesim.kinds.pod import qos_class
from kubesim.kinds.pod_resources import Amounts, pod_limits, pod_requests
from kubesim.kinds.resources import HUGE_PAGES, REQUESTS, is_native
from kubesim.quantity import ZERO, Quantity

Object = dict[str, Any]

ONE = Quantity.of(1)

#: Kinds that are counted under a bare name as well as under count/.
_ALIASES = {
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ReplicationController": "replicationcontrollers",
    "ResourceQuota": "resourcequotas",
    "Secret": "secrets",
    "Service": "services",
}
_SERVICE_NAMES = ("services.nodeports", "services.loadbalancers")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = {"count/pods", "pods", *_COMPUTE, *(f"{p}.{name}" for p in ("requests", "limits") for name in _COMPUTE)}
_DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
#: What a claim of all devices counts as: the most that a claim may have.
_ALL_DEVICES = 32
#: Resources a pod has to name once a quota is about them; "it was a mistake", says the source, and stays.
_MUST_NAME = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}


def usage(kind: str, obj: Object, now: datetime | None = None, registry: Any = None) -> Amounts:
    """What `obj` uses, by quota resource. `now` tells whether the grace of a pod being deleted is over; what devices
    count as is known to the registry."""
    used = {_count_name(kind): ONE}
    if alias := _ALIASES.get(kind):
        used[alias] = ONE
    if kind == "Pod":
        used |= _pod_usage(obj, now)
    elif kind == "Service":
        used |= _service_usage(obj["spec"])
    elif kind == "ResourceClaim":
        used |= _device_usage(obj, registry)
    return used


def matching_resources(kind: str, names: Iterable[str], registry: Any = None) -> set[str]:
    """Those of a quota's resources that objects of this kind count for."""
    if kind == "ResourceClaim":
        return _device_names(names, registry)
    if kind == "Pod":
        return {name for name in names if name in _POD_NAMES or _is_pod_resource(name)}
    more = _SERVICE_NAMES if kind == "Service" else ()
    return {name for name in names if name in (_count_name(kind), _ALIASES.get(kind), *more)}


def matches(quota: Object, kind: str, obj: Object, registry: Any = None) -> bool:
    """Whether the object counts for the quota: one of its resources, and all of its scopes."""
    hard = (quota.get("status") or {}).get("hard") or quota["spec"].get("hard") or {}
    if not matching_resources(kind, hard, registry):
        return False
    return all(_matches_scope(requirement, kind, obj) for requirement in _scopes(quota["spec"]))


def missing(kind: str, obj: Object, names: set[str]) -> str:
    """Constraints: what the containers of a pod fail to name though the quota is about it; "" when nothing."""
    if kind != "Pod":
        return ""
    lacking: dict[str, set[str]] = {}
    for key in ("containers", "initContainers"):
        for container in obj["spec"].get(key) or ():
            given = container.get("resources") or {}
            for name in names & _MUST_NAME:
                kind_of_amount = "limits" if name.startswith("limits.") else "requests"
                if name.rpartition(".")[2] not in (given.get(kind_of_amount) or {}):
                    lacking.setdefault(name, set()).add(container.get("name", ""))
    said = [f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(lacking.items())]
    return f"must specify {'; '.join(said)}" if said else ""


def _count_name(kind: str) -> str:
    return f"count/{resources.by_kind(kind).qualified}"


def _is_pod_resource(name: str) -> bool:
    if name.removeprefix(REQUESTS).startswith(HUGE_PAGES):
        return True
    return name.startswith(REQUESTS) and (not is_native(name) or name.startswith(REQUESTS + IMPLICIT))


def _pod_usage(pod: Object, now: datetime | None) -> Amounts:
    if not _is_charged(pod, now):
        return {}
    requests, limits = pod_requests(pod["spec"]), pod_limits(pod["spec"])
    used = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[f"requests.{name}"] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(HUGE_PAGES):
            used[name] = used[REQUESTS + name] = amount
        elif may_be_devices(name):
            used[REQUESTS + name] = amount
    return used


def _service_usage(spec: Object) -> Amounts:
    ports, balanced = spec.get("ports") or [], spec.get("type") == "LoadBalancer"
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    elif not balanced and spec.get("type") != "NodePort":
        ports = []
    return dict(zip(_SERVICE_NAMES, (Quantity.of(len(ports)), Quantity.of(int(balanced))), strict=True))


def _is_charged(pod: Object, now: datetime | None) -> bool:
    """QuotaV1Pod: not once it has ended, nor when its time to end is over."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return False
    deleted, grace = (pod["metadata"].get(key) for key in ("deletionTimestamp", "deletionGracePeriodSeconds"))
    if now is not None and deleted and grace is not None:
        return now <= parse_time(deleted) + timedelta(seconds=grace)
    return True


def _device_names(names: Iterable[str], registry: Any) -> set[str]:
    extended = ExtendedResources.of(registry)
    found = set()
    for name in names:
        resource = name.removeprefix(REQUESTS)
        by_class = resource.startswith(IMPLICIT) and resource.removeprefix(IMPLICIT) in extended.names
        own = not resource.startswith(IMPLICIT) and name.startswith(REQUESTS) and resource in extended.classes
        if name == _count_name("ResourceClaim") or name.endswith(_DEVICES_SUFFIX) or by_class or own:
            found.add(name)
    return found


def _device_usage(claim: Object, registry: Any) -> Amounts:
    """The devices of a claim by class, and under the names of extended resources what its pod does not count itself."""
    by_class: dict[str, int] = {}
    for request in claim["spec"]["devices"].get("requests") or ():
        exactly = request.get("exactly")
        most: dict[str, int] = {}
        for wanted in [exactly] if exactly else request.get("firstAvailable") or ():
            name, count = wanted["deviceClassName"], wanted.get("count", 0)
            most[name] = max(most.get(name, 0), _ALL_DEVICES if wanted["allocationMode"] == "All" else count)
        for name, count in most.items():
            by_class[name] = by_class.get(name, 0) + count
    extended, of_pod = ExtendedResources.of(registry), _usage_of_pod(claim, registry)
    used: Amounts = {}
    for name, count in by_class.items():
        used[name + _DEVICES_SUFFIX] = Quantity.of(count)
        own = [extended.names[name]] if name in extended.names else []
        for resource in (REQUESTS + IMPLICIT + name, *(REQUESTS + one for one in own)):
            amount = Quantity.of(count) - of_pod.get(resource, ZERO)
            if amount > ZERO:
                used[resource] = amount
    return used


def _usage_of_pod(claim: Object, registry: Any) -> Amounts:
    """What the pod counts that a claim for extended resources was made for (getVerifiedPodUsage)."""
    meta = claim["metadata"]
    if (meta.get("annotations") or {}).get(EXTENDED_CLAIM) != "true":
        return {}
    for owner in meta.get("ownerReferences") or ():
        pod = registry.get("Pod", meta["namespace"], owner["name"]) if owner["kind"] == "Pod" else None
        if pod is not None and owner.get("controller") and pod["metadata"]["uid"] == owner["uid"]:
            return _pod_usage(pod, None)
    return {}


def _scopes(spec: Object) -> list[Object]:
    named = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return named + ((spec.get("scopeSelector") or {}).get("matchExpressions") or [])


def _matches_scope(requirement: Object, kind: str, obj: Object) -> bool:
    scope, spec = requirement.get("scopeName"), obj.get("spec") or {}
    if kind != "Pod":
        return False
    match scope:
        case "Terminating":
            return "activeDeadlineSeconds" in spec
        case "NotTerminating":
            return "activeDeadlineSeconds" not in spec
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _matches_value(requirement, spec.get("priorityClassName", ""))
    return False


def _matches_value(requirement: Object, value: str) -> bool:
    values = requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return bool(value) and value in values
        case "NotIn":
            return not value or value not in values
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
    return False
