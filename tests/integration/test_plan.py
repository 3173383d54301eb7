# SPDX-License-Identifier: BSD-2-Clause
"""A plan of sixty changes: all that it predicts is seen after it was applied, and a stale plan changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run
from .api import Api
from .manifests import compute, notebook, training
from .namespaces import remove_namespaces, unused_namespace
from .pools import POOL, Field
from .recorder import Recorder

IMAGE = "registry.local/busybox:1"
GPU = "nvidia.com/gpu"
TEAMS = ("a", "b", "c")
# Ends at once on SIGTERM.
SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]
SMALL = {"gpu": 0, "cpu": 0.01, "memory": "16Mi"}
WORKLOADS = {"training": "job", "compute": "deployment", "inference": "deployment", "notebook": "statefulset"}


class Scene:
    """A directory of manifests, and the cluster that it describes."""

    def __init__(self, ansible: Ansible, api: Api, field: Field) -> None:
        self.ansible, self.api, self.field = ansible, api, field
        self.directory = ansible.directory / "cluster"
        self.directory.mkdir()
        self.teams = {name: unused_namespace() for name in TEAMS}
        self.manifests: dict[str, dict[str, Any]] = {}

    def pool(self, name: str, *nodes: int) -> None:
        names = [self.field.nodes[number] for number in nodes]
        self.manifests[f"pool {name}"] = {"kind": "pool", "pool": {"name": self.field.pool(name)}, "nodes": names}

    def quota(self, **limits: Mapping[str, Any]) -> None:
        users = {self.teams[team]: dict(limit) for team, limit in limits.items()}
        quota = {"kind": "quota", "quota": {"name": f"{self.field.prefix}-teams"}, "users": users}
        self.manifests["quota"] = quota

    def job(self, manifest: dict[str, Any], team: str = "a", pool: str = "a", **resources: Any) -> None:
        name = manifest["job"]["name"]
        manifest["job"]["namespace"] = self.teams[team]
        manifest["environment"] |= {"image": IMAGE, "command": SLEEP}
        manifest["resources"] = {**SMALL, **resources, "pool": self.field.pool(pool)}
        self.manifests[name] = manifest

    def change(self, name: str, block: str, **fields: Any) -> None:
        manifest = self.manifests[name]
        self.manifests[name] = {**manifest, block: {**manifest.get(block, {}), **fields}}

    def write(self) -> None:
        text = yaml.safe_dump_all(list(self.manifests.values()), sort_keys=False)
        (self.directory / "all.yaml").write_text(text)

    def run(self, playbook: str, *arguments: str, **variables: Any) -> Run:
        given = {f"gpuctl_{name}": value for name, value in variables.items()}
        return self.ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", "-e", json.dumps(given), *arguments)

    def plan(self, **variables: Any) -> dict[str, Any]:
        done = self.run("plan", dir="cluster", output="plan.json", **variables)
        assert done.status == 0, done.output
        plan: dict[str, Any] = json.loads((self.ansible.directory / "plan.json").read_text())
        return plan

    # -- what is seen

    def pods(self, namespace: str, job: str) -> dict[str, dict[str, Any]]:
        """The unfinished pods of a job by uid, without those that are about to end."""
        return {
            pod["metadata"]["uid"]: pod
            for pod in self.api.list("pod", namespace)
            if pod["metadata"]["labels"].get("app") == job
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
            and "deletionTimestamp" not in pod["metadata"]
        }

    def held(self) -> dict[str, dict[str, int]]:
        """The GPUs that pods hold, by node and by namespace."""
        found: dict[str, dict[str, int]] = {"node": {}, "namespace": {}}
        for namespace in self.teams.values():
            for pod in self.api.list("pod", namespace):
                node = pod["spec"].get("nodeName")
                if not node or pod["status"].get("phase") in ("Succeeded", "Failed"):
                    continue
                for key, name in (("node", node), ("namespace", namespace)):
                    found[key][name] = found[key].get(name, 0) + gpus_of(pod)
        return found

    def workload(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.api.get(WORKLOADS[row["kind"]], row["name"], row["namespace"])
        return found


@pytest.fixture
def scene(ansible: Ansible, api: Api, field: Field) -> Iterator[Scene]:
    if len(field.nodes) < 3:
        pytest.skip("three nodes without labels are needed")
    scene = Scene(ansible, api, field)
    yield scene
    remove_namespaces(api, *scene.teams.values())


def before(scene: Scene) -> None:
    """36 jobs of two teams in two pools."""
    scene.pool("a", 0)
    scene.pool("b", 1)
    scene.quota(a={"gpu": 4}, b={"gpu": 3, "cpu": 8, "memory": "8Gi"})
    for number in range(6):
        scene.job(training(f"retrain-{number}"), gpu=int(number < 2))
    for number in range(10):
        scene.job(compute(f"rolled-{number}"), team="b", pool="b", gpu=int(number < 1))
    for number in range(10):
        scene.job(compute(f"described-{number}"))
    for number in range(5):
        scene.job(compute(f"scaled-{number}", service={"replicas": 1}))
    for number in range(3):
        scene.job(compute(f"closed-{number}", service={"port": 8080 + number}))
    for number in range(2):
        scene.job(compute(f"same-{number}"))
    scene.write()


def after(scene: Scene) -> None:
    """Sixty changes."""
    scene.pool("a", 0, 1)
    scene.manifests["pool b"]["nodes"] = []
    scene.pool("c", 2)
    scene.quota(a={"gpu": 5}, b={"gpu": 2, "cpu": 6, "memory": "6Gi"}, c={"gpu": 2})
    for number in range(6):
        scene.change(f"retrain-{number}", "environment", command=[*SLEEP[:2], SLEEP[2].replace("3600", "7200")])
    for number in range(10):
        scene.change(f"rolled-{number}", "environment", env={"ROUND": "2"})
        scene.change(f"rolled-{number}", "resources", pool=scene.field.pool("a"))
    for number in range(10):
        scene.change(f"described-{number}", "job", description="as before")
    for number in range(5):
        scene.change(f"scaled-{number}", "service", replicas=2)
    for number in range(3):
        scene.manifests[f"closed-{number}"].pop("service")
    for number in range(12):
        scene.job(training(f"new-{number}"), team="c", pool="c", gpu=int(number < 2))
    for number in range(6):
        scene.job(compute(f"web-{number}"), team="c", pool="c")
    scene.job(notebook("lab"), team="a")
    scene.job(training("too-many"), team="c", pool="c", gpu=3)
    scene.write()


def test_sixty_changes_are_as_predicted(scene: Scene, recorder: Recorder) -> None:
    before(scene)
    done = scene.run("provision", dir="cluster", wait=True)
    assert done.status == 0, done.output
    after(scene)
    recorder.clear()
    plan = scene.plan(recreate=True, force=True)
    assert recorder.writes == []
    rows = {(row["kind"], row["name"], row["namespace"]): row for row in plan["results"]}
    changes = [row for row in plan["results"] if row["kind"] not in ("access", "priority")]
    assert len(changes) == 60, sorted(rows)
    assert plan["problems"] == []
    was = {key: scene.workload(row) for key, row in rows.items() if row["kind"] in WORKLOADS}
    pods = {key: scene.pods(row["namespace"], row["name"]) for key, row in rows.items() if row["kind"] in WORKLOADS}

    done = scene.run("provision", plan="plan.json")
    assert done.status == 0, done.output

    for key, row in rows.items():
        if row["kind"] in WORKLOADS:
            settles(partial(assert_job, scene, row, was[key], pods[key]), 120)
    for row in plan["nodes"]:
        node = scene.api.get("node", row["node"])
        assert (node["metadata"]["labels"].get(POOL) or "default") == row["pool_after"], row
    settles(partial(assert_capacity, scene, plan), 60)
    assert {row["node"] for row in plan["nodes"] if row["moves"]} == set(scene.field.nodes[1:3])
    moved = next(row for row in plan["nodes"] if row["node"] == scene.field.nodes[1])
    assert moved["pool_before"] == scene.field.pool("b"), "its jobs are restarted, so none is left on it"
    assert moved["jobs"] == []
    for row in plan["pools"]:
        if row["pool"].startswith(scene.field.prefix):
            members = [node for node in plan["nodes"] if node["pool_after"] == row["pool"]]
            assert (row["nodes_after"], row["gpus_after"]) == (len(members), sum(node["gpus"] for node in members))
    again = scene.plan()
    assert again["results"] == []
    assert again["msg"] == "Nothing to change."


def settles(check: Callable[[], None], seconds: float) -> None:
    """Check until it is so: controllers take a moment."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(1)


