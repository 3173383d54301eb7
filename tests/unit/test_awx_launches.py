# SPDX-License-Identifier: BSD-2-Clause
"""tests/awx, which need a real AWX, launch every job template and workflow of awx/config."""

from __future__ import annotations

import ast
from typing import Any

import yaml

from tools.tree import ROOT

# Functions of the tests whose arguments have the name of what is launched.
LAUNCHING = ("launch", "succeeds")


def test_every_job_template_and_workflow_is_launched() -> None:
    """Those that need several clusters are launched in tests/integration/test_awx_clusters.py."""
    given, workflow = config("job_templates"), config("workflows")["gpuctl_awx_workflows"][0]
    templates = {each["name"] for each in given["gpuctl_awx_job_templates"] if "of_clusters" not in each}
    templates |= {f"{template['name']} team-a" for template in given["gpuctl_awx_team_job_templates"]}
    launched = launched_names()
    assert workflow["name"] in launched
    by_workflow = {node["job_template"] for node in workflow["nodes"] if "job_template" in node}
    assert templates - launched - by_workflow == set()


def config(name: str) -> Any:
    return yaml.safe_load((ROOT / "awx" / "config" / f"{name}.yml").read_text())


def launched_names() -> set[str]:
    """The texts that are arguments of launching calls."""
    tree = ast.parse((ROOT / "tests" / "awx" / "test_real_awx.py").read_text())
    return {
        argument.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _called(call) in LAUNCHING
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
