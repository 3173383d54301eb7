# SPDX-License-Identifier: BSD-2-Clause
"""Saved plans: who can write the file, but does not have the key of the controller; and what happens after a plan was
saved. It is interrupted at any write and finished, applied twice at once, or by another user; others write meanwhile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from chaos.snapshot import Snapshot, differences
from integration.api import Api, eventually
from integration.manifests import compute, inference, training
from kubesim import Cluster

from .hostile import Visitor, forward, hostile, run

KEY = "0123456789abcdef-plan-key"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1).running() as cluster:
        yield cluster


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "train.yaml").write_text(json.dumps(training()))
    return tmp_path


def planned(cluster: Cluster, directory: Path, **options: Any) -> dict[str, Any]:
    given = {"src": [str(directory / "cluster")], "namespace": "default", "request_timeout": 20, **options}
    return run("insight.plan.plan_info", cluster.url, api_key=cluster.token, **given).result


def test_a_changed_plan_is_refused(cluster: Cluster, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCTL_PLAN_KEY", KEY)
    made = planned(cluster, directory)
    assert KEY not in json.dumps(made)
    file = directory / "plan.json"
    file.write_text(json.dumps(made))
    assert not planned(cluster, directory, plan=str(file)).get("failed")
    shown = {**made["plan"], "summary": "what a workflow adds"}
    assert not planned(cluster, directory, plan=shown).get("failed"), "only what decides is signed"

    plan = made["plan"]
    for changed in (
        {**plan, "options": {**plan["options"], "force": True}},
        {**plan, "cluster": ""},
        {**plan, "manifests": "0" * 64},
        {**plan, "signature": "0" * 64},
        {**plan, "signature": "\u00e9"},
    ):
        refused = planned(cluster, directory, plan=changed)
        assert "changed since it was made, or signed with another GPUCTL_PLAN_KEY" in refused["msg"]
    unsigned = {name: value for name, value in plan.items() if name != "signature"}
    for without in (unsigned, {**plan, "signature": None}):
        assert "not signed, although GPUCTL_PLAN_KEY is set" in planned(cluster, directory, plan=without)["msg"]
    monkeypatch.setenv("GPUCTL_PLAN_KEY", KEY[::-1])
    assert "signed with another GPUCTL_PLAN_KEY" in planned(cluster, directory, plan=plan)["msg"]


def test_without_a_key_plans_are_as_they_were(
    cluster: Cluster, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUCTL_PLAN_KEY", raising=False)
    made = planned(cluster, directory)
    assert "signature" not in made["plan"]
    assert not planned(cluster, directory, plan=made["plan"]).get("failed")
    monkeypatch.setenv("GPUCTL_PLAN_KEY", "short")
    assert "GPUCTL_PLAN_KEY: too short" in planned(cluster, directory)["msg"]


# -- what happens after a plan was saved -------------------------------------------------------------------------------

TEAM = "team"
V2 = {"image": "registry.example.com/ml:v2"}
TASKS = ("pools.pool", "quotas.quota", "jobs.job")  # what the playbook provision runs, in that order


def quota_manifest(gpus: int) -> dict[str, Any]:
    return {"kind": "quota", "quota": {"name": "q"}, "users": {TEAM: {"gpu": gpus}}}


def small(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "resources": {**manifest["resources"], "gpu": 0, "cpu": 1, "memory": "1Gi"}}


BEFORE = [
    {"kind": "pool", "pool": {"name": "p"}, "nodes": {"node-1": {}}},
    quota_manifest(4),
    small(training(distributed={"backend": "deepspeed", "deepspeed": "zero2"})),
    small(inference()),
    small(compute("web", service={"port": 8080})),
]
AFTER = [
    {"kind": "pool", "pool": {"name": "p", "description": "more"}, "nodes": {"node-1": {}, "node-2": {}}},
    quota_manifest(5),
    small(training(distributed={"backend": "deepspeed", "deepspeed": "zero2"}, environment=V2)),
    small(inference(environment={**inference()["environment"], **V2}, service={"replicas": 2})),
    small(compute("web")),  # loses its Service
    small(compute("new", service={"port": 8080})),
]


class World:
    """A cluster in which BEFORE is applied, a directory that declares AFTER, and the plan from one to the other."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.options: dict[str, Any] = {}
        cluster.kubeconfig(directory / "kubeconfig")
        self.api = Api(str(directory / "kubeconfig"))
        (directory / "cluster").mkdir(exist_ok=True)
        self.declare(BEFORE)
        for result in self.apply(None):
            assert not result.get("failed"), result["msg"]
        self.declare(AFTER)
        self.plan = self.ask("insight.plan.plan_info")["plan"]
        json.dumps(self.plan)

    def declare(self, manifests: list[dict[str, Any]]) -> None:
        (self.directory / "cluster" / "all.yaml").write_text("\n---\n".join(map(json.dumps, manifests)))

    def ask(self, place: str, url: str = "", **options: Any) -> dict[str, Any]:
        given = {"src": [str(self.directory / "cluster")], "request_timeout": 20, "retries": 0, **options}
        if place in ("insight.plan.plan_info", "jobs.job"):
            given |= {"namespace": TEAM, "recreate": True, **self.options}
        return run(place, url or self.cluster.url, api_key=self.cluster.token, **given).result

    def apply(self, plan: dict[str, Any] | None, url: str = "") -> list[dict[str, Any]]:
        """What the playbook provision does, until a task fails."""
        results = []
        for place in (*(["insight.plan.plan_info"] if plan else []), *TASKS):
            results.append(self.ask(place, url, **({"plan": plan} if "plan" in place else {})))
            if results[-1].get("failed"):
                break
        return results

    def state(self) -> dict[str, str]:
        found = [
            obj
            for obj in self.cluster.objects()
            if obj["metadata"].get("namespace") == TEAM or obj["kind"] == "Node" or obj["metadata"]["name"] == "pool-p"
        ]
        return {key: text for key, text in Snapshot.of(found).contents.items() if not key.startswith("Secret ")}

    def becomes(self, wanted: dict[str, str]) -> None:
        """Wait until the state is as wanted, but for who has submitted the jobs."""
        try:
            eventually(lambda: not differences(_anonymous(wanted), _anonymous(self.state())), 20)
        except AssertionError:
            raise AssertionError(differences(_anonymous(wanted), _anonymous(self.state()))) from None


