# SPDX-License-Identifier: BSD-2-Clause
"""The private parts of every supported ansible-core behave as plugin_utils/ansible_core.py expects."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.block import Block
from ansible.release import __version__
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import (
    censor_results,
    hide_origin,
    plain_options,
    returns_invocation,
    validate_options,
    value_of_result,
)

SPEC: dict[str, Any] = {
    "argument_spec": {
        "name": {"type": "str", "aliases": ["job"]},
        "api_key": {"type": "str", "no_log": True},
        "old": {"type": "str", "removed_in_version": "9.0.0", "removed_from_collection": "runwhere.gpuctl"},
        "wait_timeout": {"type": "int", "default": 600},
    }
}


def test_defaults_are_filled_in_and_types_converted() -> None:
    options = validate_options(SPEC, {"name": "a", "wait_timeout": "5"}, "gpuctl_job")
    assert options.params == {"name": "a", "api_key": None, "old": None, "wait_timeout": 5}
    assert (options.error, options.warnings, options.deprecations, options.secrets) == (None, [], [], set())


def test_secrets_are_collected() -> None:
    assert validate_options(SPEC, {"api_key": "s3cret"}, "gpuctl_job").secrets == {"s3cret"}


def test_an_option_given_twice_is_a_warning() -> None:
    options = validate_options(SPEC, {"name": "a", "job": "b"}, "gpuctl_job")
    assert options.warnings == ["Both option name and its alias job are set."]


def test_deprecations_can_be_returned() -> None:
    (deprecation,) = validate_options(SPEC, {"old": "x"}, "gpuctl_job").deprecations
    assert "old" in deprecation["msg"]
    json.dumps(deprecation)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"nmae": "a"}, "Unsupported parameters for (gpuctl_job) module: nmae. Supported parameters include: "),
        ({"wait_timeout": "soon"}, "argument 'wait_timeout' is of type"),
    ],
)
def test_errors_are_those_of_a_module(given: dict[str, Any], error: str) -> None:
    assert error in (validate_options(SPEC, given, "gpuctl_job").error or "")


def test_options_become_plain_data() -> None:
    options = DataLoader().load("name: text\nnodes: [gpu-1]\n", file_name="/vars.yml")
    plain = plain_options(options)
    assert plain == {"name": "text", "nodes": ["gpu-1"]}
    assert [type(value) for value in (plain["name"], plain["nodes"], plain["nodes"][0])] == [str, list, str]


def test_each_entry_of_results_asks_for_no_log() -> None:
    result: dict[str, Any] = {"results": [{"name": "a"}]}
    censor_results(result)
    assert result["results"] == [{"name": "a", "_ansible_no_log": True}]
    censor_results({})


def test_invocation_is_returned_if_the_setting_says_so() -> None:
    assert returns_invocation({"ansible_inject_invocation": True})
    newest = tuple(map(int, __version__.split(".")[:2])) >= (2, 21)
    assert returns_invocation({"ansible_inject_invocation": False}) is not newest


@pytest.mark.parametrize(
    ("folder", "shown"),
    [
        ("ansible_collections/runwhere/gpuctl/playbooks/tasks", False),
        ("ansible_collections/runwhere/gpuctl/roles/jobs/tasks", False),
        ("mine/playbooks", True),
    ],
)
def test_errors_quote_the_tasks_of_users_alone(tmp_path: Path, folder: str, shown: bool) -> None:
    path = tmp_path / folder / "main.yml"
    path.parent.mkdir(parents=True)
    path.write_text("- block: []\n", encoding="utf-8")
    (own,) = DataLoader().load_from_file(str(path))
    task = Block.load(own)  # Task.load looks for the action, which depends on the loaders of plugins.
    hide_origin(task)
    assert (task.get_ds() is not None) == shown


@pytest.mark.parametrize("attribute", ["_result", "_return_data"])
def test_a_value_of_a_result(attribute: str) -> None:
    """Each ansible-core makes its results in its own way."""
    result = SimpleNamespace(**{attribute: {"warnings": ["careful"]}})
    assert value_of_result(result, "warnings") == ["careful"]
    assert value_of_result(result, "format") is None
