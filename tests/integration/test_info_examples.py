# SPDX-License-Identifier: BSD-2-Clause
"""The examples in the documentation of the info modules run as they stand, on any cluster."""

from __future__ import annotations

import importlib

import pytest
import yaml

from .ansible import ROOT, Ansible
from .manifests import training

PLUGINS = "ansible_collections.runwhere.gpuctl.plugins.modules"
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*_info.py"))


def test_the_info_modules_are_found() -> None:
    assert {"gpuctl_job_info", "gpuctl_node_info", "gpuctl_pool_info", "gpuctl_quota_info"} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_run(ansible: Ansible, namespace: str, module: str):
    ansible.job(definition=training(), namespace=namespace)
    tasks = yaml.safe_load(importlib.import_module(f"{PLUGINS}.{module}").EXAMPLES)
    assert any(f"runwhere.gpuctl.{module}" in task for task in tasks)
    run = ansible.play(tasks)
    assert run.status == 0, run.output
    assert [(task.task, task.outcome, task.changed) for task in run.tasks] == [
        (task["name"], "ok", False) for task in tasks
    ], run.output
    assert not any("[WARNING]" in line for line in run.output.splitlines()), run.output
