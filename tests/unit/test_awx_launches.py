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
    given, workflows = config("job_templates"), config("workflows")["gpuctl_awx_workflows"]
    templates = {each["name"] for each in given["gpuctl_awx_job_templates"]}
    templates |= {f"{template['name']} team-a" for template in given["gpuctl_awx_team_job_templates"]}
    launched = launched_names()
    assert {workflow["name"] for workflow in workflows} <= launched
    by_workflows = {node["job_template"] for each in workflows for node in each["nodes"] if "job_template" in node}
    assert templates - launched - by_workflows == set()


def config(name: str) -> Any:
    return yaml.safe_load((ROOT / "awx" / "config" / f"{name}.yml").read_text())


def launched_names() -> set[str]:
    """The texts that are arguments of launching calls."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests" / "awx").glob("test_*.py"))
    return {
        argument.value
        for tree in trees
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _called(call) in LAUNCHING
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
