# SPDX-License-Identifier: BSD-2-Clause
"""Volcano in a cluster that has it (``Cluster(addons={"volcano"})``): a PodGroup for the pods of each controller, which
are placed all or none, once their Queue has room for them.

There is no reclaiming and no order but priority and age. Sources: volcano-sh/volcano pkg/controllers/podgroup,
pkg/scheduler/actions/enqueue, pkg/scheduler/plugins/gang and capacity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from kubesim.clock import rfc3339

from .base import Key, Object, find_condition, key_of, set_condition
from .events import EventRecorder
from .pods import is_terminal
from .scheduler import Scheduler
from .scheduler_filters import pod_rules
from .scheduler_nodes import amounts, requests
from .scheduler_preemption import priority

GROUP = "scheduling.k8s.io/group-name"
QUEUE, MEMBERS = "scheduling.volcano.sh/queue-name", "scheduling.volcano.sh/group-min-member"
_OWNERS = ("Job", "ReplicaSet", "StatefulSet")


class VolcanoScheduler(Scheduler):
    name = "vc-scheduler"
    watches: ClassVar[tuple[str, ...]] = (*Scheduler.watches, "PodGroup", "Queue", "ReplicaSet", "StatefulSet")
    scheduler_name: ClassVar[str] = "volcano"

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind in ("PodGroup", "Queue"):
            if old is None or obj.get("spec") != old.get("spec") or event == "DELETED":
                self._try_again()
        elif kind in _OWNERS:
            if obj["spec"].get("replicas", 1) == 0:
                self._forget_group(obj)
        else:
            super().observe(event, kind, obj, old)

    def _forget_group(self, owner: Object) -> None:
        name, namespace = _group_name(owner["metadata"]["uid"]), owner["metadata"]["namespace"]
        if self.registry.get("PodGroup", namespace, name) is not None:
            self.registry.delete("PodGroup", namespace, name)

    def reconcile(self, key: str) -> None:
        """Everything that waits, a group at a time: the most important first, then the oldest."""
        waiting = [(pod_key, pod) for pod_key in [*self._queue] if (pod := self.registry.get("Pod", *pod_key))]
        self._queue.clear()
        groups: dict[Key, list[Object]] = {}
        for pod_key, pod in waiting:
            self._parked[pod_key] = None
            if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                groups.setdefault(self._group_of(pod), []).append(pod)
        found = [(self.registry.get("PodGroup", *group), pods) for group, pods in groups.items()]
        for group, pods in sorted(
            ((group, pods) for group, pods in found if group is not None),
            key=lambda pair: (-priority(pair[1][0]), pair[0]["metadata"]["creationTimestamp"]),
        ):
            self._place(group, pods)

    def _group_of(self, pod: Object) -> Key:
        """The PodGroup of a pod, which is made if it is the first."""
        metadata = pod["metadata"]
        owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
        name = _group_name(owners[0]["uid"] if owners else metadata["uid"])
        if self.registry.get("PodGroup", metadata["namespace"], name) is None:
            owner = self.registry.get(owners[0]["kind"], metadata["namespace"], owners[0]["name"]) if owners else None
            said = ((owner or pod)["metadata"].get("annotations") or {}).get(MEMBERS, "1")
            self.registry.create("PodGroup", self._new_group(pod, name, int(said)), manager="vc-controller-manager")
        if GROUP not in (metadata.get("annotations") or {}):

            def annotate(copied: Object) -> None:
                copied["metadata"].setdefault("annotations", {})[GROUP] = name

            self.registry.modify("Pod", *key_of(pod), annotate, manager="vc-controller-manager")
        return metadata["namespace"], name

    def _new_group(self, pod: Object, name: str, members: int) -> Object:
        metadata, queue = pod["metadata"], (pod["metadata"].get("annotations") or {}).get(QUEUE)
        needed = {resource: _text(resource, amount * members) for resource, amount in requests(pod).items()}
        spec = {"minMember": members, "minResources": needed, "priorityClassName": pod["spec"].get("priorityClassName")}
        return {
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "ownerReferences": metadata.get("ownerReferences") or [],
            },
            "spec": {**spec, **({"queue": queue} if queue else {})},
            "status": {"phase": "Pending"},
        }

    def _place(self, group: Object, pods: list[Object]) -> None:
        members = group["spec"]["minMember"]
        running = [pod for pod in self._members(group) if pod["spec"].get("nodeName")]
        short = [] if running else self._short_of_quota(group)
        if short:
            message = f"queue resource quota insufficient: insufficient {', '.join(short)}"
            recorder = EventRecorder(self.registry, "vc-scheduler")
            recorder.event(group, "Normal", "Unschedulable", message)
            self._say(group, "Pending", f"{members}/{len(pods)} tasks in gang unschedulable: pod group is not ready")
            return
        chosen = self._nodes_for(pods) if len(pods) + len(running) >= members else None
        if chosen is None:
            message = f"{members}/{len(pods)} tasks in gang unschedulable: pod group is not ready, {len(pods)} Pending"
            self._say(group, "Inqueue", message)
            for pod in pods:
                self._park(key_of(pod), pod, message)
            return
        for pod, node in chosen:
            self._bind(key_of(pod), pod, self.snapshot.nodes[node], self.devices.plan(pod))
        self._say(group, "Running")

    def _nodes_for(self, pods: Iterable[Object]) -> list[tuple[Object, str]] | None:
        """A node for each of the pods; None if there is none for one of them."""
        chosen: list[tuple[Object, str]] = []
        for pod in pods:
            node = self._choose(pod, pod_rules(pod, self.snapshot), self.devices.plan(pod))
            if node is None:
                break
            chosen.append((pod, node.name))
            self.snapshot.withdraw(key_of(pod))
            self.snapshot.put_pod({**pod, "spec": {**pod["spec"], "nodeName": node.name}})
        else:
            for pod, _node in chosen:
                self.snapshot.drop_pod(key_of(pod))
            return chosen
        for pod, _node in chosen:
            self.snapshot.drop_pod(key_of(pod))
        return None

    def _short_of_quota(self, group: Object) -> list[str]:
        """The resources of which the Queue of a group has too little."""
        queue = self.registry.get("Queue", None, group["spec"]["queue"])
        if queue is None:
            return ["queue " + group["spec"]["queue"]]
        used: Counter[str] = Counter()
        for other in self.registry.list("PodGroup"):
            if other["spec"]["queue"] == group["spec"]["queue"]:
                for pod in self._members(other):
                    if pod["spec"].get("nodeName") and not is_terminal(pod):
                        used.update(requests(pod))
        capability = amounts(queue["spec"].get("capability") or {})
        needed = amounts(group["spec"].get("minResources") or {})
        return sorted(name for name in needed if name in capability and used[name] + needed[name] > capability[name])

    def _members(self, group: Object) -> list[Object]:
        name = group["metadata"]["name"]
        pods = self.registry.list("Pod", group["metadata"]["namespace"])
        return [pod for pod in pods if (pod["metadata"].get("annotations") or {}).get(GROUP) == name]

    def _say(self, group: Object, phase: str, message: str = "") -> None:
        known = find_condition(group, "Unschedulable") or {}
        if (group.get("status") or {}).get("phase") == phase and known.get("message", "") == message:
            return

        def write(copied: Object) -> None:
            status = copied.setdefault("status", {})
            status["phase"] = phase
            if message:
                condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
                moment = {"lastTransitionTime": rfc3339(self.clock.now()), "message": message}
                set_condition(status.setdefault("conditions", []), {**condition, **moment})

        self.registry.modify("PodGroup", *key_of(group), write, manager=self.name)


def _group_name(uid: str) -> str:
    return f"podgroup-{uid}"


def _text(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == "cpu" else str(amount)
