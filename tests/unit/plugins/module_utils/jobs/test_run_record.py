# SPDX-License-Identifier: BSD-2-Clause
"""The record of runs: what a task ends is written before it ends, and what one has left out is added later."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history import MODULE as RECORD
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history_info import MODULE as INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.times import read_time
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import HISTORY
from kubesim import Cluster, Fault

from .sessions import Session

V2 = {"image": "registry.example.com/ml:v2"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, pod_start_seconds=0.0).running() as running:
        yield running


@pytest.fixture
def session(cluster: Cluster) -> Session:
    return Session(cluster)


def training(name: str = "train", **blocks: Any) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": name},
        "environment": {"image": "registry.example.com/ml:v1"},
        "resources": {"cpu": 1, "memory": "1Gi", "gpu": 1},
        **blocks,
    }


def attempt(session: Session, *manifests: dict[str, Any], **options: Any) -> dict[str, Any]:
    wanted = {"definition": list(manifests)} if manifests else {"name": "train"}
    return session.run(MODULE, **{"retries": 0, "wait_timeout": 30, **wanted, **options})


def run(session: Session, *manifests: dict[str, Any], **options: Any) -> dict[str, Any]:
    done = attempt(session, *manifests, **options)
    assert not done.get("failed"), done["msg"]
    return done


def rows(session: Session) -> list[dict[str, Any]]:
    """The runs, the oldest first: each workload is created after the one that it replaces."""
    found = session.run(INFO, manifests=True)["results"]
    return sorted(found, key=lambda row: (row["status"] is not None, row["submitted_at"]))


def stored(cluster: Cluster) -> dict[str, str]:
    found = cluster.call(lambda: copy.deepcopy(cluster.registry.list("ConfigMap", "default")))
    return {key: text for each in found if each["metadata"]["name"] == HISTORY for key, text in each["data"].items()}


def uid(cluster: Cluster) -> str:
    (job,) = cluster.call(lambda: copy.deepcopy(cluster.registry.list("Job", "default")))
    return str(job["metadata"]["uid"])


def lose_records_after(cluster: Cluster, writes: int) -> int:
    """Nothing is recorded any more after so many writes: as if the task had been killed there."""
    return cluster.faults.add(Fault("reset", verb="patch", path="*/configmaps/*", skip=writes, count=None))


@pytest.mark.parametrize(
    ("manifests", "options", "writes", "result"),
    [
        ([training(environment=V2)], {}, 2, "Replaced"),  # The second one announces it in the ledger.
        ([], {"state": "restarted"}, 2, "Replaced"),
        ([], {"state": "absent"}, 1, "Deleted"),
    ],
)
def test_what_a_task_ends_is_recorded_before(
    cluster: Cluster,
    session: Session,
    manifests: list[dict[str, Any]],
    options: dict[str, Any],
    writes: int,
    result: str,
) -> None:
    run(session, training(), wait=True)
    lose_records_after(cluster, writes)
    run(session, *manifests, **options)
    former = rows(session)[0]
    assert (former["result"], former["gpu_hours_exact"]) == (result, False)
    assert former["gpu_hours"] is not None


@pytest.mark.parametrize(
    ("addons", "blocks"), [((), {}), (("kueue",), {"queue": {"backend": "kueue", "name": "mine"}})]
)
def test_the_gpus_of_a_paused_training_are_recorded_before_it_is_paused(
    addons: tuple[str, ...], blocks: dict[str, Any]
) -> None:
    with Cluster(nodes=2, pod_start_seconds=0.0, addons=set(addons)).running() as cluster:
        session = Session(cluster)
        run(session, training(**blocks), wait=True)
        lose_records_after(cluster, 1)
        run(session, state="paused")
        assert [key.split(".")[1] for key in stored(cluster) if "pod" in key] == ["pod"]
        assert not [key for key in stored(cluster) if key.endswith(".end")]


def test_all_of_a_batch_are_recorded_before_the_first_one_ends(cluster: Cluster, session: Session) -> None:
    jobs = [training(f"train-{number}") for number in range(3)]
    run(session, *jobs)
    cluster.faults.add(Fault("error", verb="delete", path="*/jobs/train-1", count=None))
    lose_records_after(cluster, 2)
    assert attempt(session, *({**job, "environment": V2} for job in jobs), concurrency=1)["failed"]
    ends = [json.loads(text)["result"] for key, text in stored(cluster).items() if key.endswith(".end")]
    assert ends == ["Replaced"] * 3
    # Two of them are still there.
    assert sorted(row["result"] for row in rows(session)) == ["Replaced", "Running", "Running", "Running"]


def test_a_recreation_that_is_refused_ends_a_run_and_begins_another(cluster: Cluster, session: Session) -> None:
    run(session, training())
    # A dry run finds that the Job cannot be changed in place.
    cluster.faults.add(Fault("error", verb="patch", path="*/jobs/train", skip=1))
    assert "was restored" in attempt(session, training(environment=V2))["msg"]
    assert not run(session, training())["changed"]
    former, restored = rows(session)
    assert (former["result"], restored["result"]) == ("Replaced", "Running")
    assert restored["manifest"]["environment"]["image"].endswith(":v1")  # added by the task that changed nothing


@pytest.mark.parametrize(
    ("state", "verb", "gpus", "writes"),
    [("absent", "delete", 99, 1), ("paused", "patch", 99, 1), ("absent", "delete", 1, 2), ("paused", "patch", 1, 2)],
)
def test_the_end_of_what_had_no_node_is_recorded_once(
    cluster: Cluster, session: Session, state: str, verb: str, gpus: int, writes: int
) -> None:
    """However long the server takes: the pods of a job that waits do not hold anything meanwhile."""
    run(session, training(resources={"cpu": 1, "memory": "1Gi", "gpu": gpus}), wait=gpus == 1)
    cluster.requests.reset()
    cluster.faults.add(Fault("latency", verb=verb, path="*/jobs/train", seconds=1.1))
    run(session, state=state, wait=True)
    assert len([entry for entry in cluster.requests if entry.writes and entry.path.endswith(HISTORY)]) == writes


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_run_that_the_server_does_not_end_goes_on(cluster: Cluster, session: Session, state: str) -> None:
    run(session, training())
    cluster.faults.add(Fault("error", verb="delete", path="*/jobs/train", count=None))
    assert attempt(session, training(environment=V2), state=state)["failed"]
    assert [row["result"] for row in rows(session)] == ["Running"]
    assert f"{uid(cluster)}.job" in stored(cluster)
    assert f"{uid(cluster)}.end" not in stored(cluster)


def test_the_end_that_a_killed_task_has_announced_is_none_while_the_job_is_there(
    cluster: Cluster, session: Session
) -> None:
    run(session, training())
    end = f"{uid(cluster)}.end"
    text = json.dumps({"result": "Deleted", "finished_at": "2026-01-01T00:00:00Z"})
    cluster.call(
        lambda: cluster.registry.modify("ConfigMap", "default", HISTORY, lambda one: one["data"].update({end: text}))
    )
    (row,) = rows(session)
    assert (row["result"], row["finished_at"]) == ("Running", None)
    session.run(RECORD)
    assert end not in stored(cluster)
    cluster.call(lambda: cluster.kubelet.behave(run_seconds=0))
    run(session, wait=True, wait_for="complete")
    assert [row["result"] for row in rows(session)] == ["Succeeded"]


def test_a_task_that_changes_nothing_adds_a_run_that_is_missing(cluster: Cluster, session: Session) -> None:
    lost = lose_records_after(cluster, 0)
    cluster.faults.add(Fault("reset", verb="create", path="*/configmaps", count=None))
    run(session, training())
    assert not stored(cluster)
    cluster.faults.clear()
    assert lost
    assert not run(session, training())["changed"]
    assert rows(session)[0]["manifest"]["kind"] == "training"
    cluster.requests.reset()
    assert not run(session, training())["changed"]
    assert not [entry for entry in cluster.requests if HISTORY in entry.path]


def test_a_wait_for_the_new_run_adds_nothing_to_the_former_one(cluster: Cluster, session: Session) -> None:
    run(session, training(), wait=True)
    cluster.call(lambda: cluster.kubelet.behave(run_seconds=4))
    run(session, training(environment=V2), wait=True, wait_for="complete")
    former, new = rows(session)
    assert (former["result"], new["result"]) == ("Replaced", "Succeeded")
    ended, submitted = read_time(former["finished_at"]), read_time(new["submitted_at"])
    assert abs((ended - submitted).total_seconds()) <= 2
    assert (new["gpu_hours"] or 0) > 0
    assert new["gpu_hours_exact"] is True


def service(replicas: int = 2, **blocks: Any) -> dict[str, Any]:
    return {**training("serve", **blocks), "kind": "inference", "service": {"replicas": replicas}}


def recorded_pods(cluster: Cluster) -> list[dict[str, Any]]:
    return [json.loads(text) for key, text in stored(cluster).items() if ".pod." in key]


@pytest.mark.parametrize(
    ("manifests", "options"),
    [
        pytest.param([service(environment=V2)], {}, id="another image"),
        pytest.param([service(replicas=1)], {}, id="fewer replicas in the manifest"),
        pytest.param([], {"name": "serve", "replicas": 1}, id="fewer replicas"),
    ],
)
def test_the_pods_that_a_change_of_a_service_ends_are_recorded(
    cluster: Cluster, session: Session, manifests: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    run(session, service(), wait=True)
    assert recorded_pods(cluster) == []
    run(session, *manifests, **options)
    assert [pod["exact"] for pod in recorded_pods(cluster)] == [False, False]
    assert [row["gpu_hours"] is not None for row in rows(session)] == [True]


def test_a_change_of_a_service_that_ends_no_pod_with_gpus_reads_none(cluster: Cluster, session: Session) -> None:
    without = {"cpu": 1, "memory": "1Gi", "gpu": 0}
    for before, after in ((service(), service(replicas=3)), *[(service(resources=without, environment=V2),) * 2]):
        run(session, before, wait=True)
        run(session, after)
        assert recorded_pods(cluster) == []
        run(session, name="serve", state="absent", wait=True)
        cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", HISTORY))


def test_the_pods_of_a_service_whose_submission_was_not_recorded_count(cluster: Cluster, session: Session) -> None:
    lost = lose_records_after(cluster, 0)
    creation = cluster.faults.add(Fault("reset", verb="create", path="*/configmaps", count=None))
    run(session, service(), wait=True)
    for number in (lost, creation):
        cluster.call(lambda number=number: cluster.faults.remove(number))
    run(session, name="serve", state="restarted")
    (row,) = rows(session)
    assert (row["name"], row["gpu_hours"] is not None, len(recorded_pods(cluster))) == ("serve", True, 2)


@pytest.mark.parametrize("fault", ["error", "conflict", "reset"])
def test_what_could_not_be_recorded_before_is_recorded_afterwards(
    cluster: Cluster, session: Session, fault: str
) -> None:
    run(session, training(), wait=True)
    cluster.faults.add(Fault(fault, verb="patch", path=f"*/configmaps/{HISTORY}"))
    run(session, state="absent")
    assert session.warnings == []
    (row,) = rows(session)
    assert (row["result"], row["gpu_hours"] is not None) == ("Deleted", True)


def test_pods_that_cannot_be_read_before_they_end_are_a_warning(cluster: Cluster, session: Session) -> None:
    run(session, training(), wait=True)
    cluster.faults.add(Fault("error", verb="list", path="*/pods*"))
    run(session, state="absent", wait=True)
    assert session.warnings == []
    assert len(recorded_pods(cluster)) == 1
    run(session, training(), wait=True)
    cluster.faults.add(Fault("error", verb="list", path="*/pods*", count=2))
    run(session, state="absent")
    (warning,) = session.warnings
    assert warning.startswith("the history does not have the GPU-hours of the pods of default/train: ")
