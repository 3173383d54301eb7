# SPDX-License-Identifier: BSD-2-Clause
"""Jobs on the hardware of their pools, as modules run them: what is read for it, and unknown accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_info import MODULE as JOB_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import MODULE as STATUS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_info import MODULE as NODE_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool_info import MODULE as POOL_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_info import MODULE as QUOTA_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.rbac import MODULE as RBAC
from kubesim import Cluster

from .sessions import Session

ACME = """
kind: accelerator
accelerator: {name: acme, description: Made up}
vendor: Acme
noun: Acme NPUs
singular: Acme NPU
resource: acme.example/npu
partitions: {resource: "acme.example/npu-{partition}", names: '[1-9]q', noun: Acme quarters, singular: Acme quarter}
shares:
  slicer:
    devices: acme.example/slice
    memory: {resource: acme.example/memory, unit: 512Mi}
labels: {product: acme.example/product}
taints: [acme.example/npu]
pod: {env: {ACME_VISIBLE: all}}
library: {name: ACL}
counts: [1, 2, 4]
"""
RESOURCES = {
    "nvidia.com/gpu": None,
    "aliyun.com/gpu-mem": None,
    "acme.example/npu": "4",
    "acme.example/npu-1q": "8",
    "acme.example/slice": "8",
    "acme.example/memory": "64",
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0).running() as running:
        running.add_nodes(["npu-1", "npu-2"], resources=RESOURCES, labels={"acme.example/product": "N1"})
        yield running


def token_of(cluster: Cluster, account: str) -> str:
    return cluster.service_account_token("gpuctl-system", account)


def job(name: str = "t", pool: str = "npu", **resources: Any) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": name},
        "environment": {"image": "registry.example.com/ml:v1", "command": ["run"]},
        "resources": {"pool": pool, "cpu": 1, "memory": "1Gi", **resources},
    }


def declare_by_config_map(cluster: Cluster) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap"}
    metadata = {"name": "gpuctl-accelerators", "namespace": "gpuctl-system"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpuctl-system"}}
    cluster.load([space, {**config_map, "metadata": metadata, "data": {"acme.yml": ACME}}])


@pytest.mark.parametrize("by", ["ConfigMap", "file"])
def test_an_unknown_vendor_is_data_alone(cluster: Cluster, tmp_path: Path, by: str) -> None:
    environ = {}
    if by == "ConfigMap":
        declare_by_config_map(cluster)
    else:
        (tmp_path / "acme.yml").write_text(ACME)
        environ = {"GPUCTL_ACCELERATORS": str(tmp_path / "acme.yml")}
    session = Session(cluster, **environ)

    declared = session.run(POOL, name="npu", nodes=["npu-1", "npu-2"], accelerator="acme", type_aliases={"new": "N1"})
    assert declared["results"][0]["hardware"] == {"accelerator": "acme", "type_aliases": {"new": "N1"}}

    limits = {"accelerators": {"acme": 6, "acme/1q": 2, "acme/share": "1Gi"}}
    session.run(QUOTA, definition={"kind": "quota", "quota": {"name": "q"}, "users": {"team": limits}})
    wanted = [
        job("whole", gpu=2, **{"gpu-type": "NEW"}),
        job("parts", gpu=1, partition="1q"),
        {**job("share", **{"gpu-share": "700Mi"})},
    ]
    for each in wanted:
        each["job"]["namespace"] = "team"
    done = session.run(JOB, definition=wanted, wait=True, wait_for="scheduled", wait_timeout=30)
    assert "failed" not in done, done
    objects = {obj["metadata"]["name"]: obj for obj in cluster.call(lambda: cluster.registry.list("Job"))}
    spec = objects["whole"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"runwhere.ai/pool": "npu", "acme.example/product": "N1"}
    assert {"name": "ACME_VISIBLE", "value": "all"} in spec["containers"][0]["env"]

    rows = {row["name"]: row for row in session.run(JOB_INFO, all_namespaces=True)["results"]}
    amounts = {
        name: {each["resource"]: (each["counts"], each["amount"]) for each in row["accelerators"]}
        for name, row in rows.items()
    }
    assert amounts == {
        "whole": {"acme.example/npu": ("devices", 2)},
        "parts": {"acme.example/npu-1q": ("partitions", 1)},
        "share": {"acme.example/slice": ("shares", 1), "acme.example/memory": ("memory", 2)},
    }
    assert {name: (row["gpu"], row["gpu_share"], row["gpu_type"]) for name, row in rows.items()} == {
        "whole": (2, None, "N1"),
        "parts": (0, None, None),
        "share": (0, "1Gi", None),
    }
    (pool,) = [row for row in session.run(POOL_INFO)["results"] if row["name"] == "npu"]
    assert (pool["gpu_total"], pool["gpu_used"], pool["gpu_free"]) == (8, 2, 6)
    assert {row["resource"]: (row["total"], row["used"]) for row in pool["accelerators"]} == {
        "acme.example/npu": (8, 2),
        "acme.example/npu-1q": (16, 1),
        "acme.example/slice": (16, 1),
        "acme.example/memory": (128, 2),
    }
    nodes = session.run(NODE_INFO)["results"]
    assert [sum(node[f"gpu_{what}"] for node in nodes) for what in ("total", "used", "free")] == [8, 2, 6]
    status = session.run(STATUS)
    assert status["pools"] == session.run(POOL_INFO)["results"]
    assert [row["accelerators"] for row in status["nodes"]] == [row["accelerators"] for row in nodes]
    (quota,) = session.run(QUOTA_INFO, all_namespaces=True)["results"]
    assert {name: (use["used"], use["hard"]) for name, use in quota["accelerators"].items()} == {
        "acme": (2, 6),
        "acme/1q": (1, 2),
        "acme/share": ("1Gi", "1Gi"),
    }
    paused = session.run(JOB, name="whole", namespace="team", state="paused")
    assert "2 GPUs released" in paused["msg"]
    again = session.run(JOB, definition=[*wanted[1:]])
    assert not again["changed"]


def test_a_job_on_accelerators_reads_what_is_declared_once(cluster: Cluster) -> None:
    session = Session(cluster)
    cluster.add_nodes(["amd-1"], resources={"amd.com/gpu": "8"})
    session.run(POOL, name="npu", nodes=["amd-1"], accelerator="amd")
    session.run(JOB, definition=job(), wait=True)
    assert not session.run(JOB, definition=job())["changed"]
    without = session.read()
    session.run(JOB, definition=[job(), job("gpus", gpu=1)], wait=True)
    assert not session.run(JOB, definition=[job(), job("gpus", gpu=1)])["changed"]
    declared = "/api/v1/namespaces/gpuctl-system/configmaps"
    assert session.read() == without
    assert without[declared] == 1, "the pool of a job without accelerators may have a queue"


def test_a_refusal_comes_before_any_write_and_names_all_jobs(cluster: Cluster) -> None:
    session = Session(cluster)
    session.run(POOL, name="npu", nodes=["npu-1"], accelerator="kunlunxin")
    refused = session.run(JOB, definition=[job("a", gpu=3), job("b", gpu=1), job("c", gpu=1, accelerator="nvidia")])
    assert refused["msg"].splitlines() == [
        "definition, document 1, resources.gpu: not a number of Kunlunxin XPUs that a pod can have: 3. Use 1, 2, 4 "
        "or 8.",
        "definition, document 3, resources.accelerator: nvidia in a pool with Kunlunxin XPUs (kunlunxin). Correct it "
        "or resources.pool, or remove it.",
        "Nothing was changed.",
    ]
    assert cluster.requests.writes() == []


def test_a_pool_declares_only_what_there_is(cluster: Cluster) -> None:
    session = Session(cluster)
    refused = session.run(POOL, name="npu", accelerator="acme")["msg"]
    assert "pool npu: unknown accelerator: acme. Known are amd, " in refused
    refused = session.run(POOL, name="npu", accelerator="amd", share_backend="aliyun")["msg"]
    assert "pool npu: amd has no share_backend aliyun. It has: hami." in refused


def test_options_of_a_pool_change_only_what_they_name(cluster: Cluster) -> None:
    session = Session(cluster)

    def hardware(**options: Any) -> Any:
        result = session.run(POOL, name="npu", **options)
        return result["results"][0]["hardware"]

    everything = {"accelerator": "amd", "type_aliases": {"a": "b"}, "topology": {"rack": "example.com/rack"}}
    assert hardware(nodes=["npu-1"], **everything) == everything
    assert hardware(rdma_resource="rdma/hca") == {**everything, "rdma_resource": "rdma/hca"}
    assert hardware(accelerator="", type_aliases={}, rdma_resource="") == {"topology": everything["topology"]}
    assert hardware(description="x") == {"topology": everything["topology"]}
    assert hardware(topology={}) == {}
    assert hardware(description="y") == {}, "the ConfigMap has none of it"
    manifest = {"kind": "pool", "pool": {"name": "npu"}, "nodes": ["npu-1"], "accelerator": "amd"}
    assert session.run(POOL, definition=manifest)["results"][0]["hardware"] == {"accelerator": "amd"}
    assert not session.run(POOL, definition=manifest)["changed"]


def test_an_account_that_submits_may_read_what_is_declared(cluster: Cluster) -> None:
    session = Session(cluster)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    cluster.load([space])
    session.run(POOL, name="npu", nodes=["npu-1"], accelerator="amd")
    session.run(RBAC, name="ci", level="submit", namespaces=["team"])
    session.token = token_of(cluster, "ci")
    wanted = job(gpu=1)
    wanted["job"]["namespace"] = "team"
    done = session.run(JOB, definition=wanted)
    assert "failed" not in done, done
    assert not any("may not read" in text for text in session.warnings)
    assert 403 not in {entry.status for entry in cluster.requests}


def test_an_account_that_may_not_read_it_goes_on_with_the_defaults_and_says_so(cluster: Cluster) -> None:
    session = Session(cluster)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    cluster.load([space])
    session.run(RBAC, name="ci", level="submit", namespaces=["team"])
    binding = "gpuctl-submit-pools:gpuctl-system:ci"
    cluster.call(lambda: cluster.registry.delete("RoleBinding", "gpuctl-system", binding))
    session.token = token_of(cluster, "ci")
    wanted = job(gpu=1)
    wanted["job"]["namespace"] = "team"
    assert session.run(JOB, definition=wanted)["changed"]
    assert [text for text in session.warnings if "may not read" in text] == [
        "definition, document 1: the account may not read what pool npu declares, so its nodes count as nodes with "
        "nvidia. Grant it the level submit again with gpuctl_rbac, or set resources.accelerator."
    ]
    wanted["resources"]["accelerator"] = "acme"
    refused = session.run(JOB, definition=wanted)["msg"]
    assert "unknown accelerator: acme" in refused
    assert "The account may not read what administrators declare of accelerators and pools." in refused
