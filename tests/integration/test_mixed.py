# SPDX-License-Identifier: BSD-2-Clause
"""A cluster with accelerators of several vendors: a job of each runs, wrong ones are refused, and all is counted.

The nodes are those of `make cluster MIXED=1`, and the manifests those of examples/mixed, under names of the test's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import DEVICE_CLAIMS
from kubesim import mixed_objects

from .ansible import ROOT, Ansible
from .api import Api, eventually, require
from .pools import Field
from .recorder import Recorder
from .test_status import line, status

Object = dict[str, Any]
FILES = ROOT / "examples" / "mixed"
POOLS, JOBS = (
    [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(FILES.glob("*.yaml")) if test(file.name)]
    for test in (lambda name: name.startswith("pool-"), lambda name: not name.startswith("pool-"))
)
PLACES = {
    "on-whole-gpus": "whole",
    "on-a-mig-partition": "mig",
    "on-a-time-slice": "sliced",
    "on-a-share": "hami",
    "on-amd": "amd",
    "on-ascend": "ascend",
    "on-a-vnpu": "vnpu",
    "on-claimed-devices": "dra",
}
#: HAMi's own scheduler counts these, and no node lists them. The scheduler of Kubernetes needs them listed.
OF_HAMI = {"nvidia.com/gpumem": str(8 * 81920), "nvidia.com/gpucores": "800"}


@dataclass(frozen=True)
class Scene:
    """The nodes and devices of kubesim/mixed.py and the manifests, each name with the prefix of the test."""

    api: Api
    field: Field

    @property
    def device_class(self) -> str:
        return f"{self.field.prefix}.gpu.nvidia.com"

    def pools(self) -> list[Object]:
        return [
            {
                **manifest,
                "pool": {**manifest["pool"], "name": self.field.pool(manifest["pool"]["name"])},
                "nodes": [self.field.pool(node) for node in manifest["nodes"]],
                **({"device_class": self.device_class} if "device_class" in manifest else {}),
            }
            for manifest in POOLS
        ]

    def job(self, manifest: Object) -> Object:
        resources = manifest["resources"]
        return {**manifest, "resources": {**resources, "pool": self.field.pool(resources["pool"])}}

    def of_pool(self, row: Object, key: str = "name") -> str:
        """The name in the examples, of a row of a result; empty for what is not of the scene."""
        name = str(row[key])
        return name.removeprefix(f"{self.field.prefix}-") if name.startswith(self.field.prefix) else ""

    def build(self) -> None:
        for obj in mixed_objects(datetime.now(timezone.utc)):
            if obj["kind"] == "Node":
                self._add_node(obj)
            elif obj["kind"] == "DeviceClass":
                self.api.create("deviceclass", {**obj, "metadata": {"name": self.device_class}})
            else:
                node = self.field.pool(obj["spec"]["nodeName"])
                spec = {**obj["spec"], "nodeName": node, "pool": {**obj["spec"]["pool"], "name": node}}
                self.api.create("resourceslice", {**obj, "metadata": {"name": node}, "spec": spec})

    def _add_node(self, obj: Object) -> None:
        name = self.field.pool(obj["metadata"]["name"])
        labels = {**obj["metadata"]["labels"], "kubernetes.io/hostname": name}
        self.api.create("node", {"metadata": {**obj["metadata"], "name": name, "labels": labels}})
        listed = {**obj["status"]["allocatable"], **(OF_HAMI if name.endswith("hami-1") else {})}
        changed = {"status": {**obj["status"], "capacity": listed, "allocatable": listed}}
        path = f"/api/v1/nodes/{name}"
        answer = self.api.call("PATCH", f"{path}/status", changed, "application/merge-patch+json")
        assert answer[0] == 200, answer
        # Without the taint that a node gets at first, until its controller has seen that it is ready.
        taints = {"spec": {"taints": obj.get("spec", {}).get("taints")}}
        answer = self.api.call("PATCH", path, taints, "application/merge-patch+json")
        assert answer[0] == 200, answer

    def clear(self) -> None:
        self.field.clean()
        for kind in ("node", "deviceclass", "resourceslice"):
            for obj in self.api.list(kind):
                if obj["metadata"]["name"].startswith(self.field.prefix):
                    self.api.delete(kind, obj["metadata"]["name"])


@pytest.fixture
def scene(api: Api, ansible: Ansible) -> Iterator[Scene]:
    require(api, DEVICE_CLAIMS)
    found = Scene(api, Field(api, ()))
    try:
        found.build()
        declared = ansible.module("gpuctl_pool", definition=found.pools())
        assert declared.message == "8 pools: 8 create", declared.message
        yield found
    finally:
        found.clear()


def of_pods(api: Api, namespace: str) -> Counter[str]:
    """What the pods of a namespace request of devices, and what their claims have got, by name."""
    used: Counter[str] = Counter()
    for pod in api.list("pod", namespace):
        for container in pod["spec"]["containers"]:
            requested = container["resources"]["requests"]
            used.update({name: int(amount) for name, amount in requested.items() if "/" in name})
    for claim in api.list("resourceclaim", namespace):
        for device in claim["status"]["allocation"]["devices"]["results"]:
            used[device["driver"]] += 1
    return used


def counted(rows: Iterable[Object]) -> Counter[str]:
    """What is used, as the accelerators of rows say it."""
    found: Counter[str] = Counter()
    for row in rows:
        found.update({each["resource"]: each["used"] for each in row["accelerators"]})
    return +found


def test_a_job_of_each_runs_and_all_is_counted(
    ansible: Ansible, api: Api, scene: Scene, recorder: Recorder, namespace: str
) -> None:
    limits = {
        "gpu": 16,
        "gpu-memory": "40Gi",
        "accelerators": {"amd": 8, "ascend": 16, "ascend/6c.1cpu.16g": 4, "nvidia/1g.10gb": 7},
        "device_classes": {scene.device_class: 2},
    }
    quota = {"kind": "quota", "quota": {"name": scene.field.prefix}, "users": {namespace: limits}}
    assert ansible.module("gpuctl_quota", definition=quota).changed

    jobs = [scene.job(manifest) for manifest in JOBS]
    done = ansible.job(definition=jobs, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=240)
    assert done.changed, done.message
    recorder.clear()
    assert ansible.job(definition=jobs, namespace=namespace).message == f"{len(JOBS)} jobs: {len(JOBS)} unchanged"
    assert recorder.writes == []
    pods = api.list("pod", namespace)
    nodes = {pod["metadata"]["labels"]["app"]: scene.of_pool(pod["spec"], "nodeName") for pod in pods}
    assert {job: node.rpartition("-")[0] for job, node in nodes.items()} == PLACES

    used = of_pods(api, namespace)
    assert used == {
        "nvidia.com/gpu": 4 + 1 + 1,
        "nvidia.com/mig-1g.10gb": 1,
        "nvidia.com/gpumem": 20 * 1024,
        "nvidia.com/gpucores": 30,
        "amd.com/gpu": 8,
        "huawei.com/Ascend910": 4,
        "huawei.com/Ascend910-6c.1cpu.16g": 1,
        "gpu.nvidia.com": 2,
    }
    shown = ansible.module("gpuctl_status", namespaces=[namespace]).result
    pools, nodes_shown = (
        [row for row in shown[what] if scene.of_pool(row, key)]
        for what, key in (("pools", "name"), ("nodes", "node_name"))
    )
    for rows in (pools, nodes_shown):
        claimed = {"nvidia.com/gpu": used["nvidia.com/gpu"] + used["gpu.nvidia.com"]}
        assert counted(rows) == {
            **{name: number for name, number in used.items() if name != "gpu.nvidia.com"},
            **claimed,
        }
    check_pools(scene, pools)
    check_quota(ansible, api, scene, namespace, used)
    screen = status(ansible, namespace=namespace)
    assert "8 jobs: 8 Running" in " ".join(screen.output.split())
    for name in PLACES:
        assert line(screen.output, name)


def check_pools(scene: Scene, pools: list[Object]) -> None:
    rows = {scene.of_pool(row): row for row in pools}
    assert {name: (row["gpu_total"], row["gpu_used"], row["gpu_free"]) for name, row in rows.items()} == {
        "whole": (16, 4, 12),
        "mig": (4, 0, 4),
        "mig-broken": (0, 0, 0),
        "sliced": (0, 0, 0),
        "hami": (0, 0, 0),
        "amd": (8, 8, 0),
        "ascend": (12, 4, 8),
        "dra": (4, 2, 2),
    }
    shares = {each["counts"]: (each["total"], each["used"]) for each in rows["sliced"]["accelerators"]}
    assert shares == {"shares": (16, 1)}
    parts = {each["partition"]: (each["total"], each["used"]) for each in rows["mig"]["accelerators"]}
    assert parts == {None: (4, 0), "1g.10gb": (14, 1), "3g.40gb": (4, 0)}


def check_quota(ansible: Ansible, api: Api, scene: Scene, namespace: str, used: Counter[str]) -> None:
    """As the quota controller of the cluster has counted, and as gpuctl_quota_info shows it."""

    def by_the_server() -> Object | None:
        (obj,) = api.list("resourcequota", namespace)
        found: Object = obj["status"].get("used") or {}
        return found if found.get("requests.amd.com/gpu") == "8" else None

    server = eventually(by_the_server)
    limited = {name: int(server[f"requests.{name}"]) for name in used if f"requests.{name}" in server}
    assert limited == {name: used[name] for name in used.keys() - {"nvidia.com/gpucores", "gpu.nvidia.com"}}
    (row,) = ansible.module("gpuctl_quota_info", namespaces=[namespace]).result["results"]
    use = {name: (each["used"], each["hard"]) for name, each in row["accelerators"].items()}
    assert use == {"amd": (8, 8), "ascend": (4, 16), "ascend/6c.1cpu.16g": (1, 4), "nvidia/1g.10gb": (1, 7)}
    assert (row["gpu"]["used"], row["gpu"]["hard"]) == (used["nvidia.com/gpu"], 16)
    assert (row["gpu_memory"]["used"], row["gpu_memory"]["hard"]) == ("20Gi", "40Gi")
    assert row["device_classes"][scene.device_class]["used"] == used["gpu.nvidia.com"]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a CUDA image on Ascend": (
        {"pool": "ascend", "gpu": 1},
        {"image": "nvcr.io/nvidia/pytorch:24.05-py3"},
        "environment.image: an image for GPUs (nvidia) on Ascend NPUs (ascend): nvcr.io/nvidia/pytorch:24.05-py3.",
    ),
    "a framework of NVIDIA on AMD": (
        {"pool": "amd", "gpu": 1},
        {"framework": "tensorrt"},
        "environment.framework: tensorrt does not run on AMD GPUs (amd).",
    ),
    "another accelerator than the pool's": (
        {"pool": "amd", "gpu": 1, "accelerator": "nvidia"},
        {},
        "resources.accelerator: nvidia in a pool with AMD GPUs (amd).",
    ),
    "a share of more than a device": (
        {"pool": "hami", "gpu-share": "100Gi"},
        {},
        "it needs 100Gi of shared GPU memory, but the largest GPU of pool {pool} has 80Gi.",
    ),
    "a share of a partition": (
        {"pool": "mig", "partition": "1g.10gb", "gpu-share": "5Gi"},
        {},
        "resources.gpu-share: a share of a partition.",
    ),
    "a share on several nodes": (
        {"pool": "hami", "gpu-share": "5Gi", "node_count": 2},
        {},
        "resources.gpu-share: a shared GPU on several nodes.",
    ),
    "partitions on several nodes": (
        {"pool": "mig", "partition": "1g.10gb", "gpu": 1, "node_count": 2},
        {},
        "resources.partition: partitions on several nodes.",
    ),
    "more vNPUs than a pod can have": (
        {"pool": "ascend", "partition": "6c.1cpu.16g", "gpu": 2},
        {},
        "resources.gpu: too many Ascend vNPUs 6c.1cpu.16g for a pod: 2.",
    ),
    "a number that Ascend does not have": (
        {"pool": "ascend", "gpu": 3},
        {},
        "resources.gpu: not a number of Ascend NPUs that a pod can have: 3. Use 1, 2, 4, 8 or 16.",
    ),
    "an invalid configuration of MIG": (
        {"pool": "mig-broken", "gpu": 1},
        {},
        "the configuration of the GPUs is invalid on every node of pool {pool} (NVIDIA-A100-SXM4-80GB-MIG-INVALID).",
    ),
    "an image for other CPUs": (
        {"pool": "ascend", "gpu": 1},
        {"image": "quay.io/ascend/cann:8.0-amd64"},
        "the image is for CPUs of amd64, but the nodes of pool {pool} have those of arm64.",
    ),
}


def test_wrong_ones_are_refused_with_the_sentence(
    ansible: Ansible, api: Api, scene: Scene, recorder: Recorder, namespace: str
) -> None:
    def task(resources: Object, environment: Object) -> Object:
        manifest = {
            "kind": "training",
            "job": {"name": "wrong"},
            "environment": {"image": "registry.example.com/train:v1", "command": ["run"], **environment},
            "resources": {"cpu": 1, "memory": "1Gi", **resources},
        }
        return {"runwhere.gpuctl.gpuctl_job": {"definition": scene.job(manifest), "namespace": namespace}}

    tasks = [{"name": name, **task(*given[:2])} for name, given in REFUSED.items()]
    recorder.clear()
    done = ansible.play(tasks)
    for said, (name, (resources, _environment, sentence)) in zip(done.tasks, REFUSED.items(), strict=True):
        assert said.failed, name
        assert sentence.format(pool=scene.field.pool(resources["pool"])) in said.message, name
    assert recorder.writes == []
    assert api.list("job", namespace) == []
