# SPDX-License-Identifier: BSD-2-Clause
"""Whether a node reaches the volumes of a pod. Pure.

Source: pkg/scheduler/framework/plugins/{volumebinding,volumerestrictions,volumezone,nodevolumelimits}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...cluster.admitted_pod import WantedPod
from ...cluster.node_affinity import term_admits
from ...cluster.pod_facts import PlacedPod
from ...kube.resources import Object
from .pod_rules import Refusal
from .world import NodeState

CLAIM = "PersistentVolumeClaim"  # how the reasons begin that are about a claim, not about nodes
NOT_FOUND = " does not exist"  # how that about a missing one ends
OTHER_NODES, IN_USE = "volume on other nodes", "volume of one pod in use"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


@dataclass
class VolumeCheck:
    """Claims by namespace and name, volumes and classes by name; None where they could not be read."""

    claims: Mapping[tuple[str, str], Object] | None
    volumes: Mapping[str, Object] | None = None
    classes: Mapping[str, Object] | None = None
    used: Counter[tuple[str, str]] = field(default_factory=Counter)  # pods by claim

    def undecided(self, pod: WantedPod) -> list[str]:
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
                elif (self._volume(volume)["spec"].get("csi") or {}).get("driver"):
                    found.append("how many volumes the nodes can attach is not judged")
            elif self._waits(claim) is None:
                found.append("the account may not read StorageClasses")
            elif self._waits(claim):
                found.append(f"only the scheduler knows where PersistentVolumeClaim {name} can get its volume")
        return list(dict.fromkeys(found))

    def _volume(self, name: str) -> Object:
        return (self.volumes or {}).get(name) or {"metadata": {}, "spec": {}}

    def _waits(self, claim: Object) -> bool | None:
        """Whether it gets its volume where its first pod goes; None if that is not known."""
        if self.classes is None:
            return None
        storage_class = self.classes.get(claim["spec"].get("storageClassName") or "") or {}
        return storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"

    def refuse(self, pod: WantedPod, state: NodeState) -> Refusal | None:
        if not pod.claims or self.claims is None:
            return None
        for name in pod.claims:
            claim = self.claims.get((pod.namespace, name))
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                return Refusal(f"{CLAIM} {name}{NOT_FOUND}", lasts=True)
            if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()) and self.used[pod.namespace, name]:
                return Refusal(IN_USE)
            volume = claim["spec"].get("volumeName")
            if (volume and not _is_bound(claim)) or (not volume and self._waits(claim) is False):
                return Refusal(f"{CLAIM} {name} has no volume", lasts=True)
            if volume and self.volumes is not None and not self._is_reached(self._volume(volume), state):
                return Refusal(OTHER_NODES, lasts=True)
        return None

    def _is_reached(self, volume: Object, state: NodeState) -> bool:
        labels = state.node.labels
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required is not None:
            terms = required.get("nodeSelectorTerms") or ()
            return any(term_admits(term, state.name, labels) for term in terms)
        wanted = volume["metadata"].get("labels") or {}
        zones = {key: wanted[key].split("__") for key in _ZONES if key in wanted}
        return all(labels.get(key) in values for key, values in zones.items() if any(zone in labels for zone in _ZONES))

    def add(self, pod: WantedPod, copy: PlacedPod, state: NodeState) -> None:
        self.put_back(copy)

    def put_back(self, pod: PlacedPod) -> None:
        for name in pod.claims:
            self.used[pod.namespace, name] += 1

    def remove(self, pod: PlacedPod) -> None:
        for name in pod.claims:
            self.used[pod.namespace, name] -= 1


def _is_bound(claim: Object) -> bool:
    """A claim may name a volume that is not, or no longer, for it (``isPVCFullyBound``)."""
    annotations = claim["metadata"].get("annotations") or {}
    return _BIND_COMPLETED in annotations or (claim.get("status") or {}).get("phase") == "Bound"
