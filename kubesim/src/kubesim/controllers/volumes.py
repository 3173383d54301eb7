# SPDX-License-Identifier: BSD-2-Clause
"""Claims are bound if a storage class of this simulator provides for them, and are kept as long as a pod uses them.

There are no PersistentVolumes: a bound claim names one that does not exist, and every container has its own files.
Source: pkg/controller/volume/persistentvolume (syncUnboundClaim, assignDefaultStorageClass),
pkg/controller/volume/pvcprotection.
"""

from __future__ import annotations

from typing import Any

from .base import Controller, Key, Object, key_of
from .events import EventRecorder
from .pods import is_terminal

FINALIZER = "kubernetes.io/pvc-protection"
PROVISIONER = "kubesim.dev/simulated"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


class ClaimController(Controller):
    name = "persistentvolume-binder-controller"
    watches = ("PersistentVolumeClaim", "Pod", "StorageClass")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, "persistentvolume-controller")

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "PersistentVolumeClaim":
            if event != "DELETED":
                self.enqueue(key_of(obj))
        elif kind == "StorageClass":
            for claim in self.registry.list("PersistentVolumeClaim"):
                self.enqueue(key_of(claim))
        elif event == "DELETED" or is_terminal(obj):
            for name in claims_of(obj):
                self.enqueue((obj["metadata"]["namespace"], name))

    def reconcile(self, key: Key) -> None:
        claim = self.registry.get("PersistentVolumeClaim", *key)
        if claim is None:
            return
        if "deletionTimestamp" in claim["metadata"]:
            self._drop_finalizer(key, claim)
        elif claim.get("status", {}).get("phase") != "Bound":
            storage_class = self._class_of(claim)
            if storage_class and storage_class["provisioner"] == PROVISIONER:
                self._bind(key, storage_class["metadata"]["name"])
            else:
                self._report(claim)

    def _class_of(self, claim: Object) -> Object | None:
        """The storage class of a claim; without one, the default class of the cluster."""
        name = claim["spec"].get("storageClassName")
        for each in self.registry.list("StorageClass"):
            is_default = (each["metadata"].get("annotations") or {}).get(IS_DEFAULT) == "true"
            if each["metadata"]["name"] == name or (name is None and is_default):
                return each
        return None

    def _bind(self, key: Key, storage_class: str) -> None:
        def bind(claim: Object) -> None:
            claim["spec"] |= {"storageClassName": storage_class, "volumeName": f"pvc-{claim['metadata']['uid']}"}

        def report(claim: Object) -> None:
            spec = claim["spec"]
            capacity = spec["resources"]["requests"]
            claim["status"] = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity}

        self.registry.modify("PersistentVolumeClaim", *key, bind)
        self.registry.modify("PersistentVolumeClaim", *key, report, subresource="status")

    def _report(self, claim: Object) -> None:
        name = claim["spec"].get("storageClassName")
        if not name:
            message = "no persistent volumes available for this claim and no storage class is set"
            self.recorder.event(claim, "Normal", "FailedBinding", message)
        else:
            message = f'storageclass.storage.k8s.io "{name}" not found'
            self.recorder.event(claim, "Warning", "ProvisioningFailed", message)

    def _drop_finalizer(self, key: Key, claim: Object) -> None:
        users = (pod for pod in self.registry.list("Pod", key[0]) if key[1] in claims_of(pod) and not is_terminal(pod))
        if FINALIZER not in (claim["metadata"].get("finalizers") or ()) or any(users):
            return

        def drop(copied: Object) -> None:
            copied["metadata"]["finalizers"].remove(FINALIZER)

        self.registry.modify("PersistentVolumeClaim", *key, drop)


def claims_of(pod: Object) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
