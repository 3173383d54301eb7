# SPDX-License-Identifier: BSD-2-Clause
"""What the collection relies on in the objects that it reads: their fields, with the types of the Kubernetes API.

Everything behind the client reads fields without looking at their types. So an object that is not like its kind is
found here, once, and left out by name: it must neither end a task nor hide the objects beside it. Fields that are null
are removed, because Kubernetes reads null as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ..quantity import parse
from .errors import KubeError
from .resources import Resource
from .times import read_time

Check = Callable[[Any], None]

_LONGEST = 40  # characters of a value in a message
_SHELL_SAFE = re.compile(r"[-.a-z0-9]+")  # what object names are made of: everything else stays out of commands


class OddObject(NamedTuple):
    """An object that cannot be read, and why."""

    kind: str
    namespace: str | None
    name: str
    problem: str
    malformed: int = 0  # entries of a ConfigMap, whose others can be read

    @property
    def sentence(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        cannot = "cannot be read entirely" if self.malformed else "cannot be read"
        return f"{self.kind} {self.name}{where} {cannot}: {self.problem}. {self._remedy}"

    @property
    def _remedy(self) -> str:
        parts = [self.name, *([self.namespace] if self.namespace else [])]
        if not all(_SHELL_SAFE.fullmatch(part) for part in parts):
            return "Correct or delete it."
        where = f" --namespace {self.namespace}" if self.namespace else ""
        return f"Correct or delete it. kubectl get {self.kind.lower()} {self.name}{where} --output yaml shows it."


class UnreadableObject(KubeError):
    """An object that a task cannot do without is not like its kind."""

    def __init__(self, odd: OddObject) -> None:
        super().__init__(odd.sentence)


def oddity(resource: Resource, obj: Any, *, metadata_only: bool = False) -> OddObject | None:
    """Why an object of the kind cannot be read; None if it can. Removes its fields that are null."""
    check = _metadata_of(resource.namespaced) if metadata_only else _shape_of(resource.kind, resource.namespaced)
    try:
        check(obj)
    except Unlike as problem:
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        known = metadata if isinstance(metadata, dict) else {}
        namespace = known.get("namespace")
        place = str(namespace) if namespace is not None else None
        return OddObject(resource.kind, place, str(known.get("name", "without a name")), str(problem))
    return None


class Unlike(ValueError):
    """A value is not of its type; the path to it is put together on the way up."""

    def __init__(self, found: str, expected: str, path: str = "") -> None:
        super().__init__(found, expected, path)
        self.found, self.expected, self.path = found, expected, path

    def below(self, step: object) -> Unlike:
        dot = "." if self.path and not self.path.startswith("[") else ""
        return Unlike(self.found, self.expected, f"{step}{dot}{self.path}")

    def __str__(self) -> str:
        return f"{self.path}: {self.found} instead of {self.expected}"


_MISSING = object()
_NOUNS = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", int: "a number", float: "a number"}


def _noun(value: Any) -> str:
    """The type, not the value, which may be a secret."""
    return "nothing" if value is None else _NOUNS.get(type(value), "something else")


def _text(value: Any) -> None:
    if not isinstance(value, str):
        raise Unlike(_noun(value), "a text")


def _number(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unlike(_noun(value) if not isinstance(value, float) else "a fraction", "a whole number")
    if not -(2**63) <= value < 2**63:
        raise Unlike("a number of more than 64 bits", "a whole number")


def _flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise Unlike(_noun(value), "a truth value")


def _object(value: Any) -> None:
    if not isinstance(value, dict):
        raise Unlike(_noun(value), "an object")


def _time(value: Any) -> None:
    _text(value)
    if not _is_time(value):
        raise Unlike(_quoted(value), "a time (RFC 3339)")


@lru_cache(maxsize=4096)
def _is_time(text: str) -> bool:
    try:
        read_time(text)
    except ValueError:
        return False
    return True


def _quantity(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise Unlike(_noun(value), "a quantity")
    try:
        parse(value)
    except ValueError:
        raise Unlike(_quoted(str(value)), "a quantity") from None


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _each(check: Check, *, least: int = 0) -> Check:
    """A list."""

    def check_list(value: Any) -> None:
        if not isinstance(value, list):
            raise Unlike(_noun(value), "a list")
        if len(value) < least:
            raise Unlike("nothing", "a list with an entry")
        for number, item in enumerate(value):
            try:
                check(item)
            except Unlike as problem:
                raise problem.below(f"[{number}]") from None

    return check_list


def _values(check: Check) -> Check:
    """An object with any keys."""

    def check_values(value: Any) -> None:
        if not isinstance(value, dict):
            raise Unlike(_noun(value), "an object")
        for name, item in value.items():
            try:
                check(item)
            except Unlike as problem:
                raise problem.below(f"[{_quoted(name)[1:-1]}]") from None

    return check_values


def _fields(needed: Mapping[str, Check] = MappingProxyType({}), /, **optional: Check) -> Check:
    """An object with these fields; others are not looked at. Those in ``needed`` must be there."""
    checks = [(name, check, name in needed) for name, check in {**optional, **needed}.items()]

    def check_fields(value: Any) -> None:
        if not isinstance(value, dict):
            raise Unlike(_noun(value), "an object")
        for name, check, is_needed in checks:
            found = value.get(name, _MISSING)
            if found is None:
                del value[name]
                found = _MISSING
            if found is _MISSING:
                if is_needed:
                    raise Unlike("nothing", "a value", name)
                continue
            try:
                check(found)
            except Unlike as problem:
                raise problem.below(name) from None

    return check_fields


# The types of the fields that are read, as in the API (api/core/v1/types.go and others). Required is what validation
# or the server's own defaults make sure of.

_TEXTS = _each(_text)
_LABELS = _values(_text)
_QUANTITIES = _values(_quantity)
_RESOURCES = _fields(requests=_QUANTITIES, limits=_QUANTITIES)
_REFERENCE = _fields({"key": _text, "name": _text})
_CONTAINER = _fields(
    {"name": _text},
    image=_text,
    command=_TEXTS,
    args=_TEXTS,
    workingDir=_text,
    env=_each(
        _fields({"name": _text}, value=_text, valueFrom=_fields(secretKeyRef=_REFERENCE, configMapKeyRef=_REFERENCE))
    ),
    resources=_fields(requests=_QUANTITIES, limits=_QUANTITIES, claims=_each(_fields({"name": _text}))),
    restartPolicy=_text,
    ports=_each(_fields(containerPort=_number, hostPort=_number, hostIP=_text, protocol=_text)),
)
_CONTAINERS = _each(_CONTAINER, least=1)
_SELECTOR = _fields(
    matchLabels=_LABELS, matchExpressions=_each(_fields({"key": _text, "operator": _text}, values=_TEXTS))
)
_NODE_RULES = _each(_fields(key=_text, operator=_text, values=_TEXTS))
_NODE_TERM = _fields(matchExpressions=_NODE_RULES, matchFields=_NODE_RULES)
_POD_AFFINITY = _fields(
    requiredDuringSchedulingIgnoredDuringExecution=_each(
        _fields({"topologyKey": _text}, labelSelector=_SELECTOR, namespaces=_TEXTS, namespaceSelector=_SELECTOR)
    )
)
_NODE_AFFINITY = _fields(requiredDuringSchedulingIgnoredDuringExecution=_fields(nodeSelectorTerms=_each(_NODE_TERM)))
_POD_SPEC = _fields(
    {"containers": _CONTAINERS},
    initContainers=_each(_CONTAINER),
    ephemeralContainers=_each(_fields({"name": _text})),
    volumes=_each(
        _fields(
            {"name": _text},
            configMap=_fields({"name": _text}),
            persistentVolumeClaim=_fields({"claimName": _text}),
        )
    ),
    priority=_number,
    activeDeadlineSeconds=_number,
    nodeName=_text,
    nodeSelector=_LABELS,
    tolerations=_each(_fields(key=_text, operator=_text, value=_text, effect=_text, tolerationSeconds=_number)),
    affinity=_fields(nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY),
    schedulerName=_text,
    schedulingGates=_each(_fields({"name": _text})),
    subdomain=_text,
    overhead=_QUANTITIES,
    resources=_RESOURCES,
    resourceClaims=_each(_fields({"name": _text}, resourceClaimName=_text, resourceClaimTemplateName=_text)),
)
_TEMPLATE = _fields({"spec": _POD_SPEC}, metadata=_fields(labels=_LABELS, annotations=_LABELS))
_CONDITIONS = _each(
    _fields(
        {"type": _text, "status": _text},
        reason=_text,
        message=_text,
        lastTransitionTime=_time,
        lastHeartbeatTime=_time,
    )
)
_STATE = _fields(
    waiting=_fields(reason=_text, message=_text),
    running=_fields(startedAt=_time),
    terminated=_fields(reason=_text, message=_text, exitCode=_number, startedAt=_time, finishedAt=_time),
)
_CONTAINER_STATUSES = _each(
    _fields(
        {"name": _text},
        image=_text,
        ready=_flag,
        restartCount=_number,
        state=_STATE,
        lastState=_STATE,
        allocatedResources=_QUANTITIES,
        resources=_RESOURCES,
    )
)
_SELECTORS = _each(_fields(cel=_fields(expression=_text)))
_DEVICE_TOLERATIONS = _each(_fields(key=_text, operator=_text, value=_text, effect=_text))
_DEVICES_WANTED = _fields(
    {"deviceClassName": _text},
    name=_text,
    selectors=_SELECTORS,
    allocationMode=_text,
    count=_number,
    adminAccess=_flag,
    tolerations=_DEVICE_TOLERATIONS,
)
_DEVICE_REQUESTS = _each(_fields({"name": _text}, exactly=_DEVICES_WANTED, firstAvailable=_each(_DEVICES_WANTED)))
_DEVICE_CONSTRAINTS = _each(_fields(requests=_TEXTS, matchAttribute=_text, distinctAttribute=_text))
_CLAIM_SPEC = _fields(devices=_fields(requests=_DEVICE_REQUESTS, constraints=_DEVICE_CONSTRAINTS))
_COUNTERS = _values(_fields({"value": _quantity}))
_DEVICE_POOL = _fields({"name": _text, "generation": _number, "resourceSliceCount": _number})
_DEVICE = _fields(
    {"name": _text},
    attributes=_values(_fields(string=_text, int=_number, bool=_flag, version=_text)),
    capacity=_values(_fields({"value": _quantity})),
    taints=_each(_fields({"key": _text, "effect": _text}, value=_text)),
    consumesCounters=_each(_fields({"counterSet": _text}, counters=_COUNTERS)),
    allowMultipleAllocations=_flag,
    nodeName=_text,
    nodeSelector=_fields(nodeSelectorTerms=_each(_NODE_TERM)),
    allNodes=_flag,
)
_COUNTS = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), _number)
_LONG_RUNNING = {"observedGeneration": _number, **_COUNTS, "conditions": _CONDITIONS}

# What an object has below its metadata, by kind. Of kinds that are missing here, only the metadata are read.
_METRIC = _fields(name=_text, metric=_fields(name=_text), target=_fields(), current=_fields())
_MEASURED = _fields(
    type=_text, resource=_METRIC, containerResource=_METRIC, pods=_METRIC, object=_METRIC, external=_METRIC
)
_BELOW: Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]] = {  # required, optional
    "ConfigMap": ({}, {"data": _LABELS}),
    "Deployment": (
        {"spec": _fields({"template": _TEMPLATE}, replicas=_number)},
        {"status": _fields(**_LONG_RUNNING)},
    ),
    "Event": (
        {},
        {
            "involvedObject": _fields(kind=_text, name=_text, namespace=_text, uid=_text),
            "type": _text,
            "reason": _text,
            "message": _text,
            "count": _number,
            "firstTimestamp": _time,
            "lastTimestamp": _time,
            "eventTime": _time,
            "series": _fields(count=_number, lastObservedTime=_time),
        },
    ),
    "HorizontalPodAutoscaler": (
        {},
        {
            "spec": _fields(minReplicas=_number, maxReplicas=_number, metrics=_each(_MEASURED)),
            "status": _fields(conditions=_CONDITIONS, currentMetrics=_each(_MEASURED)),
        },
    ),
    "Job": (
        {
            "spec": _fields(
                {"template": _TEMPLATE},
                suspend=_flag,
                parallelism=_number,
                completions=_number,
                completionMode=_text,
                ttlSecondsAfterFinished=_number,
                activeDeadlineSeconds=_number,
            )
        },
        {
            "status": _fields(
                active=_number,
                ready=_number,
                succeeded=_number,
                failed=_number,
                startTime=_time,
                completionTime=_time,
                conditions=_CONDITIONS,
                uncountedTerminatedPods=_fields(succeeded=_TEXTS, failed=_TEXTS),
            )
        },
    ),
    "Lease": (
        {},
        {
            "spec": _fields(
                holderIdentity=_text,
                leaseDurationSeconds=_number,
                leaseTransitions=_number,
                acquireTime=_time,
                renewTime=_time,
            )
        },
    ),
    "LimitRange": (
        {},
        {
            "spec": _fields(
                limits=_each(
                    _fields(
                        {"type": _text},
                        min=_QUANTITIES,
                        max=_QUANTITIES,
                        default=_QUANTITIES,
                        defaultRequest=_QUANTITIES,
                    )
                )
            )
        },
    ),
    "PersistentVolume": (
        {"spec": _fields(nodeAffinity=_fields(required=_fields(nodeSelectorTerms=_each(_NODE_TERM))))},
        {},
    ),
    "PersistentVolumeClaim": (
        {"spec": _fields(volumeName=_text, storageClassName=_text, accessModes=_TEXTS)},
        {},
    ),
    "PodDisruptionBudget": (
        {},
        {
            "spec": _fields(selector=_SELECTOR),
            "status": _fields(disruptionsAllowed=_number, disruptedPods=_object),
        },
    ),
    "RuntimeClass": (
        {},
        {
            "overhead": _fields(podFixed=_QUANTITIES),
            "scheduling": _fields(
                nodeSelector=_LABELS, tolerations=_each(_fields(key=_text, operator=_text, value=_text, effect=_text))
            ),
        },
    ),
    "Namespace": ({}, {"status": _fields(phase=_text, conditions=_CONDITIONS)}),
    "ClusterRole": (
        {},
        {"rules": _each(_fields(verbs=_TEXTS, apiGroups=_TEXTS, resources=_TEXTS, resourceNames=_TEXTS))},
    ),
    "Node": (
        {},
        {
            "spec": _fields(unschedulable=_flag, taints=_each(_fields({"key": _text, "effect": _text}, value=_text))),
            "status": _fields(
                allocatable=_QUANTITIES,
                capacity=_QUANTITIES,
                nodeInfo=_fields(kubeletVersion=_text),
                conditions=_CONDITIONS,
                addresses=_each(_fields({"type": _text, "address": _text})),
            ),
        },
    ),
    "Pod": (
        {"spec": _POD_SPEC},
        {
            "status": _fields(
                phase=_text,
                reason=_text,
                message=_text,
                podIP=_text,
                nominatedNodeName=_text,
                startTime=_time,
                conditions=_CONDITIONS,
                containerStatuses=_CONTAINER_STATUSES,
                initContainerStatuses=_CONTAINER_STATUSES,
                resourceClaimStatuses=_each(_fields({"name": _text}, resourceClaimName=_text)),
                extendedResourceClaimStatus=_fields({"resourceClaimName": _text}),
            )
        },
    ),
    "DeviceClass": ({}, {"spec": _fields(selectors=_SELECTORS, extendedResourceName=_text)}),
    "ResourceClaim": (
        {"spec": _CLAIM_SPEC},
        {
            "status": _fields(
                allocation=_fields(
                    devices=_fields(
                        results=_each(
                            _fields(
                                {"driver": _text, "pool": _text, "device": _text},
                                request=_text,
                                adminAccess=_flag,
                                shareID=_text,
                            )
                        )
                    )
                ),
                reservedFor=_each(_fields({"resource": _text, "name": _text, "uid": _text})),
            )
        },
    ),
    "ResourceClaimTemplate": ({"spec": _fields({"spec": _CLAIM_SPEC})}, {}),
    "ResourceSlice": (
        {
            "spec": _fields(
                {"driver": _text, "pool": _DEVICE_POOL},
                nodeName=_text,
                nodeSelector=_fields(nodeSelectorTerms=_each(_NODE_TERM)),
                allNodes=_flag,
                perDeviceNodeSelection=_flag,
                devices=_each(_DEVICE),
                sharedCounters=_each(_fields({"name": _text}, counters=_COUNTERS)),
            )
        },
        {},
    ),
    "ResourceQuota": ({}, {"spec": _fields(hard=_QUANTITIES), "status": _fields(hard=_QUANTITIES, used=_QUANTITIES)}),
    "Secret": ({}, {"data": _LABELS}),
    "Service": (
        {},
        {
            "spec": _fields(
                type=_text, clusterIP=_text, ports=_each(_fields({"port": _number}, nodePort=_number, name=_text))
            ),
            "status": _fields(loadBalancer=_fields(ingress=_each(_fields(hostname=_text, ip=_text)))),
        },
    ),
    "StatefulSet": (
        {"spec": _fields({"template": _TEMPLATE}, replicas=_number, updateStrategy=_fields(type=_text))},
        {"status": _fields(**_LONG_RUNNING, currentRevision=_text, updateRevision=_text)},
    ),
    "PodGroup": (  # Volcano's
        {},
        {"spec": _fields(queue=_text, minMember=_number), "status": _fields(phase=_text, conditions=_CONDITIONS)},
    ),
    "Workload": (  # Kueue's
        {},
        {
            "spec": _fields(active=_flag, queueName=_text, priority=_number),
            "status": _fields(conditions=_CONDITIONS),
        },
    ),
}
# The kinds whose age and identity are read.
_DATED = frozenset({"Deployment", "Event", "Job", "Node", "Pod", "StatefulSet"})


@lru_cache(maxsize=64)
def _shape_of(kind: str, namespaced: bool) -> Check:
    required, optional = _BELOW.get(kind, ({}, {}))
    metadata = _metadata(namespaced, dated=kind in _DATED)
    return _fields({"metadata": metadata, **required}, **optional)


@lru_cache(maxsize=2)
def _metadata_of(namespaced: bool) -> Check:
    return _fields({"metadata": _metadata(namespaced, dated=False)})


def _metadata(namespaced: bool, *, dated: bool) -> Check:
    identity = {"uid": _text, "creationTimestamp": _time}
    return _fields(
        {"name": _text, **({"namespace": _text} if namespaced else {}), **(identity if dated else {})},
        **({} if dated else identity),
        resourceVersion=_text,
        generation=_number,
        deletionTimestamp=_time,
        labels=_LABELS,
        annotations=_LABELS,
        ownerReferences=_each(_fields({"kind": _text, "name": _text, "uid": _text})),
        managedFields=_each(_fields(manager=_text, operation=_text, subresource=_text, time=_time, fieldsV1=_object)),
    )
