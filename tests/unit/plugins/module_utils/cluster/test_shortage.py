# SPDX-License-Identifier: BSD-2-Clause
"""Why a pod fits on no node: a case for every sentence."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster import shortage
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.shortage import Shortages, shortage_of

from .live_objects import GPU, GPU_TYPE, NO_POOL, POOL, accounted, node, pod

A = {POOL: "a"}
A100 = {POOL: "a", GPU_TYPE: "A100"}
ARCH = "kubernetes.io/arch"
ON_ARM = {"name": "main", "image": "registry.example.com/vllm:0.6-aarch64", "resources": {"requests": {"cpu": "1"}}}
PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


def busy(where: str, gpu: int = 0, **amounts: str) -> dict[str, Any]:
    return pod(f"busy-on-{where}", gpu=gpu, nodeName=where, **amounts)  # type: ignore[arg-type]


HAMI = {"name": "main", "resources": {"requests": {GPU: "1", "nvidia.com/gpumem": "2000", "cpu": "1"}}}


def required(expression: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def more_than(mebibytes: int) -> dict[str, Any]:
    return required({"key": MEMORY, "operator": "Gt", "values": [str(mebibytes)]})


# the pod, nodes, other pods, the sentence
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]], str | None]] = {
    "it fits": (pod(gpu=1, nodeSelector=A), [node(labels=A)], [], None),
    # -- the place
    "a pool that does not exist": (
        pod(nodeSelector={POOL: "trainig"}),
        [node("n1", labels=A), node("n2", labels={POOL: "b"}), node("n3")],
        [],
        "pool trainig has no nodes. Correct resources.pool (existing pools: a and b), or add nodes to the pool "
        "with M(gpuctl_pool)",
    ),
    "a cluster without pools": (
        pod(nodeSelector=A),
        [node()],
        [],
        "pool a has no nodes. Correct resources.pool (no pools exist), or add nodes to the pool with M(gpuctl_pool)",
    ),
    "no pool is named, and every node is in one": (
        pod(affinity=NO_POOL),
        [node(labels=A)],
        [],
        "it names no pool, and every node is in one. Set resources.pool (existing pools: a)",
    ),
    "a cluster without nodes": (pod(), [], [], "the cluster has no nodes"),
    "a pod that is bound to no pool goes anywhere": (pod(gpu=1), [node(labels=A)], [], None),
    # -- labels
    "a GPU type that the pool does not have": (
        pod(gpu=1, nodeSelector={POOL: "a", GPU_TYPE: "H100"}),
        [node("n1", labels=A100), node("n2", labels={POOL: "a", GPU_TYPE: "A800"})],
        [],
        "GPU type H100 not found in pool a. Available GPU types: A100 and A800. Correct resources.gpu-type, or "
        "remove it",
    ),
    "a GPU type where no node has one": (
        pod(gpu=1, nodeSelector={POOL: "a", GPU_TYPE: "H100"}),
        [node(labels=A)],
        [],
        "GPU type H100 not found in pool a, where no node has the label runwhere.ai/gpu-type. Remove "
        "resources.gpu-type, or set the label with M(gpuctl_pool,gpuctl_node_label)",
    ),
    "a node selector of others": (
        pod(nodeSelector={POOL: "a", "zone": "1"}),
        [node(labels=A)],
        [],
        "no node of pool a matches its node selector zone=1",
    ),
    "the type of an alias, which is the vendor's": (
        pod(gpu=1, nodeSelector={**A, PRODUCT: "NVIDIA-H100-80GB-HBM3"}),
        [node(labels={**A, PRODUCT: "NVIDIA-A100-SXM4-80GB"})],
        [],
        "GPU type NVIDIA-H100-80GB-HBM3 not found in pool a. Available GPU types: NVIDIA-A100-SXM4-80GB. Correct "
        "resources.gpu-type, or remove it",
    ),
    "too little memory": (
        pod(gpu=1, nodeSelector=A, affinity=more_than(76293)),
        [node("n1", labels={**A, MEMORY: "40960"}), node("n2", labels={**A, MEMORY: "24564"})],
        [],
        "no node of pool a has GPUs with the memory that it needs (label nvidia.com/gpu.memory: it says 24564 and "
        "40960). Lower resources.gpu-memory, or set resources.pool to another pool",
    ),
    "memory that no label tells": (
        pod(gpu=1, nodeSelector=A, affinity=more_than(76293)),
        [node(labels=A)],
        [],
        "no node of pool a has GPUs with the memory that it needs (label nvidia.com/gpu.memory: none has it). Lower "
        "resources.gpu-memory, or set resources.pool to another pool",
    ),
    "enough memory on one node, which is full": (
        pod(gpu=8, nodeSelector=A, affinity=more_than(76293)),
        [node("n1", labels={**A, MEMORY: "81920"}), node("n2", labels={**A, MEMORY: "40960"})],
        [busy("n1", gpu=1)],
        "it needs 8 GPUs on one node, but the only node of pool a has 7 GPUs free (on n1), 1 GPU short. Wait for "
        "other jobs to finish, delete one, or raise job.priority",
    ),
    "no domain of NVLink": (
        pod(gpu=1, nodeSelector=A, affinity=required({"key": "nvidia.com/gpu.clique", "operator": "Exists"})),
        [node(labels=A)],
        [],
        "no node of pool a is in a domain of fast links (label nvidia.com/gpu.clique). Remove resources.interconnect, "
        "or set resources.pool to another pool",
    ),
    "a node affinity of others": (
        pod(nodeSelector=A, affinity=required({"key": "zone", "operator": "In", "values": ["a", "b"]})),
        [node(labels=A)],
        [],
        "no node of pool a matches its node affinity zone In a,b",
    ),
    "an invalid configuration of MIG": (
        pod(gpu=1, nodeSelector=A),
        [node(labels={**A, PRODUCT: "A100-MIG-INVALID"}, gpu=0)],
        [],
        "the configuration of the GPUs is invalid on every node of pool a (A100-MIG-INVALID). Correct it, for NVIDIA "
        "with the node label nvidia.com/mig.config",
    ),
    "a share of more than a device": (
        pod(share=100, nodeSelector=A),
        [node(labels={**A, MEMORY: "81920"}, **{"aliyun.com/gpu-mem": "640"})],
        [],
        "it needs 100Gi of shared GPU memory, but the largest GPU of pool a has 80Gi. Lower resources.gpu-share",
    ),
    "an image for other CPUs": (
        {**pod(nodeSelector=A), "spec": {**pod(nodeSelector=A)["spec"], "containers": [ON_ARM]}},
        [node("n1", labels={**A, ARCH: "amd64"})],
        [],
        "the image is for CPUs of arm64, but the nodes of pool a have those of amd64. Use another image, or set "
        "resources.pool to another pool",
    ),
    "nodes of several CPUs": (
        {**pod(nodeSelector=A), "spec": {**pod(nodeSelector=A)["spec"], "containers": [ON_ARM]}},
        [node("n1", labels={**A, ARCH: "amd64"}), node("n2", labels={**A, ARCH: "arm64"})],
        [],
        None,
    ),
    # -- taints
    "a job without GPUs where all nodes are reserved for GPU jobs": (
        pod(nodeSelector=A),
        [node(labels=A, taints=[TAINT])],
        [],
        "the nodes of pool a only accept jobs that use GPUs (taint nvidia.com/gpu). Set resources.pool to a pool "
        "with other nodes",
    ),
    "a taint of others": (
        pod(nodeSelector=A, tolerations=[TOLERATION]),
        [node(labels=A, taints=[{"key": "team", "value": "b", "effect": "NoExecute"}])],
        [],
        "every node of pool a has a taint that it does not tolerate: team. Set resources.pool to another pool",
    ),
    "a taint that is tolerated": (
        pod(gpu=1, nodeSelector=A, tolerations=[TOLERATION]),
        [node(labels=A, taints=[TAINT])],
        [],
        None,
    ),
    "a taint that is only a wish": (
        pod(nodeSelector=A),
        [node(labels=A, taints=[{"key": "x", "effect": "PreferNoSchedule"}])],
        [],
        None,
    ),
    "a toleration of another value": (
        pod(nodeSelector=A, tolerations=[{"key": "team", "value": "a"}]),
        [node(labels=A, taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}])],
        [],
        "every node of pool a has a taint that it does not tolerate: team. Set resources.pool to another pool",
    ),
    "a toleration of everything": (
        pod(nodeSelector=A, tolerations=[{"operator": "Exists"}]),
        [node(labels=A, taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}])],
        [],
        None,
    ),
    "the nodes that keep it away do not count": (
        pod(gpu=9, affinity=NO_POOL),
        [node("control", gpu=16, taints=[{"key": "control-plane", "effect": "NoSchedule"}]), node("n1")],
        [],
        "it needs 9 GPUs on one node, but the largest node of pool default whose taints it tolerates has 8 GPUs. "
        "Lower resources.gpu, or spread the training with resources.node_count",
    ),
    # -- too large for ever
    "more GPUs than any node has": (
        pod(gpu=16, nodeSelector=A100),
        [node("n1", labels=A100), node("n2", labels=A, gpu=99)],
        [],
        "it needs 16 GPUs on one node, but the largest node of pool a with GPU type A100 has 8 GPUs. Lower "
        "resources.gpu, or spread the training with resources.node_count",
    ),
    "and it is not a training": (
        pod(gpu=2, nodeSelector=A, labels={"app": "x", "runwhere.ai/job-type": "notebook"}),
        [node(labels=A, gpu=1)],
        [],
        "it needs 2 GPUs on one node, but the largest node of pool a has 1 GPU. Lower resources.gpu",
    ),
    "GPUs where there are none": (
        pod(gpu=1, nodeSelector=A),
        [node(labels=A, gpu=0)],
        [],
        "no node of pool a has GPUs. Set resources.pool to a pool with GPUs, or install "
        "the device plugin for nvidia.com/gpu",
    ),
    "a share of a GPU where GPUs are not shared": (
        pod(share=4, nodeSelector=A),
        [node(labels=A)],
        [],
        "no node of pool a has shared GPU memory. Set resources.pool to a pool with shared GPU memory, "
        "or install the device plugin for aliyun.com/gpu-mem",
    ),
    "too large a share": (
        pod(share=40, nodeSelector=A),
        [node(labels=A, **{"aliyun.com/gpu-mem": "24"})],
        [],
        "it needs 40Gi of shared GPU memory on one node, but the largest node of pool a has 24Gi of shared GPU "
        "memory. Lower resources.gpu-share",
    ),
    "memory of a GPU that only the extender of a scheduler counts": (
        {**pod(gpu=1, nodeSelector=A), "spec": {**pod(gpu=1, nodeSelector=A)["spec"], "containers": [HAMI]}},
        [node(labels=A)],
        [],
        None,
    ),
    "GPUs on one node, and CPUs on another": (
        pod(gpu=1, cpu="32", nodeSelector=A),
        [node("n1", labels=A, cpu="16"), node("n2", labels=A, gpu=0)],
        [],
        "it needs 1 GPU, 32 CPU and 1Gi of memory on one node, and no node of pool a is that large. Lower one of "
        "resources.gpu, resources.cpu and resources.memory, or set resources.pool to another pool",
    ),
    "a GPU type in another case": (
        pod(gpu=1, nodeSelector={POOL: "a", GPU_TYPE: "a100"}),
        [node(labels=A100)],
        [],
        "GPU type a100 not found in pool a. Did you mean A100? Available GPU types: A100. Correct resources.gpu-type, "
        "or remove it",
    ),
    "a GPU type without its memory, where it has two": (
        pod(gpu=1, nodeSelector={POOL: "a", GPU_TYPE: "A100"}),
        [node("n1", labels={POOL: "a", GPU_TYPE: "A100-40G"}), node("n2", labels={POOL: "a", GPU_TYPE: "A100-80G"})],
        [],
        "GPU type A100 not found in pool a. Available GPU types: A100-40G and A100-80G. Correct resources.gpu-type, "
        "or remove it",
    ),
    "more CPU than any node has": (
        pod(cpu="65", nodeSelector=A),
        [node(labels=A)],
        [],
        "it needs 65 CPU on one node, but the largest node of pool a has 64 CPU. Lower resources.cpu",
    ),
    "a little more memory than any node has": (
        pod(memory="512Gi", nodeSelector=A),
        [node(labels=A, memory="536870000Ki")],
        [],
        "it needs 512Gi of memory on one node, but the largest node of pool a has 511.9Gi of memory. Lower "
        "resources.memory",
    ),
    # -- no node accepts pods
    "the only node is cordoned": (
        pod(gpu=1, nodeSelector=A),
        [node(labels=A, cordoned=True)],
        [],
        "the only node of pool a is cordoned. Make a node schedulable again, or set resources.pool to another pool",
    ),
    "no node accepts pods": (
        pod(gpu=1, nodeSelector=A),
        [node("n1", labels=A, cordoned=True), node("n2", labels=A, ready="False")],
        [],
        "none of the 2 nodes of pool a accepts pods: 1 cordoned and 1 not ready. Make a node schedulable again, or "
        "set resources.pool to another pool",
    ),
    # -- in use
    "not enough is free": (
        pod(gpu=4, nodeSelector=A),
        [node("n1", labels=A), node("n2", labels=A)],
        [busy("n1", 6), busy("n2", 7)],
        "it needs 4 GPUs on one node, but the most free on one of the 2 nodes of pool a is 2 GPUs (on n1), 2 GPUs "
        "short. Wait for other jobs to finish, delete one, or raise job.priority",
    ),
    "not enough is free, and other nodes accept no pods": (
        pod(gpu=4, nodeSelector=A),
        [node("n1", labels=A), node("n2", labels=A, cordoned=True)],
        [busy("n1", 5)],
        "it needs 4 GPUs on one node, but the most free on one of the 2 nodes of pool a is 3 GPUs (on n1; 1 "
        "cordoned), 1 GPU short. Wait for other jobs to finish, delete one, or raise job.priority",
    ),
    "not enough is free on the only node": (
        pod(memory="100Gi", nodeSelector=A),
        [node(labels=A, memory="128Gi")],
        [busy("n1", memory="60.5Gi")],
        "it needs 100Gi of memory on one node, but the only node of pool a has 67.5Gi of memory free (on n1), 32.5Gi "
        "of memory short. Wait for other jobs to finish, delete one, or raise job.priority",
    ),
    "nothing is free": (
        pod(gpu=1, nodeSelector=A),
        [node("n1", labels=A), node("n2", labels=A)],
        [busy("n1", 8), busy("n2", 8)],
        "it needs 1 GPU on one node, but none of the 2 nodes of pool a has any free. Wait for other jobs to "
        "finish, delete one, or raise job.priority",
    ),
    "nothing is free for a job of the highest priority": (
        pod(gpu=1, nodeSelector=A, priorityClassName="gpuctl-high"),
        [node("n1", labels=A), node("n2", labels=A)],
        [busy("n1", 8), busy("n2", 8)],
        "it needs 1 GPU on one node, but none of the 2 nodes of pool a has any free. Wait for other jobs to "
        "finish, or delete one",
    ),
    "nothing is free on the nodes that accept pods": (
        pod(gpu=1, nodeSelector=A),
        [node("n1", labels=A), node("n2", labels=A, ready="False")],
        [busy("n1", 8)],
        "it needs 1 GPU on one node, but none of the 2 nodes of pool a has any free (1 not ready). Wait for other "
        "jobs to finish, delete one, or raise job.priority",
    ),
    "enough of each, but never on the same node": (
        pod(gpu=4, cpu="32", nodeSelector=A),
        [node("n1", labels=A), node("n2", labels=A)],
        [busy("n1", 8), busy("n2", cpu="64")],
        "no single node of pool a has enough GPUs, CPU and memory free at the same time. Wait for other jobs to "
        "finish, delete one, or raise job.priority",
    ),
}


@pytest.mark.parametrize(("waiting", "nodes", "others", "sentence"), CASES.values(), ids=CASES)
def test_the_sentence(
    waiting: dict[str, Any], nodes: list[dict[str, Any]], others: list[dict[str, Any]], sentence: str | None
) -> None:
    found = shortage_of(waiting, accounted(nodes, others))
    assert (". ".join(filter(None, (found.text, found.hint))) if found else None) == sentence


# The cases in which waiting does not help.
LASTING = {
    "the type of an alias, which is the vendor's",
    "too little memory",
    "memory that no label tells",
    "no domain of NVLink",
    "a node affinity of others",
    "a share of more than a device",
    "an image for other CPUs",
    "a pool that does not exist",
    "GPUs on one node, and CPUs on another",
    "a GPU type in another case",
    "a GPU type without its memory, where it has two",
    "a cluster without pools",
    "no pool is named, and every node is in one",
    "a cluster without nodes",
    "a GPU type that the pool does not have",
    "a GPU type where no node has one",
    "a node selector of others",
    "a job without GPUs where all nodes are reserved for GPU jobs",
    "the nodes that keep it away do not count",
    "more GPUs than any node has",
    "and it is not a training",
    "GPUs where there are none",
    "a share of a GPU where GPUs are not shared",
    "too large a share",
    "more CPU than any node has",
    "a little more memory than any node has",
}


@pytest.mark.parametrize("case", [name for name, (*_, sentence) in CASES.items() if sentence])
def test_which_shortages_are_lasting(case: str) -> None:
    waiting, nodes, others, _sentence = CASES[case]
    found = shortage_of(waiting, accounted(nodes, others))
    assert found is not None
    assert found.lasting == (case in LASTING)


def test_missing_gpus_of_a_node_with_a_gpu_type_are_not_lasting() -> None:
    nodes = accounted([node(labels={POOL: "a", GPU_TYPE: "H100"}, gpu=0)])
    found = shortage_of(pod(gpu=1, nodeSelector=A), nodes)
    assert found is not None
    assert "no node of pool a has GPUs" in found.text
    assert not found.lasting


def test_without_usage_only_lasting_shortages_are_found() -> None:
    free = accounted([node(labels=A)])
    assert shortage_of(pod(gpu=8, nodeSelector=A), free) is None
    found = shortage_of(pod(gpu=9, nodeSelector=A), free)
    assert found is not None
    assert found.lasting


def test_of_many_pools_five_are_named() -> None:
    nodes = accounted([node(f"n{number}", labels={POOL: f"p{number}"}) for number in range(9)])
    said = shortage_of(pod(nodeSelector=A), nodes)
    assert said is not None
    assert "(existing pools: p0, p1, p2, p3, p4 and 4 others)" in said.hint


@pytest.mark.parametrize("case", CASES)
def test_pods_that_are_not_alike_do_not_get_the_answer_of_another(case: str) -> None:
    """Each pod of these cases, and each with another image, label or class, one after the other on the same nodes."""
    _pod, nodes, others, _sentence = CASES[case]
    seen = accounted(nodes, others)
    found = Shortages(seen)
    for waiting, *_ in CASES.values():
        main, *more = waiting["spec"]["containers"]
        arm = {**waiting["spec"], "containers": [{**main, "image": ON_ARM["image"]}, *more]}
        high = {**waiting["spec"], "priorityClassName": "gpuctl-high"}
        labels = {**(waiting["metadata"].get("labels") or {}), "runwhere.ai/job-type": "training"}
        for changed in (
            waiting,
            {**waiting, "spec": arm},
            {**waiting, "spec": high},
            {**waiting, "metadata": {**waiting["metadata"], "labels": labels}},
        ):
            for refusal in ("", "0/1 nodes are available: 1 Insufficient cpu."):
                assert found.of(changed, refusal) == shortage_of(changed, seen, refusal)


def test_alike_pods_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def counted(waiting: dict[str, Any], *rest: Any) -> Any:
        looks.append(waiting["metadata"]["name"])
        return shortage_of(waiting, *rest)

    monkeypatch.setattr(shortage, "shortage_of", counted)
    found = Shortages(accounted([node(labels=A)]))
    answers = [found.of(pod(f"sweep-{number}", gpu=9, nodeSelector=A)) for number in range(100)]
    assert len({answer.text for answer in answers if answer}) == 1
    assert looks == ["sweep-0"]
