# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_job says of jobs that cannot work, before it writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.dry_run import PlansRejected
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import ADVISERS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed
from kubesim import LAB_USER_TOKEN, Cluster

POOL, GPU_TYPE = "runwhere.ai/pool", "runwhere.ai/gpu-type"
AMD64 = {"kubernetes.io/arch": "amd64"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes in pool training-pool, one with another GPU type, and one of the default pool."""
    with Cluster(nodes=1, controllers=False).running() as running:
        running.add_nodes(["a10-1"], labels={POOL: "training-pool", GPU_TYPE: "A10-24G", **AMD64})
        running.add_nodes(["a100-1"], labels={POOL: "training-pool", GPU_TYPE: "A100-100G", **AMD64})
        running.add_nodes(["small-1"], labels={POOL: "mixed"}, resources={"cpu": "4", "memory": "8Gi"})
        running.add_nodes(["big-1"], labels={POOL: "mixed"}, resources={"cpu": "64", "nvidia.com/gpu": None})
        running.call(lambda: furnish(running))
        yield running


def furnish(cluster: Cluster) -> None:
    def create(kind: str, name: str, **fields: Any) -> None:
        cluster.registry.create(kind, {"metadata": {"name": name, "namespace": "default"}, **fields})

    create("Secret", "hub", data={"token": "c2VjcmV0"})
    create("ConfigMap", "settings", data={"a": "b"})
    create("ServiceAccount", "pipeline")
    create(
        "ResourceQuota", "team", spec={"hard": {"requests.nvidia.com/gpu": "12", "limits.memory": "4Ti", "pods": "9"}}
    )
    create(
        "ResourceQuota",
        "only-best-effort",
        spec={"hard": {"pods": "0"}, "scopes": ["BestEffort"]},
    )
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    create("PersistentVolumeClaim", "models", spec=claim)


def manifest(name: str = "x", kind: str = "training", **blocks: Any) -> dict[str, Any]:
    environment = {"image": "registry.example.com/ml:v1", **blocks.pop("environment", {})}
    resources = {"cpu": 1, "memory": "1Gi", "pool": "training-pool", **blocks.pop("resources", {})}
    return {"kind": kind, "job": {"name": name}, "environment": environment, "resources": resources, **blocks}


def run(
    cluster: Cluster, *manifests: dict[str, Any], token: str = "", check_mode: bool = True, **options: Any
) -> tuple[dict[str, Any], list[str]]:
    """The result, and the warnings but those about what is built from the manifests."""
    warnings: list[str] = []
    defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": token or cluster.token}
    wanted = JobOptions(**{"definition": list(manifests), **options})
    result = MODULE.run(Task(wanted, params, check_mode, warnings.append, lambda values: None, advisers=ADVISERS))
    return result, [text for text in warnings if not text.startswith("definition, ")]


SECRET_REF = {"secretKeyRef": {"name": "hf", "key": "token"}}
# What the manifest has, and what is said after `job x in namespace default: `.
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a pool that is misspelled": (
        {"resources": {"pool": "trainning-pool"}},
        "pods cannot be scheduled: pool trainning-pool has no nodes. Did you mean training-pool? Correct "
        "resources.pool (existing pools: mixed and training-pool), or add nodes to the pool with gpuctl_pool.",
    ),
    "a GPU type in another case": (
        {"resources": {"gpu": 1, "gpu-type": "a10-24g"}},
        "pods cannot be scheduled: GPU type a10-24g not found in pool training-pool. Did you mean A10-24G? Available "
        "GPU types: A10-24G and A100-100G. Correct resources.gpu-type, or remove it.",
    ),
    "more GPUs than any node has": (
        {"resources": {"gpu": 9}},
        "pods cannot be scheduled: it needs 9 GPUs on one node, but the largest node of pool training-pool has 8 "
        "GPUs. Lower resources.gpu, or spread the training with resources.node_count.",
    ),
    "more memory": (
        {"resources": {"memory": "2Ti"}},
        "pods cannot be scheduled: it needs 2048Gi of memory on one node, but the largest node of pool training-pool "
        "has 1024Gi of memory. Lower resources.memory.",
    ),
    "GPUs and CPUs that no node has together": (
        {"resources": {"pool": "mixed", "gpu": 1, "cpu": 8}},
        "pods cannot be scheduled: it needs 1 GPU, 8 CPU and 1Gi of memory on one node, and no node of pool mixed is "
        "that large. Lower one of resources.gpu, resources.cpu and resources.memory, or set resources.pool to another "
        "pool.",
    ),
    "a quota that never suffices": (
        {"resources": {"gpu": 7, "node_count": 2}},
        "quota team of the namespace is too small for the job (nvidia.com/gpu: 7 requested by each of 2 pods, at most "
        "12 allowed). Request less, or have the quota raised.",
    ),
    "pods that a quota never allows": (
        {"resources": {"node_count": 10}},
        "quota team of the namespace is too small for the job (pods: 1 requested by each of 10 pods, at most 9 "
        "allowed). Request less, or have the quota raised.",
    ),
    "a missing claim": (
        {"storage": {"workdirs": [{"path": "/data", "claim": "datasets"}]}},
        "pods cannot be scheduled: PersistentVolumeClaim datasets not found. Create it with "
        "gpuctl_workspace (namespace=default, claim.name=datasets, claim.size=100Gi), ask an administrator for it, or "
        "correct storage.workdirs.",
    ),
    "a missing Secret": (
        {"environment": {"env": [{"name": "HF_TOKEN", "valueFrom": SECRET_REF}]}},
        'containers cannot start: secret "hf" not found. Keep the value in Secret gpuctl-tokens with '
        "gpuctl_workspace (namespace=default, tokens=token), and refer to that Secret in environment.env.",
    ),
    "a missing ConfigMap": (
        {"environment": {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "a"}}}]}},
        'containers cannot start: configmap "cfg" not found. Write the value into environment.env in place of '
        "valueFrom, or correct the reference.",
    ),
    "a missing Secret for images": (
        {"environment": {"imagePullSecret": "registry"}},
        "images of a private registry cannot be pulled. Secret registry of environment.imagePullSecret not found. "
        "Create gpuctl-registry with gpuctl_workspace (namespace=default, "
        "registry.config_file=~/.docker/config.json), and set environment.imagePullSecret to gpuctl-registry.",
    ),
    "a missing service account": (
        {"environment": {"service_account": "pipelines"}},
        'pods cannot be created: serviceaccount "pipelines" not found. Correct environment.service_account, or '
        "ask an administrator to create it.",
    ),
}


@pytest.mark.parametrize(("blocks", "said"), MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_work_is_said_before_it_is_written(cluster: Cluster, blocks: dict[str, Any], said: str) -> None:
    result, warnings = run(cluster, manifest(**blocks))
    assert warnings == [f"job x in namespace default: {said}"]
    assert result["changed"] is True


def test_what_works_is_not_warned_of(cluster: Cluster) -> None:
    references = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "none", "key": "token", "optional": True}}},
    ]
    distributed = {"backend": "deepspeed", "deepspeed": "zero2"}  # with ConfigMaps of its own
    wanted = manifest(
        environment={"env": references, "imagePullSecret": ["hub"], "service_account": "pipeline"},
        resources={"gpu": 4, "gpu-type": "A100-100G", "node_count": 2},
        storage={"workdirs": [{"path": "/models", "claim": "models"}]},
        distributed=distributed,
    )
    assert run(cluster, wanted)[1] == []


def test_jobs_with_the_same_mistake_are_named_together(cluster: Cluster) -> None:
    jobs = [manifest(f"x{number}", resources={"gpu": 9}) for number in range(5)]
    warnings = run(cluster, *jobs)[1]
    assert len(warnings) == 1
    assert warnings[0].startswith("5 jobs, x0, x1, x2 and 2 more in namespace default: pods cannot be scheduled: it")


def test_jobs_that_differ_in_their_image_are_judged_each(cluster: Cluster) -> None:
    jobs = [
        manifest(f"x-{arch}", environment={"image": f"registry.example.com/ml:v1-{arch}"})
        for arch in ("amd64", "arm64")
    ]
    with pytest.raises(PlansRejected) as refused:
        run(cluster, *jobs)
    said = str(refused.value).splitlines()
    assert [line.partition(" in ")[0] for line in said] == ["training x-arm64", "Nothing was changed."]


def test_strict_makes_errors_of_all_of_them_before_anything_is_written(cluster: Cluster) -> None:
    jobs = [manifest("a", resources={"gpu": 9}), manifest("b", environment={"service_account": "none"}), manifest("c")]
    cluster.requests.reset()
    with pytest.raises(PlansRejected) as refused:
        run(cluster, *jobs, check_mode=False, strict=True)
    said = str(refused.value).splitlines()
    assert [line.partition(" in ")[0] for line in said] == ["training a", "training b", "Nothing was changed."]
    assert cluster.requests.writes() == []


def test_strict_blocks_only_those_jobs_if_the_others_may_go_on(cluster: Cluster) -> None:
    jobs = [manifest("a", resources={"gpu": 9}), manifest("c")]
    with pytest.raises(TaskFailed) as failed:
        run(cluster, *jobs, strict=True, continue_on_error=True)
    results = {each["name"]: each["error"] for each in failed.value.result["results"]}
    assert results["c"] is None
    assert "the largest node of pool training-pool has 8 GPUs" in results["a"]


def test_a_lack_of_nodes_is_no_mistake_where_nodes_will_come(cluster: Cluster) -> None:
    cluster.requests.reset()
    assert run(cluster, manifest(resources={"pool": "new"}), wait_for_nodes=True, strict=True)[1] == []
    assert "list nodes" not in cluster.requests.counts()


def test_a_pool_and_a_quota_among_the_manifests_may_be_about_to_be_written(cluster: Cluster) -> None:
    pool = {"kind": "pool", "pool": {"name": "new"}, "nodes": ["node-1"]}
    quota = {"kind": "quota", "quota": {"name": "teams"}, "users": {"default": {"gpu": 99}}}
    wanted = manifest("y", resources={"pool": "new", "node_count": 10})
    assert run(cluster, wanted, pool, quota, strict=True)[1] == []
    with pytest.raises(PlansRejected, match=r"pool new has no nodes(?s:.*)at most 9 allowed"):
        run(cluster, wanted, pool, quota, strict=True, check_mode=False)


def test_a_sweep_costs_no_more_requests_than_one_job(cluster: Cluster) -> None:
    reference = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]
    jobs = [manifest(f"s{number}", environment={"env": reference}) for number in range(30)]
    cluster.requests.reset()
    run(cluster, *jobs)
    counts = cluster.requests.counts()
    assert {kind: counts[f"list {kind}"] for kind in ("nodes", "resourcequotas", "secrets")} == {
        "nodes": 2,  # in check mode once more, with what uses them
        "resourcequotas": 2,
        "secrets": 1,
    }


@pytest.mark.parametrize(
    ("pools", "selectors"),
    [
        (["training-pool", "mixed"], ["runwhere.ai/pool in (mixed,training-pool)"]),
        (["default"], ["!runwhere.ai/pool"]),
        (["default", "mixed"], [None]),
        (["mixed", "mixd"], ["runwhere.ai/pool in (mixd,mixed)", None]),
    ],
    ids=["two pools", "nodes without a pool", "both", "a pool without nodes"],
)
def test_only_the_nodes_that_matter_are_read(cluster: Cluster, pools: list[str], selectors: list[str | None]) -> None:
    jobs = [manifest(f"p-{pool}", resources={"pool": pool}) for pool in pools]
    cluster.requests.reset()
    run(cluster, *jobs)
    read = [parse_qs(entry.query) for entry in cluster.requests if entry.resource == "nodes"]
    assert [query.get("labelSelector", [None])[0] for query in read if "limit" in query][: len(selectors)] == selectors


def test_a_single_name_is_asked_for_by_its_name(cluster: Cluster) -> None:
    """An account may have permission for just this one."""
    cluster.requests.reset()
    run(cluster, manifest(environment={"imagePullSecret": "hub"}))
    (listed,) = [entry for entry in cluster.requests if entry.resource == "secrets"]
    assert "fieldSelector=metadata.name%3Dhub" in listed.query


def test_what_may_not_be_read_is_not_judged(cluster: Cluster) -> None:
    """An account with the permissions of before: jobs, but neither nodes nor what jobs refer to."""

    def grant() -> None:
        group = "rbac.authorization.k8s.io"
        rules = [
            {"apiGroups": ["apps", "batch", "autoscaling"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["services", "pods", "configmaps"], "verbs": ["*"]},
        ]
        cluster.registry.create("ClusterRole", {"metadata": {"name": "old"}, "rules": rules})
        subject = {"apiGroup": group, "kind": "User", "name": "lab-user"}
        role = {"apiGroup": group, "kind": "ClusterRole", "name": "old"}
        cluster.registry.create(
            "ClusterRoleBinding", {"metadata": {"name": "old"}, "roleRef": role, "subjects": [subject]}
        )

    cluster.call(grant)
    wanted = manifest(
        "web",
        kind="compute",
        environment={"service_account": "none", "imagePullSecret": "none"},
        resources={"pool": "none"},
    )
    result, warnings = run(cluster, wanted, token=LAB_USER_TOKEN, strict=True)
    assert result["results"][0]["action"] == "create"
    assert [text for text in warnings if "not found" in text or "has no nodes" in text] == []
