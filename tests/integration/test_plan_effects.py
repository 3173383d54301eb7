# SPDX-License-Identifier: BSD-2-Clause
"""Random edits of a directory, alone and in groups: pods, evictions, GPUs and lost hours become what the plan said."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_rows import CREATED_FIRST
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan import plan_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.transport import Transport
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import pool
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, run_task

from .api import eventually
from .kubelet import ended
from .manifests import compute, inference, notebook, training
from .pools import POOL
from .recorder import Recorder
from .test_plan import GPU, WORKLOADS, Scene, assert_capacity, assert_job, gpus_of, scene, settles

__all__ = ["scene"]

Row = dict[str, Any]
JobKey = tuple[str, str]  # namespace and name
EDITS = 60
SECONDS = 60.0  # that controllers get


class Edited:
    """A cluster that a directory describes, and the edits of a person."""

    def __init__(self, scene: Scene, recorder: Recorder, seed: int) -> None:
        self.scene, self.recorder = scene, recorder
        self.choose = random.Random(seed)
        self.aged: set[str] = set()  # pods by uid
        self.number = 0

    def run(self, module: ModuleSpec[Any], **options: Any) -> Row:
        """A task of a module, in this process."""
        parameters = {"kubeconfig": str(self.recorder.kubeconfig), "request_timeout": 60}
        task = Task(module.options(**options), parameters, False, _ignore, _ignore, environ={})
        return run_task(task, module)

    def plan(self, **options: Any) -> Row:
        found = self.run(plan_info.MODULE, src=[str(self.scene.directory)], recreate=True, force=True, **options)
        assert not found.get("failed"), found["msg"]
        return found

    def provision(self) -> None:
        """As the playbook: pools, quotas, jobs."""
        src = [str(self.scene.directory)]
        for module, options in ((pool.MODULE, {"force": True}), (quota.MODULE, {}), (job.MODULE, {"recreate": True})):
            done = self.run(module, src=src, allow_empty=True, **options)
            assert not done.get("failed"), done["msg"]

    # -- the directory

    def declare(self) -> None:
        """Jobs of all kinds, of two teams."""
        for name in "abc":
            self.scene.pool(name, "abc".index(name))
        self.scene.quota(a={"gpu": 12}, b={"gpu": 12})
        for number in range(3):
            self.scene.job(training(f"train-{number}"), gpu=number)
        self.scene.job(training("distributed"), team="b", pool="c", gpu=1, node_count=2)
        self.scene.job(compute("web", service={"replicas": 2, "port": 80}), team="b", pool="b")
        self.scene.job(compute("gpu-web", service={"replicas": 1}), team="b", pool="b", gpu=1)
        self.scene.job(inference("serve", service={"replicas": 2}), team="a", pool="c", gpu=1)
        self.scene.job(notebook("lab"), team="a", pool="b", gpu=1)
        self.scene.write()

    @property
    def jobs(self) -> list[str]:
        return [name for name, each in self.scene.manifests.items() if "job" in each]

    def any_of(self, *kinds: str) -> str:
        return self.choose.choice([name for name in self.jobs if self.scene.manifests[name]["kind"] in kinds])

    def edit(self) -> None:
        scene, choose = self.scene, self.choose
        name = choose.choice(self.jobs)
        self.number += 1
        new = f"new-{self.number}"
        where = {"team": choose.choice("ab"), "pool": choose.choice("abc")}
        priority, replicas = choose.choice(["low", "medium", "high"]), choose.randint(1, 4)
        edits: list[Callable[[], None]] = [
            lambda: scene.job(training(new, job={"priority": priority}), **where, gpu=choose.randrange(4)),
            lambda: scene.job(training(new, job={"priority": "high"}), **where, gpu=choose.randrange(4, 8)),
            lambda: scene.job(
                compute(new, service={"replicas": choose.randint(1, 3)}), **where, gpu=choose.randrange(2)
            ),
            lambda: scene.job(training(new), **where, gpu=1, node_count=2),
            lambda: scene.change(name, "environment", env={"ROUND": str(self.number)}),
            lambda: scene.change(name, "environment", env={"ROUND": str(self.number)}),
            lambda: scene.change(name, "job", description=f"round {self.number}"),
            lambda: scene.change(name, "job", priority=priority),
            lambda: scene.change(name, "resources", gpu=choose.randrange(4)),
            lambda: scene.change(name, "resources", pool=scene.field.pool(where["pool"])),
            lambda: scene.change(self.any_of("compute", "inference"), "service", replicas=replicas),
            lambda: scene.change(self.any_of("compute"), "service", port=choose.randint(80, 90)),
            lambda: scene.quota(a={"gpu": choose.randint(8, 16)}, b={"gpu": choose.randint(8, 16)}),
            self.move_node,
        ]
        choose.choice(edits)()

    def move_node(self) -> None:
        """The third node goes to another pool, and its pods stay."""
        for name in "abc":
            self.scene.pool(name, "abc".index(name)) if name != "c" else self.scene.pool(name)
        self.scene.pool(to := self.choose.choice("abc"), *({"abc".index(to), 2}))

    # -- the cluster

    def keys(self) -> dict[JobKey, str]:
        """The jobs of the directory, and what kind of workload each has."""
        manifests = [self.scene.manifests[name] for name in self.jobs]
        return {(each["job"]["namespace"], each["job"]["name"]): WORKLOADS[each["kind"]] for each in manifests}

    def pods(self) -> dict[JobKey, dict[str, Row]]:
        return {key: self.scene.pods(*key) for key in self.keys()}

    def alike(self, names: Iterable[str]) -> list[Any]:
        """What jobs are to a quota and on nodes: of those that are alike, the scheduler may evict either."""
        found = [self.scene.manifests[name.partition("/")[2]] for name in names]
        return sorted((each["job"].get("priority", "medium"), each["resources"]["gpu"]) for each in found)

    def age(self) -> None:
        """The pods have held their nodes for hours: the scheduler's condition says since when."""
        for pods in self.pods().values():
            for uid, pod in pods.items():
                if uid in self.aged or not pod["spec"].get("nodeName"):
                    continue
                self.aged.add(uid)
                hours = timedelta(hours=self.choose.uniform(0.5, 30))
                since = (datetime.now(timezone.utc) - hours).strftime("%Y-%m-%dT%H:%M:%SZ")
                condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
                name, place = pod["metadata"]["name"], pod["metadata"]["namespace"]
                path = f"/api/v1/namespaces/{place}/pods/{name}/status"
                body = {"status": {"conditions": [condition]}}
                status, answer = self.scene.api.call("PATCH", path, body, "application/strategic-merge-patch+json")
                assert status == 200, answer

    def settled(self) -> None:
        """All pods of the directory run, and no others end any more, before the next edit."""
        for namespace in self.scene.teams.values():
            ending = [pod for pod in self.scene.api.list("pod", namespace) if "deletionTimestamp" in pod["metadata"]]
            assert ending == [], [pod["metadata"]["name"] for pod in ending]
        for key, kind in self.keys().items():
            found = self.scene.api.get(kind, key[1], key[0])
            assert found, key
            pods = self.scene.pods(*key).values()
            assert all(pod["status"].get("phase") == "Running" for pod in pods), key  # Else a plan stops nothing yet.
            assert len(pods) == found["spec"].get("replicas", found["spec"].get("completions")), key

    def started(self) -> None:
        """What ran goes on after it was recreated. The plan would not stop it before that, and later it would."""
        for name, team in (("train-1", "a"), ("web", "b"), ("lab", "a")):
            phases = [pod["status"].get("phase") for pod in self.scene.pods(self.scene.teams[team], name).values()]
            assert {*phases} == {"Running"}, (name, phases)

    def drop_what_waits(self) -> None:
        """Jobs that wait would start once others end, which is no effect of a plan."""
        for namespace, name in [*self.keys()]:
            found = self.scene.pods(namespace, name).values()
            live = self.scene.api.get(self.keys()[namespace, name], name, namespace)
            wanted = live["spec"].get("replicas", live["spec"].get("completions")) if live else 0
            if live is None or len(found) < wanted or not all(pod["spec"].get("nodeName") for pod in found):
                self.run(job.MODULE, state="absent", name=name, namespace=namespace, wait=True, force=True)
                del self.scene.manifests[name]
        self.scene.write()


