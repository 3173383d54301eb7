# SPDX-License-Identifier: BSD-2-Clause
"""Why the claims of a pod get no devices: what the scheduler means by ``cannot allocate all claims``. Pure.

It names neither the claim nor the selector that no device meets, nor who holds the devices that meet all of them. CEL
that is not understood (device_selectors.py) is quoted, and never taken for the cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..accelerators.device_selectors import Selection, selection_of
from ..kube.resources import Object
from ..manifest.problems import enumerated
from .devices import Claim, Device, DeviceClass, Inventory
from .nodes import Node
from .pod_requests import pod_requests
from .shortage import Shortage, place_of

_WAIT = "Wait for other jobs to finish, or delete one"
_ANY = 32  # The most devices of a claim, which is what ``All`` may become.
_IMPLICIT = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True)
class _Wanted:
    """One request of a claim, or one of its alternatives."""

    class_name: str
    count: int
    selection: Selection
    tolerations: Sequence[Object] = ()
    all: bool = False
    admin: bool = False

    @property
    def text(self) -> str:
        noun = "device" if self.count == 1 else "devices"
        return f"{'all devices' if self.all else f'{self.count} {noun}'} of class {self.class_name}"


def device_shortage(pod: Object, nodes: Sequence[Node], devices: Inventory, jobs: Mapping[str, str]) -> Shortage | None:
    """What a pod does not find of devices; None if that is not known. ``jobs``: the job of each pod, by uid."""
    wanted = [
        alternatives
        for request in _unallocated_requests(pod, devices)
        for alternatives in [list(request)]
        if alternatives
    ]
    if devices.classes is not None:
        for one in (each for alternatives in wanted for each in alternatives):
            if one.class_name not in devices.classes:
                return _unknown_class(one.class_name, devices.classes)
    place = place_of(pod, nodes)
    if isinstance(place, Shortage):
        return place
    for alternatives in wanted:
        shortages = [_shortage_of_devices(one, place, devices, jobs) for one in alternatives]
        first = shortages[0]
        if first is not None and all(shortages):
            if len(shortages) == 1:
                return first
            last = shortages[-1] or first
            others = f"none of {len(shortages)} alternatives can be had, the last of them because {last.text}"
            return Shortage(others, last.hint, all(one.lasting for one in shortages if one))
    return _unmet_together(wanted) if wanted else None


def _unmet_together(wanted: Sequence[Sequence[_Wanted]]) -> Shortage:
    """Each could be had by itself: a constraint, another claim, or CEL that is not understood."""
    texts = enumerated([alternatives[0].text for alternatives in wanted], "and")
    others = [term for alternatives in wanted for one in alternatives for term in one.selection.others]
    quoted = f"; only the scheduler knows which devices meet {others[0]}" if others else ""
    return Shortage(f"no node has {texts} that meet all that its claims ask for{quoted}")


def _unallocated_requests(pod: Object, devices: Inventory) -> Iterator[Iterator[_Wanted]]:
    """What the claims of the pod ask for that have no devices yet."""
    spec, status = pod["spec"], pod.get("status", {})
    made = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    for one in spec.get("resourceClaims") or ():
        name = one.get("resourceClaimName") or made.get(one["name"])
        claim = devices.claims.get((pod["metadata"]["namespace"], name or ""))
        if claim is not None and not claim.is_allocated:
            yield from requests_of(claim.spec)
    yield from _extended(pod, devices)


def requests_of(spec: Object) -> Iterator[Iterator[_Wanted]]:
    """The requests of a claim, each with its alternatives."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        yield (_wanted_devices(one) for one in ([exactly] if exactly else request.get("firstAvailable") or ()))


def _wanted_devices(one: Object) -> _Wanted:
    takes_all = one.get("allocationMode") == "All"
    return _Wanted(
        one["deviceClassName"],
        1 if takes_all else one.get("count", 1),
        selection_of(one.get("selectors")),
        one.get("tolerations") or (),
        takes_all,
        bool(one.get("adminAccess")),
    )


def _extended(pod: Object, devices: Inventory) -> Iterator[Iterator[_Wanted]]:
    """What it requests of resources that stand for a class."""
    by_resource = {f"{_IMPLICIT}{name}": name for name in devices.classes or ()}
    by_resource |= {one.extended: name for name, one in (devices.classes or {}).items() if one.extended}
    for resource, amount in pod_requests(pod, sorted(by_resource)).items():
        if amount:
            yield iter([_Wanted(by_resource[resource], amount, Selection())])


def _unknown_class(name: str, classes: Mapping[str, DeviceClass]) -> Shortage:
    there = f"Available: {enumerated(sorted(classes), 'and')}" if classes else "There are none"
    hint = f"{there}. Install the driver of the devices, or correct device_class of the pool"
    return Shortage(f"DeviceClass {name} not found", hint, needs_user=True)


