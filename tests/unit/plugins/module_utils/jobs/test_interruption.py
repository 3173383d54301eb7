# SPDX-License-Identifier: BSD-2-Clause
"""What a recreation stops, and that it is refused where it must not."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.dry_run import PlansRejected
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.interruption import interruption
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed
from kubesim import Cluster

NOW = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
WORKLOAD = {
    "kind": "Job",
    "metadata": {
        "name": "x",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"runwhere.ai/job-type": "training"},
    },
    "spec": {},
    "status": {"ready": 1},
}


def pod(gpus: int = 8, phase: str = "Running", created: str = "2026-01-01T00:00:00Z", **states: str) -> dict[str, Any]:
    """States of the container with the time of its start: running, terminated, last."""
    state = {name: {"startedAt": moment} for name, moment in states.items() if name != "last"}
    last = {"terminated": {"startedAt": states["last"]}} if "last" in states else {}
    resources = {"requests": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "metadata": {"name": "x-1", "creationTimestamp": created},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state, "lastState": last}]},
    }


WAITING = {**pod(), "spec": {**pod()["spec"], "nodeName": None}, "status": {"phase": "Pending"}}
STOPPED: dict[str, tuple[list[dict[str, Any]] | None, str]] = {
    "no pods": ([], ""),
    "pods without a node": ([WAITING], ""),
    "an image that is being pulled": ([pod(phase="Pending")], ""),
    "a container that could not start": ([pod(phase="Pending", terminated="1970-01-01T00:00:00Z")], ""),
    "pods that run": (
        [pod(running="2026-01-02T09:00:00Z"), pod(running="2026-01-02T09:30:00Z")],
        "a training that has run for 3 h on 16 GPUs",
    ),
    "one pod that runs, another that waits": ([pod(1, running="2026-01-02T11:30:00Z"), WAITING], "30 min on 1 GPU"),
    "a container that runs again": ([pod(running="2026-01-02T11:59:00Z", last="2026-01-02T10:00:00Z")], "2 h on 8"),
    "it has failed, and waits for its next pod": (
        [pod(phase="Failed", terminated="2026-01-02T10:00:00Z"), WAITING],
        "a training that has run for 2 h",
    ),
    "without GPUs": ([pod(0, running="2026-01-02T11:59:00Z")], "a training that has run for 60 s"),
    "pods of a former job": ([pod(created="2025-12-31T00:00:00Z", running="2025-12-31T00:00:01Z")], ""),
    "pods that may not be read": (None, "a training that is running, since when is not known"),
}


@pytest.mark.parametrize(("pods", "said"), STOPPED.values(), ids=STOPPED)
def test_what_is_stopped(pods: list[dict[str, Any]] | None, said: str) -> None:
    found = interruption(WORKLOAD, pods, NOW)
    assert said in found
    assert bool(said) is bool(found)


# -- through the module -----------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, pod_start_seconds=0.0).running() as running:
        yield running


def training(name: str, image: str = "v1", **resources: Any) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": name},
        "environment": {"image": f"registry.example.com/ml:{image}"},
        "resources": {"cpu": 1, "memory": "1Gi", "gpu": 4, **resources},
    }


def run(cluster: Cluster, *manifests: dict[str, Any], **options: Any) -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []
    check_mode = options.pop("check_mode", False)
    defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": cluster.token}
    wanted = JobOptions(**{"definition": list(manifests), "wait_timeout": 20, **options})
    return MODULE.run(Task(wanted, params, check_mode, warnings.append, lambda values: None)), warnings


def uid(cluster: Cluster, name: str) -> str:
    return str(cluster.call(lambda: copy.deepcopy(cluster.registry.get("Job", "default", name)))["metadata"]["uid"])


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    """Two trainings that run, and one that waits for more GPUs than there are."""
    run(cluster, training("a"), training("b"), wait=True)
    run(cluster, training("waiting", gpu=99))
    return cluster


@pytest.mark.parametrize("check_mode", [False, True])
def test_all_that_would_be_stopped_are_named_before_anything_is_written(running: Cluster, check_mode: bool) -> None:
    before = [uid(running, name) for name in ("a", "b", "waiting")]
    jobs = [training(name, "v2") for name in ("a", "b", "waiting")]
    with pytest.raises(PlansRejected) as refused:
        run(running, *jobs, recreate=False, check_mode=check_mode)
    *lines, last = str(refused.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"training {name} in namespace default" for name in "ab"]
    assert "recreating it stops a training that has run for " in lines[0]
    assert " s on 4 GPUs (Kubernetes cannot change spec.template.spec.containers[main].image in place). " in lines[0]
    assert lines[0].endswith("Use O(recreate=true) to recreate it all the same.")
    assert last == "Nothing was changed."
    assert [uid(running, name) for name in ("a", "b", "waiting")] == before


def test_a_training_that_never_ran_is_recreated_as_before(running: Cluster) -> None:
    before = uid(running, "waiting")
    result, warnings = run(running, training("waiting", "v2"), recreate=False)
    assert (result["results"][0]["action"], result["results"][0]["stops"]) == ("recreate", None)
    assert uid(running, "waiting") != before
    assert [text for text in warnings if "stops" in text] == []


def test_the_others_go_on_if_they_may(running: Cluster) -> None:
    before = uid(running, "a")
    with pytest.raises(TaskFailed) as failed:
        run(running, training("a", "v2"), training("new"), recreate=False, continue_on_error=True)
    a, new = failed.value.result["results"]
    assert "recreating it stops a training" in a["error"]
    assert (new["error"], new["action"]) == (None, "create")
    assert uid(running, "a") == before


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_recreation_says_what_it_stops(running: Cluster, check_mode: bool) -> None:
    before = uid(running, "a")
    result, warnings = run(running, training("a", "v2"), check_mode=check_mode)
    stops = result["results"][0]["stops"]
    assert stops.startswith("a training that has run for ")
    assert stops.endswith(" on 4 GPUs")
    assert f"training a in namespace default: recreating it stops {stops}." in warnings
    assert result["diff"][0]["after_header"] == f"Job default/a (recreate: stops {stops})"
    assert (uid(running, "a") == before) is check_mode


def test_a_training_that_has_ended_is_run_again_without_leave(cluster: Cluster) -> None:
    cluster.call(lambda: cluster.kubelet.behave(run_seconds=0))
    run(cluster, training("a"), wait=True, wait_for="complete")
    result, warnings = run(cluster, training("a", "v2"), recreate=False)
    assert (result["results"][0]["action"], warnings) == ("recreate", [])


def test_a_paused_training_is_changed_without_leave(running: Cluster) -> None:
    run(running, name="a", state="paused", wait=True, definition=None)
    result, _warnings = run(running, training("a", "v2"), recreate=False)
    assert result["changed"] is True
