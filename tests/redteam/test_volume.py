# SPDX-License-Identifier: BSD-2-Clause
"""A tenant fills a namespace with what is large or malformed; the accounts and lists of all others go on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight import fitting_lists
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import answer, limits
from integration import manifests
from integration.prometheus_double import Asked, Reply, matrix, prometheus_double, vector
from integration.tasks import perform
from kubesim import Cluster

Row = dict[str, Any]

HONEST, TENANT = "default", "tenant"
EVERYWHERE: Row = {"all_namespaces": True}
READERS: dict[str, tuple[str, Row]] = {
    "usage": ("insight.usage.usage_info", {"use_prometheus": "never", "group_by": ["job"], **EVERYWHERE}),
    "status": ("insight.overview", EVERYWHERE),
    "info": ("insight.jobs.job_info", {"all_namespaces": True, "details": True, "pods": True}),
    "history": ("insight.history.job_history_info", {"manifests": True, **EVERYWHERE}),
    "idle": ("insight.idle.idle_jobs", EVERYWHERE),
    "advice": ("insight.advice.advice_info", EVERYWHERE),
    "doctor": ("insight.doctor.doctor", {}),
    "recording": ("insight.history.job_history", {"logs": False, **EVERYWHERE}),
    "fit": ("insight.fit.fit_info", {"definition": [manifests.training("new")], "namespace": HONEST}),
}
SHOWS_JOBS = ("usage", "status", "info", "history", "idle")


def not_measured(_asked: Asked) -> Reply:
    return vector()


def read(cluster: Cluster, reader: str, **options: Any) -> Row:
    place, given = READERS[reader]
    spec = import_module(f"ansible_collections.runwhere.gpuctl.plugins.module_utils.{place}").MODULE
    with prometheus_double(not_measured) as server:
        if reader in ("idle", "advice"):
            given = {**given, "prometheus_url": server.url}
        return perform(spec, cluster, **given, **options)


def assert_goes_on(result: Row, reader: str) -> None:
    """The task succeeds and shows the honest job; the doctor may well find faults, and says so in its rows."""
    assert "bug in runwhere.gpuctl" not in str(result.get("msg")), result.get("exception")
    if reader == "doctor":
        assert result.get("results") is not None or result.get("checks") is not None, result["msg"]
        return
    assert not result.get("failed"), result["msg"]
    if reader in SHOWS_JOBS:
        assert "train" in json.dumps(result.get("jobs", result.get("results"))), on_one_line(result)


def on_one_line(result: Row) -> str:
    return " ".join(result["warnings"])


def history(name: str, data: dict[str, str], namespace: str = TENANT) -> Row:
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/history": "runs"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": data,
    }


def deployment(number: int, annotation: int) -> Row:
    labels = {
        "app": f"fat-{number}",
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/job-type": "compute",
        "runwhere.ai/pool": "default",
    }
    pod = {"containers": [{"name": "main", "image": "registry.example.com/a:v1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": f"fat-{number}",
            "namespace": TENANT,
            "labels": labels,
            "annotations": {"example.com/notes": "x" * annotation},
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": f"fat-{number}"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def pod_of_run(size: int) -> dict[str, str]:
    """A part of a history as busy namespaces write them: thousands of pods."""
    data: dict[str, str] = {}
    row = json.dumps({"name": "p" * 60, "created": 1, "start": 2, "end": 3, "holds": {"nvidia.com/gpu": 1}})
    for number in range(size // (len(row) + 40)):
        data[f"{number:032x}.pod.{number:032x}"] = row
    return data


@pytest.fixture(scope="module")
def objects() -> list[Row]:
    """A job that runs, in the namespace of another account."""
    with Cluster(nodes=1).running() as cluster:
        done = perform(JOB, cluster, definition=manifests.training("train"), wait=True, wait_timeout=60)
        assert not done.get("failed"), done["msg"]
        kinds = ("Job", "Pod", "ConfigMap")
        found = [obj for kind in kinds for obj in cluster.call(lambda kind=kind: cluster.registry.list(kind, HONEST))]
        return [obj for obj in found if obj["metadata"]["name"] != "kube-root-ca.crt"]


@pytest.fixture
def cluster(objects: list[Row]) -> Iterator[Cluster]:
    with Cluster(nodes=1, controllers=False).running() as cluster:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}}
        cluster.load([space, *deepcopy(objects)])
        yield cluster


# -- what is malformed -------------------------------------------------------------------------------------------------

RUN = {"name": "run", "kind": "training", "submitted_at": "2026-08-01T10:00:00Z"}
MALFORMED: dict[str, dict[str, str]] = {
    "400 digits": {"r.was": json.dumps({**RUN, "seen": 10**400})},
    "1e308": {"r.was": json.dumps({**RUN, "seen": 1e308})},
    "1e999": {"r.was": '{"name": "run", "seen": 1e999}'},
    "NaN": {"r.was": '{"name": "run", "seen": NaN}'},
    "before 1970": {"r.was": json.dumps({**RUN, "seen": -1})},
    "half a second": {"r.was": json.dumps({**RUN, "seen": 0.5})},
    "a boolean": {"r.was": json.dumps({**RUN, "seen": True})},
    "no time": {"r.was": json.dumps({**RUN, "seen": None})},
    "900 deep": {"r.job": json.dumps(RUN)[:-1] + ', "manifest": ' + '{"a":' * 900 + "1" + "}" * 900 + "}"},
    "100,000 deep": {"r.job": "[" * 40_000},
    "an exit code of 400 digits": {"r.end": json.dumps({**RUN, "exit_code": 10**400})},
    "an exit code that is text": {"r.end": json.dumps({**RUN, "exit_code": "1"})},
    "a pod of 400 digits": {"r.pod.p": json.dumps({"created": 10**400, "holds": {"nvidia.com/gpu": 1}})},
    "a pod with 400 digits of GPUs": {"r.pod.p": json.dumps({"created": 1, "holds": {"nvidia.com/gpu": 10**400}})},
    "a pod with a fraction of a GPU": {"r.pod.p": json.dumps({"created": 1, "holds": {"nvidia.com/gpu": 0.5}})},
    "a pod that holds a list": {"r.pod.p": json.dumps({"created": 1, "holds": [1]})},
    "text of half a character": {"r.job": '{"name": "\\ud800", "kind": "\\ud800"}'},
    "no JSON": {"r.job": "{"},
    "too long": {"r.job": json.dumps({**RUN, "image": "x" * 100_000})},
}  # fmt: skip
WRONG_TYPES: list[Any] = [None, True, 0, -1, 1e308, 2**70, "", "x", "9999-12-31T23:59:59Z", [], [[]], {}, {"a": {}}]


@pytest.mark.parametrize("reader", READERS)
def test_malformed_histories_stop_no_task(cluster: Cluster, reader: str) -> None:
    """Each impossible value in a history of its own; all of them are read, and what is not is named."""
    cluster.load([history(f"gpuctl-history-{number}", data) for number, data in enumerate(MALFORMED.values())])
    result = read(cluster, reader)
    assert_goes_on(result, reader)
    if reader in ("usage", "history", "recording"):
        entry = "ConfigMap gpuctl-history-0 in namespace tenant cannot be read entirely: entry r.was is malformed"
        assert entry in on_one_line(result)


@pytest.mark.parametrize("reader", ["usage", "history", "recording"])
def test_values_of_any_type_in_a_history_stop_no_task(cluster: Cluster, reader: str) -> None:
    names = ("name", "kind", "submitted_at", "submitter", "pool", "result", "finished_at", "manifest", "image")
    data = {}
    for number, (name, value) in enumerate((name, value) for name in names for value in WRONG_TYPES):
        data[f"r{number}.job"] = json.dumps({**RUN, name: value})
    for number, value in enumerate(WRONG_TYPES):
        data[f"p{number}.job"] = json.dumps(RUN)
        for field in ("name", "created", "start", "end", "holds", "node", "preempted", "exact"):
            hold = {"name": "a", "created": 1, "start": 2, "end": 3, "holds": {"nvidia.com/gpu": 1}, field: value}
            data[f"p{number}.pod.{field}"] = json.dumps(hold)
        data[f"p{number}.log"] = json.dumps({"lines": value})
    data["visited"] = "9" * 400
    cluster.load([history("gpuctl-history", data)])
    assert_goes_on(read(cluster, reader), reader)


def test_texts_of_any_length_in_a_job_hide_no_runs(cluster: Cluster) -> None:
    """An image and the annotation of the submitter may be longer than what is read of a history."""
    long = deployment(1, 10)
    long["metadata"]["annotations"]["runwhere.ai/submitted-by"] = "x" * 100_000
    long["spec"]["template"]["spec"]["containers"][0]["image"] = f"registry.example.com/{'a' * 60_000}"
    cluster.load([long])
    for reader in ("history", "recording", "history"):
        result = read(cluster, reader)
        assert_goes_on(result, reader)
        assert "malformed" not in on_one_line(result)
    assert {row["name"] for row in result["results"]} == {"train", "fat-1"}


# -- what is large -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(objects: list[Row]) -> Iterator[Cluster]:
    """ConfigMaps of 1 MB, Deployments with 255 kB of annotation, and the histories of busy namespaces."""
    with Cluster(nodes=1, controllers=False).running() as cluster:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT}}
        large = [history(f"gpuctl-history-9{number}", {"k": "x" * 1_000_000}) for number in range(21)]
        parts = [history(f"gpuctl-history-{number}", pod_of_run(235 * 1024)) for number in range(90)]
        fat = [deployment(number, 255_000) for number in range(90)]
        cluster.load([space, *deepcopy(objects), *large, *parts, *fat])
        yield cluster


@pytest.mark.parametrize("reader", [reader for reader in READERS if reader != "recording"])
def test_volume_hides_nothing(crowded: Cluster, reader: str) -> None:
    result = read(crowded, reader)
    assert_goes_on(result, reader)
    assert "left out" not in on_one_line(result)


MANIFEST = manifests.training("mine")
QUOTA = {"kind": "quota", "quota": {"name": "q"}, "users": {TENANT: {"gpu": 2}}}
POOL = {"kind": "pool", "pool": {"name": "p"}, "nodes": {"node-1": {}}}
OTHERS: dict[str, tuple[str, Row]] = {
    "a job beside them": ("jobs.job", {"definition": MANIFEST, "namespace": TENANT}),
    "one of them": ("jobs.job", {"name": "fat-1", "namespace": TENANT, "state": "paused", "takeover": True}),
    "a pool": ("pools.pool", {"definition": POOL}),
    "a quota": ("quotas.quota", {"definition": QUOTA}),
    "a workspace": ("access.workspace", {"namespace": TENANT, "object_counts": {"configmaps": 500}}),
    "what an account may": ("access.access_info", {"namespaces": [TENANT]}),
    "a plan": ("insight.plan.plan_info", {"src": ["@tmp"], "namespace": HONEST}),
    "drift": ("insight.drift.drift_info", {"src": ["@tmp"], "namespace": HONEST}),
}


@pytest.mark.parametrize("task", OTHERS)
def test_volume_stops_no_task(crowded: Cluster, tmp_path: Path, task: str) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([MANIFEST, QUOTA, POOL]))
    place, options = OTHERS[task]
    spec = import_module(f"ansible_collections.runwhere.gpuctl.plugins.module_utils.{place}").MODULE
    result = perform(spec, crowded, **json.loads(json.dumps(options).replace("@tmp", str(tmp_path))))
    assert not result.get("failed"), result["msg"]
    assert "left out" not in on_one_line(result)


@pytest.mark.parametrize("reader", READERS)
def test_a_namespace_that_is_too_large_is_left_out_by_name(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """With a tenth of the memory: a tenant has more Deployments and more history than can be read."""
    monkeypatch.setattr(fitting_lists, "LIST_MEMORY", 12 * limits.MIB)
    monkeypatch.setattr(answer, "ANSWER_MEMORY", 4 * limits.MIB)
    parts = [history(f"gpuctl-history-{number}", pod_of_run(235 * 1024)) for number in range(60)]
    cluster.load([*parts, *(deployment(number, 255_000) for number in range(60))])
    before = cluster.call(lambda: deepcopy(cluster.registry.list("ConfigMap", TENANT)))
    result = read(cluster, reader)
    assert_goes_on(result, reader)
    said = on_one_line(result)
    if reader in ("status", "info", "history", "idle", "recording"):
        assert "Objects of kind Deployment in namespace tenant are left out" in said
    if reader in ("usage", "history", "recording"):
        assert "Objects of kind ConfigMap in namespace tenant are left out" in said
    if reader == "recording":  # What was not read is not gone.
        assert cluster.call(lambda: cluster.registry.list("ConfigMap", TENANT)) == before
    if reader == "history":
        assert {row["namespace"] for row in result["results"]} == {HONEST}


def test_an_object_that_alone_is_too_large_is_left_out_by_name(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "ANSWER_MEMORY", 5 * limits.MIB)
    monkeypatch.setattr(answer, "LARGE_ANSWER", 0)
    dense = deployment(0, 10)
    dense["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": f"A{number}"} for number in range(60_000)]
    cluster.load([dense, deployment(1, 10)])
    result = read(cluster, "info")
    assert_goes_on(result, "info")
    assert {row["name"] for row in result["results"]} == {"train", "fat-0", "fat-1"}
    assert "Deployment fat-0 in namespace tenant cannot be read: it is too large" in on_one_line(result)


# -- Prometheus --------------------------------------------------------------------------------------------------------


def service(namespace: str, name: str = "prometheus") -> Row:
    ports = [{"name": "web", "port": 9090, "protocol": "TCP"}]
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}


def space(name: str, **labels: str) -> Row:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def binding(place: str, subject: Row, role: str = "edit") -> Row:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "users", "namespace": place},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


ALICE = {"kind": "User", "name": "alice"}
OF_USERS: dict[str, list[Row]] = {
    "made by a quota or by onboard": [space("team", **{"runwhere.ai/namespace": "true"}), service("team")],
    "the default one": [service("default")],
    "a role for a user": [space("team"), binding("team", ALICE), service("team")],
    "a role for a group": [space("team"), binding("team", {"kind": "Group", "name": "research"}), service("team")],
    "a role for an account of elsewhere": [
        space("team"),
        binding("team", {"kind": "ServiceAccount", "name": "bob", "namespace": "gpuctl-system"}),
        service("team"),
    ],
}  # fmt: skip


def asked_through(result: Row) -> str:
    """The sentence about the Prometheus that was chosen: the simulated cluster has no program behind its services."""
    return str(result["msg"])


@pytest.mark.parametrize("planted", OF_USERS)
def test_a_service_of_a_tenant_is_not_the_prometheus_of_the_cluster(cluster: Cluster, planted: str) -> None:
    """It neither becomes it, nor keeps that of the administrators from being found."""
    place, _given = READERS["usage"]
    spec = import_module(f"ansible_collections.runwhere.gpuctl.plugins.module_utils.{place}").MODULE
    cluster.load(deepcopy(OF_USERS[planted]))
    alone = asked_through(perform(spec, cluster, use_prometheus="always"))
    assert "no Prometheus found that only administrators can have made" in alone
    assert "/prometheus:9090 is in a namespace in which users write" in alone
    own = {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}
    viewed = {**binding("monitoring", ALICE, "view"), "metadata": {"name": "viewers", "namespace": "monitoring"}}
    cluster.load([space("monitoring"), binding("monitoring", own), viewed, service("monitoring", "prometheus-k8s")])
    both = asked_through(perform(spec, cluster, use_prometheus="always"))
    assert "monitoring/http:prometheus-k8s:9090" in both, both
    named = asked_through(perform(spec, cluster, use_prometheus="always", prometheus_service="team/prometheus:9090"))
    assert "team/http:prometheus:9090" in named


def test_what_decides_over_jobs_is_named(cluster: Cluster) -> None:
    """Nothing is paused on the word of a Prometheus that was found."""
    place, _given = READERS["idle"]
    spec = import_module(f"ansible_collections.runwhere.gpuctl.plugins.module_utils.{place}").MODULE
    cluster.load([space("monitoring"), service("monitoring")])
    result = perform(spec, cluster, action="pause")
    assert result["failed"]
    assert result["msg"].startswith("action=pause: no Prometheus is named"), result["msg"]


@pytest.mark.parametrize("value", ["1e308", "-1e308", "NaN", "+Inf", "-Inf", "-1", "1e29", "1e5", "x"])
def test_impossible_samples_end_no_task(cluster: Cluster, value: str) -> None:
    """An exporter of a tenant reports it of the pods of others."""
    (pod,) = (obj for obj in cluster.call(lambda: cluster.registry.list("Pod", HONEST)))
    labels = {"namespace": HONEST, "pod": pod["metadata"]["name"], "job_name": "train", "resource": "nvidia_com_gpu"}
    gone = {**labels, "pod": "gone-0", "job_name": "gone", "node": "node-1"}
    with prometheus_double(lambda asked: vector((labels, value), (labels, value), (gone, value))) as server:
        for reader in ("usage", "idle", "info"):
            place, given = READERS[reader]
            spec = import_module(f"ansible_collections.runwhere.gpuctl.plugins.module_utils.{place}").MODULE
            given = {**given, "prometheus_url": server.url}
            result = perform(spec, cluster, **{**given, **({"use_prometheus": "always"} if reader == "usage" else {})})
            assert "bug in runwhere.gpuctl" not in str(result.get("msg")), result.get("exception")
            json.dumps(result, allow_nan=False)
            if value == "x":
                continue
            assert not result.get("failed"), result["msg"]
            if reader == "usage":
                assert result["totals"]["gpu_hours"] < 24 * 31 * 10
            if reader == "usage" and value == "1e29":
                assert any("impossible values" in note for note in result["notes"]), result["notes"]


TEXTS = [
    "",
    "x",
    HONEST,
    TENANT,
    "\x1b[2J",
    "\ud800",
    "x" * 5_000,
    "train",
    "{{ 7*7 }}",
    "nvidia_com_gpu",
    "9" * 400,
    "a\nb",
]
VALUES = ["0", "1", "1e308", "-1e308", "NaN", "+Inf", "-Inf", "-1", "1e29", "x", "", "1e-400", "9" * 400]
LABELS = (
    "namespace", "pod", "exported_namespace", "exported_pod", "job_name", "label_app", "node", "resource", "Hostname",
    "gpu", "modelName", "container", "uid", "UUID", "device", "created_by_kind", "owner_name", "alertname", "severity",
)  # fmt: skip
MEASURED: dict[str, tuple[str, Row]] = {
    "usage": ("insight.usage.usage_info", {"use_prometheus": "always", "group_by": ["job", "user"], **EVERYWHERE}),
    "idle": ("insight.idle.idle_jobs", EVERYWHERE),
    "advice": ("insight.advice.advice_info", EVERYWHERE),
    "pause": ("insight.idle.idle_jobs", {"action": "pause", **EVERYWHERE}),
    "info": ("insight.jobs.job_info", {"all_namespaces": True, "details": True, "pods": True}),
    "status": ("insight.overview", EVERYWHERE),
    "metrics": ("insight.metrics.job_metrics", {"name": "train", "namespace": HONEST}),
    "doctor": ("insight.doctor.doctor", {}),
}


@pytest.mark.parametrize("task", MEASURED)
def test_any_series_ends_no_task(cluster: Cluster, task: str) -> None:
    """An exporter or a recording rule of a tenant has any labels and values, for one moment or for many."""
    for seed in range(4):
        chosen = random.Random(f"{task} {seed}")

        def answer(asked: Asked, chosen: random.Random = chosen) -> Reply:
            found = []
            for _number in range(chosen.choice([0, 1, 3, 30])):
                labels = {name: chosen.choice(TEXTS) for name in chosen.sample(LABELS, chosen.randint(0, 12))}
                if chosen.random() < 0.7:
                    labels |= {"namespace": HONEST, "pod": "train-0", "job_name": "train", "label_app": "train"}
                found.append((labels, chosen.choice(VALUES)))
            if asked.path.endswith("query_range"):
                moments = [float(asked.parameters["start"]), 1e308, -1.0]
                return matrix(*((labels, [(moment, value) for moment in moments]) for labels, value in found))
            return vector(*found)

        place, given = MEASURED[task]
        spec = import_module(f"ansible_collections.runwhere.gpuctl.plugins.module_utils.{place}").MODULE
        with prometheus_double(answer) as server:
            result = perform(spec, cluster, **{**given, "prometheus_url": server.url})
        assert server.asked or task in ("doctor", "status")
        assert "bug in runwhere.gpuctl" not in str(result.get("msg")), (seed, result.get("exception"))
        text = json.dumps(result, allow_nan=False, ensure_ascii=False)
        assert "\x1b" not in text
        text.encode()
