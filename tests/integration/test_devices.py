# SPDX-License-Identifier: BSD-2-Clause
"""Dynamic Resource Allocation: pools whose devices jobs claim, and what is said of claims that get none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import DEVICE_CLAIMS

from .accounts import account, make_priority_classes
from .ansible import Ansible
from .api import Api, eventually, require
from .manifests import compute, inference, training
from .pools import Field
from .recorder import Recorder

DRIVER = "gpu.nvidia.com"
A100, L4 = "NVIDIA A100-SXM4-80GB", "NVIDIA L4"
NEVER = 240


@dataclass(frozen=True)
class Devices:
    """A pool of one node with four A100 and one with two L4, offered by a driver as devices of a class."""

    api: Api
    field: Field

    @property
    def device_class(self) -> str:
        return f"{self.field.prefix}.gpu.example.com"

    @property
    def pool(self) -> str:
        return self.field.pool("dra")

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.field.nodes[:2]

    def publish(self) -> None:
        condition = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
        spec = {"selectors": [{"cel": {"expression": condition}}]}
        self.api.create("deviceclass", _object("DeviceClass", self.device_class, spec))
        for node, product, memory, number in zip(self.nodes, (A100, L4), ("80Gi", "24Gi"), (4, 2), strict=True):
            spec = {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": f"{self.field.prefix}-{node}", "generation": 1, "resourceSliceCount": 1},
                "devices": [_gpu(index, product, memory) for index in range(number)],
            }
            self.api.create("resourceslice", _object("ResourceSlice", f"{self.field.prefix}-{node}", spec))

    def withdraw(self) -> None:
        self.api.delete("deviceclass", self.device_class)
        for node in self.nodes:
            self.api.delete("resourceslice", f"{self.field.prefix}-{node}")

    def taken(self, namespace: str) -> list[str]:
        """The devices that claims of the namespace have, as node/device."""
        return sorted(
            f"{result['pool'].removeprefix(self.field.prefix + '-')}/{result['device']}"
            for claim in self.api.list("resourceclaim", namespace)
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or ()
        )


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _gpu(index: int, product: str, memory: str) -> dict[str, Any]:
    attributes = {"type": {"string": "gpu"}, "productName": {"string": product}}
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": memory}}}


@pytest.fixture
def devices(api: Api, ansible: Ansible, field: Field) -> Iterator[Devices]:
    require(api, DEVICE_CLAIMS)
    found = Devices(api, field)
    options = {"name": found.pool, "nodes": list(found.nodes), "device_class": found.device_class}
    try:
        found.publish()
        declared = ansible.module("gpuctl_pool", **options)
        assert declared.changed, declared.message
        assert not ansible.module("gpuctl_pool", **options).changed
        yield found
    finally:
        found.withdraw()


@pytest.fixture
def submitting(api: Api, devices: Devices, recorder: Recorder, namespace: str) -> Iterator[Devices]:
    """The same, for an account that may submit jobs to the test's namespace and nothing else."""
    make_priority_classes(api)
    administrator = recorder.identity
    with account(api, "submit", [namespace]) as own:
        recorder.identity = own
        yield devices
        recorder.identity = administrator


def test_jobs_claim_devices_and_a_second_run_only_reads(
    ansible: Ansible, api: Api, submitting: Devices, recorder: Recorder, namespace: str
):
    devices = submitting
    jobs = [
        training("big", resources={"pool": devices.pool, "gpu": 2, "gpu-memory": "40Gi"}),
        inference(resources={"pool": devices.pool, "gpu": 1, "gpu-type": "nvidia-l4"}),
    ]
    options = {"definition": jobs, "namespace": namespace, "wait": True, "wait_timeout": NEVER}
    first = ansible.job(**options)
    assert first.changed, first.message
    assert {(job["action"], job["status"]) for job in first.jobs.values()} == {("create", "Running")}, first.message
    large, small = devices.nodes
    assert devices.taken(namespace) == sorted([f"{large}/gpu-0", f"{large}/gpu-1", f"{small}/gpu-0"])

    templates = api.list("resourceclaimtemplate", namespace)
    owners = {obj["metadata"]["labels"]["app"]: obj["metadata"]["ownerReferences"][0]["kind"] for obj in templates}
    assert owners == {"big": "Job", "serve": "Deployment"}

    recorder.clear()
    second = ansible.job(**{**options, "wait": False})
    assert not second.changed, second.diff
    assert [request.method for request in recorder.requests if request.method != "GET"] == []

    gone = ansible.job(definition=jobs, namespace=namespace, state="absent")
    assert gone.changed, gone.message
    assert api.list("resourceclaimtemplate", namespace) == []
    eventually(lambda: devices.taken(namespace) == [])


