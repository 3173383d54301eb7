# SPDX-License-Identifier: BSD-2-Clause
"""Request bodies in protobuf: kubectl sends them for the kinds it builds itself (create namespace, auth can-i…).

Only reading, and only the messages below: anything else is refused (415), never dropped. Field numbers: generated.proto
of k8s.io/api and k8s.io/apimachinery; the types of fields come from schema.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from kubesim import schema
from kubesim.clock import rfc3339
from kubesim.schema import ListType, MapType, Struct, Type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_NUMBERS = """
meta.ObjectMeta name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 generation=7 creationTimestamp=8
meta.ObjectMeta labels=11 annotations=12 ownerReferences=13 finalizers=14
meta.OwnerReference kind=1 name=3 uid=4 apiVersion=5 controller=6 blockOwnerDeletion=7
meta.LabelSelector matchLabels=1 matchExpressions=2
meta.LabelSelectorRequirement key=1 operator=2 values=3
meta.DeleteOptions gracePeriodSeconds=1 preconditions=2 orphanDependents=3 propagationPolicy=4 dryRun=5
meta.Preconditions uid=1 resourceVersion=2
authentication.SelfSubjectReview metadata=1 status=2
authentication.TokenRequest metadata=1 spec=2 status=3
authentication.TokenRequestSpec audiences=1 boundObjectRef=3 expirationSeconds=4
authorization.SelfSubjectAccessReview metadata=1 spec=2 status=3
authorization.SelfSubjectAccessReviewSpec resourceAttributes=1 nonResourceAttributes=2
authorization.ResourceAttributes namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7
authorization.NonResourceAttributes path=1 verb=2
authorization.SelfSubjectRulesReview metadata=1 spec=2 status=3
authorization.SelfSubjectRulesReviewSpec namespace=1
core.Namespace metadata=1 spec=2 status=3
core.NamespaceSpec finalizers=1
core.ConfigMap metadata=1 data=2 binaryData=3 immutable=4
core.Secret metadata=1 data=2 type=3 stringData=4 immutable=5
core.ServiceAccount metadata=1
core.ResourceQuota metadata=1 spec=2 status=3
core.ResourceQuotaSpec hard=1 scopes=2
core.Service metadata=1 spec=2 status=3
core.ServiceSpec ports=1 selector=2 clusterIP=3 type=4 externalIPs=5 sessionAffinity=7 loadBalancerIP=8
core.ServiceSpec loadBalancerSourceRanges=9 externalName=10 externalTrafficPolicy=11 healthCheckNodePort=12
core.ServiceSpec publishNotReadyAddresses=13 ipFamilyPolicy=17 clusterIPs=18 ipFamilies=19
core.ServicePort name=1 protocol=2 port=3 targetPort=4 nodePort=5 appProtocol=6
core.PodTemplateSpec metadata=1 spec=2
core.PodSpec volumes=1 containers=2 restartPolicy=3 dnsPolicy=6 nodeSelector=7 serviceAccountName=8 serviceAccount=9
core.PodSpec nodeName=10 hostNetwork=11 hostPID=12 hostIPC=13 hostname=16 subdomain=17 schedulerName=19
core.PodSpec priorityClassName=24
core.Container name=1 image=2 command=3 args=4 workingDir=5 ports=6 env=7 resources=8 terminationMessagePath=13
core.Container imagePullPolicy=14 stdin=16 stdinOnce=17 tty=18 terminationMessagePolicy=20
core.ContainerPort name=1 hostPort=2 containerPort=3 protocol=4 hostIP=5
core.EnvVar name=1 value=2
core.ResourceRequirements limits=1 requests=2
apps.Deployment metadata=1 spec=2 status=3
apps.DeploymentSpec replicas=1 selector=2 template=3 strategy=4 minReadySeconds=5 revisionHistoryLimit=6 paused=7
apps.DeploymentSpec progressDeadlineSeconds=9
apps.DeploymentStrategy type=1
batch.Job metadata=1 spec=2 status=3
batch.JobSpec parallelism=1 completions=2 activeDeadlineSeconds=3 selector=4 manualSelector=5 template=6 backoffLimit=7
batch.JobSpec ttlSecondsAfterFinished=8 completionMode=9 suspend=10
policy.PodDisruptionBudget metadata=1 spec=2 status=3
policy.PodDisruptionBudgetSpec minAvailable=1 selector=2 maxUnavailable=3 unhealthyPodEvictionPolicy=4
policy.Eviction metadata=1 deleteOptions=2
rbac.PolicyRule verbs=1 apiGroups=2 resources=3 resourceNames=4 nonResourceURLs=5
rbac.Role metadata=1 rules=2
rbac.ClusterRole metadata=1 rules=2
rbac.RoleBinding metadata=1 subjects=2 roleRef=3
rbac.ClusterRoleBinding metadata=1 subjects=2 roleRef=3
rbac.RoleRef apiGroup=1 kind=2 name=3
rbac.Subject kind=1 apiGroup=2 name=3 namespace=4
scheduling.PriorityClass metadata=1 value=2 globalDefault=3 description=4 preemptionPolicy=5
"""


class Unreadable(ValueError):
    """A message or a field that is not in the table, or no protobuf at all."""


def _table() -> dict[str, dict[int, str]]:
    rows: dict[str, dict[int, str]] = {}
    for line in _NUMBERS.strip().splitlines():
        name, *pairs = line.split()
        rows.setdefault(name, {}).update((int(number), key) for key, _, number in (p.partition("=") for p in pairs))
    return rows


_FIELDS = _table()


def load(body: bytes) -> dict[str, Any]:
    """The object in a body: runtime.Unknown with the type beside the raw message."""
    if not body.startswith(_MAGIC):
        raise Unreadable("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_wire(body[4:]))
    about = {number: bytes(value).decode() for number, value in _wire(envelope.get(1, b""))}
    api_version, kind = about.get(1, ""), about.get(2, "")
    try:
        root = schema.of_object(api_version, kind)
    except KeyError:
        root_type = (
            schema.named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions") if kind == "DeleteOptions" else None
        )
        if not isinstance(root_type, Struct):
            raise Unreadable(f"{api_version} {kind}") from None
        root = root_type
    return {**_message(envelope.get(2, b""), root), "apiVersion": api_version, "kind": kind}


def _message(data: bytes, kind: Struct) -> dict[str, Any]:
    names = _FIELDS.get(schema.short_name(kind.name))
    if names is None:
        if data:
            raise Unreadable(kind.go)
        return {}
    out: dict[str, Any] = {}
    for number, value in _wire(data):
        if number not in names:
            raise Unreadable(f"{kind.go} field {number}")
        name = names[number]
        if name == "status":  # a client's status is empty, or reset by the server
            continue
        field = kind.fields[name].type
        if isinstance(field, ListType):
            out.setdefault(name, []).append(_value(value, field.item))
        elif isinstance(field, MapType):
            entry = dict(_wire(value))
            out.setdefault(name, {})[entry.get(1, b"").decode()] = _value(entry.get(2, b""), field.item)
        else:
            out[name] = _value(value, field)
    return out


def _value(value: Any, kind: Type) -> Any:
    if isinstance(kind, Struct):
        return _message(value, kind)
    if isinstance(kind, schema.Bytes):
        return base64.b64encode(value).decode()
    if isinstance(kind, schema.QuantityType):
        return dict(_wire(value)).get(1, b"0").decode()
    if isinstance(kind, schema.IntOrString):
        parts = dict(_wire(value))
        return parts.get(3, b"").decode() if parts.get(1) else parts.get(2, 0)
    if isinstance(kind, schema.Time):
        seconds = dict(_wire(value)).get(1)
        return rfc3339(datetime.fromtimestamp(seconds, timezone.utc)) if seconds else None
    if isinstance(value, bytes):
        return value.decode()
    return bool(value) if kind.go == "bool" else (value - 2**64 if value >= 2**63 else value)


def _wire(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, varint or bytes) of each field on the wire."""
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            if tag & 7 == 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            elif tag & 7 == 2:
                size, at = _varint(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            else:
                raise Unreadable(f"wire type {tag & 7}")
    except IndexError:
        raise Unreadable("unexpected EOF") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
