# SPDX-License-Identifier: BSD-2-Clause
"""From desired and live objects to steps."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import Change
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import plan_deletion, plan_job

from .objects import live, wanted


def container(image: str) -> dict:
    return {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}


JOB = wanted("Job", spec=container("a"))
SERVICE = wanted("Service", "svc-train", spec={"clusterIP": "None"})
LIVE_JOB = live("Job", spec=container("a"))
LIVE_SERVICE = live("Service", "svc-train", spec={"clusterIP": "None"})
AUTOSCALER = live("HorizontalPodAutoscaler", spec={"minReplicas": 1})


def present(desired, found, kind="training"):
    return plan_job("train", "ml", kind, desired, found)


CASES = {
    "nothing is there": ([JOB, SERVICE], [], "create", ["create Job train", "create Service svc-train"]),
    "all is as wanted": ([JOB], [LIVE_JOB], "unchanged", ["unchanged Job train"]),
    "the image differs": (
        [wanted("Job", spec=container("b"))],
        [LIVE_JOB],
        "update",
        ["update Job train: spec.template.spec.containers[main].image"],
    ),
    "only something around the workload differs": (
        [JOB, SERVICE],
        [LIVE_JOB],
        "update",
        ["unchanged Job train", "create Service svc-train"],
    ),
    "a dependent of a training has lost its owner": (
        [JOB, SERVICE],
        [LIVE_SERVICE],
        "create",
        ["create Job train", "update Service svc-train"],
    ),
    "something of the job is not wanted any more": (
        [wanted("Deployment", spec={"replicas": 2})],
        [live("Deployment", spec={"replicas": 2}), AUTOSCALER],
        "update",
        ["unchanged Deployment train", "delete HorizontalPodAutoscaler train"],
    ),
    "the job becomes another kind": (
        [wanted("Deployment", spec=container("a"))],
        [LIVE_JOB],
        "recreate",
        ["recreate Deployment train"],
    ),
    "the former one is still on its way out": (
        [JOB],
        [live("Job", spec=container("a"), leaving=True)],
        "create",
        ["create Job train"],
    ),
    "what is on its way out is not deleted again": (
        [JOB],
        [LIVE_JOB, live("ConfigMap", "train-hostfile", leaving=True)],
        "unchanged",
        ["unchanged Job train"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("desired", "found", "action", "steps"), CASES.values(), ids=CASES)
def test_present(desired, found, action, steps):
    plan = present(desired, found)
    assert str(plan.action) == action
    assert [str(step) for step in plan.steps] == steps


def test_absent_removes_the_workload_first_and_then_the_rest():
    plan = plan_deletion("train", "ml", "training", [LIVE_SERVICE, LIVE_JOB])
    assert [str(step) for step in plan.steps] == ["delete Job train", "delete Service svc-train"]
    assert str(plan.action) == "delete"


def test_absent_changes_nothing_if_there_is_nothing():
    assert not plan_deletion("train", "ml", None, []).changed


def test_a_plan_prints_only_what_changes():
    plan = present([wanted("Job", spec=container("b")), SERVICE], [LIVE_JOB, LIVE_SERVICE])
    assert str(plan) == (
        "update training ml/train\n"
        "  update Job train: spec.template.spec.containers[main].image\n"
        "  update Service svc-train: metadata.ownerReferences"
    )


MUTABILITY = {
    "a job's image": ("Job", container("a"), container("b"), True),
    "a job's retries": ("Job", {"backoffLimit": 3}, {"backoffLimit": 6}, False),
    "a job's parallelism and completions": ("Job", {"completions": 2}, {"completions": 4}, True),
    "a deployment's image": ("Deployment", container("a"), container("b"), False),
    "a deployment's selector": ("Deployment", {"selector": {"a": "b"}}, {"selector": {"a": "c"}}, True),
    "a stateful set's image": ("StatefulSet", container("a"), container("b"), False),
    "a stateful set's service": ("StatefulSet", {"serviceName": "a"}, {"serviceName": "b"}, True),
    "a service's cluster address": ("Service", {"clusterIP": "None"}, {"clusterIP": "10.0.0.1"}, True),
    "an autoscaler's range": ("HorizontalPodAutoscaler", {"maxReplicas": 2}, {"maxReplicas": 3}, False),
}


@pytest.mark.parametrize(("kind", "before", "after", "uncertain"), MUTABILITY.values(), ids=MUTABILITY)
def test_which_updates_are_uncertain(kind, before, after, uncertain):
    (step,) = present([wanted(kind, spec=after)], [live(kind, spec=before)]).steps
    assert step.uncertain is uncertain
    assert bool(step.immutable) is uncertain


def test_labels_can_always_change_in_place():
    desired = wanted("Job", spec=container("a"))
    desired["metadata"] = {**desired["metadata"], "labels": {"app": "train", "runwhere.ai/pool": "b"}}
    (step,) = present([desired], [LIVE_JOB]).steps
    assert not step.uncertain


SUSPEND = (Change(("spec", "suspend"), False, True),)


@pytest.mark.parametrize("action", [Action.PAUSE, Action.SCALE, Action.UPDATE])
def test_changes_without_a_desired_object_are_patched(action):
    assert Step(action, {}, LIVE_JOB, SUSPEND).patches
    assert not Step(action, JOB, LIVE_JOB, SUSPEND).patches


@pytest.mark.parametrize("action", [Action.DELETE, Action.UNCHANGED])
def test_a_step_without_changes_patches_nothing(action):
    assert not Step(action, {}, LIVE_JOB).patches


def test_what_a_training_needs_belongs_to_its_job():
    workload, service = present([JOB, SERVICE], [LIVE_JOB, LIVE_SERVICE]).steps
    (reference,) = service.desired["metadata"]["ownerReferences"]
    assert reference == {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-of-train"}
    assert service.owned
    assert not workload.owned


def test_a_service_survives_its_deployment():
    """Its node port would change with every recreation of the workload otherwise."""
    _, service = present([wanted("Deployment", spec={}), SERVICE], [live("Deployment", spec={}), LIVE_SERVICE]).steps
    assert "ownerReferences" not in service.desired["metadata"]
    assert not service.owned
