# SPDX-License-Identifier: BSD-2-Clause
"""Who submitted a job: what is recorded, who counts as the same, and when the server is asked."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.dry_run import PlansRejected
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.submitter import Submitter, read_submitter
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import SUBMITTED_BY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import awx_environment
from kubesim import Cluster

ANNA, BEN = {"GPUCTL_AWX_USER": "anna", "GPUCTL_AWX_JOB": "17"}, {"GPUCTL_AWX_USER": "ben"}
KUBE = Submitter("anna", "login-1", "anna@example.com")

SAME = {
    "the same Kubernetes user on another host": (KUBE, KUBE._replace(user="root", host="ci-7"), True),
    "another Kubernetes user on the same host": (KUBE, KUBE._replace(kubernetes_user="ben@example.com"), False),
    "the same AWX user, in another job": (
        Submitter("awx", "ee-1", "sa", "anna", "17"),
        Submitter("awx", "ee-2", "sa", "anna", "18"),
        True,
    ),
    "two AWX users with one account": (Submitter("awx", "e", "sa", "anna"), Submitter("awx", "e", "sa", "ben"), False),
    "an AWX user and the account that AWX uses": (
        Submitter("awx", "e", "sa", "anna"),
        Submitter("a", "e", "sa"),
        False,
    ),
    "a server that did not tell the user then": (Submitter("anna", "login-1"), KUBE, True),
    "another person on that host": (Submitter("ben", "login-1"), KUBE, False),
}


@pytest.mark.parametrize(("one", "other", "same"), SAME.values(), ids=SAME)
def test_who_counts_as_the_same_submitter(one: Submitter, other: Submitter, same: bool) -> None:
    assert one.is_same(other) is same
    assert other.is_same(one) is same
    assert read_submitter(str(one)) == one


ODD = ["", "{", "[]", "5", '"anna"', "[" * 100_000, '{"user": 5, "host": "h"}', '{"user": "u", "host": "h", "x": "y"}']


@pytest.mark.parametrize("text", ODD)
def test_an_annotation_that_is_not_ours_names_no_submitter(text: str) -> None:
    assert read_submitter(text) is None


def test_a_name_of_any_length_is_recorded_and_known_again(cluster: Cluster) -> None:
    long = {"GPUCTL_AWX_USER": "a" * 300}
    run(cluster, long)
    assert recorded(cluster)["awx_user"] == "a" * 256
    assert run(cluster, long, definition=web("registry.example.com/ml:v2"))["changed"]


LAUNCHED: dict[str, tuple[Mapping[str, Any], Mapping[str, str]]] = {
    "by a user": ({"awx_user_name": "anna", "awx_job_id": 17, "tower_user_name": "anna"}, ANNA),
    "by an older AWX": ({"tower_user_name": "anna", "tower_job_id": 17}, ANNA),
    "by a schedule": ({"awx_job_id": 17}, {"GPUCTL_AWX_JOB": "17"}),
    "no submitter": ({"ansible_user": "anna"}, {}),
    "by a template": ({"awx_user_name": "{{ lookup('pipe', 'id') }}"}, {}),
    "by two lines": ({"awx_user_name": "anna\nben"}, {}),
}


@pytest.mark.parametrize(("variables", "environment"), LAUNCHED.values(), ids=LAUNCHED)
def test_what_awx_says(variables: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    assert awx_environment(variables) == environment


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, controllers=False).running() as running:
        yield running


def web(image: str = "registry.example.com/ml:v1", name: str = "web") -> dict[str, Any]:
    return {
        "kind": "compute",
        "job": {"name": name},
        "environment": {"image": image},
        "resources": {"cpu": 1, "memory": "1Gi"},
    }


def run(cluster: Cluster, submitter: Mapping[str, str] = {}, check: bool = False, **options: Any) -> dict[str, Any]:
    """A task of an AWX user, or of the administrator's account."""
    defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": cluster.token}
    wanted = options if {"definition", "name"} & options.keys() else {"definition": web(), **options}
    cluster.requests.reset()
    task = Task(JobOptions(**wanted), params, check, pytest.fail, lambda values: None, environ=submitter)
    return MODULE.run(task)


def asked(cluster: Cluster) -> int:
    """How often the server was asked who a task is."""
    return sum("selfsubjectreviews" in entry.path for entry in cluster.requests)


