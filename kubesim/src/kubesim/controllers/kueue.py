# SPDX-License-Identifier: BSD-2-Clause
"""Kueue's controller in a cluster that has it (``Cluster(addons={"kueue"})``): a Workload for each Job in a queue.

A Workload is admitted as a whole once its ClusterQueue has room for it: up to its own quota and what it may borrow of
its Cohort, by priority and then by age. There is no preemption, no fair sharing and one flavor. In a cluster without
any LocalQueue, every Workload that is active is admitted at once. Sources: kubernetes-sigs/kueue
pkg/controller/jobframework/reconciler.go, pkg/cache/scheduler/resource_node.go (available).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from kubesim.kinds.pod_resources import pod_limits, pod_requests
from kubesim.quantity import Quantity

from .base import Controller, Key, Object, key_of
from .job import finished_condition

QUEUE, JOB_UID = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/job-uid"
_ADMISSION = ("", "")  # the key of a look at all Workloads
_QUEUES = ("ClusterQueue", "Cohort", "LocalQueue")


class KueueController(Controller):
    name = "kueue"
    watches = ("Job", "Workload", *_QUEUES)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Job":
            self.enqueue(key_of(obj))
        elif kind == "Workload":
            for owner in obj["metadata"].get("ownerReferences") or ():
                if owner["kind"] == "Job":
                    self.enqueue((obj["metadata"]["namespace"], owner["name"]))
        self.enqueue(_ADMISSION)

    def reconcile(self, key: Key) -> None:
        if key == _ADMISSION:
            self._admit()
            return
        job = self.registry.get("Job", *key)
        if job is None or QUEUE not in job["metadata"].get("labels", {}):
            return
        uid = job["metadata"]["uid"]
        found = self.registry.list("Workload", key[0], {JOB_UID: uid})
        if finished_condition(job):
            for workload in found:
                self._set(workload, "Finished", "True", "JobFinished", "Job finished")
            return
        workload = found[0] if found else self.registry.create("Workload", self._workload_of(job), manager=self.name)
        suspended = not (workload["spec"]["active"] and (_is(workload, "Admitted") or not self._queues()))
        if job["spec"].get("suspend", False) != suspended:

            def suspend(copied: Any) -> None:
                copied["spec"]["suspend"] = suspended

            self.registry.modify("Job", *key, suspend, manager=self.name)

    def _queues(self) -> list[Object]:
        return self.registry.list("LocalQueue")

    def _admit(self) -> None:
        queues = {key_of(queue): queue["spec"]["clusterQueue"] for queue in self._queues()}
        if not queues:
            return
        workloads = [one for one in self.registry.list("Workload") if not _is(one, "Finished")]
        pending = []
        used: dict[str, Counter[str]] = {}
        for workload in workloads:
            name = queues.get((workload["metadata"]["namespace"], workload["spec"]["queueName"]), "")
            if not workload["spec"]["active"]:
                for condition in ("Admitted", "QuotaReserved"):
                    self._set(workload, condition, "False", "Deactivated", "The workload is deactivated")
            elif _is(workload, "QuotaReserved"):
                used.setdefault(name, Counter()).update(_requests(workload))
            else:
                pending.append((workload, name))
        for workload, name in sorted(pending, key=lambda pair: _order(pair[0])):
            problem = self._problem(workload, name, used)
            if problem:
                self._set(workload, "QuotaReserved", "False", "Pending", problem)
                continue
            used.setdefault(name, Counter()).update(_requests(workload))
            # An admission check comes after the quota. Nobody answers it here: MultiKueue would ask other clusters.
            for condition in ("QuotaReserved",) if self._checks(name) else ("QuotaReserved", "Admitted"):
                self._set(workload, condition, "True", condition, f"in ClusterQueue {name}")

    def _checks(self, name: str) -> bool:
        queue = self.registry.get("ClusterQueue", None, name)
        return bool(queue and queue["spec"].get("admissionChecksStrategy"))

    def _problem(self, workload: Object, name: str, used: dict[str, Counter[str]]) -> str | None:
        """Why a Workload is not admitted to its ClusterQueue."""
        queue = self.registry.get("ClusterQueue", None, name) if name else None
        if queue is None:
            return f"{'ClusterQueue ' + name if name else 'LocalQueue ' + workload['spec']['queueName']} doesn't exist"
        own, cohort = _quotas(queue), queue["spec"].get("cohortName")
        members = [one for one in self.registry.list("ClusterQueue") if one["spec"].get("cohortName") == cohort]
        lenders: Iterable[Object] = [*members, *filter(None, [self.registry.get("Cohort", None, cohort or "")])]
        for resource, amount in _requests(workload).items():
            quota = own.get(resource)
            if quota is None:
                return f"couldn't assign flavors to pod set main: resource {resource} unavailable in ClusterQueue"
            total = sum(_quotas(one).get(resource, {}).get("nominalQuota", Fraction(0)) for one in lenders)
            left = total - sum(used.get(one["metadata"]["name"], Counter())[resource] for one in members)
            most = quota["nominalQuota"] + quota.get("borrowingLimit", total)
            left = min(left, most - used.get(name, Counter())[resource])
            if amount > left:
                flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]["name"]
                return (
                    f"couldn't assign flavors to pod set main: insufficient unused quota for {resource} in flavor "
                    f"{flavor}, {_text(amount - left)} more needed"
                )
        return None

    def _set(self, workload: Object, kind: str, status: str, reason: str, message: str) -> None:
        wanted = {"type": kind, "status": status, "reason": reason, "message": message}
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")

        def write(copied: Any) -> None:
            conditions = copied.setdefault("status", {}).setdefault("conditions", [])
            found = next((one for one in conditions if one["type"] == kind), None)
            if found is None and status == "False" and reason == "Deactivated":
                return
            if found is None:
                conditions.append({**wanted, "lastTransitionTime": now})
            elif {**found, **wanted} != found:
                found.update(wanted, lastTransitionTime=now)

        metadata = workload["metadata"]
        self.registry.modify(
            "Workload", metadata["namespace"], metadata["name"], write, subresource="status", manager=self.name
        )

    def _workload_of(self, job: Object) -> Object:
        metadata, template = job["metadata"], job["spec"]["template"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
        priority = self.registry.get("PriorityClass", None, template["spec"].get("priorityClassName") or "")
        return {
            "metadata": {
                "name": f"job-{metadata['name']}-{metadata['uid'][:5]}",
                "namespace": metadata["namespace"],
                "labels": {JOB_UID: metadata["uid"]},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "queueName": metadata["labels"][QUEUE],
                "priority": priority["value"] if priority else 0,
                "podSets": [{"name": "main", "count": job["spec"].get("parallelism", 1), "template": template}],
            },
        }


def _is(workload: Object, condition: str) -> bool:
    conditions = workload.get("status", {}).get("conditions") or ()
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def _order(workload: Object) -> tuple[int, str, str]:
    metadata = workload["metadata"]
    return -workload["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["name"]


def _requests(workload: Object) -> dict[str, Any]:
    """Limits count where requests are missing (pkg/workload/resources.go, UseLimitsAsMissingRequestsInPod)."""
    (pods,) = workload["spec"]["podSets"]
    spec = pods.get("template", {}).get("spec", {})
    amounts = {**pod_limits(spec), **pod_requests(spec)}
    return {name: quantity.amount * pods["count"] for name, quantity in amounts.items()}


def _quotas(queue: Object) -> dict[str, dict[str, Fraction]]:
    """The quotas of a ClusterQueue or Cohort, by resource."""
    return {
        each["name"]: {key: Quantity.parse(value).amount for key, value in each.items() if key != "name"}
        for group in queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        for each in flavor["resources"]
    }


def _text(amount: Fraction) -> str:
    return str(amount) if amount.denominator == 1 else str(float(amount))
