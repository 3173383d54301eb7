# SPDX-License-Identifier: BSD-2-Clause
"""Claims: bound to a volume that is there and fits; kept as long as a pod uses them. Nothing is provisioned.

Source: pkg/controller/volume/persistentvolume (syncUnboundClaim), pkg/controller/volume/pvcprotection.
"""

from __future__ import annotations

from typing import Any

from kubesim.quantity import Quantity

from .base import Controller, Key, Object, key_of
from .events import EventRecorder
from .pods import is_terminal

FINALIZER = "kubernetes.io/pvc-protection"


class ClaimController(Controller):
    name = "persistentvolume-binder-controller"
    watches = ("PersistentVolumeClaim", "PersistentVolume", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, "persistentvolume-controller")

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "PersistentVolumeClaim":
            if event == "DELETED":
                self._release(obj)
            else:
                self.enqueue(key_of(obj))
        elif kind == "PersistentVolume":
            if event != "DELETED":
                for claim in self.registry.list("PersistentVolumeClaim"):
                    if claim.get("status", {}).get("phase") != "Bound":
                        self.enqueue(key_of(claim))
        elif event == "DELETED" or is_terminal(obj):
            for name in claims_of(obj):
                self.enqueue((obj["metadata"]["namespace"], name))

    def reconcile(self, key: Key) -> None:
        claim = self.registry.get("PersistentVolumeClaim", *key)
        if claim is None:
            return
        if "deletionTimestamp" in claim["metadata"]:
            self._let_go(key, claim)
        elif claim.get("status", {}).get("phase") != "Bound":
            volume = self._fitting_volume(claim)
            if volume is not None:
                self._bind(key, claim, volume)
            else:
                self._say_why_not(claim)

    def _say_why_not(self, claim: Object) -> None:
        name = claim["spec"].get("storageClassName")
        if not name:
            message = "no persistent volumes available for this claim and no storage class is set"
            self.recorder.event(claim, "Normal", "FailedBinding", message)
        elif self.registry.get("StorageClass", None, name) is None:
            message = f'storageclass.storage.k8s.io "{name}" not found'
            self.recorder.event(claim, "Warning", "ProvisioningFailed", message)

    def _let_go(self, key: Key, claim: Object) -> None:
        users = (pod for pod in self.registry.list("Pod", key[0]) if key[1] in claims_of(pod) and not is_terminal(pod))
        if FINALIZER not in (claim["metadata"].get("finalizers") or ()) or any(users):
            return

        def drop(copied: Object) -> None:
            copied["metadata"]["finalizers"].remove(FINALIZER)

        self.registry.modify("PersistentVolumeClaim", *key, drop)

    def _fitting_volume(self, claim: Object) -> Object | None:
        fitting = [volume for volume in self.registry.list("PersistentVolume") if fits(volume, claim)]
        return min(
            fitting, key=lambda volume: Quantity.parse(volume["spec"]["capacity"]["storage"]).amount, default=None
        )

    def _bind(self, key: Key, claim: Object, volume: Object) -> None:
        volume_name = volume["metadata"]["name"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": key[0],
            "name": key[1],
            "uid": claim["metadata"]["uid"],
        }
        self.registry.modify("PersistentVolume", None, volume_name, lambda pv: pv["spec"].update(claimRef=reference))
        self.registry.modify(
            "PersistentVolume", None, volume_name, lambda pv: pv.update(status={"phase": "Bound"}), subresource="status"
        )
        self.registry.modify("PersistentVolumeClaim", *key, lambda pvc: pvc["spec"].update(volumeName=volume_name))
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes", []),
            "capacity": dict(volume["spec"]["capacity"]),
        }
        self.registry.modify("PersistentVolumeClaim", *key, lambda pvc: pvc.update(status=status), subresource="status")

    def _release(self, claim: Object) -> None:
        volume = self.registry.get("PersistentVolume", None, claim["spec"].get("volumeName", ""))
        if volume is not None:
            name = volume["metadata"]["name"]
            self.registry.modify(
                "PersistentVolume", None, name, lambda pv: pv.update(status={"phase": "Released"}), subresource="status"
            )


def fits(volume: Object, claim: Object) -> bool:
    """Whether a volume is free and offers what the claim asks for: class, size, access, the claim's own choice."""
    spec, wanted = volume["spec"], claim["spec"]
    reference = spec.get("claimRef")
    if reference is not None and (reference.get("namespace"), reference.get("name")) != key_of(claim):
        return False
    if volume.get("status", {}).get("phase") in ("Bound", "Released") or "deletionTimestamp" in volume["metadata"]:
        return False
    if wanted.get("volumeName") not in (None, "", volume["metadata"]["name"]):
        return False
    size = Quantity.parse(wanted["resources"]["requests"]["storage"]).amount
    return (
        (spec.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and set(wanted["accessModes"]) <= set(spec.get("accessModes") or ())
        and Quantity.parse(spec["capacity"]["storage"]).amount >= size
    )


def claims_of(pod: Object) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
