# SPDX-License-Identifier: BSD-2-Clause
"""What a pod demands of the pods around it, and they of it: required affinity, anti-affinity, spread. Pure.

Source: pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/filtering.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

from ...cluster.admitted_pod import WantedPod, term_means
from ...cluster.label_selectors import selects
from ...cluster.node_affinity import selects_node
from ...cluster.pod_facts import PlacedPod, RoomyNode
from ...cluster.taints import untolerated_taints
from ...kube.resources import Object

Pair = tuple[str, str]  # topology key, value

NEAR = "pod affinity"
AWAY = "pod anti-affinity"
KEPT_OFF = "anti-affinity of other pods"
SPREAD = "topology spread"
NO_TOPOLOGY = "missing topology label"


class _HasNode(Protocol):
    node: RoomyNode


NodeOf = TypeVar("NodeOf", bound=_HasNode)


@dataclass(frozen=True)
class Refusal:
    """Why a node does not take a pod. ``lasts``: taking pods off it would not help (UnschedulableAndUnresolvable)."""

    reason: str
    lasts: bool = False
    resources: tuple[str, ...] = ()


@dataclass(eq=False)
class PodRules:
    """The rules of one pod, with the pods that they mean counted by topology pair; kept up as pods come and go."""

    pod: WantedPod
    namespaces: Mapping[str, Mapping[str, str]] | None
    near: Counter[Pair] = field(default_factory=Counter)
    away: Counter[Pair] = field(default_factory=Counter)
    kept_off: Counter[Pair] = field(default_factory=Counter)
    spread: list[Counter[str]] = field(default_factory=list)
    _near_terms: list[Object] = field(default_factory=list)
    _away_terms: list[Object] = field(default_factory=list)
    _constraints: list[Object] = field(default_factory=list)
    _is_series: bool = field(init=False)  # whether its copies are all that it wants to be near

    def __post_init__(self) -> None:
        self._near_terms, self._away_terms, self._constraints = self.pod.near, self.pod.away, self.pod.spread
        self.spread = [Counter() for each in self._constraints]
        own = self.pod.namespace, self.pod.labels
        self._is_series = all(self._term_means(term, *own) for term in self._near_terms)

    @property
    def matter(self) -> bool:
        return bool(self._near_terms or self._away_terms or self._constraints or self.kept_off)

    @property
    def beyond_own_kind(self) -> bool:
        """Whether there are other rules than that its copies are near each other."""
        return bool(self._away_terms or self._constraints or self.kept_off or self.near) or not self._is_series

    def count_nodes(self, nodes: Iterable[RoomyNode]) -> None:
        """The places that a spread is over, before pods are counted."""
        if self._constraints:
            for node in nodes:
                for constraint, counts in zip(self._constraints, self.spread, strict=True):
                    if self._is_spread_over(node, constraint):
                        counts[node.labels[constraint["topologyKey"]]] += 0

    def _is_spread_over(self, node: RoomyNode, constraint: Object) -> bool:
        # A node that lacks one of the keys counts for none of the constraints (nodeLabelsMatchSpreadConstraints).
        if any(one["topologyKey"] not in node.labels for one in self._constraints):
            return False
        spec = self.pod.spec
        # The defaults differ: nodeAffinityPolicy is Honor, nodeTaintsPolicy is Ignore (KEP-3094).
        honors = (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor"
        if honors and not selects_node(spec, node.name, node.labels):
            return False
        if constraint.get("nodeTaintsPolicy") == "Honor":
            return not any(untolerated_taints(node.node.taints, spec.get("tolerations") or ()))
        return True

    def count(
        self,
        node: RoomyNode,
        namespace: str,
        labels: Mapping[str, str],
        keeps_off: Iterable[Object],
        sign: int = 1,
        *,
        is_ending: bool = False,
    ) -> None:
        """A pod that is on the node, or (``sign`` -1) no longer."""
        self.count_kept_off(node, namespace, keeps_off, sign)
        # A pod counts for affinity only if it matches all terms, but for anti-affinity if it matches one
        # (updateWithAffinityTerms and updateWithAntiAffinityTerms).
        if self._near_terms and all(self._term_means(term, namespace, labels) for term in self._near_terms):
            for term in self._near_terms:
                if (key := term["topologyKey"]) in node.labels:
                    self._add(self.near, (key, node.labels[key]), sign)
        for term in self._away_terms:
            if (key := term["topologyKey"]) in node.labels and self._term_means(term, namespace, labels):
                self._add(self.away, (key, node.labels[key]), sign)
        # A spread looks only at pods of its own namespace, and skips terminating ones (countPodsMatchSelector).
        if namespace != self.pod.namespace or is_ending:
            return
        for constraint, counts in zip(self._constraints, self.spread, strict=True):
            if selects(constraint.get("labelSelector"), labels) and self._is_spread_over(node, constraint):
                counts[node.labels[constraint["topologyKey"]]] += sign

    def minded(self, groups: Iterable[Collection[PlacedPod]]) -> Iterator[PlacedPod]:
        """Those of the pods of a namespace that its own terms may mean: groups that share their labels."""
        selectors = [one.get("labelSelector") for one in (*self._near_terms, *self._away_terms, *self._constraints)]
        for pods in groups:
            one = next(iter(pods), None)
            if one is not None and any(selects(selector, one.labels) for selector in selectors):
                yield from pods

    def count_kept_off(self, node: RoomyNode, namespace: str, keeps_off: Iterable[Object], sign: int = 1) -> None:
        """The terms of a pod on the node that keep this one off."""
        pod = self.pod
        for term in keeps_off:
            key = term["topologyKey"]
            if key in node.labels and term_means(term, namespace, pod.labels, pod.namespace, self.namespaces):
                self._add(self.kept_off, (key, node.labels[key]), sign)

    def _add(self, counts: Counter[Pair], pair: Pair, sign: int) -> None:
        counts[pair] += sign
        if not counts[pair]:
            del counts[pair]

    def _term_means(self, term: Object, namespace: str, labels: Mapping[str, str]) -> bool:
        return term_means(term, self.pod.namespace, labels, namespace, self.namespaces)

    def concerns(self, namespace: str, labels: Mapping[str, str], keeps_off: Iterable[Object]) -> bool:
        """Whether it matters to the pod that another one is there."""
        pod = self.pod
        return (
            any(term_means(term, namespace, pod.labels, pod.namespace, self.namespaces) for term in keeps_off)
            or any(self._term_means(term, namespace, labels) for term in (*self._near_terms, *self._away_terms))
            or (namespace == pod.namespace and bool(self._constraints))
        )

    @cached_property
    def scope(self) -> frozenset[str] | None:
        """The namespaces whose pods may matter to it, "*" for those that keep others off; None for all."""
        terms = (*self._near_terms, *self._away_terms)
        if any(term.get("namespaceSelector") is not None for term in terms):
            return None
        return frozenset(("*", self.pod.namespace, *(name for term in terms for name in term.get("namespaces") or ())))

    def refuse(self, node: RoomyNode) -> Refusal | None:
        for constraint, counts in zip(self._constraints, self.spread, strict=True):
            value = node.labels.get(constraint["topologyKey"])
            if value is None:
                return Refusal(NO_TOPOLOGY, lasts=True)
            # With fewer places than minDomains, the global minimum is 0 (preFilterState.minMatchNum).
            least = 0 if len(counts) < (constraint.get("minDomains") or 1) else min(counts.values(), default=2**31 - 1)
            # selfMatchNum: the pod counts itself only if its own labels match the constraint.
            own = selects(constraint.get("labelSelector"), self.pod.labels)
            if counts.get(value, 0) + own - least > constraint["maxSkew"]:
                return Refusal(SPREAD)
        # The order is that of InterPodAffinity.Filter. Only missing affinity is UnschedulableAndUnresolvable there:
        # preempting a pod never brings the wanted neighbor, but it can remove an unwanted one.
        if not self._is_near(node):
            return Refusal(NEAR, lasts=True)
        pairs = ((term["topologyKey"], node.labels.get(term["topologyKey"])) for term in self._away_terms)
        if any(pair in self.away for pair in pairs):
            return Refusal(AWAY)
        if any(node.labels.get(key) == value for key, value in self.kept_off):
            return Refusal(KEPT_OFF)
        return None

    def near_enough(self, nodes: Iterable[NodeOf]) -> list[NodeOf]:
        """Those of the nodes where affinity lets the pod go, while the same pods are there."""
        found = list(nodes)
        is_first = not self.near and self._is_series
        for key in {term["topologyKey"] for term in self._near_terms}:
            if is_first:
                found = [state for state in found if key in state.node.labels]
            else:
                places = {value for name, value in self.near if name == key}
                found = [state for state in found if state.node.labels.get(key) in places]
        return found

    def _is_near(self, node: RoomyNode) -> bool:
        """The first pod of a series that wants to be near its own kind may go anywhere (``satisfyPodAffinity``)."""
        if not self._near_terms:
            return True
        if any(term["topologyKey"] not in node.labels for term in self._near_terms):
            return False
        if all((term["topologyKey"], node.labels[term["topologyKey"]]) in self.near for term in self._near_terms):
            return True
        return not self.near and self._is_series
