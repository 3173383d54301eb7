# SPDX-License-Identifier: BSD-2-Clause
"""What is known of plans before their jobs are judged: whose pods end for good, and so make room."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_adviser import _pods_kept


def workload(kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "j", "namespace": "a"}, "spec": spec}


JOB = workload("Job", parallelism=2)
THREE = workload(replicas=3)
CASES: dict[str, tuple[Action, dict[str, Any], dict[str, Any], int | None]] = {
    "fewer replicas": (Action.UPDATE, THREE, workload(replicas=1), 1),
    "no replicas, as where it is paused": (Action.UPDATE, THREE, workload(replicas=0), 0),
    "a training that is paused": (Action.UPDATE, JOB, workload("Job", parallelism=2, suspend=True), 0),
    "one that is deleted": (Action.DELETE, THREE, {}, 0),
    "more replicas": (Action.UPDATE, THREE, workload(replicas=4), None),
    "replicas that are left to an autoscaler": (Action.UPDATE, THREE, workload(), None),
    "one that stays": (Action.UNCHANGED, THREE, THREE, None),
    "a new one": (Action.CREATE, {}, THREE, None),
    "a Service": (Action.DELETE, workload("Service"), {}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_pods_that_a_plan_leaves(case: str) -> None:
    action, live, desired, expected = CASES[case]
    step = Step(action, desired, live)
    assert _pods_kept(Plan("j", "a", "compute", [step])) == expected
