# SPDX-License-Identifier: BSD-2-Clause
"""What a role's documentation says is what its defaults and the module behind it say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes import node_label
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import pool
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac import rbac

ROLES = Path(__file__).parents[3] / "roles"
MODULES: dict[str, dict[str, Any]] = {
    "pools": pool.PoolOptions.argument_spec(),
    "quotas": quota.QuotaOptions.argument_spec(),
    "node_labels": node_label.NodeLabelOptions.argument_spec(),
    "jobs": job.JobOptions.argument_spec(),
}

OTHERS = ("rbac", "accelerator_stack", "monitoring", "policy", "schedules")


def read(role: str, *path: str) -> Any:
    return yaml.safe_load(ROLES.joinpath(role, *path).read_text(encoding="utf-8"))


def options(role: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read(role, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
    return found


def test_every_role_is_held_to_a_module():
    assert {path.name for path in ROLES.iterdir()} == {*MODULES, *OTHERS}


@pytest.mark.parametrize("role", [*MODULES, *OTHERS])
def test_defaults_are_complete_and_documented(role: str):
    documented = {name: option["default"] for name, option in options(role).items()}
    assert documented == read(role, "defaults", "main.yml")
    assert all(name.startswith(f"{role}_") for name in documented)


@pytest.mark.parametrize("role", MODULES)
def test_choices_are_those_of_the_module_and_no_answer(role: str):
    for name, option in options(role).items():
        choices = MODULES[role].get(name.removeprefix(f"{role}_"), {}).get("choices")
        assert option.get("choices") == ([*choices, ""] if choices else None), name


@pytest.mark.parametrize("role", MODULES)
def test_a_default_that_is_given_is_that_of_the_module(role: str):
    for name, option in options(role).items():
        if isinstance(option["default"], bool):
            assert option["default"] is MODULES[role][name.removeprefix(f"{role}_")]["default"], name


def test_accounts_have_the_options_of_the_module():
    accounts = options("rbac")["rbac_accounts"]["options"]
    assert accounts.keys() == rbac.RbacOptions.argument_spec().keys()
    for name, option in accounts.items():
        assert option.get("choices") == rbac.RbacOptions.argument_spec()[name].get("choices"), name
