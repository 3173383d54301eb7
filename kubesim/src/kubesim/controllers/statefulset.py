# SPDX-License-Identifier: BSD-2-Clause
"""The StatefulSet controller.

Source: pkg/controller/statefulset/stateful_set_control.go (updateStatefulSet), stateful_set_utils.go (identity,
storage), stateful_pod_control.go (events), pkg/controller/history (revisions).
"""

from __future__ import annotations

import copy
from typing import Any

from kubesim.errors import ApiError

from .base import Controller, Key, Object, batch_delay, counted, key_of
from .events import EventRecorder
from .hashes import template_hash
from .owners import claimed, controller_of, controller_reference, owner_index
from .pods import available_in, from_template, is_deleted, is_ready, is_terminal, scaled

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION = "controller-revision-hash"
REVISION_HASH = "controller.kubernetes.io/hash"


class StatefulSetController(Controller):
    name = "statefulset-controller"
    watches = ("StatefulSet", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, self.name)
        owner_index(registry)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "StatefulSet":
            self.enqueue(key_of(obj))
            return
        for version in (obj, old):
            owner = controller_of(version) if version else None
            if owner is not None and owner["kind"] == "StatefulSet":
                delay = batch_delay(owner_index(self.registry).count(owner["uid"]))
                self.enqueue((obj["metadata"]["namespace"], owner["name"]), delay)

    def reconcile(self, key: Key) -> None:
        live = self.registry.get("StatefulSet", *key)
        if live is None:
            return
        revisions = Revisions(self.registry, live)
        pass_ = SetPass(self, live, revisions)
        try:
            pass_.run()
        finally:
            pass_.write_status()
        revisions.truncate(pass_.live_revisions())


class Revisions:
    """The history of a set's templates as ControllerRevisions."""

    def __init__(self, registry: Any, live: Object) -> None:
        self.registry, self.live = registry, live
        self.all = sorted(
            owner_index(registry).dependents(live["metadata"]["uid"], "ControllerRevision"),
            key=lambda one: (one["revision"], one["metadata"]["name"]),
        )
        self.update = self._update_revision()
        name = live.get("status", {}).get("currentRevision")
        self.current = next((one for one in self.all if one["metadata"]["name"] == name), self.update)

    def _update_revision(self) -> Object:
        data = {"spec": {"template": copy.deepcopy(self.live["spec"]["template"]) | {"$patch": "replace"}}}
        number = self.all[-1]["revision"] + 1 if self.all else 1
        equal = [one for one in self.all if one["data"] == data]
        if equal and equal[-1] is self.all[-1]:
            return equal[-1]
        if equal:  # rolled back: the old revision becomes the newest

            def renumber(copied: Object) -> None:
                copied["revision"] = number

            renewed = self.registry.modify("ControllerRevision", *key_of(equal[-1]), renumber)
            self.all = [one for one in self.all if one is not equal[-1]] + [renewed]
            return dict(renewed)
        created = self._create(data, number)
        self.all.append(created)
        return created

    def _create(self, data: Object, number: int) -> Object:
        metadata, template = self.live["metadata"], self.live["spec"]["template"]
        collisions = self.live.get("status", {}).get("collisionCount", 0)
        digest = template_hash(data, collisions)
        revision = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{metadata['name'][:223]}-{digest}",
                "namespace": metadata["namespace"],
                "labels": dict(template.get("metadata", {}).get("labels") or {}) | {REVISION_HASH: digest},
                "ownerReferences": [controller_reference(self.live)],
            },
            "data": data,
            "revision": number,
        }
        return dict(self.registry.create("ControllerRevision", revision))

    def truncate(self, used: set[str | None]) -> None:
        used = used | {self.current["metadata"]["name"], self.update["metadata"]["name"]}
        unused = [one for one in self.all if one["metadata"]["name"] not in used]
        limit = self.live["spec"].get("revisionHistoryLimit", 10)
        for one in unused[: max(0, len(unused) - limit)]:
            self.registry.delete("ControllerRevision", *key_of(one))