def _ignore(_value: Any) -> None:
    pass


@pytest.fixture
def edited(scene: Scene, recorder: Recorder, request: pytest.FixtureRequest) -> Edited:
    found = Edited(scene, recorder, request.param)
    found.declare()
    found.provision()
    settles(found.settled, SECONDS)
    return found


# 6: a rolling update preempts while its old pod ends. 5, 8 and 9: jobs, and one that is preempted, compete for a quota.
# 11, 13: a rolling update with room for some of its pods, and a service that shrinks beside it.
NIGHTLY = (4, 5, 6, 8, 9, 11, 13)
SEEDS = [1, *(pytest.param(seed, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]) for seed in NIGHTLY)]


@pytest.mark.parametrize("edited", SEEDS, indirect=True, ids=lambda seed: f"seed {seed}")
def test_random_edits_alone_and_in_groups_are_as_predicted(edited: Edited, request: pytest.FixtureRequest) -> None:
    edits = EDITS if request.node.get_closest_marker("nightly") else EDITS // 6
    done = 0
    while done < edits:
        number = min(1 if done < edits // 2 else edited.choose.randint(2, 6), edits - done)
        for _each in range(number):
            edited.edit()
        done += number
        edited.scene.write()
        edited.age()
        as_predicted(edited)
        edited.drop_what_waits()
        settles(edited.settled, SECONDS)
        assert edited.plan()["results"] == []


def test_a_rolling_update_on_a_full_node_preempts_while_its_old_pod_ends(scene: Scene, recorder: Recorder) -> None:
    edited, gpus = on_one_node(scene, recorder)
    scene.job(compute("web", service={"replicas": 1}), gpu=1)
    scene.job(training("low", job={"priority": "low"}), gpu=gpus - 1)
    begun(edited)
    scene.change("web", "environment", env={"ROUND": "2"})
    scene.write()
    (row,) = edited.plan()["results"]
    assert (row["verdict"], row["preempts"]) == ("after_preemption", [f"{scene.teams['a']}/low"])
    as_predicted(edited)


def test_a_service_that_shrinks_leaves_its_room_to_what_the_plan_starts(scene: Scene, recorder: Recorder) -> None:
    edited, gpus = on_one_node(scene, recorder)
    scene.job(compute("web", service={"replicas": 3}), gpu=1)
    scene.job(training("rest"), gpu=gpus - 3)
    begun(edited)
    scene.change("web", "service", replicas=1)
    scene.job(training("new"), gpu=2)
    scene.write()
    rows = {row["name"]: row for row in edited.plan()["results"]}
    assert (rows["new"]["verdict"], rows["new"]["gpus_after"]) == ("now", 2)
    as_predicted(edited)


def test_a_rolling_update_to_more_pods_than_find_room_stops_half_way(scene: Scene, recorder: Recorder) -> None:
    edited, gpus = on_one_node(scene, recorder)
    scene.job(compute("web", service={"replicas": 1}), gpu=1)
    scene.job(training("rest"), gpu=gpus - 1)
    begun(edited)
    scene.change("web", "service", replicas=3)
    scene.change("web", "environment", env={"ROUND": "2"})
    scene.write()
    (row,) = edited.plan()["results"]
    assert (row["pods_after"], row["pods_ending"], row["gpus_after"]) == (3, 0, 1)
    assert "Until then, one of its former pods serves on." in row["reason"]
    as_predicted(edited)


def test_of_jobs_that_want_the_last_gpu_either_may_get_it(scene: Scene, recorder: Recorder) -> None:
    """The training's pod comes from its Job, the service's from a ReplicaSet of its Deployment, in whatever order."""
    edited, gpus = on_one_node(scene, recorder)
    scene.job(training("rest"), gpu=gpus - 1)
    begun(edited)
    scene.job(compute("web", service={"replicas": 1}), gpu=1)
    scene.job(training("new"), gpu=1)
    scene.write()
    team = scene.teams["a"]
    texts = {
        name: f"Job {team}/{other} of this task needs its room too, and {CREATED_FIRST}."
        for name, other in (("new", "web"), ("web", "new"))
    }
    screen = scene.run("plan", dir="cluster", output="plan.html", force=True)
    page = (edited.scene.ansible.directory / "plan.html").read_text()
    for found in (screen.output, page):
        assert all(text in " ".join(found.split()) for text in texts.values()), found
    rows = {row["name"]: row for row in edited.plan()["results"]}
    assert {name: row["reason"].endswith(texts[name]) for name, row in rows.items()} == {"new": True, "web": True}
    assert sum(row["gpus_after"] for row in rows.values()) == 1
    as_predicted(edited)
    held = scene.held()["namespace"]
    assert held == {team: gpus}


def test_of_jobs_that_want_the_last_gpu_the_more_important_one_gets_it(scene: Scene, recorder: Recorder) -> None:
    edited, gpus = on_one_node(scene, recorder)
    scene.job(training("rest", job={"priority": "high"}), gpu=gpus - 1)
    begun(edited)
    scene.job(compute("web", service={"replicas": 1}), gpu=1)
    scene.job(training("new", job={"priority": "high"}), gpu=1)
    scene.write()
    rows = {row["name"]: row for row in edited.plan()["results"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {"new": "now", "web": "after_jobs"}
    assert not any(CREATED_FIRST in (row["reason"] or "") for row in rows.values())
    as_predicted(edited)


def on_one_node(scene: Scene, recorder: Recorder) -> tuple[Edited, int]:
    """A pool of one node, with quota for twice its GPUs, and how many these are."""
    gpus = int(scene.api.get("node", scene.field.nodes[0])["status"]["allocatable"][GPU])
    scene.pool("a", 0)
    scene.quota(a={"gpu": 2 * gpus})
    return Edited(scene, recorder, 1), gpus


def begun(edited: Edited) -> None:
    edited.scene.write()
    edited.provision()
    settles(edited.settled, SECONDS)
    edited.age()


def as_predicted(edited: Edited) -> None:
    """Plan, apply, and compare."""
    began = time.time()
    plan = edited.plan()
    before = edited.pods()  # A kubelet may have written the conditions again.
    assert plan["problems"] == []
    rows = {(row["namespace"], row["name"]): row for row in plan["results"] if row["kind"] in WORKLOADS}
    was = {key: edited.scene.api.get(WORKLOADS[row["kind"]], key[1], key[0]) for key, row in rows.items()}
    edited.provision()
    elapsed = (time.time() - began) / 3600

    changed = {f"{place}/{name}" for place, name in rows}
    competing = " ".join(row["reason"] for row in rows.values() if CREATED_FIRST in (row["reason"] or ""))
    contested = [  # What no node takes does not say so: it is named by the others.
        row
        for key, row in rows.items()
        if row["verdict"] == "unknown"
        or CREATED_FIRST in (row["reason"] or "")
        or re.search(rf"{'/'.join(key)}\b", competing)
    ]
    preempted = {name for row in rows.values() for name in row["preempts"]}
    certain = {name for row in rows.values() if row not in contested for name in row["preempts"]}

    def check() -> None:
        for key, row in rows.items():
            pods = before.get(key) or {}
            if "/".join(key) in preempted:  # Its row is about its own change, and names who takes more of its pods.
                assert "It is preempted by" in row["note"], row
                gone = pods.keys() - edited.scene.pods(*key).keys()
                assert len(gone) >= max("/".join(key) in certain, row["pods_ending"]), row
                continue
            if (
                row in contested
            ):  # Its number of pods, or of those that run, is up to the order in which they are created.
                assert edited.scene.workload(row), row
                continue
            assert_job(edited.scene, row, was[key], pods)
            assert_hours(edited, row, pods, elapsed)
        gone, named = evicted(edited, before, rows), preempted - changed
        found, most = Counter(edited.alike(gone)), Counter(edited.alike(named))
        as_said = Counter(edited.alike(certain - changed)) <= found <= most
        assert as_said or is_tie(before, named - gone, gone - named), (found, gone)
        # Which pod of a Deployment ends when it gets fewer, and so on which node, is up to its controller.
        fewer = any(row["pods_ending"] and not row["restarts"] and row["pods_after"] for row in rows.values())
        if not fewer and not contested and not any(row["preempts"] for row in rows.values()):
            assert_capacity(edited.scene, plan)

    try:
        settles(check, SECONDS)
    except AssertionError as error:
        error.add_note(yaml.safe_dump({name: plan[name] for name in ("results", "pools", "teams", "quotas", "nodes")}))
        raise


def assert_hours(edited: Edited, row: Row, pods: Mapping[str, Row], elapsed: float) -> None:
    """The work of a training or a notebook that has ended: what its longest pod had, and what its GPUs had."""
    gone = pods.keys() - edited.scene.pods(row["namespace"], row["name"]).keys()
    lost = {uid: hours_of(pods[uid]) for uid in gone if row["kind"] in ("training", "notebook")}
    exact = 0.02 + elapsed + SECONDS / 3600  # rounded, and counted until now
    assert row["hours_lost"] == pytest.approx(max(lost.values(), default=0), abs=exact), row
    gpu_hours = sum(hours * gpus_of(pods[uid]) for uid, hours in lost.items())
    assert row["gpu_hours_lost"] == pytest.approx(gpu_hours, abs=exact * 8), row


def hours_of(pod: Row) -> float:
    """Since when a pod has had its node."""
    (since,) = [one["lastTransitionTime"] for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
    return (datetime.now(timezone.utc) - datetime.fromisoformat(since)).total_seconds() / 3600


def evicted(edited: Edited, before: Mapping[JobKey, Mapping[str, Row]], rows: Mapping[JobKey, Row]) -> set[str]:
    """Jobs that the plan does not touch and that have lost a pod."""
    left = {key: pods for key, pods in before.items() if key not in rows}
    return {
        f"{place}/{name}" for (place, name), pods in left.items() if pods.keys() - edited.scene.pods(place, name).keys()
    }


def is_tie(before: Mapping[JobKey, Mapping[str, Row]], spared: set[str], instead: set[str]) -> bool:
    """Whether the scheduler spared one that the plan named, and took another that it ranks alike (MoreImportantPod).

    Pods of one priority that started in the same second have no order: it spares the first that it can, and so takes
    one large pod, or two small ones."""
    of_spared, of_others = (
        [
            (-pod["spec"]["priority"], pod["status"].get("startTime", ""))
            for key, pods in before.items()
            for pod in pods.values()
            if "/".join(key) in names
        ]
        for names in (spared, instead)
    )
    return bool(of_spared and of_others) and min(of_spared) == min(of_others)


@pytest.mark.parametrize(
    ("spared", "instead", "expected"),
    [
        ({"a/two"}, {"a/one", "a/later"}, True),  # seen with 1.36
        ({"a/one", "a/later"}, {"a/two"}, True),
        ({"a/later"}, {"a/two"}, False),
        ({"a/two"}, {"a/later"}, False),
        ({"a/two"}, {"a/low"}, False),
        ({"a/two"}, set(), False),
        (set(), {"a/one"}, False),
    ],
)
def test_only_pods_of_a_priority_and_second_are_a_tie(spared: set[str], instead: set[str], expected: bool) -> None:
    started = {"one": (500, 58), "two": (500, 58), "later": (500, 59), "low": (100, 58)}
    before = {
        ("a", name): {name: {"spec": {"priority": priority}, "status": {"startTime": f"2026-11-28T18:58:{second}Z"}}}
        for name, (priority, second) in started.items()
    }
    assert is_tie(before, spared, instead) is expected


# -- interrupted -------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_plan_that_is_killed_after_a_write_is_finished_by_the_same_plan(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """Everything of the run stops with the write, also what runs beside it; only that write has reached the server."""
    edited = Edited(scene, recorder, 1)
    edited.declare()
    edited.provision()
    left = [0]  # writes until it is killed
    request = Transport.request

    def until_killed(self: Transport, method: str, path: str, *rest: Any, **options: Any) -> Any:
        if left[0] < 0:
            raise Killed
        answer = request(self, method, path, *rest, **options)
        query = options.get("query") or (rest[1] if len(rest) > 1 else None) or {}
        if method != "GET" and not query.get("dryRun") and "authorization.k8s.io" not in path:
            left[0] -= 1
            if left[0] <= 0:
                left[0] = -1
                raise Killed
        return answer

    killed = 0
    for step in range(1, 100, stride):
        for name in ("train-1", "web", "lab"):
            scene.change(name, "environment", env={"ROUND": str(step)})
        scene.job(training(f"new-{step}"))
        scene.quota(a={"gpu": 12 + step % 2}, b={"gpu": 12})
        scene.pool("a", *((0, 2) if step % 2 else (0,)))
        scene.pool("c", *(() if step % 2 else (2,)))
        scene.write()
        settles(edited.started, SECONDS)
        plan = edited.plan()
        assert plan["problems"] == []
        left[0] = step
        monkeypatch.setattr(Transport, "request", until_killed)
        try:
            edited.provision()
        except Killed:
            killed += 1
        monkeypatch.setattr(Transport, "request", request)
        assert edited.plan(plan=plan)["msg"], step  # It is neither refused nor another one.
        edited.provision()
        assert edited.plan()["results"] == [], step
        assert edited.plan(plan=plan)["msg"].endswith("Nothing to change."), step
        if killed * stride < step:
            break
    assert killed * stride > 10


# -- interference ------------------------------------------------------------------------------------------------------


def _patched(kind: str, name: str, body: Row, team: str = "b") -> Callable[[Edited], Any]:
    return lambda edited: edited.scene.api.patch(kind, name, body, edited.scene.teams[team])


def _template(**container: Any) -> Row:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}


def _quota(edited: Edited) -> None:
    name = f"{edited.scene.field.prefix}-teams-{edited.scene.teams['a']}"
    body = {"spec": {"hard": {f"requests.{GPU}": "3"}}}
    edited.scene.api.patch("resourcequota", name, body, edited.scene.teams["a"])


def _end_training(edited: Edited) -> None:
    ended(edited.scene.api, edited.scene.teams["a"], "train-1")
    job = ("job", "train-1", edited.scene.teams["a"])
    eventually(lambda: edited.scene.api.get(*job)["status"].get("succeeded"))


def _submit_new(edited: Edited, **blocks: Row) -> None:
    manifest = {**edited.scene.manifests["new"], **blocks}
    assert not edited.run(job.MODULE, definition=manifest).get("failed")


def _stranger(edited: Edited) -> None:
    manifest = {**edited.scene.manifests["new"], "job": {"name": "mine", "namespace": edited.scene.teams["b"]}}
    assert not edited.run(job.MODULE, definition=manifest).get("failed")


def _delete_pod(edited: Edited) -> None:
    team = edited.scene.teams["b"]
    edited.scene.api.delete("pod", edited.scene.api.list("pod", team, "app=web")[0]["metadata"]["name"], team)


# What others do between plan and provision, and what the plan is refused for; None: it holds.
INTERFERENCE: dict[str, tuple[Callable[[Edited], Any], str | None]] = {
    "an annotation": (_patched("deployment", "web", {"metadata": {"annotations": {"example.com/by": "x"}}}), None),
    "a label of others": (_patched("deployment", "gpu-web", {"metadata": {"labels": {"example.com/by": "x"}}}), None),
    "a pod is deleted": (_delete_pod, None),
    "a job that nobody declares": (_stranger, None),
    "the new job is there already": (_submit_new, None),
    "the new job is there with another image": (
        lambda edited: _submit_new(edited, environment={"image": "other:1", "command": ["run"]}), "Job",
    ),
    "the job was scaled": (_patched("deployment", "web", {"spec": {"replicas": 4}}), "Deployment"),
    "the job got another image": (_patched("deployment", "web", _template(image="other:1")), "Deployment"),
    "the job got a variable": (
        _patched("deployment", "web", _template(env=[{"name": "ROUND", "value": "7"}])), "Deployment",
    ),
    "the job is gone": (
        lambda edited: edited.scene.api.delete("deployment", "web", edited.scene.teams["b"]), "Deployment",
    ),
    "another declared job is gone": (
        lambda edited: edited.scene.api.delete("deployment", "gpu-web", edited.scene.teams["b"]),
        "a change is needed now as well",
    ),
    "another declared job was changed": (
        _patched("deployment", "gpu-web", _template(image="other:1")), "a change is needed now as well",
    ),
    "the quota was changed": (_quota, "ResourceQuota"),
    "the node is in another pool": (
        lambda edited: edited.scene.field.set_labels(edited.scene.field.nodes[2], {POOL: edited.scene.field.pool("b")}),
        "Node",
    ),
    "the training to replace has ended": (_end_training, "no running work would be stopped any more"),
    "the manifests were changed": (
        lambda edited: edited.scene.manifests["web"]["job"].update(description="more") or edited.scene.write(),
        "manifests are no longer those",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", INTERFERENCE)
def test_what_others_do_meanwhile_is_judged(scene: Scene, recorder: Recorder, kind: str) -> None:
    edited = Edited(scene, recorder, 1)
    edited.declare()
    edited.provision()
    settles(edited.settled, SECONDS)
    for name in ("train-1", "web"):
        scene.change(name, "environment", env={"ROUND": "2"})
    scene.job(training("new"), team="b")
    scene.quota(a={"gpu": 13}, b={"gpu": 12})
    scene.pool("a", 0, 2)
    scene.pool("c")
    scene.write()
    edited.age()
    plan = edited.plan()
    assert plan["problems"] == []
    do, refused = INTERFERENCE[kind]
    do(edited)
    recorder.clear()
    src = [str(scene.directory)]
    found = edited.run(plan_info.MODULE, src=src, recreate=True, force=True, plan=plan)
    assert recorder.writes == []
    assert bool(found.get("failed")) is bool(refused), found["msg"]
    assert not refused or refused in found["msg"], found["msg"]
    assert not refused or "Nothing was changed." in found["msg"]
    assert len(INTERFERENCE) >= 15
