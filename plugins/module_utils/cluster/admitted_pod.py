# SPDX-License-Identifier: BSD-2-Clause
"""The pod that the API server would make of a template: defaults, priority, overhead, tolerations. Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from ..kube.resources import Object
from ..quantity import parse
from .label_selectors import selects
from .pod_facts import HostPort, claim_names, host_ports, requests_of_pod, required_terms
from .pod_requests import Amounts, amount_of, limits_as_requests

DEFAULT_SCHEDULER = "default-scheduler"
_SECONDS = 300  # plugin/pkg/admission/defaulttolerationseconds
_CRITICAL = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True)
class Admission:
    """What changes pods on their way into a namespace; None where it could not be read."""

    priority_classes: Mapping[str, Object] | None = field(default_factory=dict)
    limit_ranges: Sequence[Object] | None = ()
    runtime_classes: Mapping[str, Object] | None = field(default_factory=dict)


@dataclass(frozen=True)
class WantedPod:
    """A pod of a job that does not exist yet. ``templates`` are what its ResourceClaimTemplates claim, by name.
    ``undecided`` says what of it cannot be predicted, and ``refusals`` why the server would not create it."""

    namespace: str
    job: str
    labels: Mapping[str, str]
    spec: Object
    requests: Amounts
    ports: tuple[HostPort, ...]
    priority: int
    preempts: bool
    claims: tuple[str, ...]
    templates: Mapping[str, Object] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    @cached_property
    def near(self) -> list[Object]:
        return required_terms(self.spec, "podAffinity")

    @cached_property
    def away(self) -> list[Object]:
        return required_terms(self.spec, "podAntiAffinity")

    @cached_property
    def spread(self) -> list[Object]:
        constraints = self.spec.get("topologySpreadConstraints") or ()
        return [one for one in constraints if one["whenUnsatisfiable"] == "DoNotSchedule"]

    @cached_property
    def selection(self) -> str:
        """What of it decides which nodes are suitable; the same for pods that are alike in it."""
        affinity = (self.spec.get("affinity") or {}).get("nodeAffinity")
        return json.dumps([self.spec.get("nodeSelector"), affinity, self.spec.get("tolerations")], sort_keys=True)

    @cached_property
    def minds_its_own(self) -> bool:
        """Whether where one of its copies is decides where the next may be."""
        return bool(self.near or self.away or self.spread)

    @property
    def as_pod(self) -> Object:
        return {"metadata": {"namespace": self.namespace, "labels": dict(self.labels)}, "spec": self.spec}


def admitted(template: Object, namespace: str, job: str, admission: Admission) -> WantedPod:
    """The pod of a template, after defaulting and the admission plugins that change what a scheduler looks at."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    spec = _copied(template["spec"])
    undecided: list[str] = []
    refusals: list[str] = []
    _default_requests(spec)
    if admission.limit_ranges is None:
        undecided.append(
            "the account has no permission to read the LimitRanges of the namespace, which may set requests"
        )
    for limits in admission.limit_ranges or ():
        _apply_limit_range(spec, limits)
    refusals += (text for limits in admission.limit_ranges or () for text in _out_of_range(spec, limits))
    undecided += _add_overhead(spec, admission.runtime_classes)
    priority, preempts, unknown = _priority(spec, admission.priority_classes)
    undecided += unknown
    tolerations = [*(spec.get("tolerations") or ())]
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS})
    spec["tolerations"] = tolerations
    _merge_label_keys(spec, labels)
    if spec.get("nodeName"):
        undecided.append(f"it names its node ({spec['nodeName']}), so no scheduler places it")
    if (spec.get("schedulerName") or DEFAULT_SCHEDULER) != DEFAULT_SCHEDULER:
        undecided.append(f"scheduler {spec['schedulerName']} places it, by rules of its own")
    if gates := [gate["name"] for gate in spec.get("schedulingGates") or ()]:
        undecided.append(f"it is not scheduled before its gates are removed: {', '.join(gates)}")
    pod = {"metadata": {"namespace": namespace, "labels": labels}, "spec": spec}
    return WantedPod(
        namespace,
        job,
        labels,
        spec,
        requests_of_pod(pod),
        host_ports(spec),
        priority,
        preempts,
        claim_names(spec),
        undecided=tuple(undecided),
        refusals=tuple(refusals),
    )


def _copied(spec: Object) -> dict[str, Any]:
    """The spec with copies of what admission changes: whole specs are large, and thousands are judged."""
    found = dict(spec)
    for name in ("containers", "initContainers"):
        if spec.get(name):
            found[name] = [dict(container) for container in spec[name]]
    for name in ("affinity", "topologySpreadConstraints"):
        if spec.get(name):
            found[name] = copy.deepcopy(spec[name])
    return found


