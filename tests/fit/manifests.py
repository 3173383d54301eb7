# SPDX-License-Identifier: BSD-2-Clause
"""Random manifests of all kinds, with the objects that are applied for them."""

from __future__ import annotations

import random
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware, UnfitHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.declared import Declared
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.select import SelectedJob
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load

Object = dict[str, Any]

CLAIMED = "c"  # the pool whose devices a driver offers
_TOPOLOGY = {"zone": "topology.kubernetes.io/zone", "rack": "fit.test/rack"}
_TYPES = {"some": "A100", "others": "H100"}
DECLARED = Declared(
    pools={
        "a": Declaration("a", nodes=_TYPES, hardware=PoolHardware(topology=_TOPOLOGY, rdma_resource="rdma/fit")),
        "b": Declaration("b", nodes=_TYPES, hardware=PoolHardware(topology=_TOPOLOGY)),
        CLAIMED: Declaration(CLAIMED, nodes=_TYPES, hardware=PoolHardware(device_class="gpu.nvidia.com")),
    }
)


def manifest_job(
    chance: random.Random, name: str, namespace: str, volumes: list[str], *, has_devices: bool
) -> SelectedJob:
    """A job of a random manifest that its pool can run, as it would be applied."""
    while True:
        manifest = _manifest(chance, name, volumes if namespace == "fit-free" else [], has_devices)
        try:
            model: Any = load((), manifest, namespace)[0].model
            return alone(SelectedJob(namespace, name, manifest["kind"], model=model).built(DECLARED))
        except (UnfitHardware, ManifestErrors):
            continue


def alone(job: SelectedJob) -> SelectedJob:
    """The job with a label by which all of it is found again, and pods that end at once."""
    for obj in job.objects:
        obj["metadata"]["labels"]["fit.test/world"] = "try"
    template = job.objects[0]["spec"]["template"]
    template["metadata"]["labels"]["fit.test/world"] = "try"
    template["spec"]["terminationGracePeriodSeconds"] = 0
    template["spec"]["containers"][0].pop("lifecycle", None)
    return job


def _manifest(chance: random.Random, name: str, volumes: list[str], has_devices: bool) -> Object:
    kind = chance.choices(["training", "inference", "notebook", "compute"], [6, 3, 2, 1])[0]
    resources = _resources(chance, has_devices)
    manifest: Object = {
        "kind": kind,
        "job": {"name": name, "priority": chance.choice(["high", "medium", "low"])},
        "environment": {"image": "registry.local/busybox:1", "command": ["sleep", "1000000"]},
        "resources": resources,
    }
    if kind == "training":
        resources["node_count"] = chance.choices([1, 2, 3, 4, 6], [5, 3, 1, 1, 1])[0]
        if chance.random() < 0.35:
            required = chance.random() < 0.6
            manifest["distributed"] = {"placement": {"within": chance.choice(["rack", "zone"]), "required": required}}
        elif chance.random() < 0.3:
            manifest["distributed"] = {"placement": chance.choice(["pack", "any"])}
        if chance.random() < 0.1:
            resources["interconnect"] = chance.choice(["rdma", "nvlink-domain"])
    elif kind in ("inference", "compute"):
        manifest["service"] = {"replicas": chance.choices([0, 1, 2, 3, 5], [1, 6, 3, 2, 1])[0], "type": "ClusterIP"}
    if kind == "inference" and chance.random() < 0.05:
        manifest["autoscaling"] = {"min_replicas": chance.choice([1, 2, 3]), "max_replicas": 4}
    if volumes and chance.random() < 0.2 and resources.get("node_count", 1) == 1 and kind in ("training", "notebook"):
        manifest["storage"] = {"workdirs": [{"path": "/data", "claim": chance.choice(volumes)}]}
    return manifest


def _resources(chance: random.Random, has_devices: bool) -> Object:
    resources: Object = {
        "pool": chance.choice(["default", *"aaabbb", *([CLAIMED] * 4 if has_devices else [])]),
        "cpu": chance.choice(["1", "1", "1", "2", "4", "4", "500m", "20"]),
        "memory": chance.choice(["1Gi", "1Gi", "1Gi", "4Gi", "16Gi", "64Gi"]),
    }
    what = chance.choices(["gpu", "partition", "share", "none"], [10, 1, 1, 1])[0]
    if what == "gpu":
        resources["gpu"] = chance.choice([1, 1, 1, 2, 2, 4, 4, 8, 8, 16])
        if chance.random() < 0.2:
            resources["gpu-type"] = chance.choice(["A100", "h100", "H100"])
        if chance.random() < 0.15:
            resources["gpu-memory"] = chance.choice(["30G", "30G", "60G", "60G", "100G"])
    elif what == "partition":
        resources |= {"gpu": chance.choice([1, 1, 2, 4, 8]), "partition": "1g.10gb"}
    elif what == "share":
        resources["gpu-share"] = chance.choice(["2Gi", "20Gi", "80Gi", "200Gi"])
    return resources


def pods_of(selected: SelectedJob) -> int:
    """How many pods its manifest asks for."""
    model: Any = selected.model
    if selected.kind == "training":
        return int(model.resources.node_count)
    if selected.kind == "notebook":
        return 1
    scaling = getattr(model, "autoscaling", None)
    return int(scaling.min_replicas if scaling else model.service.replicas)
