# SPDX-License-Identifier: BSD-2-Clause
"""What former versions submitted keeps running when this version applies the same manifests."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.later_defaults import LaterDefault
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import value_at
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import plan_job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import upgraded as upgraded_plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs import job_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.former_versions import (
    LATER_DEFAULTS,
    later_defaults,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import priority_class
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.ownership import keep_submitter
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import read_entries
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import CONFIG_MAP, JOB, POD, STATEFUL_SET
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import BUILT_BY, LEDGER, MANAGED_BY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.digest import digest_of, former_digests_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task
from kubesim import Cluster

# Written by record.py there, one file for each version that has been released.
FORMER = Path(__file__).parents[3] / "fixtures" / "former"
NAMESPACE = "former"
OTHER_IMAGE = "registry.example.com/ml:v2"
NEWEST = list(LATER_DEFAULTS)[-1]

Object = dict[str, Any]


def recorded(path: Path) -> list[Object]:
    """The entries of a file: ``manifest``, ``objects``, perhaps ``ledger`` and ``then``."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return list(yaml.load_all(path.read_text(encoding="utf-8"), loader))


RECORDED = {path.stem.removeprefix("built-by-"): recorded(path) for path in sorted(FORMER.glob("built-by-*.yaml"))}


def jobs_of(entry: Object) -> dict[str, Any]:
    """The models of a manifest, which may have a matrix, by the names of their jobs."""
    return {document.model.job.name: document.model for document in load(definition=entry["manifest"])}


JOBS = [
    pytest.param(entry, model, id=f"{version}-{name}")
    for version, entries in RECORDED.items()
    for entry in entries
    for name, model in jobs_of(entry).items()
]


class Upgraded:
    """A cluster in which a former version has submitted its jobs."""

    def __init__(self, cluster: Cluster, entries: list[Object]) -> None:
        self.cluster = cluster
        self.client = self._task(job.MODULE, {}).client()
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for priority in ("high", "medium", "low"):
            self.client.apply(priority_class(priority))
        self.manifests = [entry["manifest"] for entry in entries]
        self.jobs = {name: entry["manifest"] for entry in entries for name in jobs_of(entry)}
        cluster.load(copy.deepcopy([obj for entry in entries for obj in entry["objects"]]))
        self._ledger = {name: text for entry in entries for name, text in entry.get("ledger", {}).items()}

    def with_ledger(self) -> None:
        metadata = {"name": LEDGER, "namespace": NAMESPACE, "labels": {MANAGED_BY: "runwhere.gpuctl"}}
        self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self._ledger})

    def apply(self, *manifests: Object, check_mode: bool = False, **options: Any) -> Object:
        self.cluster.requests.reset()
        given = {} if "name" in options else {"definition": list(manifests or self.manifests)}
        return job.MODULE.run(self._task(job.MODULE, {**given, **options}, check_mode))

    def info(self) -> list[Object]:
        return list(job_info.MODULE.run(self._task(job_info.MODULE, {"all_namespaces": True}))["results"])

    def writes(self) -> list[str]:
        return [str(entry) for entry in self.cluster.requests if entry.verb not in ("get", "list", "watch")]

    def pods(self) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in self.client.list_objects(POD, NAMESPACE)}

    def template(self, resource: Any, name: str) -> Object:
        return dict(self.client.get(resource, NAMESPACE, name)["spec"]["template"]["spec"])

    def _task(self, module: ModuleSpec[Any], options: Object, check_mode: bool = False) -> Task[Any]:
        defaults = {name: option.get("default") for name, option in module.arguments()["argument_spec"].items()}
        params = {**defaults, "host": self.cluster.url, "api_key": self.cluster.token}
        in_namespace = {"namespaces": [NAMESPACE]} if module is job_info.MODULE else {"namespace": NAMESPACE}
        ignored: Callable[[Any], None] = lambda value: None  # noqa: E731
        return Task(module.options(**in_namespace, **options), params, check_mode, ignored, ignored)


@pytest.fixture(params=RECORDED)
def asleep(request: pytest.FixtureRequest) -> Iterator[Upgraded]:
    """All of them, exactly as they were recorded: no controller touches them."""
    with Cluster(nodes=0, controllers=False).running() as running:
        yield Upgraded(running, RECORDED[request.param])