def test_other_devices_are_another_template(ansible: Ansible, api: Api, submitting: Devices, namespace: str):
    devices = submitting

    def served(number: int) -> Any:
        job = inference(resources={"pool": devices.pool, "gpu": number})
        return ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=NEVER)

    assert served(1).changed
    (before,) = api.list("resourceclaimtemplate", namespace)
    changed = served(3)
    assert changed.jobs["serve"]["action"] == "update", changed.message
    (after,) = api.list("resourceclaimtemplate", namespace)
    assert after["metadata"]["name"] != before["metadata"]["name"]
    eventually(lambda: len(devices.taken(namespace)) == 3)


def test_a_restarted_training_claims_again(ansible: Ansible, api: Api, submitting: Devices, namespace: str):
    job = training(resources={"pool": submitting.pool, "gpu": 4})
    assert ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=NEVER).changed
    again = ansible.job(name="train", namespace=namespace, state="restarted", force=True, wait=True, wait_timeout=NEVER)
    assert again.jobs["train"]["status"] == "Running", again.message
    assert len(eventually(lambda: api.list("resourceclaimtemplate", namespace))) == 1
    assert len(submitting.taken(namespace)) == 4


def test_a_paused_job_gives_its_devices_back(ansible: Ansible, submitting: Devices, namespace: str):
    job = inference(resources={"pool": submitting.pool, "gpu": 2})
    assert ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=NEVER).changed
    paused = ansible.job(name="serve", namespace=namespace, state="paused")
    assert paused.jobs["serve"]["released_gpus"] == 2, paused.message
    eventually(lambda: submitting.taken(namespace) == [])


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"gpu": 1, "gpu-type": "NVIDIA-H100"}, "none of the 6 devices of class {cls} in pool {pool} has productName"),
        ({"gpu": 1, "gpu-memory": "100Gi"}, "none of the 6 devices of class {cls} in pool {pool} has at least 100Gi"),
        ({"gpu": 5}, "it needs 5 devices of class {cls}, but the most that one node of pool {pool} has is 4"),
    ],
)
def test_a_claim_that_no_node_can_meet(
    ansible: Ansible, submitting: Devices, namespace: str, resources: dict[str, Any], says: str
):
    job = training(resources={"pool": submitting.pool, **resources})
    result = ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=NEVER)
    assert result.failed
    assert says.format(cls=submitting.device_class, pool=submitting.pool) in result.message


def test_who_has_the_devices_that_a_claim_waits_for(ansible: Ansible, devices: Devices, namespace: str):
    first = training("first", resources={"pool": devices.pool, "gpu": 4})
    assert ansible.job(definition=first, namespace=namespace, wait=True, wait_timeout=NEVER).changed
    second = training("second", resources={"pool": devices.pool, "gpu": 3})
    assert ansible.job(definition=second, namespace=namespace).changed

    def reason() -> str:
        found = ansible.module("gpuctl_job_info", name="second", namespaces=[namespace])
        return str(found.result["results"][0]["reason"])

    text = eventually(lambda: "in use" in (said := reason()) and said)
    assert f"it needs 3 devices of class {devices.device_class} on one node" in text
    assert f"4 by job first in namespace {namespace}" in text


def test_an_account_without_the_claims_of_others_sees_their_devices_as_taken(
    ansible: Ansible, submitting: Devices, namespace: str
):
    jobs = [training(name, resources={"pool": submitting.pool, "gpu": 4}) for name in ("first", "second")]
    assert ansible.job(definition=jobs[0], namespace=namespace, wait=True, wait_timeout=NEVER).changed
    result = ansible.job(definition=jobs[1], namespace=namespace, wait=True, wait_timeout=8)
    assert result.failed
    assert "but no node of pool" in result.message
    assert "has enough of them free" in result.message


