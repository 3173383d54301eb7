# SPDX-License-Identifier: BSD-2-Clause
"""The deployment controller: a ReplicaSet per pod template, and the ways from one to the next.

Source: pkg/controller/deployment/deployment_controller.go (syncDeployment), sync.go, rolling.go, recreate.go,
progress.go, util/deployment_util.go.
"""

from __future__ import annotations

import copy
import math
from datetime import datetime
from typing import Any

from kubesim.clock import parse_time, rfc3339
from kubesim.errors import ApiError

from .base import Controller, Key, Object, counted, find_condition, key_of
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
NO_DEADLINE = 2**31 - 1


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
            rollout.write_status(rollout.status())
            return
        rollout.note_pause()
        if live["spec"].get("paused") or rollout.was_scaled():
            rollout.find_new(create=False)
            rollout.scale()
            if live["spec"].get("paused"):
                rollout.clean_up()
            rollout.write_status(rollout.status())
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
        self._set_condition(status, "Progressing", "False", "ReplicaSetCreateError", message)
        self.write_status(status)
        self.controller.recorder.event(self.deployment, "Warning", "ReplicaSetCreateError", message)

    def _record_revision(self, revision: str, reason: str, message: str) -> None:
        status = copy.deepcopy(self.deployment.get("status") or {})
        news = reason == "NewReplicaSetCreated" or find_condition(self.deployment, "Progressing") is None
        if self._deadline() is not None and news:
            self._set_condition(status, "Progressing", "True", reason, message)

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
        room = self.replicas + self.surge - sum(_size(one) for one in self.sets)
        return present + max(0, min(room, self.replicas - present))

    # -- strategies ------------------------------------------------------------------------------------------------

    def roll(self) -> None:
        self.find_new(create=True)
        moved = self._grow_new() or self._shrink_old()
        if not moved and self._complete(self.deployment.get("status") or {}):
            self.clean_up()
        self.write_rollout_status()

    def _grow_new(self) -> bool:
        assert self.new is not None
        size = _size(self.new)
        if size == self.replicas:
            return False
        return self.resize(self.new, self.replicas if size > self.replicas else self._new_count(size))

    def _shrink_old(self) -> bool:
        """Scale old ReplicaSets down: unhealthy pods first, then as far as enough pods stay available."""
        assert self.new is not None
        old = [one for one in self.old if _size(one)]
        floor = self.replicas - self.unavailable
        total = sum(_size(one) for one in self.sets)
        missing = _size(self.new) - _available(self.new)
        may_go = total - floor - missing
        if not old or may_go <= 0:
            return False
        gone = 0
        for one in old:
            unhealthy = min(may_go - gone, _size(one) - _available(one))
            if unhealthy > 0:
                gone += unhealthy
                self.resize(one, _size(one) - unhealthy)
        spare = sum(_available(one) for one in self.sets) - floor
        for one in [one for one in self.old if _size(one)]:
            step = min(_size(one), spare)
            if step <= 0:
                break
            spare, gone = spare - step, gone + step
            self.resize(one, _size(one) - step)
        return gone > 0

    def recreate(self) -> None:
        self.find_new(create=False)
        shrunk = [self.resize(one, 0) for one in self.old if _size(one)]
        if any(shrunk) or self._old_pods_left():
            self.write_rollout_status()
            return
        if self.new is None:
            self.find_new(create=True)
        assert self.new is not None
        self.resize(self.new, self.replicas)
        if self._complete(self.deployment.get("status") or {}):
            self.clean_up()
        self.write_rollout_status()

    def _old_pods_left(self) -> bool:
        index = owner_index(self.registry)
        return any(not is_terminal(pod) for one in self.old for pod in index.dependents(one["metadata"]["uid"], "Pod"))

    def was_scaled(self) -> bool:
        for one in self.sets:
            desired = (one["metadata"].get("annotations") or {}).get(DESIRED)
            if _size(one) and desired is not None and int(desired) != self.replicas:
                return True
        return False

    def scale(self) -> None:
        """Bring the sizes in line with a changed spec.replicas, in proportion while a rollout is under way."""
        active = [one for one in self.sets if _size(one)]
        if len(active) <= 1:
            only = active[0] if active else self.new or (self.sets[-1] if self.sets else None)
            if only is not None:
                self.resize(only, self.replicas)
            return
        if self.new is not None and _size(self.new) == _available(self.new) == self.replicas:
            for one in [one for one in self.old if _size(one)]:
                self.resize(one, 0)
            return
        if self.spec["strategy"]["type"] != "RollingUpdate":
            return
        self._scale_in_proportion(active)

    def _scale_in_proportion(self, active: list[Object]) -> None:
        allowed = self.replicas + self.surge if self.replicas else 0
        total = sum(_size(one) for one in active)
        left = allowed - total
        ordered = sorted(active, key=lambda one: (-_size(one), -_age(one)[0] if left > 0 else _age(one)[0]))
        sizes: list[int] = []
        for one in ordered:
            annotations = one["metadata"].get("annotations") or {}
            before = int(annotations.get(MAX) or self.replicas)
            share = math.floor(_size(one) * allowed / before + 0.5) - _size(one) if before else 0
            share = max(0, min(share, left)) if left > 0 else min(0, max(share, left))
            left -= share
            sizes.append(_size(one) + share)
        sizes[0] = max(0, sizes[0] + left)
        for one, size in zip(ordered, sizes, strict=True):
            self.resize(one, size)

    def resize(self, replica_set: Object, size: int) -> bool:
        """Set spec.replicas (and note the wanted sizes); True when the size changed. An event says so."""
        before = _size(replica_set)

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
        limit = self.spec.get("revisionHistoryLimit", NO_DEADLINE)
        old = sorted((one for one in self.old if "deletionTimestamp" not in one["metadata"]), key=_revision)
        for one in old[: max(0, len(old) - limit)]:
            status = one.get("status", {})
            if (
                not _size(one)
                and not status.get("replicas")
                and status.get("observedGeneration", 0) >= one["metadata"]["generation"]
            ):
                self.registry.delete("ReplicaSet", *key_of(one))

    # -- status ----------------------------------------------------------------------------------------------------

    def note_pause(self) -> None:
        """The Progressing condition of a paused deployment is Unknown, so that its deadline does not run."""
        if self._deadline() is None:
            return
        condition = find_condition(self.deployment, "Progressing")
        if condition is not None and condition["reason"] == "ProgressDeadlineExceeded":
            return
        paused, noted = (
            bool(self.spec.get("paused")),
            condition is not None and condition["reason"] == "DeploymentPaused",
        )
        if paused == noted:
            return
        status = copy.deepcopy(self.deployment.get("status") or {})
        reason, message = (
            ("DeploymentPaused", "Deployment is paused") if paused else ("DeploymentResumed", "Deployment is resumed")
        )
        self._set_condition(status, "Progressing", "Unknown", reason, message)
        self.write_status(status)

    def status(self) -> Object:
        """The counters and the Available condition (calculateStatus)."""
        before = self.deployment.get("status") or {}
        available = sum(map(_available, self.sets))
        total = sum(one.get("status", {}).get("replicas", 0) for one in self.sets)
        new = self.new.get("status", {}) if self.new else {}
        status: Object = {
            "observedGeneration": self.deployment["metadata"]["generation"],
            "terminatingReplicas": sum(one.get("status", {}).get("terminatingReplicas", 0) for one in self.sets),
            "conditions": copy.deepcopy(before.get("conditions") or []),
        } | counted(
            replicas=total,
            updatedReplicas=new.get("replicas", 0),
            readyReplicas=sum(one.get("status", {}).get("readyReplicas", 0) for one in self.sets),
            availableReplicas=available,
            unavailableReplicas=max(0, sum(map(_size, self.sets)) - available),
            collisionCount=before.get("collisionCount", 0),
        )
        if available >= self.replicas - self.unavailable:
            message = "Deployment has minimum availability."
            self._set_condition(status, "Available", "True", "MinimumReplicasAvailable", message)
        else:
            message = "Deployment does not have minimum availability."
            self._set_condition(status, "Available", "False", "MinimumReplicasUnavailable", message)
        return status

    def write_rollout_status(self) -> None:
        status = self.status()
        self._judge_progress(status)
        self._copy_replica_failure(status)
        if status == (self.deployment.get("status") or {}):
            self._look_again_at_deadline(status)
        self.write_status(status)

    def _judge_progress(self, status: Object) -> None:
        current = find_condition(self.deployment, "Progressing")
        if self._deadline() is None:
            status["conditions"] = [c for c in status["conditions"] if c["type"] != "Progressing"]
            return
        settled = current is not None and current["reason"] == "NewReplicaSetAvailable"
        if settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
            return
        subject = (
            f'ReplicaSet "{self.new["metadata"]["name"]}"'
            if self.new
            else f'Deployment "{self.deployment["metadata"]["name"]}"'
        )
        if self._complete(status):
            self._set_condition(
                status, "Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed."
            )
        elif self._progressed(status):
            condition = self._new_condition("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.")
            if current is not None and current["status"] == "True":
                condition["lastTransitionTime"] = current["lastTransitionTime"]
            status["conditions"] = [c for c in status["conditions"] if c["type"] != "Progressing"] + [condition]
        elif self._timed_out(current):
            self._set_condition(
                status, "Progressing", "False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing."
            )

    def _complete(self, status: Object) -> bool:
        return bool(
            status.get("updatedReplicas", 0) == self.replicas
            and status.get("replicas", 0) == self.replicas
            and status.get("availableReplicas", 0) == self.replicas
            and status.get("observedGeneration", 0) >= self.deployment["metadata"]["generation"]
        )

    def _progressed(self, status: Object) -> bool:
        before = self.deployment.get("status") or {}

        def count(of: Object, name: str) -> int:
            return int(of.get(name, 0))

        old_before = count(before, "replicas") - count(before, "updatedReplicas")
        old_now = count(status, "replicas") - count(status, "updatedReplicas")
        grown = any(
            count(status, name) > count(before, name)
            for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
        )
        return grown or old_now < old_before

    def _timed_out(self, current: Object | None) -> bool:
        if current is None or current["reason"] == "NewReplicaSetAvailable":
            return False
        if current["reason"] == "ProgressDeadlineExceeded":
            return True
        return self._seconds_to_deadline(current) < 0

    def _seconds_to_deadline(self, condition: Object) -> float:
        since: datetime = parse_time(condition["lastUpdateTime"])
        return float((self._deadline() or 0) - (self.clock.now() - since).total_seconds())

    def _look_again_at_deadline(self, status: Object) -> None:
        current = find_condition(self.deployment, "Progressing")
        if self._deadline() is None or current is None or self._complete(status):
            return
        if current["reason"] != "ProgressDeadlineExceeded":
            self.controller.enqueue(key_of(self.deployment), max(self._seconds_to_deadline(current), 0) + 1)

    def _copy_replica_failure(self, status: Object) -> None:
        status["conditions"] = [c for c in status["conditions"] if c["type"] != "ReplicaFailure"]
        sets = ([self.new] if self.new else []) + self.sets
        failure = next(filter(None, (find_condition(one, "ReplicaFailure") for one in sets)), None)
        if failure is not None:
            known = find_condition(self.deployment, "ReplicaFailure")
            same = known is not None and known["reason"] == failure["reason"] and known["status"] == failure["status"]
            fresh = {**failure, "lastUpdateTime": failure["lastTransitionTime"]}
            status["conditions"].append(known if same else fresh)

    def write_status(self, status: Object) -> None:
        def write(copied: Object) -> None:
            copied["status"] = status

        written = self.registry.modify("Deployment", *key_of(self.deployment), write, subresource="status")
        self.deployment = copy.deepcopy(written or self.deployment)

    def _deadline(self) -> int | None:
        deadline = self.spec.get("progressDeadlineSeconds", NO_DEADLINE)
        return None if deadline == NO_DEADLINE else deadline

    def _new_condition(self, kind: str, state: str, reason: str, message: str) -> Object:
        now = rfc3339(self.clock.now())
        return {
            "type": kind,
            "status": state,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    def _set_condition(self, status: Object, kind: str, state: str, reason: str, message: str) -> None:
        """SetDeploymentCondition: nothing new when status and reason are the same; a changed one moves to the end."""
        conditions = status.setdefault("conditions", [])
        new = self._new_condition(kind, state, reason, message)
        for old in conditions:
            if old["type"] == kind:
                if old["status"] == state and old["reason"] == reason:
                    return
                if old["status"] == state:
                    new["lastTransitionTime"] = old["lastTransitionTime"]
                conditions.remove(old)
                break
        conditions.append(new)

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


def _size(replica_set: Object) -> int:
    return int(replica_set["spec"]["replicas"])


def _available(replica_set: Object) -> int:
    return int(replica_set.get("status", {}).get("availableReplicas", 0))


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
