# SPDX-License-Identifier: BSD-2-Clause
"""Two directories on one cluster: neither is shown, changes or deletes what the other one declares."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access import policy
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.drift import drift_info, restore
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan import plan_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import ADMISSION_POLICIES
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes import node_label
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import pool
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, run_task

from .api import PATHS, Api, eventually, require
from .manifests import compute, training
from .namespaces import remove_namespaces, unused_namespace
from .pools import SYSTEM, Field
from .pools import manifest as pool_manifest
from .recorder import Recorder

Row = dict[str, Any]
SOURCE = "runwhere.ai/source"
APPLY = "application/apply-patch+yaml"
WORDS = {"job": job.MODULE, "quota": quota.MODULE, "pool": pool.MODULE, "policy": policy.MODULE}


@dataclass
class Team:
    """A directory with its source, and the namespaces that it declares things in; jobs also in one that is shared."""

    source: str
    kubeconfig: Path
    directory: Path
    field: Field
    own: str
    shared: str
    files: dict[str, Row] = field(default_factory=dict)
    policies: dict[str, Row] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)  # of nodes
    applied: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def run(self, module: ModuleSpec[Any], *, check: bool = False, **options: Any) -> Row:
        """A task of a module, in this process."""
        environ: dict[str, str] = {}
        parameters = {"kubeconfig": str(self.kubeconfig), "request_timeout": 60}
        task = Task(
            module.options(**options), parameters, check, self.warnings.append, lambda _values: None, environ=environ
        )
        return run_task(task, module)

    def declare(self, file: str, manifest: Row) -> None:
        self.files[file] = manifest
        (self.directory / f"{file}.yaml").write_text(yaml.safe_dump(manifest))

    def remove(self, file: str) -> None:
        del self.files[file]
        (self.directory / f"{file}.yaml").unlink()

    def declare_policy(self, name: str, **team: Any) -> None:
        section = {"name": self.field.pool(name)}
        self.policies[name] = {
            "kind": "policy",
            "policy": section,
            "teams": {"own": {"namespaces": [self.own], **team}},
        }
        self.policy_file(name).write_text(yaml.safe_dump(self.policies[name]))

    def policy_file(self, name: str) -> Path:
        return self.directory.parent / f"{name}.yaml"

    @property
    def word(self) -> str:
        """How its things are named: one, other."""
        return self.source.partition("/")[2].partition("/")[0]

    @property
    def src(self) -> list[str]:
        return [str(self.directory)]

    @property
    def beside(self) -> Row:
        """What a directory does not have, and is compared with it."""
        return {"policies": [str(self.policy_file(name)) for name in self.policies], "node_labels": self.labels}

    def provision(self, *, check: bool = False, **options: Any) -> list[Row]:
        """As the playbook: pools, quotas, policies, labels of nodes, jobs."""
        own = {"source": self.source, **options}
        given = {"src": self.src, "allow_empty": True, **own}
        done = [self.run(module, check=check, **given) for module in (pool.MODULE, quota.MODULE)]
        done += [self.run(policy.MODULE, check=check, **{**own, "src": path}) for path in self.beside["policies"]]
        for node, labels in self.labels.items():
            done.append(self.run(node_label.MODULE, check=check, nodes=[node], labels=labels))
        return [*done, self.run(job.MODULE, check=check, **given)]

    def drift(self) -> Row:
        return self.run(drift_info.MODULE, src=self.src, source=self.source, **self.beside)

    def plan(self, **options: Any) -> Row:
        return self.run(plan_info.MODULE, src=self.src, source=self.source, **{**self.beside, **options})

    def prune(self) -> list[Row]:
        """As the playbook drift does with gpuctl_prune: what is listed, by name, for the source."""
        done = []
        for each in self.drift()["undeclared"]:
            where = {"namespace": each["namespace"]} if each["namespace"] else {}
            done.append(self.run(WORDS[each["kind"]], state="absent", name=each["name"], source=self.source, **where))
        return done

    def place(self, file: str) -> str:
        """How results name what a file declares."""
        manifest = self.files[file]
        kind = manifest["kind"] if manifest["kind"] in ("pool", "quota") else "job"
        name = manifest[kind]["name"]
        return f"job/{manifest['job']['namespace']}/{name}" if kind == "job" else f"{kind}/{name}"

    @property
    def declared(self) -> set[str]:
        policies = {f"policy/{each['policy']['name']}" for each in self.policies.values()}
        return {self.place(file) for file in self.files} | policies


@dataclass
class World:
    api: Api
    one: Team
    other: Team
    recorder: Recorder

    @property
    def teams(self) -> tuple[Team, Team]:
        return self.one, self.other

    def live(self) -> dict[str, str]:
        """What the teams have in the cluster, and the source of each."""
        found = {}
        for team in self.teams:
            for obj in self.api.list("resourcequota", team.own):
                found[f"quota/{obj['metadata']['labels']['runwhere.ai/quota']}"] = source_of(obj)
        for namespace in {team.own for team in self.teams} | {self.one.shared}:
            for kind in ("deployment", "job"):
                for obj in self.api.list(kind, namespace):
                    if "deletionTimestamp" not in obj["metadata"]:
                        found[f"job/{namespace}/{obj['metadata']['name']}"] = source_of(obj)
        for obj in self.api.list("configmap", SYSTEM):
            kind, _dash, name = obj["metadata"]["name"].partition("-")
            if name.startswith(self.one.field.prefix):
                found[f"{kind}/{name}"] = source_of(obj)
        return found


def source_of(obj: Row) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(SOURCE, ""))


def specs_and_pods(api: Api, namespace: str) -> tuple[list[Row], set[str]]:
    eventually(lambda: api.list("pod", namespace))
    specs = [obj["spec"] for obj in api.list("deployment", namespace)]
    return specs, {obj["metadata"]["uid"] for obj in api.list("pod", namespace)}


def succeeded(results: list[Row]) -> bool:
    failed = [result["msg"] for result in results if result.get("failed")]
    assert not failed, failed
    return any(result["changed"] for result in results)


@pytest.fixture(params=["one account", "two accounts"])
def world(
    request: pytest.FixtureRequest, api: Api, field: Field, recorder: Recorder, tmp_path: Path
) -> Iterator[World]:
    namespaces = [unused_namespace() for _each in range(3)]
    shared = namespaces[2]
    with ExitStack() as stack:
        kubeconfigs = [recorder.kubeconfig, recorder.kubeconfig]
        if request.param == "two accounts":
            kubeconfigs[1] = second_account(api, recorder, tmp_path, stack)
        teams = []
        for source, own, kubeconfig in zip(("one", "other"), namespaces, kubeconfigs, strict=False):
            (tmp_path / source / "cluster").mkdir(parents=True)
            teams.append(
                Team(
                    f"{field.prefix}.example.com/{source}//cluster",
                    kubeconfig,
                    tmp_path / source / "cluster",
                    field,
                    own,
                    shared,
                )
            )
        api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shared}})
        world = World(api, *teams, recorder)
        yield world
        for place in world.live():
            if place.startswith("policy/"):
                assert not world.one.run(policy.MODULE, state="absent", name=place.removeprefix("policy/")).get(
                    "failed"
                )
        remove_namespaces(api, *namespaces)


def second_account(api: Api, recorder: Recorder, tmp_path: Path, stack: ExitStack) -> Path:
    """The kubeconfig of another administrator."""
    place = unused_namespace()
    api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
    stack.callback(remove_namespaces, api, place)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "second", "namespace": place}}
    api.create("serviceaccount", account, place)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": place},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "second", "namespace": place}],
    }
    api.create("clusterrolebinding", binding)
    stack.callback(api.delete, "clusterrolebinding", place)
    path = PATHS["serviceaccount"].format(place)
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, answer = api.call("POST", f"{path}/second/token", wanted)
    assert status == 201, answer
    config = yaml.safe_load(recorder.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": answer["status"]["token"]}} for user in config["users"]]
    (tmp_path / "second").write_text(yaml.safe_dump(config))
    return tmp_path / "second"


def job_of(team: Team, name: str, *, shared: bool = False, **fields: Any) -> Row:
    return compute(name, job={"namespace": team.shared if shared else team.own}, **fields)


def quota_of(team: Team, name: str, cpu: int = 64) -> Row:
    return {"kind": "quota", "quota": {"name": name}, "users": {team.own: {"cpu": cpu}}}


def declare_all(world: World) -> None:
    """Everything of each kind: with jobs of both in one namespace."""
    for team in world.teams:
        name = team.source.partition("/")[2].partition("/")[0]
        team.declare("quota", quota_of(team, team.field.pool(f"q-{name}")))
        team.declare("pool", pool_manifest(team.field.pool(name), []))
        team.declare("job", job_of(team, "web"))
        team.declare("shared", job_of(team, f"web-{name}", shared=True))


def test_neither_is_shown_or_loses_what_the_other_declares(world: World) -> None:
    declare_all(world)
    for team in world.teams:
        assert succeeded(team.provision())
    assert world.live() == {place: team.source for team in world.teams for place in team.declared}
    for team in world.teams:
        assert not succeeded(team.provision())
        found, plan = team.drift(), team.plan()
        assert (found["undeclared"], found["problems"]) == ([], []), found
        assert [row for row in found["results"] if row["level"] != "info"] == []
        assert (plan["not_declared"], plan["results"], plan["unmarked"]) == ([], [], 0), plan
    world.one.declare("kept", job_of(world.one, "kept"))  # A directory without any manifest is an error.
    for file in ("quota", "pool", "job", "shared"):
        world.one.remove(file)
    gone = {place for place, source in world.live().items() if source == world.one.source}
    assert {each["id"] for each in world.one.drift()["undeclared"]} == gone
    assert len(world.one.plan()["not_declared"]) == len(gone) == 4
    assert world.other.drift()["undeclared"] == []
    assert succeeded(world.one.prune())
    assert world.live() == dict.fromkeys(world.other.declared, world.other.source)
    assert world.one.prune() == []


@pytest.fixture
def guarded(world: World) -> World:
    """Each team has a policy and labels nodes, also one that the other one labels."""
    require(world.api, ADMISSION_POLICIES)
    world.recorder.identity = world.api  # Policies are written by cluster administrators.
    nodes = world.one.field.nodes
    if len(nodes) < 2:
        pytest.skip("two nodes without labels are needed")
    for number, team in enumerate(world.teams):
        team.declare("job", job_of(team, "web"))
        team.declare("quota", quota_of(team, team.field.pool(f"q-{team.word}")))
        team.declare("pool", pool_manifest(team.field.pool(team.word), []))
        team.declare_policy(team.word, max_gpus_per_job=8, network={"internet": True})
        team.labels = {
            nodes[0]: {f"by-{team.word}": "1"},
            nodes[number]: {f"by-{team.word}": "1", "rack": f"r{number}"},
        }
    return world


def labels_of(world: World) -> list[dict[str, str]]:
    return [world.one.field.labels(node) for node in world.one.field.nodes[:2]]


def test_policies_and_labels_of_nodes_are_those_of_a_directory_too(guarded: World) -> None:
    one, other = guarded.teams
    for team in guarded.teams:
        assert succeeded(team.provision())
    assert guarded.live() == {place: team.source for team in guarded.teams for place in team.declared}
    labelled = labels_of(guarded)
    for team in guarded.teams:
        assert not succeeded(team.provision())
        found, plan = team.drift(), team.plan()
        assert (found["undeclared"], found["problems"]) == ([], []), found
        assert [row for row in found["results"] if row["level"] != "info"] == []
        assert (plan["not_declared"], plan["results"], plan["unmarked"]) == ([], [], 0), plan
    # A policy that goes from a directory is listed there only, and deleted from there only. A label is neither.
    one.policies.clear()
    one.labels = {}
    (listed,) = one.drift()["undeclared"]
    assert (listed["kind"], listed["name"]) == ("policy", one.field.pool("one"))
    assert other.drift()["undeclared"] == []
    assert [row for row in one.drift()["results"] if row["id"].startswith("Node/")] == []
    name = {"state": "absent", "name": one.field.pool("one")}
    kept = other.run(policy.MODULE, **name, source=other.source)
    assert kept["failed"]
    assert f"declared by {one.source}, and this is {other.source}" in kept["msg"]
    assert succeeded(one.prune())
    assert guarded.live() == {place: team.source for team in guarded.teams for place in team.declared}
    assert labels_of(guarded) == labelled


def test_a_policy_of_another_source_is_taken_over_by_name_and_then_deleted_there(guarded: World) -> None:
    one, other = guarded.teams
    assert succeeded(one.provision())
    other.policies = {}
    other.declare_policy("one", max_gpus_per_job=4)
    guarded.recorder.clear()
    refused = other.run(policy.MODULE, src=str(other.policy_file("one")), source=other.source)
    assert f"policy {one.field.pool('one')}: declared by {one.source}, and this is {other.source}" in refused["msg"]
    assert guarded.recorder.writes == []
    problems = [each["problem"] for each in other.plan()["problems"] if each["kind"] == "policy"]
    assert [f"O(adopt={one.source})" in text or f"adopt={one.source}" in text for text in problems] == [True]
    adopted = {"source": other.source, "adopt": [one.source]}
    assert succeeded([other.run(policy.MODULE, src=str(other.policy_file("one")), **adopted)])
    assert guarded.live()[f"policy/{one.field.pool('one')}"] == other.source
    back = {"source": one.source, "adopt": [other.source]}
    assert succeeded([one.run(policy.MODULE, state="absent", name=one.field.pool("one"), **back)])


def test_a_team_cannot_say_whose_a_policy_is(guarded: World) -> None:
    """A ConfigMap in its own namespace, with the labels and the annotation of one that has rules."""
    one, other = guarded.teams
    assert succeeded(one.provision())
    name = one.field.pool("one")
    (real,) = [obj for obj in guarded.api.list("configmap", SYSTEM) if obj["metadata"]["name"] == f"policy-{name}"]
    metadata = {"name": f"policy-{name}", "namespace": one.own, "labels": real["metadata"]["labels"]}
    forged = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "annotations": {SOURCE: other.source}}}
    path = f"{PATHS['configmap'].format(one.own)}/policy-{name}?fieldManager=runwhere.gpuctl&force=true"
    status, answer = guarded.api.call("PATCH", path, forged, APPLY)
    assert status == 201, answer
    assert other.drift()["undeclared"] == []
    assert not one.run(policy.MODULE, src=str(one.policy_file("one")), source=one.source).get("failed")
    assert guarded.live()[f"policy/{name}"] == one.source


def test_a_label_that_another_directory_has_set_is_a_conflict_and_stays(guarded: World) -> None:
    one, other = guarded.teams
    assert succeeded(one.provision())
    node = one.field.nodes[0]
    other.labels = {node: {"rack": "r9"}}
    refused = other.run(node_label.MODULE, nodes=[node], labels=other.labels[node])
    assert f"{node} already has runwhere.ai/rack=r0. Use" in refused["msg"]
    assert [each["name"] for each in other.plan()["problems"]] == [node]
    # What differs is shown to the directory that declares it, with its own value, and to no other one.
    (row,) = [row for row in other.drift()["results"] if row["id"].startswith("Node/")]
    assert (row["field"], row["declared"], row["live"]) == ("metadata.labels[runwhere.ai/rack]", "r9", "r0")
    assert [row for row in one.drift()["results"] if row["level"] != "info"] == []


def test_the_pool_label_of_another_directory_is_not_shown_and_not_removed(guarded: World) -> None:
    """Of a pool that it declares as a label, without a manifest."""
    one, other = guarded.teams
    node = one.field.nodes[1]
    other.labels = {node: {"pool": other.field.pool("labelled")}}
    for team in guarded.teams:
        assert succeeded(team.provision())
    assert [row for row in one.drift()["results"] if row["id"].startswith("Node/")] == []
    label = f"Node/{node}:metadata.labels[runwhere.ai/pool]"
    assert not one.run(restore.MODULE, src=one.src, source=one.source, restore=[label])["changed"]
    assert one.field.pool_of(node) == other.field.pool("labelled")


def test_what_both_declare_is_a_conflict_that_names_both_and_is_taken_over_by_name(world: World) -> None:
    declare_all(world)
    one, other = world.teams
    assert succeeded(one.provision())
    before = world.live()
    for file, manifest in one.files.items():
        other.declare(file, manifest)
    world.recorder.clear()
    for result in other.provision():
        assert result["failed"]
        assert f"declared by {one.source}, and this is {other.source}" in result["msg"]
        assert f"adopt={one.source}" in result["msg"]
    assert world.live() == before
    assert world.recorder.writes == []
    planned = other.plan()
    assert sorted(each["kind"] for each in planned["problems"]) == ["compute", "compute", "pool", "quota"]
    assert [row for row in planned["results"] if not row["problem"]] == []
    # A source that declares none of it takes nothing over.
    assert all(result["failed"] for result in other.provision(adopt=["somebody"]))
    adopting = other.plan(adopt=[one.source])
    assert adopting["problems"] == []
    assert len(adopting["results"]) == 4
    assert all(f"metadata.annotations[{SOURCE}]" in str(row["resources"]) for row in adopting["results"]), adopting
    uids = {obj["metadata"]["uid"] for obj in world.api.list("pod", one.own)}
    assert succeeded(other.provision(adopt=[one.source]))
    assert set(world.live().values()) == {other.source}
    assert {obj["metadata"]["uid"] for obj in world.api.list("pod", one.own)} == uids
    assert not succeeded(other.provision())
    # The former owner is told of it by an error, and does not restore it.
    assert all(result["failed"] for result in one.provision())
    assert one.drift()["undeclared"] == []


def test_what_no_source_declares_is_never_listed_and_gets_one_where_it_is_declared(world: World) -> None:
    declare_all(world)
    one, other = world.teams
    assert succeeded(one.provision(source=None))
    assert set(world.live().values()) == {""}
    before = specs_and_pods(world.api, one.own)
    assert (one.drift()["undeclared"], one.drift()["unmarked"], one.drift()["passed"]) == ([], 4, True)
    assert "4 manifests record no source yet" in one.drift()["msg"]
    plan = one.plan()
    assert (plan["results"], plan["unmarked"]) == ([], 4), plan
    assert other.drift()["undeclared"] == []
    results = one.provision()
    assert {row["action"] for result in results for row in result["results"]} == {"annotate"}
    world.recorder.clear()
    assert not succeeded(one.provision())
    assert world.recorder.writes == []
    assert set(world.live().values()) == {one.source}
    assert specs_and_pods(world.api, one.own) == before
    # A task without a source leaves it as it is, whatever it changes.
    (manifest,) = [each for file, each in one.files.items() if file == "job"]
    changed = {**manifest, "job": {**manifest["job"], "description": "another one"}}
    assert succeeded([one.run(job.MODULE, definition=changed)])
    assert succeeded([one.run(pool.MODULE, name=one.field.pool("one"), description="another one")])
    assert succeeded([one.run(quota.MODULE, definition=quota_of(one, one.field.pool("q-one"), cpu=32))])
    assert set(world.live().values()) == {one.source}


def test_a_tenant_who_writes_a_source_makes_nothing_of_others_seem_undeclared(world: World) -> None:
    declare_all(world)
    one, other = world.teams
    assert succeeded(one.provision())
    assert succeeded(other.provision())
    # An object that says to be part of the job of the other team, written as gpuctl would write it.
    labels = {"app": "web-other", "app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/job-type": "compute"}
    forged = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "forged", "namespace": one.shared, "labels": labels, "annotations": {SOURCE: one.source}},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web-other"}},
    }
    path = f"{PATHS['service'].format(one.shared)}/forged?fieldManager=runwhere.gpuctl&force=true"
    status, answer = world.api.call("PATCH", path, forged, APPLY)
    assert status == 201, answer
    # And a job of its own, which a person has given the source of another team.
    annotation = {"metadata": {"annotations": {SOURCE: other.source}}}
    path = f"{PATHS['deployment'].format(one.own)}/web?fieldManager=kubectl-annotate"
    status, answer = world.api.call("PATCH", path, annotation, "application/merge-patch+json")
    assert status == 200, answer
    before = world.live()
    for team in world.teams:
        assert team.drift()["undeclared"] == []
        assert team.prune() == []
    refused = one.run(job.MODULE, state="absent", name="web-other", namespace=one.shared, source=one.source)
    assert refused["failed"]
    assert "declared by" in refused["msg"]
    assert world.live() == before
    # It does not hide either: the field is not as declared, and the job is still compared.
    (row,) = [row for row in one.drift()["results"] if row["field"] == f"metadata.annotations[{SOURCE}]"]
    assert (row["level"], row["declared"], row["live"], row["manager"]) == (
        "error",
        one.source,
        other.source,
        "kubectl-annotate",
    )


def test_an_account_for_some_namespaces_changes_no_pool_that_its_source_does_not_declare(world: World) -> None:
    declare_all(world)
    one, other = world.teams
    assert succeeded(one.provision(source=None))
    assert succeeded(other.provision())
    own = {"src": one.src, "source": one.source, "allow_empty": True, "allowed_namespaces": [one.own, one.shared]}
    # As it is declared, it is not touched; otherwise it is refused, as is that of the other team.
    unchanged = one.run(pool.MODULE, **own)
    assert (unchanged.get("failed"), unchanged["changed"]) == (None, False), unchanged
    for name in ("one", "other"):
        one.declare("pool", pool_manifest(one.field.pool(name), [], description="mine"))
        refused = one.run(pool.MODULE, **own, adopt=[other.source])
        assert refused["failed"]
        assert "limits this task" in refused["msg"], refused
        gone = one.run(pool.MODULE, state="absent", name=one.field.pool(name), allowed_namespaces=[one.own])
        assert gone["failed"], gone
    one.declare("pool", pool_manifest(one.field.pool("new"), []))
    assert succeeded([one.run(pool.MODULE, **own)])
    assert world.live()[f"pool/{one.field.pool('new')}"] == one.source


EDITS = 40


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 12))])
def test_random_edits_of_both_at_once(world: World, seed: int) -> None:
    """Each step edits, provisions, plans, compares or prunes, by one team or by both at once."""
    choose = random.Random(seed)
    declare_all(world)
    for team in world.teams:  # The quota makes the namespace of the team's jobs.
        succeeded(team.provision())
        team.applied |= team.declared
    edits = EDITS if seed > 1 else EDITS // 4

    def edit(team: Team, choose: random.Random) -> None:
        name = team.source.partition("/")[2].partition("/")[0]
        new = f"x{choose.randrange(4)}"
        options: list[Callable[[], None]] = [
            lambda: team.declare(f"job-{new}", job_of(team, new)),
            lambda: team.declare(f"shared-{new}", job_of(team, f"{name}-{new}", shared=True)),
            lambda: team.declare("train", training(f"t-{new}", job={"namespace": team.own})),
            lambda: team.declare(f"pool-{new}", pool_manifest(team.field.pool(f"{name}-{new}"), [], description=new)),
            lambda: team.declare("quota", quota_of(team, team.field.pool(f"q-{name}"), choose.randrange(16, 64))),
            lambda: team.remove(choose.choice(sorted(team.files))) if len(team.files) > 1 else None,
            lambda: team.remove(choose.choice(sorted(team.files))) if len(team.files) > 1 else None,
        ]
        choose.choice(options)()

    def act(team: Team, seed: float) -> None:
        choose = random.Random(seed)
        edit(team, choose)
        what = choose.choice(("provision", "provision", "check", "plan", "drift", "prune"))
        if what in ("provision", "check"):
            succeeded(team.provision(check=what == "check"))
            team.applied |= team.declared if what == "provision" else set()
            return
        if what == "prune":
            succeeded(team.prune())
            team.applied &= team.declared
        shown = team.plan() if what == "plan" else team.drift()
        assert not shown.get("failed"), shown
        rows = [*shown["results"], *(shown["not_declared"] if what == "plan" else shown["undeclared"])]
        other = next(each for each in world.teams if each is not team)
        text = str([{**row, "id": "", "reason": "", "preempts": ""} for row in rows]) + str(shown["problems"])
        assert other.source not in text
        own = other.source.partition("/")[2].partition("/")[0]
        for word in (
            other.own,
            f"{team.field.prefix}-{own}",
            f"{team.field.prefix}-q-{own}",
            f"'{own}-x",
            f"'web-{own}'",
        ):
            assert word not in text, (word, text)

    for _number in range(edits):
        if choose.random() < 0.5:
            act(choose.choice(world.teams), choose.random())
        else:
            with ThreadPoolExecutor() as at_once:
                seeds = [choose.random() for _team in world.teams]
                list(at_once.map(act, world.teams, seeds))
        assert world.live() == {place: team.source for team in world.teams for place in team.applied}
    for team in world.teams:
        succeeded(team.provision())
        succeeded(team.prune())
    eventually(lambda: world.live() == {place: team.source for team in world.teams for place in team.declared}, 30)
