# SPDX-License-Identifier: BSD-2-Clause
"""The examples in the documentation of the info modules run as they stand, on a cluster that has what they name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from .ansible import ROOT, Ansible
from .api import Api
from .manifests import notebook, training
from .prometheus_double import prometheus_double, utilized

PLUGINS = "ansible_collections.runwhere.gpuctl.plugins.modules"
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*_info.py"))
QUOTA = {"kind": "quota", "quota": {"name": "team"}, "users": {"sam-altman": {"cpu": 8, "memory": "64Gi", "gpu": 1}}}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ansible]:
    with Cluster(nodes=2).running() as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        Api(str(kubeconfig)).create("namespace", {"metadata": {"name": "team-a"}})
        (tmp_path / "manifests").mkdir()
        # It has a hint, as no node is so large.
        manifest = yaml.safe_dump(training("llama3-sft", resources={"gpu": 64}))
        (tmp_path / "manifests" / "llama3-sft.yaml").write_text(manifest)
        (tmp_path / "cluster").mkdir()
        (tmp_path / "cluster" / "quota.yaml").write_text(yaml.safe_dump(QUOTA))
        yield Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


@pytest.fixture
def prometheus() -> Iterator[str]:
    with prometheus_double(utilized) as server:
        yield server.url


def test_the_examples_run(here: Ansible, prometheus: str):
    """They find what they ask for: of a name that is not there, a warning would tell."""
    assert {"gpuctl_job_info", "gpuctl_node_info", "gpuctl_pool_info", "gpuctl_quota_info"} <= set(MODULES)
    jobs = [training("qwen2-7b-sft"), notebook("data-prep-notebook")]
    assert not here.module("gpuctl_pool", name="training-pool", nodes=["node-2"]).failed
    assert not here.module("gpuctl_quota", definition=QUOTA).failed
    assert not here.job(definition=jobs, namespace="team-a").failed
    for module in MODULES:
        tasks = yaml.safe_load(importlib.import_module(f"{PLUGINS}.{module}").EXAMPLES)
        assert any(f"runwhere.gpuctl.{module}" in task for task in tasks)
        run = here.play(tasks, arguments=("-e", f"prometheus_url={prometheus}"))
        assert run.status == 0, run.output
        assert [(task.task, task.outcome, task.changed) for task in run.tasks] == [
            (task["name"], "ok", _writes_a_file(task)) for task in tasks
        ], run.output
        assert "[WARNING]" not in run.output


def _writes_a_file(task: dict[str, Any]) -> bool:
    return "ansible.builtin.copy" in task or "output" in task.get("runwhere.gpuctl.gpuctl_show", {})
