# SPDX-License-Identifier: BSD-2-Clause
"""Nodes of several vendors: what jobs get of them, how they are counted, and a vendor that is data alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .ansible import Ansible
from .api import Api, eventually
from .manifests import training
from .pools import SYSTEM, Field

CONFIG_MAP = "gpuctl-accelerators"
ACME = """
kind: accelerator
accelerator: {name: acme}
noun: Acme NPUs
singular: Acme NPU
resource: acme.example/npu
partitions: {resource: "acme.example/npu-{partition}", names: '[1-9]q', noun: Acme quarters, singular: Acme quarter}
labels: {product: acme.example/product}
frameworks: [acme]
"""
LISTED = {
    "acme.example/npu": "4",
    "acme.example/npu-1q": "8",
    "huawei.com/Ascend910": "8",
    "nvidia.com/mig-1g.10gb": "7",
}


@pytest.fixture
def node(api: Api, field: Field) -> Iterator[str]:
    """A node that lists devices of several vendors, in a cluster that knows one of them by a profile of its own."""
    name = field.nodes[0]
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
    api.create("configmap", {"metadata": {"name": CONFIG_MAP}, "data": {"acme.yml": ACME}}, SYSTEM)
    list_devices(api, name, LISTED)
    field.set_labels(name, {"acme.example/product": "N1"})
    yield name
    api.delete("configmap", CONFIG_MAP, SYSTEM)
    list_devices(api, name, dict.fromkeys(LISTED))
    field.set_labels(name, {"acme.example/product": None})


def list_devices(api: Api, node: str, amounts: dict[str, Any]) -> None:
    """As a device plugin has the kubelet list them."""
    body = {"status": {"capacity": amounts, "allocatable": amounts}}
    status, answer = api.call("PATCH", f"/api/v1/nodes/{node}/status", body, "application/merge-patch+json")
    assert status == 200, answer


def wanted(name: str, pool: str, **resources: Any) -> dict[str, Any]:
    manifest = training(name)
    manifest["resources"] = {**manifest["resources"], "pool": pool, **resources}
    return manifest


def test_an_unknown_vendor_is_data_alone(ansible: Ansible, api: Api, field: Field, node: str, namespace: str):
    pool = field.pool("acme")
    options = {"name": pool, "nodes": [node], "accelerator": "acme", "type_aliases": {"new": "N1"}}
    assert ansible.module("gpuctl_pool", **options).changed
    assert not ansible.module("gpuctl_pool", **options).changed
    quota = {"kind": "quota", "quota": {"name": field.prefix}, "users": {namespace: {"accelerators": {"acme": 3}}}}
    assert ansible.module("gpuctl_quota", definition=quota).changed

    jobs = [
        wanted("whole", pool, gpu=2, **{"gpu-type": "NEW"}),
        wanted("parts", pool, gpu=3, partition="1q"),
    ]
    done = ansible.job(definition=jobs, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=240)
    assert done.changed, done.message
    assert not ansible.job(definition=jobs, namespace=namespace).changed
    pods = {pod["metadata"]["labels"]["app"]: pod for pod in api.list("pod", namespace)}
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {node}
    limits = {name: pod["spec"]["containers"][0]["resources"]["limits"] for name, pod in pods.items()}
    assert limits["whole"]["acme.example/npu"] == "2"
    assert limits["parts"]["acme.example/npu-1q"] == "3"
    assert pods["whole"]["spec"]["nodeSelector"]["acme.example/product"] == "N1"

    (row,) = ansible.module("gpuctl_pool_info", name=pool).result["results"]
    counted = {each["resource"]: (each["counts"], each["total"], each["used"]) for each in row["accelerators"]}
    assert counted["acme.example/npu"] == ("devices", 4, 2)
    assert counted["acme.example/npu-1q"] == ("partitions", 8, 3)
    assert row["hardware"] == {"accelerator": "acme", "type_aliases": {"new": "N1"}}

    def used() -> Any:
        (found,) = ansible.module("gpuctl_quota_info", namespaces=[namespace]).result["results"]
        return found["accelerators"]["acme"] if found["accelerators"]["acme"]["used"] else None

    assert eventually(used) == {"used": 2, "hard": 3, "percent": 66.7}

    wrong = wanted("wrong", pool, gpu=1)
    wrong["environment"]["framework"] = "cuda"
    refused = ansible.job(definition=wrong, namespace=namespace)
    assert refused.failed
    assert "environment.framework: cuda does not run on Acme NPUs (acme)" in refused.message


def test_one_node_has_devices_of_several_vendors(ansible: Ansible, api: Api, field: Field, node: str, namespace: str):
    npus = field.pool("npus")
    ansible.module("gpuctl_pool", name=npus, nodes=[node], accelerator="ascend")
    jobs = [
        wanted("npu", npus, gpu=4),
        wanted("mig", npus, gpu=2, partition="1g.10gb", accelerator="nvidia"),
    ]
    refused = ansible.job(definition=jobs, namespace=namespace)
    assert refused.failed
    assert "nvidia in a pool with Ascend NPUs (ascend)" in refused.message
    assert api.list("job", namespace) == []

    emptied = ansible.module("gpuctl_pool", name=npus, accelerator="")
    assert emptied.changed, emptied
    jobs[0]["resources"]["accelerator"] = "ascend"
    done = ansible.job(definition=jobs, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=240)
    assert done.changed, done.message
    (row,) = ansible.module("gpuctl_node_info", nodes=[node]).result["results"]
    counted = {each["resource"]: (each["counts"], each["total"], each["used"]) for each in row["accelerators"]}
    assert counted["huawei.com/Ascend910"] == ("devices", 8, 4)
    assert counted["nvidia.com/mig-1g.10gb"] == ("partitions", 7, 2)
    whole = [each for each in row["accelerators"] if each["counts"] == "devices"]
    for what in ("total", "used", "free"):
        assert row[f"gpu_{what}"] == sum(each[what] for each in whole)
