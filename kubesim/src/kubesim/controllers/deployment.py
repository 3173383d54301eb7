# SPDX-License-Identifier: BSD-2-Clause
"""The deployment controller: a ReplicaSet per pod template, and the ways from one to the next.

Source: pkg/controller/deployment/deployment_controller.go (syncDeployment), sync.go, rolling.go, recreate.go.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from kubesim.clock import parse_time
from kubesim.errors import ApiError

from .base import Controller, Key, Object, find_condition, key_of
from .deployment_status import View, available_replicas, deadline, set_condition, size_of
from .events import EventRecorder
from .hashes import template_hash
from .owners import claimed, controller_of, controller_reference, owner_index
from .pods import is_terminal, scaled

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
}


class DeploymentController(Controller):
    name = "deployment-controller"
    watches = ("Deployment", "ReplicaSet", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self.recorder = EventRecorder(registry, self.name)
        owner_index(registry)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Deployment":
            self.enqueue(key_of(obj))
        elif kind == "ReplicaSet":
            for version in (obj, old):
                self._enqueue_owner(version)
        elif event == "DELETED":  # Recreate waits for the last pod of the old ReplicaSets
            owner = controller_of(obj)
            if owner is not None and owner["kind"] == "ReplicaSet":
                self._enqueue_owner(self.registry.get("ReplicaSet", obj["metadata"]["namespace"], owner["name"]))

    def _enqueue_owner(self, replica_set: Object | None) -> None:
        owner = controller_of(replica_set) if replica_set else None
        if owner is not None and owner["kind"] == "Deployment":
            self.enqueue((replica_set["metadata"]["namespace"], owner["name"]))  # type: ignore[index]

    def reconcile(self, key: Key) -> None:
        live = self.registry.get("Deployment", *key)
        if live is None:
            return
        rollout = Rollout(self, copy.deepcopy(live))
        if "deletionTimestamp" in live["metadata"]:
            rollout.find_new(create=False)
            rollout.write_status(rollout.view().status())
            return
        rollout.note_pause()
        if live["spec"].get("paused") or rollout.was_scaled():
            rollout.find_new(create=False)
            rollout.scale()
            if live["spec"].get("paused"):
                rollout.clean_up()
            rollout.write_status(rollout.view().status())
        elif live["spec"]["strategy"]["type"] == "Recreate":
            rollout.recreate()
        else:
            rollout.roll()


class Rollout:
    """One look at a deployment and its ReplicaSets, and what is done about them."""

    def __init__(self, controller: DeploymentController, deployment: Object) -> None:
        self.controller = controller
        self.registry = controller.registry
        self.clock = controller.clock
        self.deployment = deployment
        self.spec = deployment["spec"]
        self.replicas: int = self.spec["replicas"]
        self.sets = sorted(claimed(self.registry, deployment, "ReplicaSet"), key=_age)
        self.new: Object | None = None
        self.surge, self.unavailable = self._budget()

    def _budget(self) -> tuple[int, int]:
        rolling = self.spec["strategy"].get("rollingUpdate")
        if self.spec["strategy"]["type"] != "RollingUpdate" or rolling is None or not self.replicas:
            return 0, 0
        surge = scaled(rolling.get("maxSurge", 0), self.replicas, round_up=True)
        unavailable = scaled(rolling.get("maxUnavailable", 0), self.replicas, round_up=False)
        if surge == 0 and unavailable == 0:  # both may round to 0, then nothing would ever move (ResolveFenceposts)
            unavailable = 1
        return surge, min(unavailable, self.replicas)

    def view(self) -> View:
        return View(self.deployment, self.sets, self.new, self.unavailable, self.clock.now())

    @property
    def old(self) -> list[Object]:
        new_uid = self.new["metadata"]["uid"] if self.new else None
        return [one for one in self.sets if one["metadata"]["uid"] != new_uid]

    # -- the new ReplicaSet ----------------------------------------------------------------------------------------

    def find_new(self, create: bool) -> None:
        """Find the ReplicaSet of today's template, or create it; keep its annotations and the revision current."""
        self.new = next((one for one in self.sets if _same_template(one, self.spec["template"])), None)
        revision = str(max((_revision(one) for one in self.old), default=0) + 1)
        if self.new is not None:
            self._refresh_new(revision)
        elif create:
            self._create_new(revision)

    def _refresh_new(self, revision: str) -> None:
        def refresh(copied: Object) -> None:
            annotations = copied["metadata"].setdefault("annotations", {})
            annotations |= self._copied_annotations()
            before = annotations.get(REVISION)
            if int(before or 0) < int(revision):
                annotations[REVISION] = revision
                if before is not None:
                    history = [*filter(None, annotations.get(REVISION_HISTORY, "").split(",")), before]
                    annotations[REVISION_HISTORY] = ",".join(history)
            set_or_drop(copied["spec"], "minReadySeconds", self.spec.get("minReadySeconds", 0))

        assert self.new is not None
        self.new = self._modify_set(self.new, refresh)
        name = self.new["metadata"]["name"]
        self._record_revision(
            self.new["metadata"]["annotations"][REVISION], "FoundNewReplicaSet", f'Found new replica set "{name}"'
        )

    def _create_new(self, revision: str) -> None:
        status = self.deployment.get("status") or {}
        template = copy.deepcopy(self.spec["template"])
        digest = template_hash(template, status.get("collisionCount", 0))
        template.setdefault("metadata", {}).setdefault("labels", {})[HASH] = digest
        selector = copy.deepcopy(self.spec["selector"])
        selector.setdefault("matchLabels", {})[HASH] = digest
        name = f"{self.deployment['metadata']['name']}-{digest}"
        count = self._new_count(0)
        new: Object = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": self.deployment["metadata"]["namespace"],
                "labels": dict(template["metadata"]["labels"]),
                "annotations": self._copied_annotations() | {REVISION: revision} | self._size_annotations(),
                "ownerReferences": [controller_reference(self.deployment)],
            },
            "spec": {"replicas": count, "selector": selector, "template": template},
        }
        set_or_drop(new["spec"], "minReadySeconds", self.spec.get("minReadySeconds", 0))
        try:
            self.new = self.registry.create("ReplicaSet", new)
        except ApiError as error:
            self._creation_failed(name, error)
            raise
        self.sets.append(self.new)
        if count:
            self._event(f"Scaled up replica set {name} from 0 to {count}")
        self._record_revision(revision, "NewReplicaSetCreated", f'Created new replica set "{name}"')

    def _creation_failed(self, name: str, error: ApiError) -> None:
        if error.reason == "AlreadyExists":  # a name that another template hashed to: try again with another hash

            def collide(copied: Object) -> None:
                status = copied.setdefault("status", {})
                status["collisionCount"] = status.get("collisionCount", 0) + 1

            self.registry.modify("Deployment", *key_of(self.deployment), collide, subresource="status")
            return
        message = f'Failed to create new replica set "{name}": {error.message}'
        status = copy.deepcopy(self.deployment.get("status") or {})
        set_condition(status, "Progressing", "False", "ReplicaSetCreateError", message, self.clock.now())
        self.write_status(status)
        self.controller.recorder.event(self.deployment, "Warning", "ReplicaSetCreateError", message)

    def _record_revision(self, revision: str, reason: str, message: str) -> None:
        status = copy.deepcopy(self.deployment.get("status") or {})
        news = reason == "NewReplicaSetCreated" or find_condition(self.deployment, "Progressing") is None
        if deadline(self.spec) is not None and news:
            set_condition(status, "Progressing", "True", reason, message, self.clock.now())

        def write(copied: Object) -> None:
            copied["metadata"].setdefault("annotations", {})[REVISION] = revision
            copied["status"] = status

        written = self.registry.modify("Deployment", *key_of(self.deployment), write, subresource="status")
        self.deployment = copy.deepcopy(written or self.deployment)

    def _copied_annotations(self) -> dict[str, str]:
        annotations = self.deployment["metadata"].get("annotations") or {}
        return {key: value for key, value in annotations.items() if key not in NOT_COPIED}

    def _size_annotations(self) -> dict[str, str]:
        return {DESIRED: str(self.replicas), MAX: str(self.replicas + self.surge)}

    def _new_count(self, present: int) -> int:
        """How big the new ReplicaSet may be now (NewRSNewReplicas)."""
        if self.spec["strategy"]["type"] == "Recreate":
            return self.replicas
        room = self.replicas + self.surge - sum(size_of(one) for one in self.sets)
        return present + max(0, min(room, self.replicas - present))

    # -- strategies ------------------------------------------------------------------------------------------------

    def roll(self) -> None:
        self.find_new(create=True)
        moved = self._grow_new() or self._shrink_old()
        if not moved and self.view().complete(self.deployment.get("status") or {}):
            self.clean_up()
        self.write_rollout_status()

    def _grow_new(self) -> bool:
        assert self.new is not None
        size = size_of(self.new)
        if size == self.replicas:
            return False
        return self.resize(self.new, self.replicas if size > self.replicas else self._new_count(size))

    def _shrink_old(self) -> bool:
        """Scale old ReplicaSets down: unhealthy pods first, then as far as enough pods stay available."""
        assert self.new is not None
        old = [one for one in self.old if size_of(one)]
        floor = self.replicas - self.unavailable
        total = sum(size_of(one) for one in self.sets)
        missing = size_of(self.new) - available_replicas(self.new)
        may_go = total - floor - missing
        if not old or may_go <= 0:
            return False
        gone = 0
        for one in old:
            unhealthy = min(may_go - gone, size_of(one) - available_replicas(one))
            if unhealthy > 0:
                gone += unhealthy
                self.resize(one, size_of(one) - unhealthy)
        spare = sum(available_replicas(one) for one in self.sets) - floor
        for one in [one for one in self.old if size_of(one)]:
            step = min(size_of(one), spare)
            if step <= 0:
                break
            spare, gone = spare - step, gone + step
            self.resize(one, size_of(one) - step)
        return gone > 0

    def recreate(self) -> None:
        self.find_new(create=False)
        shrunk = [self.resize(one, 0) for one in self.old if size_of(one)]
        if any(shrunk) or self._old_pods_left():
            self.write_rollout_status()
            return
        if self.new is None:
            self.find_new(create=True)
        assert self.new is not None
        self.resize(self.new, self.replicas)
        if self.view().complete(self.deployment.get("status") or {}):
            self.clean_up()
        self.write_rollout_status()

    def _old_pods_left(self) -> bool:
        index = owner_index(self.registry)
        return any(not is_terminal(pod) for one in self.old for pod in index.dependents(one["metadata"]["uid"], "Pod"))

    def was_scaled(self) -> bool:
        for one in self.sets:
            desired = (one["metadata"].get("annotations") or {}).get(DESIRED)
            if size_of(one) and desired is not None and int(desired) != self.replicas:
                return True
        return False

    def scale(self) -> None:
        """Bring the sizes in line with a changed spec.replicas, in proportion while a rollout is under way."""
        active = [one for one in self.sets if size_of(one)]
        if len(active) <= 1:
            only = active[0] if active else self.new or (self.sets[-1] if self.sets else None)
            if only is not None:
                self.resize(only, self.replicas)
            return
        if self.new is not None and size_of(self.new) == available_replicas(self.new) == self.replicas:
            for one in [one for one in self.old if size_of(one)]:
                self.resize(one, 0)
            return
        if self.spec["strategy"]["type"] != "RollingUpdate":
            return
        self._scale_in_proportion(active)

    def _scale_in_proportion(self, active: list[Object]) -> None:
        allowed = self.replicas + self.surge if self.replicas else 0
        total = sum(size_of(one) for one in active)
        left = allowed - total
        ordered = sorted(active, key=lambda one: (-size_of(one), -_age(one)[0] if left > 0 else _age(one)[0]))
        sizes: list[int] = []
        for one in ordered:
            annotations = one["metadata"].get("annotations") or {}
            before = int(annotations.get(MAX) or self.replicas)
            share = math.floor(size_of(one) * allowed / before + 0.5) - size_of(one) if before else 0
            share = max(0, min(share, left)) if left > 0 else min(0, max(share, left))
            left -= share
            sizes.append(size_of(one) + share)
        sizes[0] = max(0, sizes[0] + left)
        for one, size in zip(ordered, sizes, strict=True):
            self.resize(one, size)

    def resize(self, replica_set: Object, size: int) -> bool:
        """Set spec.replicas (and note the wanted sizes); True when the size changed. An event says so."""
        before = size_of(replica_set)

        def write(copied: Object) -> None:
            copied["spec"]["replicas"] = size
            copied["metadata"].setdefault("annotations", {}).update(self._size_annotations())

        self._modify_set(replica_set, write)
        if size == before:
            return False
        way = "up" if size > before else "down"
        self._event(f"Scaled {way} replica set {replica_set['metadata']['name']} from {before} to {size}")
        return True

    def _modify_set(self, replica_set: Object, change: Any) -> Object:
        written = self.registry.modify("ReplicaSet", *key_of(replica_set), change) or replica_set
        uid = written["metadata"]["uid"]
        self.sets = [written if one["metadata"]["uid"] == uid else one for one in self.sets]
        if self.new is not None and self.new["metadata"]["uid"] == uid:
            self.new = written
        return written

    def clean_up(self) -> None:
        """Delete the oldest ReplicaSets beyond revisionHistoryLimit that are empty."""
        limit = self.spec["revisionHistoryLimit"]
        old = sorted((one for one in self.old if "deletionTimestamp" not in one["metadata"]), key=_revision)
        for one in old[: max(0, len(old) - limit)]:
            status = one.get("status", {})
            if (
                not size_of(one)
                and not status.get("replicas")
                and status.get("observedGeneration", 0) >= one["metadata"]["generation"]
            ):
                self.registry.delete("ReplicaSet", *key_of(one))

    # -- status ----------------------------------------------------------------------------------------------------

    def note_pause(self) -> None:
        """The Progressing condition of a paused deployment is Unknown, so that its deadline does not run."""
        if deadline(self.spec) is None:
            return
        condition = find_condition(self.deployment, "Progressing")
        if condition is not None and condition["reason"] == "ProgressDeadlineExceeded":
            return
        paused = bool(self.spec.get("paused"))
        noted = condition is not None and condition["reason"] == "DeploymentPaused"
        if paused == noted:
            return
        status = copy.deepcopy(self.deployment.get("status") or {})
        word = "paused" if paused else "resumed"
        reason, message = f"Deployment{word.capitalize()}", f"Deployment is {word}"
        set_condition(status, "Progressing", "Unknown", reason, message, self.clock.now())
        self.write_status(status)

    def write_rollout_status(self) -> None:
        view = self.view()
        status = view.rollout_status()
        left = view.seconds_to_deadline(status)
        if left is not None and status == self.deployment.get("status"):
            self.controller.enqueue(key_of(self.deployment), max(left, 0) + 1)
        self.write_status(status)

    def write_status(self, status: Object) -> None:
        def write(copied: Object) -> None:
            copied["status"] = status

        written = self.registry.modify("Deployment", *key_of(self.deployment), write, subresource="status")
        self.deployment = copy.deepcopy(written or self.deployment)

    def _event(self, message: str) -> None:
        self.controller.recorder.event(self.deployment, "Normal", "ScalingReplicaSet", message)


def _same_template(replica_set: Object, template: Object) -> bool:
    """EqualIgnoreHash: the templates are equal but for the label pod-template-hash."""

    def plain(one: Object) -> Object:
        one = copy.deepcopy(one)
        meta = one.pop("metadata", None) or {}
        labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
        rest = {key: value for key, value in meta.items() if key not in ("labels", "creationTimestamp") and value}
        return {"metadata": rest | {"labels": labels}, **one}

    return plain(replica_set["spec"]["template"]) == plain(template)


def _revision(replica_set: Object) -> int:
    value = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(value) if value.isdigit() else 0


def _age(replica_set: Object) -> tuple[float, str]:
    metadata = replica_set["metadata"]
    return parse_time(metadata["creationTimestamp"]).timestamp(), metadata["name"]


def set_or_drop(spec: Object, field: str, value: Any) -> None:
    if value:
        spec[field] = value
    else:
        spec.pop(field, None)
