# SPDX-License-Identifier: BSD-2-Clause
"""What the status of a deployment says of its ReplicaSets: counters, availability, progress, failures.

Source: pkg/controller/deployment/sync.go (calculateStatus), progress.go (syncRolloutStatus), util/deployment_util.go
(DeploymentComplete, DeploymentProgressing, DeploymentTimedOut, SetDeploymentCondition).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import datetime

from kubesim.clock import parse_time, rfc3339

from .base import Object, counted, find_condition

NO_DEADLINE = 2**31 - 1


@dataclass(frozen=True)
class View:
    """A deployment as it is stored, its ReplicaSets, the one of its template if there is one, and the time."""

    deployment: Object
    sets: list[Object]
    new: Object | None
    max_unavailable: int
    now: datetime

    def status(self) -> Object:
        """Counters and the condition Available."""
        before, replicas = self.deployment.get("status") or {}, self.deployment["spec"]["replicas"]
        states = [one.get("status", {}) for one in self.sets]
        available = sum(map(available_replicas, self.sets))
        status: Object = {
            "observedGeneration": self.deployment["metadata"]["generation"],
            "terminatingReplicas": sum(state.get("terminatingReplicas", 0) for state in states),
            "conditions": copy.deepcopy(before.get("conditions") or []),
        } | counted(
            replicas=sum(state.get("replicas", 0) for state in states),
            updatedReplicas=self.new.get("status", {}).get("replicas", 0) if self.new else 0,
            readyReplicas=sum(state.get("readyReplicas", 0) for state in states),
            availableReplicas=available,
            unavailableReplicas=max(0, sum(map(size_of, self.sets)) - available),
            collisionCount=before.get("collisionCount", 0),
        )
        if available >= replicas - self.max_unavailable:
            message = "Deployment has minimum availability."
            set_condition(status, "Available", "True", "MinimumReplicasAvailable", message, self.now)
        else:
            message = "Deployment does not have minimum availability."
            set_condition(status, "Available", "False", "MinimumReplicasUnavailable", message, self.now)
        return status

    def rollout_status(self) -> Object:
        """The same, and how the rollout goes: the conditions Progressing and ReplicaFailure."""
        status = self.status()
        self._judge_progress(status)
        self._copy_failure(status)
        return status

    def complete(self, status: Object) -> bool:
        wanted = self.deployment["spec"]["replicas"]
        counts = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
        seen = status.get("observedGeneration", 0) >= self.deployment["metadata"]["generation"]
        return bool(seen and counts == [wanted] * 3)

    def seconds_to_deadline(self, status: Object) -> float | None:
        """How long the rollout may still take without progress; None when none is awaited."""
        current, limit = find_condition(self.deployment, "Progressing"), deadline(self.deployment["spec"])
        if current is None or limit is None or self.complete(status):
            return None
        if current["reason"] == "ProgressDeadlineExceeded":
            return None
        return limit - (self.now - parse_time(current["lastUpdateTime"])).total_seconds()

    def _judge_progress(self, status: Object) -> None:
        current = find_condition(self.deployment, "Progressing")
        if deadline(self.deployment["spec"]) is None:
            drop_condition(status, "Progressing")
            return
        settled = current is not None and current["reason"] == "NewReplicaSetAvailable"
        if settled and status.get("replicas", 0) == status.get("updatedReplicas", 0):
            return
        about = self.new or self.deployment
        subject = f'{about["kind"]} "{about["metadata"]["name"]}"'
        if self.complete(status):
            message = f"{subject} has successfully progressed."
            set_condition(status, "Progressing", "True", "NewReplicaSetAvailable", message, self.now)
        elif self._progressed(status):
            message = f"{subject} is progressing."
            condition = new_condition("Progressing", "True", "ReplicaSetUpdated", message, self.now)
            if current is not None and current["status"] == "True":
                condition["lastTransitionTime"] = current["lastTransitionTime"]
            drop_condition(status, "Progressing")  # renewed even if only its lastUpdateTime is new
            status["conditions"].append(condition)
        elif self._timed_out(status, current):
            message = f"{subject} has timed out progressing."
            set_condition(status, "Progressing", "False", "ProgressDeadlineExceeded", message, self.now)

    def _progressed(self, status: Object) -> bool:
        before = self.deployment.get("status") or {}
        old_before, old_now = (one.get("replicas", 0) - one.get("updatedReplicas", 0) for one in (before, status))
        counters = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return bool(old_now < old_before or any(status.get(name, 0) > before.get(name, 0) for name in counters))

    def _timed_out(self, status: Object, current: Object | None) -> bool:
        if current is None or current["reason"] in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded"):
            return current is not None and current["reason"] == "ProgressDeadlineExceeded"
        left = self.seconds_to_deadline(status)
        return left is not None and left < 0

    def _copy_failure(self, status: Object) -> None:
        drop_condition(status, "ReplicaFailure")
        sets = ([self.new] if self.new else []) + self.sets
        failure = next(filter(None, (find_condition(one, "ReplicaFailure") for one in sets)), None)
        if failure is None:
            return
        known = find_condition(self.deployment, "ReplicaFailure")
        same = known is not None and (known["reason"], known["status"]) == (failure["reason"], failure["status"])
        fresh = {**failure, "lastUpdateTime": failure["lastTransitionTime"]}
        status["conditions"].append(known if same else fresh)


def deadline(spec: Object) -> int | None:
    seconds = spec.get("progressDeadlineSeconds", NO_DEADLINE)
    return None if seconds == NO_DEADLINE else seconds


def size_of(replica_set: Object) -> int:
    return int(replica_set["spec"]["replicas"])


def available_replicas(replica_set: Object) -> int:
    return int(replica_set.get("status", {}).get("availableReplicas", 0))


def set_condition(status: Object, kind: str, state: str, reason: str, message: str, now: datetime) -> None:
    """SetDeploymentCondition: nothing new when status and reason are the same; a changed one moves to the end."""
    new = new_condition(kind, state, reason, message, now)
    old = next((one for one in status.setdefault("conditions", []) if one["type"] == kind), None)
    if old is not None:
        if (old["status"], old["reason"]) == (state, reason):
            return
        if old["status"] == state:
            new["lastTransitionTime"] = old["lastTransitionTime"]
        drop_condition(status, kind)
    status["conditions"].append(new)


def drop_condition(status: Object, kind: str) -> None:
    status["conditions"] = [one for one in status["conditions"] if one["type"] != kind]


def new_condition(kind: str, state: str, reason: str, message: str, now: datetime) -> Object:
    moment = rfc3339(now)
    return {
        "type": kind,
        "status": state,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }
