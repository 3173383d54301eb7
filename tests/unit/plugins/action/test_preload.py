# SPDX-License-Identifier: BSD-2-Clause
"""A worker process imports nothing for an ordinary task: the process that it was forked from has done that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fast_path import SWITCH
from kubesim import Cluster

from tests.integration.prometheus_double import prometheus_double, utilized

ROOT = Path(__file__).resolve().parents[4]
PLUGINS = "ansible_collections.runwhere.gpuctl.plugins"
JOB = {
    "kind": "training",
    "job": {"name": "t"},
    "environment": {"image": "registry.example.com/ml:v1", "command": ["run"]},
    "resources": {"cpu": 1, "memory": "1Gi", "gpu": 1},
}
TASKS: list[tuple[str, dict[str, Any]]] = [
    ("gpuctl_doctor", {"fail_on": "never"}),
    ("gpuctl_drift", {"src": [str(ROOT / "examples" / "manifests")], "restore": ["Node/node-1:spec.taints"]}),
    ("gpuctl_drift_info", {"src": [str(ROOT / "examples" / "manifests")]}),
    ("gpuctl_job", {"definition": JOB}),
    ("gpuctl_job", {"definition": JOB, "wait": True, "wait_for": "scheduled"}),
    ("gpuctl_fit_info", {"definition": JOB}),
    ("gpuctl_placement", {"definition": JOB, "cluster": "east"}),
    ("gpuctl_plan_info", {"src": [str(ROOT / "examples" / "cluster")]}),
    ("gpuctl_job_info", {"details": True, "pods": True}),
    ("gpuctl_job_log", {"name": "running"}),
    ("gpuctl_extend", {"name": "running", "by": "1h"}),
    ("gpuctl_job_metrics_info", {"name": "running"}),
    ("gpuctl_job", {"name": "t", "state": "absent", "wait": True}),
    ("gpuctl_node_info", {"full": True}),
    ("gpuctl_node_label", {"nodes": ["node-1"], "labels": {"pool": "p"}}),
    ("gpuctl_pool", {"definition": {"kind": "pool", "pool": {"name": "p"}, "nodes": ["node-1"]}}),
    ("gpuctl_quota", {"definition": {"kind": "quota", "quota": {"name": "q"}, "users": {"default": {"cpu": 9}}}}),
    ("gpuctl_rbac", {"name": "ci", "level": "read"}),
    ("gpuctl_workspace", {"namespace": "default"}),
    ("gpuctl_policy", {"name": "company", "state": "absent"}),
    ("gpuctl_stack", {"name": "nvidia", "state": "absent"}),
    ("gpuctl_monitoring_info", {}),
    ("gpuctl_multikueue", {"workers": [], "kueue_namespace": "default"}),
    ("gpuctl_kubeconfig", {"name": "default", "namespace": "default", "dest": os.devnull + "x", "state": "absent"}),
    ("gpuctl_copy", {"name": "running", "local_path": __file__, "remote_path": "/copied"}),
]
MODULES = {path.stem for path in (ROOT / "plugins" / "modules").glob("gpuctl_*.py")}
MODULES -= {"gpuctl_advice", "gpuctl_notify", "gpuctl_show"}  # have no core
TASKS += [(module, {}) for module in sorted(MODULES - {module for module, _options in TASKS})]
# Prints what a task imports, or which kinds of manifests it prepares, that its action plugin has not done before.
SCRIPT = f"""
import importlib, json, os, sys
sys.path.insert(0, {str(ROOT / ".cache" / "collections")!r})
module, options = sys.argv[1], json.loads(sys.argv[2])
from {PLUGINS}.plugin_utils.module_action import module_spec, preload
from {PLUGINS}.module_utils.task import Task, run_task
preload(module)
spec = module_spec(module)
params = {{name: option.get("default") for name, option in spec.arguments()["argument_spec"].items()}}
before = set(sys.modules)
prepared = []
if "pydantic" in before:
    from pydantic import BaseModel
    rebuild = BaseModel.model_rebuild.__func__
    BaseModel.model_rebuild = classmethod(lambda cls, **how: prepared.append(cls.__name__) or rebuild(cls, **how))
params |= options
result = run_task(Task(spec.options.from_params(params), params, False, print, list), spec)
assert "failed" not in result, result
ours_or_heavy = ("ansible_collections", "pydantic", "urllib3", "yaml", "kubernetes", "ssl", "websocket")
imported = (name for name in set(sys.modules) - before if name.split(".")[0] in ours_or_heavy)
kinds = {{"Training", "Inference", "Notebook", "Compute", "Pool", "Quota", "Policy", "AcceleratorManifest"}}
print(json.dumps([*sorted(imported), *kinds.intersection(prepared)]))
"""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("cluster")
    path = directory / "kubeconfig"
    with (
        Cluster(nodes=1, addons={"kueue"}, exec_root=directory).running() as cluster,
        prometheus_double(utilized) as server,
    ):
        os.environ["GPUCTL_PROMETHEUS_URL"] = server.url
        cluster.kubeconfig(path)
        job = {**JOB, "job": {"name": "running", "time_limit": "8h"}}
        run("gpuctl_job", {"definition": job, "wait": True}, str(path))
        yield str(path)
        del os.environ["GPUCTL_PROMETHEUS_URL"]


@pytest.mark.parametrize(("module", "options"), TASKS, ids=[f"{module} {list(options)}" for module, options in TASKS])
def test_a_task_imports_nothing_of_weight(kubeconfig: str, module: str, options: dict[str, Any]) -> None:
    assert run(module, options, kubeconfig) == []


def run(module: str, options: dict[str, Any], kubeconfig: str) -> Any:
    """What a task imports."""
    command = [sys.executable, "-c", SCRIPT, module, json.dumps({**options, "kubeconfig": kubeconfig})]
    environment = {**os.environ, SWITCH: "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_where_each_task_is_a_process_the_action_plugin_has_imported_the_options_alone() -> None:
    """What it has not imported, each worker imports again; the libraries are for the process of the module."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / ".cache" / "collections")!r})
from {PLUGINS}.plugin_utils.action_plugin import action_plugin
action_plugin("gpuctl_job")
print("{PLUGINS}.modules.gpuctl_job" in sys.modules, "pydantic" in sys.modules)
"""
    environment = {**os.environ, SWITCH: "0"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["True", "False"]
