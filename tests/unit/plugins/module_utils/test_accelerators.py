# SPDX-License-Identifier: BSD-2-Clause
"""Profiles of accelerators: those that are built in, and a made-up vendor, which is data and counts everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import (
    Catalog,
    ProfileError,
    built_in_catalog,
    catalog,
    whole_devices,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.current import use_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.equipment import equipment
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware, UnfitHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import node_row, slim_node, slim_pod
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.shortage import shortage_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_rows import job_row
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.transitions import LiveJob, pause
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import (
    ManifestErrors,
    load,
    load_profiles,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool_info import pool_rows
from outside_packages import imported

from .cluster.live_objects import GPU_TYPE, accounted, node, pod, workload

ROOT = Path(__file__).resolve().parents[4]
TOOL = imported(ROOT / "tools" / "generate_profiles.py")
ACME = "acme.example/npu"
ACME_PROFILE = """
kind: accelerator
accelerator: {name: acme}
noun: Acme NPUs
singular: Acme NPU
resource: acme.example/npu
taints: [acme.example/npu]
"""
NVIDIA_TAINT, ACME_TAINT = ({"key": key, "effect": "NoSchedule"} for key in ("nvidia.com/gpu", ACME))


@pytest.fixture
def acme() -> Iterator[None]:
    """An unknown vendor."""
    use_catalog(built_in_catalog().with_profiles(load_profiles([("acme.yml", ACME_PROFILE)])))
    yield
    use_catalog(None)


def acme_node(devices: int, **options: Any) -> dict[str, Any]:
    return node(gpu=0, **{ACME: str(devices)}, **options)


def acme_pod(devices: int, **options: Any) -> dict[str, Any]:
    obj = pod(**options)
    obj["spec"]["containers"][0]["resources"]["requests"][ACME] = str(devices)
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


def pod_spec(pool: PoolHardware | None = None, **resources: Any) -> dict[str, Any]:
    *_dependents, job = build(training(**resources).model, "ml", pool).objects
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


# ---- The data


def test_the_module_is_that_of_the_files() -> None:
    assert TOOL.MODULE.read_text(encoding="utf-8") == TOOL.module(), "run `make schemas`"


def test_importing_the_profiles_imports_no_library() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import catalog; catalog();"
        "print([name for name in ('yaml', 'pydantic', 'urllib3') if name in sys.modules])"
    )
    collections = str(ROOT / ".cache" / "collections")
    done = subprocess.run([sys.executable, "-c", script, collections], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("profile", built_in_catalog().profiles.values(), ids=lambda profile: profile.name)
def test_a_profile_is_complete(profile: Any) -> None:
    assert profile.data["vendor"]
    assert profile.taints
    assert profile.part("library")
    assert catalog().row(profile.device.resource).profile == profile.name
    for resource in profile.resources():
        assert catalog().row(resource.resource) is not None


MEASURED = ("utilization", "memory_used", "temperature", "power")
UNMEASURED = {  # a vendor whose exporter has no such metric, or none that a public source names
    "neuron": {"temperature", "power"},
    "tpu": set(MEASURED),
    "kunlunxin": set(MEASURED),
    "moore-threads": set(MEASURED),
}


@pytest.mark.parametrize("profile", built_in_catalog().profiles.values(), ids=lambda profile: profile.name)
def test_the_exporter_of_a_profile_measures_each_quantity(profile: Any) -> None:
    whole = {quantity for each in profile.exporters if not each.backend for quantity in each.quantities}
    assert set(MEASURED) - whole == UNMEASURED.get(profile.name, set())


def test_samples_of_exporters_become_base_units() -> None:
    factors = {
        (profile.name, series.name): series.factor
        for profile in built_in_catalog().profiles.values()
        for exporter in profile.exporters
        for quantity in exporter.quantities
        for series in exporter.series(quantity)
    }
    assert factors["nvidia", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == 1
    assert factors["nvidia", "DCGM_FI_DEV_GPU_UTIL"] == 0.01
    assert factors["nvidia", "DCGM_FI_DEV_FB_USED"] == 2**20
    assert factors["nvidia", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == 0.001
    assert factors["nvidia", "hami_vgpu_memory_used_bytes"] == 1
    assert factors["gaudi", "habanalabs_power_mW"] == 0.001
    assert factors["ascend-310p", "npu_chip_info_used_memory"] == 2**20


def test_an_exporter_says_which_labels_name_the_pod() -> None:
    profiles = built_in_catalog().profiles
    nvidia, hami = profiles["nvidia"].exporters
    assert (hami.backend, hami.port) == ("hami", 9394)
    assert nvidia.labels["node"] == ("Hostname", "hostname")
    (ascend,) = profiles["ascend"].exporters
    assert ascend.labels["pod"] == ("pod_name",)
    (cambricon,) = profiles["cambricon"].exporters
    assert cambricon.owner == "mlu_container"
    (metax,) = profiles["metax"].exporters
    assert [dict(each.where) for each in metax.series("memory_used")] == [{"type": "vram"}]
    assert nvidia.series("idle") == ()


ACME_METRICS = """
metrics:
  labels: {device: [chip], pod: [pod]}
  utilization: [{name: acme_busy_ratio, unit: ratio}]
