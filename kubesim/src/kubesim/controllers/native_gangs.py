# SPDX-License-Identifier: BSD-2-Clause
"""kube-scheduler with gangs (``Cluster(addons={"native-gangs"})``): the pods of an Indexed Job are in a PodGroup of
scheduling.k8s.io, and are placed all or none.

The Job controller makes the group, unless ``gates_off`` has WorkloadWithJob. There is no preemption. Sources:
pkg/controller/job/job_scheduling_manager.go, pkg/scheduler/schedule_one_podgroup.go (1.36, alpha).
"""

from __future__ import annotations

from typing import ClassVar

from kubesim.clock import rfc3339

from .base import Key, Object, find_condition, key_of, set_condition
from .scheduler import Scheduler
from .scheduler_filters import pod_rules
from .volcano import VolcanoScheduler

NO_ROOM = "pod group is unschedulable"
_WAITS = (
    f"{NO_ROOM}, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to wait and no "
    "plugin rejected pod"
)


class GangScheduler(VolcanoScheduler):
    """In place of the scheduler without gangs, whose name it has."""

    name = Scheduler.name
    watches: ClassVar[tuple[str, ...]] = Scheduler.watches
    scheduler_name: ClassVar[str] = Scheduler.scheduler_name

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        Scheduler.observe(self, event, kind, obj, old)

    def reconcile(self, key: str) -> None:
        groups: dict[Key, list[Object]] = {}
        for pod_key in sorted(self._queue, key=self._queue.__getitem__):
            pod = self.registry.get("Pod", *pod_key)
            if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            if group := (pod["spec"].get("schedulingGroup") or {}).get("podGroupName"):
                self._queue.pop(pod_key, None)
                self._parked[pod_key] = None
                groups.setdefault((pod["metadata"]["namespace"], group), []).append(pod)
        for group, pods in groups.items():
            if found := self.registry.get("PodGroup", *group):
                self._place_gang(found, pods)
        Scheduler.reconcile(self, key)

    def _place_gang(self, group: Object, pods: list[Object]) -> None:
        name, namespace = group["metadata"]["name"], group["metadata"]["namespace"]
        all_pods = self.registry.list("Pod", namespace)
        running = sum(
            (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") == name and bool(pod["spec"].get("nodeName"))
            for pod in all_pods
        )
        if len(pods) + running < group["spec"]["schedulingPolicy"]["gang"]["minCount"]:
            return  # the scheduler does not look at them before (gangscheduling.go, PreEnqueue)
        chosen = self._nodes_for(pods)
        if chosen is None:
            self._refuse(pods)
        for pod, node in chosen or ():
            self._bind(key_of(pod), pod, self.snapshot.nodes[node], self.devices.plan(pod))
        self._say_scheduled(group, is_scheduled=chosen is not None)

    def _refuse(self, pods: list[Object]) -> None:
        """Those that find no room say what they lack, the others that they wait for these."""
        placed = []
        for pod in pods:
            rules, devices = pod_rules(pod, self.snapshot), self.devices.plan(pod)
            node = self._choose(pod, rules, devices)
            if node is None:
                message = self._explain(key_of(pod), pod, rules, devices)[0]
            else:
                placed.append(pod)
                self.snapshot.withdraw(key_of(pod))
                self.snapshot.put_pod({**pod, "spec": {**pod["spec"], "nodeName": node.name}})
                message = _WAITS
            self._park(key_of(pod), pod, message)
        for pod in placed:
            self.snapshot.drop_pod(key_of(pod))

    def _say_scheduled(self, group: Object, *, is_scheduled: bool) -> None:
        status = "True" if is_scheduled else "False"
        if (find_condition(group, "PodGroupScheduled") or {}).get("status") == status:
            return
        reason, message = ("Scheduled", "") if is_scheduled else ("Unschedulable", NO_ROOM)
        said = {"status": status, "reason": reason, "message": message}
        moment = {"lastTransitionTime": rfc3339(self.clock.now())}

        def write(copied: Object) -> None:
            conditions = copied.setdefault("status", {}).setdefault("conditions", [])
            set_condition(conditions, {"type": "PodGroupScheduled", **said, **moment})

        self.registry.modify("PodGroup", *key_of(group), write, manager=self.name)
