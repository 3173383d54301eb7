# SPDX-License-Identifier: BSD-2-Clause
"""Two runs on one job: whenever the other one strikes, the result is that of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.transport import Transport
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed
from chaos.snapshot import Snapshot
from integration.manifests import compute, inference, notebook, training
from kubesim import Cluster

Options = dict[str, Any]
State = dict[str, str]


def declared(*manifests: dict[str, Any]) -> Options:
    return {"definition": list(manifests)}


V2, V3 = ({"image": f"registry.example.com/ml:v{version}"} for version in (2, 3))
SCALED = {"autoscaling": {"min_replicas": 2, "max_replicas": 4}}
TWO_NODES = {"resources": {"gpu": 0, "node_count": 2}}
SERVED = {"service": {"replicas": 2}}

# What is there before, what a run does, and what another one does while a request of the first is on its way.
RACES: dict[str, tuple[list[Options], Options, Options]] = {
    "both create, one with an autoscaler": (
        [],
        declared(inference(**SCALED)),
        declared(inference(environment=V3, **SERVED)),
    ),
    "one removes the autoscaler": (
        [declared(inference(**SCALED))],
        declared(inference(**SERVED)),
        declared(inference(environment=V3, **SCALED)),
    ),
    "one changes only the Service": (
        [declared(compute())],
        declared(compute(service={"port": 8081})),
        declared(compute(environment=V3)),
    ),
    "one deletes": (
        [declared(inference(**SCALED))],
        {"name": "serve", "state": "absent"},
        declared(inference(environment=V3, **SERVED)),
    ),
    "one pauses": (
        [declared(inference(**SERVED))],
        {"name": "serve", "state": "paused"},
        declared(inference(environment=V3, **SERVED)),
    ),
    "one changes the kind": (
        [declared(compute())],
        declared(notebook("web")),
        declared(compute(environment=V3)),
    ),
    "both recreate": (
        [declared(training(**TWO_NODES))],
        declared(training(environment=V2, **TWO_NODES)),
        declared(training(environment=V3, **TWO_NODES)),
    ),
    "one restarts": (
        [declared(training(**TWO_NODES))],
        {"name": "train", "state": "restarted"},
        declared(training(environment=V3, **TWO_NODES)),
    ),
}


def run(cluster: Cluster, options: Options) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": cluster.token, "concurrency": 1}
    wanted = JobOptions(**{"concurrency": 1, "wait_timeout": 5, **options})
    return MODULE.run(Task(wanted, params, False, lambda text: None, lambda values: None, environ={}))


@contextmanager
def cluster_with(before: list[Options]) -> Iterator[Cluster]:
    with Cluster(nodes=0, pod_start_seconds=0).running() as cluster:
        for options in before:
            run(cluster, options)
        yield cluster


def state(cluster: Cluster) -> State:
    """The objects of jobs, once what has no owner is gone. The ledger names the last run that recorded itself."""

    def read() -> list[dict[str, Any]]:
        kinds = ("Job", "Deployment", "StatefulSet", "Service", "HorizontalPodAutoscaler", "ConfigMap")
        return [obj for kind in kinds for obj in cluster.registry.list(kind)]

    found = Snapshot.of(cluster.call(read)).contents
    return {key: text for key, text in found.items() if "gpuctl-ledger" not in key and '"terminating"' not in text}


def in_turn(before: list[Options], *runs: Options) -> State:
    with cluster_with(before) as cluster:
        for options in runs:
            run(cluster, options)
        return state(cluster)


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> Iterator[list[str]]:
    """Before write ``number`` reaches the server, dry runs included, something else happens. Yields the writes."""
    writes: list[str] = []
    send = Transport.send

    def interrupted_send(self: Transport, method: str, path: str, *arguments: Any, **options: Any) -> Any:
        if method != "GET":
            writes.append(f"{method} {path}")
            if len(writes) == number:
                with monkeypatch.context() as undisturbed:
                    undisturbed.setattr(Transport, "send", send)
                    act()
        return send(self, method, path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Transport, "send", interrupted_send)
        yield writes


@pytest.mark.parametrize("name", RACES)
def test_the_result_is_that_of_one_of_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, one, other = RACES[name]
    right = [in_turn(before, one, other), in_turn(before, other, one)]
    for number in count(1):
        with cluster_with(before) as cluster:
            with interrupted(monkeypatch, number, lambda there=cluster: run(there, other)) as writes:  # type: ignore[misc]
                run(cluster, one)
            if len(writes) < number:
                break
            assert state(cluster) in right, f"the other run came before {writes[number - 1]}"
    assert number > 1


def test_an_autoscaler_that_is_at_work_is_no_other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster_with([declared(inference(**SCALED))]) as cluster:

        def scale() -> None:
            live = cluster.registry.get("Deployment", "default", "serve") or {}
            cluster.registry.update("Deployment", {**live, "spec": {**live["spec"], "replicas": 4}})

        port = {"service": {"port": 8081}}
        with interrupted(monkeypatch, 3, lambda: cluster.call(scale)) as writes:
            assert run(cluster, declared(inference(**SCALED, **port)))["changed"]
        assert writes[2].endswith("/services/svc-serve")
        (live,) = cluster.call(lambda: cluster.registry.list("Deployment"))
        assert live["spec"]["replicas"] == 4


def test_a_run_that_never_gets_its_turn_names_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = count(10)
    with cluster_with([declared(inference(**SERVED))]) as cluster:
        send = Transport.send

        def always_late(self: Transport, method: str, path: str, *arguments: Any, **options: Any) -> Any:
            if method == "PATCH" and path.endswith("/deployments/serve"):
                with monkeypatch.context() as undisturbed:
                    undisturbed.setattr(Transport, "send", send)
                    image = {"image": f"registry.example.com/ml:v{next(versions)}"}
                    run(cluster, declared(inference(environment=image, **SERVED)))
            return send(self, method, path, *arguments, **options)

        monkeypatch.setattr(Transport, "send", always_late)
        with pytest.raises(TaskFailed) as caught:
            run(cluster, declared(inference(environment=V2, **SERVED)))
    message = str(caught.value)
    assert message.startswith("inference serve in namespace default: another run changed Deployment serve at the same ")
    assert "(field manager runwhere.gpuctl, " in message
    assert message.endswith("Run the task again.\nNothing was changed.")
    assert caught.value.result["changed"] is False


def test_a_job_that_disappears_is_reported_after_a_new_look(monkeypatch: pytest.MonkeyPatch) -> None:
    pause, delete = {"name": "serve", "state": "paused"}, {"name": "serve", "state": "absent"}
    with (
        cluster_with([declared(inference(**SERVED))]) as cluster,
        interrupted(monkeypatch, 1, lambda: run(cluster, delete)),
        pytest.raises(TaskFailed) as caught,
    ):
        run(cluster, pause)
    assert "Deployment serve was deleted at the same time" in str(caught.value)
    assert "job not found" in str(caught.value)
