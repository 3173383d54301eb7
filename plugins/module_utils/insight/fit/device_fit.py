# SPDX-License-Identifier: BSD-2-Clause
"""Whether a node has devices for the claims of a pod (Dynamic Resource Allocation). Pure.

Source: staging dynamic-resource-allocation/structured. Of selectors, what device_selectors.py understands is evaluated;
the rest is reported as undecided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...accelerators.device_selectors import Selection, selection_of
from ...cluster.admitted_pod import WantedPod
from ...cluster.devices import CounterId, Device, DeviceId, Inventory
from ...cluster.pod_facts import PlacedPod
from ...kube.resources import Object
from .pod_rules import Refusal
from .world import NodeState

NO_DEVICES = "devices"
# AllocationResultsMaxSize of resource.k8s.io; a claim that needs more is never allocated.
_MOST = 32  # devices of a claim
_STEPS = 4000  # of the search on one node, more of which would take too long


@dataclass(frozen=True)
class _Ask:
    """One request, or an alternative of it: so many devices of those with these ids."""

    name: str
    candidates: frozenset[DeviceId]
    count: int | None  # None for all
    tolerations: Sequence[Object]


@dataclass(frozen=True)
class _Claim:
    requests: tuple[tuple[_Ask, ...], ...]
    alike: tuple[tuple[str, frozenset[str]], ...]  # attribute, and the requests that share its value; none for all


@dataclass
class DeviceCheck:
    """The claims of pods, by the devices that are left."""

    inventory: Inventory
    extended: Mapping[str, str] = field(default_factory=dict)  # resource -> class

    def __post_init__(self) -> None:
        self._by_id = {device.id: device for device in self.inventory.devices}
        self._on: dict[str, list[Device]] = defaultdict(list)
        self._anywhere = [device for device in self.inventory.devices if not device.node]
        for device in self.inventory.devices:
            if device.node:
                self._on[device.node].append(device)
        self._taken: dict[DeviceId, int] = defaultdict(int)
        self._counters_left: dict[CounterId, Fraction] = dict(self.inventory.left)
        self._held: dict[str, list[DeviceId]] = defaultdict(list)
        for claim in self.inventory.claims.values():
            for device_id in claim.devices:
                self._taken[device_id] += 1
            # A claim that several pods share keeps its devices while any of them runs, so preempting one frees nothing.
            if len(claim.pods) == 1:
                self._held[claim.pods[0][1]] += claim.devices
        self._asks: dict[str, tuple[list[_Claim], list[str]]] = {}
        self._found: dict[str, list[DeviceId]] = {}

    def undecided(self, pod: WantedPod, number: int) -> list[str]:
        """What of its claims cannot be judged."""
        claims, undecided = self._claims_of(pod)
        if claims and not self.inventory.is_usage_known:
            return [*undecided, "the account may not list the ResourceClaims of other namespaces, which have devices"]
        return undecided

    def refuse(self, pod: WantedPod, state: NodeState) -> Refusal | None:
        claims, _undecided = self._claims_of(pod)
        claims = [*claims, *self._for_extended(pod, state)]
        if not claims:
            return None
        found = self._allocate(claims, state)
        if found is None:
            # The plugin answers UnschedulableAndUnresolvable where it cannot allocate: no pod is preempted for devices.
            return Refusal(NO_DEVICES, lasts=True)
        self._found[state.name] = found
        return None

    def add(self, pod: WantedPod, copy: PlacedPod, state: NodeState) -> None:
        if pod.spec.get("resourceClaims") or any(name in pod.requests for name in self.extended):
            self._held[copy.uid] = self._found.get(state.name, [])
            self._take(copy.uid, 1)

    def remove(self, pod: PlacedPod) -> None:
        if pod.uid in self._held:
            self._take(pod.uid, -1)

    def put_back(self, pod: PlacedPod) -> None:
        if pod.uid in self._held:
            self._take(pod.uid, 1)

    def _take(self, uid: str, sign: int) -> None:
        for device_id in self._held[uid]:
            self._taken[device_id] += sign
            device = self._by_id.get(device_id)
            for counter, amount in device.counters.items() if device else ():
                self._counters_left[counter] = self._counters_left.get(counter, Fraction(0)) - sign * amount

    # -- what is asked -------------------------------------------------------------------------------------------------

    def _claims_of(self, pod: WantedPod) -> tuple[list[_Claim], list[str]]:
        key = f"{pod.namespace}/{pod.job}/{[one.items() for one in pod.spec.get('resourceClaims') or ()]}"
        if key not in self._asks:
            claims: list[_Claim] = []
            undecided: list[str] = []
            for one in pod.spec.get("resourceClaims") or ():
                spec = self._spec_of(pod, one, undecided)
                if spec is not None:
                    claims.append(self._claim(spec, undecided))
            self._asks[key] = claims, undecided
        return self._asks[key]

    def _spec_of(self, pod: WantedPod, one: Object, undecided: list[str]) -> Object | None:
        if name := one.get("resourceClaimName"):
            claim = self.inventory.claims.get((pod.namespace, name))
            if claim is None:
                undecided.append(f"ResourceClaim {name} not found, or no permission to read it")
            elif claim.is_allocated:
                undecided.append(f"ResourceClaim {name} has devices already, on the nodes that reach them")
            return claim.spec if claim and not claim.is_allocated else None
        name = one.get("resourceClaimTemplateName") or ""
        if name not in pod.templates:
            undecided.append(f"ResourceClaimTemplate {name} not found, or no permission to read it")
        return pod.templates.get(name)

    def _claim(self, spec: Object, undecided: list[str]) -> _Claim:
        devices = spec.get("devices") or {}
        requests = []
        for request in devices.get("requests") or ():
            given = [request["exactly"]] if "exactly" in request else request.get("firstAvailable") or ()
            requests.append(tuple(self._ask(request["name"], one, undecided) for one in given))
        alike = []
        for constraint in devices.get("constraints") or ():
            if "matchAttribute" in constraint:
                alike.append((constraint["matchAttribute"], frozenset(constraint.get("requests") or ())))
            else:
                undecided.append("its claim has a constraint that is not judged")
        return _Claim(tuple(requests), tuple(alike))

    def _ask(self, name: str, one: Object, undecided: list[str]) -> _Ask:
        selection = selection_of(one.get("selectors"))
        own = (self.inventory.classes or {}).get(one["deviceClassName"])
        known = own.selection if own else Selection()
        if self.inventory.classes is None:
            undecided.append("the account may not read DeviceClasses")
        for expression in (*known.others, *selection.others):
            undecided.append(f"only the scheduler knows which devices meet {expression}")
        if one.get("adminAccess") or one.get("capacity"):
            undecided.append("its claim asks for access or capacity that is not judged")
        fitting = frozenset(
            device.id
            for device in self.inventory.devices
            if (own is not None or self.inventory.classes is None) and device.meets(known) and device.meets(selection)
        )
        if any(device.shared for device in self.inventory.devices if device.id in fitting):
            undecided.append("devices that several claims share are not judged")
        is_all = one.get("allocationMode") == "All"
        return _Ask(name, fitting, None if is_all else one.get("count", 1), one.get("tolerations") or ())

    def _for_extended(self, pod: WantedPod, state: NodeState) -> Iterator[_Claim]:
        """The claim that the scheduler makes for resources that stand for a class, where a node has none of its own."""
        asks = []
        for resource, class_name in self.extended.items():
            amount = pod.requests.get(resource, 0)
            # KEP-5004: where a device plugin offers the resource on the node, it is used instead of a claim.
            if amount and not state.node.room.get(resource):
                asks.append((self._ask(resource, {"deviceClassName": class_name, "count": amount}, []),))
        if asks:
            yield _Claim(tuple(asks), ())

    # -- the search ----------------------------------------------------------------------------------------------------

    def _allocate(self, claims: Sequence[_Claim], state: NodeState) -> list[DeviceId] | None:
        """Devices of the node for all claims; None if there are none."""
        there = self._on.get(state.name, [])
        if self._anywhere:
            there = [*there, *(one for one in self._anywhere if one.reaches(state.node.node))]
        search = _Search(there, self._taken, dict(self._counters_left), [])
        asks = [(claim, alternatives) for claim in claims for alternatives in claim.requests]
        if any(self._least_devices(claim) > _MOST for claim in claims):
            return None
        return list(search.chosen) if search.solve(asks, 0) else None

    @staticmethod
    def _least_devices(claim: _Claim) -> int:
        return sum(min(ask.count or 0 for ask in alternatives) for alternatives in claim.requests)


@dataclass
class _Search:
    there: Sequence[Device]
    taken: Mapping[DeviceId, int]
    left: dict[CounterId, Fraction]
    chosen: list[DeviceId]
    steps: int = 0
    shared: dict[tuple[int, str], list[Any]] = field(default_factory=lambda: defaultdict(list))

    def solve(self, asks: Sequence[tuple[_Claim, tuple[_Ask, ...]]], index: int) -> bool:
        if index == len(asks):
            return True
        claim, alternatives = asks[index]
        return any(self._allocate_ask(asks, index, claim, ask) for ask in alternatives)

    def _allocate_ask(
        self, asks: Sequence[tuple[_Claim, tuple[_Ask, ...]]], index: int, claim: _Claim, ask: _Ask
    ) -> bool:
        matching = [one for one in self.there if one.id in ask.candidates]
        possible = [one for one in matching if not one.untolerated(ask.tolerations)]
        if ask.count is None:  # A taint on one of all refuses the claim (allocateOne in allocator_stable.go).
            return (
                bool(matching)
                and possible == matching
                and self._take(asks, index, claim, ask, possible, 0, len(possible))
            )
        return self._take(asks, index, claim, ask, possible, 0, ask.count)

    def _take(
        self,
        asks: Sequence[tuple[_Claim, tuple[_Ask, ...]]],
        index: int,
        claim: _Claim,
        ask: _Ask,
        possible: Sequence[Device],
        start: int,
        number: int,
    ) -> bool:
        if number == 0:
            return self.solve(asks, index + 1)
        for place in range(start, len(possible) - number + 1):
            self.steps += 1
            if self.steps > _STEPS:
                return False
            device = possible[place]
            if not self._is_free(device) or not self._is_alike(claim, ask, device):
                continue
            self._change_use(claim, ask, device, 1)
            if self._take(asks, index, claim, ask, possible, place + 1, number - 1):
                return True
            self._change_use(claim, ask, device, -1)
        return False

    def _is_free(self, device: Device) -> bool:
        if device.id in self.chosen or self.taken.get(device.id):
            return False
        return all(self.left.get(counter, Fraction(0)) >= amount for counter, amount in device.counters.items())

    def _is_alike(self, claim: _Claim, ask: _Ask, device: Device) -> bool:
        for attribute, names in claim.alike:
            if names and ask.name not in names:
                continue
            value = device.attributes.get(attribute)
            others = self.shared[id(claim), attribute]
            # A device without the attribute never meets the constraint (matchAttributeConstraint.add).
            if value is None or (others and others[0] != value):
                return False
        return True

    def _change_use(self, claim: _Claim, ask: _Ask, device: Device, sign: int) -> None:
        for attribute, names in claim.alike:
            if not names or ask.name in names:
                others = self.shared[id(claim), attribute]
                others.append(device.attributes[attribute]) if sign > 0 else others.pop()
        for counter, amount in device.counters.items():
            self.left[counter] = self.left.get(counter, Fraction(0)) - sign * amount
        self.chosen.append(device.id) if sign > 0 else self.chosen.pop()
