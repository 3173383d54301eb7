# SPDX-License-Identifier: BSD-2-Clause
"""What the scheduler does about devices: the claims of a pod, and those it makes for extended resources.

Source: pkg/scheduler/framework/plugins/dynamicresources/{dynamicresources,extendeddynamicresources}.go.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from kubesim.clock import rfc3339
from kubesim.device_classes import EXTENDED_CLAIM, ExtendedResources, may_be_devices

from .base import Object, key_of
from .device_allocator import Allocation, InUse, SchedulerError
from .resource_claim import FINALIZER, claim_statuses, claims_of, is_of_pod, pod_reference
from .scheduler_filters import Refusal, term_matches
from .scheduler_nodes import NodeInfo, requests

MAX_USERS = 256
NOT_ALLOCATED = "cannot allocate all claims"


class Unschedulable(Exception):
    """What is wrong with the claims of a pod before any node is looked at."""


@dataclass
class DevicePlan:
    """What a pod needs of devices, and the allocations found for it, by node."""

    pod: Object
    claims: list[Object] = field(default_factory=list)
    delegated: frozenset[str] = frozenset()  # resources that devices stand for, where a node has none of its own
    names: ExtendedResources | None = None
    slices: list[Object] = field(default_factory=list)
    classes: dict[str, Object] = field(default_factory=dict)
    in_use: InUse = field(default_factory=InUse)
    found: dict[str, list[tuple[Object, Object, list[Object]]]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.claims or self.delegated)

    def refuse(self, node: NodeInfo) -> Refusal | None:
        if self.empty:
            return None
        for claim in self.claims:
            terms = (_allocation(claim).get("nodeSelector") or {}).get("nodeSelectorTerms")
            if terms and not any(term_matches(term, node) for term in terms):
                return Refusal(("resourceclaim not available on the node",))
        pending: list[tuple[Object, list[Object]]] = [(one, []) for one in self.claims if not _allocation(one)]
        extended = self._extended_claim(node)
        if extended is not None:
            pending.append(extended)
        try:
            attempt = Allocation(node, self.slices, self.classes, self.in_use)
            results = attempt.find([claim for claim, _ in pending]) if pending else []
        except SchedulerError as error:
            raise SchedulerError(f'running "DynamicResources" filter plugin: {error}') from error
        if results is None:
            return Refusal((NOT_ALLOCATED,))
        self.found[node.name] = [(one, result, maps) for (one, maps), result in zip(pending, results, strict=True)]
        return None

    def _extended_claim(self, node: NodeInfo) -> tuple[Object, list[Object]] | None:
        """The claim for what the node has no resource of, and which container gets which request."""
        here = sorted(name for name in self.delegated if not node.allocatable.get(name))
        if not here or self.names is None:
            return None
        spec = self.pod["spec"]
        mappings: list[Object] = []
        wanted: list[Object] = []
        containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
        for name in here:
            for index, container in enumerate(containers):
                given = (container.get("resources") or {}).get("requests") or {}
                if not int(given.get(name, 0)):
                    continue
                request = f"container-{index}-request-{sorted(given).index(name)}"
                exactly = {
                    "deviceClassName": self.names.classes[name],
                    "allocationMode": "ExactCount",
                    "count": int(given[name]),
                }
                wanted.append({"name": request, "exactly": exactly})
                mappings.append({"containerName": container["name"], "resourceName": name, "requestName": request})
        meta = self.pod["metadata"]
        claim = {
            "metadata": {
                "generateName": f"{meta['name']}-extended-resources-",
                "namespace": meta["namespace"],
                "annotations": {EXTENDED_CLAIM: "true"},
                "ownerReferences": [pod_reference(self.pod)],
            },
            "spec": {"devices": {"requests": sorted(wanted, key=lambda one: str(one["name"]))}},
        }
        return claim, mappings


class DeviceScheduling:
    def __init__(self, registry: Any, manager: str) -> None:
        self.registry, self.manager = registry, manager

    def is_ready(self, pod: Object) -> bool:
        """PreEnqueue: a pod whose claims are not there is not looked at."""
        return all(self._claim(pod, wanted) is not None for wanted in claims_of(pod))

    def _claim(self, pod: Object, wanted: Object) -> Object | None:
        name = wanted.get("resourceClaimName") or claim_statuses(pod).get(wanted["name"], "")
        claim: Object | None = self.registry.get("ResourceClaim", pod["metadata"]["namespace"], name)
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            return None
        return claim if "resourceClaimName" in wanted or is_of_pod(claim, pod) else None

    def plan(self, pod: Object) -> DevicePlan:
        """PreFilter; Unschedulable when no node would help."""
        names = ExtendedResources.of(self.registry) if any(map(may_be_devices, requests(pod))) else None
        delegated = frozenset(name for name in requests(pod) if names and name in names.classes)
        claims = [claim for wanted in claims_of(pod) if (claim := self._claim(pod, wanted)) is not None]
        if not claims and not delegated:
            return DevicePlan(pod)
        classes = {one["metadata"]["name"]: one for one in self.registry.list("DeviceClass")}
        for claim in claims:
            _check(claim, pod, classes)
        in_use = InUse.of(self.registry.list("ResourceClaim"))
        return DevicePlan(pod, claims, delegated, names, self.registry.list("ResourceSlice"), classes, in_use)

    def bind(self, plan: DevicePlan, node: str) -> None:
        """PreBind: write what was found, and who holds it."""
        allocated = set()
        for claim, allocation, mappings in plan.found.get(node, ()):
            if "name" not in claim["metadata"]:
                claim = self.registry.create("ResourceClaim", copy.deepcopy(claim), manager=self.manager)
                self._name_in_status(plan.pod, claim, mappings)
            allocated.add(claim["metadata"]["name"])
            self._reserve(plan.pod, claim, allocation)
        for claim in plan.claims:
            if claim["metadata"]["name"] not in allocated:
                self._reserve(plan.pod, claim, None)

    def _name_in_status(self, pod: Object, claim: Object, mappings: list[Object]) -> None:
        def write(copied: Object) -> None:
            made = {"requestMappings": mappings, "resourceClaimName": claim["metadata"]["name"]}
            copied.setdefault("status", {})["extendedResourceClaimStatus"] = made

        self.registry.modify("Pod", *key_of(pod), write, subresource="status", manager=self.manager)

    def _reserve(self, pod: Object, claim: Object, allocation: Object | None) -> None:
        meta = pod["metadata"]

        def protect(copied: Object) -> None:
            finalizers = copied["metadata"].setdefault("finalizers", [])
            if FINALIZER not in finalizers:
                finalizers.append(FINALIZER)

        def write(copied: Object) -> None:
            status = copied.setdefault("status", {})
            if allocation is not None:
                status["allocation"] = {**allocation, "allocationTimestamp": rfc3339(self.registry.clock.now())}
            users = status.setdefault("reservedFor", [])
            if all(user["uid"] != meta["uid"] for user in users):
                users.append({"resource": "pods", "name": meta["name"], "uid": meta["uid"]})

        if allocation is not None:
            self.registry.modify("ResourceClaim", *key_of(claim), protect, manager=self.manager)
        self.registry.modify("ResourceClaim", *key_of(claim), write, subresource="status", manager=self.manager)


def _allocation(claim: Object) -> Object:
    allocation: Object = (claim.get("status") or {}).get("allocation") or {}
    return allocation


def _check(claim: Object, pod: Object, classes: dict[str, Object]) -> None:
    if _allocation(claim):
        users = claim["status"].get("reservedFor") or ()
        mine = any(user["uid"] == pod["metadata"]["uid"] for user in users)
        if len(users) >= MAX_USERS and not mine:
            raise Unschedulable("resourceclaim in use")
        return
    for request in claim["spec"]["devices"].get("requests") or ():
        named = [(request["name"], request["exactly"])] if "exactly" in request else []
        named += [(f"{request['name']}/{one['name']}", one) for one in request.get("firstAvailable") or ()]
        for name, wanted in named:
            if wanted["deviceClassName"] not in classes:
                text = f"request {name}: device class {wanted['deviceClassName']} does not exist"
                raise Unschedulable(text)
