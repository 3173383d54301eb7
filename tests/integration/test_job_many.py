# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job with many jobs in one task: side by side, few requests, and one bad job that stops none of the others."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from .ansible import Ansible
from .api import Api, eventually
from .manifests import compute, training
from .recorder import Recorder, Request


def idle(name: str, **blocks: dict[str, Any]) -> dict[str, Any]:
    """A service without copies: objects, and nothing that runs."""
    return compute(name, **{"service": {"replicas": 0, "type": "ClusterIP"}, **blocks})


def somebody_elses(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example.com/x:v1"}
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"x": "y"}}, "replicas": 0, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_jobs_are_written_concurrently_up_to_the_limit(
    ansible: Ansible, recorder: Recorder, namespace: str, concurrency: int
):
    """Each write is held back until as many are under way as there may be; a moment longer shows if there are more."""
    lock, crowd, under_way, most = threading.Lock(), threading.Event(), set(), []

    def hold(request: Request) -> None:
        if request.method != "PATCH" or request.dry_run or not request.path.endswith(tuple(names)):
            return
        with lock:
            under_way.add(request.path)
            most.append(len(under_way))
            if len(under_way) >= concurrency:
                crowd.set()
        crowd.wait(10)
        threading.Event().wait(0.1)
        with lock:
            under_way.discard(request.path)

    names = [f"web-{number}" for number in range(8)]
    recorder.before = hold
    result = ansible.job(definition=[idle(name) for name in names], namespace=namespace, concurrency=concurrency)
    assert not result.failed, result.message
    assert max(most) == concurrency
    assert [entry["name"] for entry in result.result["results"]] == names
    assert [entry["action"] for entry in result.result["results"]] == ["create"] * 8
    headers = [diff["after_header"] for diff in result.diff if diff["after_header"].startswith("Deployment")]
    assert headers == [f"Deployment {namespace}/{name} (create)" for name in names]


def test_unchanged_jobs_cost_one_list_per_kind_however_many_they_are(
    ansible: Ansible, recorder: Recorder, namespace: str
):
    jobs = [idle(f"web-{number}") for number in range(30)]
    sent = []
    for number in (1, 30, 30):
        ansible.job(definition=jobs[:number], namespace=namespace)
        recorder.clear()
        result = ansible.job(definition=jobs[:number], namespace=namespace)
        assert not result.changed
        assert recorder.writes == recorder.dry_runs == []
        sent.append(sorted(str(request) for request in recorder.requests))
    assert sent[0] == sent[1] == sent[2]


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_one_bad_job_stops_none_of_the_others(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, check: bool
):
    api.create("deployment", somebody_elses("taken"), namespace)
    api.create("resourcequota", {"metadata": {"name": "q"}, "spec": {"hard": {"count/jobs.batch": "0"}}}, namespace)
    eventually(lambda: "hard" in api.get("resourcequota", "q", namespace).get("status", {}))
    jobs = [idle("taken"), idle("first"), training("refused", resources={"gpu": 0}), idle("last")]
    result = ansible.job(definition=jobs, namespace=namespace, continue_on_error=True, check=check)
    assert result.failed
    assert result.changed
    assert (
        f"compute taken in namespace {namespace}: Deployment taken exists and is not managed by gpuctl"
        in result.message
    )
    assert f"training refused in namespace {namespace}: " in result.message
    assert "exceeded quota: q" in result.message
    assert "Jobs: 2 of 4 applied, 2 failed, 0 not attempted." in result.message
    fates = [(entry["name"], entry["action"], bool(entry["error"])) for entry in result.result["results"]]
    assert fates == [
        ("taken", "unchanged", True),
        ("first", "create", False),
        ("refused", "unchanged", True),
        ("last", "create", False),
    ]
    assert all("failed" not in entry for entry in result.result["results"]), "Ansible has that word for whole results"
    assert bool(api.get("deployment", "first", namespace)) is not check
    assert bool(api.get("deployment", "last", namespace)) is not check
    if not check:
        recorder.clear()
        again = ansible.job(definition=jobs, namespace=namespace, continue_on_error=True)
        assert again.failed
        assert not again.changed
        assert recorder.writes == [f"PATCH /apis/batch/v1/namespaces/{namespace}/jobs/refused"]


def test_the_jobs_that_were_done_are_waited_for(ansible: Ansible, namespace: str):
    jobs = [idle("lost", job={"namespace": "gpuctl-nowhere"}), training("runs", resources={"gpu": 0})]
    result = ansible.job(
        definition=jobs, namespace=namespace, continue_on_error=True, wait=True, wait_for="scheduled", wait_timeout=60
    )
    assert result.failed
    assert "namespace gpuctl-nowhere not found" in result.message
    assert result.jobs["runs"]["error"] is None
    assert result.jobs["runs"]["status"] in ("Running", "Pending", "Succeeded")
    assert "not scheduled" not in result.message


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_change_that_is_forbidden_in_place(ansible: Ansible, api: Api, namespace: str, keep_going: bool):
    before = training("train", resources={"gpu": 0})
    ansible.job(definition=before, namespace=namespace)
    after = training("train", resources={"gpu": 0}, environment={"image": "registry.example.com/ml:v2"})
    result = ansible.job(
        definition=[after, idle("web")], namespace=namespace, on_immutable="fail", continue_on_error=keep_going
    )
    assert result.failed
    assert "Kubernetes cannot change spec.template" in result.message
    assert bool(api.get("deployment", "web", namespace)) is keep_going
    if keep_going:
        assert "Kubernetes cannot change" in result.jobs["train"]["error"]
        assert result.jobs["web"]["error"] is None
    else:
        assert "Nothing was changed." in result.message


def test_a_deletion_leaves_unmanaged_objects(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=[idle("ours")], namespace=namespace)
    api.create("deployment", somebody_elses("theirs"), namespace)
    jobs = [idle("theirs"), idle("ours")]
    result = ansible.job(definition=jobs, namespace=namespace, state="absent", continue_on_error=True)
    assert result.failed
    assert "Deployment theirs exists and is not managed by gpuctl" in result.message
    assert (result.jobs["theirs"]["action"], result.jobs["ours"]["action"]) == ("unchanged", "delete")
    assert api.get("deployment", "theirs", namespace)
    assert eventually(lambda: api.get("deployment", "ours", namespace) is None)


def test_an_invalid_manifest_fails_before_anything_all_the_same(ansible: Ansible, recorder: Recorder):
    broken = compute("web", resources={"cpu": "lots"})
    result = ansible.job(definition=[idle("good"), broken], continue_on_error=True)
    assert result.failed
    assert "resources.cpu" in result.message
    assert recorder.requests == []
