# SPDX-License-Identifier: BSD-2-Clause
"""Whether a saved plan is the one that would be made now."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import ABSENT, Change
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.directory_plan import PlannedManifest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.plan_effects import PlanEffect
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.saved_plan import (
    differences,
    manifests_digest,
    problem_of,
    step_digests,
    steps_done,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import SUBMITTED_BY

SECRET = "s3cr3t-value"


def deployment(replicas: int, uid: str = "1", **annotations: str) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "team-a", "uid": uid, "annotations": annotations}
    container = {"name": "main", "env": [{"name": "TOKEN", "value": SECRET}]}
    spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def effect(*steps: Step, **fields: Any) -> PlanEffect:
    return PlanEffect(PlannedManifest("compute", Plan("web", "team-a", "compute", steps)), **fields)


def scaled(before: Any, after: int, live: dict[str, Any] | None = None) -> Step:
    change = Change(("spec", "replicas"), before, after)
    return Step(Action.UPDATE, deployment(after), live or deployment(1), (change,))


ONE = effect(scaled(1, 2))
OTHERS = {
    "another value before": effect(scaled(3, 2)),
    "another value after": effect(scaled(1, 4)),
    "no value before": effect(scaled(ABSENT, 2)),
    "another object": effect(scaled(1, 2, deployment(1, uid="2"))),
    "another action": effect(Step(Action.DELETE, {}, deployment(1))),
    "what else it stops": replace(ONE, hours_lost=0.5),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_step_is_another_one(other: PlanEffect) -> None:
    assert step_digests([other]) != step_digests([ONE])


def test_what_no_step_depends_on_does_not_matter() -> None:
    busy = {**deployment(1), "status": {"readyReplicas": 1}}
    busy["metadata"]["resourceVersion"] = "77"
    assert step_digests([effect(scaled(1, 2, busy))]) == step_digests([ONE])
    unchanged = effect(Step(Action.UNCHANGED, deployment(1), deployment(1)))
    assert step_digests([ONE, unchanged]) == step_digests([ONE])


def test_any_user_may_apply_it() -> None:
    alice, bob = (effect(Step(Action.CREATE, deployment(1, **{SUBMITTED_BY: name}), {})) for name in ("alice", "bob"))
    assert step_digests([alice]) == step_digests([bob])
    assert step_digests([effect(Step(Action.CREATE, deployment(2), {}))]) != step_digests([alice])


def test_contents_are_not_in_the_plan() -> None:
    assert SECRET not in json.dumps(step_digests([effect(Step(Action.CREATE, deployment(1), {}))]))


def test_the_order_of_files_does_not_matter_but_their_names_and_texts_do() -> None:
    files = [("a.yaml", "1"), ("b.yaml", "2")]
    assert manifests_digest(files) == manifests_digest(reversed(files))
    assert manifests_digest(files) != manifests_digest([("a.yaml", "2"), ("b.yaml", "1")])


def saved(**changes: Any) -> dict[str, Any]:
    plan = {
        "format": 1,
        "made_at": "2026-01-01T00:00:00Z",
        "cluster": "c1",
        "options": {"src": ["/a"], "force": False},
        "manifests": "m1",
        "steps": {"Job a/b": "1", "Job a/c": "2"},
    }
    return {**plan, **changes}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"options": {"src": ["/elsewhere"], "force": False}}, []),
        ({"options": {"src": ["/a"], "force": False, "policies": ["/elsewhere/p.yaml"]}}, []),
        ({"cluster": ""}, []),
        ({"cluster": "c2", "manifests": "m2"}, ["The plan is for another cluster."]),
        ({"manifests": "m2"}, ["The manifests are no longer those that the plan was made from."]),
        (
            {"options": {"src": ["/a"], "force": True}},
            ["The plan was made with O(force) false, and this task has true."],
        ),
        (
            {"options": {"src": ["/a"], "force": False, "namespace": "team-a"}},
            ["The plan was made with O(namespace) nothing, and this task has team-a."],
        ),
        ({"steps": {"Job a/b": "1"}}, []),  # The other one is done.
        ({"steps": {}}, []),
        (
            {"steps": {"Job a/b": "9"}},
            ["Job a/b: missing, another one, or with other values than the plan was made for."],
        ),
        (
            {"steps": {"Job a/b": "1", "Job a/c": "2", "Job a/d": "3"}},
            ["Job a/d: a change is needed now as well."],
        ),
        (
            {"steps": {"Job a/b": "1", "Job a/c": "2", "training a/b": "3"}},
            ["training a/b: running work would be stopped now."],
        ),
        (
            {"steps": {"Job a/b": "9", "Job a/c": "2"}},
            ["Job a/b: missing, another one, or with other values than the plan was made for."],
        ),
    ],
)
def test_differences(changes: dict[str, Any], expected: list[str]) -> None:
    assert list(differences(saved(), saved(**changes), lambda namespace, uid: False)) == expected


# A training with a Service of its own, to be recreated, that has run for hours.
BEFORE = saved(
    steps={"Job a/t": "recreate", "Service a/svc-t": "update", "training a/t": "loses work"},
    targets={
        "Job a/t": {"job": "training a/t", "namespace": "a", "leaves": "j", "replaces": "uid-1", "creates": False},
        "Service a/svc-t": {"workload": "Job a/t", "leaves": "s"},
    },
)
DELETED = {"job": "training a/t", "namespace": "a", "leaves": "j", "replaces": None, "creates": True}
OWNED = {"workload": "Job a/t", "leaves": "s"}


@pytest.mark.parametrize(
    ("steps", "targets", "replaced", "done", "expected"),
    [
        pytest.param({}, {}, [], 2, [], id="all is done"),
        pytest.param(
            {"Job a/t": "create", "Service a/svc-t": "create"},
            {"Job a/t": DELETED, "Service a/svc-t": OWNED},
            ["uid-1"],
            0,
            [],
            id="deleted, and not created again",
        ),
        pytest.param(
            {"Service a/svc-t": "create with owner"},
            {"Service a/svc-t": OWNED},
            [],
            1,
            [],
            id="only the Job is created",
        ),
        pytest.param(
            {"Job a/t": "create", "Service a/svc-t": "create"},
            {"Job a/t": DELETED, "Service a/svc-t": OWNED},
            [],
            0,
            [
                "training a/t: no running work would be stopped any more.",
                "Job a/t, Service a/svc-t: missing, another one, or with other values than the plan was made for.",
            ],
            id="someone else has deleted it",
        ),
        pytest.param(
            {"Job a/t": "create"},
            {"Job a/t": {**DELETED, "leaves": "other"}},
            ["uid-1"],
            1,
            [
                "training a/t: no running work would be stopped any more.",
                "Job a/t: missing, another one, or with other values than the plan was made for.",
            ],
            id="another Job would be created",
        ),
        pytest.param(
            {"Service a/svc-t": "create"},
            {"Service a/svc-t": {**OWNED, "leaves": "other"}},
            [],
            1,
            ["Service a/svc-t: missing, another one, or with other values than the plan was made for."],
            id="another Service would be created",
        ),
        pytest.param(
            {"Job a/t": "recreate", "Service a/svc-t": "update"},
            {},
            [],
            0,
            ["training a/t: no running work would be stopped any more."],
            id="it has ended by itself",
        ),
    ],
)
def test_a_recreation_that_was_interrupted(
    steps: dict[str, str], targets: dict[str, Any], replaced: list[str], done: int, expected: list[str]
) -> None:
    now = saved(steps=steps, targets=targets)
    found = differences(BEFORE, now, lambda namespace, uid: (namespace, uid) in [("a", each) for each in replaced])
    assert list(found) == expected
    titles, number = steps_done(BEFORE, now)
    assert (len(titles), number) == (done, 2)


@pytest.mark.parametrize(
    "data",
    [None, [], "text", {}, {"format": 2}, saved(steps=[]), saved(options=None), saved(cluster=1), saved(targets=[])],
)
def test_what_is_no_plan(data: Any) -> None:
    assert "M(gpuctl_plan_info)" in str(problem_of(data))


def test_what_is_a_plan() -> None:
    assert problem_of(saved()) is None
