# SPDX-License-Identifier: BSD-2-Clause
"""Claims stay pending, because there are no volumes here, and are kept as long as a pod uses them.

Source: pkg/controller/volume/persistentvolume (syncUnboundClaim), pkg/controller/volume/pvcprotection.
"""

from __future__ import annotations

from typing import Any

from .base import Controller, Key, Object, key_of
from .events import EventRecorder
from .pods import is_terminal

FINALIZER = "kubernetes.io/pvc-protection"


class ClaimController(Controller):
    name = "persistentvolume-binder-controller"
    watches = ("PersistentVolumeClaim", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, "persistentvolume-controller")

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "PersistentVolumeClaim":
            if event != "DELETED":
                self.enqueue(key_of(obj))
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
            self._report(claim)

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