@pytest.fixture
def upgraded() -> Iterator[Upgraded]:
    """One of each kind from 1.0.0, running."""
    chosen = [e for e in RECORDED["1.0.0"] if e["manifest"]["job"]["name"] in ("dist", "serve", "lab", "web", "script")]
    with Cluster(nodes=4).running() as running:
        found = Upgraded(running, chosen)
        eventually(lambda: len(found.pods()) == 6)
        yield found


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def changed(manifest: Object, block: str, **fields: Any) -> Object:
    found = copy.deepcopy(manifest)
    found[block] = {**found.get(block, {}), **fields}
    return found


def probe(upgraded: Upgraded) -> Any:
    return upgraded.template(STATEFUL_SET, "lab")["containers"][0].get("readinessProbe")


def planned(entry: Object, model: Any) -> Plan:
    live = [obj for obj in entry["objects"] if obj["metadata"]["labels"]["app"] == model.job.name]
    built = build(model, NAMESPACE)
    objects = keep_submitter(built.objects, live)
    return plan_job(model.job.name, NAMESPACE, model.kind, objects, live, later_defaults(built.former_commands))


@pytest.mark.parametrize(("entry", "model"), JOBS)
def test_nothing_differs_from_what_a_former_version_built(entry: Object, model: Any) -> None:
    """If this fails: what this version builds otherwise needs a row in former_versions.py."""
    assert [str(step) for step in planned(entry, model).steps if str(step.action) != "unchanged"] == []


@pytest.mark.parametrize(("entry", "model"), [case for case in JOBS if case.values[0].get("ledger")])
def test_a_training_is_known_by_the_digest_that_a_former_version_recorded(entry: Object, model: Any) -> None:
    digest = read_entries(entry["ledger"])[model.job.name].manifest
    assert digest in (digest_of(model), *former_digests_of(model))


def test_an_upgrade_changes_nothing(asleep: Upgraded) -> None:
    asleep.with_ledger()
    for check_mode in (True, False):
        result = asleep.apply(check_mode=check_mode)
        number = len(asleep.jobs)
        assert (result["changed"], result["msg"]) == (False, f"{number} jobs: {number} unchanged")
        assert [each["name"] for each in result["results"] if "runwhere.gpuctl" in (each["reason"] or "")] == []
        assert result["diff"] == []
        assert asleep.writes() == []


def test_an_upgrade_without_a_ledger_writes_only_the_ledger(asleep: Upgraded) -> None:
    assert asleep.apply()["changed"] is False
    assert {entry.resource for entry in asleep.cluster.requests.writes()} == {"configmaps"}
    assert asleep.client.get(CONFIG_MAP, NAMESPACE, LEDGER) is not None


def test_jobs_of_a_former_version_are_listed_as_they_are(asleep: Upgraded) -> None:
    found = {row["name"]: row["status"] for row in asleep.info()}
    assert found.keys() == asleep.jobs.keys()
    paused = {name for name, status in found.items() if status == "Paused"}
    assert paused == {"train-paused", "serve-paused", "lab-paused"}


def test_what_runs_keeps_running(upgraded: Upgraded) -> None:
    pods = upgraded.pods()
    assert upgraded.apply()["changed"] is False
    assert upgraded.pods() == pods


def test_an_upgrade_runs_no_finished_training_again_not_even_without_a_ledger(upgraded: Upgraded) -> None:
    upgraded.cluster.call(lambda: upgraded.cluster.kubelet.behave(exit_code=0, run_seconds=0))
    eventually(lambda: upgraded.client.get(JOB, NAMESPACE, "dist")["status"].get("succeeded") == 2)
    for options in ({}, {"upgrade": True}):
        result = upgraded.apply(upgraded.jobs["dist"], **options)
        assert (result["changed"], result["results"][0]["status"]) == (False, "Succeeded")
    again = upgraded.apply(upgraded.jobs["dist"], rerun="always")
    assert again["results"][0]["action"] == "recreate"
    assert "topologySpreadConstraints" in upgraded.template(JOB, "dist"), "what is new is built by this version"