"""


def test_a_made_up_vendor_has_an_exporter_by_data_alone() -> None:
    (profile,) = Catalog(load_profiles([("acme.yml", ACME_PROFILE + ACME_METRICS)])).profiles.values()
    (exporter,) = profile.exporters
    assert [series.name for series in exporter.series("utilization")] == ["acme_busy_ratio"]
    assert exporter.labels["device"] == ("chip",)


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        ("metrics: {utilization: [{name: a-b, unit: ratio}]}", "metric name"),
        ("metrics: {utilization: [{name: busy, unit: parts}]}", "unit"),
        ("metrics: {utilization: [{name: busy}]}", "unit"),
        ("metrics: {labels: {pod: ['a b']}}", "label"),
        ("metrics: {owner: {name: a-b}}", "metric name"),
    ],
)
def test_metrics_that_prometheus_has_not_are_refused(metrics: str, problem: str) -> None:
    with pytest.raises(ManifestErrors, match=problem):
        load_profiles([("acme.yml", ACME_PROFILE + metrics)])


def test_an_administrator_adds_a_metric_to_a_built_in_exporter() -> None:
    own = "kind: accelerator\naccelerator: {name: nvidia}\nmetrics: {utilization: [{name: ours, unit: percent}]}"
    changed = built_in_catalog().with_profiles(load_profiles([("own.yml", own)]))
    exporter = changed.profiles["nvidia"].exporters[0]
    assert [series.name for series in exporter.series("utilization")] == ["ours"]
    assert exporter.port == 9400


@pytest.mark.parametrize(
    ("resource", "profile", "kind"),
    [
        ("nvidia.com/gpu", "nvidia", "devices"),
        ("nvidia.com/gpu.shared", "nvidia", "shares"),
        ("nvidia.com/mig-1g.10gb", "nvidia", "partitions"),
        ("nvidia.com/mig-1g.24gb.me.all", "nvidia", "partitions"),
        ("nvidia.com/gpumem", "nvidia", "memory"),
        ("nvidia.com/gpucores", "nvidia", "cores"),
        ("aliyun.com/gpu-mem", "nvidia", "memory"),
        ("volcano.sh/vgpu-number", "nvidia", "shares"),
        ("amd.com/gpu", "amd", "devices"),
        ("amd.com/cpx_nps4", "amd", "partitions"),
        ("huawei.com/Ascend910", "ascend", "devices"),
        ("huawei.com/Ascend910-2c", "ascend", "partitions"),
        ("huawei.com/Ascend910-6c.1cpu.16g", "ascend", "partitions"),
        ("huawei.com/Ascend310P-4c.3cpu", "ascend-310p", "partitions"),
        ("huawei.com/npu", "ascend-950", "devices"),
        ("cambricon.com/mlu.mim-2m.8gb", "cambricon", "partitions"),
        ("aws.amazon.com/neuroncore", "neuron", "partitions"),
        ("google.com/tpu", "tpu", "devices"),
        ("habana.ai/gaudi", "gaudi", "devices"),
        ("gpu.intel.com/xe", "intel-xe", "devices"),
    ],
)
def test_a_resource_belongs_to_a_profile(resource: str, profile: str, kind: str) -> None:
    row = catalog().row(resource)
    assert row is not None
    assert (row.profile, row.kind, row.resource) == (profile, kind, resource)


@pytest.mark.parametrize(
    "resource",
    ["cpu", "memory", "hugepages-2Mi", "rdma/hca_shared_devices_a", "gpu.intel.com/monitoring", "nvidia.com/mig-x",
     "vpc.amazonaws.com/efa", "huawei.com/Ascend910-memory", "example.com/gpu"],
)  # fmt: skip
def test_other_resources_belong_to_none(resource: str) -> None:
    assert catalog().row(resource) is None


# ---- Profiles of administrators


def test_a_profile_of_a_known_name_changes_only_what_it_says() -> None:
    text = "{kind: accelerator, accelerator: {name: nvidia}, pod: {runtime_class: nvidia}, labels: {count: x.org/n}}"
    changed = built_in_catalog().with_profiles(load_profiles([("file", text)])).profiles["nvidia"]
    before = built_in_catalog().profiles["nvidia"]
    assert changed.part("pod") == {"runtime_class": "nvidia"}
    assert changed.part("labels") == {**before.part("labels"), "count": "x.org/n"}
    assert changed.device == before.device
    assert changed.backends == before.backends


def test_a_profile_is_like_another_without_some_of_it() -> None:
    text = """
    {kind: accelerator, accelerator: {name: ascend-x}, like: ascend, resource: huawei.com/X, without: [partitions]}
    """
    found = built_in_catalog().with_profiles(load_profiles([("file", text)])).profiles["ascend-x"]
    assert found.partition("2c") is None
    assert found.part("library")["name"] == "Huawei HCCL"
    assert found.device.resource == "huawei.com/X"


@pytest.mark.parametrize(
    ("profiles", "problem"),
    [
        ({"a": {"like": "b"}}, "like a profile that there is not: b"),
        ({"a": {"like": "b"}, "b": {"like": "a"}}, "profiles that are like each other: a, b"),
        ({"a": {"resource": "x.example/y"}}, "required key is missing: noun, singular"),
    ],
)
def test_a_profile_that_cannot_be_used(profiles: dict[str, Any], problem: str) -> None:
    with pytest.raises(ProfileError, match=problem):
        Catalog(profiles)


# ---- What a job gets

ASCEND, AMD = PoolHardware(accelerator="ascend"), PoolHardware(accelerator="amd")
HAMI, VOLCANO = PoolHardware(share_backend="hami"), PoolHardware(share_backend="volcano")
GETS: dict[str, tuple[PoolHardware, dict[str, Any], dict[str, int], int]] = {
    "nothing": (ASCEND, {}, {}, 0),
    "the accelerator of the pool": (ASCEND, {"gpu": 4}, {"huawei.com/Ascend910": 4}, 4),
    "the one of the manifest": (PoolHardware(), {"gpu": 4, "accelerator": "amd"}, {"amd.com/gpu": 4}, 4),
    "a profile of the same devices": (ASCEND, {"gpu": 2, "accelerator": "ascend"}, {"huawei.com/Ascend910": 2}, 2),
    "partitions": (PoolHardware(), {"gpu": 2, "partition": "1g.10gb"}, {"nvidia.com/mig-1g.10gb": 2}, 0),
    "a profile of MIG as NVIDIA writes it": (
        PoolHardware(),
        {"gpu": 1, "partition": "1g.24gb+me.all"},
        {"nvidia.com/mig-1g.24gb.me.all": 1},
        0,
    ),
    "a time-sliced device": (PoolHardware(), {"gpu": 1, "partition": "shared"}, {"nvidia.com/gpu.shared": 1}, 0),
    "a static vNPU": (ASCEND, {"gpu": 1, "partition": "6c.1cpu.16g"}, {"huawei.com/Ascend910-6c.1cpu.16g": 1}, 0),
    "partitions of AMD": (AMD, {"gpu": 8, "partition": "cpx_nps4"}, {"amd.com/cpx_nps4": 8}, 0),
    "a core of Neuron": (
        PoolHardware(accelerator="neuron"),
        {"gpu": 2, "partition": "core"},
        {"aws.amazon.com/neuroncore": 2},
        0,
    ),
    "a share, by default of gpushare": (PoolHardware(), {"gpu-share": "2500Mi"}, {"aliyun.com/gpu-mem": 3}, 0),
    "a share of HAMi": (HAMI, {"gpu-share": "2500Mi"}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2500}, 0),
    "a share with cores": (
        HAMI,
        {"gpu-share": "1Gi", "gpu-cores": 30},
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024, "nvidia.com/gpucores": 30},
        0,
    ),
    "a whole device where HAMi shares them": (HAMI, {"gpu": 2}, {"nvidia.com/gpu": 2}, 2),
    "a share of Volcano": (
        VOLCANO,
        {"gpu-share": "1Gi"},
        {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1024},
        0,
    ),
    "a whole device where Volcano shares them": (VOLCANO, {"gpu": 2}, {"volcano.sh/vgpu-number": 2}, 2),
    "units of 256 MiB": (
        PoolHardware(accelerator="cambricon", share_backend="hami"),
        {"gpu-share": "1Gi"},
        {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 4},
        0,
    ),
    "the next of the sizes that there are": (
        PoolHardware(accelerator="kunlunxin"),
        {"gpu-share": "30Gi"},
        {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 49152},
        0,
    ),
    "RDMA": (
        PoolHardware(rdma_resource="rdma/hca"),
        {"gpu": 8, "interconnect": "rdma"},
        {"nvidia.com/gpu": 8, "rdma/hca": 1},
        8,
    ),
}


@pytest.mark.parametrize(("pool", "resources", "amounts", "whole"), GETS.values(), ids=GETS)
def test_what_the_container_requests(
    pool: PoolHardware, resources: dict[str, Any], amounts: dict[str, int], whole: int
) -> None:
    gets = equipment(training(**resources).model.resources, pool)
    assert gets.amounts == amounts
    assert gets.whole_devices == whole
    assert whole_devices(gets.amounts) == whole, "it is counted as it was asked for"
    (container,) = pod_spec(pool, **resources)["containers"]
    requested = {name: int(value) for name, value in container["resources"]["limits"].items() if "/" in name}
    assert requested == amounts


REFUSED: dict[str, tuple[PoolHardware, dict[str, Any], str]] = {
    "an unknown accelerator": (
        PoolHardware(),
        {"gpu": 1, "accelerator": "nvida"},
        "resources.accelerator: unknown accelerator: nvida. Known are amd, ascend, ",
    ),
    "a pool with an unknown one": (
        PoolHardware(accelerator="gone"),
        {"gpu": 1},
        "resources.pool: a pool with an unknown accelerator: gone. Known are amd, ascend, ",
    ),
    "another one than the pool's": (
        ASCEND,
        {"gpu": 1, "accelerator": "nvidia"},
        "resources.accelerator: nvidia in a pool with Ascend NPUs (ascend). Correct it or resources.pool, or remove "
        "it.",
    ),
    "an unknown partition": (
        PoolHardware(),
        {"gpu": 1, "partition": "2c"},
        "resources.partition: GPUs have no such partition: 2c. Write it as its resource does: "
        "nvidia.com/mig-{partition}.",
    ),
    "partitions of what has none": (
        PoolHardware(accelerator="tpu"),
        {"gpu": 1, "partition": "2c"},
        "resources.partition: TPU chips have no such partition: 2c. Remove it.",
    ),
    "more partitions than a pod can have": (
        ASCEND,
        {"gpu": 2, "partition": "2c"},
        "resources.gpu: too many Ascend vNPUs 2c for a pod: 2. Use at most 1.",
    ),
    "a number that the hardware has not": (
        PoolHardware(accelerator="kunlunxin"),
        {"gpu": 3},
        "resources.gpu: not a number of Kunlunxin XPUs that a pod can have: 3. Use 1, 2, 4 or 8.",
    ),
    "what cannot be shared": (
        PoolHardware(accelerator="tpu"),
        {"gpu-share": "1Gi"},
        "resources.gpu-share: TPU chips cannot be shared. Use gpu instead.",
    ),
    "a backend that the profile lacks": (
        PoolHardware(accelerator="amd", share_backend="aliyun"),
        {"gpu-share": "1Gi"},
        "resources.pool: a pool whose share_backend amd does not have: aliyun. Declare the pool with hami.",
    ),
    "more memory than a share can have": (
        PoolHardware(accelerator="kunlunxin"),
        {"gpu-share": "100Gi"},
        "resources.gpu-share: more than shared Kunlunxin XPU memory that there is: 100Gi. Use at most 48Gi.",
    ),
    "cores of a backend without them": (
        PoolHardware(),
        {"gpu-share": "1Gi", "gpu-cores": 10},
        "resources.gpu-cores: aliyun does not limit the compute of a share. Remove it.",
    ),
    "RDMA in a pool without": (
        PoolHardware(),
        {"gpu": 1, "interconnect": "rdma"},
        "resources.interconnect: rdma in a pool that declares no RDMA resource. Declare rdma_resource of the pool "
        "with M(gpuctl_pool), or remove it.",
    ),
    "NVLink of others": (
        ASCEND,
        {"gpu": 1, "interconnect": "nvlink-domain"},
        "resources.interconnect: Ascend NPUs have no domains of NVLink. Remove it.",
    ),
    "memory that no label tells": (
        PoolHardware(accelerator="tpu"),
        {"gpu": 1, "gpu-memory": "80G"},
        "resources.gpu-memory: no label of nodes says how much memory TPU chips have. Use gpu-type instead.",
    ),
    "more memory than any device has": (
        AMD,
        {"gpu": 1, "gpu-memory": "1Ti"},
        "resources.gpu-memory: more memory than any AMD GPU has: 1Ti. Use at most 288Gi.",
    ),
}


@pytest.mark.parametrize(("pool", "resources", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_the_hardware_does_not_have(pool: PoolHardware, resources: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnfitHardware) as refused:
        equipment(training(**resources).model.resources, pool)
    assert str(refused.value).startswith(sentence)


TYPED = PoolHardware(
    types=frozenset({"A100-100G", "L40s"}),
    type_aliases={"a100": "A100-100G", "Hopper": "NVIDIA-H100-80GB-HBM3"},
)


@pytest.mark.parametrize(
    ("pool", "wanted", "selector"),
    [
        (TYPED, "A100-100G", {GPU_TYPE: "A100-100G"}),
        (TYPED, "a100-100g", {GPU_TYPE: "A100-100G"}),
        (TYPED, "A100", {GPU_TYPE: "A100-100G"}),
        (TYPED, "l40S", {GPU_TYPE: "L40s"}),
        (TYPED, "hopper", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
        (TYPED, "H200", {GPU_TYPE: "H200"}),
        (PoolHardware(), "h200", {GPU_TYPE: "h200"}),
        (
            PoolHardware(accelerator="ascend", type_aliases={"910B": "910B3"}),
            "910b",
            {"node.kubernetes.io/npu.chip.name": "910B3"},
        ),
    ],
)
def test_a_type_is_known_in_any_case_and_by_the_aliases_of_the_pool(
    pool: PoolHardware, wanted: str, selector: dict[str, str]
) -> None:
    assert pod_spec(pool, gpu=1, **{"gpu-type": wanted})["nodeSelector"] == selector


@pytest.mark.parametrize(
    ("pool", "least", "expression"),
    [
        (PoolHardware(), "80G", {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["76293"]}),
        (PoolHardware(), "40Gi", {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40959"]}),
        (AMD, "192Gi", {"key": "amd.com/gpu.vram", "operator": "In", "values": ["192G", "256G", "288G"]}),
        (ASCEND, "60G", {"key": "mind-cluster/npu-chip-memory", "operator": "In", "values": ["64G", "96G", "128G"]}),
    ],
)
def test_the_memory_of_a_device_is_that_of_its_nodes_label(
    pool: PoolHardware, least: str, expression: dict[str, Any]
) -> None:
    affinity = pod_spec(pool, gpu=1, **{"gpu-memory": least})["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "runwhere.ai/pool", "operator": "DoesNotExist"}, expression]


def test_pods_get_what_the_profile_says_that_they_need() -> None:
    text = """
    {kind: accelerator, accelerator: {name: nvidia}, pod: {runtime_class: nvidia, env: {A: a, B: b},
     annotations: {x.org/y: z}, labels: {l: v}}}
    """
    use_catalog(built_in_catalog().with_profiles(load_profiles([("file", text)])))
    try:
        (job,) = build(training(gpu=1).model, "ml").objects
        (plain,) = build(training().model, "ml").objects
    finally:
        use_catalog(None)
    template = job["spec"]["template"]
    assert template["spec"]["runtimeClassName"] == "nvidia"
    assert {"name": "A", "value": "a"} in template["spec"]["containers"][0]["env"]
    assert template["metadata"]["annotations"] == {"x.org/y": "z"}
    assert template["metadata"]["labels"]["l"] == "v"
    assert "runtimeClassName" not in plain["spec"]["template"]["spec"]


def test_a_backend_with_a_scheduler_of_its_own() -> None:
    assert pod_spec(VOLCANO, **{"gpu-share": "1Gi"})["schedulerName"] == "volcano"


# ---- What runs on it

CUDA, CANN, OURS = "nvcr.io/nvidia/pytorch:24.05", "quay.io/ascend/cann:8.0", "registry.example.com/team/train:v1"
UNFIT: dict[str, tuple[PoolHardware, dict[str, Any], str]] = {
    "a CUDA image on Ascend, by its repository": (
        ASCEND,
        {"image": CUDA},
        "environment.image: an image for GPUs (nvidia) on Ascend NPUs (ascend): nvcr.io/nvidia/pytorch:24.05. Use "
        "another image or pool, or set environment.framework if the image runs there.",
    ),
    "a CUDA image on Ascend, by a word": (
        ASCEND,
        {"image": "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"},
        "environment.image: an image for GPUs (nvidia) on Ascend NPUs (ascend): ",
    ),
    "an Ascend image on NVIDIA": (
        PoolHardware(),
        {"image": CANN},
        "environment.image: an image for Ascend NPUs (ascend) on GPUs (nvidia): quay.io/ascend/cann:8.0.",
    ),
    "a Gaudi image on Ascend, whose libraries have the same name": (
        ASCEND,
        {"image": "vault.habana.ai/gaudi-docker/1.18/pytorch:latest"},
        "environment.image: an image for Gaudi accelerators (gaudi) on Ascend NPUs (ascend): ",
    ),
    "a framework of another chip": (
        ASCEND,
        {"image": OURS, "framework": "cuda"},
        "environment.framework: cuda does not run on Ascend NPUs (ascend). There run cann, deepspeed, ",
    ),
    "a framework that NVIDIA does not have": (
        PoolHardware(),
        {"image": OURS, "framework": "cann"},
        "environment.framework: cann does not run on GPUs (nvidia). There run cuda, ",
    ),
}


def environment(**fields: str) -> Any:
    manifest = {
        "kind": "notebook",
        "job": {"name": "n"},
        "environment": fields,
        "resources": {"cpu": "8", "memory": "32Gi", "gpu": 1},
    }
    (document,) = load(definition=manifest)
    return document.model


@pytest.mark.parametrize(("pool", "fields", "sentence"), UNFIT.values(), ids=UNFIT)
def test_software_of_another_chip_is_refused(pool: PoolHardware, fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(UnfitHardware) as refused:
        build(environment(**fields), "ml", pool)
    assert str(refused.value).startswith(sentence)


UNTOLD = (
    "nothing tells whether the image is for Ascend NPUs: registry.example.com/team/train:v1. Set environment.framework "
    "to say what it is built for."
)
WEAK = (
    "an image for TPU chips (tpu) on GPUs (nvidia): registry.example.com/tpu-tools:1. Use another image or pool, or "
    "set environment.framework if the image runs there."
)


@pytest.mark.parametrize(
    ("pool", "fields", "warnings"),
    [
        (PoolHardware(), {"image": OURS}, []),
        (PoolHardware(), {"image": CUDA}, []),
        (PoolHardware(), {"image": "registry.example.com/barracuda:v1"}, []),
        (PoolHardware(), {"image": "registry.example.com/tpu-tools:1"}, [WEAK]),
        (PoolHardware(), {"image": "registry.example.com/tpu-tools:1", "framework": "cuda"}, []),
        (ASCEND, {"image": CANN}, []),
        (ASCEND, {"image": OURS}, [UNTOLD]),
        (ASCEND, {"image": OURS, "framework": "mindspore"}, []),
        (ASCEND, {"image": "registry.example.com/mindie:1.0"}, []),
        (PoolHardware(accelerator="ascend-310p"), {"image": CANN}, []),
        (AMD, {"image": "rocm/pytorch:latest"}, []),
        (AMD, {"image": "pytorch/pytorch:2.4.0-cuda12.4", "framework": "pytorch"}, []),
    ],
)
def test_what_is_known_of_images(pool: PoolHardware, fields: dict[str, str], warnings: list[str]) -> None:
    said = [text for text in build(environment(**fields), "ml", pool).warnings if "image" in text]
    assert said == warnings


# ---- An unknown vendor counts everywhere


@pytest.mark.usefixtures("acme")
def test_the_container_requests_them() -> None:
    spec = pod_spec(PoolHardware(accelerator="acme"), gpu=2)
    (container,) = spec["containers"]
    expected = {"cpu": "8", "memory": "32Gi", ACME: "2"}
    assert container["resources"] == {"requests": expected, "limits": expected}
    assert spec["tolerations"] == [{"key": ACME, "operator": "Exists", "effect": "NoSchedule"}]
    assert {"name": "FORCE_TORCHRUN", "value": "1"} in container["env"], "one process for each of them"
    assert [volume["emptyDir"] for volume in spec["volumes"]] == [{"medium": "Memory", "sizeLimit": "16Gi"}]


@pytest.mark.usefixtures("acme")
def test_nodes_and_pools_count_them() -> None:
    objects = [acme_node(8, name="a"), node("b", gpu=4)]
    pods = [acme_pod(3, nodeName="a"), pod("y", gpu=1, nodeName="b")]
    nodes = accounted(objects, pods)
    assert [[node_row(each)[f"gpu_{what}"] for what in ("total", "used", "free")] for each in nodes] == [
        [8, 3, 5],
        [4, 1, 3],
    ]
    assert slim_node(objects[0]).has_gpus
    (pool,) = pool_rows({}, nodes, map(slim_pod, pods))
    assert (pool["gpu_total"], pool["gpu_used"], pool["gpu_free"]) == (12, 4, 8)
    assert [job["gpu"] for job in pool["jobs"]] == [4]


@pytest.mark.usefixtures("acme")
def test_a_pause_releases_them() -> None:
    live = {**workload("Job", suspend=False), "apiVersion": "batch/v1"}
    assert pause(LiveJob("ml", "x", live, pods=(acme_pod(2, nodeName="a"),))).released_gpus == 2


@pytest.mark.usefixtures("acme")
def test_a_job_row_counts_them() -> None:
    live = workload("Job")
    live["spec"]["template"]["spec"] = acme_pod(2)["spec"]
    assert job_row(live, datetime.now(timezone.utc))["gpu"] == 2


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("obj", "others", "sentence", "hint"),
    [
        (
            acme_node(4),
            [],
            "it needs 6 Acme NPUs on one node, but the largest node of the cluster has 4 Acme NPUs",
            "Lower resources.gpu, or spread the training with resources.node_count",
        ),
        (
            node(),
            [],
            "no node of the cluster has Acme NPUs",
            f"Set resources.pool to a pool with Acme NPUs, or install the device plugin for {ACME}",
        ),
        (
            acme_node(8),
            [acme_pod(7, nodeName="n1")],
            "it needs 6 Acme NPUs on one node, but the only node of the cluster has 1 Acme NPU free (on n1), "
            "5 Acme NPUs short",
            "Wait for other jobs to finish, delete one, or raise job.priority",
        ),
        (
            acme_node(8, taints=[ACME_TAINT]),
            [],
            f"the nodes of the cluster only accept jobs that use GPUs (taint {ACME})",
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
    found = shortage_of(acme_pod(6), accounted([obj], others))
    assert found is not None
    assert (found.text, found.hint) == (sentence, hint)


def test_nothing_else_is_a_profile() -> None:
    with pytest.raises(ManifestErrors, match="not an accelerator: quota"):
        load_profiles([("file", "{kind: quota, quota: {name: q}}")])
