# SPDX-License-Identifier: BSD-2-Clause
"""What version 1.0.0 submitted keeps running when this version applies the same manifests."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.fields import value_at
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import with_owner
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE, JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.former_versions import LATER_DEFAULTS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import priority_class
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import JOB, POD, STATEFUL_SET
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from kubesim import Cluster

FORMER = Path(__file__).with_name("built-by-1.0.0.yaml")
NAMESPACE = "default"
OTHER_IMAGE = "registry.example.com/ml:v2"


class Upgraded:
    """A cluster in which 1.0.0 has submitted its jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
        self._params = {**defaults, "host": cluster.url, "api_key": cluster.token}
        self.client = self._task({}).client()
        self.client.apply(priority_class("medium"))
        self.manifests: dict[str, Any] = {}
        for document in yaml.safe_load_all(FORMER.read_text(encoding="utf-8")):
            self.manifests[document["manifest"]["job"]["name"]] = document["manifest"]
            workload, *dependents = document["objects"]
            live = self.client.apply(workload)
            for obj in dependents:
                owned = with_owner(obj, live, live["metadata"]["uid"]) if live["kind"] == "Job" else obj
                self.client.apply(owned)
        pods = sum(manifest["resources"].get("node_count", 1) for manifest in self.manifests.values())
        eventually(lambda: len(self.pods()) == pods)

    def apply(self, *manifests: dict[str, Any], **options: Any) -> dict[str, Any]:
        self.cluster.requests.reset()
        return MODULE.run(self._task({"definition": list(manifests or self.manifests.values()), **options}))

    def writes(self) -> list[str]:
        return [str(entry) for entry in self.cluster.requests if entry.verb not in ("get", "list", "watch")]

    def pods(self) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in self.client.list_objects(POD, NAMESPACE)}

    def template(self, resource: Any, name: str) -> dict[str, Any]:
        return dict(self.client.get(resource, NAMESPACE, name)["spec"]["template"]["spec"])

    def _task(self, options: dict[str, Any]) -> Task[JobOptions]:
        ignored: Callable[[Any], None] = lambda value: None  # noqa: E731
        return Task(JobOptions(**options), self._params, False, ignored, ignored)


@pytest.fixture
def upgraded() -> Iterator[Upgraded]:
    with Cluster(nodes=4).running() as running:
        yield Upgraded(running)


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def changed(manifest: dict[str, Any], block: str, **fields: Any) -> dict[str, Any]:
    found = copy.deepcopy(manifest)
    found[block] = {**found.get(block, {}), **fields}
    return found


def test_an_upgrade_restarts_nothing(upgraded: Upgraded) -> None:
    pods = upgraded.pods()
    first = upgraded.apply()
    number = len(upgraded.manifests)
    assert (first["changed"], first["msg"]) == (False, f"{number} jobs: {number} unchanged")
    assert [result["name"] for result in first["results"] if "runwhere.gpuctl" in (result["reason"] or "")] == []
    upgraded.apply()
    assert upgraded.writes() == []
    assert upgraded.pods() == pods


def test_an_upgrade_runs_no_finished_training_again_not_even_without_a_ledger(upgraded: Upgraded) -> None:
    upgraded.cluster.call(lambda: upgraded.cluster.kubelet.behave(exit_code=0, run_seconds=0))
    eventually(lambda: upgraded.client.get(JOB, NAMESPACE, "dist")["status"].get("succeeded") == 2)
    result = upgraded.apply(upgraded.manifests["dist"])
    assert result["changed"] is False
    again = upgraded.apply(upgraded.manifests["dist"], rerun="always")
    assert again["results"][0]["action"] == "recreate"
    assert "topologySpreadConstraints" in upgraded.template(JOB, "dist"), "what is new is built by this version"


def test_what_replaces_the_pods_anyway_brings_the_new_defaults(upgraded: Upgraded) -> None:
    notebook, training = upgraded.manifests["lab"], upgraded.manifests["dist"]
    described = changed(notebook, "job", description="only metadata")
    assert upgraded.apply(described)["results"][0]["action"] == "update"
    assert "readinessProbe" not in upgraded.template(STATEFUL_SET, "lab")["containers"][0]

    jobs = [changed(each, "environment", image=OTHER_IMAGE) for each in (described, training)]
    assert upgraded.apply(*jobs)["msg"] == "2 jobs: 1 recreate, 1 update"
    assert upgraded.template(STATEFUL_SET, "lab")["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": 8888}
    assert "topologySpreadConstraints" in upgraded.template(JOB, "dist")
    assert upgraded.apply(*jobs)["changed"] is False
    upgraded.apply(*jobs)
    assert upgraded.writes() == []

    packed = [jobs[0], changed(jobs[1], "distributed", placement="pack")]
    assert upgraded.apply(*packed)["msg"] == "2 jobs: 1 recreate, 1 unchanged"
    assert "topologySpreadConstraints" not in upgraded.template(JOB, "dist")


def test_a_probe_that_somebody_else_has_set_stays_theirs(upgraded: Upgraded) -> None:
    probe = {"httpGet": {"path": "/lab", "port": 8888}}
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "lab", "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "readinessProbe": probe}]}}},
    }
    upgraded.client.apply(theirs, manager="somebody")
    assert upgraded.apply(upgraded.manifests["lab"])["changed"] is False


def test_all_later_defaults_are_those_of_a_workload_that_was_built_before() -> None:
    built = [obj for document in yaml.safe_load_all(FORMER.read_text(encoding="utf-8")) for obj in document["objects"]]
    for default in LATER_DEFAULTS:
        found = [value_at(obj, default.path) for obj in built if obj["kind"] == default.kind]
        assert default.former in found, default
