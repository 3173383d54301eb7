# SPDX-License-Identifier: BSD-2-Clause
"""What the collection relies on in the objects that it reads: their fields, with the types of the Kubernetes API.

Everything behind the client reads fields without looking at their types. So an object that is not like its kind is
found here, once, and left out by name: it must neither end a task nor hide the objects beside it. Fields that are null
are removed, because Kubernetes reads null as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from ..quantity import parse
from .errors import KubeError, quoted_start
from .resources import Resource
from .times import is_time

Check = Callable[[Any], None]

_LONGEST = 40  # characters of a value in a message
_SHELL_SAFE = re.compile(r"[-.a-z0-9]+")  # what object names are made of: everything else stays out of commands


class MalformedObject(NamedTuple):
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
        return f"{self.kind} {self.name}{where} {cannot}: {self.problem}. {self._correction}"

    @property
    def _correction(self) -> str:
        parts = [self.name, *([self.namespace] if self.namespace else [])]
        if not all(_SHELL_SAFE.fullmatch(part) for part in parts):
            return "Correct or delete it."
        where = f" --namespace {self.namespace}" if self.namespace else ""
        return f"Correct or delete it. kubectl get {self.kind.lower()} {self.name}{where} --output yaml shows it."


class UnreadableObject(KubeError):
    """An object that a task cannot do without is not like its kind."""

    def __init__(self, malformed: MalformedObject) -> None:
        super().__init__(malformed.sentence)


def malformation(
    resource: Resource, obj: Any, *, metadata_only: bool = False, may_lack: bool = False
) -> MalformedObject | None:
    """Why an object of the kind cannot be read; None if it can. Removes its fields that are null.

    ``may_lack``: only the types of the fields that it has are looked at.
    """
    kind = "" if metadata_only else resource.kind
    check = _shape_of(kind, resource.namespaced, kind in _DATED, not may_lack)
    try:
        check(obj)
    except TypeMismatch as problem:
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        known = metadata if isinstance(metadata, dict) else {}
        namespace = known.get("namespace")
        place = str(namespace) if namespace is not None else None
        return MalformedObject(resource.kind, place, str(known.get("name", "without a name")), str(problem))
    return None


class TypeMismatch(ValueError):
    """A value is not of its type; the path to it is put together on the way up."""

    def __init__(self, found: str, expected: str, path: str = "") -> None:
        super().__init__(found, expected, path)
        self.found, self.expected, self.path = found, expected, path

    def below(self, step: object) -> TypeMismatch:
        dot = "." if self.path and not self.path.startswith("[") else ""
        return TypeMismatch(self.found, self.expected, f"{step}{dot}{self.path}")

    def __str__(self) -> str:
        return f"{self.path}: {self.found} instead of {self.expected}"


_NOUNS = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


def _noun(value: Any) -> str:
    """The type, not the value, which may be a secret."""
    return "nothing" if value is None else _NOUNS.get(type(value), "something else")


def _text(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeMismatch(_noun(value), "a string")


def _number(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeMismatch(_noun(value) if not isinstance(value, float) else "a fraction", "a whole number")
    if not -(2**63) <= value < 2**63:
        raise TypeMismatch("a number of more than 64 bits", "a whole number")


def _flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeMismatch(_noun(value), "a boolean")


def _object(value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeMismatch(_noun(value), "an object")


def _time(value: Any) -> None:
    _text(value)
    if not is_time(value):
        raise TypeMismatch(quoted_start(value, _LONGEST), "a time (RFC 3339)")


def _quantity(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeMismatch(_noun(value), "a quantity")
    try:
        parse(value)
    except ValueError:
        raise TypeMismatch(quoted_start(str(value), _LONGEST), "a quantity") from None


def _list_of(check: Check, *, least: int = 0) -> Check:
    """A list."""

    def check_list(value: Any) -> None:
        if not isinstance(value, list):
            raise TypeMismatch(_noun(value), "a list")
        if len(value) < least:
            raise TypeMismatch("nothing", "a list with an entry")
        for number, item in enumerate(value):
            try:
                check(item)
            except TypeMismatch as problem:
                raise problem.below(f"[{number}]") from None

    return check_list


def _map_of(check: Check) -> Check:
    """An object with any keys."""

    def check_values(value: Any) -> None:
        if not isinstance(value, dict):
            raise TypeMismatch(_noun(value), "an object")
        for name, item in value.items():
            try:
                check(item)
            except TypeMismatch as problem:
                raise problem.below(f"[{quoted_start(name, _LONGEST)[1:-1]}]") from None

    return check_values


def _object_of(fields: Iterable[tuple[str, bool, Check]]) -> Check:
    """An object with these fields, of which some must be there; others are not looked at."""
    # No call for what is a text as it must be: a pod has a hundred.
    checks = tuple((name, is_needed, check, str if check is _text else None) for name, is_needed, check in fields)

    def check_fields(value: Any) -> None:
        if not isinstance(value, dict):
            raise TypeMismatch(_noun(value), "an object")
        for name, is_needed, check, simple in checks:
            found = value.get(name)
            try:
                if found is None:
                    value.pop(name, None)
                    if is_needed:
                        raise TypeMismatch("nothing", "a value")
                elif found.__class__ is not simple:
                    check(found)
            except TypeMismatch as problem:
                raise problem.below(name) from None

    return check_fields


_PRIMITIVES: Mapping[str, Check] = {
    "text": _text,
    "number": _number,
    "flag": _flag,
    "object": _object,
    "time": _time,
    "quantity": _quantity,
}

# The fields that are read, with their types in the API (api/core/v1/types.go and others). Those with ``!`` must be
# there: validation or the server's own defaults make sure of them. [type] is a list, [type+] one with an entry at
# least, {type} an object with any keys. Of a kind, these are the fields below its metadata; of kinds that are missing
# here, only the metadata are read.
_TYPES = """
resources = (requests {quantity}, limits {quantity})
selector = (matchLabels {text}, matchExpressions [(key! text, operator! text, values [text])])
conditions = [(type! text, status! text, reason text, message text, lastTransitionTime time, lastHeartbeatTime time)]

