# SPDX-License-Identifier: BSD-2-Clause
"""The ValidatingAdmissionPolicies by which the API server enforces a policy, and their bindings. Pure.

Pods are what counts, whatever creates them. Workloads are checked as well, so that who submits them hears of it.
Kubernetes evaluates an expression for each object, at a limited cost (docs, "Validating Admission Policy").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..labels import FIELD_MANAGER, MANAGED_BY, POLICY, PREFIX
from .guards import COUNTED, DEVICES_OF_CLAIM, GUARDS, VALUE, Guard, general_guards, service_sentence, text, variables
from .policy_rules import PolicyRules

Object = dict[str, Any]
Parts = tuple[dict[str, str], list[dict[str, str]]]  # variables and validations

API_VERSION = "admissionregistration.k8s.io/v1"
LABEL_VERB, LABEL_GROUP = "label", "runwhere.ai"  # what a role grants to those who may set our labels

_ACTIONS = {"deny": ["Deny"], "warn": ["Warn", "Audit"], "audit": ["Audit"]}
# Server-side apply owns these blocks as a whole, so what the API server adds to them would be a difference.
_MATCH_DEFAULTS = {"matchPolicy": "Equivalent", "objectSelector": {}}
# What Kubernetes' own controllers create, they create from objects that were checked.
# Their names depend on --use-service-account-credentials of kube-controller-manager.
_CONTROLLER = (
    "(request.userInfo.username == 'system:kube-controller-manager' || "
    "request.userInfo.username.startsWith('system:serviceaccount:kube-system:'))"
)


@dataclass(frozen=True)
class _Matched:
    """Which objects a policy is for: resources by API group. ``template`` is that of their pods, ``count`` how many.

    ``condition`` is what has to be true of an update; creations are always judged.
    """

    suffix: str
    resources: Mapping[str, tuple[str, ...]]
    condition: str = ""
    template: str = ""
    count: str = "1"


def _job_field(path: str, each: str = "object") -> str:
    return f"(object.kind == 'CronJob' ? {each}.spec.jobTemplate.spec.{path} : {each}.spec.{path})"


def _or_default(field: str, spec: str, default: int = 1) -> str:
    return f"(has({spec}.{field}) ? {spec}.{field} : {default})"


def _parallelism(each: str) -> str:
    cron, job = f"{each}.spec.jobTemplate.spec", f"{each}.spec"
    return f"(object.kind == 'CronJob' ? {_or_default('parallelism', cron)} : {_or_default('parallelism', job)})"


def _replicas(each: str) -> str:
    return _or_default("replicas", f"{each}.spec")


_SPEC_CHANGED = "object.spec != oldObject.spec"
_LABELS_CHANGED = (
    "has(object.metadata.labels) != has(oldObject.metadata.labels) || "
    "(has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)"
)
_RESUMED = (
    "(object.kind == 'Job' && has(oldObject.spec.suspend) && oldObject.spec.suspend && "
    "!(has(object.spec.suspend) && object.spec.suspend))"
)
_BATCH: Mapping[str, tuple[str, ...]] = {"batch": ("jobs", "cronjobs")}
_APPS: Mapping[str, tuple[str, ...]] = {
    "apps": ("deployments", "statefulsets", "replicasets", "daemonsets"),
    "": ("replicationcontrollers",),
}
_JOB_TEMPLATE, _TEMPLATE = _job_field("template"), "object.spec.template"

_PODS = _Matched("pods", {"": ("pods", "pods/ephemeralcontainers")}, _SPEC_CHANGED, "object")
_JOBS = _Matched(
    "jobs",
    _BATCH,
    f"{_JOB_TEMPLATE} != {_job_field('template', 'oldObject')} || {_RESUMED} || "
    f"{_parallelism('object')} > {_parallelism('oldObject')}",
    _JOB_TEMPLATE,
    _parallelism("object"),
)
_WORKLOADS = _Matched(
    "workloads",
    _APPS,
    f"{_TEMPLATE} != oldObject.spec.template || {_replicas('object')} > {_replicas('oldObject')}",
    _TEMPLATE,
    _replicas("object"),
)
# A Scale has no template. One pod is judged by itself, and a Deployment scales by updates of its ReplicaSets. The
# objects as parameters would tell, but the API server no longer watches built-in kinds of parameters once a policy with
# them was deleted (apiserver policy_source.go, informerFactory.Start).
_SCALED_TO = _or_default("replicas", "object.spec", 0)
_SCALES = _Matched(
    "scales",
    {"apps": ("statefulsets/scale", "replicasets/scale"), "": ("replicationcontrollers/scale",)},
    f"{_SCALED_TO} > {_or_default('replicas', 'oldObject.spec', 0)}",
)
_SERVICES = _Matched("services", {"": ("services",)}, _SPEC_CHANGED)
_CLAIMS = _Matched("claims", {"resource.k8s.io": ("resourceclaims", "resourceclaimtemplates")}, _SPEC_CHANGED)
# What writes the status of an object can change its labels as well, and a kubelet writes that of its node.
_LABELLED = (
    _Matched("pod-labels", {"": ("pods", "pods/status")}, _LABELS_CHANGED),
    _Matched(
        "job-labels",
        {"batch": ("jobs", "jobs/status", "cronjobs", "cronjobs/status")},
        f"{_LABELS_CHANGED} || {_JOB_TEMPLATE} != {_job_field('template', 'oldObject')} || "
        "(object.kind == 'CronJob' && object.spec.jobTemplate != oldObject.spec.jobTemplate)",
        _JOB_TEMPLATE,
    ),
    _Matched(
        "workload-labels",
        {group: tuple(name for each in names for name in (each, f"{each}/status")) for group, names in _APPS.items()},
        f"{_LABELS_CHANGED} || {_TEMPLATE} != oldObject.spec.template",
        _TEMPLATE,
    ),
)
_NODES = _Matched("node-labels", {"": ("nodes", "nodes/status")}, _LABELS_CHANGED)


def admission_objects(policy: PolicyRules) -> list[Object]:
    """What the API server needs for a policy: each ValidatingAdmissionPolicy with its binding."""
    return [obj for each in _admission_policies(policy) for obj in (each, _binding(policy, each))]


def _admission_policies(policy: PolicyRules) -> Iterator[Object]:
    if policy.namespaces:
        for matched in (_PODS, _JOBS, _WORKLOADS):
            yield _policy(policy, matched, *_pod_parts(policy, matched))
        if any(rules.service_types is not None for rules in policy.namespaces.values()):
            yield _policy(policy, _SERVICES, *_service_parts(policy))
        most, counted = _most_per_job(policy), _limited(policy, COUNTED)
        if most or counted:
            yield _policy(policy, _CLAIMS, *_claim_parts(policy, most, counted))
        if most:
            yield _policy(policy, _SCALES, *_scale_parts(policy, most))
        if policy.labels_of_pods:
            for matched in _LABELLED:
                yield _policy(policy, matched, *_label_parts(policy, matched))
    if policy.labels_of_nodes:
        yield _policy(policy, _NODES, *_label_parts(policy, _NODES))


def _pod_parts(policy: PolicyRules, matched: _Matched) -> Parts:
    names = {"spec": f"{matched.template}.spec", "count": matched.count, **variables()}
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
    if matched is _WORKLOADS and (most := _most_per_job(policy)):
        no_gpus = "DaemonSets may not have GPUs, because they have a pod on each node. Use a Job or a Deployment."
        validations.append(
            {
                "expression": f"object.kind != 'DaemonSet' || !variables.asks || !(request.namespace in {text(most)})",
                "messageExpression": text(f"{policy.source}: {no_gpus}"),
            }
        )
    return names, validations


def _most_per_job(policy: PolicyRules) -> dict[str, int]:
    """By namespace."""
    return {
        name: rules.max_gpus_per_job for name, rules in policy.namespaces.items() if rules.max_gpus_per_job is not None
    }


def _scale_parts(policy: PolicyRules, most: Mapping[str, int]) -> Parts:
    sentence = (
        "StatefulSets, ReplicaSets and ReplicationControllers are not scaled by themselves. Change their replicas."
    )
    return {}, [
        {
            "expression": f"{_SCALED_TO} <= 1 || !(request.namespace in {text(most)})",
            "messageExpression": text(f"{policy.source}: {sentence}"),
        }
    ]


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
            before[name], after[name] = guard.sentence(policy, rules).split(VALUE)
    parts = [_value_of_namespace(before), f"variables.bad_{guard.name}[0]", _value_of_namespace(after)]
    return {
        "expression": f"size(variables.bad_{guard.name}) == 0",
        "messageExpression": " + ".join([text(f"{policy.source}: "), *(part for part in parts if part != "''")]),
    }


def _value_of_namespace(texts: Mapping[str, str]) -> str:
    if len(set(texts.values())) == 1:
        return text(next(iter(texts.values())))
    return f"{text(texts)}[request.namespace]"


def _service_parts(policy: PolicyRules) -> Parts:
    allowed = {
        name: rules.service_types for name, rules in policy.namespaces.items() if rules.service_types is not None
    }
    texts = {name: service_sentence(policy.namespaces[name]).split(VALUE)[1] for name in allowed}
    inside = f"request.namespace in {text(allowed)}"
    return {}, [
        {
            "expression": f"!({inside}) || (has(object.spec.type) ? object.spec.type : 'ClusterIP') in "
            f"{text(allowed)}[request.namespace]",
            "messageExpression": f"{text(f'{policy.source}: type of Service that is not allowed: ')} + "
            f"object.spec.type + {_value_of_namespace(texts)}",
        },
        {
            "expression": f"!({inside}) || !has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0",
            "messageExpression": text(f"{policy.source}: Services may not have external IPs. Remove externalIPs."),
        },
    ]


def _claim_parts(policy: PolicyRules, most: Mapping[str, int], counted: Mapping[str, Any]) -> Parts:
    """Pods only name their claims, so the names have to say how many devices they claim."""
    exact = "variables.requests.filter(r, has(r.exactly)).map(r, r.exactly)"
    first = "variables.requests.filter(r, has(r.firstAvailable)).map(r, r.firstAvailable)"
    each = "has({e}.count) ? {e}.count : 1"
    is_all = "has({e}.allocationMode) && {e}.allocationMode == 'All'"
    names = {
        "devices": "object.kind == 'ResourceClaim' ? object.spec.devices : object.spec.spec.devices",
        "requests": "has(variables.devices.requests) ? variables.devices.requests : []",
        "count": f"{exact}.map(e, {each.format(e='e')}).sum() + "
        f"{first}.map(l, l.map(s, {each.format(e='s')}).max()).sum()",
        "all": f"{exact}.exists(e, {is_all.format(e='e')}) || {first}.exists(l, l.exists(s, {is_all.format(e='s')}))",
        "uncounted": f"{exact}.exists(e, !(e.deviceClassName in {text(policy.counted or ())})) || "
        f"{first}.exists(l, l.exists(s, !(s.deviceClassName in {text(policy.counted or ())})))",
        "declared": f"[object.metadata.name].map(n, {DEVICES_OF_CLAIM}).sum()",
    }
    here, limited = (f"request.namespace in {text(each)}" for each in (most, dict.fromkeys(counted, True)))
    message = text(f"{policy.source}: a claim of more devices than a job may have. Use at most ")
    unsaid = text(f"{policy.source}: name of a claim that does not tell its devices: ")
    return names, [
        {
            "expression": f"!({here}) || (!variables.all && variables.count <= {text(most)}[request.namespace])",
            "messageExpression": f"{message} + string({text(most)}[request.namespace]) + '.'",
        },
        {
            # A controller names the claims that it makes from templates; pods do not name those.
            "expression": f"!({here}) || {_CONTROLLER} || variables.count <= variables.declared",
            "messageExpression": f"{unsaid} + object.metadata.name + '. End it with -x' + string(variables.count) + "
            "'.'",
        },
        {
            "expression": f"!({limited}) || !variables.uncounted",
            "messageExpression": text(
                f"{policy.source}: a claim of a DeviceClass that the quota does not count. If the class is new, the "
                f"policy has to be applied again."
            ),
        },
    ]


def _label_parts(policy: PolicyRules, matched: _Matched) -> Parts:
    """Who may set our labels: whom RBAC allows the verb ``label`` on jobs or nodes of the group runwhere.ai."""
    resource = "nodes" if matched is _NODES else "jobs"
    place = "" if matched is _NODES else ".namespace(request.namespace)"
    ours = f"k.startsWith({text(PREFIX)})"
    names = {
        "now": _labels("object.metadata"),
        "before": f"request.operation == 'UPDATE' ? {_labels('oldObject.metadata')} : {{}}",
        "changed": _changed_labels("now", "before", ours),
    }
    # What controllers make of a template, they may label.
    templates = {"pods": _labels_of_template(matched.template)} if matched.template else {}
    if "batch" in matched.resources:
        templates["jobs"] = f"(object.kind == 'CronJob' ? {_labels_of_template('object.spec.jobTemplate')} : {{}})"
    for made, labels in templates.items():
        before = labels.replace("object.spec", "oldObject.spec")
        names |= {
            f"now_{made}": labels,
            f"before_{made}": f"request.operation == 'UPDATE' ? {before} : {{}}",
            f"changed_{made}": _changed_labels(f"now_{made}", f"before_{made}", ours),
        }
    allowed = (
        f"authorizer.group({text(LABEL_GROUP)}).resource({text(resource)}){place}.check({text(LABEL_VERB)}).allowed()"
    )
    may = allowed if matched is _NODES else f"{_CONTROLLER} || {allowed}"
    noun = "nodes" if matched is _NODES else "jobs and their pods"
    level = "administer" if matched is _NODES else "submit"
    message = f"{policy.source}: labels runwhere.ai/ of {noun} are for accounts with level {level} of gpuctl_rbac."
    changed = " || ".join(["variables.changed", *(f"variables.changed_{made}" for made in templates)])
    return names, [{"expression": f"!({changed}) || {may}", "messageExpression": text(message)}]


def _labels(metadata: str) -> str:
    return f"(has({metadata}.labels) ? {metadata}.labels : {{}})"


def _labels_of_template(template: str) -> str:
    return f"(has({template}.metadata) ? {_labels(f'{template}.metadata')} : {{}})"


def _changed_labels(now: str, before: str, ours: str) -> str:
    now, before = f"variables.{now}", f"variables.{before}"
    return (
        f"{now}.exists(k, {ours} && !(k in {before} && {before}[k] == {now}[k])) || "
        f"{before}.exists(k, {ours} && !(k in {now}))"
    )


def _policy(policy: PolicyRules, matched: _Matched, names: Mapping[str, str], validations: list[Any]) -> Object:
    conditions = []
    if matched.condition:
        conditions.append({"name": "changed", "expression": f"request.operation == 'CREATE' || {matched.condition}"})
    rules = [
        {
            "apiGroups": [group],
            # Other versions are converted first (matchPolicy Equivalent).
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": list(resources),
            "scope": "*",
        }
        for group, resources in matched.resources.items()
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _policy_metadata(policy, matched.suffix),
        "spec": {
            # What an expression cannot judge, because it fails, must not get past it.
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules, **_MATCH_DEFAULTS, "namespaceSelector": {}},
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


def _policy_metadata(policy: PolicyRules, suffix: str) -> Object:
    labels = {MANAGED_BY: FIELD_MANAGER, POLICY: policy.name}
    return {"name": f"gpuctl-{policy.name}-{suffix}", "labels": labels}
