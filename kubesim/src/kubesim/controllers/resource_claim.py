# SPDX-License-Identifier: BSD-2-Clause
"""Makes the claims that pods want from templates, and releases what pods no longer hold.

Source: pkg/controller/resourceclaim/controller.go, staging dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

from typing import Any

from kubesim.errors import ApiError

from .base import Controller, Key, Object, key_of
from .events import EventRecorder
from .pods import is_terminal

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"


class ResourceClaimController(Controller):
    name = "resource_claim"
    watches = ("Pod", "ResourceClaim", "ResourceClaimTemplate")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, self.name)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        key = key_of(obj)
        if kind == "ResourceClaim":
            if event != "DELETED":
                self.enqueue(("claim", *key))
        elif kind == "Pod":
            if event == "DELETED" or is_terminal(obj):
                self._look_at_claims_of(obj)
            elif obj["spec"].get("resourceClaims"):
                self.enqueue(("pod", *key))
        elif event == "ADDED":
            for pod in self.registry.list("Pod", key[0]):
                if any(one.get("resourceClaimTemplateName") == key[1] for one in claims_of(pod)):
                    self.enqueue(("pod", *key_of(pod)))

    def _look_at_claims_of(self, pod: Object) -> None:
        if not claims_of(pod) and "extendedResourceClaimStatus" not in pod.get("status", {}):
            return
        for claim in self.registry.list("ResourceClaim", pod["metadata"]["namespace"]):
            self.enqueue(("claim", *key_of(claim)))

    def reconcile(self, key: tuple[str, str, str]) -> None:
        what, *rest = key
        if what == "pod":
            self._make_claims((rest[0], rest[1]))
        else:
            self._release((rest[0], rest[1]))

    # -- what pods want --------------------------------------------------------------------------------------------

    def _make_claims(self, key: Key) -> None:
        pod = self.registry.get("Pod", *key)
        if pod is None or is_terminal(pod) or "deletionTimestamp" in pod["metadata"]:
            return
        names = claim_statuses(pod)
        for wanted in claims_of(pod):
            if "resourceClaimTemplateName" not in wanted or self._is_there(pod, names.get(wanted["name"])):
                continue
            try:
                claim = self._owned(pod, wanted["name"]) or self._create(pod, wanted)
            except ApiError as error:
                text = f"PodResourceClaim {wanted['name']}: {error.message}"
                self.recorder.event(pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            names[wanted["name"]] = claim["metadata"]["name"]
        if names == claim_statuses(pod):
            return

        def write(copied: Object) -> None:
            copied.setdefault("status", {})["resourceClaimStatuses"] = [
                {"name": name, "resourceClaimName": claim} for name, claim in names.items()
            ]

        self.registry.modify("Pod", *key, write, subresource="status", manager=self.name)

    def _is_there(self, pod: Object, name: str | None) -> bool:
        claim = self.registry.get("ResourceClaim", pod["metadata"]["namespace"], name) if name else None
        return claim is not None and is_of_pod(claim, pod)

    def _owned(self, pod: Object, name: str) -> Object | None:
        for claim in self.registry.list("ResourceClaim", pod["metadata"]["namespace"]):
            named = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM) == name
            if named and is_of_pod(claim, pod) and "deletionTimestamp" not in claim["metadata"]:
                return claim
        return None

    def _create(self, pod: Object, wanted: Object) -> Object:
        namespace, name = pod["metadata"]["namespace"], wanted["resourceClaimTemplateName"]
        template = self.registry.get("ResourceClaimTemplate", namespace, name)
        if template is None:
            gone = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            raise ApiError(404, "NotFound", f'resource claim template "{name}": {gone}')
        meta = template["spec"].get("metadata") or {}
        claim = {
            "metadata": {
                **({"labels": meta["labels"]} if meta.get("labels") else {}),
                "annotations": {**(meta.get("annotations") or {}), POD_CLAIM: wanted["name"]},
                "generateName": f"{pod['metadata']['name']}-{wanted['name']}-",
                "namespace": namespace,
                "ownerReferences": [pod_reference(pod)],
            },
            "spec": template["spec"]["spec"],
        }
        try:
            return self.registry.create("ResourceClaim", claim, manager=self.name)
        except ApiError as error:
            error.message = f"create ResourceClaim : {error.message}"
            raise

    # -- what pods no longer hold ----------------------------------------------------------------------------------

    def _release(self, key: Key) -> None:
        claim = self.registry.get("ResourceClaim", *key)
        if claim is None:
            return
        users = (claim.get("status") or {}).get("reservedFor") or []
        remaining = [user for user in users if user.get("resource") != "pods" or self._still_uses(key[0], user)]
        protected = FINALIZER in (claim["metadata"].get("finalizers") or ())
        if len(remaining) < len(users):
            self._write_users(key, remaining, deallocate=protected and not remaining)
            if protected and not remaining:
                self._drop_finalizer(key)
        elif protected and not remaining and "deletionTimestamp" in claim["metadata"]:
            self._write_users(key, [], deallocate=True)
            self._drop_finalizer(key)
        if not remaining:
            self._delete_unused(key)

    def _still_uses(self, namespace: str, user: Object) -> bool:
        pod = self.registry.get("Pod", namespace, user["name"])
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not _is_done(pod)

    def _write_users(self, key: Key, users: list[Object], *, deallocate: bool) -> None:
        def write(copied: Object) -> None:
            status = copied.setdefault("status", {})
            status["reservedFor"] = users
            if deallocate:
                status.pop("allocation", None)

        self.registry.modify("ResourceClaim", *key, write, subresource="status", manager=self.name)

    def _drop_finalizer(self, key: Key) -> None:
        def drop(copied: Object) -> None:
            copied["metadata"]["finalizers"].remove(FINALIZER)

        self.registry.modify("ResourceClaim", *key, drop, manager=self.name)

    def _delete_unused(self, key: Key) -> None:
        """A claim that was made for a pod goes when the pod has ended; when it is gone, the garbage collector comes."""
        claim = self.registry.get("ResourceClaim", *key)
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            return
        for owner in claim["metadata"].get("ownerReferences") or ():
            pod = self.registry.get("Pod", key[0], owner["name"]) if owner.get("kind") == "Pod" else None
            if pod is None or not owner.get("controller"):
                continue
            if pod["metadata"]["uid"] != owner["uid"] or _is_done(pod):
                self.registry.delete("ResourceClaim", *key)
                return


def _is_done(pod: Object) -> bool:
    """isPodDone: ended, or deleted before it got a node."""
    return is_terminal(pod) or ("deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName"))


def pod_reference(pod: Object) -> Object:
    """The owner of a claim: its pod, whose deletion does not wait for it."""
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}


def claims_of(pod: Object) -> list[Object]:
    return pod["spec"].get("resourceClaims") or []


def claim_statuses(pod: Object) -> dict[str, str]:
    """The claims that were made for a pod, by the names that the pod gives them."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {one["name"]: one.get("resourceClaimName", "") for one in statuses}


def is_of_pod(claim: Object, pod: Object) -> bool:
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == pod["metadata"]["uid"] for owner in owners)