container = (name! text, image text, command [text], args [text], workingDir text, restartPolicy text,
    env [(name! text, value text, valueFrom (secretKeyRef reference, configMapKeyRef reference))],
    envFrom [(secretRef (name text))],
    resources (requests {quantity}, limits {quantity}, claims [(name! text)]),
    ports [(containerPort number, hostPort number, hostIP text, protocol text)])
reference = (key! text, name! text)
secretFiles = (secretName text, name text, items [(key! text)])
toleration = (key text, operator text, value text, effect text, tolerationSeconds number)
nodeRule = (key text, operator text, values [text])
nodeSelector = (nodeSelectorTerms [(matchExpressions [nodeRule], matchFields [nodeRule])])
podAffinity = (requiredDuringSchedulingIgnoredDuringExecution
    [(topologyKey! text, labelSelector selector, namespaces [text], namespaceSelector selector)])
podSpec = (containers! [container+], initContainers [container], ephemeralContainers [(name! text)],
    volumes [(name! text, configMap (name! text), persistentVolumeClaim (claimName! text), secret secretFiles,
        emptyDir (sizeLimit quantity, medium text), projected (sources [(secret secretFiles)]))],
    priority number, activeDeadlineSeconds number, nodeName text, nodeSelector {text}, tolerations [toleration],
    affinity (nodeAffinity (requiredDuringSchedulingIgnoredDuringExecution nodeSelector),
        podAffinity podAffinity, podAntiAffinity podAffinity),
    schedulerName text, schedulingGates [(name! text)], subdomain text, overhead {quantity}, resources resources,
    resourceClaims [(name! text, resourceClaimName text, resourceClaimTemplateName text)])
