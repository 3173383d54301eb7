# SPDX-License-Identifier: BSD-2-Clause
"""Capacity and usage of nodes and pools."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import (
    accelerator_rows,
    gibibytes,
    node_row,
    node_status,
    slim_node,
    slim_pod,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool_info import pool_rows

from .live_objects import GIB, GPU_TYPE, POOL, accounted, node, pod

STATES: dict[str, tuple[dict[str, Any], str]] = {
    "ready": (node(), "active"),
    "cordoned": (node(cordoned=True), "maintaining"),
    "not ready": (node(ready="False"), "faulty"),
    "out of touch": (node(ready="Unknown"), "faulty"),
    "cordoned and not ready": (node(ready="False", cordoned=True), "faulty"),
    "without a status": ({"metadata": {"name": "n"}, "spec": {}, "status": {}}, "faulty"),
    "registered a moment ago": ({"metadata": {"name": "n"}}, "faulty"),
}


@pytest.mark.parametrize(("obj", "status"), STATES.values(), ids=STATES)
def test_the_status_of_a_node(obj: dict[str, Any], status: str) -> None:
    assert node_status(obj) == status


WITH_GPUS: dict[str, tuple[dict[str, Any], bool]] = {
    "whole ones": (node(), True),
    "shared ones": (node(gpu=0, **{"aliyun.com/gpu-mem": "80"}), True),
    "labelled, but its driver is gone": (node(gpu=0, labels={"nvidia.com/gpu.product": "A100"}), True),
    "none": (node(gpu=0), False),
    "none, in a pool": (node(gpu=0, labels={POOL: "cpu"}), False),
    "registered a moment ago": ({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}}, False),
}


@pytest.mark.parametrize(("obj", "has_gpus"), WITH_GPUS.values(), ids=WITH_GPUS)
def test_whether_a_node_has_gpus(obj: dict[str, Any], has_gpus: bool) -> None:
    assert slim_node(obj).has_gpus is has_gpus


# nodes, pods, (total, used, free) GPUs of the first node
USES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[int, int, int]]] = {
    "an empty node": (node(), [], (8, 0, 8)),
    "managed and unmanaged pods": (
        node(),
        [pod(gpu=3, nodeName="n1"), pod("y", gpu=1, labels={}, nodeName="n1")],
        (8, 4, 4),
    ),
    "pods elsewhere, waiting or on nodes that are gone": (
        node(),
        [pod(gpu=1, nodeName="n2"), pod(gpu=1), pod(gpu=1, nodeName="gone")],
        (8, 0, 8),
    ),
    "a node with fewer GPUs than are in use": (node(gpu=2), [pod(gpu=4, nodeName="n1")], (2, 4, 0)),
    "a cordoned node has nothing free": (node(cordoned=True), [pod(gpu=1, nodeName="n1")], (8, 1, 0)),
    "a node that is not ready has nothing free": (node(ready="Unknown"), [], (8, 0, 0)),
    "a node without GPUs": (node(gpu=0), [], (0, 0, 0)),
    "a node that offers nothing yet": ({**node(), "status": {}}, [], (0, 0, 0)),
}


@pytest.mark.parametrize(("obj", "pods", "amounts"), USES.values(), ids=USES)
def test_the_gpus_of_a_node(obj: dict[str, Any], pods: list[dict[str, Any]], amounts: tuple[int, int, int]) -> None:
    row = node_row(accounted([obj, node("n2")], pods)[0])
    assert (row["gpu_total"], row["gpu_used"], row["gpu_free"]) == amounts


WHOLE = {"accelerator": "nvidia", "resource": "nvidia.com/gpu", "counts": "devices", "partition": None, "unit": None}


def test_a_whole_row() -> None:
    labels = {POOL: "train", GPU_TYPE: "A100", "kubernetes.io/hostname": "n1"}
    (found,) = accounted([node(labels=labels, gpu=8)], [pod(gpu=2, cpu="1500m", memory="96Gi", nodeName="n1")])
    assert node_row(found) == {
        "node_name": "n1",
        "status": "active",
        "gpu_total": 8,
        "gpu_used": 2,
        "gpu_free": 6,
        "gpu_type": "A100",
        "accelerators": [WHOLE | {"total": 8, "used": 2, "free": 6}],
        "bound_pools": ["train"],
        "cpu": "64",
        "cpu_used": "1500m",
        "memory": "512Gi",
        "memory_used": "96Gi",
        "labels": {GPU_TYPE: "A100", POOL: "train"},
        "address": "10.0.0.1",
        "created_at": "2026-01-01T00:00:00Z",
        "last_updated_at": "2026-01-01T00:05:00Z",
    }
    assert node_row(found, ["kubernetes.io/hostname", "not/there"])["labels"] == {"kubernetes.io/hostname": "n1"}


@pytest.mark.parametrize(
    ("labels", "gpu_type"),
    [
        ({}, None),
        ({"nvidia.com/gpu.product": "NVIDIA-A100"}, "NVIDIA-A100"),
        ({"nvidia.com/gpu.product": "NVIDIA-A100", "runwhere.ai/gpuType": "A100"}, "A100"),
        ({"runwhere.ai/gpuType": "A100", GPU_TYPE: "A100-100G"}, "A100-100G"),
        ({GPU_TYPE: "", "runwhere.ai/gpuType": "A100"}, "A100"),
    ],
)
def test_the_gpu_type_of_a_node(labels: dict[str, str], gpu_type: str | None) -> None:
    assert slim_node(node(labels=labels)).gpu_type == gpu_type


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0Gi"), (GIB, "1Gi"), (3 * GIB // 2, "1.5Gi"), (GIB // 10, "0.1Gi"), (1024 * GIB, "1024Gi")],
)
def test_memory_reads(number: int, text: str) -> None:
    assert gibibytes(number) == text


NVIDIA = "nvidia.com/gpu"
MIG, HAMI = "nvidia.com/mig-1g.10gb", "nvidia.com/gpumem"
PRODUCT, SHARING = "nvidia.com/gpu.product", "nvidia.com/gpu.sharing-strategy"


@pytest.mark.parametrize(
    ("what", "counted", "whole"),
    [
        ({"gpu": 8}, [(NVIDIA, "devices", 8)], 8),
        ({"gpu": 8, "labels": {SHARING: "none"}}, [(NVIDIA, "devices", 8)], 8),
        ({"gpu": 32, "labels": {SHARING: "time-slicing"}}, [(NVIDIA, "shares", 32)], 0),
        ({"gpu": 32, "labels": {SHARING: "mps"}}, [(NVIDIA, "shares", 32)], 0),
        ({"gpu": 0, "nvidia.com/gpu.shared": "32"}, [("nvidia.com/gpu.shared", "shares", 32)], 0),
        ({"gpu": 7, "labels": {PRODUCT: "A100-SXM4-40GB-MIG-1g.5gb"}}, [(NVIDIA, "partitions", 7)], 0),
        ({"gpu": 7, "labels": {PRODUCT: "A100-SXM4-40GB-MIG-INVALID"}}, [(NVIDIA, "broken", 7)], 0),
        ({"gpu": 4, MIG: "7"}, [(NVIDIA, "devices", 4), (MIG, "partitions", 7)], 4),
        ({"gpu": 0, "amd.com/gpu": "8"}, [("amd.com/gpu", "devices", 8)], 8),
        (
            {"gpu": 0, "amd.com/gpu": "64", "labels": {"amd.com/gpu.compute-memory-partition": "cpx_nps4"}},
            [("amd.com/gpu", "partitions", 64)],
            0,
        ),
        (
            {"gpu": 0, "amd.com/gpu": "8", "labels": {"amd.com/gpu.compute-memory-partition": "spx_nps1"}},
            [("amd.com/gpu", "devices", 8)],
            8,
        ),
        ({"gpu": 0, "huawei.com/Ascend910": "16"}, [("huawei.com/Ascend910", "devices", 16)], 16),
        ({"gpu": 0, "huawei.com/Ascend910-2c": "4"}, [("huawei.com/Ascend910-2c", "partitions", 4)], 0),
        ({"gpu": 2, "amd.com/gpu": "8"}, [("amd.com/gpu", "devices", 8), (NVIDIA, "devices", 2)], 10),
        ({"gpu": 0, "rdma/hca": "8", "hugepages-2Mi": "8Gi"}, [], 0),
    ],
)
def test_devices_partitions_and_shares_are_counted_apart(
    what: dict[str, Any], counted: list[tuple[str, str, int]], whole: int
) -> None:
    (found,) = accounted([node(**what)], [])
    row = node_row(found)
    assert [(each["resource"], each["counts"], each["total"]) for each in row["accelerators"]] == counted
    assert row["gpu_total"] == row["gpu_free"] == whole


def test_what_nodes_do_not_list_has_no_total() -> None:
    shared = node(gpu=80)
    shared["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "[]"}
    user = pod(gpu=1, nodeName="n1")
    user["spec"]["containers"][0]["resources"]["requests"][HAMI] = "20480"
    (found,) = accounted([shared], [user])
    amounts = {each["resource"]: (each["total"], each["used"], each["free"]) for each in accelerator_rows([found])}
    assert amounts == {NVIDIA: (80, 1, 79), HAMI: (None, 20480, None)}
    assert node_row(found)["gpu_total"] == 0
    assert slim_pod(user).gpu == 0


def test_without_the_pods_no_use_is_known() -> None:
    (row,) = accelerator_rows([slim_node(node())])
    assert (row["total"], row["used"], row["free"]) == (8, None, None)


# -- pools -----------------------------------------------------------------------------------------------------------


def rows(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]] | None = None, declared: dict[str, str | None] | None = None
) -> dict[str, dict[str, Any]]:
    found = pool_rows(declared or {}, accounted(nodes, pods), [slim_pod(obj) for obj in pods or ()])
    return {row["name"]: row for row in found}


def of_job(name: str, pool: str = "a") -> dict[str, str]:
    return {"app": name, "runwhere.ai/job-type": "training", POOL: pool}


def test_a_pool_is_the_sum_of_its_nodes() -> None:
    nodes = [
        node("n2", labels={POOL: "a", GPU_TYPE: "A100"}),
        node("n1", labels={POOL: "a", GPU_TYPE: "A800"}, gpu=4, cordoned=True),
        node("n3"),
    ]
    pods = [pod(gpu=2, nodeName="n2"), pod("y", gpu=1, nodeName="n1", labels={})]
    row = rows(nodes, pods, {"a": "for training"})["a"]
    row.pop("jobs")
    assert row == {
        "name": "a",
        "description": "for training",
        "status": "active",
        "gpu_total": 12,
        "gpu_used": 3,
        "gpu_free": 6,
        "gpu_type": {"A100": 8, "A800": 4},
        "accelerators": [WHOLE | {"total": 12, "used": 3, "free": 6}],
        "node_count": 2,
        "nodes": ["n1", "n2"],
    }


def test_what_is_declared_or_has_nodes_is_a_pool_and_what_only_a_job_names_is_not() -> None:
    pods = [pod(labels=of_job("x", "mistyped"))]
    found = rows([node(labels={POOL: "labelled"})], pods, {"declared": None})
    assert list(found) == ["declared", "default", "labelled"]


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ([], "active"),
        ([{}, {"cordoned": True}, {"ready": "False"}], "active"),
        ([{"cordoned": True}, {"cordoned": True}], "maintaining"),
        ([{"cordoned": True}, {"ready": "False"}], "faulty"),
    ],
    ids=["without nodes", "one takes pods", "all cordoned", "one is not ready, none takes pods"],
)
def test_the_status_of_a_pool(states: list[dict[str, Any]], status: str) -> None:
    nodes = [node(f"n{number}", labels={POOL: "a"}, **state) for number, state in enumerate(states)]
    assert rows(nodes, declared={"a": None})["a"]["status"] == status


def test_the_jobs_of_a_pool_are_where_their_pods_are() -> None:
    nodes = [node("n1", labels={POOL: "a"}), node("n2", labels={POOL: "b"})]
    pods = [
        pod("x-1", gpu=2, labels=of_job("x"), nodeName="n1"),
        pod("x-2", gpu=2, labels=of_job("x")),
        pod("moved-1", gpu=1, labels=of_job("moved", "a"), nodeName="n2"),  # its node changed the pool
        pod("lost-1", gpu=1, labels=of_job("lost", "a"), nodeName="gone"),
        pod("other", gpu=1, labels={"app": "other"}, nodeName="n1"),
    ]
    found = rows(nodes, pods)
    entry = {"namespace": "ml", "kind": "training"}
    assert found["a"]["jobs"] == [
        {"name": "lost", **entry, "gpu": 1, "pods": 1, "pods_waiting": 0},
        {"name": "x", **entry, "gpu": 2, "pods": 1, "pods_waiting": 1},
    ]
    assert found["b"]["jobs"] == [{"name": "moved", **entry, "gpu": 1, "pods": 1, "pods_waiting": 0}]


def test_the_job_of_a_pod_created_by_the_gpuctl_cli() -> None:
    labels = {"job-name": "old", "runwhere.ai/job-type": "training", POOL: "a"}
    (job,) = rows([node(labels={POOL: "a"})], [pod(labels=labels, nodeName="n1", gpu=1)])["a"]["jobs"]
    assert (job["name"], job["gpu"]) == ("old", 1)
