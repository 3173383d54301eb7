# SPDX-License-Identifier: BSD-2-Clause
"""What others have put beside a declared job: workloads that pass for it, and autoscalers that scale it.

A Service and the pods of a job are found by the label of its name. Pods of another workload with that label get its
requests and use its GPUs, and only its name tells it apart. Nothing of it is ours, so nothing here deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...accelerators.catalog import whole_devices
from ...cluster.nodes import devices_of
from ...cluster.pod_requests import limits_as_requests
from ...cluster.read_jobs import WORKLOADS, JobId
from ...cluster.status import is_terminating, pods_wanted
from ...engine.paths import Path
from ...kube.client import Client
from ...kube.errors import if_allowed
from ...kube.resources import HORIZONTAL_POD_AUTOSCALER, Object, Resource
from ...labels import APP
from ...listed_namespaces import list_each
from ...manifest.problems import number_of

_KINDS = (*WORKLOADS, HORIZONTAL_POD_AUTOSCALER)


class Stranger(NamedTuple):
    """An object beside a job, the path of what makes it concern the job, and what it does there."""

    obj: Object
    job: JobId
    path: Path
    text: str


def read_candidates(client: Client, namespaces: Iterable[str]) -> list[Object]:
    """Workloads with the label of a job, and all autoscalers: a list for each kind and namespace."""

    def read(resource: Resource, namespace: str | None) -> list[dict[str, Any]]:
        labels = APP if resource in WORKLOADS else ""
        return if_allowed(lambda: client.list_objects(resource, namespace, labels=labels), [])

    return list_each(read, _KINDS, sorted(set(namespaces)), client.concurrency)


def strangers(candidates: Iterable[Object], workloads: Mapping[JobId, str]) -> Iterator[Stranger]:
    """``workloads``: the kind of the workload of each declared job, which has the job's name. Pure.

    What belongs to something else, such as an autoscaler of KEDA, follows from that.
    """
    for obj in candidates:
        metadata, spec = obj["metadata"], obj["spec"]
        if is_terminating(obj) or any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
            continue
        if obj["kind"] == HORIZONTAL_POD_AUTOSCALER.kind:
            target = spec.get("scaleTargetRef") or {}
            job = metadata["namespace"], str(target.get("name"))
            if workloads.get(job) == target.get("kind"):
                least, most = spec.get("minReplicas", 1), spec.get("maxReplicas")
                yield Stranger(obj, job, ("spec", "scaleTargetRef"), f"scales it to {least} to {most} replicas")
            continue
        job = metadata["namespace"], str((metadata.get("labels") or {}).get(APP))
        if job in workloads:
            yield Stranger(obj, job, ("metadata", "labels", APP), f"has its label, {_pods_text(obj)}")


def _pods_text(workload: Object) -> str:
    template = workload["spec"]["template"]
    pods = pods_wanted({"status": {}, **workload})
    # Of accelerators, limits are requests, and templates need not name both.
    spec = limits_as_requests(template["spec"])
    gpus = whole_devices(devices_of({"metadata": template.get("metadata") or {}, "spec": spec}))
    each = "" if pods == 1 else " each"
    return f"{number_of(pods, 'pod')} with {number_of(gpus, 'GPU')}{each}" if gpus else number_of(pods, "pod")