def live(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.call(lambda: copy.deepcopy(cluster.registry.get("Deployment", "default", "web")))
    return found


def recorded(cluster: Cluster) -> Any:
    text = live(cluster)["metadata"].get("annotations", {}).get(SUBMITTED_BY)
    return text and json.loads(text)


def forget(cluster: Cluster) -> None:
    """Make the job one of version 1.0.0, which recorded nothing."""

    def change(workload: dict[str, Any]) -> None:
        del workload["metadata"]["annotations"][SUBMITTED_BY]
        for entry in workload["metadata"]["managedFields"]:
            entry["fieldsV1"].get("f:metadata", {}).pop("f:annotations", None)

    cluster.call(lambda: cluster.registry.modify("Deployment", "default", "web", change))


def test_a_new_job_says_who_submitted_it_and_its_pods_do_not(cluster: Cluster) -> None:
    run(cluster)
    assert asked(cluster) == 1
    assert recorded(cluster)["kubernetes_user"]
    assert recorded(cluster).keys() == {"user", "host", "kubernetes_user"}
    assert "annotations" not in live(cluster)["spec"]["template"]["metadata"]


def test_an_unchanged_job_asks_and_writes_nothing(cluster: Cluster) -> None:
    run(cluster, ANNA)
    before = live(cluster)
    assert not run(cluster, BEN)["changed"]
    assert {entry.verb for entry in cluster.requests} == {"list"}
    assert live(cluster) == before


def test_awx_knows_the_user_without_a_request(cluster: Cluster) -> None:
    run(cluster, ANNA)
    assert asked(cluster) == 0
    assert recorded(cluster)["awx_user"] == "anna"
    assert recorded(cluster)["awx_job"] == "17"


def test_an_update_by_the_same_submitter_keeps_the_record(cluster: Cluster) -> None:
    run(cluster, ANNA)
    before = recorded(cluster)
    result = run(cluster, {**ANNA, "GPUCTL_AWX_JOB": "18"}, definition=web("registry.example.com/ml:v2"))
    assert result["results"][0]["action"] == "update"
    assert recorded(cluster) == before


CHANGES: dict[str, dict[str, Any]] = {
    "present": {"definition": web("registry.example.com/ml:v2")},
    "scaled": {"name": "web", "replicas": 3},
    "paused": {"name": "web", "state": "paused"},
    "restarted": {"name": "web", "state": "restarted"},
    "absent": {"name": "web", "state": "absent"},
    "another kind": {"definition": {**web(), "kind": "inference"}},
}


@pytest.mark.parametrize("check", [False, True], ids=["run", "check mode"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_job_of_another_user_is_only_changed_on_request(cluster: Cluster, change: Any, check: bool) -> None:
    run(cluster, ANNA)
    before = live(cluster)
    with pytest.raises(PlansRejected) as refused:
        run(cluster, BEN, check, **change)
    assert "it belongs to another user: AWX user anna (AWX job 17), since 20" in str(refused.value)
    assert "This task runs as AWX user ben." in str(refused.value)
    assert "takeover" in str(refused.value)
    assert live(cluster) == before
    assert run(cluster, BEN, check, **change, takeover=True)["changed"]


def test_applying_a_manifest_takes_the_job_over_and_a_pause_does_not(cluster: Cluster) -> None:
    run(cluster, ANNA)
    run(cluster, BEN, name="web", state="paused", takeover=True)
    assert recorded(cluster)["awx_user"] == "anna"
    run(cluster, ANNA, name="web", state="resumed")
    run(cluster, BEN, definition=web("registry.example.com/ml:v2"), takeover=True)
    assert recorded(cluster)["awx_user"] == "ben"


def test_a_job_of_version_1_0_0_has_no_submitter_until_its_next_change(cluster: Cluster) -> None:
    run(cluster, ANNA)
    forget(cluster)
    assert not run(cluster, BEN)["changed"]
    assert recorded(cluster) is None
    run(cluster, BEN, name="web", state="paused")
    assert recorded(cluster) is None
    run(cluster, BEN, definition=web("registry.example.com/ml:v2"))
    assert recorded(cluster)["awx_user"] == "ben"


def test_a_malformed_annotation_can_be_taken_over(cluster: Cluster) -> None:
    run(cluster, ANNA)

    def spoil(workload: dict[str, Any]) -> None:
        workload["metadata"]["annotations"][SUBMITTED_BY] = "{"

    cluster.call(lambda: cluster.registry.modify("Deployment", "default", "web", spoil))
    assert not run(cluster, ANNA)["changed"]
    changed = web("registry.example.com/ml:v2")
    with pytest.raises(PlansRejected, match="a user that its annotation does not name"):
        run(cluster, ANNA, definition=changed)
    run(cluster, ANNA, definition=changed, takeover=True)
    assert recorded(cluster)["awx_user"] == "anna"


def test_other_jobs_of_the_task_go_on_if_it_may(cluster: Cluster) -> None:
    run(cluster, ANNA)
    both = [web("registry.example.com/ml:v2"), web(name="mine")]
    with pytest.raises(Exception, match="1 of 2 applied, 1 failed"):
        run(cluster, BEN, definition=both, continue_on_error=True)
    assert cluster.call(lambda: cluster.registry.get("Deployment", "default", "mine"))