def test_a_class_that_is_missing(ansible: Ansible, api: Api, submitting: Devices, namespace: str):
    api.delete("deviceclass", submitting.device_class)
    job = training(resources={"pool": submitting.pool, "gpu": 1})
    result = ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=5)
    assert result.failed
    assert f"DeviceClass {submitting.device_class} not found" in result.message


def test_a_quota_of_devices(ansible: Ansible, devices: Devices, namespace: str, field: Field):
    name = field.prefix
    quota = {
        "kind": "quota",
        "quota": {"name": name},
        "users": {name: {"device_classes": {devices.device_class: 2}}},
    }
    given = ansible.module("gpuctl_quota", definition=quota)
    assert given.changed, given.message
    assert not ansible.module("gpuctl_quota", definition=quota).changed
    try:
        first = training("first", resources={"pool": devices.pool, "gpu": 2})
        assert ansible.job(definition=first, namespace=name, wait=True, wait_timeout=NEVER).changed
        second = training("second", resources={"pool": devices.pool, "gpu": 1})
        refused = ansible.job(definition=second, namespace=name, wait=True, wait_timeout=NEVER)
        assert refused.failed
        assert "of the namespace is exhausted" in refused.message
        assert devices.device_class in refused.message
        found = ansible.module("gpuctl_quota_info", namespaces=[name]).result["results"][0]
        assert found["device_classes"][devices.device_class] == {"used": 2, "hard": 2, "percent": 100.0}
    finally:
        jobs = [training("first"), training("second")]
        ansible.job(definition=jobs, namespace=name, state="absent", force=True)
        removed = ansible.module("gpuctl_quota", name=name, state="absent", delete_namespaces=True, force=True)
        assert not removed.failed, removed.message


def test_devices_count_as_gpus_of_nodes_and_pools(ansible: Ansible, api: Api, devices: Devices, namespace: str):
    large, _small = devices.nodes
    by_plugin = sum(
        int(api.get("node", node)["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in devices.nodes
    )
    job = training(resources={"pool": devices.pool, "gpu": 3})
    assert ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=NEVER).changed
    (pool,) = ansible.module("gpuctl_pool_info", name=devices.pool).result["results"]
    assert (pool["gpu_total"], pool["gpu_used"]) == (by_plugin + 6, 3)
    assert [(one["name"], one["gpu"]) for one in pool["jobs"]] == [("train", 3)]
    (node,) = ansible.module("gpuctl_node_info", nodes=[large]).result["results"]
    assert node["gpu_used"] == 3
    (job_row,) = ansible.module("gpuctl_job_info", name="train", namespaces=[namespace]).result["results"]
    assert job_row["gpu"] == 3
    status = ansible.module("gpuctl_status", namespaces=[namespace], pool=devices.pool).result
    assert [(row["gpu_total"], row["gpu_used"]) for row in status["pools"]] == [(by_plugin + 6, 3)]


def test_a_job_without_devices_runs_in_the_pool_as_well(
    ansible: Ansible, api: Api, submitting: Devices, namespace: str
):
    job = compute(resources={"pool": submitting.pool, "gpu": 0})
    assert ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=NEVER).changed
    assert api.list("resourceclaimtemplate", namespace) == []


# -- pools that declare no device_class --------------------------------------------------------------------------------


@pytest.fixture
def offered(api: Api, ansible: Ansible, field: Field) -> Iterator[Offered]:
    """Nodes whose devices only a driver offers, and a pool that says nothing of that."""
    require(api, DEVICE_CLAIMS)
    found = Offered(api, field)
    try:
        found.add_nodes()
        found.publish()
        declared = ansible.module("gpuctl_pool", name=found.pool, nodes=list(found.nodes))
        assert declared.changed, declared.message
        yield found
    finally:
        found.withdraw()
        for node in found.nodes:
            api.delete("node", node)


