# SPDX-License-Identifier: BSD-2-Clause
"""Plans that pause, resume, restart and scale live jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import ABSENT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import plan_job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.transitions import (
    LiveJob,
    TransitionRefused,
    pause,
    restart,
    resume,
    scale,
)

from ..engine.objects import live, wanted

NOW = "2026-01-01T00:00:00Z"
KEPT = "runwhere.ai/paused-replicas"
KINDS = {"training": "Job", "inference": "Deployment", "compute": "Deployment", "notebook": "StatefulSet"}
RUNNING = {"Job": {"suspend": False}, "Deployment": {"replicas": 3}, "StatefulSet": {"replicas": 1}}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}
AUTOSCALER = live("HorizontalPodAutoscaler", spec={"minReplicas": 2, "maxReplicas": 5})


def job(
    kind: str = "training",
    *,
    kept: str | None = None,
    queue: str | None = None,
    active: bool | None = None,
    status: Any = None,
    dependents: tuple[dict[str, Any], ...] = (),
    pods: tuple[dict[str, Any], ...] = (),
    **spec: Any,
) -> LiveJob:
    """A running job of the kind; ``kept`` is what its pause annotation says, ``active`` what Kueue's Workload says."""
    workload = live(KINDS[kind], status=status, spec={**RUNNING[KINDS[kind]], **spec})
    labels = {"runwhere.ai/job-type": kind, **({"kueue.x-k8s.io/queue-name": queue} if queue else {})}
    workload["metadata"]["labels"] = {**workload["metadata"]["labels"], **labels}
    if kept is not None:
        workload["metadata"]["annotations"] = {KEPT: kept}
    admission = {"kind": "Workload", "metadata": {"name": "job-train-1a2b"}, "spec": {"active": active}}
    return LiveJob("ml", "train", workload, dependents, pods, admission if active is not None else None)


def pod(gpu: int, *, node: str | None = "node-1", phase: str = "Running") -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpu)}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-x", "uid": "1"}, "spec": spec,
            "status": {"phase": phase}}  # fmt: skip


def changes_of(plan: Plan) -> dict[str, Any]:
    """The values that the first step sets, by their paths; nothing when nothing changes."""
    return {str(change): change.after for change in plan.steps[0].changes}


REPLICAS, ANNOTATION = "spec.replicas", f"metadata.annotations[{KEPT}]"

PAUSE = {
    "a training": (job(), {"spec.suspend": True}),
    "a paused training": (job(suspend=True), {}),
    "a training that succeeded": (job(status=COMPLETE), {}),
    "a training that failed": (job(status=FAILED), {}),
    "an inference": (job("inference"), {REPLICAS: 0, ANNOTATION: "3"}),
    "an autoscaled inference": (job("inference", dependents=(AUTOSCALER,)), {REPLICAS: 0, ANNOTATION: "3"}),
    "a notebook": (job("notebook"), {REPLICAS: 0, ANNOTATION: "1"}),
    "a paused compute": (job("compute", replicas=0, kept="3"), {}),
    "a compute that was paused, and scaled up by hand": (
        job("compute", replicas=4, kept="3"),
        {REPLICAS: 0, ANNOTATION: "4"},
    ),
    "a compute that was scaled to zero": (job("compute", replicas=0), {ANNOTATION: "1"}),
    "an autoscaled one that was scaled to zero": (
        job("inference", replicas=0, dependents=(AUTOSCALER,)),
        {ANNOTATION: "2"},
    ),
    "a training that Kueue has admitted": (job(queue="q", active=True), {"spec.active": False}),
    "a training that waits in a queue": (job(queue="q", active=True, suspend=True), {"spec.active": False}),
    "a paused training in a queue": (job(queue="q", active=False, suspend=True, kept="1"), {}),
    "one that another user has paused in its queue": (job(queue="q", active=False, suspend=True), {ANNOTATION: "1"}),
    "a finished training in a queue": (job(queue="q", status=COMPLETE), {}),
    "a service in a queue": (job("inference", queue="q"), {REPLICAS: 0, ANNOTATION: "3"}),
}  # fmt: skip


@pytest.mark.parametrize(("found", "changes"), PAUSE.values(), ids=PAUSE)
def test_pause(found, changes):
    plan = pause(found)
    assert changes_of(plan) == changes
    assert str(plan.action) == ("pause" if changes else "unchanged")


