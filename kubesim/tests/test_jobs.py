# SPDX-License-Identifier: BSD-2-Clause
"""The life of jobs, beyond what the recordings pin."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim.controllers import job_indexes
from simulation import Object, Simulation, pod_spec

INDEX = "batch.kubernetes.io/job-completion-index"


def job(annotations: dict[str, str] | None = None, restart: str = "Never", **spec: Any) -> Object:
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod_spec(restartPolicy=restart)}
    return {"template": template, **spec}


def indexed(count: int, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    sizes = {"completions": count, "parallelism": count} | spec
    return job(annotations, completionMode="Indexed", **sizes)


def conditions(sim: Simulation, name: str = "j") -> list[tuple[str, str]]:
    status = sim.get("Job", name)["status"]
    return [(one["type"], one.get("reason", "")) for one in status.get("conditions", ()) if one["status"] == "True"]


def ends(run: str = "1", code: str = "0") -> dict[str, str]:
    return {"lab/run-seconds": run, "lab/exit-code": code}


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([0, 2, 3, 4, 7, 8], "0,2-4,7,8")],
)
def test_indexes_as_text(indexes: list[int], text: str) -> None:
    assert job_indexes.render(indexes) == text
    assert job_indexes.parse(text, 100) == set(indexes)


def test_indexes_beyond_the_completions_are_not_read() -> None:
    assert job_indexes.parse("1,3-9,12", 5) == {1, 3, 4}


def test_parallelism_bounds_the_pods_at_a_time() -> None:
    sim = Simulation()
    sim.create("Job", "j", job(ends("10"), completions=5, parallelism=2))
    seen = []
    for _ in range(4):
        sim.advance(5)
        status = sim.get("Job", "j")["status"]
        seen.append((status.get("active", 0), status.get("succeeded", 0)))
        sim.advance(5)
    assert seen == [(2, 0), (2, 2), (1, 4), (0, 5)]
    assert conditions(sim) == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]


def test_without_completions_one_success_is_enough() -> None:
    sim = Simulation()
    spec = job(parallelism=3)
    spec["completions"] = None
    sim.create("Job", "j", spec)
    sim.advance(1)
    first = sim.pods()[0]["metadata"]["name"]
    sim.kubelet.behave(name=first, run_seconds=2)
    sim.advance(5)
    assert sim.get("Job", "j")["status"]["succeeded"] == 1
    assert sim.get("Job", "j")["status"]["active"] == 2
    sim.kubelet.behave(run_seconds=2)
    sim.advance(5)
    assert conditions(sim)[-1][0] == "Complete"
    assert len(sim.pods()) == 3


def test_retries_wait_ten_seconds_then_twenty() -> None:
    sim = Simulation()
    sim.create("Job", "j", job(ends("1", "1"), backoffLimit=3))
    born = []
    for _ in range(60):
        sim.advance(1)
        born.append(len(sim.pods()))
    # a pod starts, lives for one second, and 10, then 20 seconds after its end the next one comes
    assert [born.index(count) for count in (1, 2, 3)] == [0, 10, 31]


def test_backoff_limit_exceeded_ends_the_job_and_its_running_pods() -> None:
    sim = Simulation()
    sim.create("Job", "j", job(backoffLimit=0, parallelism=2, completions=2))
    sim.advance(1)
    sim.kubelet.behave(name=sim.pods()[0]["metadata"]["name"], run_seconds=1, exit_code=3)
    sim.advance(3)
    status = sim.get("Job", "j")["status"]
    assert conditions(sim) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert status["failed"] == 2
    assert [pod["status"]["phase"] for pod in sim.pods()] == ["Failed"]
    assert all("finalizers" not in pod["metadata"] for pod in sim.pods())
    assert sim.events("j")[-1] == ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


def test_with_on_failure_restarts_count_towards_the_limit() -> None:
    sim = Simulation()
    sim.create("Job", "j", job({"lab/crash-seconds": "1"}, restart="OnFailure", backoffLimit=2))
    sim.advance(5)
    assert len(sim.pods()) == 1
    assert conditions(sim) == []
    sim.advance(20)
    assert conditions(sim)[-1] == ("Failed", "BackoffLimitExceeded")


def test_the_deadline_does_not_run_while_suspended() -> None:
    sim = Simulation()
    sim.create("Job", "j", job(activeDeadlineSeconds=10, suspend=True))
    sim.advance(60)
    assert conditions(sim) == [("Suspended", "JobSuspended")]
    sim.change("Job", "j", lambda one: one["spec"].update(suspend=False))
    sim.advance(9)
    assert conditions(sim) == []
    sim.advance(2)
    assert conditions(sim)[-1] == ("Failed", "DeadlineExceeded")


@pytest.mark.parametrize(
    ("rule", "code", "failed", "ending"),
    [
        ({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}, "7", 0, None),
        ({"action": "Count", "onExitCodes": {"operator": "In", "values": [7]}}, "7", 1, "BackoffLimitExceeded"),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}}, "7", 1, "PodFailurePolicy"),
        ({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [7]}}, "7", 1, "BackoffLimitExceeded"),
    ],
)
def test_pod_failure_policy(rule: Object, code: str, failed: int, ending: str | None) -> None:
    sim = Simulation()
    sim.create("Job", "j", job(ends("1", code), backoffLimit=0, podFailurePolicy={"rules": [rule]}))
    sim.advance(3)
    assert sim.get("Job", "j")["status"].get("failed", 0) == failed
    assert (conditions(sim)[-1][1] if conditions(sim) else None) == ending


def test_evicted_pods_can_be_left_uncounted() -> None:
    sim = Simulation()
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    sim.create("Job", "j", job({"lab/by-hand": "true"}, backoffLimit=0, podFailurePolicy={"rules": [rule]}))
    sim.advance(1)
    evicted = {"phase": "Failed", "reason": "Evicted", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    (pod,) = sim.pods()
    sim.change("Pod", pod["metadata"]["name"], lambda one: one.update(status=evicted), subresource="status")
    sim.advance(2)
    assert conditions(sim) == []
    assert "failed" not in sim.get("Job", "j")["status"]


def test_each_index_has_its_own_limit() -> None:
    sim = Simulation()
    sim.create("Job", "j", indexed(2, backoffLimitPerIndex=1))
    sim.advance(1)
    sim.kubelet.behave(labels={INDEX: "1"}, run_seconds=1, exit_code=1)
    sim.kubelet.behave(labels={INDEX: "0"}, run_seconds=30)
    sim.advance(15)
    retried = [pod for pod in sim.pods() if pod["metadata"]["annotations"][INDEX] == "1"]
    counts = sorted(pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] for pod in retried)
    assert counts == ["0", "1"]
    sim.advance(30)
    status = sim.get("Job", "j")["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0", "1")
    assert conditions(sim) == [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")]


@pytest.mark.parametrize(
    ("rule", "succeeding", "met"),
    [
        ({"succeededIndexes": "0"}, "0", True),
        ({"succeededIndexes": "0"}, "1", False),
        ({"succeededIndexes": "0,1"}, "1", False),
        ({"succeededIndexes": "0-2", "succeededCount": 1}, "2", True),
        ({"succeededCount": 1}, "2", True),
    ],
)
def test_a_success_policy_ends_the_job_and_the_pods_that_still_run(rule: Object, succeeding: str, met: bool) -> None:
    sim = Simulation()
    sim.create("Job", "j", indexed(3, successPolicy={"rules": [rule]}))
    sim.advance(1)
    sim.kubelet.behave(labels={INDEX: succeeding}, run_seconds=1)
    sim.advance(60)
    assert conditions(sim) == ([("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")] if met else [])
    assert len([pod for pod in sim.pods() if pod["status"]["phase"] == "Running"]) == (0 if met else 2)


def test_too_many_failed_indexes_end_the_job() -> None:
    sim = Simulation()
    sim.create("Job", "j", indexed(4, backoffLimitPerIndex=0, maxFailedIndexes=1))
    sim.advance(1)
    for index in ("1", "2"):
        sim.kubelet.behave(labels={INDEX: index}, run_seconds=1, exit_code=1)
    sim.advance(3)
    assert conditions(sim)[-1] == ("Failed", "MaxFailedIndexesExceeded")
    assert sim.get("Job", "j")["status"]["failedIndexes"] == "1,2"


@pytest.mark.parametrize(("policy", "soon"), [("TerminatingOrFailed", 2), ("Failed", 1)])
def test_replacements_may_have_to_wait_for_the_end_of_a_pod(policy: str, soon: int) -> None:
    sim = Simulation()
    sim.create("Job", "j", job({"lab/stop-seconds": "20"}, podReplacementPolicy=policy))
    sim.advance(1)
    sim.registry.delete("Pod", "default", sim.pods()[0]["metadata"]["name"])
    sim.advance(12)
    assert len(sim.pods()) == soon
    sim.advance(30)
    active = [pod for pod in sim.pods() if "deletionTimestamp" not in pod["metadata"]]
    assert len(active) == 1
    assert sim.get("Job", "j")["status"]["failed"] == 1


def test_scaling_an_indexed_job_down_takes_the_highest_indexes() -> None:
    sim = Simulation()
    sim.create("Job", "j", indexed(4))
    sim.advance(1)
    sim.change("Job", "j", lambda one: one["spec"].update(completions=2, parallelism=2))
    sim.advance(1)
    assert sorted(pod["metadata"]["annotations"][INDEX] for pod in sim.pods()) == ["0", "1"]
    assert "failed" not in sim.get("Job", "j")["status"]


def test_long_names_leave_room_for_index_and_suffix() -> None:
    sim = Simulation()
    sim.create("Job", "a" * 60, indexed(1))
    [pod] = sim.pods()
    assert pod["metadata"]["name"].startswith("a" * 55 + "-0-")
    assert pod["spec"]["hostname"] == "a" * 60 + "-0"


def test_pods_that_a_quota_refuses_are_retried_and_reported() -> None:
    sim = Simulation()
    sim.create("ResourceQuota", "q", {"hard": {"pods": "1"}})
    sim.create("Job", "j", job(parallelism=2, completions=2))
    sim.advance(1)
    assert sim.get("Job", "j")["status"]["active"] == 1
    failures = [message for reason, message in sim.events("j") if reason == "FailedCreate"]
    assert failures[0].endswith("is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")
    sim.change("ResourceQuota", "q", lambda one: one["spec"]["hard"].update(pods="2"))
    sim.advance(60)
    assert sim.get("Job", "j")["status"]["active"] == 2


def test_a_deleted_pod_of_a_finished_job_is_not_held() -> None:
    sim = Simulation()
    sim.create("Job", "j", job(ends()))
    sim.advance(5)
    [pod] = sim.pods()
    sim.registry.delete("Pod", "default", pod["metadata"]["name"])
    sim.settle()
    assert sim.pods() == []


def test_a_job_managed_elsewhere_is_left_alone() -> None:
    sim = Simulation()
    sim.create("Job", "j", job(managedBy="kueue.x-k8s.io/multikueue"))
    sim.advance(5)
    assert sim.pods() == []


@pytest.mark.parametrize(("finalizers", "left"), [([], 0), (["example.com/keep"], 1)])
def test_ttl_removes_a_finished_job_with_its_pods(finalizers: list[str], left: int) -> None:
    sim = Simulation()
    sim.create("Job", "j", job(ends(), ttlSecondsAfterFinished=60), metadata={"finalizers": finalizers})
    sim.advance(60)
    assert conditions(sim)[-1][0] == "Complete"
    sim.advance(3)
    assert len(sim.registry.list("Job", "default")) == left
    assert sim.pods() == []


def test_a_big_job_is_not_looked_at_for_each_of_its_pods() -> None:
    sim = Simulation(nodes=20)
    controller = sim.controllers["job-controller"]
    looks: list[Any] = []
    look = controller._sync
    controller._sync = lambda key: looks.append(key) or look(key)
    sim.create("Job", "j", indexed(300, ends("2")))
    sim.advance(10)
    assert conditions(sim)[-1][0] == "Complete"
    assert len(looks) < 30


def test_a_finished_job_is_seen_for_all_of_its_ttl() -> None:
    """However late in a second it ended: its condition has whole seconds only."""
    sim = Simulation()
    sim.advance(0.7)
    template = {"metadata": {"annotations": {"lab/run-seconds": "1"}}, "spec": pod_spec(restartPolicy="Never")}
    sim.create("Job", "short", {"ttlSecondsAfterFinished": 1, "template": template})
    steps = 0
    while not sim.get("Job", "short").get("status", {}).get("succeeded"):
        sim.advance(0.05)
        steps += 1
        assert steps < 100
    sim.advance(0.9)
    assert sim.registry.get("Job", "default", "short") is not None
    sim.advance(0.2)
    assert sim.registry.get("Job", "default", "short") is None
