# SPDX-License-Identifier: BSD-2-Clause
"""Whether a node reaches the volumes of a pod. Pure.

Source: pkg/scheduler/framework/plugins/{volumebinding,volumerestrictions,volumezone,nodevolumelimits}.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...cluster.admitted_pod import WantedPod
from ...cluster.label_selectors import selects
from ...cluster.node_affinity import term_admits
from ...cluster.pod_facts import PlacedPod
from ...cluster.pod_requests import amount_of
from ...kube.resources import Object
from .pod_rules import Refusal
from .world import NodeState

ClaimId = tuple[str, str]  # namespace, name
Attached = tuple[str, str]  # CSI driver, handle of the volume

CLAIM = "PersistentVolumeClaim"  # how the reasons begin that are about a claim, not about nodes
NOT_FOUND = " does not exist"  # how that about a missing one ends
OTHER_NODES, IN_USE = "volume on other nodes", "volume of one pod in use"
NO_VOLUME, TOO_MANY_VOLUMES = "no volume for its claim", "too many volumes"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


@dataclass
class VolumeCheck:
    """Claims by namespace and name, volumes, classes and CSI drivers by name, ``limits`` by node: how many volumes of a
    driver it attaches. None where they could not be read."""

    claims: Mapping[ClaimId, Object] | None
    volumes: Mapping[str, Object] | None = None
    classes: Mapping[str, Object] | None = None
    drivers: Mapping[str, Object] | None = None
    limits: Mapping[str, Mapping[str, int]] | None = None
    used: Counter[ClaimId] = field(default_factory=Counter)  # pods by claim

    def __post_init__(self) -> None:
        refs = ((one, one["spec"].get("claimRef") or {}) for one in (self.volumes or {}).values())
        self._of_claims = {(ref.get("namespace"), ref.get("name")): one for one, ref in refs}
        self._attached: dict[str, Counter[Attached]] = defaultdict(Counter)  # by node

    def undecided(self, pod: WantedPod, number: int) -> list[str]:
        """What of its volumes cannot be judged."""
        found = []
        if any("ephemeral" in volume for volume in pod.spec.get("volumes") or ()):
            found.append("where a volume that is made for the pod can be is not judged")
        if not pod.claims:
            return found
        if self.claims is None:
            return [*found, "the account may not read its PersistentVolumeClaims"]
        for name in pod.claims:
            claim = self.claims.get((pod.namespace, name))
            if claim is None:
                continue
            if volume := claim["spec"].get("volumeName"):
                if self.volumes is None:
                    found.append("the account may not read PersistentVolumes, which may be on some nodes only")
                elif self.limits is None and (self._volume(volume)["spec"].get("csi") or {}).get("driver"):
                    found.append("the account may not read CSINodes, which say how many volumes nodes can attach")
            elif self._waits(claim) is None:
                found.append("the account may not read StorageClasses")
            elif self._waits(claim):
                found += self._undecided_until_bound(pod, name, claim, number)
        return list(dict.fromkeys(found))

    def _undecided_until_bound(self, pod: WantedPod, name: str, claim: Object, number: int) -> Iterator[str]:
        """Of a claim that gets its volume where its first pod goes."""
        if self.volumes is None or self.drivers is None or self.limits is None:
            yield f"the account may not read all that decides where PersistentVolumeClaim {name} gets its volume"
        elif number > 1 or self.used[pod.namespace, name]:
            yield f"where PersistentVolumeClaim {name} gets its volume decides where other pods can use it"
        elif self._provisioner(claim) == _NO_PROVISIONER and any(map(self._is_about_to_be_bound, self.used)):
            yield f"other jobs of the task may get the volume that PersistentVolumeClaim {name} could have"
        elif ((self.drivers.get(self._provisioner(claim)) or {}).get("spec") or {}).get("storageCapacity"):
            yield f"how much room there is for the volume of PersistentVolumeClaim {name} is not judged"

    def _is_about_to_be_bound(self, name: ClaimId) -> bool:
        claim = (self.claims or {}).get(name)
        return bool(self.used[name] and claim and not claim["spec"].get("volumeName"))

    def _class(self, claim: Object) -> Object:
        return (self.classes or {}).get(claim["spec"].get("storageClassName") or "") or {}

    def _provisioner(self, claim: Object) -> str:
        return str(self._class(claim).get("provisioner") or _NO_PROVISIONER)

    def _volume(self, name: str) -> Object:
        return (self.volumes or {}).get(name) or {"metadata": {}, "spec": {}}

    def _waits(self, claim: Object) -> bool | None:
        """Whether it gets its volume where its first pod goes; None if that is not known."""
        if self.classes is None:
            return None
        return self._class(claim).get("volumeBindingMode") == "WaitForFirstConsumer"

    def refuse(self, pod: WantedPod, state: NodeState) -> Refusal | None:
        if not pod.claims or self.claims is None:
            return None
        for name in pod.claims:
            claim = self.claims.get((pod.namespace, name))
            # A claim that is being deleted still exists, but VolumeBinding refuses new pods for it (podHasPVCs).
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                return Refusal(f"{CLAIM} {name}{NOT_FOUND}", lasts=True)
            if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()) and self.used[pod.namespace, name]:
                # VolumeRestrictions: Unschedulable only, since preempting the pod that uses the volume would help.
                return Refusal(IN_USE)
            volume = claim["spec"].get("volumeName")
            if (volume and not _is_bound(claim)) or (not volume and self._waits(claim) is False):
                return Refusal(f"{CLAIM} {name} has no volume", lasts=True)
            if volume and self.volumes is not None and not self._is_reached(self._volume(volume), state):
                return Refusal(OTHER_NODES, lasts=True)
        if self._exceeds_limit(pod, state):
            return Refusal(TOO_MANY_VOLUMES)
        return None if self._has_volumes(pod, state) else Refusal(NO_VOLUME, lasts=True)

    def _exceeds_limit(self, pod: WantedPod, state: NodeState) -> bool:
        """``CSILimits.Filter`` of plugins/nodevolumelimits; a volume of several pods is attached once."""
        limits = (self.limits or {}).get(state.name)
        if not limits:
            return False
        there = {one for one, number in self._attached[state.name].items() if number}
        wanted = {*self._attached_for(pod.namespace, pod.claims)} - there
        used, more = (Counter(driver for driver, _handle in one) for one in (there, wanted))
        return any(driver in limits and used[driver] + number > limits[driver] for driver, number in more.items())

    def _attached_for(self, namespace: str, claims: Iterable[str]) -> Iterator[Attached]:
        """The volumes that a node attaches for claims; one that is still to come counts for its class's driver."""
        for name in claims:
            claim = (self.claims or {}).get((namespace, name))
            volume = self._of_claims.get((namespace, name))
            if claim and (bound := claim["spec"].get("volumeName")):
                volume = self._volume(bound)
            csi = (volume["spec"].get("csi") or {}) if volume else {}
            if csi:
                yield csi["driver"], csi["volumeHandle"]
            elif volume is None and claim:
                yield self._provisioner(claim), f"{namespace}/{name}"

    def _has_volumes(self, pod: WantedPod, state: NodeState) -> bool:
        """Whether its claims without volumes get some on a node, or these are made (``FindPodVolumes`` of
        plugins/volumebinding)."""
        found: set[str] = set()
        claims = [(self.claims or {})[pod.namespace, name] for name in pod.claims]
        # Smallest claim first (byPVCSize), so that a small claim does not take the volume that a large one needs.
        for claim in sorted((one for one in claims if not one["spec"].get("volumeName")), key=_size):
            free = ((name, one) for name, one in (self.volumes or {}).items() if name not in found)
            fitting = ((name, one) for name, one in free if _suits_claim(one, claim) and self._is_reached(one, state))
            smallest = min(fitting, key=lambda each: (not _is_for(each[1], claim), _size(each[1])), default=None)
            if smallest:
                found.add(smallest[0])
            elif not self._is_made_on(state, claim):
                return False
        return True

    def _is_made_on(self, state: NodeState, claim: Object) -> bool:
        """Whether its class makes volumes that the node reaches (``allowedTopologies``)."""
        terms = self._class(claim).get("allowedTopologies") or ()
        labels = state.node.labels
        return self._provisioner(claim) != _NO_PROVISIONER and (
            not terms
            or any(
                all(labels.get(one["key"]) in one["values"] for one in term.get("matchLabelExpressions") or ())
                for term in terms
            )
        )

    def _is_reached(self, volume: Object, state: NodeState) -> bool:
        labels = state.node.labels
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required is not None:
            terms = required.get("nodeSelectorTerms") or ()
            return any(term_admits(term, state.name, labels) for term in terms)
        wanted = volume["metadata"].get("labels") or {}
        # The label of a volume in several zones joins them with __ (LabelZonesToSet of cloud-provider).
        zones = {key: wanted[key].split("__") for key in _ZONES if key in wanted}
        return all(labels.get(key) in values for key, values in zones.items() if any(zone in labels for zone in _ZONES))

    def add(self, pod: WantedPod, copy: PlacedPod, state: NodeState) -> None:
        self.put_back(copy)

    def put_back(self, pod: PlacedPod) -> None:
        self._count_volumes(pod, 1)

    def remove(self, pod: PlacedPod) -> None:
        self._count_volumes(pod, -1)

    def _count_volumes(self, pod: PlacedPod, sign: int) -> None:
        for name in pod.claims:
            self.used[pod.namespace, name] += sign
        if pod.node and pod.claims:
            for one in set(self._attached_for(pod.namespace, pod.claims)):
                self._attached[pod.node][one] += sign


