# SPDX-License-Identifier: BSD-2-Clause
"""What a pool says of its network: RDMA, and the levels within which the nodes of a training are placed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware, UnfitHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.built import Built
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.pod_levels import violations

BuildJob = Callable[..., Built]
TOPOLOGY = {"block": "example.com/block", "rack": "example.com/rack", "machine": "kubernetes.io/hostname"}
POOL = PoolHardware(
    rdma_resource="rdma/hca", rdma_env={"NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "ib0"}, topology=TOPOLOGY
)


def pod_of(built: Built) -> dict[str, Any]:
    return dict(built.workload["spec"]["template"]["spec"])


def env_of(built: Built) -> dict[str, Any]:
    (container,) = pod_of(built)["containers"]
    return {each["name"]: each.get("value") for each in container["env"]}


def two_nodes(build_job: BuildJob, *changes: dict[str, Any]) -> Built:
    return build_job({"resources": {"gpu": 8, "node_count": 2}}, *changes, pool=POOL)


RDMA = {"resources": {"interconnect": "rdma"}}


def test_rdma_is_the_pools_resource_memory_that_can_be_locked_and_the_pools_variables(build_job: BuildJob) -> None:
    built = two_nodes(build_job, RDMA)
    (container,) = pod_of(built)["containers"]
    assert container["resources"]["limits"]["rdma/hca"] == "1"
    assert container["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}
    assert "/dev/shm" in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert env_of(built).items() >= POOL.rdma_env.items(), "rather than the default interface"


def test_a_job_without_rdma_gets_none_of_it(build_job: BuildJob) -> None:
    built = two_nodes(build_job)
    assert "capabilities" not in pod_of(built)["containers"][0]["securityContext"]
    assert "NCCL_IB_HCA" not in env_of(built)
    assert env_of(built)["NCCL_SOCKET_IFNAME"] == "eth0"


def test_rdma_without_accelerators_has_shared_memory_too(build_job: BuildJob) -> None:
    built = build_job(RDMA, pool=POOL)
    assert [volume["name"] for volume in pod_of(built)["volumes"]] == ["dshm"]


def test_what_the_manifest_says_of_the_network_wins(build_job: BuildJob) -> None:
    built = two_nodes(build_job, RDMA, {"distributed": {"socket_ifname": "eth0"}})
    assert env_of(built)["NCCL_SOCKET_IFNAME"] == "eth0"
    built = two_nodes(build_job, RDMA, {"environment": {"env": {"NCCL_IB_HCA": "mlx5_1"}}})
    assert env_of(built)["NCCL_IB_HCA"] == "mlx5_1"
    assert any("environment.env sets NCCL_IB_HCA" in warning for warning in built.warnings)


def test_rdma_is_forbidden_by_the_levels_of_pod_security(build_job: BuildJob) -> None:
    workload = two_nodes(build_job, RDMA).workload
    assert list(violations(workload, "privileged")) == []
    for level in ("baseline", "restricted"):
        ((place, problem, _hint),) = violations(workload, level)
        assert (place, problem) == ("resources.interconnect", "the capability IPC_LOCK, which RDMA needs")


# -- topology ----------------------------------------------------------------------------------------------------------


def within(level: str, *, required: bool = False, queue: str = "none") -> dict[str, Any]:
    named = {} if queue in ("none", "volcano") else {"name": "q"}
    placement = {"within": level, "required": required}
    return {"distributed": {"placement": placement}, "queue": {"backend": queue, **named}}


@pytest.mark.parametrize("queue", ["none", "kai"])
def test_the_scheduler_keeps_a_training_within_a_level(build_job: BuildJob, queue: str) -> None:
    affinity = pod_of(two_nodes(build_job, within("rack", required=True, queue=queue)))["affinity"]["podAffinity"]
    (term,) = affinity.pop("requiredDuringSchedulingIgnoredDuringExecution")
    assert term["topologyKey"] == "example.com/rack"
    assert term["labelSelector"]["matchLabels"]["app"] == "bert"
    assert not affinity

    affinity = pod_of(two_nodes(build_job, within("rack", queue=queue)))["affinity"]["podAffinity"]
    ((kind, (preferred,)),) = affinity.items()
    assert kind.startswith("preferred")
    assert preferred["podAffinityTerm"] == term


@pytest.mark.parametrize(
    ("queue", "level", "required", "annotations"),
    [
        ("kueue", "rack", True, {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}),
        ("kueue", "block", False, {"kueue.x-k8s.io/podset-preferred-topology": "example.com/block"}),
        (
            "volcano",
            "block",
            True,
            {"volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "3"},
        ),
        (
            "volcano",
            "machine",
            False,
            {"volcano.sh/network-topology-mode": "soft", "volcano.sh/network-topology-highest-tier": "1"},
        ),
    ],
)
def test_a_queue_places_by_the_topology_itself(
    build_job: BuildJob, queue: str, level: str, required: bool, annotations: dict[str, str]
) -> None:
    template = two_nodes(build_job, within(level, required=required, queue=queue)).workload["spec"]["template"]
    assert template["metadata"]["annotations"] == annotations
    assert "podAffinity" not in template["spec"]["affinity"]


def test_a_training_over_nvlink_stays_in_one_domain(build_job: BuildJob) -> None:
    nvlink = {"resources": {"gpu": 4, "interconnect": "nvlink-domain"}}
    affinity = pod_of(build_job(nvlink, {"resources": {"node_count": 2}}))["affinity"]
    (term,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "nvidia.com/gpu.clique"
    assert "podAffinity" not in pod_of(build_job(nvlink))["affinity"], "a node is in one domain"


def test_machines_and_level_go_together(build_job: BuildJob) -> None:
    placement = {"machines": "pack", "within": "rack"}
    affinity = pod_of(two_nodes(build_job, {"distributed": {"placement": placement}}))["affinity"]["podAffinity"]
    ((_kind, terms),) = affinity.items()
    keys = [term["podAffinityTerm"]["topologyKey"] for term in terms]
    assert keys == ["kubernetes.io/hostname", "example.com/rack"]


@pytest.mark.parametrize(
    ("pool", "known"), [(POOL, "It declares block, rack, machine"), (PoolHardware(), "It declares none")]
)
def test_a_level_that_the_pool_does_not_declare(build_job: BuildJob, pool: PoolHardware, known: str) -> None:
    with pytest.raises(UnfitHardware) as refusal:
        build_job({"resources": {"node_count": 2}}, within("row"), pool=pool)
    assert refusal.value.place == "distributed.placement.within"
    assert refusal.value.problem == "a level that pool default does not declare: row"
    assert refusal.value.hint.startswith(known)


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"distributed": {"launcher": "torchrun"}}, "torchrun without a command to start"),
        ({"distributed": {"rank_table": True}}, "no command that could wait for it"),
        (
            {"environment": {"command": ["sh", "train.sh"]}, "distributed": {"launcher": "msrun"}},
            "msrun of a program other than Python: sh",
        ),
        (
            {"environment": {"framework": "mindspore", "command": ["t"]}, "distributed": {"launcher": "torchrun"}},
            "torchrun does not start groups of mindspore",
        ),
    ],
)
def test_a_launcher_that_cannot_start_the_command(build_job: BuildJob, manifest: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnfitHardware) as refusal:
        build_job(manifest)
    assert refusal.value.problem == problem


@pytest.mark.parametrize("accelerator", ["nvidia", "ascend", "amd"])
def test_all_nodes_of_a_training_have_one_library(build_job: BuildJob, accelerator: str) -> None:
    """One pod template, and in it the devices of one profile: there is no way to write a gang of two libraries."""
    built = build_job({"resources": {"gpu": 8, "node_count": 2, "accelerator": accelerator}})
    (container,) = pod_of(built)["containers"]
    assert len(container["resources"]["limits"].keys() - {"cpu", "memory"}) == 1