def test_a_finished_training_with_a_former_digest_is_not_run_again(upgraded: Upgraded) -> None:
    """1.0.0 recorded 1073741824 and 1Gi as two manifests."""
    upgraded.cluster.call(lambda: upgraded.cluster.kubelet.behave(exit_code=0, run_seconds=0))
    eventually(lambda: upgraded.client.get(JOB, NAMESPACE, "dist")["status"].get("succeeded") == 2)
    upgraded.with_ledger()
    spelled = changed(upgraded.jobs["dist"], "resources", memory=1073741824, cpu="1e0")
    former = former_digests_of(jobs_of({"manifest": spelled})["dist"])[0]
    ledger = upgraded.client.get(CONFIG_MAP, NAMESPACE, LEDGER)
    recorded_entry = {**json.loads(ledger["data"]["dist"]), "manifest": former}
    upgraded.client.merge_patch(CONFIG_MAP, ledger["metadata"], {"data": {"dist": json.dumps(recorded_entry)}})
    assert upgraded.apply(spelled)["changed"] is False
    assert upgraded.apply(upgraded.jobs["dist"])["changed"] is False, "now recorded with a digest for every spelling"


def test_a_change_beside_the_pods_leaves_them(upgraded: Upgraded) -> None:
    pods = upgraded.pods()
    described = [changed(manifest, "job", description="only metadata") for manifest in upgraded.manifests]
    assert upgraded.apply(*described)["msg"] == "5 jobs: 5 update"
    assert upgraded.apply(*described)["changed"] is False
    assert upgraded.pods() == pods
    more = changed(upgraded.jobs["web"], "service", replicas=2)
    assert upgraded.apply(more)["results"][0]["action"] == "update"
    assert pods.items() <= upgraded.pods().items()
    assert probe(upgraded) is None


@pytest.mark.parametrize("name", ["dist", "serve", "lab", "web"])
def test_a_paused_and_a_resumed_job_stay_as_they_were_built(name: str, upgraded: Upgraded) -> None:
    manifest = upgraded.jobs[name]
    for state in ("paused", "resumed", "restarted"):
        assert upgraded.apply(name=name, state=state)["changed"] is True
        assert upgraded.apply(manifest)["changed"] is False, state


def test_what_replaces_the_pods_anyway_brings_the_new_defaults(upgraded: Upgraded) -> None:
    jobs = [changed(upgraded.jobs[name], "environment", image=OTHER_IMAGE) for name in ("lab", "dist")]
    assert upgraded.apply(*jobs)["msg"] == "2 jobs: 1 recreate, 1 update"
    assert probe(upgraded)["tcpSocket"] == {"port": 8888}
    assert "topologySpreadConstraints" in upgraded.template(JOB, "dist")
    assert upgraded.apply(*jobs)["changed"] is False
    upgraded.apply(*jobs)
    assert upgraded.writes() == []

    packed = [jobs[0], changed(jobs[1], "distributed", placement="pack")]
    assert upgraded.apply(*packed)["msg"] == "2 jobs: 1 recreate, 1 unchanged"
    assert "topologySpreadConstraints" not in upgraded.template(JOB, "dist")


def test_upgrade_brings_what_is_new_and_once(upgraded: Upgraded) -> None:
    pods = upgraded.pods()
    predicted = upgraded.apply(check_mode=True, upgrade=True)
    result = upgraded.apply(upgrade=True)
    actions = {each["name"]: each["action"] for each in result["results"]}
    assert actions == {each["name"]: each["action"] for each in predicted["results"]}
    assert (actions["dist"], actions["lab"]) == ("recreate", "update")
    assert probe(upgraded)["tcpSocket"] == {"port": 8888}
    assert "topologySpreadConstraints" in upgraded.template(JOB, "dist")
    assert not {name for name in pods if name.startswith("dist-")} & upgraded.pods().keys()
    for options in ({}, {"upgrade": True}):
        assert upgraded.apply(**options)["changed"] is False