def _anonymous(state: dict[str, str]) -> dict[str, str]:
    return {key: re.sub(r'"runwhere.ai/submitted-by": "(\\.|[^"\\])*"', '""', text) for key, text in state.items()}


class Break:
    """A server between a task and the cluster that is gone from write number ``at`` on, before or after it is made."""

    def __init__(self, cluster: Cluster, at: int, *, after: bool) -> None:
        self._cluster, self._at, self._after = cluster, at, after
        self._lock, self.writes = Lock(), 0

    def __call__(self, visitor: Visitor) -> None:
        writes = visitor.method != "GET" and "dryRun" not in visitor.path and "reviews" not in visitor.path
        with self._lock:
            self.writes += writes
            number = self.writes
        if number > self._at or (number == self._at and not self._after):
            return  # Nothing is answered any more: the connection is closed.
        status, body = forward(visitor, self._cluster.url, self._cluster.token)
        if number < self._at:
            visitor.answer(body, f"{status} Status")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Cluster(nodes=2).running() as cluster:
        yield World(cluster, tmp_path)


def assert_well(results: list[dict[str, Any]]) -> None:
    assert [result["msg"] for result in results if result.get("failed")] == []


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The state that the plan leaves without any interruption, and how many writes that takes."""
    with Cluster(nodes=2).running() as cluster:
        world = World(cluster, tmp_path_factory.mktemp("wanted"))
        counting = Break(cluster, 10_000, after=False)
        with hostile(counting) as server:
            assert_well(world.apply(world.plan, server.url))
        again = world.apply(world.plan)
        assert_well(again)
        assert [result["changed"] for result in again] == [False] * 4
        return {"state": world.state(), "writes": counting.writes}


EVERY = [pytest.param(1, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]), 9]


@pytest.mark.parametrize("step", EVERY, ids=["at every write", "at some writes"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_plan_interrupted_at_any_write_is_finished_by_itself(
    wanted: dict[str, Any], tmp_path: Path, step: int, after: bool
) -> None:
    """The server is gone from a write on; then the same plan is applied again, and a third time."""
    for at in range(1 + after, wanted["writes"] + 1, step):
        with Cluster(nodes=2).running() as cluster:
            world = World(cluster, tmp_path)
            with hostile(Break(cluster, at, after=after)) as server:
                interrupted = world.apply(world.plan, server.url)
            if not interrupted[-1].get("failed"):  # All that is missing is a record, as a warning says.
                assert re.search(r"history|ledger", str(interrupted[-1]["warnings"])), at
            again = world.apply(world.plan)
            assert_well(again)
            world.becomes(wanted["state"])
            third = world.apply(world.plan)
            assert_well(third)
            assert [result["changed"] for result in third] == [False] * 4, at
    assert "of the plan done before" in again[0]["msg"], "the last one has left little"


def test_a_plan_applied_twice_at_once_is_applied_once(world: World, wanted: dict[str, Any]) -> None:
    """Each of the two ends well, or names what another one has changed; the third finds nothing to do."""
    with ThreadPoolExecutor() as at_once:
        both = list(at_once.map(lambda _number: world.apply(world.plan), range(2)))
    said = [result["msg"] for results in both for result in results if result.get("failed")]
    assert len(said) < 2, said
    for text in said:
        assert "bug" not in text, text
        assert any(word in text for word in ("another", "changed", "conflict", "Lease", "out of date")), text
    assert_well(world.apply(world.plan))
    world.becomes(wanted["state"])
    third = world.apply(world.plan)
    assert_well(third)
    assert [result["changed"] for result in third] == [False] * 4


def test_a_plan_of_one_user_is_finished_by_another(
    world: World, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWX: one launches, another one relaunches after the failure. A job that the first one has changed is the first
    one's now, and is only changed if the plan was made with takeover."""
    world.plan = world.ask("insight.plan.plan_info", takeover=True)["plan"]
    world.options = {"takeover": True}
    monkeypatch.setenv("AWX_USER_NAME", "alice")
    monkeypatch.setenv("AWX_JOB_ID", "1")
    with hostile(Break(world.cluster, wanted["writes"] * 2 // 3, after=True)) as server:
        assert world.apply(world.plan, server.url)[-1].get("failed")
    monkeypatch.setenv("AWX_USER_NAME", "bob")
    monkeypatch.setenv("AWX_JOB_ID", "2")
    assert_well(world.apply(world.plan))
    world.becomes(wanted["state"])


IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.example.com/evil:1"}]}}}}


def of_another_image(world: World) -> str:
    world.api.patch("deployment", "serve", IMAGE, TEAM)
    return f"Deployment {TEAM}/serve"


def another_one(world: World) -> str:
    """A job of the same name takes the place of the one that the plan recreates."""
    theirs = world.api.get("job", "train", TEAM)
    world.api.delete("job", "train", TEAM)
    eventually(lambda: world.api.get("job", "train", TEAM) is None)
    meta = {key: theirs["metadata"].get(key) for key in ("name", "labels", "annotations")}
    template = theirs["spec"]["template"]
    template["metadata"]["labels"] = {"app": "train"}
    spec = {key: theirs["spec"][key] for key in ("parallelism", "completions", "completionMode")}
    world.api.create("job", {"metadata": meta, "spec": {**spec, "template": template}}, TEAM)
    return f"Job {TEAM}/train"


def gone(world: World) -> str:
    world.api.delete("deployment", "serve", TEAM)
    eventually(lambda: world.api.get("deployment", "serve", TEAM) is None)
    return f"Deployment {TEAM}/serve"


def there_already(world: World) -> str:
    """What the plan creates was created by somebody else, as something else."""
    labels = {"app": "new"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "evil"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    world.api.create("deployment", {"metadata": {"name": "new", "labels": labels}, "spec": spec}, TEAM)
    return f"{TEAM}/new"


def another_manifest(world: World) -> str:
    world.declare([*AFTER[:-1], small(compute("new", service={"port": 8080}, environment=V2))])
    return "The manifests are no longer those that the plan was made from."


TAMPERING = [of_another_image, another_one, gone, there_already, another_manifest]


@pytest.mark.parametrize("tamper", TAMPERING, ids=[each.__name__ for each in TAMPERING])
@pytest.mark.parametrize("at", [0.0, 0.35], ids=["not begun", "interrupted"])
def test_what_others_change_meanwhile_is_refused_before_any_write(
    world: World, wanted: dict[str, Any], tamper: Any, at: float
) -> None:
    if at:  # After the pool and the quota, before any job.
        with hostile(Break(world.cluster, int(wanted["writes"] * at), after=True)) as server:
            assert world.apply(world.plan, server.url)[-1].get("failed")
    named = tamper(world)
    counting = Break(world.cluster, 10_000, after=False)
    with hostile(counting) as server:
        results = world.apply(world.plan, server.url)
    assert results[-1].get("failed")
    assert len(results) == 1, "the check of the plan comes first"
    assert "Nothing was changed." in results[0]["msg"]
    assert named in results[0]["msg"], results[0]["msg"]
    assert counting.writes == 0


def test_what_no_step_depends_on_is_no_reason_to_refuse(world: World, wanted: dict[str, Any]) -> None:
    """Jobs of others, annotations of others, labels of nodes, and pods that come and go."""
    labels = {"app": "theirs"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "a"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    theirs = world.api.create("deployment", {"metadata": {"name": "theirs"}, "spec": spec}, TEAM)
    world.api.patch("deployment", "serve", {"metadata": {"annotations": {"example.com/by": "x"}}}, TEAM)
    world.api.patch("node", "node-1", {"metadata": {"labels": {"example.com/rack": "7"}}})
    for each in world.api.list("pod", TEAM, "app=serve"):
        world.api.delete("pod", each["metadata"]["name"], TEAM)
    assert_well(world.apply(world.plan))
    assert world.api.get("deployment", "theirs", TEAM)["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert world.api.get("node", "node-1")["metadata"]["labels"]["example.com/rack"] == "7"
    world.api.delete("deployment", "theirs", TEAM)


def test_a_forged_record_of_a_replacement_makes_nothing_that_was_not_planned(
    world: World, wanted: dict[str, Any]
) -> None:
    """A tenant deletes a training and writes into the history that a task was replacing it."""
    uid = world.api.get("job", "train", TEAM)["metadata"]["uid"]
    world.api.delete("job", "train", TEAM)
    eventually(lambda: world.api.get("job", "train", TEAM) is None)
    end = {"result": "Replaced", "finished_at": "2026-08-01T11:00:00Z", "seen": 1785585600}
    for head in [each for each in world.api.list("configmap", TEAM) if "gpuctl-history" in each["metadata"]["name"]]:
        world.api.patch("configmap", head["metadata"]["name"], {"data": {f"{uid}.end": json.dumps(end)}}, TEAM)
    results = world.apply(world.plan)
    if results[-1].get("failed"):
        assert (len(results), "Nothing was changed." in results[0]["msg"]) == (1, True)
    else:
        world.becomes(wanted["state"])