template = (spec! podSpec, metadata (labels {text}, annotations {text}))

state = (waiting (reason text, message text), running (startedAt time),
    terminated (reason text, message text, exitCode number, startedAt time, finishedAt time))
containerStatus = (name! text, image text, ready flag, restartCount number, state state, lastState state,
    allocatedResources {quantity}, resources resources)
Pod = (spec! podSpec, status (phase text, reason text, message text, podIP text, nominatedNodeName text, startTime time,
    conditions conditions, containerStatuses [containerStatus], initContainerStatuses [containerStatus],
    resourceClaimStatuses [(name! text, resourceClaimName text)],
    extendedResourceClaimStatus (resourceClaimName! text)))

Deployment = (spec! (template! template, replicas number),
    status (observedGeneration number, replicas number, readyReplicas number, updatedReplicas number,
        availableReplicas number, conditions conditions))
StatefulSet = (spec! (template! template, replicas number, updateStrategy (type text)),
    status (observedGeneration number, replicas number, readyReplicas number, updatedReplicas number,
        availableReplicas number, conditions conditions, currentRevision text, updateRevision text))
Job = (spec! (template! template, suspend flag, parallelism number, completions number, completionMode text,
        ttlSecondsAfterFinished number, activeDeadlineSeconds number),
    status (active number, ready number, succeeded number, failed number, startTime time, completionTime time,
        conditions conditions, uncountedTerminatedPods (succeeded [text], failed [text])))

measured = (type text, resource metric, containerResource metric, pods metric, object metric, external metric)
metric = (name text, metric (name text), target (), current ())
HorizontalPodAutoscaler = (
    spec (scaleTargetRef (kind text, name text), minReplicas number, maxReplicas number, metrics [measured]),
    status (conditions conditions, currentMetrics [measured]))
Service = (spec (type text, clusterIP text, ports [(port! number, nodePort number, name text)]),
    status (loadBalancer (ingress [(hostname text, ip text)])))
ConfigMap = (data {text})
Secret = (data {text})
PodDisruptionBudget = (spec (selector selector), status (disruptionsAllowed number, disruptedPods object))
PersistentVolume = (spec! (nodeAffinity (required nodeSelector)))
PersistentVolumeClaim = (spec! (volumeName text, storageClassName text, accessModes [text]))
Event = (type text, reason text, message text, count number, firstTimestamp time, lastTimestamp time, eventTime time,
    involvedObject (kind text, name text, namespace text, uid text), series (count number, lastObservedTime time))
Lease = (spec (holderIdentity text, leaseDurationSeconds number, leaseTransitions number, acquireTime time,
    renewTime time))
LimitRange = (spec (limits
    [(type! text, min {quantity}, max {quantity}, default {quantity}, defaultRequest {quantity})]))
ResourceQuota = (spec (hard {quantity}), status (hard {quantity}, used {quantity}))

Node = (spec (unschedulable flag, taints [taint]),
    status (allocatable {quantity}, capacity {quantity}, nodeInfo (kubeletVersion text), conditions conditions,
        addresses [(type! text, address! text)]))
taint = (key! text, effect! text, value text)
Namespace = (status (phase text, conditions conditions))
PriorityClass = (value number, globalDefault flag, preemptionPolicy text)
StorageClass = (provisioner text, volumeBindingMode text)
RuntimeClass = (overhead (podFixed {quantity}), scheduling (nodeSelector {text}, tolerations [toleration]))
subjects = [(kind! text, name! text, namespace text)]
roleRef = (kind text, name! text)
ClusterRoleBinding = (subjects subjects, roleRef roleRef)
RoleBinding = (subjects subjects, roleRef roleRef)
ClusterRole = (rules [(verbs [text], apiGroups [text], resources [text], resourceNames [text])])