def test_a_pause_leaves_no_pod_group_of_volcano():
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "podgroup-1"}}
    running = replace(job(), admission=group)
    assert [str(step) for step in pause(running).steps] == [
        "pause Job train: spec.suspend",
        "delete PodGroup podgroup-1",
    ]
    assert str(resume(replace(job(suspend=True), admission=None), NOW).action) == "resume"


RESUME = {
    "a paused training": (job(suspend=True), {"spec.suspend": False}),
    "a running training": (job(), {}),
    "a finished training": (job(status=COMPLETE), {}),
    "a paused inference": (job("inference", replicas=0, kept="3"), {REPLICAS: 3, ANNOTATION: ABSENT}),
    "a running inference": (job("inference"), {}),
    "a paused notebook": (job("notebook", replicas=0, kept="1"), {REPLICAS: 1, ANNOTATION: ABSENT}),
    "a compute that was scaled to zero while paused": (
        job("compute", replicas=0, kept="0"),
        {REPLICAS: 1, ANNOTATION: ABSENT},
    ),
    "a compute that was scaled to zero": (job("compute", replicas=0), {REPLICAS: 1}),
    "a compute whose annotation is not a number": (
        job("compute", replicas=0, kept="x"),
        {REPLICAS: 1, ANNOTATION: ABSENT},
    ),
    "an autoscaled one that was scaled to zero": (
        job("inference", replicas=0, dependents=(AUTOSCALER,)),
        {REPLICAS: 2},
    ),
    "a paused training in a queue": (job(queue="q", active=False, suspend=True, kept="1"), {ANNOTATION: ABSENT}),
    "one that another user has paused in its queue": (
        job(queue="q", active=False, suspend=True),
        {"spec.active": True},
    ),
    "a training that waits in a queue": (job(queue="q", active=True, suspend=True), {}),
}  # fmt: skip


@pytest.mark.parametrize(("found", "changes"), RESUME.values(), ids=RESUME)
def test_resume(found, changes):
    plan = resume(found, NOW)
    started = {"metadata.annotations[runwhere.ai/resumed-at]": NOW} if REPLICAS in changes else {}
    assert changes_of(plan) == changes | started
    assert str(plan.action) == ("resume" if changes else "unchanged")


SCALE = {
    "an inference": (job("inference"), 5, {REPLICAS: 5}),
    "a compute that has them": (job("compute"), 3, {}),
    "a compute, to nothing": (job("compute"), 0, {REPLICAS: 0}),
    "a paused compute keeps them for later": (job("compute", replicas=0, kept="3"), 5, {ANNOTATION: "5"}),
    "a paused compute that keeps as many": (job("compute", replicas=0, kept="3"), 3, {}),
    "a compute that was scaled to zero": (job("compute", replicas=0), 2, {REPLICAS: 2}),
}


@pytest.mark.parametrize(("found", "replicas", "changes"), SCALE.values(), ids=SCALE)
def test_scale(found, replicas, changes):
    plan = scale(found, replicas)
    assert changes_of(plan) == changes
    assert str(plan.action) == ("scale" if changes else "unchanged")


