# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job with wait: it ends when the jobs have arrived, and as soon as one never will."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest

from . import kubelet
from .ansible import Ansible, TaskResult, says_while_it_runs
from .api import Api, eventually
from .manifests import compute, inference, training
from .pools import POOL, Field
from .recorder import Recorder

NEVER = 240  # seconds that no test waits for: who gets there has not failed early
EARLY = 60  # seconds that a playbook may take on a busy machine, images of a real cluster included


def failed_early(ansible: Ansible, *jobs: dict[str, Any], **options: Any) -> TaskResult:
    began = monotonic()
    result = ansible.job(definition=list(jobs), wait=True, wait_timeout=NEVER, **options)
    assert result.failed
    assert "will not become" in result.message, result.message
    assert monotonic() - began < EARLY
    return result


@contextmanager
def in_the_background(what: Callable[[], object]) -> Iterator[None]:
    """Something that happens while a playbook runs; what goes wrong there fails the test."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(what)
        yield
        future.result()


# -- what can never come true ----------------------------------------------------------------------------------------


def test_an_image_that_cannot_be_pulled(ansible: Ansible, api: Api, namespace: str):
    job = training(environment={"image": "registry.example.com/ml:typo"})
    with in_the_background(lambda: kubelet.without_image(api, namespace, "train")):
        result = failed_early(ansible, job, namespace=namespace, wait_for="complete")
    assert "image registry.example.com/ml:typo of pod train-" in result.message
    assert "Check environment.image" in result.message
    assert result.jobs["train"]["ready"] == "0/1"
    assert result.jobs["train"]["reason"] in result.message


@pytest.mark.parametrize("kind", [training, inference])
def test_a_quota_that_is_too_small(ansible: Ansible, api: Api, namespace: str, kind: Callable[..., dict[str, Any]]):
    hard = {"requests.nvidia.com/gpu": "1"}
    api.create("resourcequota", {"metadata": {"name": "few"}, "spec": {"hard": hard}}, namespace)
    eventually(lambda: "hard" in api.get("resourcequota", "few", namespace).get("status", {}))
    result = failed_early(ansible, kind("greedy", resources={"gpu": 2}), namespace=namespace)
    assert (
        "quota few of the namespace is too small for the job (nvidia.com/gpu: 2 requested, at most 1 allowed)"
        in result.message
    )
    assert api.list("pod", namespace, "app=greedy") == []


def test_a_pool_that_has_no_node(ansible: Ansible, field: Field, namespace: str):
    job = inference(resources={"pool": field.pool("typo")})
    result = failed_early(ansible, job, namespace=namespace)
    assert f"pool {field.pool('typo')} has no nodes" in result.message
    assert "Correct resources.pool" in result.message


def test_a_gpu_type_that_no_node_has(ansible: Ansible, field: Field, namespace: str):
    pool = field.pool("a")
    field.set_labels(field.nodes[0], {POOL: pool})
    result = failed_early(ansible, training(resources={"pool": pool, "gpu-type": "H999"}), namespace=namespace)
    assert "GPU type H999 not found" in result.message


def test_more_gpus_than_any_node_has(ansible: Ansible, namespace: str):
    job = training(resources={"gpu": 4000})
    result = failed_early(ansible, job, namespace=namespace, wait_for="scheduled")
    assert "it needs 4000 GPUs on one node, but the largest node" in result.message
    assert "Insufficient nvidia.com/gpu" in result.message
    assert "[WARNING]: job" not in result.screen, "the wait says it already"


def test_a_container_that_ends_again_and_again(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=compute(), namespace=namespace)
    kubelet.crashed(api, namespace, "web", exit_code=1)
    eventually(lambda: not api.get("deployment", "web", namespace)["status"].get("readyReplicas"))
    result = failed_early(ansible, compute(), namespace=namespace)
    assert "keeps failing with exit code 1" in result.message


def test_a_training_that_fails_shows_the_end_of_its_log_without_secrets(ansible: Ansible, api: Api, namespace: str):
    secret = "hf-4e1d9a7c55"
    job = training(environment={"env": {"HF_TOKEN": secret}})
    with in_the_background(lambda: kubelet.ended(api, namespace, "train", exit_code=2)):
        result = failed_early(ansible, job, namespace=namespace, wait_for="complete")
    assert "failed with exit code 2" in result.message
    assert "The log ends with:" in result.message
    assert result.jobs["train"]["status"] == "Failed"
    assert result.jobs["train"]["log"]
    assert result.jobs["train"]["log"][-1] in result.message
    assert secret not in result.screen


# -- what may still come true ----------------------------------------------------------------------------------------


def test_gpus_that_others_use_are_waited_for(ansible: Ansible, api: Api, field: Field, namespace: str):
    pool = field.pool("a")
    field.set_labels(field.nodes[0], {POOL: pool})
    gpus = int(api.get("node", field.nodes[0])["status"]["allocatable"]["nvidia.com/gpu"])
    first, second = (training(name, resources={"pool": pool, "gpu": gpus}) for name in ("first", "second"))
    assert not ansible.job(definition=first, namespace=namespace, wait=True, wait_timeout=90).failed

    result = ansible.job(definition=second, namespace=namespace, wait=True, wait_timeout=4)
    assert result.failed
    assert "training second in namespace" in result.message
    assert "is not ready after 4 s: Pending, 0 of 1 pods ready. Reason: pod second-" in result.message
    assert f"the only node of pool {pool} has none free" in result.message
    with in_the_background(lambda: kubelet.ended(api, namespace, "first")):
        assert not ansible.job(definition=second, namespace=namespace, wait=True, wait_timeout=90).failed


def test_a_pool_may_get_its_nodes_later_where_that_is_expected(
    ansible: Ansible, api: Api, field: Field, namespace: str
):
    pool = field.pool("later")

    def add_node() -> None:
        eventually(lambda: api.list("pod", namespace, "app=train"))
        field.set_labels(field.nodes[0], {POOL: pool})

    with in_the_background(add_node):
        result = ansible.job(
            definition=training(resources={"pool": pool}),
            namespace=namespace,
            wait=True,
            wait_timeout=90,
            wait_for_nodes=True,
        )
    assert not result.failed, result.message


# -- several jobs ----------------------------------------------------------------------------------------------------


def test_one_that_is_lost_ends_the_task_or_is_set_aside(ansible: Ansible, field: Field, namespace: str):
    lost = training("lost", resources={"pool": field.pool("typo")})
    slow = training("slow", storage={"workdirs": [{"path": "/work", "claim": "to-come"}]})
    options = {"definition": [compute(), lost, slow], "namespace": namespace, "wait": True}
    result = ansible.job(**options, wait_timeout=NEVER)
    assert "training lost in namespace" in result.message
    assert "Other jobs: " in result.message
    assert "training slow in namespace" not in result.message

    result = ansible.job(**options, wait_timeout=5, continue_on_error=True, wait_for_nodes=True)
    assert "2 of 3 jobs are not ready after 5 s:\n" in result.message
    assert {name: job["ready"] for name, job in result.jobs.items()} == {"web": "1/1", "lost": "0/1", "slow": "0/1"}
    assert all(job["reason"] for name, job in result.jobs.items() if name != "web")
    assert [name for name, job in result.jobs.items() if job["error"]] == ["lost", "slow"]


def test_a_wait_is_one_watch_of_each_kind_and_a_list_before_and_after(
    ansible: Ansible, recorder: Recorder, namespace: str
):
    jobs = [compute(f"web-{number}", resources={"gpu": 4000}) for number in range(8)]
    ansible.job(definition=jobs, namespace=namespace)
    recorder.clear()
    options = {"definition": jobs, "namespace": namespace, "wait_for_nodes": True}
    assert not ansible.job(**options).failed
    without = Counter(str(request) for request in recorder.requests)
    recorder.clear()
    assert ansible.job(**options, wait=True, wait_timeout=6).failed
    more = Counter(str(request) for request in recorder.requests) - without
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    pods, events = (f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("pods", "events"))
    # Pods and events are listed once in either case: they explain why the jobs are not running.
    assert {request: number for request, number in more.items() if namespace in request} == {
        f"GET {deployments}": 2,
        **{f"GET {path}": 1 for path in (pods, events)},
        **{f"WATCH {path}": 1 for path in (deployments, pods, events)},
    }


def test_without_permission_to_watch_it_warns_and_polls(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    groups = ["", "apps", "autoscaling", "batch"]
    verbs = ["get", "list", "create", "patch", "update", "delete"]
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": verbs}
    api.create("role", {"metadata": {"name": "blind"}, "rules": [rule]}, namespace)
    binding = {
        "metadata": {"name": "blind"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "blind"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gpuctl-test-blind"}],
    }
    api.create("rolebinding", binding, namespace)
    ansible.job(definition=training("before"), namespace=namespace)  # makes the PriorityClass
    user = {"namespace": namespace, "impersonate_user": "gpuctl-test-blind"}
    eventually(lambda: not ansible.job(definition=training("before"), **user).failed)

    def end_when_watching_was_refused() -> None:
        eventually(lambda: len([request for request in recorder.requests if request.watch]) == 3, EARLY)
        kubelet.ended(api, namespace, "train")

    recorder.clear()
    with in_the_background(end_when_watching_was_refused):
        result = ansible.job(definition=training(), wait=True, wait_for="complete", wait_timeout=90, **user)
    assert not result.failed, result.message
    assert result.jobs["train"]["status"] == "Succeeded"
    assert " ".join(result.screen.split()).count("cannot be watched") == 1, "ansible-core 2.16 wraps warnings"
    assert len([request for request in recorder.requests if request.watch]) == 3
    assert len(recorder.requests) < 60


@says_while_it_runs
def test_a_job_that_exists_is_waited_for_by_its_name(ansible: Ansible, recorder: Recorder, namespace: str):
    ansible.job(definition=training("short"), namespace=namespace)
    recorder.clear()
    done = ansible.job(name="short", namespace=namespace, wait=True, wait_timeout=60)
    assert (done.failed, done.changed, done.jobs["short"]["action"]) == (False, False, "unchanged"), done.message
    assert done.jobs["short"]["status"] == "Running"
    assert recorder.writes == []

    late = ansible.job(name="short", namespace=namespace, wait=True, wait_for="complete", wait_timeout=1)
    assert f"training short in namespace {namespace} is not complete after 1 s" in late.message
    missing = ansible.job(name="shorty", namespace=namespace, wait=True)
    assert missing.message.splitlines() == [
        f"job shorty in namespace {namespace}: job not found. Did you mean short? To list the jobs, use "
        "gpuctl_job_info; to create one, state=present with a manifest.",
        "Nothing was changed.",
    ]


@says_while_it_runs
def test_a_long_wait_shows_its_progress(ansible: Ansible, namespace: str):
    job = inference(resources={"gpu": 4000})
    result = ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=5, wait_for_nodes=True)
    assert result.failed
    assert re.search(
        r"0 of 1 job ready after [0-5] s \(timeout: 5 s\); waiting for serve \(Pending: pod serve-", result.screen
    )


def test_a_deletion_is_over_when_the_pods_are_gone(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=[training(), compute()], namespace=namespace, wait=True, wait_timeout=90)
    result = ansible.job(
        definition=[training(), compute()], namespace=namespace, state="absent", wait=True, wait_timeout=90
    )
    assert not result.failed, result.message
    assert api.list("pod", namespace) == []