celSelectors = [(cel (expression text))]
wantedDevices = (deviceClassName! text, name text, selectors celSelectors, allocationMode text, count number,
    adminAccess flag, tolerations [toleration])
claimSpec = (devices (requests [(name! text, exactly wantedDevices, firstAvailable [wantedDevices])],
    constraints [(requests [text], matchAttribute text, distinctAttribute text)]))
amounts = {(value! quantity)}
device = (name! text, attributes {(string text, int number, bool flag, version text)}, capacity amounts,
    taints [taint], consumesCounters [(counterSet! text, counters amounts)], allowMultipleAllocations flag,
    nodeName text, nodeSelector nodeSelector, allNodes flag)
DeviceClass = (spec (selectors celSelectors, extendedResourceName text))
ResourceClaim = (spec! claimSpec, status (
    allocation (devices (results
        [(driver! text, pool! text, device! text, request text, adminAccess flag, shareID text)])),
    reservedFor [(resource! text, name! text, uid! text)]))
ResourceClaimTemplate = (spec! (spec! claimSpec))
ResourceSlice = (spec! (driver! text, pool! (name! text, generation! number, resourceSliceCount! number),
    nodeName text, nodeSelector nodeSelector, allNodes flag, perDeviceNodeSelection flag,
    devices [device], sharedCounters [(name! text, counters amounts)]))

PodGroup = (spec (queue text, minMember number), status (phase text, conditions conditions))
Workload = (spec (active flag, queueName text, priority number), status (conditions conditions))
"""
# Volcano's PodGroup, and Kueue's Workload. Of these kinds, the age and the identity are read:
_DATED = frozenset({"Deployment", "Event", "Job", "Node", "Pod", "StatefulSet"})
_METADATA = """resourceVersion text, generation number, deletionTimestamp time,
    finalizers [text], labels {text}, annotations {text}, ownerReferences [(kind! text, name! text, uid! text)],
    managedFields [(manager text, operation text, subresource text, time time, fieldsV1 object)]"""


@lru_cache(maxsize=128)
def _shape_of(kind: str, namespaced: bool, dated: bool, complete: bool) -> Check:
    """The check of an object. ``dated``: its age and identity must be there; ``complete``: what must be there must."""
    namespace = "namespace! text," if namespaced else ""
    needed = "!" if dated else ""
    identity = f"name! text, {namespace} uid{needed} text, creationTimestamp{needed} time"
    below = _definitions().get(kind, "()").strip()[1:-1]
    return _parsed(f"(metadata! ({identity}, {_METADATA}), {below})", complete)


@lru_cache(maxsize=1)
def _definitions() -> dict[str, str]:
    return {name: text for name, _equals, text in (each.partition(" = ") for each in re.split(r"\n+(?! )", _TYPES))}


@lru_cache(maxsize=128)
def _check_of(name: str, complete: bool) -> Check:
    return _PRIMITIVES.get(name) or _parsed(_definitions()[name], complete)


def _parsed(text: str, complete: bool) -> Check:
    """The check that a type in the notation of ``_TYPES`` stands for."""
    return _parse(iter(re.findall(r"\w+|\S", text)), complete)


def _parse(tokens: Iterator[str], complete: bool) -> Check:
    token = next(tokens)
    if token == "(":
        return _object_of(_parse_fields(tokens, complete))
    if token not in "[{":
        return _check_of(token, complete)
    inner, after = _parse(tokens, complete), next(tokens)
    if after == "+":
        next(tokens)
    return _map_of(inner) if token == "{" else _list_of(inner, least=int(after == "+" and complete))


def _parse_fields(tokens: Iterator[str], complete: bool) -> Iterator[tuple[str, bool, Check]]:
    """Up to the closing bracket."""
    for token in tokens:
        if token == ")":
            return
        if token != ",":
            following = next(tokens, "")
            rest = tokens if following == "!" else chain([following], tokens)
            yield token, following == "!" and complete, _parse(rest, complete)