REFUSED = {
    "scaling a training": (lambda: scale(job(), 2), "resources.node_count"),
    "scaling a notebook": (lambda: scale(job("notebook"), 1), "state=paused"),
    "scaling what is autoscaled": (lambda: scale(job("inference", dependents=(AUTOSCALER,)), 2), "autoscaling.max"),
    "restarting a paused training": (lambda: restart(job(suspend=True), NOW), "state=resumed"),
    "restarting a paused notebook": (lambda: restart(job("notebook", replicas=0, kept="1"), NOW), "state=resumed"),
    "restarting what is paused in a queue": (lambda: restart(job(queue="q", active=False), NOW), "state=resumed"),
    "pausing in a queue without Kueue's Workload": (lambda: pause(job(queue="q")), "Workload was not"),
    "resuming in a queue without Kueue's Workload": (
        lambda: resume(job(queue="q", suspend=True), NOW),
        "Workload was not",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("transition", "hint"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_what_to_do(transition, hint):
    with pytest.raises(TransitionRefused, match=hint):
        transition()


@pytest.mark.parametrize("kind", ["inference", "compute", "notebook"])
def test_new_pods_come_by_the_annotation_of_kubectl_rollout_restart(kind):
    plan = restart(job(kind), NOW)
    path = "spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]"
    assert changes_of(plan) == {path: NOW}
    assert [str(step.action) for step in plan.steps] == ["restart"]


def test_a_notebook_whose_pods_are_replaced_by_hand_loses_its_pod():
    plan = restart(job("notebook", updateStrategy={"type": "OnDelete"}, pods=(pod(1),)), NOW)
    assert [str(step.action) for step in plan.steps] == ["restart", "delete"]
    assert plan.steps[1].kind == "Pod"


@pytest.mark.parametrize("status", [None, COMPLETE, FAILED], ids=["running", "succeeded", "failed"])
def test_a_training_is_recreated_as_it_was_applied_with_its_dependents(status):
    """The server's additions to the former run are not part of the next."""
    service = live("Service", "svc-train", spec={"clusterIP": "None"})
    service["metadata"]["ownerReferences"] = [{"uid": "uid-of-train"}]
    found = job(status=status, backoffLimit=3, dependents=(service,))
    found.workload["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-of-train"}}
    plan = restart(found, NOW)
    first, second = plan.steps
    assert [str(step.action) for step in plan.steps] == ["restart", "update"]
    assert first.replaces
    assert first.live == found.workload
    assert first.desired["spec"] == {"suspend": False, "backoffLimit": 3}
    assert second.owned


def test_dependents_stay():
    service = live("Service", "svc-train", spec={})
    plan = pause(job("inference", dependents=(service, AUTOSCALER)))
    assert [str(step) for step in plan.steps[1:]] == [
        "unchanged Service svc-train",
        "unchanged HorizontalPodAutoscaler train",
    ]


GPUS = {
    "pods with nodes hold them": ((pod(4), pod(4)), 8),
    "a pod without a node holds none yet": ((pod(4), pod(4, node=None)), 4),
    "a finished pod holds none any more": ((pod(4), pod(4, phase="Succeeded"), pod(2, phase="Failed")), 4),
    "no pods": ((), 0),
}


@pytest.mark.parametrize(("pods", "number"), GPUS.values(), ids=GPUS)
def test_how_many_gpus_a_pause_releases(pods, number):
    assert pause(job(pods=pods)).released_gpus == number


def test_nothing_is_released_by_what_is_paused_already():
    assert pause(job(suspend=True, pods=(pod(4),))).released_gpus == 0


# -- the manifest of a paused job ------------------------------------------------------------------------------------

SCALED, AUTOSCALED = wanted("Deployment", spec={"replicas": 3}), wanted("Deployment", spec={"image": "a"})
PRESENT = {
    "a paused training stays so": ("training", wanted("Job", spec={}), job(suspend=True), {}),
    "a changed one too": (
        "training",
        wanted("Job", spec={"backoffLimit": 9}),
        job(suspend=True),
        {"spec.backoffLimit": 9},
    ),
    "a running training": ("training", wanted("Job", spec={"suspend": False}), job(), {}),
    "a paused service stays so": ("compute", SCALED, job("compute", replicas=0, kept="3"), {}),
    "a paused service keeps what its manifest asks for": (
        "compute",
        SCALED,
        job("compute", replicas=0, kept="2"),
        {ANNOTATION: "3"},
    ),
    "an autoscaled one stays so": ("inference", AUTOSCALED, job("inference", image="a", replicas=0, kept="3"), {}),
    "what was paused and scaled up by hand": ("compute", SCALED, job("compute", replicas=4, kept="3"), {REPLICAS: 3}),
    "what was scaled to zero by hand": ("compute", SCALED, job("compute", replicas=0), {REPLICAS: 3}),
    "a training that waits in a queue": ("training", wanted("Job", spec={}), job(queue="q", suspend=True), {}),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "desired", "found", "changes"), PRESENT.values(), ids=PRESENT)
def test_a_manifest_does_not_resume(kind, desired, found, changes):
    live_workload = found.workload
    live_workload["metadata"]["managedFields"] = []  # Who applied what is not the matter here.
    plan = plan_job("train", "ml", kind, [desired], [live_workload])
    assert changes_of(plan) == changes


OTHER_KINDS = {
    "a paused service becomes a training": (
        wanted("Job", spec={}),
        job("compute", replicas=0, kept="3"),
        {"suspend": True},
    ),
    "a paused training becomes a service": (SCALED, job(suspend=True), {"replicas": 0}),
}  # fmt: skip


@pytest.mark.parametrize(("desired", "found", "spec"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_a_paused_job_that_becomes_another_kind_is_paused(desired, found, spec):
    (step,) = plan_job("train", "ml", "x", [desired], [found.workload]).steps
    assert str(step.action) == "recreate"
    assert step.desired["spec"] == spec