def _shortage_of_devices(
    wanted: _Wanted, place: tuple[str, list[Node]], devices: Inventory, jobs: Mapping[str, str]
) -> Shortage | None:
    where, nodes = place
    class_ = (devices.classes or {}).get(wanted.class_name)
    near = [one for one in devices.devices if any(one.reaches(node) for node in nodes)]
    left = [one for one in near if class_ is None or one.meets(class_.selection)]
    if not left:
        if devices.updating:
            names = enumerated([f"{pool} of {driver}" for driver, pool in devices.updating[:5]], "and")
            return Shortage(f"its driver is about to publish the devices of pool {names}", "Wait a minute")
        hint = "Check that the driver of these devices runs on the nodes: kubectl get resourceslices"
        return Shortage(f"no node of {where} has devices of class {wanted.class_name}", hint, needs_user=True)
    number = len(left)
    for condition in wanted.selection.conditions:
        fitting = [one for one in left if one.meets(Selection((condition,)))]
        if not fitting:
            return _unmet_condition(str(condition), _device_values(condition, left), number, where, wanted)
        left = fitting
    tolerated = [one for one in left if not one.untolerated(wanted.tolerations)]
    if not tolerated:
        keys = sorted({key for one in left for key in one.untolerated(wanted.tolerations)})
        text = (
            f"the {_share_of(len(left), number)} of {where} that it could have are tainted: {enumerated(keys, 'and')}"
        )
        return Shortage(f"it needs {wanted.text}, but {text}", "Mend the devices, or wait until the driver has")
    most = max(_devices_on(node, tolerated) for node in nodes)
    if most < wanted.count or wanted.count > _ANY:
        text = f"it needs {wanted.text}, but the most that one node of {where} has is {most}"
        if wanted.count > _ANY:
            text = f"it needs {wanted.text}, but a claim can have {_ANY} at most"
        return Shortage(text, "Lower resources.gpu", lasting=True)
    if not devices.is_usage_known:
        where = f"but no node of {where} has enough of them free"
        return Shortage(f"it needs {wanted.text} on one node, {where}", _WAIT)
    free = [one for one in tolerated if wanted.admin or devices.is_free(one)]
    if max(_devices_on(node, free) for node in nodes) >= wanted.count:
        return None
    return _devices_in_use(wanted, tolerated, free, where, devices, jobs)


def _devices_on(node: Node, devices: Sequence[Device]) -> int:
    return sum(one.reaches(node) for one in devices)


def _share_of(some: int, number: int) -> str:
    noun = "device" if number == 1 else "devices"
    return f"{number} {noun}" if some == number else f"{some} of {number} {noun}"


def _unmet_condition(condition: str, values: Sequence[str], number: int, where: str, wanted: _Wanted) -> Shortage:
    has = f" (there is {enumerated(values, 'and')})" if values else ""
    text = f"none of the {number} devices of class {wanted.class_name} in {where} has {condition}{has}"
    if number == 1:
        text = f"the only device of class {wanted.class_name} in {where} does not have {condition}{has}"
    hint = "Correct resources.gpu-type, resources.gpu-memory or resources.partition, or set resources.pool"
    return Shortage(text, hint, lasting=True)


def _device_values(condition: Any, devices: Sequence[Device]) -> list[str]:
    """What the devices have instead, at most five different ones."""
    key = f"{condition.domain}/{condition.name}"
    found = {
        str({**one.capacity, **one.attributes}[key]) for one in devices if key in {**one.capacity, **one.attributes}
    }
    words = sorted(found)
    return [*words[:4], f"{len(words) - 4} others"] if len(words) > 5 else words


def _devices_in_use(
    wanted: _Wanted,
    fitting: Sequence[Device],
    free: Sequence[Device],
    where: str,
    devices: Inventory,
    jobs: Mapping[str, str],
) -> Shortage:
    """Who has them: the jobs by number of devices, at most three."""
    free_ids = {one.id for one in free}
    holders: Counter[str] = Counter()
    for one in fitting:
        if one.id not in free_ids:
            holders.update({_holder(claim, jobs) for claim in devices.holders(one)[:1]})
    listed = [f"{number} by {name}" for name, number in holders.most_common(3)]
    others = len(holders) - len(listed)
    listed += [f"{others} others" if others > 1 else "another"] if others > 0 else []
    overlap = " or overlap with such" if any(one.counters for one in fitting) else ""
    busy = _share_of(len(fitting) - len(free), len(fitting))
    by_whom = f": {enumerated(listed, 'and')}" if listed else ""
    text = f"it needs {wanted.text} on one node, but {busy} of {where} are in use{overlap}{by_whom}"
    return Shortage(text, _WAIT)


def _holder(claim: Claim, jobs: Mapping[str, str]) -> str:
    """The job of the pod that holds a claim, or the pod, or a claim that no pod has reserved."""
    for name, uid in claim.pods:
        return jobs.get(uid) or f"pod {name} in namespace {claim.namespace}"
    return f"claim {claim.name} in namespace {claim.namespace}"
