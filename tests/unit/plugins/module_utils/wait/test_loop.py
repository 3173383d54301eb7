# SPDX-License-Identifier: BSD-2-Clause
"""Waiting on a simulated cluster: when it ends, with which statuses, and the requests that it sends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from time import monotonic, sleep
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.read_jobs import JobId
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import PAUSED_REPLICAS, POOL, pod_selector
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.goals import (
    COMPLETE,
    DELETED,
    PAUSED,
    READY,
    SCHEDULED,
    Goal,
    WaitTarget,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.loop import JobStatus, Wait
from chaos.faults import FAULTS
from chaos.proxy import Plan, Proxy
from kubesim import Cluster, Fault

SOON = 20.0  # seconds; a timeout that tests of early results never reach
LIMIT = 10.0  # ... and what early means on a machine that is busy
PROMPT = 2.0  # seconds from the cause to the end of the wait
GPU = "nvidia.com/gpu"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as cluster:
        yield cluster


def template(name: str, *, image: str = "reg/ml:v1", gpu: int = 0, **spec: Any) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpu)}} if gpu else {}
    containers = [{"name": "main", "image": image, "resources": resources}]
    return {"metadata": {"labels": pod_selector(name)}, "spec": {"containers": containers, **spec}}


def metadata(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "labels": pod_selector(name), **more}


def job(cluster: Cluster, name: str, *, suspend: bool = False, ttl: int | None = None, **pod: Any) -> None:
    spec: dict[str, Any] = {
        "template": template(name, restartPolicy="Never", **pod),
        "backoffLimit": 0,
        "suspend": suspend,
        **({} if ttl is None else {"ttlSecondsAfterFinished": ttl}),
    }
    create(cluster, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name), "spec": spec})


def deployment(cluster: Cluster, name: str, *, replicas: int = 1, annotations: Any = None, **pod: Any) -> None:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": pod_selector(name)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": template(name, **pod),
    }
    about = metadata(name, annotations=annotations or {})
    create(cluster, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec})


def create(cluster: Cluster, obj: dict[str, Any]) -> None:
    cluster.call(lambda: cluster.registry.create(obj["kind"], obj))


def modify(cluster: Cluster, kind: str, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    cluster.call(lambda: cluster.registry.modify(kind, "default", name, change))


def behave(cluster: Cluster, name: str, **orders: Any) -> None:
    cluster.call(lambda: cluster.kubelet.behave(labels={"app": name}, **orders))


def quota(cluster: Cluster, gpus: str) -> None:
    spec = {"hard": {f"requests.{GPU}": gpus}}
    create(cluster, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("limit"), "spec": spec})


def client(cluster: Cluster, token: str = "", url: str = "") -> Client:
    def authorization() -> dict[str, str]:
        return {"Authorization": f"Bearer {token or cluster.token}"}

    return Client(Connection(url or cluster.url, authorization=authorization, retries=0))


def wait(
    cluster: Cluster,
    goal: Goal,
    *names: str,
    timeout: float = SOON,
    fresh: bool = True,
    token: str = "",
    url: str = "",
    warn: Callable[[str], None] = pytest.fail,
    **options: Any,
) -> dict[str, JobStatus]:
    waiting = Wait(client(cluster, token, url), goal, timeout, warn, **options)
    job_statuses = waiting.wait(WaitTarget(("default", name), None, fresh) for name in names)
    return {name: job_statuses["default", name] for name in names}


def in_the_background(seconds: float, what: Callable[[], Any]) -> None:
    timer = threading.Timer(seconds, what)
    timer.daemon = True
    timer.start()


# -- arriving --------------------------------------------------------------------------------------------------------


def test_jobs_that_are_ready_cost_one_list_of_their_kind(cluster: Cluster) -> None:
    deployment(cluster, "web")
    wait(cluster, READY, "web")
    cluster.requests.reset()
    found = Wait(client(cluster), READY, SOON, pytest.fail).wait([WaitTarget(("default", "web"), "Deployment")])
    assert found["default", "web"].reached_goal
    assert cluster.requests.counts() == {"list deployments": 1}


def test_however_long_it_takes_it_is_one_list_and_one_watch_of_each_kind(cluster: Cluster) -> None:
    for number in range(12):
        behave(cluster, f"web-{number}", ready_seconds=0.3 * number)
        deployment(cluster, f"web-{number}")
    names = [f"web-{number}" for number in range(12)]
    cluster.requests.reset()
    waiting = Wait(client(cluster), READY, SOON, pytest.fail)
    found = waiting.wait(WaitTarget(("default", name), "Deployment", True) for name in names)
    assert all(job_status.reached_goal for job_status in found.values())
    kinds = ("deployments", "pods", "events")
    assert cluster.requests.counts() == {f"{verb} {kind}": 1 for kind in kinds for verb in ("list", "watch")}


def test_a_change_is_seen_when_it_happens(cluster: Cluster) -> None:
    behave(cluster, "train", run_seconds=1)
    job(cluster, "train")
    began = monotonic()
    assert wait(cluster, COMPLETE, "train")["train"].reached_goal
    assert monotonic() - began < LIMIT


def test_a_job_that_completes_and_is_removed_is_complete(cluster: Cluster) -> None:
    """The first ends when both are waited for, the second when the first has arrived."""

    def end_one(job_statuses: Mapping[JobId, JobStatus]) -> float:
        behave(cluster, "second" if job_statuses["default", "first"].reached_goal else "first", run_seconds=0)
        return SOON

    job(cluster, "first", ttl=0)
    job(cluster, "second")
    found = wait(cluster, COMPLETE, "first", "second", report=end_one)
    assert [job_status.reached_goal for job_status in found.values()] == [True, True]


def test_scheduled_means_that_every_new_pod_has_a_node(cluster: Cluster) -> None:
    behave(cluster, "web", stuck=True)
    deployment(cluster, "web")
    found = wait(cluster, SCHEDULED, "web")["web"]
    assert found.reached_goal
    modify(cluster, "Deployment", "web", lambda obj: obj["spec"]["template"]["spec"].update(schedulerName="nobody"))
    assert not wait(cluster, SCHEDULED, "web", timeout=0.5)["web"].reached_goal


def test_deleted_means_that_the_pods_are_deleted_too(cluster: Cluster) -> None:
    behave(cluster, "train", stop_seconds=1)
    job(cluster, "train")
    wait(cluster, READY, "train")
    began = monotonic()
    cluster.call(lambda: cluster.registry.delete("Job", "default", "train", propagation="Background"))
    assert wait(cluster, DELETED, "train")["train"].reached_goal
    assert 0.9 < monotonic() - began < LIMIT


def test_paused_means_that_no_pod_runs(cluster: Cluster) -> None:
    behave(cluster, "train", stop_seconds=1)
    job(cluster, "train")
    wait(cluster, READY, "train")
    began = monotonic()
    modify(cluster, "Job", "train", lambda obj: obj["spec"].update(suspend=True))
    assert wait(cluster, PAUSED, "train")["train"].reached_goal
    assert 0.9 < monotonic() - began < LIMIT


# -- not arriving ----------------------------------------------------------------------------------------------------


def test_the_wait_ends_at_the_timeout(cluster: Cluster) -> None:
    behave(cluster, "web", ready=False)
    deployment(cluster, "web")
    began = monotonic()
    found = wait(cluster, READY, "web", timeout=1)["web"]
    assert not found.settled
    assert found.blocker is not None
    assert "is running but not ready yet" in found.blocker.text
    assert 0.9 < monotonic() - began < LIMIT


FATAL: dict[str, tuple[Callable[..., None], dict[str, Any], dict[str, Any], str, str]] = {
    "an image that is not there": (
        deployment,
        {},
        {"image": "reg/does-not-exist:1"},
        "ImagePullBackOff",
        "cannot be pulled",
    ),
    "a crash loop": (
        deployment,
        {"crash_seconds": 0.1, "ready": False},
        {},
        "CrashLoopBackOff",
        "keeps failing with exit code 1",
    ),
    "a training that fails": (
        job,
        {"run_seconds": 0.2, "exit_code": 3},
        {},
        "FailureTarget",
        "failed with exit code 3",
    ),
    "labels that no node has": (
        deployment,
        {},
        {"nodeSelector": {POOL: "nope"}},
        "Unschedulable",
        "pool nope has no nodes",
    ),
    "more GPUs than any node has": (job, {}, {"gpu": 9}, "Unschedulable", "it needs 9 GPUs on one node"),
    "a quota that a training exceeds": (
        job,
        {},
        {"gpu": 5},
        "FailedCreate",
        "quota limit of the namespace is too small for the job",
    ),
    "a quota that a service exceeds": (
        deployment,
        {},
        {"gpu": 5},
        "FailedCreate",
        "quota limit of the namespace is too small for the job",
    ),
}


@pytest.mark.parametrize(("make", "orders", "pod", "cause", "said"), FATAL.values(), ids=FATAL)
def test_a_fatal_reason_ends_the_wait_within_two_seconds(
    cluster: Cluster,
    make: Callable[..., None],
    orders: dict[str, Any],
    pod: dict[str, Any],
    cause: str,
    said: str,
) -> None:
    if "quota" in said:
        quota(cluster, "4")
    behave(cluster, "x", **orders)
    seen = first_seen(cluster, cause)
    make(cluster, "x", **pod)
    found = wait(cluster, COMPLETE, "x")["x"]
    ended = monotonic()
    assert found.fatal is not None
    assert said in found.fatal.sentence
    assert ended - seen[0] < PROMPT


def first_seen(cluster: Cluster, word: str) -> list[float]:
    """The moments at which an object with that word was written."""
    moments: list[float] = []

    def on_event(event: str, kind: str, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        if f"'{word}'" in str({key: value for key, value in obj.items() if key != "metadata"}):
            moments.append(monotonic())

    cluster.call(lambda: cluster.registry.subscribe(on_event))
    return moments


def test_a_fatal_end_names_the_container_to_read_logs_of(cluster: Cluster) -> None:
    behave(cluster, "train", run_seconds=0.2, exit_code=3)
    job(cluster, "train")
    found = wait(cluster, COMPLETE, "train")["train"]
    assert found.fatal is not None
    assert found.fatal.log == (found.pods[0]["metadata"]["name"], "main")


@pytest.mark.parametrize("make", [job, deployment])
def test_a_quota_that_was_raised_is_not_fatal(cluster: Cluster, make: Callable[..., None]) -> None:
    quota(cluster, "1")
    make(cluster, "x", gpu=2)
    wait(cluster, READY, "x")
    modify(cluster, "ResourceQuota", "limit", lambda obj: obj["spec"]["hard"].update({f"requests.{GPU}": "2"}))
    assert wait(cluster, READY, "x", fresh=False)["x"].reached_goal, "the controller's next try succeeds"


def test_gpus_in_use_are_not_fatal(cluster: Cluster) -> None:
    for number in range(2):
        job(cluster, f"first-{number}", gpu=8)
    wait(cluster, READY, "first-0", "first-1")
    job(cluster, "next", gpu=8)
    found = wait(cluster, READY, "next", timeout=1)["next"]
    assert not found.settled
    in_the_background(0.5, lambda: behave(cluster, "first-0", run_seconds=0))
    assert wait(cluster, READY, "next")["next"].reached_goal


def test_a_nominated_node_is_waited_for(cluster: Cluster) -> None:
    job(cluster, "train", nodeSelector={POOL: "new"})
    assert wait(cluster, READY, "train")["train"].fatal
    assert not wait(cluster, READY, "train", timeout=0.5, new_nodes=True)["train"].settled

    (pod,) = cluster.call(lambda: cluster.registry.list("Pod", "default"))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": pod["metadata"]["name"]},
        "reason": "TriggeredScaleUp",
        "type": "Normal",
    }
    create(cluster, event)
    assert not wait(cluster, READY, "train", timeout=0.5)["train"].settled, "the autoscaler says so"
    in_the_background(0.5, lambda: cluster.add_nodes(["fresh"], labels={POOL: "new"}))
    assert wait(cluster, READY, "train")["train"].reached_goal


def test_paused_and_deleted_jobs_are_fatal(cluster: Cluster) -> None:
    job(cluster, "train", suspend=True)
    deployment(cluster, "web", replicas=0, annotations={PAUSED_REPLICAS: "2"})
    found = wait(cluster, READY, "train", "web", "gone", keep_going=True)
    said = {name: job_status.fatal.text for name, job_status in found.items() if job_status.fatal}
    assert "is paused" in said["train"]
    assert "deleted" in said["gone"]
    assert "is paused" in said["web"]


def test_a_deployment_deleted_during_the_wait_is_fatal(cluster: Cluster) -> None:
    behave(cluster, "slow", ready=False)
    deployment(cluster, "slow")
    deployment(cluster, "web")
    wait(cluster, READY, "web")
    in_the_background(0.5, lambda: cluster.call(lambda: cluster.registry.delete("Deployment", "default", "web")))
    found = wait(cluster, READY, "slow", "web")
    assert found["web"].fatal is not None
    assert "deleted" in found["web"].fatal.text


def test_pods_of_an_earlier_template_do_not_count(cluster: Cluster) -> None:
    behave(cluster, "web", crash_seconds=0.1, ready=False, image="reg/ml:v1")
    deployment(cluster, "web")
    assert wait(cluster, READY, "web")["web"].fatal
    behave(cluster, "web", image="reg/ml:v2", ready_seconds=1, crash_seconds=1000)

    def mend(obj: dict[str, Any]) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "reg/ml:v2"

    modify(cluster, "Deployment", "web", mend)
    assert wait(cluster, READY, "web", fresh=False)["web"].reached_goal


def test_a_fatal_job_ends_the_wait_unless_keep_going(cluster: Cluster) -> None:
    behave(cluster, "slow", ready=False)
    deployment(cluster, "slow")
    deployment(cluster, "fatal", image="reg/does-not-exist:1")
    found = wait(cluster, READY, "slow", "fatal")
    assert found["fatal"].fatal
    assert not found["slow"].settled
    in_the_background(0.5, lambda: behave(cluster, "slow", ready=True))
    found = wait(cluster, READY, "slow", "fatal", keep_going=True)
    assert found["fatal"].fatal
    assert found["slow"].reached_goal


def test_waiting_works_without_permission_to_read_nodes_and_quotas(cluster: Cluster) -> None:
    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata("r"), "rules": rules}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": metadata("r"),
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "lab-user"}],
    }
    create(cluster, role)
    create(cluster, binding)
    job(cluster, "large", gpu=9)
    job(cluster, "elsewhere", nodeSelector={POOL: "nope"})
    found = wait(cluster, READY, "large", "elsewhere", timeout=3, keep_going=True, token="lab-user-token")
    assert not found["large"].settled, "only the nodes show that none is large enough"
    assert found["elsewhere"].fatal is not None, "the scheduler counts the nodes that have not the label"


def test_it_reports_the_statuses(cluster: Cluster) -> None:
    """Also when nothing has changed: it gets ready only after that."""
    behave(cluster, "web", ready=False)
    deployment(cluster, "web")
    reported: list[bool] = []

    def report(job_statuses: Mapping[JobId, JobStatus]) -> float:
        reported.append(job_statuses["default", "web"].reached_goal)
        if len(reported) == 8:  # more often than anything can have changed
            behave(cluster, "web", ready=True)
        return 0.1

    assert wait(cluster, READY, "web", report=report)["web"].reached_goal
    assert reported[-1]
    assert not any(reported[:8])


def test_nothing_is_final_while_the_server_is_unreachable(cluster: Cluster) -> None:
    quota(cluster, "1")
    fault = cluster.faults.add(Fault("unavailable", path="*/resourcequotas*", count=None))
    job(cluster, "x", gpu=2)
    assert wait(cluster, READY, "x", timeout=1)["x"].fatal is None
    cluster.faults.remove(fault)
    assert wait(cluster, READY, "x")["x"].fatal is not None


# -- what the watches do not bring, and what cannot be read -----------------------------------------------------------


@pytest.fixture
def silent_watches(cluster: Cluster) -> Iterator[str]:
    """The address of a proxy that sends nothing of any watch."""
    proxy = Proxy(cluster.url)
    lane = proxy.lane()
    lane.begin(Plan(FAULTS["watch-silent"], k=1, always=True))
    lane.plan.strikes = lambda request: request.watch  # type: ignore[method-assign]
    yield lane.url
    proxy.close()


def test_no_job_times_out_because_its_watches_are_silent(cluster: Cluster, silent_watches: str) -> None:
    behave(cluster, "web", ready_seconds=0.3)
    deployment(cluster, "web")
    assert wait(cluster, READY, "web", timeout=1, url=silent_watches)["web"].reached_goal


def test_no_job_is_fatal_because_its_watches_are_silent(cluster: Cluster, silent_watches: str) -> None:
    """The wait ends with the reason of the first, and the second has become ready meanwhile."""
    job(cluster, "large", gpu=9)
    behave(cluster, "web", ready=False)
    deployment(cluster, "web")

    def make_ready(job_statuses: Mapping[JobId, JobStatus]) -> float:
        behave(cluster, "web", ready=True)
        return SOON

    found = wait(cluster, READY, "large", "web", timeout=1.5, url=silent_watches, keep_going=True, report=make_ready)
    assert found["large"].fatal is not None
    assert found["web"].reached_goal


def test_a_quota_is_read_again_before_it_is_blamed(cluster: Cluster) -> None:
    """The refusal was seen, and the quota raised while the wait went on for another job."""
    quota(cluster, "1")
    job(cluster, "x", gpu=2)
    behave(cluster, "slow", ready=False)
    deployment(cluster, "slow")

    def raise_quota() -> None:
        modify(cluster, "ResourceQuota", "limit", lambda obj: obj["spec"]["hard"].update({f"requests.{GPU}": "2"}))
        behave(cluster, "slow", ready=True)

    in_the_background(1, raise_quota)
    found = wait(cluster, READY, "x", "slow", timeout=2, keep_going=True)
    assert found["x"].fatal is None, "the controller may try again any moment"
    assert found["slow"].reached_goal


def test_what_cannot_be_read_at_the_end_is_not_known(cluster: Cluster) -> None:
    behave(cluster, "slow", ready=False)
    deployment(cluster, "slow")
    deployment(cluster, "web")
    wait(cluster, READY, "web")
    in_the_background(0.5, lambda: cluster.faults.add(Fault("unavailable", verb="list", count=None)))
    found = wait(cluster, READY, "web", "slow", timeout=1)
    assert found["web"].reached_goal
    assert found["slow"].unreadable is not None
    assert found["slow"].workload is not None, "as it was seen last"
    assert not found["slow"].settled


def test_a_server_that_cannot_be_read_at_all_is_not_known_either(cluster: Cluster) -> None:
    cluster.faults.add(Fault("unavailable", count=None))
    assert wait(cluster, READY, "web")["web"].unreadable is not None


def test_a_fatal_reason_that_cannot_be_confirmed_does_not_end_the_wait(cluster: Cluster) -> None:
    job(cluster, "train", nodeSelector={POOL: "new"})
    reports = 0

    def report(job_statuses: Mapping[JobId, JobStatus]) -> float:
        nonlocal reports
        reports += 1
        if reports == 1:
            assert job_statuses["default", "train"].fatal
            cluster.faults.clear()
            cluster.add_nodes(["fresh"], labels={POOL: "new"})
        return 0.1

    pods = "*/pods"
    cluster.faults.add(Fault("unavailable", verb="list", path=pods, count=None, skip=1))
    assert wait(cluster, READY, "train", report=report)["train"].reached_goal


def test_a_wait_notices_that_a_node_is_lost(cluster: Cluster) -> None:
    deployment(cluster, "web")
    wait(cluster, READY, "web")
    pods = cluster.call(lambda: cluster.registry.list("Pod", "default", {"app": "web"}))
    node = pods[0]["spec"]["nodeName"]

    def silence(copied: dict[str, Any]) -> None:
        next(one for one in copied["status"]["conditions"] if one["type"] == "Ready")["status"] = "Unknown"

    cluster.call(lambda: cluster.registry.modify("Node", None, node, silence, subresource="status"))
    deadline = monotonic() + LIMIT
    while cluster.call(lambda: cluster.registry.get("Deployment", "default", "web"))["status"].get("readyReplicas"):
        assert monotonic() < deadline
        sleep(0.01)
    blocker = wait(cluster, READY, "web", timeout=0.5)["web"].blocker
    assert blocker is not None
    assert f"is on node {node}, which has not been ready since" in blocker.text
