# SPDX-License-Identifier: BSD-2-Clause
"""The result of a wait: reasons, and the ends of logs, on a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.read_jobs import JobId
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import pod_selector
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.goals import READY, WaitResult, WaitTarget
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.job_wait import wait_for_jobs
from kubesim import Cluster, Fault

NOT_STARTED = 6  # more than the number of logs that a message has


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1).running() as cluster:
        yield cluster


def deployment(cluster: Cluster, name: str, **orders: Any) -> None:
    spec = {
        "selector": {"matchLabels": pod_selector(name)},
        "template": {
            "metadata": {"labels": pod_selector(name)},
            "spec": {"containers": [{"name": "main", "image": "reg/ml:v1"}]},
        },
    }
    metadata = {"name": name, "namespace": "default", "labels": pod_selector(name)}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    cluster.call(lambda: cluster.kubelet.behave(labels={"app": name}, **orders))
    cluster.call(lambda: cluster.registry.create("Deployment", obj))


def training(cluster: Cluster, name: str, **orders: Any) -> None:
    labels = pod_selector(name)
    pod = {"containers": [{"name": "main", "image": "reg/ml:v1"}], "restartPolicy": "Never"}
    spec = {"backoffLimit": 3, "template": {"metadata": {"labels": labels}, "spec": pod}}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    cluster.call(lambda: cluster.kubelet.behave(labels={"app": name}, **orders))
    obj = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    cluster.call(lambda: cluster.registry.create("Job", obj))


def wait(cluster: Cluster, *names: str, kind: str = "Deployment", timeout: float = 20) -> WaitResult:
    connection = Connection(cluster.url, authorization=lambda: {"Authorization": f"Bearer {cluster.token}"}, retries=0)
    task = Task(None, {}, False, pytest.fail, list, opened_client=Client(connection))  # type: ignore[type-var]
    targets = [WaitTarget(("default", name), kind, True, f"inference {name}") for name in names]
    return wait_for_jobs(task, READY, targets, timeout=timeout, keep_going=True, new_nodes=False)


def test_containers_that_never_started_leave_the_logs_to_others(cluster: Cluster) -> None:
    names = [f"bad-{number}" for number in range(NOT_STARTED)]
    for name in names:
        deployment(cluster, name, start_error='exec: "trian": executable file not found in $PATH')
    deployment(cluster, "crashes", crash_seconds=0.1, ready=False, log_lines=3)
    result = wait(cluster, *names, "crashes")
    assert len(result.errors) == NOT_STARTED + 1
    assert result.logs["default", "crashes"][-1].endswith("line 3")
    assert set(result.logs) == {("default", "crashes")}


def test_the_log_of_a_try_that_failed_before_the_timeout(cluster: Cluster) -> None:
    training(cluster, "fails", run_seconds=0, exit_code=1, ready=False, log_lines=3)
    result = wait(cluster, "fails", kind="Job", timeout=1)
    assert result.logs["default", "fails"][-1].endswith("line 3")
    assert result.problem is not None
    assert "is not ready after 1 s: Pending, 0 of 1 pods ready, 1 failed. " in result.problem
    assert result.problem.endswith("line 3")


def test_a_wait_that_could_not_read_the_end_says_so_for_each_job(cluster: Cluster) -> None:
    deployment(cluster, "web")
    cluster.faults.add(Fault("unavailable", count=None))
    result = wait(cluster, "web", timeout=1)
    assert result.problem is not None
    assert result.problem.startswith("It is not known whether inference web is ready: ")
    errors: Mapping[JobId, str] = result.errors
    assert errors["default", "web"].startswith("not known whether it is ready: ")
