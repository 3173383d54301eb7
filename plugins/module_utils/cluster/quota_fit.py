# SPDX-License-Identifier: BSD-2-Clause
"""How many pods of a job its namespace's ResourceQuotas let in. Pure.

Source: pkg/quota/v1/evaluator/core/{pods,resource_claims}.go, plugin/pkg/admission/resourcequota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..kube.resources import BY_KIND, Object
from ..labels import KUEUE_QUEUE, VOLCANO_SCHEDULER
from ..quantity import parse, uniform
from .admitted_pod import Admission, WantedPod, admitted
from .pending_reason import PendingReason
from .pod_facts import COMPUTE, PODS, PlacedPod, required_terms
from .pod_requests import Amounts, pod_limits
from .reason import QuotaRefusal, too_small_quota
from .status import is_terminating, pods_wanted

Charges = dict[str, Fraction]

_MUST_NAME = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
_BYTES = ("memory", "ephemeral-storage", "storage")
COUNTED = ("configmaps", "services")  # of what jobs make, as quotas name it beside count/configmaps
# What controllers make of an object before there are pods.
_MADE = {"Deployment": "count/replicasets.apps", "StatefulSet": "count/controllerrevisions.apps"}


@dataclass(frozen=True)
class QuotaLack:
    """What a quota does not have for a job. ``ever``: nor when nothing else uses it."""

    quota: str
    resource: str
    wanted: Fraction
    used: Fraction
    hard: Fraction

    @property
    def ever(self) -> bool:
        return self.wanted > self.hard

    @property
    def missing(self) -> Fraction:
        return self.wanted + self.used - self.hard

    @property
    def raised_to(self) -> str:
        return self._amount_text(self.wanted + self.used)

    @property
    def row(self) -> dict[str, Any]:
        amounts = {"requested": self.wanted, "used": self.used, "hard": self.hard}
        texts = {name: self._amount_text(amount) for name, amount in amounts.items()}
        return {"quota": self.quota, "resource": self.resource, **texts, "short": self._amount_text(self.missing)}

    def _amount_text(self, amount: Fraction) -> str:
        return _amount_text(self.resource, amount)


@dataclass
class QuotaState:
    """A ResourceQuota with what is left of it, which the jobs of a batch share."""

    name: str
    hard: Charges
    used: Charges
    scopes: tuple[Object, ...]

    def concerns(self, pod: WantedPod) -> bool:
        return all(_in_scope(scope, pod) for scope in self.scopes)

    def counts(self, pod: PlacedPod) -> bool:
        """Whether it counts a pod that exists, as far as its PriorityClass decides that."""
        scopes = (scope for scope in self.scopes if scope.get("scopeName") == "PriorityClass")
        return all(_is_in_class(scope, pod.priority_class) for scope in scopes)

    @property
    def counts_objects(self) -> bool:
        """Only pods have scopes: a quota with one counts no other objects (``generic.MatchesNoScopeFunc``)."""
        return not self.scopes

    def unnamed(self, pod: WantedPod) -> list[str]:
        """What the quota is about and a container does not name, so that the server refuses the pod. It is enough if
        the pod as a whole names something."""
        whole = pod.spec.get("resources") or {}
        if {"cpu", "memory"} & {*(whole.get("requests") or ()), *(whole.get("limits") or ())}:
            return []
        found = set()
        for name in _MUST_NAME & set(self.hard):
            part = "limits" if name.startswith("limits.") else "requests"
            for container in (*pod.spec["containers"], *(pod.spec.get("initContainers") or ())):
                if name.rpartition(".")[2] not in ((container.get("resources") or {}).get(part) or {}):
                    found.add(name)
        return sorted(found)

    def lacks(self, charges: Charges, number: int) -> Iterator[QuotaLack]:
        for name, amount in charges.items() if number else ():
            if name in self.hard and amount and amount * number + self.used.get(name, 0) > self.hard[name]:
                yield QuotaLack(self.name, name, amount * number, self.used.get(name, Fraction(0)), self.hard[name])

    def most(self, charges: Charges, number: int) -> int:
        """As many of the pods as it lets in."""
        for name, amount in charges.items():
            if name in self.hard and amount:
                number = min(number, max(0, int((self.hard[name] - self.used.get(name, 0)) // amount)))
        return number

    def charge(self, charges: Charges, number: int) -> None:
        for name, amount in charges.items():
            if name in self.hard:
                self.used[name] = self.used.get(name, Fraction(0)) + amount * number


def _amount_text(resource: str, amount: Fraction) -> str:
    """As people write it: 4000 GPUs are no 4k."""
    text = str(amount) if amount.denominator == 1 else f"{int(amount * 1000)}m"
    return uniform(text, of_bytes=True) if resource.rpartition(".")[2] in _BYTES else text


def quota_state(quota: Object) -> QuotaState | None:
    """None for a quota that is going, or that limits nothing."""
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    hard = spec.get("hard") or {}
    if is_terminating(quota) or not hard:
        return None
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    used = {name: parse(amount).value for name, amount in (status.get("used") or {}).items()}
    return QuotaState(
        quota["metadata"]["name"], {name: parse(amount).value for name, amount in hard.items()}, used, tuple(scopes)
    )


def refused_by_quotas(workload: Object, quotas: Iterable[Object]) -> Iterator[PendingReason]:
    """Which quotas of its namespace are too small for a workload, whatever else uses them."""
    if not (states := [*filter(None, map(quota_state, quotas))]):
        return
    metadata = workload["metadata"]
    pod = admitted(workload["spec"]["template"], metadata["namespace"], metadata["name"], Admission())
    charges, number = charges_of(pod), pods_wanted({**workload, "status": {}})
    for state in states:
        if state.concerns(pod):
            counted = [name for name, amount in charges.items() if name in state.hard and amount]
            requested = {name: _amount_text(name, charges[name]) for name in counted}
            limited = {name: _amount_text(name, state.hard[name]) for name in counted}
            refusal = QuotaRefusal(state.name, requested, {}, limited)
            yield from filter(None, [too_small_quota(refusal, number)])


def charges_of(pod: WantedPod, claims: Iterable[Object] = ()) -> Charges:
    """What one pod uses, by the names of quotas; ``claims`` are the specs of those made for it."""
    found: Charges = {PODS: Fraction(1), "count/pods": Fraction(1)}
    found |= _of_amounts(pod.requests, pod_limits(pod.spec, COMPUTE))
    for spec in claims:
        _add_charge(found, "count/resourceclaims.resource.k8s.io", 1)
        for class_name, count in _most_devices(spec).items():
            _add_charge(found, f"{class_name}.deviceclass.resource.k8s.io/devices", count)
            _add_charge(found, f"requests.deviceclass.resource.kubernetes.io/{class_name}", count)
    return found


def charges_of_objects(objects: Iterable[Object], live: Iterable[Object]) -> Charges:
    """What the objects of a job use of quotas on counts, beyond those of it that are ``live``."""
    former = {(obj["kind"], obj["metadata"]["name"]): _of_object(obj) for obj in live}
    found: Charges = {}
    for obj in objects:
        before = former.get((obj["kind"], obj["metadata"]["name"]), {})
        for name, amount in _of_object(obj).items():
            _add_charge(found, name, max(0, int(amount - before.get(name, 0))))
    return {name: amount for name, amount in found.items() if amount}


def _of_object(obj: Object) -> Charges:
    """One of its kind (``count/jobs.batch``, ``configmaps``), and the ports of a Service (``serviceEvaluator``)."""
    kind, spec = BY_KIND[obj["kind"]], obj.get("spec") or {}
    group = kind.api_version.rpartition("/")[0]
    found = {f"count/{kind.plural}{group and '.'}{group}": Fraction(1)}
    if not group:
        found[kind.plural] = Fraction(1)
    if obj["kind"] in _MADE:
        found[_MADE[obj["kind"]]] = Fraction(1)
    if KUEUE_QUEUE in (obj["metadata"].get("labels") or {}) and obj["kind"] == "Job":
        found["count/workloads.kueue.x-k8s.io"] = Fraction(1)
    if ((spec.get("template") or {}).get("spec") or {}).get("schedulerName") == VOLCANO_SCHEDULER:
        found["count/podgroups.scheduling.volcano.sh"] = Fraction(1)
    if obj["kind"] == "Service":
        type_, ports = spec.get("type"), spec.get("ports") or ()
        # Only ports that name a node port get one (pkg/quota/v1/evaluator/core/services.go).
        if type_ == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        found["services.loadbalancers"] = Fraction(type_ == "LoadBalancer")
        found["services.nodeports"] = Fraction(len(ports) if type_ in ("NodePort", "LoadBalancer") else 0)
    return found


def charges_of_placed(pod: PlacedPod) -> Charges:
    """The same of a pod that exists."""
    return {PODS: Fraction(1), "count/pods": Fraction(1)} | _of_amounts(pod.requests, pod.limits)


def _of_amounts(requests: Amounts, limits: Amounts) -> Charges:
    found = {f"limits.{name}": _as_quantity(name, amount) for name, amount in limits.items()}
    for name, whole in requests.items():
        amount = _as_quantity(name, whole)
        # cpu and requests.cpu are two names of one limit; extended resources only have the second.
        if name in COMPUTE or name.startswith("hugepages-"):
            found[name] = amount
        found[f"requests.{name}"] = amount
    return found


def _as_quantity(name: str, amount: int) -> Fraction:
    return Fraction(amount, 1000) if name == "cpu" else Fraction(amount)


def _add_charge(charges: Charges, name: str, amount: int) -> None:
    charges[name] = charges.get(name, Fraction(0)) + amount


def _most_devices(spec: Object) -> dict[str, int]:
    found: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        for one in [request["exactly"]] if "exactly" in request else request.get("firstAvailable") or ():
            # How many match is not known at admission: the most that a claim can have (AllocationResultsMaxSize).
            count = 32 if one.get("allocationMode") == "All" else one.get("count", 1)
            most[one["deviceClassName"]] = max(most.get(one["deviceClassName"], 0), count)
        for name, count in most.items():
            found[name] = found.get(name, 0) + count
    return found


def _in_scope(scope: Object, pod: WantedPod) -> bool:
    """``podMatchesScopeFunc``."""
    name, spec = scope.get("scopeName"), pod.spec
    if name in ("Terminating", "NotTerminating"):
        return bool((spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating"))
    if name in ("BestEffort", "NotBestEffort"):
        return bool(_is_best_effort(pod) == (name == "BestEffort"))
    if name == "PriorityClass":
        return _is_in_class(scope, spec.get("priorityClassName") or "")
    if name == "CrossNamespacePodAffinity":
        terms = [*required_terms(spec, "podAffinity"), *required_terms(spec, "podAntiAffinity")]
        for kind in ("podAffinity", "podAntiAffinity"):
            own = (spec.get("affinity") or {}).get(kind) or {}
            preferred = own.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
            terms += [one.get("podAffinityTerm") or {} for one in preferred]
        return any("namespaceSelector" in term or bool(term.get("namespaces")) for term in terms)
    return False


def _is_in_class(scope: Object, value: str) -> bool:
    operator = scope.get("operator")
    if operator in ("In", "NotIn"):
        return bool((bool(value) and value in (scope.get("values") or ())) == (operator == "In"))
    return bool(value) == (operator == "Exists")


def _is_best_effort(pod: WantedPod) -> bool:
    limits = pod_limits(pod.spec, COMPUTE)
    return not any(name in pod.requests or name in limits for name in ("cpu", "memory"))
