# SPDX-License-Identifier: BSD-2-Clause
"""Jobs in namespaces that enforce a Pod Security level, and what version 1.0.0 has submitted without one."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.dry_run import PlansRejected
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs import job_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed
from kubesim import LAB_USER_TOKEN, Cluster, evaluate_pod_security

NAMESPACE = "default"
KINDS = {"training": "Job", "inference": "Deployment", "notebook": "StatefulSet", "compute": "Deployment"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as running:
        yield running


def manifest(kind: str, name: str = "a", **blocks: Any) -> dict[str, Any]:
    environment = {"image": "registry.example.com/ml:v1", **blocks.pop("environment", {})}
    return {
        "kind": kind,
        "job": {"name": name},
        "environment": environment,
        "resources": {"cpu": 1, "memory": "1Gi", "gpu": 1},
        **blocks,
    }


def task(cluster: Cluster, module: Any, options: Any, token: str = "") -> Task[Any]:
    defaults = {name: option.get("default") for name, option in module.MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": token or cluster.token}
    return Task(options, params, False, lambda warning: None, lambda values: None)


def apply(cluster: Cluster, *manifests: dict[str, Any], **options: Any) -> dict[str, Any]:
    cluster.requests.reset()
    return job.run(task(cluster, job, job.JobOptions(definition=list(manifests), **options)))


def enforce(cluster: Cluster, level: str) -> None:
    def set_label() -> None:
        labels = {"pod-security.kubernetes.io/enforce": level}
        cluster.registry.modify("Namespace", None, NAMESPACE, lambda obj: obj["metadata"].update(labels=labels))

    cluster.call(set_label)


def live(cluster: Cluster, kind: str, name: str = "a") -> dict[str, Any]:
    return dict(cluster.call(lambda: copy.deepcopy(cluster.registry.get(KINDS[kind], NAMESPACE, name))))


def pods(cluster: Cluster) -> dict[str, str]:
    found = cluster.call(lambda: cluster.registry.list("Pod", NAMESPACE))
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def eventually(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def reads(cluster: Cluster) -> int:
    return cluster.requests.counts().get("get namespaces", 0)


# -- built for the level ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_restricted_namespace_runs_the_same_manifest(cluster: Cluster, kind: str) -> None:
    enforce(cluster, "restricted")
    wanted = manifest(kind, environment={"run_as": 1000})
    result = apply(cluster, wanted, wait=True)
    assert result["results"][0]["status"] == "Running"
    assert evaluate_pod_security("restricted", live(cluster, kind)["spec"]["template"]["spec"]) == []
    again = apply(cluster, wanted)
    assert again["changed"] is False
    assert reads(cluster) == 0, "what runs as the level wants it needs no look at the namespace"


@pytest.mark.parametrize("kind", KINDS)
def test_elsewhere_an_image_may_run_as_root(cluster: Cluster, kind: str) -> None:
    apply(cluster, manifest(kind), wait=True)
    assert reads(cluster) == 1
    template = live(cluster, kind)["spec"]["template"]["spec"]
    assert "runAsNonRoot" not in template["securityContext"]
    assert evaluate_pod_security("baseline", template) == []
    assert apply(cluster, manifest(kind))["changed"] is False
    assert reads(cluster) == 0


def test_a_finished_training_needs_no_look_at_the_namespace(cluster: Cluster) -> None:
    cluster.call(lambda: cluster.kubelet.behave(run_seconds=0))
    apply(cluster, manifest("training"), wait=True, wait_for="complete")
    apply(cluster, manifest("training"))
    cluster.call(lambda: cluster.registry.delete("Job", NAMESPACE, "a", propagation="Background"))
    assert apply(cluster, manifest("training"))["results"][0]["action"] in ("unchanged", "create")
    assert reads(cluster) <= 1


def test_one_read_for_all_jobs_of_a_namespace(cluster: Cluster) -> None:
    apply(cluster, *(manifest("compute", f"a{number}") for number in range(5)))
    assert reads(cluster) == 1


def test_an_account_that_may_not_read_the_namespace_submits_all_the_same(cluster: Cluster) -> None:
    def grant() -> None:
        rules = [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch", "create", "patch"]},
            {"apiGroups": ["*"], "resources": ["configmaps"], "verbs": ["get"]},
        ]
        cluster.registry.create("ClusterRole", {"metadata": {"name": "old"}, "rules": rules})
        group = "rbac.authorization.k8s.io"
        cluster.registry.create(
            "ClusterRoleBinding",
            {
                "metadata": {"name": "old"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "old"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "lab-user"}],
            },
        )

    cluster.call(grant)
    options = job.JobOptions(definition=manifest("compute"))
    result = job.run(task(cluster, job, options, token=LAB_USER_TOKEN))
    assert result["results"][0]["action"] == "create"


# -- what a level forbids ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "blocks", "said"),
    [
        (
            "baseline",
            {"storage": {"workdirs": [{"path": "/in", "claim": "in"}, {"path": "/data"}]}},
            "storage.workdirs[1]: the namespace enforces the Pod Security level baseline, which forbids paths of "
            "nodes: /data. Mount a PersistentVolumeClaim (claim).",
        ),
        (
            "restricted",
            {"environment": {"allow_sudo": True}},
            "environment.allow_sudo: the namespace enforces the Pod Security level restricted, which forbids "
            "programs that gain privileges: true. Remove it.",
        ),
        (
            "restricted",
            {"environment": {"run_as": 0}},
            "environment.run_as: the namespace enforces the Pod Security level restricted, which forbids the user "
            "root: 0. Use the number of another user of the image.",
        ),
    ],
)
def test_what_a_level_forbids_is_said_before_anything_is_written(
    cluster: Cluster, level: str, blocks: dict[str, Any], said: str
) -> None:
    enforce(cluster, level)
    with pytest.raises(PlansRejected) as caught:
        apply(cluster, manifest("notebook", "fine"), manifest("notebook", **copy.deepcopy(blocks)))
    assert str(caught.value).splitlines() == [
        f"notebook a in namespace default: definition, document 2, {said}",
        "Nothing was changed.",
    ]
    assert cluster.requests.writes() == []


def test_the_others_are_created_with_continue_on_error(cluster: Cluster) -> None:
    enforce(cluster, "baseline")
    wrong = manifest("compute", "wrong", storage={"workdirs": [{"path": "/data"}]})
    with pytest.raises(TaskFailed) as caught:
        apply(cluster, wrong, manifest("compute", "fine"), continue_on_error=True)
    results = {row["name"]: row for row in caught.value.result["results"]}
    assert "which forbids paths of nodes: /data" in results["wrong"]["error"]
    assert (results["fine"]["action"], results["fine"]["error"]) == ("create", None)


@pytest.mark.parametrize("level", ["", "privileged", "baseline"])
def test_what_the_levels_allow_is_not_refused(cluster: Cluster, level: str) -> None:
    if level:
        enforce(cluster, level)
    storage = {} if level == "baseline" else {"storage": {"workdirs": [{"path": "/data"}]}}
    apply(cluster, manifest("notebook", environment={"allow_sudo": True, "run_as": 0}, **storage), wait=True)


# -- what runs stays as it is -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_that_comes_later_restarts_nothing(cluster: Cluster, kind: str) -> None:
    apply(cluster, manifest(kind), wait=True)
    before = pods(cluster)
    enforce(cluster, "restricted")
    described = {**manifest(kind), "job": {"name": "a", "description": "other"}}
    assert apply(cluster, manifest(kind))["changed"] is False
    assert apply(cluster, described)["results"][0]["action"] == "update"
    assert pods(cluster) == before
    moved = {**described, "environment": {"image": "registry.example.com/ml:v2", "run_as": 1000}}
    apply(cluster, moved, wait=True)
    assert evaluate_pod_security("restricted", live(cluster, kind)["spec"]["template"]["spec"]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_that_goes_restarts_nothing(cluster: Cluster, kind: str) -> None:
    enforce(cluster, "restricted")
    wanted = manifest(kind, environment={"run_as": 1000})
    apply(cluster, wanted, wait=True)
    before = pods(cluster)
    enforce(cluster, "privileged")
    assert apply(cluster, {**wanted, "job": {"name": "a", "description": "x"}})["results"][0]["action"] == "update"
    assert pods(cluster) == before


# -- reasons ----------------------------------------------------------------------------------------------------------


def reason(cluster: Cluster, words: str) -> str:
    def found() -> str | None:
        options = job_info.JobInfoOptions(namespaces=[NAMESPACE])
        (row,) = job_info.run(task(cluster, job_info, options))["results"]
        return str(row["reason"]) if words in (row["reason"] or "") else None

    return str(eventually(found))


def test_an_image_that_runs_as_root_is_the_reason(cluster: Cluster) -> None:
    enforce(cluster, "restricted")
    apply(cluster, manifest("notebook"))
    assert reason(cluster, "root") == (
        "the container of pod a-0 cannot start: image registry.example.com/ml:v1 runs as root, and the namespace does "
        "not allow root. Set environment.run_as to the number of another user, such as 1000."
    )


def test_an_image_with_a_named_user_is_the_reason(cluster: Cluster) -> None:
    enforce(cluster, "restricted")
    cluster.call(lambda: cluster.kubelet.behave(image_user="jovyan"))
    apply(cluster, manifest("notebook"))
    assert "runs as user jovyan (cannot be verified as non-root)" in reason(cluster, "jovyan")


def test_a_missing_service_account_is_the_reason(cluster: Cluster) -> None:
    apply(cluster, manifest("compute", environment={"service_account": "robot"}))
    text = reason(cluster, "robot")
    assert "Correct environment.service_account, or ask an administrator to create it" in text


def test_a_level_that_came_later_is_the_reason(cluster: Cluster) -> None:
    apply(cluster, manifest("compute"), wait=True)
    enforce(cluster, "restricted")
    (name,) = pods(cluster)
    cluster.call(lambda: cluster.registry.delete("Pod", NAMESPACE, name, grace_seconds=0))
    assert "Delete the job and submit it again" in reason(cluster, "violates PodSecurity")


def test_paths_of_nodes_that_a_later_level_forbids_are_the_reason(cluster: Cluster) -> None:
    apply(cluster, manifest("compute", storage={"workdirs": [{"path": "/data"}]}), wait=True)
    enforce(cluster, "baseline")
    (name,) = pods(cluster)
    cluster.call(lambda: cluster.registry.delete("Pod", NAMESPACE, name, grace_seconds=0))
    assert "Mount PersistentVolumeClaims (claim)" in reason(cluster, "violates PodSecurity")
