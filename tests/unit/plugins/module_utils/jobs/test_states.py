# SPDX-License-Identifier: BSD-2-Clause
"""The table of states and the option that names them."""

from __future__ import annotations

import re
from typing import Any

import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import GOALS, STATES, state_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.modules.gpuctl_job import DOCUMENTATION, RETURN

SPEC = JobOptions.argument_spec()


def test_every_state_has_a_row():
    assert {*SPEC["state"]["choices"], "scaled", "kept"} == set(STATES)


def test_every_state_and_action_is_described():
    state = yaml.safe_load(DOCUMENTATION)["options"]["state"]
    assert values_in(state) >= set(state["choices"])
    done = {str(action) for action in Action}
    assert values_in(yaml.safe_load(RETURN)["results"]["contains"]["action"]) == done


def values_in(documented: dict[str, Any]) -> set[str]:
    """The words in ``V(...)`` of a description."""
    return set(re.findall(r"V\((\w+)\)", "".join(documented["description"])))


def test_every_value_of_wait_for_has_a_goal():
    assert SPEC["wait_for"]["choices"] == list(GOALS)


def test_a_name_instead_of_a_manifest_scales_or_only_waits():
    assert state_of(JobOptions(name="web", wait=True)) is STATES["kept"]
    assert state_of(JobOptions(name="web", replicas=3)) is STATES["scaled"]
    assert state_of(JobOptions(definition={}, replicas=3)) is STATES["present"]
