# SPDX-License-Identifier: BSD-2-Clause
"""Trainings that are replaced: what an interrupted task leaves, and what the next one makes of it."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.dry_run import PlansRejected
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import ADVISERS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed
from kubesim import Cluster, Fault

LONG_AGO = "2020-01-01T00:00:00Z"
JOB = "*/jobs/train"
DEPENDENTS = {
    ("Service", "svc-train"),
    ("ConfigMap", "train-hostfile"),
    ("ConfigMap", "train-deepspeed"),
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, pod_start_seconds=0.0).running() as running:
        yield running


def training(name: str = "train", **job: str) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": name, **job},
        "environment": {"image": "registry.example.com/ml:v1", "env": [{"name": "API_TOKEN", "value": "s3cret-value"}]},
        "resources": {"cpu": 1, "memory": "1Gi", "node_count": 2},
        "distributed": {"backend": "deepspeed", "deepspeed": "zero2"},
    }


def run(cluster: Cluster, **options: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, **options, "host": cluster.url, "api_key": cluster.token, "retries": 0}
    wanted = JobOptions(**{"wait_timeout": 20, **options})
    task = Task(wanted, params, False, lambda text: None, lambda values: None, advisers=ADVISERS)
    return MODULE.run(task)


def restart(cluster: Cluster, **options: Any) -> dict[str, Any]:
    return run(cluster, name="train", state="restarted", **options)


def action(result: dict[str, Any]) -> str:
    return str(result["results"][0]["action"])


def present(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    return cluster.call(lambda: copy.deepcopy(cluster.registry.list(kind, "default")))


def names(cluster: Cluster, *kinds: str) -> set[tuple[str, str]]:
    ours = {(obj["kind"], obj["metadata"]["name"]) for kind in kinds for obj in present(cluster, kind)}
    return {(kind, name) for kind, name in ours if "train" in name}


def ledger(cluster: Cluster) -> dict[str, dict[str, Any]]:
    found = cluster.call(lambda: cluster.registry.get("ConfigMap", "default", "gpuctl-ledger"))
    return {name: json.loads(text) for name, text in found.get("data", {}).items()}


def submitted_long_ago(cluster: Cluster) -> None:
    """More than the time to live of the trainings."""

    def change(config_map: dict[str, Any]) -> None:
        for name, text in config_map["data"].items():
            config_map["data"][name] = json.dumps({**json.loads(text), "submitted_at": LONG_AGO})

    cluster.call(lambda: cluster.registry.modify("ConfigMap", "default", "gpuctl-ledger", change))


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def interrupted(cluster: Cluster, at: str, skip: int = 0, **options: Any) -> str:
    """The message of a task for which the server is lost at its first write to this path."""
    number = cluster.faults.add(Fault("reset", verb="patch", path=at, skip=skip, count=None))
    with pytest.raises(TaskFailed) as caught:
        run(cluster, **options)
    cluster.faults.remove(number)
    return str(caught.value)


def test_a_training_older_than_its_time_to_live_is_created_by_the_next_task(cluster: Cluster) -> None:
    run(cluster, definition=training())
    submitted_long_ago(cluster)
    urgent = {"definition": training(priority="high")}  # The ledger's digest is the same.
    interrupted(cluster, JOB, skip=1, **urgent)  # The first patch is a dry run: can it be changed in place?
    eventually(lambda: not present(cluster, "Job"))
    assert action(run(cluster, **urgent)) == "create"
    assert names(cluster, "Job", "Service", "ConfigMap") == {("Job", "train"), *DEPENDENTS}
    entry = ledger(cluster)["train"]
    assert (entry["uid"], entry["ttl_seconds"]) == (present(cluster, "Job")[0]["metadata"]["uid"], 86_400)
    assert not run(cluster, **urgent)["changed"]


def test_a_finished_training_that_was_to_run_again_is_created_by_the_next_task(cluster: Cluster) -> None:
    run(cluster, definition=training())
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": LONG_AGO}

    def end(job: dict[str, Any]) -> None:
        criteria = {**ended, "type": "SuccessCriteriaMet"}
        job["status"] |= {"conditions": [criteria, ended], "completionTime": LONG_AGO, "active": 0, "ready": 0}

    cluster.call(lambda: cluster.registry.modify("Job", "default", "train", end, subresource="status"))
    assert run(cluster, definition=training())["results"][0]["status"] == "Succeeded"
    interrupted(cluster, JOB, definition=training(), rerun="always")
    eventually(lambda: not present(cluster, "Job"))
    assert action(run(cluster, definition=training())) == "create"


@pytest.mark.parametrize(
    "lost_at", [JOB, "*/services/svc-train", "*/configmaps/train-hostfile", "*/configmaps/train-deepspeed"]
)
def test_an_interrupted_restart_is_finished_by_the_next_one(cluster: Cluster, lost_at: str) -> None:
    run(cluster, definition=training())
    submitted_long_ago(cluster)
    (before,) = present(cluster, "Job")
    interrupted(cluster, lost_at, name="train", state="restarted")
    result = restart(cluster)
    assert result["changed"]
    (after,) = present(cluster, "Job")
    assert after["spec"]["template"]["spec"] == before["spec"]["template"]["spec"]
    eventually(lambda: names(cluster, "Service", "ConfigMap") == DEPENDENTS)
    assert not present(cluster, "ControllerRevision"), "the copy is only kept during a restart"
    assert ledger(cluster)["train"]["uid"] == after["metadata"]["uid"]
    assert not run(cluster, definition=training())["changed"]


def test_an_interrupted_restart_is_finished_by_the_manifest(cluster: Cluster) -> None:
    run(cluster, definition=training())
    submitted_long_ago(cluster)
    interrupted(cluster, JOB, name="train", state="restarted")
    eventually(lambda: not present(cluster, "Job"))
    assert action(run(cluster, definition=training())) == "create"
    assert not present(cluster, "ControllerRevision")


def test_what_is_deleted_is_not_restarted(cluster: Cluster) -> None:
    run(cluster, definition=training())
    interrupted(cluster, JOB, name="train", state="restarted")
    eventually(lambda: not present(cluster, "Job"))
    run(cluster, name="train", state="absent")
    assert not present(cluster, "ControllerRevision")
    with pytest.raises(PlansRejected, match="job not found"):
        restart(cluster)


def test_a_restart_without_an_entry_is_announced_and_leaves_none(cluster: Cluster) -> None:
    """The copy of a training that the ledger does not know only counts with the announcement."""
    run(cluster, definition=training())
    cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "gpuctl-ledger"))
    interrupted(cluster, JOB, name="train", state="restarted")
    eventually(lambda: not present(cluster, "Job"))
    assert ledger(cluster)["train"]["manifest"] == ""
    assert action(restart(cluster)) == "create"
    assert "train" not in ledger(cluster)


def test_a_copy_without_an_announcement_does_not_count(cluster: Cluster) -> None:
    """Whoever may create ControllerRevisions could otherwise have others create a Job."""
    run(cluster, definition=training())
    interrupted(cluster, JOB, name="train", state="restarted")
    eventually(lambda: not present(cluster, "Job"))
    cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "gpuctl-ledger"))
    with pytest.raises(PlansRejected, match="job not found"):
        restart(cluster)


def test_a_copy_counts_until_the_manifest_was_applied(cluster: Cluster) -> None:
    run(cluster, definition=training())
    interrupted(cluster, JOB, name="train", state="restarted")
    (revision,) = present(cluster, "ControllerRevision")
    run(cluster, definition=training())
    kept = {name: revision[name] for name in ("revision", "data")} | {"metadata": dict(revision["metadata"])}
    for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        kept["metadata"].pop(name, None)
    cluster.call(lambda: cluster.registry.create("ControllerRevision", kept))
    cluster.call(lambda: cluster.registry.delete("Job", "default", "train"))
    eventually(lambda: not present(cluster, "Job"))
    with pytest.raises(PlansRejected, match="job not found"):
        restart(cluster)


def test_secrets_are_not_copied_into_config_maps(cluster: Cluster) -> None:
    run(cluster, definition=training())
    interrupted(cluster, JOB, name="train", state="restarted")
    assert "s3cret-value" in json.dumps(present(cluster, "ControllerRevision"))
    assert "s3cret-value" not in json.dumps(present(cluster, "ConfigMap"))


def test_a_restart_without_copy_refuses_what_is_incomplete(cluster: Cluster) -> None:
    run(cluster, definition=training())
    cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "train-hostfile"))
    with pytest.raises(PlansRejected, match=r"it is incomplete.*: ConfigMap train-hostfile not found.*state=present"):
        restart(cluster)
    run(cluster, definition=training())
    restart(cluster)


def test_the_ledger_is_written_once_before_the_first_deletion(cluster: Cluster) -> None:
    jobs = [training(f"train-{number}") for number in range(4)]
    run(cluster, definition=jobs)
    cluster.requests.reset()
    run(cluster, definition=[training(job["job"]["name"], priority="high") for job in jobs])
    writes = [entry for entry in cluster.requests.writes() if entry.verb == "delete" or entry.name == "gpuctl-ledger"]
    assert [entry.verb for entry in writes] == ["patch", "delete", "delete", "delete", "delete", "patch"]
    assert all("finished_at" not in entry for entry in ledger(cluster).values())


def test_nothing_is_deleted_while_the_ledger_cannot_be_reached(cluster: Cluster) -> None:
    run(cluster, definition=training())
    (before,) = present(cluster, "Job")
    message = interrupted(cluster, "*/configmaps/gpuctl-ledger", definition=training(priority="high"))
    assert "cannot reach the API server" in message
    assert "not known" not in message
    assert "deleted" not in message
    assert present(cluster, "Job")[0]["metadata"]["uid"] == before["metadata"]["uid"]


def test_what_was_not_begun_stays_as_it_was_in_the_ledger(cluster: Cluster) -> None:
    jobs = [training("train-1"), training("train-2")]
    run(cluster, definition=jobs)
    before = ledger(cluster)
    cluster.faults.add(Fault("error", verb="delete", path="*/jobs/train-1", count=None))
    with pytest.raises(TaskFailed, match="1 not attempted"):
        run(cluster, definition=[training(f"train-{n}", priority="high") for n in (1, 2)], concurrency=1)
    assert ledger(cluster)["train-2"] == before["train-2"]


def test_a_training_that_may_not_be_deleted_stays_as_it_was_in_the_ledger(cluster: Cluster) -> None:
    """Else it would run again once Kubernetes has removed it, because its end was not seen."""
    run(cluster, definition=training())
    before = ledger(cluster)
    cluster.faults.add(Fault("error", verb="delete", path=JOB, count=None))
    with pytest.raises(TaskFailed, match="HTTP 500 to DELETE"):
        run(cluster, definition=training(priority="high"))
    assert ledger(cluster) == before


# -- pods that take their time


def slow_to_end(cluster: Cluster, seconds: float) -> None:
    cluster.call(lambda: cluster.kubelet.behave(labels={"app": "train"}, stop_seconds=seconds))
    eventually(lambda: [pod["status"]["phase"] for pod in present(cluster, "Pod")] == ["Running", "Running"])


def uids(cluster: Cluster, kind: str = "Pod") -> set[str]:
    return {obj["metadata"]["uid"] for obj in present(cluster, kind)}


def test_a_training_starts_when_the_pods_of_its_predecessor_are_gone(cluster: Cluster) -> None:
    run(cluster, definition=training())
    slow_to_end(cluster, 0.4)
    former = uids(cluster)
    run(cluster, name="train", state="absent")
    assert former <= uids(cluster)
    assert action(run(cluster, definition=training())) == "create"
    assert not former & uids(cluster)


def test_a_predecessor_that_does_not_end_is_named(cluster: Cluster) -> None:
    run(cluster, definition=training())
    slow_to_end(cluster, 300)
    run(cluster, name="train", state="absent")
    with pytest.raises(TaskFailed) as caught:
        run(cluster, definition=training(), wait_timeout=0)
    message = str(caught.value)
    assert "still terminating after 0 s: Pod train-" in message
    assert " on node-" in message
    assert "force=true" in message
    assert not present(cluster, "Job")
    former = uids(cluster)
    assert action(run(cluster, definition=training(), force=True)) == "create"
    assert not former & uids(cluster)


def test_force_deletes_the_pods_of_a_job_that_is_already_deleted(cluster: Cluster) -> None:
    run(cluster, definition=training())
    slow_to_end(cluster, 300)
    run(cluster, name="train", state="absent")
    assert not run(cluster, name="train", state="absent")["changed"]
    result = run(cluster, name="train", state="absent", force=True)
    assert (action(result), result["results"][0]["kind"]) == ("delete", "training")
    eventually(lambda: not present(cluster, "Pod"))
    assert not run(cluster, name="train", state="absent", force=True)["changed"]


def lose(cluster: Cluster, node: str) -> None:
    """Its kubelet stops."""

    def change(obj: dict[str, Any]) -> None:
        for condition in obj["status"]["conditions"]:
            if condition["type"] == "Ready":
                condition["status"] = "Unknown"

    cluster.call(lambda: cluster.registry.modify("Node", None, node, change, subresource="status"))


def test_force_restarts_a_training_on_a_lost_node(cluster: Cluster) -> None:
    run(cluster, definition=training())
    eventually(lambda: len(present(cluster, "Pod")) == 2)
    former = uids(cluster)
    lose(cluster, "node-1")
    lose(cluster, "node-2")
    with pytest.raises(TaskFailed, match=r"still terminating after 0 s: Job train\. .*force=true"):
        restart(cluster, wait_timeout=0)
    restart(cluster, force=True)
    assert not former & uids(cluster)
    assert names(cluster, "Job", "Service", "ConfigMap") == {("Job", "train"), *DEPENDENTS}


def test_force_restarts_a_notebook_on_a_lost_node(cluster: Cluster) -> None:
    lab = {
        "kind": "notebook",
        "job": {"name": "train"},
        "environment": {"image": "registry.example.com/ml:v1"},
        "resources": {"cpu": 1, "memory": "1Gi"},
    }
    run(cluster, definition=lab)
    eventually(lambda: [pod["status"]["phase"] for pod in present(cluster, "Pod")] == ["Running"])
    (pod,) = present(cluster, "Pod")
    lose(cluster, pod["spec"]["nodeName"])
    result = restart(cluster, force=True)
    assert {(step["kind"], step["action"]) for step in result["results"][0]["resources"]} >= {("Pod", "delete")}
    eventually(lambda: {pod["metadata"]["uid"]} != uids(cluster) != set())
