# SPDX-License-Identifier: BSD-2-Clause
"""Whether a pod may go to a node, and the scheduler's words for why not, plugin by plugin in their order.

Source: pkg/scheduler/framework/plugins/{nodeunschedulable,nodename,tainttoleration,nodeaffinity,nodeports,
noderesources,podtopologyspread,interpodaffinity}; component-helpers scheduling/corev1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubesim.selectors import matches_label_selector

from .base import Key, Object, key_of
from .scheduler_nodes import Amounts, HostPort, NodeInfo, Snapshot, anti_affinity, host_ports, pod_affinity, requests

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
CORDONED = "node(s) were unschedulable"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"
POD_AFFINITY = "node(s) didn't match pod affinity rules"
POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True)
class Refusal:
    """Why a node does not take a pod; `final`: taking other pods off the node would not help."""

    reasons: tuple[str, ...]
    final: bool = True


def refuse_for_good(pod: Object, node: NodeInfo) -> Refusal | None:
    """The plugins that look at nothing but the node itself."""
    named = named_nodes(pod)
    if named is not None and node.name not in named:
        return Refusal((NOT_NAMED,))
    tolerations = pod["spec"].get("tolerations") or []
    if node.unschedulable and not tolerated({"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}, tolerations):
        return Refusal((CORDONED,))
    for taint in node.taints:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated(taint, tolerations):
            return Refusal((TAINTED,))
    if not node_matches(pod, node):
        return Refusal((AFFINITY,))
    return None


def refuse_for_now(
    wanted: Amounts,
    ports: list[HostPort],
    node: NodeInfo,
    without: Iterable[Object] = (),
    reserved: Iterable[Object] = (),
    delegated: frozenset[str] = frozenset(),
) -> Refusal | None:
    """The plugins that look at what is left on the node, once the pods `without` are gone and those `reserved` came.

    `delegated` resources that the node has none of are devices, which are judged elsewhere."""
    freed: Amounts = {}
    gone, freed_ports = 0, set()
    for other, sign in (*((pod, 1) for pod in without), *((pod, -1) for pod in reserved)):
        gone += sign
        if sign > 0:
            freed_ports.update(host_ports(other))
        for resource, amount in requests(other).items():
            freed[resource] = freed.get(resource, 0) + sign * amount
    for port in ports:
        if any(_ports_clash(port, used) for used in node.ports if used not in freed_ports):
            return Refusal((PORTS,), final=False)
    reasons, final = [], False
    if len(node.pods) - gone + 1 > node.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for resource, amount in wanted.items():
        capacity = node.allocatable.get(resource, 0)
        if not capacity and resource in delegated:
            continue
        if amount and amount > capacity - node.requested.get(resource, 0) + freed.get(resource, 0):
            reasons.append(f"Insufficient {resource}")
            final = final or amount > capacity
    return Refusal(tuple(reasons), final) if reasons else None


def _ports_clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or "0.0.0.0" in (one[0], other[0]))


def tolerated(taint: Object, tolerations: list[Object]) -> bool:
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" or (operator == "Equal" and toleration.get("value", "") == taint.get("value", "")):
            return True
        if operator in ("Lt", "Gt") and _compares(operator, taint.get("value", ""), toleration.get("value", "")):
            return True
    return False


def _compares(operator: str, have: str, wanted: str) -> bool:
    try:
        return int(have) < int(wanted) if operator == "Lt" else int(have) > int(wanted)
    except ValueError:
        return False


def node_matches(pod: Object, node: NodeInfo) -> bool:
    """nodeSelector and required node affinity."""
    selector = pod["spec"].get("nodeSelector") or {}
    if not selector.items() <= node.labels.items():
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_matches(term, node) for term in required["nodeSelectorTerms"])


def named_nodes(pod: Object) -> set[str] | None:
    """The nodes that required affinity names, None when it leaves others in, too (NodeAffinity.PreFilter)."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    named: set[str] = set()
    for term in required.get("nodeSelectorTerms") or ():
        wanted = [set(one["values"]) for one in term.get("matchFields") or () if one["operator"] == "In"]
        if not wanted:
            return None
        named |= set.intersection(*wanted)
    return named if required else None


def term_matches(term: Object, node: NodeInfo) -> bool:
    """A node selector term; one without any requirement matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_requirement_holds(one, node.labels) for one in expressions) and all(
        _requirement_holds(one, {"metadata.name": node.name}) for one in fields
    )


def _requirement_holds(requirement: Object, labels: dict[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return value is not None and _compares(operator, value, values[0])
    return False


def preference(pod: Object, node: NodeInfo) -> int:
    """The weight of the preferred node affinity that a node meets, less its PreferNoSchedule taints."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    score: int = sum(
        term["weight"]
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if term_matches(term["preference"], node)
    )
    tolerations = pod["spec"].get("tolerations") or []
    avoided = [t for t in node.taints if t["effect"] == "PreferNoSchedule" and not tolerated(t, tolerations)]
    return score - 100 * len(avoided)


# -- rules between pods ------------------------------------------------------------------------------------------------