def _all_containers(spec: Object) -> list[dict[str, Any]]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _default_requests(spec: Object) -> None:
    """Limits without a request are requests (pkg/apis/core/v1/defaults.go, SetDefaults_Pod)."""
    for container in _all_containers(spec):
        resources = container.get("resources") or {}
        if limits := resources.get("limits"):
            container["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}


def _apply_limit_range(spec: Object, limits: Object) -> None:
    """Defaults of containers (plugin/pkg/admission/limitranger)."""
    for item in (limits.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        for container in _all_containers(spec):
            resources = container.get("resources") or {}
            container["resources"] = {
                **resources,
                "requests": {**(item.get("defaultRequest") or {}), **(resources.get("requests") or {})},
                "limits": {**(item.get("default") or {}), **(resources.get("limits") or {})},
            }


def _out_of_range(spec: Object, limits: Object) -> Iterator[str]:
    """What a LimitRange refuses of containers, and of the pod as a whole (``PodValidateLimitFunc``)."""
    name = f"LimitRange {limits['metadata']['name']}"
    for item in (limits.get("spec") or {}).get("limits") or ():
        for requests, most, each in _bounded(spec, item.get("type")):
            for resource in (item.get("default") or {}).keys() & requests.keys() & most.keys():
                if requests[resource] > most[resource]:
                    yield (
                        f"{name} limits {resource} of a container that names no limit to {item['default'][resource]}, "
                        f"below its request"
                    )
            for resource, bound in (item.get("min") or {}).items():
                if requests.get(resource, -1) < amount_of(resource, bound):
                    yield f"{name} asks for at least {bound} of {resource} in {each}"
            for resource, bound in (item.get("max") or {}).items():
                if resource not in most or most[resource] > amount_of(resource, bound):
                    yield f"{name} allows at most {bound} of {resource} in {each}"
            for resource, bound in (item.get("maxLimitRequestRatio") or {}).items():
                asked, limit = requests.get(resource), most.get(resource)
                if not asked or not limit or Fraction(limit, asked) > parse(bound).value:
                    yield f"{name} allows a limit of {resource} of at most {bound} times the request in {each}"


def _bounded(spec: Object, kind: str | None) -> Iterator[tuple[Amounts, Amounts, str]]:
    """The requests and the limits that the bounds of a LimitRange are about."""
    if kind == "Container":
        for container in _all_containers(spec):
            resources = container.get("resources") or {}
            requests, limits = (
                {name: amount_of(name, amount) for name, amount in (resources.get(part) or {}).items()}
                for part in ("requests", "limits")
            )
            yield requests, limits, "each container"
    elif kind == "Pod":
        plain = {name: value for name, value in spec.items() if name != "overhead"}
        yield requests_of_pod({"spec": plain}), requests_of_pod({"spec": limits_as_requests(plain)}), "each pod"


def _add_overhead(spec: dict[str, Any], classes: Mapping[str, Object] | None) -> Iterator[str]:
    """What a RuntimeClass adds (plugin/pkg/admission/runtimeclass)."""
    name = spec.get("runtimeClassName")
    if not name:
        return
    if classes is None:
        yield f"the account may not read RuntimeClass {name}, which may add overhead and a node selector"
        return
    found = classes.get(name)
    if found is None:
        yield f"RuntimeClass {name} does not exist"
        return
    if fixed := (found.get("overhead") or {}).get("podFixed"):
        spec["overhead"] = fixed
    scheduling = found.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    if scheduling.get("tolerations"):
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *scheduling["tolerations"]]


def _priority(spec: Object, classes: Mapping[str, Object] | None) -> tuple[int, bool, list[str]]:
    """Its priority, whether it preempts others, and what of that is not known."""
    name = spec.get("priorityClassName") or ""
    if name in _CRITICAL:
        return _CRITICAL[name], True, []
    if classes is None:
        return 0, True, ["the account may not read PriorityClasses"]
    found = classes.get(name) if name else next((one for one in classes.values() if one.get("globalDefault")), {})
    if found is None:
        return 0, True, [f"PriorityClass {name} does not exist"]
    policy = found.get("preemptionPolicy") or spec.get("preemptionPolicy")
    return found.get("value") or 0, policy != "Never", []


def _merge_label_keys(spec: Object, labels: Mapping[str, str]) -> None:
    """The server adds the values of ``matchLabelKeys`` to selectors (pkg/registry/core/pod/strategy.go)."""
    terms = [*required_terms(spec, "podAffinity"), *required_terms(spec, "podAntiAffinity")]
    for term in (*terms, *(spec.get("topologySpreadConstraints") or ())):
        selector = dict(term.get("labelSelector") or {})
        rules = list(selector.get("matchExpressions") or ())
        for operator, keys in (("In", "matchLabelKeys"), ("NotIn", "mismatchLabelKeys")):
            for key in term.pop(keys, None) or ():
                if key in labels:
                    rules.append({"key": key, "operator": operator, "values": [labels[key]]})
        if rules:
            term["labelSelector"] = {**selector, "matchExpressions": rules}


def term_means(
    term: Object,
    owner: str,
    labels: Mapping[str, str],
    namespace: str,
    namespaces: Mapping[str, Mapping[str, str]] | None,
) -> bool:
    """Whether a term of a pod in namespace ``owner`` means a pod with these labels (framework/types.go, AffinityTerm).

    ``namespaces`` are the labels of all namespaces.
    """
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if selector is None:
        in_scope = namespace in (named or (owner,))
    else:
        in_scope = namespace in named or selects(selector, (namespaces or {}).get(namespace) or {})
    return in_scope and selects(term.get("labelSelector"), labels)