@dataclass(frozen=True)
class Offered(Devices):
    """Nodes of its own: those of the cluster list GPUs, as their device plugins do. Nothing runs on them."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return f"{self.field.prefix}-dra-1", f"{self.field.prefix}-dra-2"

    def add_nodes(self) -> None:
        for name in self.nodes:
            hostname = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
            self.api.create("node", {"metadata": {"name": name, "labels": hostname}})
            room = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
            condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
            status = {"capacity": room, "allocatable": room, "conditions": [condition]}
            path = f"/api/v1/nodes/{name}/status"
            answer = self.api.call("PATCH", path, {"status": status}, "application/merge-patch+json")
            assert answer[0] == 200, answer
            self.api.patch("node", name, {"spec": {"taints": None}})

    def second_class(self, **spec: Any) -> str:
        name = f"{self.field.prefix}.second.example.com"
        condition = f"device.driver == '{DRIVER}'"
        body = {"selectors": [{"cel": {"expression": condition}}], **spec}
        self.api.create("deviceclass", _object("DeviceClass", name, body))
        return name


def test_a_class_that_alone_offers_the_devices_is_found(
    ansible: Ansible, api: Api, offered: Offered, recorder: Recorder, namespace: str
):
    job = training("found", resources={"pool": offered.pool, "gpu": 2})
    first = ansible.job(definition=job, namespace=namespace)
    assert first.changed, first.message
    (template,) = api.list("resourceclaimtemplate", namespace)
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == offered.device_class
    assert request["exactly"]["count"] == 2
    (container,) = api.get("job", "found", namespace)["spec"]["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["requests"]
    assert eventually(lambda: len(offered.taken(namespace)) == 2), "the scheduler allocates them"

    recorder.clear()
    again = ansible.job(definition=job, namespace=namespace)
    assert (again.changed, recorder.writes) == (False, []), again.message


def test_of_several_classes_the_pool_has_to_declare_one(ansible: Ansible, api: Api, offered: Offered, namespace: str):
    second = offered.second_class()
    try:
        job = training("found", resources={"pool": offered.pool, "gpu": 1})
        refused = ansible.job(definition=job, namespace=namespace)
        classes = ", ".join(sorted([offered.device_class, second]))
        assert (
            f"job found in namespace {namespace}: several DeviceClasses offer the GPUs of pool {offered.pool}: "
            f"{classes}. Declare one of them as device_class of the pool."
        ) in refused.message
        assert api.get("job", "found", namespace) is None
        ansible.module("gpuctl_pool", name=offered.pool, device_class=second)
        assert ansible.job(definition=job, namespace=namespace).changed
    finally:
        api.delete("deviceclass", second)


def test_an_extended_resource_of_a_class_is_left_to_the_scheduler(
    ansible: Ansible, api: Api, offered: Offered, namespace: str
):
    """DeviceClass.spec.extendedResourceName: the pod requests nvidia.com/gpu, and the scheduler makes the claim."""
    api.delete("deviceclass", offered.device_class)
    extended = offered.second_class(extendedResourceName="nvidia.com/gpu")
    try:
        job = training("extended", resources={"pool": offered.pool, "gpu": 2})
        done = ansible.job(definition=job, namespace=namespace, strict=True)
        assert done.changed, done.message
        assert "cannot be scheduled" not in done.screen
        assert api.list("resourceclaimtemplate", namespace) == []
        (container,) = api.get("job", "extended", namespace)["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["requests"]["nvidia.com/gpu"] == "2"
        assert eventually(lambda: len(offered.taken(namespace)) == 2), "the scheduler claims them"
        (pod,) = api.list("pod", namespace)
        assert pod["spec"]["nodeName"] in offered.nodes
        row = eventually(lambda: used(ansible, offered.pool) or None)
        assert (row["gpu_total"], row["gpu_used"], row["gpu_free"]) == (6, 2, 4)
        assert ansible.job(definition=job, namespace=namespace).changed is False
        more = training("more", resources={"pool": offered.pool, "gpu": 5})
        waiting = ansible.job(definition=more, namespace=namespace, wait=True, wait_timeout=20, wait_for="scheduled")
        assert waiting.failed
    finally:
        api.delete("deviceclass", extended)


def used(ansible: Ansible, pool: str) -> dict[str, Any]:
    """The row of a pool once its GPUs are in use."""
    (row,) = ansible.module("gpuctl_pool_info", name=pool).result["results"]
    return dict(row) if row["gpu_used"] else {}