@dataclass
class PodRules:
    """Affinity, anti-affinity and spread of one pod against those that are placed, counted by topology value."""

    pod: Object
    near: list[tuple[str, set[str], bool]] = field(default_factory=list)
    away: list[tuple[str, set[str]]] = field(default_factory=list)
    kept_off: list[tuple[str, str]] = field(default_factory=list)
    spread: list[tuple[Object, dict[str, int]]] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (self.near or self.away or self.kept_off or self.spread)

    def refuse(self, node: NodeInfo) -> Refusal | None:
        for constraint, counts in self.spread:
            value = node.labels.get(constraint["topologyKey"])
            if value is None:
                return Refusal((SPREAD_LABEL,))
            own = matches_label_selector(constraint.get("labelSelector"), self.pod["metadata"].get("labels") or {})
            least = min(counts.values(), default=0)
            if len(counts) < constraint.get("minDomains", 1):
                least = 0
            if counts.get(value, 0) + own - least > constraint["maxSkew"]:
                return Refusal((SPREAD,), final=False)
        for key, values, first_may in self.near:
            if node.labels.get(key) not in values and not (first_may and key in node.labels):
                return Refusal((POD_AFFINITY,))
        for key, values in self.away:
            if node.labels.get(key) in values:
                return Refusal((POD_ANTI_AFFINITY,), final=False)
        if any(node.labels.get(key) == value for key, value in self.kept_off):
            return Refusal((EXISTING_ANTI_AFFINITY,), final=False)
        return None


def pod_rules(pod: Object, snapshot: Snapshot, without: frozenset[Key] = frozenset()) -> PodRules:
    """Look at the placed pods once, for all nodes; `without` are pods to be thought away."""
    rules = PodRules(pod)
    labels, namespace = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]
    for other in snapshot.picky.values():
        node = snapshot.nodes.get(snapshot.placed[key_of(other)])
        for term in anti_affinity(other):
            if node is None or key_of(other) in without or not _selects(term, other, labels, namespace, snapshot):
                continue
            if term["topologyKey"] in node.labels:
                rules.kept_off.append((term["topologyKey"], node.labels[term["topologyKey"]]))
    spread = [
        c for c in pod["spec"].get("topologySpreadConstraints") or () if c["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    near, away = pod_affinity(pod), anti_affinity(pod)
    if not (near or away or spread):
        return rules
    placed = [
        (other, info)
        for info in snapshot.nodes.values()
        for key, other in info.pods.items()
        if key not in without and "deletionTimestamp" not in other["metadata"]
    ]
    # A pod counts for affinity if it matches all terms, for anti-affinity if it matches one.
    company = [
        (other, info)
        for info in snapshot.nodes.values()
        for key, other in info.pods.items()
        if key not in without and all(_means(term, pod, other, snapshot) for term in near)
    ]
    values = [
        {info.labels[term["topologyKey"]] for _, info in company if term["topologyKey"] in info.labels} for term in near
    ]
    first_may = not any(values) and all(_selects(term, pod, labels, namespace, snapshot) for term in near)
    rules.near += [(term["topologyKey"], found, first_may) for term, found in zip(near, values, strict=True)]
    for term in away:
        rules.away.append((term["topologyKey"], _values(term, pod, snapshot, without)))
    for constraint in spread:
        key = constraint["topologyKey"]
        over = {info.name for info in snapshot.nodes.values() if _is_spread_over(pod, info, spread, constraint)}
        counts = {snapshot.nodes[name].labels[key]: 0 for name in over}
        for other, info in placed:
            same = other["metadata"]["namespace"] == namespace
            if same and info.name in over and _labels_match(constraint, other):
                counts[info.labels[key]] += 1
        rules.spread.append((constraint, counts))
    return rules


def _is_spread_over(pod: Object, node: NodeInfo, constraints: list[Object], constraint: Object) -> bool:
    """Whether the pods of the node count (matchNodeInclusionPolicies)."""
    if any(one["topologyKey"] not in node.labels for one in constraints):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not node_matches(pod, node):
        return False
    if constraint.get("nodeTaintsPolicy") != "Honor":
        return True
    tolerations = pod["spec"].get("tolerations") or []
    return all(tolerated(t, tolerations) for t in node.taints if t["effect"] in ("NoSchedule", "NoExecute"))


def _values(term: Object, pod: Object, snapshot: Snapshot, without: frozenset[Key]) -> set[str]:
    key = term["topologyKey"]
    return {
        info.labels[key]
        for info in snapshot.nodes.values()
        for own, other in info.pods.items()
        if key in info.labels and own not in without and _means(term, pod, other, snapshot)
    }


def _means(term: Object, owner: Object, other: Object, snapshot: Snapshot) -> bool:
    meta = other["metadata"]
    return _selects(term, owner, meta.get("labels") or {}, meta["namespace"], snapshot)


def _selects(term: Object, owner: Object, labels: dict[str, str], namespace: str, snapshot: Snapshot) -> bool:
    """Whether an affinity term of `owner` means a pod with these labels in this namespace."""
    names = term.get("namespaces") or ()
    if "namespaceSelector" in term:
        own = snapshot.namespaces.get(namespace, {})
        in_scope = namespace in names or matches_label_selector(term["namespaceSelector"], own)
    else:
        in_scope = namespace in (names or (owner["metadata"]["namespace"],))
    return in_scope and matches_label_selector(term.get("labelSelector"), labels)


def _labels_match(constraint: Object, pod: Object) -> bool:
    return matches_label_selector(constraint.get("labelSelector"), pod["metadata"].get("labels") or {})