def assert_job(scene: Scene, row: Mapping[str, Any], was: Any, pods: Mapping[str, Any]) -> None:
    """What the row says of a job is so."""
    now = scene.workload(row)
    assert now is not None, row
    present = scene.pods(row["namespace"], row["name"])
    assert len(present) == row["pods_after"], (row, list(present))
    assert len(pods) == row["pods_before"], row
    assert len(set(pods) - set(present)) == row["pods_ending"], row
    same = was is not None and was["metadata"]["uid"] == now["metadata"]["uid"]
    assert same is (row["action"] == "update"), row
    assert row["restarts"] is bool(set(pods) - set(present) and set(present) - set(pods)), row
    for resource in row["resources"]:
        found = scene.api.get(resource["kind"].lower(), resource["name"], row["namespace"])
        assert (found is None) is (resource["action"] == "delete"), resource
    gpus = sum(gpus_of(pod) for pod in present.values() if pod["spec"].get("nodeName"))
    assert gpus == row["gpus_after"], (row, gpus)


def gpus_of(pod: Mapping[str, Any]) -> int:
    requests = (one["resources"].get("requests", {}) for one in pod["spec"]["containers"])
    return sum(int(each.get(GPU, 0)) for each in requests)


def assert_capacity(scene: Scene, plan: Mapping[str, Any]) -> None:
    """Quotas, teams and nodes are as the plan says."""
    held = scene.held()
    ours = set(scene.teams.values())
    teams = {row["namespace"]: row["gpus_after"] for row in plan["teams"] if row["namespace"] in ours}
    assert {name: gpus for name, gpus in held["namespace"].items() if gpus} == {n: g for n, g in teams.items() if g}
    for row in plan["quotas"]:
        if row["namespace"] not in ours:
            continue
        found = scene.api.get("resourcequota", f"{row['quota']}-{row['namespace']}", row["namespace"])
        if row["resource"] == "gpu":
            assert int(found["spec"]["hard"][f"requests.{GPU}"]) == row["hard_after"], row
            used = int(found["status"]["used"][f"requests.{GPU}"])
            # Its controller leaves what the admission of a pod has counted if its cache has not seen it yet, until the
            # next full sync, after five minutes (pkg/controller/resourcequota: an update of status queues nothing).
            assert row["used_after"] in (used, min(used, requested(scene, row["namespace"]))), (row, used)
    for pool in {row["pool_after"] for row in plan["nodes"] if row["pool_after"].startswith(scene.field.prefix)}:
        members = [row["node"] for row in plan["nodes"] if row["pool_after"] == pool]
        expected = next(row["used_after"] for row in plan["pools"] if row["pool"] == pool)
        assert sum(held["node"].get(node, 0) for node in members) == expected, (pool, held)