ROWS = [
    pytest.param(row, id=f"{since}-{row.kind}-{row.path[-1]}")
    for since in LATER_DEFAULTS
    for row in LATER_DEFAULTS[since]
]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_of_something_that_was_built_so_and_that_upgrade_builds_again(row: LaterDefault) -> None:
    built = [entry for entries in RECORDED.values() for entry in entries]
    plans = [planned(entry, model) for entry in built for model in jobs_of(entry).values()]
    of_kind = [plan.steps[0] for plan in plans if plan.steps[0].kind == row.kind]
    assert row.former in [value_at(step.live, row.path) for step in of_kind]
    upgraded_steps = [upgraded_plan(plan).steps[0] for plan in plans if plan.steps[0].kind == row.kind]
    paths = [change.path for step in upgraded_steps for change in step.changes]
    assert any(path == row.path[: len(path)] or row.path == path[: len(row.path)] for path in paths)


SCRIPTS = ["script", "dist-script"]


@pytest.mark.parametrize("asleep", ["1.0.0"], indirect=True)  # the only version that put no launcher before scripts
@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("ledger", [True, False], ids=["with a ledger", "without one"])
def test_a_script_without_a_launcher_keeps_running_until_its_manifest_changes(
    asleep: Upgraded, name: str, ledger: bool
) -> None:
    if ledger:
        asleep.with_ledger()
    manifest = asleep.jobs[name]
    result = asleep.apply(manifest)
    assert (result["changed"], result["results"][0]["reason"]) == (False, None)
    for block, fields in (
        ("environment", {"image": OTHER_IMAGE}),
        ("distributed", {"launcher": "torchrun"}),
        ("distributed", {"launcher": "accelerate"}),
        ("environment", {"framework": "deepspeed"}),
    ):
        predicted = asleep.apply(changed(manifest, block, **fields), check_mode=True)
        assert predicted["results"][0]["action"] == "recreate", fields
    assert asleep.apply(changed(manifest, "distributed", launcher="none"))["changed"] is False
    assert asleep.apply(manifest, upgrade=True, check_mode=True)["results"][0]["action"] == "recreate"


def test_upgrade_puts_a_launcher_before_a_script(upgraded: Upgraded) -> None:
    assert upgraded.apply(upgraded.jobs["script"], upgrade=True)["results"][0]["action"] == "recreate"
    (main,) = upgraded.template(JOB, "script")["containers"]
    assert main["command"][:4] == ["torchrun", "--standalone", "--nproc_per_node", "4"]
    assert upgraded.apply(upgraded.jobs["script"])["changed"] is False


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_finished_script_without_a_launcher_is_not_run_again(asleep: Upgraded, name: str) -> None:
    asleep.with_ledger()
    ended = {"conditions": [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]}
    live = asleep.client.get(JOB, NAMESPACE, name)
    asleep.cluster.load([{**live, "status": {**ended, "completionTime": "2026-08-01T00:00:00Z"}}])
    assert asleep.apply(asleep.jobs[name])["changed"] is False
    assert asleep.apply(asleep.jobs[name], upgrade=True)["changed"] is False


def test_a_change_that_needs_a_recreation_is_refused_where_that_is_forbidden(upgraded: Upgraded) -> None:
    with pytest.raises(Exception, match="on_immutable=recreate"):
        upgraded.apply(upgraded.jobs["dist"], upgrade=True, on_immutable="fail")


def test_a_default_that_is_removed_later_is_restored(upgraded: Upgraded) -> None:
    """A workload says which version built it: what that version applied is missing, and is no later default."""
    upgraded.apply(upgraded.jobs["lab"], upgrade=True)
    notebook = upgraded.client.get(STATEFUL_SET, NAMESPACE, "lab")
    assert notebook["metadata"]["annotations"][BUILT_BY] == NEWEST
    containers = notebook["spec"]["template"]["spec"]["containers"]
    del containers[0]["readinessProbe"]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    upgraded.client.merge_patch(STATEFUL_SET, {"name": "lab", "namespace": NAMESPACE}, patch)
    assert probe(upgraded) is None
    assert upgraded.apply(upgraded.jobs["lab"])["results"][0]["action"] == "update"
    assert probe(upgraded)["tcpSocket"] == {"port": 8888}


def test_a_probe_of_another_manager_stays_theirs(upgraded: Upgraded) -> None:
    probe = {"httpGet": {"path": "/lab", "port": 8888}}
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "lab", "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "readinessProbe": probe}]}}},
    }
    upgraded.client.apply(theirs, manager="somebody")
    assert upgraded.apply(upgraded.jobs["lab"])["changed"] is False
