# SPDX-License-Identifier: BSD-2-Clause
"""The PodGroup that the Job controller makes for the pods of an Indexed Job (alpha in 1.36).

Source: pkg/controller/job/job_scheduling_manager.go. The Workload that it makes for the group is left out.
"""

from __future__ import annotations

from typing import Any

from .base import Object


def put_into_group(registry: Any, job: Object, template: Object) -> None:
    """Make the group of a Job that has one, and let the pods of a template be in it."""
    spec, metadata = job["spec"], job["metadata"]
    pods = spec.get("parallelism") or 1
    if spec.get("completionMode") != "Indexed" or pods < 2 or spec.get("completions") != pods:
        return
    name, namespace = f"{metadata['name']}-{metadata['uid'][:8]}", metadata["namespace"]
    if registry.get("PodGroup", namespace, name) is None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
        group = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"schedulingPolicy": {"gang": {"minCount": pods}}},
            "status": {"conditions": []},
        }
        registry.create("PodGroup", group, manager="kube-controller-manager")
    template["spec"]["schedulingGroup"] = {"podGroupName": name}
