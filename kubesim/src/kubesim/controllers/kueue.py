# SPDX-License-Identifier: BSD-2-Clause
"""Kueue's controller in a cluster that has it (``Cluster(addons={"kueue"})``): a Workload for each Job in a queue.

There are no queues: every Workload that is active is admitted at once. Source: kubernetes-sigs/kueue
pkg/controller/jobframework/reconciler.go.
"""

from __future__ import annotations

from typing import Any

from .base import Controller, Key, Object, key_of
from .job import finished_condition

QUEUE, JOB_UID = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/job-uid"


class KueueController(Controller):
    name = "kueue"
    watches = ("Job", "Workload")

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Job":
            self.enqueue(key_of(obj))
        for owner in obj["metadata"].get("ownerReferences") or ():
            if kind == "Workload" and owner["kind"] == "Job":
                self.enqueue((obj["metadata"]["namespace"], owner["name"]))

    def reconcile(self, key: Key) -> None:
        job = self.registry.get("Job", *key)
        if job is None or QUEUE not in job["metadata"].get("labels", {}) or finished_condition(job):
            return
        uid = job["metadata"]["uid"]
        found = self.registry.list("Workload", key[0], {JOB_UID: uid})
        workload = found[0] if found else self.registry.create("Workload", _workload_of(job), manager=self.name)
        suspended = not workload["spec"]["active"]
        if job["spec"].get("suspend", False) != suspended:

            def suspend(copied: Any) -> None:
                copied["spec"]["suspend"] = suspended

            self.registry.modify("Job", *key, suspend, manager=self.name)


def _workload_of(job: Object) -> Object:
    metadata = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {
            "name": f"job-{metadata['name']}-{metadata['uid'][:5]}",
            "namespace": metadata["namespace"],
            "labels": {JOB_UID: metadata["uid"]},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"queueName": metadata["labels"][QUEUE], "podSets": [{"name": "main"}]},
    }