def requested(scene: Scene, namespace: str) -> int:
    """The GPUs that a quota counts: those of all pods that have not ended."""
    pods = scene.api.list("pod", namespace)
    return sum(gpus_of(pod) for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed"))


# -- saved plans -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(scene: Scene) -> Scene:
    """Two jobs, of which one is about to change, and one to come."""
    scene.pool("a", 0)
    scene.quota(a={"gpu": 4})
    scene.job(compute("web", service={"replicas": 1}))
    scene.job(compute("other"))
    scene.write()
    done = scene.run("provision", dir="cluster")
    assert done.status == 0, done.output
    scene.change("web", "service", replicas=2)
    scene.job(compute("new"))
    scene.write()
    return scene


def refused(scene: Scene, recorder: Recorder, **variables: Any) -> str:
    """What the playbook says that refuses the plan."""
    recorder.clear()
    done = scene.run("provision", plan="plan.json", **variables)
    assert done.status != 0, done.output
    assert recorder.writes == []
    (failed,) = [task for task in done.tasks if task.failed]
    return failed.message


def test_a_plan_is_applied_if_only_statuses_have_changed(small: Scene) -> None:
    small.plan()
    team = small.teams["a"]
    small.api.patch("deployment", "web", {"metadata": {"annotations": {"example.com/by": "x"}}}, team)
    done = small.run("provision", plan="plan.json")
    assert done.status == 0, done.output
    assert small.api.get("deployment", "web", team)["spec"]["replicas"] == 2
    assert small.api.get("deployment", "new", team)


def test_a_plan_is_refused_once_another_user_has_changed_what_it_changes(small: Scene, recorder: Recorder) -> None:
    plan = small.plan()
    team = small.teams["a"]
    small.api.patch("deployment", "web", {"spec": {"replicas": 3}}, team)
    message = refused(small, recorder, force_conflicts=False)
    assert message.startswith(f"The plan of {plan['made_at']} is out of date. Nothing was changed.")
    assert f"Deployment {team}/web: missing, another one, or with other values than the plan was made for." in message
    assert small.api.get("deployment", "new", team) is None


def test_a_plan_that_is_refused_names_the_job(small: Scene, recorder: Recorder) -> None:
    team = small.teams["a"]
    small.api.patch("deployment", "web", {"spec": {"replicas": 3}}, team)
    planned = small.run("plan", dir="cluster", output="plan.json")
    assert planned.status != 0, planned.output
    message = refused(small, recorder)
    assert "cannot be applied. Nothing was changed." in message
    assert f" {team}/web: fields of the manifest were changed by others" in message


def test_an_interrupted_plan_is_finished_and_an_applied_one_is_applied_again(small: Scene, recorder: Recorder) -> None:
    small.plan()
    assert not small.ansible.job(definition=small.manifests["new"], source="cluster").failed
    done = small.run("provision", plan="plan.json")
    assert done.status == 0, done.output
    assert "2 of 3 steps of the plan done before, 1 now." in done.output
    recorder.clear()
    again = small.run("provision", plan="plan.json")
    assert again.status == 0, again.output
    assert "3 of 3 steps of the plan done before, 0 now. Nothing to change." in again.output
    assert recorder.writes == []


def test_a_plan_is_refused_for_other_manifests_and_other_variables(small: Scene, recorder: Recorder) -> None:
    small.plan()
    text = (small.directory / "all.yaml").read_text()
    (small.directory / "all.yaml").write_text(text + "# more\n")
    assert "The manifests are no longer those that the plan was made from." in refused(small, recorder)
    (small.directory / "all.yaml").write_text(text)
    told = "The plan was made with gpuctl_takeover false, and this task has true."
    assert told in refused(small, recorder, takeover=True)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"plan": {"format": 99}}', '{"plan": {"format": 1}}'])
def test_what_is_no_plan_is_refused(scene: Scene, recorder: Recorder, content: str) -> None:
    scene.job(compute("web"))
    scene.write()
    (scene.ansible.directory / "plan.json").write_text(content)
    assert "plan" in refused(scene, recorder, dir="cluster")


# -- reports -----------------------------------------------------------------------------------------------------------


def test_warnings_and_problems_come_first_and_all_of_them(small: Scene, tmp_path: Path) -> None:
    small.job(training("too-large"), gpu=8)
    small.job(compute("lost"), pool="nowhere")
    small.manifests["pool x"] = {"kind": "pool", "pool": {"name": small.field.pool("x")}, "nodes": ["no-such-node"]}
    small.write()
    done = small.run("plan", dir="cluster", output="plan.html")
    assert done.status != 0
    screen = done.output
    assert screen.index("Refused: ") < screen.index("Warning: ") < screen.index("CHANGE")
    assert "no-such-node" in screen
    page = (small.ansible.directory / "plan.html").read_text()
    assert "no-such-node" in page
    assert page.index("Look at this first") < page.index("What changes")
    assert all(len(line) <= 80 for line in screen.splitlines() if line.startswith(("Refused", "Warning", "  ")))
