# SPDX-License-Identifier: BSD-2-Clause
"""Finds devices for claims on one node: the first in order of pools, slices and devices that meets everything.

Binding conditions of devices and list attributes are not simulated.
Source: staging dynamic-resource-allocation/structured/internal/incubating/{allocator_incubating,constraint,
consumable_capacity}.go.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kubesim import device_cel
from kubesim.quantity import BINARY_SI, ZERO, Quantity

from .base import Object
from .device_pools import Counters, Device, DeviceId, Pool, is_for, pools_of
from .scheduler_filters import tolerated
from .scheduler_nodes import NodeInfo

MAX_RESULTS = 32
Amounts = dict[str, Quantity]


class SchedulerError(Exception):
    """The scheduler cannot tell whether a pod fits, and says so instead."""


@dataclass
class InUse:
    """What claims have of devices: whole ones, and parts of those that many share."""

    devices: set[DeviceId] = field(default_factory=set)
    shares: dict[DeviceId, Amounts] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: list[Object]) -> InUse:
        used = cls()
        for claim in claims:
            for result in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ():
                if not result.get("adminAccess"):
                    used.take((result["driver"], result["pool"], result["device"]), result)
        return used

    def take(self, device: DeviceId, result: Object) -> None:
        if "shareID" not in result:
            self.devices.add(device)
            return
        shares = self.shares.setdefault(device, {})
        for name, text in (result.get("consumedCapacity") or {}).items():
            shares[name] = shares.get(name, ZERO) + Quantity.parse(text)

    def has(self, device: DeviceId) -> bool:
        return device in self.devices or device in self.shares


@dataclass
class Wanted:
    """One request, or one of its alternatives."""

    name: str
    spec: Object
    class_: Object

    @property
    def admin(self) -> bool:
        return bool(self.spec.get("adminAccess"))

    @property
    def all(self) -> bool:
        return bool(self.spec["allocationMode"] == "All")


@dataclass
class Taken:
    wanted: Wanted
    device: Device
    share: str = ""
    consumed: Amounts = field(default_factory=dict)


class Allocation:
    """One attempt: claims on a node."""

    def __init__(self, node: NodeInfo, slices: list[Object], classes: dict[str, Object], in_use: InUse) -> None:
        self.node, self.classes, self.in_use = node, classes, in_use
        self.pools = pools_of(node, slices)
        self._selected: dict[tuple[int, DeviceId], bool] = {}
        self._taken: list[list[Taken]] = []

    def find(self, claims: list[Object]) -> list[Object] | None:
        """status.allocation for each claim; None if there is none."""
        self._claims = claims
        self._requests = [[self._alternatives(claim, request) for request in _requests(claim)] for claim in claims]
        for claim, requests in zip(claims, self._requests, strict=True):
            least = sum(min(self._number(claim, one) for one in request) for request in requests)
            if least > MAX_RESULTS:
                text = f"number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
                raise SchedulerError(f"claim {_named(claim)}: {text}")
        self._taken = [[] for _ in claims]
        found = next(self._solve(0, 0), None)
        if found is None:
            return None
        return [self._result(index) for index in range(len(claims))]

    def _alternatives(self, claim: Object, request: Object) -> list[Wanted]:
        if "exactly" in request:
            return [self._wanted(request["name"], request["exactly"])]
        return [self._wanted(f"{request['name']}/{one['name']}", one) for one in request["firstAvailable"]]

    def _wanted(self, name: str, spec: Object) -> Wanted:
        return Wanted(name, spec, self.classes[spec["deviceClassName"]])

    def _number(self, claim: Object, wanted: Wanted) -> int:
        return len(self._all_devices(claim, wanted)) if wanted.all else int(wanted.spec["count"])

    def _all_devices(self, claim: Object, wanted: Wanted) -> list[Device]:
        found = []
        for pool in self.pools:
            if not pool.usable:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                asks = f"asks for all devices, but resource pool {pool.driver}/{pool.name} is {state}"
                raise SchedulerError(f"claim {_named(claim)}, request {wanted.name}: {asks}")
            found += [device for device in pool.devices if self._selects(claim, wanted, device)]
        return found

    # -- the search ------------------------------------------------------------------------------------------------

    def _solve(self, claim_index: int, request_index: int) -> Iterator[bool]:
        """Yields once for each way to meet this request and all that follow; what is taken stands while it yields."""
        if claim_index == len(self._claims):
            yield True
            return
        requests = self._requests[claim_index]
        if request_index == len(requests):
            yield from self._solve(claim_index + 1, 0)
            return
        claim = self._claims[claim_index]
        for wanted in requests[request_index]:
            for _ in self._take_devices(claim_index, wanted, self._number(claim, wanted), 0):
                yield from self._solve(claim_index, request_index + 1)

    def _take_devices(self, claim_index: int, wanted: Wanted, number: int, start: int) -> Iterator[bool]:
        claim, taken = self._claims[claim_index], self._taken[claim_index]
        if wanted.all:
            devices = self._all_devices(claim, wanted)
            if not devices:
                return
        else:
            devices = [device for pool in self.pools if pool.usable for device in pool.devices]
        if number == 0 or len(taken) + number > MAX_RESULTS:
            if number == 0:
                yield True
            return
        for position in range(start, len(devices)):
            one = self._try(claim_index, wanted, devices[position])
            if one is not None:
                taken.append(one)
                yield from self._take_devices(claim_index, wanted, number - 1, position + 1)
                taken.remove(one)
            if wanted.all:  # all means all: one that cannot be had fails the request
                return

    def _try(self, claim_index: int, wanted: Wanted, device: Device) -> Taken | None:
        claim = self._claims[claim_index]
        if self._is_in_use(claim_index, wanted, device) or not self._selects(claim, wanted, device):
            return None
        tolerations = wanted.spec.get("tolerations") or []
        effects = [taint for taint in device.spec.get("taints") or () if taint["effect"] != "None"]
        if not all(tolerated(taint, tolerations) for taint in effects):
            return None
        one = Taken(wanted, device)
        if device.shared:
            one.share, one.consumed = str(uuid.uuid4()), consumed(wanted.spec, device.spec)
        if not self._capacity_fits(one) or not self._counters_fit(device):
            return None
        return one if self._constraints_hold(claim_index, one) else None

    def _is_in_use(self, claim_index: int, wanted: Wanted, device: Device) -> bool:
        if device.shared:
            return False
        if wanted.admin:
            return any(one.device.id == device.id for one in self._taken[claim_index])
        return device.id in self.in_use.devices or any(one.device.id == device.id for one in self._all_taken())

    def _all_taken(self) -> Iterator[Taken]:
        for taken in self._taken:
            yield from taken

    def _selects(self, claim: Object, wanted: Wanted, device: Device) -> bool:
        known = self._selected.get((id(wanted), device.id))
        if known is None:
            known = self._evaluate(claim, wanted, device)
            self._selected[id(wanted), device.id] = known
        return known

    def _evaluate(self, claim: Object, wanted: Wanted, device: Device) -> bool:
        class_ = wanted.class_
        for owner, selectors in (
            (f"class {class_['metadata']['name']}", class_["spec"].get("selectors")),
            (f"claim {_named(claim)}", wanted.spec.get("selectors")),
        ):
            for index, selector in enumerate(selectors or ()):
                try:
                    matches = device_cel.matches(selector["cel"]["expression"], device.id[0], device.spec)
                except device_cel.CelError as error:
                    text = f"{owner}: selector #{index}: CEL runtime error: {error}"
                    raise SchedulerError(text) from error
                if not matches:
                    return False
        return not device.slice["spec"].get("perDeviceNodeSelection") or is_for(device.spec, self.node)

    def _capacity_fits(self, one: Taken) -> bool:
        """A request for capacity asks of any device that it has so much, of a shared one that so much is left."""
        capacity = one.device.spec.get("capacity") or {}
        asked = (one.wanted.spec.get("capacity") or {}).get("requests") or {}
        if not asked.keys() <= capacity.keys():
            return False
        wanted = consumed(one.wanted.spec, one.device.spec)
        used = self.in_use.shares.get(one.device.id, {}) if one.device.shared else {}
        for name, amount in wanted.items():
            total = used.get(name, ZERO) + amount
            for other in self._all_taken() if one.device.shared else ():
                if other.device.id == one.device.id:
                    total = total + other.consumed.get(name, ZERO)
            if total > Quantity.parse(capacity[name]["value"]) or _breaks_policy(amount, capacity[name]):
                return False
        return True

    def _counters_fit(self, device: Device) -> bool:
        if not device.consumes:
            return True
        pool = next(pool for pool in self.pools if (pool.driver, pool.name) == device.id[:2])
        left = _left(pool, self.in_use)
        for one in (*(taken.device for taken in self._all_taken() if taken.device.id[:2] == device.id[:2]), device):
            for counter, amount in one.consumes.items():
                left[counter] = left[counter] - amount
        return all(amount >= ZERO for amount in left.values())

    def _constraints_hold(self, claim_index: int, one: Taken) -> bool:
        for constraint in self._claims[claim_index]["spec"]["devices"].get("constraints") or ():
            concerned = [
                _attribute(taken.device, constraint)
                for taken in (*self._taken[claim_index], one)
                if _concerns(constraint, taken.wanted.name)
            ]
            if None in concerned:
                return False
            values = [tuple(value.items()) for value in concerned if value is not None]
            distinct = len(set(values))
            if distinct > 1 if "matchAttribute" in constraint else distinct < len(values):
                return False
        return True

    # -- the result ------------------------------------------------------------------------------------------------

    def _result(self, claim_index: int) -> Object:
        taken = self._taken[claim_index]
        config = self._config(claim_index)
        nodes = self._node_selector(taken)
        return {
            "devices": {"results": [_as_result(one) for one in taken], **({"config": config} if config else {})},
            **({"nodeSelector": nodes} if nodes else {}),
        }

    def _config(self, claim_index: int) -> list[Object]:
        """The configuration of each class, once, and that of the claim for what was taken."""
        claim = self._claims[claim_index]
        chosen: dict[str, Wanted] = {}
        taken = {one.wanted.name for one in self._taken[claim_index]}
        for request, alternatives in zip(_requests(claim), self._requests[claim_index], strict=True):
            chosen[request["name"]] = next((one for one in alternatives if one.name in taken), alternatives[0])
        found: list[Object] = []
        by_class: dict[str, list[str]] = {}
        for wanted in chosen.values():
            by_class.setdefault(wanted.class_["metadata"]["name"], []).append(wanted.name)
        for name, requests in by_class.items():
            for one in self.classes[name]["spec"].get("config") or ():
                found.append({"source": "FromClass", "requests": requests, **one})
        for one in claim["spec"]["devices"].get("config") or ():
            for_all = not one.get("requests")
            concerned = [
                name for name, wanted in chosen.items() if {name, wanted.name} & set(one.get("requests") or ())
            ]
            found += [{"source": "FromClaim", **one}] * (1 if for_all else len(concerned))
        return found

    def _node_selector(self, taken: list[Taken]) -> Object:
        fields: list[Object] = []
        expressions: list[Object] = []
        for one in taken:
            spec = one.device.slice["spec"]
            where = one.device.spec if spec.get("perDeviceNodeSelection") else spec
            if where.get("nodeName") or one.device.spec.get("bindsToNode"):
                named = {"key": "metadata.name", "operator": "In", "values": [self.node.name]}
                return {"nodeSelectorTerms": [{"matchFields": [named]}]}
            for term in (where.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
                fields += [one for one in term.get("matchFields") or () if one not in fields]
                expressions += [one for one in term.get("matchExpressions") or () if one not in expressions]
        found = {"matchExpressions": expressions, "matchFields": fields}
        term = {key: value for key, value in found.items() if value}
        return {"nodeSelectorTerms": [term]} if term else {}


def _requests(claim: Object) -> list[Object]:
    return claim["spec"]["devices"].get("requests") or []


def _named(claim: Object) -> str:
    meta = claim["metadata"]
    return f"{meta['namespace']}/{meta.get('name', '<extended-resources>')}"


def _as_result(one: Taken) -> Object:
    driver, pool, name = one.device.id
    result: Object = {"request": one.wanted.name, "driver": driver, "pool": pool, "device": name}
    if one.wanted.admin:
        result["adminAccess"] = True
    if tolerations := one.wanted.spec.get("tolerations"):
        result["tolerations"] = tolerations
    if one.share:
        result["shareID"] = one.share
        result["consumedCapacity"] = {name: str(amount) for name, amount in one.consumed.items()}
    return result


def _left(pool: Pool, in_use: InUse) -> Counters:
    left = dict(pool.counters)
    for device in (*pool.devices, *pool.others):
        if in_use.has(device.id):
            for counter, amount in device.consumes.items():
                left[counter] = left[counter] - amount
    return left


def _concerns(constraint: Object, name: str) -> bool:
    requests = constraint.get("requests")
    return not requests or name in requests or name.partition("/")[0] in requests


def _attribute(device: Device, constraint: Object) -> Any:
    attributes = device.spec.get("attributes") or {}
    name = constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
    domain, _, short = name.partition("/")
    return attributes.get(name) or (attributes.get(short) if domain == device.id[0] else None)


# -- capacity ----------------------------------------------------------------------------------------------------------


def consumed(request: Object, device: Object) -> Amounts:
    """What a request takes of each capacity of a device: what it asks for, rounded up by the policy, or the default."""
    asked = (request.get("capacity") or {}).get("requests") or {}
    return {name: _rounded(asked.get(name), value) for name, value in (device.get("capacity") or {}).items()}


def _rounded(asked: str | None, capacity: Object) -> Quantity:
    policy = capacity.get("requestPolicy") or {}
    if asked is None:
        return Quantity.parse(policy.get("default") or capacity["value"])
    amount = Quantity.parse(asked)
    limits = policy.get("validRange") or {}
    if "min" in limits:
        least = Quantity.parse(limits["min"])
        if amount < least:
            return least
        if "step" not in limits:
            return amount
        step = Quantity.parse(limits["step"]).value
        steps = -(-(amount.value - least.value) // step)
        return Quantity.of(least.value + steps * step, BINARY_SI)
    larger = (value for text in policy.get("validValues") or () if (value := Quantity.parse(text)) >= amount)
    return next(larger, amount)


def _breaks_policy(amount: Quantity, capacity: Object) -> bool:
    policy = capacity.get("requestPolicy") or {}
    if "default" in policy and amount == Quantity.parse(policy["default"]):
        return False
    limits, values = policy.get("validRange") or {}, policy.get("validValues") or ()
    if "max" in limits and amount > Quantity.parse(limits["max"]):
        return True
    return bool(values) and amount not in [Quantity.parse(text) for text in values]
