# SPDX-License-Identifier: BSD-2-Clause
"""The sums of a plan count each preempted job once, also one that two jobs of the plan preempt."""

from __future__ import annotations

from typing import Any, cast

from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.directory_plan import PlannedManifest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.plan_effects import (
    PlanEffect,
    with_preemptions,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.plan_info import _plan_totals
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.select import SelectedJob


def effect(name: str, *victims: str) -> PlanEffect:
    fit: dict[str, Any] = {"preempts": [{"namespace": "team-b", "name": victim} for victim in victims]}
    plan = Plan(name, "team-a", "training")
    return PlanEffect(PlannedManifest("training", plan, job=cast(SelectedJob, object()), fit=fit))


def test_preempted_jobs_are_counted_once():
    effects = [effect("one", "low", "lower"), effect("two", "low"), effect("three")]
    assert _plan_totals(effects, [])["jobs_preempted"] == 2


def test_a_job_that_another_one_of_the_plan_preempts_says_so():
    row: dict[str, Any] = {"namespace": "team-a", "name": "web", "note": "Kept.", "preempts": []}
    other = {**row, "name": "new", "note": None, "preempts": ["team-a/web", "team-a/low"]}
    noted, unchanged = with_preemptions([row, other])
    assert noted["note"] == "Kept. It is preempted by team-a/new, which this plan starts."
    assert unchanged == other
