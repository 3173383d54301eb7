# SPDX-License-Identifier: BSD-2-Clause
"""The table of accelerators: a row and the fields of the manifest are all that another kind of GPU needs."""

from __future__ import annotations

import json
import operator
from datetime import datetime, timezone
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators import (
    ACCELERATORS,
    Accelerator,
    container_requests,
    whole_devices,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import node_row, slim_node, slim_pod
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.shortage import shortage_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_rows import job_row
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.transitions import LiveJob, pause
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.models import (
    KINDS,
    Limits,
    Quota,
    Resources,
    Training,
    TrainingResources,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import keys_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool_info import pool_rows
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_objects import resource_quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.usage import over_quota, unenforced_keys, usage

from .cluster.live_objects import accounted, node, pod, workload

AMD = "amd.com/gpu"
NVIDIA_TAINT, AMD_TAINT = ({"key": key, "effect": "NoSchedule"} for key in ("nvidia.com/gpu", AMD))


class AmdResources(TrainingResources):
    amd_gpu: int = 0


class AmdTraining(Training):
    resources: AmdResources


class AmdLimits(Limits):
    amd_gpu: int | None = None


class AmdQuota(Quota):
    namespaces: dict[str, AmdLimits]


@pytest.fixture
def amd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third row, and its fields in the manifests."""
    row = Accelerator(AMD, field="amd_gpu", documented="amd_gpu", taint=AMD, noun="AMD GPUs", singular="AMD GPU")
    monkeypatch.setitem(ACCELERATORS, AMD, row)
    monkeypatch.setitem(KINDS, "training", AmdTraining)
    monkeypatch.setitem(KINDS, "quota", AmdQuota)


def amd_node(gpus: int, **options: Any) -> dict[str, Any]:
    return node(gpu=0, **{AMD: str(gpus)}, **options)


def amd_pod(gpus: int, **options: Any) -> dict[str, Any]:
    obj = pod(**options)
    obj["spec"]["containers"][0]["resources"]["requests"][AMD] = str(gpus)
    return obj


def training(**resources: Any) -> Any:
    manifest = {
        "kind": "training",
        "job": {"name": "bert"},
        "environment": {"image": "bert:1.0", "command": ["llamafactory-cli", "train"]},
        "resources": {"cpu": "8", "memory": "32Gi", **resources},
    }
    (document,) = load(definition=manifest)
    return document


def pod_spec(**resources: Any) -> dict[str, Any]:
    *_dependents, job = build(training(**resources).model, "ml").objects
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("row", ACCELERATORS.values(), ids=ACCELERATORS)
def test_the_fields_of_a_row_are_those_of_the_manifest(row: Accelerator) -> None:
    for block in (Resources, *((Limits,) if row.in_quotas else ())):
        assert (row.field, row.documented) in [(key.field, key.documented) for key in keys_of(block)], block


def test_every_value_of_a_field_requests_something() -> None:
    fields = {row.field for row in ACCELERATORS.values()}
    keys = {key.field: key for key in keys_of(Resources) if key.field in fields}
    for field, key in keys.items():
        for value in (*key.examples, *getattr(key.shape, "choices", ())):
            block = SimpleNamespace(**{**dict.fromkeys(fields), field: value})
            assert list(container_requests(block).values()) != [], f"{field}: no row in accelerators.py takes {value}"


@pytest.mark.usefixtures("amd")
def test_the_container_requests_them() -> None:
    spec = pod_spec(amd_gpu=2)
    (container,) = spec["containers"]
    expected = {"cpu": "8", "memory": "32Gi", AMD: "2"}
    assert container["resources"] == {"requests": expected, "limits": expected}
    assert spec["tolerations"] == [{"key": AMD, "operator": "Exists", "effect": "NoSchedule"}]
    assert {"name": "FORCE_TORCHRUN", "value": "1"} in container["env"], "one process for each of them"
    assert [volume["emptyDir"] for volume in spec["volumes"]] == [{"medium": "Memory", "sizeLimit": "16Gi"}]


@pytest.mark.usefixtures("amd")
@pytest.mark.parametrize(
    ("resources", "gets", "warnings"),
    [
        (
            {"gpu": 4, "amd_gpu": 2},
            "nvidia.com/gpu",
            ["ignored: 2. The job gets 4 whole GPU(s). Remove it, or set gpu to 0."],
        ),
        (
            {"gpu-share": "1500Mi", "amd_gpu": 2},
            "aliyun.com/gpu-mem",
            ["ignored: 2. The job gets 2Gi of shared GPU memory. Remove it, or gpu-share."],
        ),
        ({"gpu": 0, "amd_gpu": 2}, AMD, []),
    ],
)
def test_a_job_gets_the_first_of_several(resources: dict[str, Any], gets: str, warnings: list[str]) -> None:
    (container,) = pod_spec(**resources)["containers"]
    assert [key for key in container["resources"]["requests"] if "/" in key] == [gets]
    assert [warning.partition("resources.amd_gpu: ")[2] for warning in training(**resources).warnings] == warnings


def test_a_field_whose_value_names_a_resource_has_a_row_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in ("1g.10gb", "2g.20gb"):
        row = Accelerator(
            f"nvidia.com/mig-{profile}",
            field="mig_profile",
            documented="mig_profile",
            taint="nvidia.com/gpu",
            noun=f"MIG partitions {profile}",
            is_whole_device=False,
            in_quotas=False,
            request=partial(operator.eq, profile),
        )
        monkeypatch.setitem(ACCELERATORS, row.resource, row)
    requests = container_requests(SimpleNamespace(gpu=0, gpu_share=None, mig_profile="2g.20gb"))
    assert json.dumps(requests) == '{"nvidia.com/mig-2g.20gb": 1}'
    assert whole_devices(requests) == 0
    assert list(usage({"spec": {}})) == ["cpu", "memory", "gpu", "gpu_share", "pods"]


@pytest.mark.usefixtures("amd")
def test_nodes_and_pools_count_them() -> None:
    objects = [amd_node(8, name="a"), node("b", gpu=4)]
    pods = [amd_pod(3, nodeName="a"), pod("y", gpu=1, nodeName="b")]
    nodes = accounted(objects, pods)
    assert [[node_row(each)[f"gpu_{what}"] for what in ("total", "used", "free")] for each in nodes] == [
        [8, 3, 5],
        [4, 1, 3],
    ]
    assert slim_node(objects[0]).has_gpus
    (pool,) = pool_rows({}, nodes, map(slim_pod, pods))
    assert (pool["gpu_total"], pool["gpu_used"], pool["gpu_free"]) == (12, 4, 8)
    assert [job["gpu"] for job in pool["jobs"]] == [4]


@pytest.mark.usefixtures("amd")
def test_a_pause_releases_them() -> None:
    live = {**workload("Job", suspend=False), "apiVersion": "batch/v1"}
    assert pause(LiveJob("ml", "x", live, pods=(amd_pod(2, nodeName="a"),))).released_gpus == 2


@pytest.mark.usefixtures("amd")
def test_a_job_row_counts_them() -> None:
    live = workload("Job")
    live["spec"]["template"]["spec"] = amd_pod(2)["spec"]
    assert job_row(live, datetime.now(timezone.utc))["gpu"] == 2


@pytest.mark.usefixtures("amd")
@pytest.mark.parametrize(
    ("obj", "others", "sentence", "hint"),
    [
        (
            amd_node(4),
            [],
            "it needs 6 AMD GPUs on one node, but the largest node of the cluster has 4 AMD GPUs",
            "Lower resources.amd_gpu, or spread the training with resources.node_count",
        ),
        (
            node(),
            [],
            "no node of the cluster has AMD GPUs",
            "Set resources.pool to a pool with AMD GPUs, or install the device plugin for amd.com/gpu",
        ),
        (
            amd_node(8),
            [amd_pod(7, nodeName="n1")],
            "it needs 6 AMD GPUs on one node, but the only node of the cluster has 1 AMD GPU free (on n1), "
            "5 AMD GPUs short",
            "Wait for other jobs to finish, delete one, or raise job.priority",
        ),
        (
            amd_node(8, taints=[AMD_TAINT]),
            [],
            "the nodes of the cluster only accept jobs that use GPUs (taint amd.com/gpu)",
            "Set resources.pool to a pool with other nodes",
        ),
        (
            node(taints=[NVIDIA_TAINT]),
            [],
            "the nodes of the cluster only accept jobs that use GPUs (taint nvidia.com/gpu)",
            "Set resources.pool to a pool with other nodes",
        ),
    ],
    ids=["larger than any node", "none at all", "in use", "tainted", "tainted for others"],
)
def test_a_shortage_names_them(obj: dict[str, Any], others: list[dict[str, Any]], sentence: str, hint: str) -> None:
    found = shortage_of(amd_pod(6), accounted([obj], others))
    assert found is not None
    assert (found.text, found.hint) == (sentence, hint)


@pytest.mark.usefixtures("amd")
def test_a_quota_limits_them() -> None:
    quota = {"kind": "quota", "quota": {"name": "q"}, "namespaces": {"team-a": {"gpu": 1, "amd_gpu": 4}}}
    (document,) = load(definition=quota)
    live = resource_quota(document.model, "team-a")
    assert live["spec"]["hard"] == {"requests.nvidia.com/gpu": "1", f"requests.{AMD}": "4"}
    live["status"] = {"used": {f"requests.{AMD}": "6"}}
    assert usage(live)["amd_gpu"] == {"used": 6, "hard": 4, "percent": 150.0}
    assert over_quota(live) == [{"resource": "amd_gpu", "used": 6, "hard": 4}]
    assert unenforced_keys({"spec": {"hard": {AMD: "4", f"requests.{AMD}": "4"}}}) == [AMD]
