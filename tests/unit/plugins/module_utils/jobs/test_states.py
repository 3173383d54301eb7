# SPDX-License-Identifier: BSD-2-Clause
"""The table of states and the option that names them."""

from __future__ import annotations

from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.states import GOALS, STATES, state_of

SPEC = JobOptions.argument_spec()


def test_every_state_has_a_row():
    assert {*SPEC["state"]["choices"], "scaled"} == set(STATES)


def test_every_value_of_wait_for_has_a_goal():
    assert SPEC["wait_for"]["choices"] == list(GOALS)


def test_a_name_instead_of_a_manifest_scales():
    assert state_of(JobOptions(name="web", replicas=3)) is STATES["scaled"]
    assert state_of(JobOptions(definition={}, replicas=3)) is STATES["present"]
