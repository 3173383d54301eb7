# SPDX-License-Identifier: BSD-2-Clause
"""The examples of modules and filters do what they say, as they stand, on a simulated cluster that has what they name.

Those of the info modules: test_info_examples.py. Those of the guides: test_documents.py.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from .ansible import ROOT, Ansible, says_while_it_runs
from .api import Api, eventually
from .manifests import inference, notebook, training
from .prometheus_double import prometheus_double, utilized

PLUGINS = "ansible_collections.runwhere.gpuctl.plugins"
MODULES = sorted(
    path.stem for path in (ROOT / "plugins" / "modules").glob("gpuctl_*.py") if not path.stem.endswith("_info")
)
NPUS = {"nvidia.com/gpu": None, "huawei.com/Ascend910": "8"}
NODES = [*(f"gpu-node-{number}" for number in range(1, 7)), "node-1", "node-2"]

# Programs that the containers of the simulated cluster run: one that ends well at once, one that never does.
DONE, CRASHING = {"command": ["true"]}, {"command": ["false"]}
QUOTA = {"kind": "quota", "quota": {"name": "team"}, "users": {"team-a": {"cpu": 512, "memory": "4Ti", "gpu": 64}}}
DEVICE_PLUGIN = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "device-plugin", "namespace": "awx"},
    "data": {"config.yaml": "version: v1"},
}
FILES: dict[str, list[dict[str, Any]]] = {
    "manifests/jobs.yaml": [
        training("nightly", job={"namespace": "team-a"}),
        inference("llama3-8b", job={"namespace": "team-a"}, service={"replicas": 2}),
    ],
    "manifests/pools.yaml": [{"kind": "pool", "pool": {"name": "inference-pool"}, "nodes": ["gpu-node-6"]}],
    "manifests/quotas.yaml": [QUOTA],
    "quota.yaml": [QUOTA],
    "device-plugin.yaml": [DEVICE_PLUGIN],
    "policy.yaml": [
        {"kind": "policy", "policy": {"name": "company"}, "teams": {"team-a": {"pools": ["training-pool"]}}}
    ],
    "cluster/chat.yaml": [inference("chat", job={"namespace": "team-a"})],
    "training.yaml": [training("bert", environment=DONE)],
    "inference.yaml": [inference("chat")],
    "sft.yaml": [training("sft")],
    "services/embeddings.yaml": [inference("embeddings")],
    "services/lab.yaml": [notebook("lab")],
    "experiments/all.yaml": [training("good"), training("lost", job={"namespace": "nowhere"}), training("fine")],
    "trainings/bert.yaml": [training("bert-large", environment=DONE)],
}
# What a task of an example expects of the tasks that a user has written before it.
VARIABLES = {
    "registry_password": "t-0p5ecret",
    "hugging_face_token": "hf_t-0p5ecret",
    "nodes_of_the_new_rack": ["gpu-node-3", "gpu-node-4"],
    "submitted": {"results": [{"name": "qwen", "namespace": "team-a", "status": "Running", "action": "create"}]},
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ansible]:
    """A directory with the files that the examples name, and a cluster with their nodes, namespaces and jobs."""
    for name, documents in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump_all(documents))
    with Cluster(nodes=0, addons={"kueue"}, exec_root=tmp_path / "containers").running() as cluster:
        cluster.call(lambda: cluster.add_nodes(NODES, labels={"runwhere.ai/gpu-type": "A100-100G"}))
        cluster.call(lambda: cluster.add_nodes(["npu-node-1", "npu-node-2"], resources=NPUS))
        kubeconfig = tmp_path / "kubeconfig"
        cluster.kubeconfig(kubeconfig)
        api = Api(str(kubeconfig))
        for name in ("team-a", "team-b", "team-c", "alice", "awx"):
            api.create("namespace", {"metadata": {"name": name}})
        yield Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


def examples(plugin: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(importlib.import_module(f"{PLUGINS}.{plugin}").EXAMPLES))


# No priority classes, no metrics: what the doctor finds in the cluster of these tests is test_doctor.py's. The service
# was never updated: test_rollback.py goes back.
FAILS = {"Fail if jobs cannot run", "Go back to the last manifest with which a service was ready"}


def succeed(here: Ansible, tasks: list[dict[str, Any]]) -> None:
    with prometheus_double(utilized) as server:
        variables = {**VARIABLES, "prometheus_url": server.url}
        run = here.play(tasks, arguments=("-e", json.dumps(variables)))
    may_fail = FAILS | {task["name"] for task in tasks if task.get("ignore_errors")}
    assert {task.task: task.message for task in run.tasks if task.failed and task.task not in may_fail} == {}, (
        run.output
    )
    assert {task["name"] for task in tasks} <= {task.task for task in run.tasks}


# test_multikueue.py has several clusters.
BY_THEMSELVES = {"gpuctl_copy", "gpuctl_extend", "gpuctl_job_log", "gpuctl_multikueue", "gpuctl_notify"}


@pytest.mark.parametrize("module", sorted({*MODULES} - BY_THEMSELVES))
def test_the_examples_of_a_module(here: Ansible, module: str):
    if module in ("gpuctl_pool", "gpuctl_node_label", "gpuctl_status"):
        pool = {"name": "training-pool", "nodes": ["gpu-node-5"]}
        assert not here.module("gpuctl_pool", **pool).failed
    if module == "gpuctl_kubeconfig":
        account = {"name": "alice", "level": "submit", "namespaces": ["team-a"]}
        assert not here.module("gpuctl_rbac", **account).failed
    succeed(here, examples(f"modules.{module}"))


def test_the_examples_of_copies(here: Ansible):
    jobs = [notebook("lab"), training("qwen2-7b-sft", resources={"node_count": 2})]
    assert not here.job(definition=jobs, namespace="team-a", wait=True).failed
    for name in ("data/train.csv", "results/loss.csv", "latest.pt"):
        (here.directory / name).parent.mkdir(exist_ok=True)
        (here.directory / name).write_text(name)
    there = {"namespace": "team-a", "state": "to_pod"}
    results = {"name": "lab", "local_path": "results", "remote_path": "/home/jovyan/work/results"}
    checkpoint = {"name": "qwen2-7b-sft", "pod": "0", "local_path": "latest.pt", "remote_path": "/output/latest.pt"}
    assert not any(here.module("gpuctl_copy", **there, **options).failed for options in (results, checkpoint))
    (here.directory / "results" / "loss.csv").unlink()
    succeed(here, examples("modules.gpuctl_copy"))
    assert (here.directory / "results" / "loss.csv").exists()
    assert (here.directory / "checkpoints" / "latest.pt").read_text() == "latest.pt"


@says_while_it_runs
def test_the_examples_of_logs(here: Ansible):
    jobs = [training("qwen2-7b-sft", environment=DONE), inference("qwen2-7b-chat", environment=CRASHING)]
    assert not here.job(definition=jobs, namespace="team-a").failed
    restarted = {"namespace": "team-a", "name": "qwen2-7b-chat", "previous": True}
    eventually(lambda: not any(row["error"] for row in logs(here, **restarted)))
    text = importlib.import_module(f"{PLUGINS}.modules.gpuctl_job_log").EXAMPLES
    succeed(here, yaml.safe_load(text.replace("/var/log/gpuctl", str(here.directory))))
    assert (here.directory / "qwen2-7b-sft.log").exists()


def test_the_examples_of_extensions(here: Ansible) -> None:
    """With a Monday that is still to come."""
    limit = {"time_limit": "8h"}
    jobs = [notebook("data-prep-notebook", job=limit), training("qwen2-7b-sft", job={**limit, "namespace": "team-a"})]
    assert not here.job(definition=jobs).failed
    text = importlib.import_module(f"{PLUGINS}.modules.gpuctl_extend").EXAMPLES
    monday = datetime.now(timezone.utc) + timedelta(days=3)
    assert text.count("2026-12-07T08:00:00Z") == 2
    succeed(here, yaml.safe_load(text.replace("2026-12-07T08:00:00Z", f"{monday:%Y-%m-%dT%H:%M:%SZ}")))


def logs(here: Ansible, **options: Any) -> list[dict[str, Any]]:
    result = here.module("gpuctl_job_log", **options).result
    return list(result.get("results") or [{"error": "none yet"}])


def test_the_examples_of_the_filter(here: Ansible):
    succeed(here, examples("filter.table"))
    assert "qwen" in (here.directory / "report.txt").read_text()