class SetPass:
    """One pass over a set's pods, in the order of their ordinals; it stops where it has to wait."""

    def __init__(self, controller: StatefulSetController, live: Object, revisions: Revisions) -> None:
        self.controller, self.registry, self.recorder = controller, controller.registry, controller.recorder
        self.live, self.spec, self.revisions = live, live["spec"], revisions
        self.current = revisions.current["metadata"]["name"]
        self.update = revisions.update["metadata"]["name"]
        self.first: int = self.spec.get("ordinals", {}).get("start", 0)
        self.ordered = self.spec["podManagementPolicy"] == "OrderedReady"
        self.pods = {
            ordinal: pod
            for pod in claimed(self.registry, live, "Pod")
            if (ordinal := ordinal_of(live, pod)) is not None
        }
        self.wanted = range(self.first, self.first + self.spec["replicas"])

    def live_revisions(self) -> set[str | None]:
        return {revision_of(pod) for pod in self.pods.values()}

    def run(self) -> None:
        if is_deleted(self.live):
            return
        if not self._bring_up():
            return
        if not self._take_down():
            return
        self._roll()

    def _bring_up(self) -> bool:
        """Create what is missing; with OrderedReady each pod waits for its predecessors. True when all may go on."""
        for ordinal in self.wanted:
            pod = self.pods.get(ordinal)
            if pod is not None and is_terminal(pod) and not is_deleted(pod):
                namespace, name = key_of(pod)
                message = f"StatefulSet {namespace}/{self.live['metadata']['name']} is recreating failed Pod {name}"
                if pod["status"]["phase"] == "Failed":
                    self.recorder.event(self.live, "Warning", "RecreatingFailedPod", message)
                self._delete(pod)
                pod = self.pods.get(ordinal)
            if pod is None:
                self._create(ordinal)
                if self.ordered:
                    return False
            elif self.ordered and (is_deleted(pod) or not self._available(pod)):
                return False
            elif not is_deleted(pod):
                self._create_claims(ordinal)
        return True

    def _take_down(self) -> bool:
        """Delete pods outside of the wanted ordinals, the highest first."""
        healthy = [pod for ordinal, pod in self.pods.items() if ordinal in self.wanted and self._healthy(pod)]
        all_wanted_healthy = len(healthy) == len(self.wanted)
        for ordinal in sorted((number for number in self.pods if number not in self.wanted), reverse=True):
            pod = self.pods[ordinal]
            if is_deleted(pod):
                if self.ordered:
                    return False
                continue
            if self.ordered and not self._available(pod) and not (all_wanted_healthy and self._first_sick() == ordinal):
                return False
            self._own_claims_by_pod(ordinal, pod)
            self._delete(pod)
            if self.ordered:
                return False
        return True

    def _first_sick(self) -> int | None:
        return min((ordinal for ordinal, pod in self.pods.items() if not self._healthy(pod)), default=None)

    def _roll(self) -> None:
        """Replace pods of an old revision from the highest ordinal down to the partition, maxUnavailable at a time."""
        if self.spec["updateStrategy"]["type"] == "OnDelete":
            return
        rolling = self.spec["updateStrategy"].get("rollingUpdate") or {}
        lowest = self.first + rolling.get("partition", 0)
        at_once = max(1, scaled(rolling.get("maxUnavailable", 1), self.spec["replicas"], round_up=True))
        down = 0
        for ordinal in reversed(self.wanted):
            if ordinal < lowest or down >= at_once:
                return
            pod = self.pods.get(ordinal)
            if pod is None or is_deleted(pod):
                down += 1
            elif revision_of(pod) != self.update:
                self._delete(pod)
                down += 1
            elif not self._available(pod):
                down += 1

    def _available(self, pod: Object) -> bool:
        wait = available_in(pod, self.spec.get("minReadySeconds", 0), self.controller.clock.now())
        if wait:
            self.controller.enqueue(key_of(self.live), wait)
        return wait is not None and wait <= 0

    def _healthy(self, pod: Object) -> bool:
        return is_ready(pod) and not is_deleted(pod)

    # -- pods and claims -------------------------------------------------------------------------------------------

    def _create(self, ordinal: int) -> None:
        self._create_claims(ordinal)
        pod = self._pod(ordinal)
        name, set_name = pod["metadata"]["name"], self.live["metadata"]["name"]
        try:
            created = self.registry.create("Pod", pod)
        except ApiError as error:
            message = f"create Pod {name} in StatefulSet {set_name} failed error: {error.message}"
            self.recorder.event(self.live, "Warning", "FailedCreate", message)
            raise
        self.pods[ordinal] = created
        self.recorder.event(
            self.live, "Normal", "SuccessfulCreate", f"create Pod {name} in StatefulSet {set_name} successful"
        )

    def _pod(self, ordinal: int) -> Object:
        """The pod of an ordinal, at the revision it has to have (newVersionedStatefulSetPod)."""
        strategy = self.spec["updateStrategy"]
        rolling = strategy.get("rollingUpdate")
        current = self.live.get("status", {}).get("currentReplicas", 0)
        kept = current if rolling is None else rolling.get("partition", 0)
        at_current = strategy["type"] == "RollingUpdate" and ordinal < self.first + kept
        revision = self.revisions.current if at_current else self.revisions.update
        set_name = self.live["metadata"]["name"]
        pod = from_template(self.live, revision["data"]["spec"]["template"], f"{set_name}-")
        pod["metadata"]["name"] = name = f"{set_name}-{ordinal}"
        pod["metadata"].setdefault("labels", {}).update(
            {POD_NAME: name, POD_INDEX: str(ordinal), REVISION: revision["metadata"]["name"]}
        )
        pod["spec"]["hostname"] = name
        if self.spec.get("serviceName"):
            pod["spec"]["subdomain"] = self.spec["serviceName"]
        claims = {claim["metadata"]["name"]: claim for claim in self.spec.get("volumeClaimTemplates") or ()}
        if claims:
            own = [{"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}} for volume in claims]
            others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claims]
            pod["spec"]["volumes"] = own + others
        return pod

    def _create_claims(self, ordinal: int) -> None:
        set_name = self.live["metadata"]["name"]
        for template in self.spec.get("volumeClaimTemplates") or ():
            metadata = template["metadata"]
            name = f"{metadata['name']}-{set_name}-{ordinal}"
            if self.registry.get("PersistentVolumeClaim", self.live["metadata"]["namespace"], name) is not None:
                continue
            labels = (metadata.get("labels") or {}) | (self.spec["selector"].get("matchLabels") or {})
            claim: Object = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": self.live["metadata"]["namespace"], "labels": labels},
                "spec": copy.deepcopy(template["spec"]),
            }
            if metadata.get("annotations"):
                claim["metadata"]["annotations"] = dict(metadata["annotations"])
            if self._retention("whenDeleted") == "Delete":
                claim["metadata"]["ownerReferences"] = [controller_reference(self.live)]
            self.registry.create("PersistentVolumeClaim", claim)
            message = f"create Claim {name} Pod {set_name}-{ordinal} in StatefulSet {set_name} success"
            self.recorder.event(self.live, "Normal", "SuccessfulCreate", message)

    def _own_claims_by_pod(self, ordinal: int, pod: Object) -> None:
        """whenScaled: Delete lets the claims of a condemned pod go with it."""
        if self._retention("whenScaled") != "Delete":
            return

        def own(claim: Object) -> None:
            reference = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
            }
            claim["metadata"]["ownerReferences"] = [reference]

        for template in self.spec.get("volumeClaimTemplates") or ():
            name = f"{template['metadata']['name']}-{self.live['metadata']['name']}-{ordinal}"
            self.registry.modify("PersistentVolumeClaim", self.live["metadata"]["namespace"], name, own)

    def _retention(self, when: str) -> str:
        return str((self.spec.get("persistentVolumeClaimRetentionPolicy") or {}).get(when, "Retain"))

    def _delete(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        ordinal = ordinal_of(self.live, pod)
        assert ordinal is not None
        try:
            self.registry.delete("Pod", namespace, name)
        except ApiError as error:
            if error.status != 404:
                raise
        left = self.registry.get("Pod", namespace, name)
        if left is None:
            self.pods.pop(ordinal, None)
        else:
            self.pods[ordinal] = left
        message = f"delete Pod {name} in StatefulSet {self.live['metadata']['name']} successful"
        self.recorder.event(self.live, "Normal", "SuccessfulDelete", message)

    # -- status ----------------------------------------------------------------------------------------------------

    def write_status(self) -> None:
        pods = list(self.pods.values())
        created = [pod for pod in pods if not is_deleted(pod)]
        ready = [pod for pod in pods if is_ready(pod)]
        updated = sum(revision_of(pod) == self.update for pod in created)
        current, current_name = sum(revision_of(pod) == self.current for pod in created), self.current
        rolling = self.spec["updateStrategy"]["type"] == "RollingUpdate"
        if rolling and updated == len(pods) == len(ready) == self.spec["replicas"]:
            current, current_name = updated, self.update  # the update is complete (completeRollingUpdate)
        status: Object = {
            "observedGeneration": self.live["metadata"]["generation"],
            "replicas": len(pods),
            "availableReplicas": sum(self._available(pod) for pod in ready),
            "currentRevision": current_name,
            "updateRevision": self.update,
            "collisionCount": self.live.get("status", {}).get("collisionCount", 0),
        } | counted(readyReplicas=len(ready), currentReplicas=current, updatedReplicas=updated)

        def write(copied: Object) -> None:
            copied["status"] = status

        self.registry.modify("StatefulSet", *key_of(self.live), write, subresource="status")


def ordinal_of(live: Object, pod: Object) -> int | None:
    prefix, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if prefix == live["metadata"]["name"] and number.isdigit() else None


def revision_of(pod: Object) -> str | None:
    return (pod["metadata"].get("labels") or {}).get(REVISION)
