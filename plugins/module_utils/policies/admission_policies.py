# SPDX-License-Identifier: BSD-2-Clause
"""The ValidatingAdmissionPolicies by which the API server enforces a policy, and their bindings. Pure.

Pods are what counts, whoever creates them. Workloads are checked as well, so that who submits them hears of it.
Kubernetes evaluates an expression for each object, at a limited cost (docs, "Validating Admission Policy").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..labels import FIELD_MANAGER, MANAGED_BY, POLICY, PREFIX
from .guards import GUARDS, Guard, general_guards, service_sentence, text, variables
from .policy_rules import PolicyRules

Object = dict[str, Any]

API_VERSION = "admissionregistration.k8s.io/v1"
LABEL_VERB, LABEL_GROUP = "label", "runwhere.ai"  # what a role grants to those who may set our labels

_ACTIONS = {"deny": ["Deny"], "warn": ["Warn", "Audit"], "audit": ["Audit"]}
# Server-side apply owns these blocks as a whole, so what the API server adds to them would be a difference.
_MATCH_DEFAULTS = {"matchPolicy": "Equivalent", "objectSelector": {}}
_MARK = "\0"
# What Kubernetes' own controllers create, they create from objects that were checked.
_CONTROLLER = (
    "(request.userInfo.username == 'system:kube-controller-manager' || "
    "request.userInfo.username.startsWith('system:serviceaccount:kube-system:'))"
)


@dataclass(frozen=True)
class _Matched:
    """Which objects a policy is for. ``spec`` is where the spec of their pods is, ``count`` how many there are."""

    suffix: str
    group: str
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    spec: str = ""
    count: str = "1"
    condition: str = ""  # beyond creations


_TEMPLATE = "object.spec.template.spec"


def _grown(field: str) -> str:
    now, before = (f"(has({each}.spec.{field}) ? {each}.spec.{field} : 1)" for each in ("object", "oldObject"))
    return f"object.spec.template != oldObject.spec.template || {now} > {before}"


_PODS = _Matched(
    "pods",
    "",
    ("v1",),
    ("pods", "pods/ephemeralcontainers"),
    "object.spec",
    condition="object.spec != oldObject.spec",
)
_JOBS = _Matched(
    "jobs",
    "batch",
    ("v1",),
    ("jobs",),
    _TEMPLATE,
    "has(object.spec.parallelism) ? object.spec.parallelism : 1",
    _grown("parallelism"),
)
_WORKLOADS = _Matched(
    "workloads",
    "apps",
    ("v1",),
    ("deployments", "statefulsets", "replicasets"),
    _TEMPLATE,
    "has(object.spec.replicas) ? object.spec.replicas : 1",
    _grown("replicas"),
)
_SERVICES = _Matched("services", "", ("v1",), ("services",), condition="object.spec != oldObject.spec")
_CLAIMS = _Matched(
    "claims",
    "resource.k8s.io",
    ("v1",),
    ("resourceclaims", "resourceclaimtemplates"),
    condition="object.spec != oldObject.spec",
)
_LABELLED = (
    _Matched("pod-labels", "", ("v1",), ("pods",)),
    _Matched("job-labels", "batch", ("v1",), ("jobs",)),
    _Matched("workload-labels", "apps", ("v1",), ("deployments", "statefulsets")),
)
_NODES = _Matched("node-labels", "", ("v1",), ("nodes",))


def admission_objects(policy: PolicyRules) -> list[Object]:
    """What the API server needs for a policy: each ValidatingAdmissionPolicy with its binding."""
    return [obj for each in _policies(policy) for obj in (each, _binding(policy, each))]


def _policies(policy: PolicyRules) -> Iterator[Object]:
    if policy.namespaces:
        for matched in (_PODS, _JOBS, _WORKLOADS):
            yield _policy(policy, matched, *_pod_parts(policy, matched))
        if any(rules.service_types is not None for rules in policy.namespaces.values()):
            yield _policy(policy, _SERVICES, *_service_parts(policy))
        if any(rules.max_gpus_per_job is not None for rules in policy.namespaces.values()):
            yield _policy(policy, _CLAIMS, *_claim_parts(policy))
        if policy.labels_of_pods:
            for matched in _LABELLED:
                yield _policy(policy, matched, *_label_parts(policy, matched))
    if policy.labels_of_nodes:
        yield _policy(policy, _NODES, *_label_parts(policy, _NODES))


Parts = tuple[dict[str, str], list[dict[str, str]]]


def _pod_parts(policy: PolicyRules, matched: _Matched) -> Parts:
    names = {"spec": matched.spec, "count": matched.count, **variables()}
    validations = []
    for guard in (*GUARDS, *general_guards(policy)):
        limited = _limited(policy, guard)
        if limited:
            names |= _guard_variables(guard, limited)
            validations.append(_validation(policy, guard))
    if any(rules.pools is not None for rules in policy.namespaces.values()):
        # A running pod names its node, and pods that a controller creates were judged by their template.
        may = f"request.operation != 'CREATE' || {_CONTROLLER}" if matched is _PODS else "false"
        validations.append(
            {
                "expression": f"!has(variables.spec.nodeName) || variables.spec.nodeName == '' || {may}",
                "messageExpression": text(f"{policy.source}: pods may not name their node. Remove nodeName."),
            }
        )
    return names, validations


def _limited(policy: PolicyRules, guard: Guard) -> dict[str, Any]:
    """What a guard allows, by namespace, without those that it does not limit."""
    found = {name: guard.rule(policy, rules) for name, rules in policy.namespaces.items()}
    return {name: allowed for name, allowed in found.items() if allowed is not None}


def _guard_variables(guard: Guard, limited: Mapping[str, Any]) -> dict[str, str]:
    if guard not in GUARDS:
        return {f"bad_{guard.name}": guard.cel}
    name = f"allowed_{guard.name}"
    nothing = "0" if all(isinstance(each, int) for each in limited.values()) else "[]"
    found = re.sub(r"\ballowed\b", f"variables.{name}", guard.cel)
    return {
        name: f"request.namespace in {text(limited)} ? {text(limited)}[request.namespace] : {nothing}",
        f"bad_{guard.name}": f"request.namespace in {text(dict.fromkeys(limited, True))} ? ({found}) : []",
    }


def _validation(policy: PolicyRules, guard: Guard) -> dict[str, str]:
    before, after = {}, {}
    for name, rules in policy.namespaces.items():
        if guard.rule(policy, rules) is not None:
            before[name], after[name] = guard.sentence(policy, rules).replace("{}", _MARK).split(_MARK)
    parts = [_by_namespace(before), f"variables.bad_{guard.name}[0]", _by_namespace(after)]
    return {
        "expression": f"size(variables.bad_{guard.name}) == 0",
        "messageExpression": " + ".join([text(f"{policy.source}: "), *(part for part in parts if part != "''")]),
    }


def _by_namespace(texts: Mapping[str, str]) -> str:
    if len(set(texts.values())) == 1:
        return text(next(iter(texts.values())))
    return f"{text(texts)}[request.namespace]"


def _service_parts(policy: PolicyRules) -> Parts:
    allowed = {
        name: rules.service_types for name, rules in policy.namespaces.items() if rules.service_types is not None
    }
    texts = {name: service_sentence(policy.namespaces[name]).split("{}")[1] for name in allowed}
    inside = f"request.namespace in {text(allowed)}"
    return {}, [
        {
            "expression": f"!({inside}) || (has(object.spec.type) ? object.spec.type : 'ClusterIP') in "
            f"{text(allowed)}[request.namespace]",
            "messageExpression": f"{text(f'{policy.source}: type of Service that is not allowed: ')} + "
            f"object.spec.type + {_by_namespace(texts)}",
        },
        {
            "expression": f"!({inside}) || !has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0",
            "messageExpression": text(f"{policy.source}: Services may not have external IPs. Remove externalIPs."),
        },
    ]


def _claim_parts(policy: PolicyRules) -> Parts:
    most = {
        name: rules.max_gpus_per_job for name, rules in policy.namespaces.items() if rules.max_gpus_per_job is not None
    }
    exact = "variables.requests.filter(r, has(r.exactly)).map(r, r.exactly)"
    each = "has({e}.count) ? {e}.count : 1"
    first = f"variables.requests.filter(r, has(r.firstAvailable)).map(r, r.firstAvailable.map(s, {each.format(e='s')}))"
    names = {
        "devices": "object.kind == 'ResourceClaim' ? object.spec.devices : object.spec.spec.devices",
        "requests": "has(variables.devices.requests) ? variables.devices.requests : []",
        "count": f"{exact}.map(e, {each.format(e='e')}).sum() + {first}.map(counts, counts.max()).sum()",
        "all": f"{exact}.exists(e, has(e.allocationMode) && e.allocationMode == 'All')",
    }
    here = f"request.namespace in {text(most)}"
    message = text(f"{policy.source}: a claim of more devices than a job may have. Use at most ")
    return names, [
        {
            "expression": f"!({here}) || (!variables.all && variables.count <= {text(most)}[request.namespace])",
            "messageExpression": f"{message} + string({text(most)}[request.namespace]) + '.'",
        }
    ]


def _label_parts(policy: PolicyRules, matched: _Matched) -> Parts:
    """Who may set our labels: whom RBAC allows the verb ``label`` on jobs or nodes of the group runwhere.ai."""
    resource = "nodes" if matched is _NODES else "jobs"
    place = "" if matched is _NODES else ".namespace(request.namespace)"
    ours = f"k.startsWith({text(PREFIX)})"
    names = {
        "now": "has(object.metadata.labels) ? object.metadata.labels : {}",
        "before": "request.operation == 'UPDATE' && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}",
        "changed": f"variables.now.exists(k, {ours} && !(k in variables.before && variables.before[k] == "
        f"variables.now[k])) || variables.before.exists(k, {ours} && !(k in variables.now))",
    }
    allowed = (
        f"authorizer.group({text(LABEL_GROUP)}).resource({text(resource)}){place}.check({text(LABEL_VERB)}).allowed()"
    )
    may = allowed if matched is _NODES else f"{_CONTROLLER} || {allowed}"
    noun = "nodes" if matched is _NODES else "jobs and their pods"
    level = "administer" if matched is _NODES else "submit"
    message = f"{policy.source}: labels runwhere.ai/ of {noun} are for accounts with level {level} of gpuctl_rbac."
    return names, [{"expression": f"!variables.changed || {may}", "messageExpression": text(message)}]


def _policy(policy: PolicyRules, matched: _Matched, names: Mapping[str, str], validations: list[Any]) -> Object:
    conditions = (
        [{"name": "changed", "expression": f"request.operation == 'CREATE' || {matched.condition}"}]
        if matched.condition
        else []
    )
    rule = {
        "apiGroups": [matched.group],
        "apiVersions": list(matched.versions),
        "operations": ["CREATE", "UPDATE"],
        "resources": list(matched.resources),
        "scope": "*",
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(policy, matched.suffix),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule], **_MATCH_DEFAULTS, "namespaceSelector": {}},
            **({"matchConditions": conditions} if conditions else {}),
            **({"variables": [{"name": key, "expression": value} for key, value in names.items()]} if names else {}),
            "validations": validations,
        },
    }


def _binding(policy: PolicyRules, admission: Object) -> Object:
    name = admission["metadata"]["name"]
    spec: Object = {"policyName": name, "validationActions": _ACTIONS[policy.action]}
    if not name.endswith(f"-{_NODES.suffix}"):
        chosen = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": sorted(policy.namespaces)}
        spec["matchResources"] = {"namespaceSelector": {"matchExpressions": [chosen]}, **_MATCH_DEFAULTS}
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": admission["metadata"],
        "spec": spec,
    }


def _metadata(policy: PolicyRules, suffix: str) -> Object:
    labels = {MANAGED_BY: FIELD_MANAGER, POLICY: policy.name}
    return {"name": f"gpuctl-{policy.name}-{suffix}", "labels": labels}
