# SPDX-License-Identifier: BSD-2-Clause
"""What is sent to apply a plan, and what is reported when it fails halfway."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.apply import ApplyFailed, Executor
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import (
    plan_deletion,
    plan_job,
    step_for,
    with_owner,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection

from ..kube.conversation import Exchange, conversation
from .objects import at, live, wanted

JOB = "/apis/batch/v1/namespaces/ml/jobs/train"
DEPLOYMENT = "/apis/apps/v1/namespaces/ml/deployments/train"
SERVICE = "/api/v1/namespaces/ml/services/svc-train"
PODS = "/api/v1/namespaces/ml/pods"
CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/gpuctl-high"
APPLY = {"fieldManager": "runwhere.gpuctl", "force": "false", "fieldValidation": "Strict"}
OLD, NEW = {"template": {"image": "old"}}, {"template": {"image": "new"}}
DELETED = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "gone"}


def refusal(message: str) -> dict[str, Any]:
    return {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}


def failed(plan: Plan, *exchanges: Exchange) -> ApplyFailed:
    """The error of applying the plan when the server answers like that."""
    with conversation(*exchanges) as url:
        client = Client(Connection(url, authorization=dict, retries=0), sleep=lambda seconds: None)
        executor = Executor(client, check_mode=False, gone_timeout=0, warn=pytest.fail, sleep=lambda seconds: None)
        with pytest.raises(ApplyFailed) as caught:
            executor.apply_plan(plan)
    return caught.value


def recreation() -> Plan:
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=NEW)], [live("Job", spec=OLD)])
    (step,) = plan.steps
    return plan.with_steps([replace(step, action=Action.RECREATE)])


def test_the_former_job_is_restored_when_its_replacement_is_refused():
    problem = failed(
        recreation(),
        Exchange("DELETE", JOB),
        Exchange("GET", JOB, status=404, answer=DELETED),
        Exchange(
            "PATCH", JOB, APPLY, sent=at(wanted("Job", spec=NEW), "1"), status=403, answer=refusal("exceeded quota")
        ),
        Exchange("PATCH", JOB, APPLY, sent=at(wanted("Job", spec=OLD), "1")),
    )
    assert "training train in namespace ml: exceeded quota" in str(problem)
    assert str(problem).endswith("The former Job was restored.")
    assert problem.result.plan.action is Action.RECREATE, "its pods were lost: that is a change"


def test_a_paused_job_is_restored_as_paused():
    former = live("Job", spec=OLD)
    former["spec"] = {**OLD, "suspend": True}  # written by a pause, not applied
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=NEW)], [former])
    paused = {**NEW, "suspend": True}
    failed(
        plan.with_steps([replace(plan.steps[0], action=Action.RECREATE)]),
        Exchange("DELETE", JOB),
        Exchange("GET", JOB, status=404, answer=DELETED),
        Exchange(
            "PATCH", JOB, APPLY, sent=at(wanted("Job", spec=paused), "1"), status=403, answer=refusal("exceeded quota")
        ),
        Exchange("PATCH", JOB, APPLY, sent=at(wanted("Job", spec={**OLD, "suspend": True}), "1")),
    )


def test_what_the_former_job_owned_is_restored_with_it():
    former, service = live("Job", spec=OLD), live("Service", "svc-train", spec={"clusterIP": "None"})
    service = with_owner(service, former, former["metadata"]["uid"])
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=NEW)], [former, service])
    again = live("Job", spec=OLD)
    again["metadata"]["uid"] = "another"
    failed(
        plan.with_steps([replace(plan.steps[0], action=Action.RECREATE), *plan.steps[1:]]),
        Exchange("DELETE", JOB),
        Exchange("GET", JOB, status=404, answer=DELETED),
        Exchange(
            "PATCH", JOB, APPLY, sent=at(wanted("Job", spec=NEW), "1"), status=403, answer=refusal("exceeded quota")
        ),
        Exchange("PATCH", JOB, APPLY, sent=at(wanted("Job", spec=OLD), "1"), answer=again),
        Exchange(
            "PATCH",
            SERVICE,
            APPLY,
            sent=at(with_owner(wanted("Service", "svc-train", spec={"clusterIP": "None"}), again, "another"), "1"),
        ),
    )


def test_a_former_job_that_cannot_be_restored_is_reported():
    problem = failed(
        recreation(),
        Exchange("DELETE", JOB),
        Exchange("GET", JOB, status=404, answer=DELETED),
        Exchange("PATCH", JOB, APPLY, status=403, answer=refusal("exceeded quota")),
        Exchange("PATCH", JOB, APPLY, status=403, answer=refusal("the namespace is terminating")),
    )
    assert (
        "The former Job was deleted, its successor was not created, and it was not restored either: "
        "the namespace is terminating"
    ) in str(problem)
    assert problem.result.plan.changed


@pytest.mark.parametrize(
    ("lost", "outcome"),
    [
        (Exchange("GET", JOB, status=0), "it is not known whether it was restored: cannot reach"),
        (Exchange("GET", JOB, status=404, answer=DELETED), "it was not restored either: cannot reach"),
    ],
)
def test_a_restoration_without_an_answer_is_looked_up(lost, outcome):
    problem = failed(
        recreation(),
        Exchange("DELETE", JOB),
        Exchange("GET", JOB, status=404, answer=DELETED),
        Exchange("PATCH", JOB, APPLY, status=403, answer=refusal("exceeded quota")),
        Exchange("PATCH", JOB, APPLY, status=0),
        lost,
    )
    assert outcome in str(problem)


def test_a_restoration_that_ends_halfway_says_so():
    former, service = live("Job", spec=OLD), live("Service", "svc-train", spec={"clusterIP": "None"})
    service = with_owner(service, former, former["metadata"]["uid"])
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=NEW)], [former, service])
    problem = failed(
        plan.with_steps([replace(plan.steps[0], action=Action.RECREATE), *plan.steps[1:]]),
        Exchange("DELETE", JOB),
        Exchange("GET", JOB, status=404, answer=DELETED),
        Exchange("PATCH", JOB, APPLY, status=403, answer=refusal("exceeded quota")),
        Exchange("PATCH", JOB, APPLY, answer=live("Job", spec=OLD)),
        Exchange("PATCH", SERVICE, APPLY, status=403, answer=refusal("exceeded quota: services")),
    )
    assert "it was restored without all that it owned: exceeded quota: services" in str(problem)


def test_a_deletion_whose_pods_may_not_be_deleted_is_a_change():
    plan = plan_deletion("train", "ml", "training", [live("Job", spec=OLD)])
    selector = {"labelSelector": "app=train,app.kubernetes.io/managed-by=runwhere.gpuctl"}
    with conversation(
        Exchange("DELETE", JOB), Exchange("DELETE", PODS, selector, status=403, answer=refusal("not your pods"))
    ) as url:
        client = Client(Connection(url, authorization=dict, retries=0))
        executor = Executor(client, check_mode=False, gone_timeout=0, warn=pytest.fail, grace_seconds=0)
        with pytest.raises(ApplyFailed) as caught:
            executor.apply_plan(plan)
    assert "not your pods" in str(caught.value)
    assert "Job train was deleted, but its pods may take their grace period to end." in str(caught.value)
    assert [str(step) for step in caught.value.result.plan.steps] == ["delete Job train"]


def test_a_deployment_that_disappears_before_an_autoscaler_takes_over_is_a_conflict():
    found = live("Deployment", spec={"replicas": 2})
    plan = plan_job("train", "ml", "inference", [wanted("Deployment", spec={})], [found])
    gone = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "uid mismatch"}
    handover = {**APPLY, "fieldManager": "runwhere.gpuctl-handover"}
    problem = failed(
        plan,
        Exchange("PATCH", DEPLOYMENT, handover, status=409, answer=gone),
        Exchange("GET", DEPLOYMENT, status=404, answer=DELETED),
    )
    assert problem.result.conflict
    assert "Deployment train was deleted at the same time" in str(problem)


def test_a_deletion_that_times_out_is_a_change():
    terminating = Exchange("GET", JOB, answer=live("Job", spec=OLD, leaving=True))
    problem = failed(recreation(), Exchange("DELETE", JOB), terminating)
    assert "still terminating after 0 s: Job train." in str(problem)
    assert "The former Job was deleted, its successor was not created." in str(problem)
    assert problem.result.plan.changed


def test_a_wait_for_former_pods_shows_progress():
    metadata = {"namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"containers": [{"name": "main"}], "nodeName": "node-1"}
    pod = {"metadata": {"name": "train-x", "uid": "p", **metadata}, "spec": spec}
    other = {"metadata": {"name": "train-y", "uid": "q", **metadata}, "spec": spec}
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=NEW)], [])
    plan = plan.with_steps([replace(plan.steps[0], former_pods=(pod,))])
    selector = {"labelSelector": "app=train,app.kubernetes.io/managed-by=runwhere.gpuctl", "limit": "500"}
    pods = {**selector, "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    none = Exchange("GET", JOB, status=404, answer=DELETED)
    lines: list[str] = []
    with conversation(
        none,
        Exchange("GET", PODS, pods, answer={"items": [pod, other]}),
        replace(none),
        Exchange("GET", PODS, pods, answer={"items": [other]}),  # of another run
        Exchange("PATCH", JOB, APPLY, sent=at(wanted("Job", spec=NEW), "1"), answer=live("Job", spec=NEW)),
    ) as url:
        client = Client(Connection(url, authorization=dict, retries=0), sleep=lambda seconds: None)
        executor = Executor(
            client, False, gone_timeout=60, warn=pytest.fail, progress=lines.append, sleep=lambda seconds: None
        )
        executor.apply_plan(plan)
    assert lines == ["training train in namespace ml: waits until its predecessor is gone: Pod train-x on node-1"]


def test_the_pods_of_a_job_that_another_run_has_created_are_not_waited_for():
    pod = {"metadata": {"name": "train-0", "namespace": "ml", "uid": "p"}, "spec": {}}
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=NEW)], [])
    plan = plan.with_steps([replace(plan.steps[0], former_pods=(pod,))])
    problem = failed(plan, Exchange("GET", JOB, answer=live("Job", spec=OLD)))
    assert problem.result.conflict
    assert "another run changed Job train at the same time" in str(problem)


def test_a_job_that_another_run_has_created_meanwhile_is_a_conflict():
    theirs = live("Job", spec=OLD)
    theirs["metadata"]["uid"] = "another"
    problem = failed(recreation(), Exchange("DELETE", JOB), Exchange("GET", JOB, answer=theirs))
    assert problem.result.conflict
    assert problem.result.plan.changed
    assert "another run changed Job train at the same time" in str(problem)
    assert "was not created" not in str(problem)


def test_a_lost_creation_is_not_followed_by_a_restoration():
    lost = Exchange("GET", JOB, status=0)
    gone = Exchange("GET", JOB, status=404, answer=DELETED)
    problem = failed(recreation(), Exchange("DELETE", JOB), gone, Exchange("PATCH", JOB, APPLY, status=0), lost)
    assert "The former Job was deleted. It is not known whether its successor was created." in str(problem)
    assert problem.result.plan.changed


def test_a_lost_write_that_cannot_be_looked_up_counts_as_a_change():
    plan = plan_job("train", "ml", "inference", [wanted("Deployment")], [])
    problem = failed(plan, Exchange("PATCH", DEPLOYMENT, APPLY, status=0), Exchange("GET", DEPLOYMENT, status=0))
    assert str(problem).endswith("It is not known whether Deployment train was written.")
    assert [str(step) for step in problem.result.plan.steps] == ["create Deployment train"]


def test_a_lost_write_that_was_not_made_is_no_change():
    plan = plan_job("train", "ml", "inference", [wanted("Deployment")], [])
    absent = Exchange("GET", DEPLOYMENT, status=404, answer=DELETED)
    problem = failed(plan, Exchange("PATCH", DEPLOYMENT, APPLY, status=0), absent)
    assert "not known" not in str(problem)
    assert not problem.result.plan.changed


def test_what_a_former_job_owned_is_never_reused():
    former, service = live("Job", spec=OLD), live("Service", "svc-train", spec={"clusterIP": "None"})
    service = with_owner(service, former, former["metadata"]["uid"])
    plan = plan_job(
        "train", "ml", "training", [wanted("Job", spec=NEW), wanted("Service", "svc-train")], [former, service]
    )
    plan = plan.with_steps([replace(plan.steps[0], action=Action.RECREATE), *plan.steps[1:]])
    successor = live("Job", spec=NEW)
    successor["metadata"]["uid"] = "another"
    desired = at(with_owner(wanted("Service", "svc-train"), successor, "another"), "1")
    stale = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
    leaving = {**service, "metadata": {**service["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    background = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    with conversation(
        Exchange("DELETE", JOB),
        Exchange("GET", JOB, status=404, answer=DELETED),
        Exchange("PATCH", JOB, APPLY, answer=successor),
        Exchange("PATCH", SERVICE, APPLY, sent=desired, status=409, answer=stale),
        Exchange("GET", SERVICE, answer=leaving),
        Exchange("DELETE", SERVICE, sent={**background, "preconditions": {"uid": "uid-of-svc-train"}}),
        Exchange("PATCH", SERVICE, APPLY, sent=desired, answer=live("Service", "svc-train")),
    ) as url:
        client = Client(Connection(url, authorization=dict, retries=0))
        Executor(client, check_mode=False, gone_timeout=0, warn=pytest.fail).apply_plan(plan)


def test_a_refused_deletion_is_not_a_change():
    problem = failed(recreation(), Exchange("DELETE", JOB, status=403, answer=refusal("not yours")))
    assert "not yours" in str(problem)
    assert not problem.result.plan.changed


def test_the_result_has_the_steps_before_a_refused_one():
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gpuctl-high"}}
    objects = [wanted("Deployment"), wanted("Service", "svc-train")]
    plan = plan_job("train", "ml", "inference", objects, [])
    plan = replace(plan, prerequisites=(step_for(priority, None),))
    problem = failed(
        plan,
        Exchange("PATCH", CLASS, APPLY, answer=priority),
        Exchange("PATCH", DEPLOYMENT, APPLY, answer=live("Deployment")),
        Exchange("PATCH", SERVICE, APPLY, status=403, answer=refusal("exceeded quota: services.nodeports")),
    )
    assert "exceeded quota: services.nodeports" in str(problem)
    assert [str(step) for step in problem.result.plan.prerequisites] == ["create PriorityClass gpuctl-high"]
    assert [str(step) for step in problem.result.plan.steps] == ["create Deployment train"]


def test_a_connection_error_names_the_job():
    plan = plan_job("train", "ml", "inference", [wanted("Deployment")], [])
    assert "inference train in namespace ml: cannot reach" in str(
        failed(plan, Exchange("PATCH", DEPLOYMENT, APPLY, status=0), Exchange("GET", DEPLOYMENT, status=0))
    )


# -- many plans --------------------------------------------------------------------------------------------------------

PRIORITY = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gpuctl-high"}}
APPLIED = f"{DEPLOYMENT.removesuffix('train')}{{}}"


def service_plan(name: str, *, needs_class: bool = False) -> Plan:
    plan = plan_job(name, "ml", "compute", [wanted("Deployment", name)], [])
    return replace(plan, prerequisites=(step_for(PRIORITY, None),)) if needs_class else plan


def fates(plans: list[Plan], *exchanges: Exchange, keep_going: bool) -> list[str]:
    """What became of each plan, one after the other, when the server answers like that."""
    with conversation(*exchanges) as url:
        client = Client(Connection(url, authorization=dict, retries=0, concurrency=1))
        executor = Executor(client, check_mode=False, gone_timeout=0, warn=pytest.fail)
        results = executor.apply_plans(plans, keep_going=keep_going)
    return [
        "not begun"
        if result is None
        else result.error or "; ".join(map(str, (*result.plan.prerequisites, *result.plan.steps)))
        for result in results
    ]


def apply(name: str, **answer: Any) -> Exchange:
    return Exchange("PATCH", APPLIED.format(name), APPLY, **{"answer": live("Deployment", name), **answer})


REFUSED: dict[str, Any] = {"status": 403, "answer": refusal("exceeded quota")}


def test_a_shared_prerequisite_is_applied_once_for_the_first_plan():
    plans = [service_plan("a"), service_plan("b", needs_class=True), service_plan("c", needs_class=True)]
    made = Exchange("PATCH", CLASS, APPLY, answer=PRIORITY)
    assert fates(plans, made, apply("a"), apply("b"), apply("c"), keep_going=False) == [
        "create Deployment a",
        "create PriorityClass gpuctl-high; create Deployment b",
        "create Deployment c",
    ]


@pytest.mark.parametrize("keep_going", [False, True])
def test_after_a_failure_no_plan_is_begun_unless_keep_going(keep_going):
    plans = [service_plan("a"), service_plan("b"), service_plan("c")]
    exchanges = [apply("a"), apply("b", **REFUSED), *([apply("c")] if keep_going else [])]
    (done, refused, last) = fates(plans, *exchanges, keep_going=keep_going)
    assert done == "create Deployment a"
    assert refused.startswith("exceeded quota")
    assert last == ("create Deployment c" if keep_going else "not begun")


def test_a_refused_prerequisite_fails_the_plans_that_need_it_and_no_others():
    plans = [service_plan("a", needs_class=True), service_plan("b"), service_plan("c", needs_class=True)]
    refused = Exchange("PATCH", CLASS, APPLY, status=403, answer=refusal("priorityclasses are not for you"))
    (first, other, second) = fates(plans, refused, apply("b"), keep_going=True)
    assert "PriorityClass gpuctl-high not found, and this account may not create it." in first
    assert "gpuctl_rbac" in first
    assert first == second
    assert other == "create Deployment b"


def test_a_blocked_plan_sends_nothing_and_needs_no_prerequisites():
    plans = [service_plan("a", needs_class=True).blocked_by("another object has that name."), service_plan("b")]
    assert fates(plans, apply("b"), keep_going=True) == ["another object has that name.", "create Deployment b"]


def test_an_unreachable_server_ends_it_in_any_case():
    plans = [service_plan("a"), service_plan("b")]
    lost = Exchange("GET", APPLIED.format("a"), status=0)
    (unreachable, rest) = fates(plans, apply("a", status=0), lost, keep_going=True)
    assert unreachable.startswith("cannot reach the API server")
    assert rest == "not begun"