def _is_for(volume: Object, claim: Object) -> bool:
    """Whether a volume names the claim that it is for."""
    ref, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    return (ref.get("namespace"), ref.get("name")) == (metadata.get("namespace"), metadata["name"])


def _suits_claim(volume: Object, claim: Object) -> bool:
    """``volume.FindMatchingVolume`` of component-helpers, but for nodes."""
    has, wants = volume["spec"], claim["spec"]
    return (
        (not has.get("claimRef") or _is_for(volume, claim))
        and "deletionTimestamp" not in volume["metadata"]
        and (has.get("storageClassName") or "") == (wants.get("storageClassName") or "")
        and (has.get("volumeMode") or "Filesystem") == (wants.get("volumeMode") or "Filesystem")
        and (has.get("volumeAttributesClassName") or "") == (wants.get("volumeAttributesClassName") or "")
        and {*(wants.get("accessModes") or ())} <= {*(has.get("accessModes") or ())}
        and _size(volume) >= _size(claim)
        and (not wants.get("selector") or selects(wants["selector"], volume["metadata"].get("labels") or {}))
    )


def _size(obj: Object) -> int:
    """Of a volume, or what a claim asks for."""
    spec = obj["spec"]
    amounts = spec.get("capacity") or (spec.get("resources") or {}).get("requests") or {}
    return amount_of("storage", amounts.get("storage") or "0")


def _is_bound(claim: Object) -> bool:
    """A claim may name a volume that is not, or no longer, for it (``isPVCFullyBound``)."""
    annotations = claim["metadata"].get("annotations") or {}
    return _BIND_COMPLETED in annotations or (claim.get("status") or {}).get("phase") == "Bound"
