# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_info on a simulated cluster that goes wrong: statuses, reasons, and what they cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import ADVISERS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit import fit_adviser
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs import job_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from kubesim import Cluster

GPUS = 8  # of each node


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as running:
        yield running


def run(cluster: Cluster, module: Any, options: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in module.MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": cluster.token}
    result: dict[str, Any] = module.MODULE.run(
        Task(options, params, False, lambda warning: None, lambda values: None, advisers=ADVISERS)
    )
    return result


@pytest.mark.parametrize("check_mode", [False, True], ids=["run", "check mode"])
def test_a_prediction_that_fails_does_not_fail_a_job(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, check_mode: bool
) -> None:
    def judge_jobs(*_arguments: Any) -> Any:
        raise KeyError("a secret")

    monkeypatch.setattr(fit_adviser, "judge_jobs", judge_jobs)
    warnings: list[str] = []
    options = job.JobOptions(definition=[training("train")], predict=True)
    defaults = {name: option.get("default") for name, option in job.MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": cluster.token}
    done = job.run(Task(options, params, check_mode, warnings.append, lambda values: None, advisers=ADVISERS))
    assert [(row["action"], row["error"], row["fit"]) for row in done["results"]] == [("create", None, None)]
    assert warnings == ["whether the jobs would run is not known. This is a bug; please report it: KeyError"]


def submit(cluster: Cluster, *manifests: dict[str, Any]) -> None:
    run(cluster, job, job.JobOptions(definition=list(manifests)))


def info(cluster: Cluster) -> dict[str, dict[str, Any]]:
    found = run(cluster, job_info, job_info.JobInfoOptions(namespaces=["default"]))
    return {row["name"]: row for row in found["results"]}


def settled(cluster: Cluster, name: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The row of a job once it fits: controllers need a moment."""
    deadline = time.monotonic() + 10
    while True:
        row = info(cluster).get(name) or {}
        if (row and fits(row)) or time.monotonic() > deadline:
            return row
        time.sleep(0.05)


def explained(cluster: Cluster, name: str, words: str) -> dict[str, Any]:
    row = settled(cluster, name, lambda row: words in (row["reason"] or ""))
    assert words in (row["reason"] or ""), row
    return row


def partially(cluster: Cluster, name: str, words: str) -> dict[str, Any]:
    """The row of a training on two nodes of which one pod runs."""
    row = settled(cluster, name, lambda row: row["ready"] == "1/2" and words in (row["reason"] or ""))
    assert (row["status"], row["ready"]) == ("Partially Running", "1/2")
    assert words in row["reason"]
    return row


def runs(cluster: Cluster, name: str) -> None:
    assert settled(cluster, name, lambda row: bool(row["status"] == "Running"))["status"] == "Running"


def training(name: str, gpu: int = 0, nodes: int = 1, **sections: Any) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": name, **sections.pop("job", {})},
        "environment": {"image": "reg/ml:v1", "command": ["sleep", "900"], **sections.pop("environment", {})},
        "resources": {"cpu": 1, "memory": "1Gi", "gpu": gpu, "node_count": nodes},
        **sections,
    }


def service(name: str, **sections: Any) -> dict[str, Any]:
    return {
        "kind": "inference",
        "job": {"name": name},
        "environment": {"image": "reg/ml:v1", "command": ["serve"]},
        "resources": {"cpu": 1, "memory": "1Gi", "gpu": 0},
        "service": {"port": 8000, "type": "ClusterIP", **sections.pop("service", {})},
        **sections,
    }


def behave(cluster: Cluster, name: str, **behavior: Any) -> None:
    cluster.call(lambda: cluster.kubelet.behave(name=f"{name}-*", **behavior))


def pods_of(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    return list(cluster.call(lambda: cluster.registry.list("Pod", "default", {"app": name})))


def set_ready(cluster: Cluster, node: str, status: str) -> None:
    """As the node controller does it when a kubelet is silent, or heard again."""

    def write(copied: dict[str, Any]) -> None:
        ready = next(one for one in copied["status"]["conditions"] if one["type"] == "Ready")
        ready |= {
            "status": status,
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }

    cluster.call(lambda: cluster.registry.modify("Node", None, node, write, subresource="status"))


def quota(cluster: Cluster, gpus: int) -> None:
    spec = {"hard": {"requests.nvidia.com/gpu": str(gpus)}}
    cluster.call(
        lambda: cluster.registry.create(
            "ResourceQuota", {"metadata": {"name": "limit", "namespace": "default"}, "spec": spec}
        )
    )
    deadline = time.monotonic() + 10
    while "used" not in cluster.call(lambda: cluster.registry.get("ResourceQuota", "default", "limit")).get(
        "status", {}
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- nodes -----------------------------------------------------------------------------------------------------------


def test_a_training_on_a_node_that_is_lost_names_the_node_and_what_helps(cluster: Cluster) -> None:
    submit(cluster, training("train"))
    runs(cluster, "train")
    (pod,) = pods_of(cluster, "train")
    node = pod["spec"]["nodeName"]
    set_ready(cluster, node, "Unknown")
    row = explained(cluster, "train", "has not been ready since")
    assert row["status"] == "Pending"
    assert row["reason"] == (
        f"pod {pod['metadata']['name']} is on node {node}, which has not been ready since 2026-01-01T00:00:00Z "
        "(Kubelet stopped posting node status). Kubernetes starts no other pod until the node is back or deleted. "
        "Repair the node, or use O(state=restarted) with O(force=true), which no longer waits for the node."
    )
    cluster.call(lambda: cluster.registry.delete("Pod", "default", pod["metadata"]["name"]))
    assert explained(cluster, "train", "has not been ready since")["reason"] == row["reason"]


def test_a_lost_node_costs_one_request_whatever_the_cluster_has(cluster: Cluster) -> None:
    submit(cluster, training("train"))
    runs(cluster, "train")
    (pod,) = pods_of(cluster, "train")
    set_ready(cluster, pod["spec"]["nodeName"], "Unknown")
    explained(cluster, "train", "has not been ready since")
    cluster.requests.reset()
    info(cluster)
    assert Counter(cluster.requests.counts())["list nodes"] == 1


def test_running_jobs_read_no_node(cluster: Cluster) -> None:
    submit(cluster, training("train"), service("web"))
    runs(cluster, "train")
    runs(cluster, "web")
    cluster.requests.reset()
    info(cluster)
    counts = Counter(cluster.requests.counts())
    assert (counts["list nodes"], counts["list pods"], counts["list events"]) == (0, 0, 0)


def test_a_wait_shows_that_a_node_is_lost(cluster: Cluster) -> None:
    submit(cluster, training("train"))
    runs(cluster, "train")
    (pod,) = pods_of(cluster, "train")
    set_ready(cluster, pod["spec"]["nodeName"], "Unknown")
    explained(cluster, "train", "has not been ready since")
    options = job.JobOptions(definition=[training("train")], wait=True, wait_timeout=1)
    with pytest.raises(
        Exception, match=r"not ready after 1 s: Pending, 0 of 1 pods ready. Reason: pod train-\w+ is on"
    ):
        run(cluster, job, options)


def test_a_port_of_the_nodes_is_on_one_that_is_ready(cluster: Cluster) -> None:
    set_ready(cluster, "node-1", "Unknown")
    submit(cluster, service("web", service={"type": "NodePort"}))
    runs(cluster, "web")
    node = cluster.call(lambda: cluster.registry.get("Node", None, "node-2"))
    address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
    assert info(cluster)["web"]["access_urls"][0].startswith(f"http://{address}:")


def test_a_ready_node_is_found_behind_many_that_are_not(cluster: Cluster) -> None:
    submit(cluster, service("web", service={"type": "NodePort"}))
    runs(cluster, "web")
    cluster.add_nodes([f"a-{number}" for number in range(6)])
    for number in range(6):
        set_ready(cluster, f"a-{number}", "Unknown")
    urls = info(cluster)["web"]["access_urls"]
    addresses = [
        one["address"]
        for name in ("node-1", "node-2")
        for one in cluster.call(lambda name=name: cluster.registry.get("Node", None, name))["status"]["addresses"]
    ]
    assert any(f"//{address}:" in urls[0] for address in addresses), urls


# -- several pods ----------------------------------------------------------------------------------------------------


def test_a_training_of_which_a_rank_cannot_pull_its_image_is_partially_running(cluster: Cluster) -> None:
    behave(cluster, "train-1", pull_error="manifest unknown")
    submit(cluster, training("train", nodes=2))
    partially(cluster, "train", "cannot be pulled: manifest unknown")


def test_a_training_of_which_a_rank_finds_no_gpus_is_partially_running(cluster: Cluster) -> None:
    submit(cluster, training("other", gpu=GPUS))
    runs(cluster, "other")
    submit(cluster, training("train", gpu=GPUS, nodes=2))
    partially(cluster, "train", "cannot be scheduled: it needs 8 GPUs on one node")


def test_a_training_of_which_a_rank_is_refused_by_the_quota_is_partially_running(cluster: Cluster) -> None:
    quota(cluster, 12)
    submit(cluster, training("train", gpu=GPUS, nodes=2))
    assert partially(cluster, "train", "quota limit")["reason"] == (
        "quota limit of the namespace is too small for the job (nvidia.com/gpu: 8 requested by each of 2 pods, at most "
        "12 allowed). Request less, or have the quota raised."
    )


def test_more_than_the_quota_can_ever_give_is_not_called_exhausted(cluster: Cluster) -> None:
    quota(cluster, 4)
    submit(cluster, training("train", gpu=6))
    assert explained(cluster, "train", "quota limit")["reason"] == (
        "quota limit of the namespace is too small for the job (nvidia.com/gpu: 6 requested, at most 4 allowed). "
        "Request less, or have the quota raised."
    )


def test_a_preempted_job_names_the_one_that_took_its_place(cluster: Cluster) -> None:
    submit(cluster, training("low", gpu=GPUS, nodes=2, job={"priority": "low"}))
    runs(cluster, "low")
    submit(cluster, training("big", gpu=GPUS, job={"priority": "high"}))
    runs(cluster, "big")
    partially(cluster, "low", "the job was preempted by job big of namespace default on node node-")


# -- one pod ---------------------------------------------------------------------------------------------------------


def test_a_network_that_cannot_be_set_up_is_the_fault_of_the_node(cluster: Cluster) -> None:
    behave(cluster, "train", sandbox_error='failed to setup network for sandbox "1": plugin type="calico" failed (add)')
    submit(cluster, training("train"))
    reason = explained(cluster, "train", "cannot start on node")["reason"]
    (pod,) = pods_of(cluster, "train")
    node = pod["spec"]["nodeName"]
    assert reason.startswith(f"pod {pod['metadata']['name']} cannot start on node {node}: failed to setup network")
    assert f"kubectl cordon {node}" in reason


@pytest.mark.parametrize(
    ("problem", "hint"),
    [
        ('exec: "trian": executable file not found in $PATH', "Check environment.command."),
        ("error during container init: mkdir /data/run: not a directory", "Check environment.workdir (/data/run)."),
        (
            'error during container init: chdir to cwd ("/data/run") set in config.json failed: permission denied',
            "Check environment.workdir (/data/run).",
        ),
    ],
)
def test_a_container_that_the_runtime_cannot_start_fails_a_training_at_once(
    cluster: Cluster, problem: str, hint: str
) -> None:
    behave(cluster, "train", start_error=problem)
    submit(cluster, training("train", environment={"workdir": "/data/run"}))
    row = settled(cluster, "train", lambda row: bool(row["status"] == "Failed"))
    assert row["status"] == "Failed"
    assert problem.removeprefix("error during container init: ") in row["reason"]
    assert row["reason"].endswith(hint)
    live = cluster.call(lambda: cluster.registry.get("Job", "default", "train"))
    assert live["status"]["failed"] == 1, "it is not tried again"


def test_a_service_in_a_crash_loop_says_how_often_and_how_it_ended(cluster: Cluster) -> None:
    behave(cluster, "web", crash_seconds=0, exit_code=3)
    submit(cluster, service("web"))
    row = explained(cluster, "web", "keeps failing with exit code 3 (1 restart)")
    assert row["status"] == "Pending"


def test_an_autoscaler_without_metrics_is_visible(cluster: Cluster) -> None:
    submit(cluster, service("web", autoscaling={"min_replicas": 1, "max_replicas": 3}))
    row = explained(cluster, "web", "its autoscaler has not worked since")
    assert settled(cluster, "web", lambda row: bool(row["status"] == "Running"))["status"] == "Running"
    assert "unable to fetch metrics" in row["reason"]
    assert row["reason"].endswith("To find out which metrics the cluster lacks, use M(gpuctl_doctor).")
