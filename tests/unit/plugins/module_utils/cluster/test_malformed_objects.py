# SPDX-License-Identifier: BSD-2-Clause
"""Unexpected objects: each field of each kind that is read is replaced in turn, by nothing and by anything.

Whatever a tenant, a node or a broken server puts into one object, no task may end with it, and what the task says about
all other objects stays the same. ``GPUCTL_MUTANTS`` is the number of mutants for each module (default: a few hundred).
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.inventory.gpuctl import host_variables
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import slim_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow import follow_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs import job_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes import node_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_info import NodeInfoOptions, select_nodes
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import pool_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import quota_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, run_task
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.goals import DELETED, READY, WaitTarget
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.job_wait import wait_for_jobs

from .live_objects import LABELS, node, pod, unscheduled, with_container, workload

Object = dict[str, Any]
World = dict[str, list[Object]]  # by plural
Place = tuple[str, int, tuple[Any, ...]]  # plural, number of the object, path in it

MUTANTS = int(os.environ.get("GPUCTL_MUTANTS", "250"))
MANAGED = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
CREATED = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:05:00Z"


def _named(obj: Object, name: str, job: str, kind: str, **metadata: Any) -> Object:
    labels = {**LABELS, "app": job, "runwhere.ai/job-type": kind, "runwhere.ai/pool": "a100"}
    own = {"name": name, "uid": f"uid-{name}", "labels": labels, "resourceVersion": "7", "generation": 2}
    managed = {"manager": "runwhere.gpuctl", "operation": "Apply", "time": CREATED, "fieldsV1": {"f:spec": {}}}
    annotations = {"runwhere.ai/description": "d", "runwhere.ai/paused-replicas": "3"}
    full = {**obj["metadata"], **own, "annotations": annotations, "managedFields": [managed], **metadata}
    return {**obj, "metadata": full}


def _job(name: str, **status: Any) -> Object:
    condition = {"type": "Failed", "status": "True", "reason": "B", "message": "m", "lastTransitionTime": LATER}
    job = workload("Job", status={"active": 1, "ready": 0, "startTime": CREATED, "conditions": [condition], **status})
    return _named(job, name, name, "training")


def _service_workload(kind: str, name: str, job_kind: str) -> Object:
    status = {"observedGeneration": 2, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
    progress = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}
    obj = workload(kind, status={**status, "conditions": [{**progress, "lastTransitionTime": LATER}]})
    obj["spec"]["template"]["spec"]["containers"] = [
        {
            "name": "main",
            "image": "reg/ml:v1",
            "args": ["--ServerApp.token=$(T)"],
            "env": [
                {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "A", "value": "1"},
            ],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
        }
    ]
    return _named(obj, name, name, job_kind)


def _pods() -> list[Object]:
    crashed = {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": LATER}},
        "restartCount": 3,
    }
    ended = {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": CREATED}}}
    running = {"state": {"running": {"startedAt": CREATED}}, "ready": False}
    tolerations = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300}]
    waiting = pod(gpu=1, status=unscheduled(), nodeSelector={"runwhere.ai/pool": "a100"}, tolerations=tolerations)
    ready = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": LATER}], "podIP": "10.1.1.1"}
    volumes = [{"name": "shm"}, {"name": "hosts", "configMap": {"name": "serve-hosts"}}]
    index = {"batch.kubernetes.io/job-completion-index": "0"}
    found = [
        _named(waiting, "train-0-abcde", "train", "training"),
        _named(pod(nodeName="n1", status=with_container("Failed", **ended)), "big-0-abcde", "big", "training"),
        _named(pod(nodeName="n2", status=with_container(**crashed)), "serve-1-abcde", "serve", "inference"),
        _named(
            pod(nodeName="n1", volumes=volumes, status={**with_container("Running", **running), **ready}),
            "lab-0",
            "lab",
            "notebook",
        ),
    ]
    found[1]["metadata"]["labels"] |= index
    found[0]["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "train-1"}]
    found[0]["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": "train-gpus"}]
    return found


def _events() -> list[Object]:
    def event(number: int, kind: str, name: str, reason: str, message: str) -> Object:
        return {
            "metadata": {
                "name": f"e{number}",
                "namespace": "ml",
                "uid": f"uid-e{number}",
                "creationTimestamp": CREATED,
                "labels": {},
            },
            "involvedObject": {"kind": kind, "name": name, "namespace": "ml", "uid": f"uid-{name}"},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "count": 2,
            "firstTimestamp": CREATED,
            "lastTimestamp": LATER,
            "series": {"count": 3, "lastObservedTime": LATER},
        }

    gpu = "requests.nvidia.com/gpu"
    refused = f"exceeded quota: team, requested: {gpu}=1, used: {gpu}=0, limited: {gpu}=0"
    return [
        event(1, "Pod", "lab-0", "Unhealthy", "Readiness probe failed"),
        event(2, "Job", "train", "FailedCreate", refused),
        event(3, "ReplicaSet", "serve-1", "FailedCreate", "forbidden"),
        event(4, "Pod", "train-0-abcde", "Preempted", "Preempted by pod uid-lab-0 on node n1"),
    ]


def _service(job: str, kind: str) -> Object:
    metadata = {"name": f"svc-{job}", "namespace": "ml", "creationTimestamp": CREATED}
    ports = [{"name": "http", "port": 8000, "nodePort": 30001, "protocol": "TCP"}]
    status = {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}
    obj = {
        "metadata": metadata,
        "spec": {"type": "NodePort", "clusterIP": "10.2.0.1", "ports": ports},
        "status": status,
    }
    return _named(obj, f"svc-{job}", job, kind)


def _autoscaler() -> Object:
    metadata = {"name": "serve", "namespace": "ml", "creationTimestamp": CREATED}
    condition = {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "none"}
    spec = {"minReplicas": 1, "maxReplicas": 3}
    obj = {"metadata": metadata, "spec": spec, "status": {"conditions": [{**condition, "lastTransitionTime": LATER}]}}
    return _named(obj, "serve", "serve", "inference")


def _quota(name: str) -> Object:
    labels = {**MANAGED, "runwhere.ai/quota": name}
    hard = {"requests.cpu": "10", "limits.cpu": "10", "requests.nvidia.com/gpu": "4", "pods": "9"}
    used = {"requests.cpu": "500m", "limits.cpu": "1", "requests.nvidia.com/gpu": "5", "pods": "1"}
    metadata = {"name": f"{name}-ml", "namespace": "ml", "labels": labels, "creationTimestamp": CREATED}
    return {"metadata": metadata, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}


def _declaration(name: str, nodes: str) -> Object:
    labels = {**MANAGED, "runwhere.ai/pool": name}
    annotations = {"runwhere.ai/description": "a pool"}
    metadata = {"name": f"pool-{name}", "namespace": "gpuctl-system", "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "data": {"nodes": nodes}}


def _node(name: str, **fields: Any) -> Object:
    pool = {"runwhere.ai/pool": "a100", "runwhere.ai/gpu-type": "A100"}
    obj = node(name, labels=pool, taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}], **fields)
    return {**obj, "metadata": {**obj["metadata"], "uid": f"uid-{name}"}}


DRIVER = "gpu.nvidia.com"


def _slice(name: str, node: str, **spec: Any) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **spec}}


def _device(name: str) -> Object:
    slices = {"counterSet": "c0", "counters": {"slices": {"value": "1"}}}
    return {
        "name": name,
        "attributes": {"type": {"string": "gpu"}, "index": {"int": 1}, "healthy": {"bool": True}},
        "capacity": {"memory": {"value": "80Gi"}},
        "taints": [{"key": "example.com/sick", "value": "ecc", "effect": "NoSchedule"}],
        "consumesCounters": [slices],
    }


def _claim(name: str, pods: list[Object], *devices: str) -> Object:
    selectors = [{"cel": {"expression": f"device.attributes['{DRIVER}'].type == 'gpu'"}}]
    tolerations = [{"key": "example.com/sick", "operator": "Exists"}]
    exactly = {"deviceClassName": DRIVER, "count": 1, "allocationMode": "ExactCount", "selectors": selectors}
    request = {"name": "r", "exactly": {**exactly, "tolerations": tolerations}}
    results = [{"driver": DRIVER, "pool": "n1", "device": device, "request": "r"} for device in devices]
    return {
        "metadata": {"name": name, "namespace": "ml", "annotations": {"a": "b"}},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": pods},
    }


WORLD: World = {
    "resourceslices": [
        _slice("s1", "n1", devices=[_device("gpu-0"), _device("gpu-1")]),
        _slice("s2", "n1", sharedCounters=[{"name": "c0", "counters": {"slices": {"value": "2"}}}]),
    ],
    "resourceclaims": [
        _claim("train-gpus", []),
        _claim("lab-gpus", [{"resource": "pods", "name": "lab-0", "uid": "uid-lab-0"}], "gpu-0"),
    ],
    "deviceclasses": [
        {
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
        }
    ],
    "jobs": [_job("train"), _job("big", active=2, ready=1, succeeded=1, uncountedTerminatedPods={"succeeded": ["u"]})],
    "deployments": [_service_workload("Deployment", "serve", "inference")],
    "statefulsets": [_service_workload("StatefulSet", "lab", "notebook")],
    "pods": _pods(),
    "events": _events(),
    "services": [_service("serve", "inference"), _service("lab", "notebook")],
    "horizontalpodautoscalers": [_autoscaler()],
    "nodes": [_node("n1"), _node("n2", ready="False"), _node("n3", cordoned=True)],
    "resourcequotas": [_quota("team"), _quota("other")],
    "configmaps": [_declaration("a100", "n1: A100\nn2:\n"), _declaration("h100", "n3: H100\n")],
    "secrets": [{"metadata": {"name": "s", "namespace": "ml"}, "data": {"k": "dG9rZW4="}}],
}
del WORLD["jobs"][0]["status"]["conditions"]  # one that is pending

ANYTHING: tuple[Any, ...] = (
    None,
    5,
    -1.5,
    10**30,
    True,
    "",
    "odd",
    "1e99",
    "9" * 5000,
    "0000-01-01T00:00:00Z",
    "{[(\n*\\",
    [],
    [5],
    [None],
    {},
    {"odd": 1},
    {"name": None},
)
REMOVED = object()


class _Transport:
    """A server that has the objects of a world, and answers each list with all of a kind that the namespace has."""

    def __init__(self, world: World) -> None:
        self.world = world

    def request(
        self,
        method: str,
        path: str,
        expected: Any,
        query: Mapping[str, str] | None = None,
        weigh: Callable[[int], None] = lambda memory: None,
        **_: Any,
    ) -> Object:
        assert method == "GET", f"a module that only reads sent {method} {path}"
        weigh(0)
        plural = next((part for part in path.split("/") if part in self.world), path.rpartition("/")[2])
        if not expected.kind.endswith("List"):
            return copy.deepcopy(self.world[plural][0])
        items = self.world.get(plural, [])
        fields = (query or {}).get("fieldSelector") or ""
        if plural == "events" and fields == "reason=Preempted":
            items = items[3:]
        return {"kind": expected.kind, "metadata": {"resourceVersion": "9"}, "items": copy.deepcopy(items)}

    def send(self, method: str, path: str, consume: Callable[[Any], Any], *_: Any, **__: Any) -> Any:
        assert (method, path.rpartition("/")[2]) == ("GET", "log")
        return consume(_Log())

    def begin_task(self) -> None:
        pass


class _Log:
    """A log of one line."""

    def stream(self, size: int) -> Iterator[bytes]:
        return iter([b"2026-01-01T00:00:01.0Z hello\n"])

    def close(self) -> None:
        pass


class _Silence:
    """A watch that brings nothing."""

    silent = True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def stop(self) -> None:
        pass


class _Client(Client):
    def __init__(self, world: World) -> None:
        super().__init__(Connection("http://localhost", authorization=dict))
        self.transport = _Transport(world)  # type: ignore[assignment]

    def watch(self, *args: Any, **options: Any) -> Any:
        return _Silence()


def _run(module: ModuleSpec[Any], world: World, **options: Any) -> tuple[Object, list[str]]:
    """The result of a module, and its warnings."""
    warnings: list[str] = []
    task = Task(
        module.options(**options), {}, False, warnings.append, lambda values: None, opened_client=_Client(world)
    )
    return run_task(task, module), warnings


def _wait(world: World) -> tuple[Object, list[str]]:
    """What a wait says about each job, without what it reads of its threads."""
    warnings: list[str] = []
    client = _Client(world)
    task: Task[Any] = Task(None, {}, False, warnings.append, lambda values: None, opened_client=client)
    kinds = {"train": "Job", "big": "Job", "serve": "Deployment", "lab": "StatefulSet"}
    targets = [WaitTarget(("ml", name), kind, title=name) for name, kind in kinds.items()]
    found = wait_for_jobs(task, READY, targets, timeout=0.0, keep_going=True, new_nodes=False)
    wait_for_jobs(task, DELETED, targets, timeout=0.0, keep_going=True, new_nodes=False)
    task.warn_of_malformed_objects()
    rows = [{"name": job[1], "reason": error} for job, error in found.errors.items()]
    return {"results": rows}, warnings


def _inventory(world: World) -> tuple[Object, list[str]]:
    client = _Client(world)
    options = NodeInfoOptions()
    task = Task(options, {}, False, lambda text: None, lambda values: None, opened_client=client)
    nodes = select_nodes(task, slim_node)
    rows = [{"node_name": one.name, **host_variables(one)} for one in nodes]
    return {"results": rows}, [odd.sentence for odd in client.malformed_objects.values()]


def _info(world: World) -> tuple[Object, list[str]]:
    result, warnings = _run(job_info.MODULE, world, all_namespaces=True, pods=True, details=True, show_token=True)
    for row in result.get("results", ()):
        row.pop("age")
        for entry in (*row.get("pods", ()), *row.get("events", ())):
            entry.pop("age")
    return result, warnings


def _log(world: World) -> tuple[Object, list[str]]:
    """The log of a job, whose pods are those of all jobs here."""
    own = {**world, "pods": [_as_of("lab", one) for one in world["pods"]]}
    return _run(follow_log.MODULE, own, name="lab", namespace="ml")


def _as_of(job: str, obj: Object) -> Object:
    """The pod as one of another job, where it still has labels."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if isinstance(metadata, dict) and isinstance(metadata.get("labels"), dict):
        return {**obj, "metadata": {**metadata, "labels": {**metadata["labels"], "app": job}}}
    return obj


# What a module is, which kinds it reads, the name of a row, and what of a row may depend on other objects.
_USE = ("gpu_used", "gpu_free", "cpu_used", "memory_used")
_TOTAL = ("gpu_total", "accelerators")
_DEVICES = "resourceslices resourceclaims deviceclasses"
_WORKLOADS = f"jobs deployments statefulsets pods events nodes {_DEVICES}"
Reader = Callable[[World], tuple[Object, list[str]]]
READERS: dict[str, tuple[Reader, str, str, tuple[str, ...]]] = {
    "job_info": (
        _info,
        f"{_WORKLOADS} services horizontalpodautoscalers secrets",
        "name",
        ("reason", "access_urls"),
    ),
    "job_log": (_log, "pods events jobs", "pod", ()),
    "wait": (_wait, f"{_WORKLOADS} resourcequotas", "name", ("reason",)),
    "node_info": (
        lambda world: _run(node_info.MODULE, world, full=True),
        f"nodes pods {_DEVICES}",
        "node_name",
        (*_USE, *_TOTAL),
    ),
    "pool_info": (lambda world: _run(pool_info.MODULE, world), f"nodes pods configmaps {_DEVICES}", "name", ()),
    "quota_info": (lambda world: _run(quota_info.MODULE, world, all_namespaces=True), "resourcequotas", "name", ()),
    "inventory": (
        _inventory,
        f"nodes pods {_DEVICES}",
        "node_name",
        tuple(f"gpuctl_{name}" for name in (*_USE, *_TOTAL)),
    ),
}


def _places(plural: str) -> Iterator[Place]:
    def below(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield path
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for step, item in items:
            yield from below(item, (*path, step))

    for number, obj in enumerate(WORLD[plural]):
        for path in below(obj, ()):
            yield plural, number, path


def _mutant(place: Place, value: Any) -> World:
    plural, number, path = place
    world = {**WORLD, plural: list(WORLD[plural])}
    if not path:
        world[plural][number] = value if value is not REMOVED else None
        return world
    obj = world[plural][number] = copy.deepcopy(world[plural][number])
    for step in path[:-1]:
        obj = obj[step]
    if value is REMOVED:
        del obj[path[-1]]
    else:
        obj[path[-1]] = value
    return world


def _cases(reader: str) -> list[tuple[Place, Any]]:
    kinds = READERS[reader][1].split()
    every = [(place, value) for plural in kinds for place in _places(plural) for value in (*ANYTHING, REMOVED)]
    return random.Random(13).sample(every, min(MUTANTS, len(every)))


def _rows(result: Object, name: str, fragile: tuple[str, ...]) -> dict[str, Object]:
    return {
        str(row[name]): {key: value for key, value in row.items() if key not in fragile}
        for row in result.get("results", ())
    }


def _concerned(place: Place) -> set[str]:
    """The names of rows that the mutated object is, or belongs to; and of the pool that it is in."""
    obj = WORLD[place[0]][place[1]]
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    about = (obj.get("involvedObject") or {}).get("name", "")
    owners = {job for job in ("train", "big", "serve", "lab") if about.startswith(job)}
    return {metadata["name"], labels.get("app", ""), labels.get("runwhere.ai/quota", ""), *owners}


@pytest.mark.parametrize("reader", READERS)
def test_one_malformed_object_ends_no_task_and_changes_no_other_row(reader):
    read, _kinds, name, fragile = READERS[reader]
    normal, warnings = read(WORLD)
    assert not normal.get("failed"), normal
    assert warnings == []
    expected = _rows(normal, name, fragile)
    for place, value in _cases(reader):
        found, _warnings = read(_mutant(place, value))
        case = f"{place[0]}[{place[1]}] {'.'.join(map(str, place[2]))} = {str(value)[:40]}"
        assert not found.get("failed"), f"{case}: {found.get('msg')}\n{found.get('exception')}"
        rows = _rows(found, name, fragile)
        if reader == "pool_info":  # Pools are sums over nodes and pods.
            assert {"a100", "default", "h100"} <= {*rows, *_pool_of(place)}, case
            continue
        for key, row in expected.items():
            if key not in _concerned(place):
                assert rows.get(key) == row, f"{case}: another row has changed: {key}"


def _pool_of(place: Place) -> set[str]:
    return {"a100", "h100"} if place[0] in ("configmaps", "nodes", "pods") else set()


def test_what_cannot_be_read_is_a_row_that_says_so():
    world = _mutant(("jobs", 0, ("spec", "template", "spec", "containers")), "none")
    found, warnings = _info(world)
    row = next(row for row in found["results"] if row["name"] == "train")
    assert row["status"] == "Unknown"
    assert row["reason"] == (
        "Job train in namespace ml cannot be read: spec.template.spec.containers: a string instead of a list. Correct "
        "or delete it. kubectl get job train --namespace ml --output yaml shows it."
    )
    assert warnings == [row["reason"]]
    assert {row["name"] for row in found["results"]} == {"train", "big", "serve", "lab"}


@pytest.mark.parametrize(
    ("module", "options", "place", "key"),
    [
        (node_info.MODULE, {}, ("nodes", 0, ("status", "allocatable", "cpu")), "node_name"),
        (quota_info.MODULE, {"all_namespaces": True}, ("resourcequotas", 0, ("spec", "hard", "pods")), "namespace"),
    ],
    ids=["a node", "a quota"],
)
def test_quantities_that_are_none_are_a_row_that_says_so(module, options, place, key):
    found, _warnings = _run(module, _mutant(place, "many"), **options)
    odd = [row for row in found["results"] if row["problem"]]
    assert len(odd) == 1
    assert odd[0][key]
    assert "'many' instead of a quantity" in odd[0]["problem"]


@pytest.mark.parametrize("nodes", ['{"n1": "A100"}', "- n1\n- n2", "n1: A100\n" + "x" * 1_000_000, "n1: [", "\x00"])
def test_a_declaration_that_a_person_has_spoilt_is_named_with_its_lines(nodes):
    found, _warnings = _run(pool_info.MODULE, _mutant(("configmaps", 0, ("data", "nodes")), nodes))
    problem = next(row["problem"] for row in found["results"] if row["name"] == "a100")
    assert "ConfigMap pool-a100 in namespace gpuctl-system" in problem
    assert "declare the pool again with gpuctl_pool" in problem
    assert all(row["problem"] is None for row in found["results"] if row["name"] != "a100")


def test_what_cannot_be_read_is_only_quoted_in_commands_if_it_is_a_name():
    world = _mutant(("jobs", 0, ("metadata", "name")), "x; rm -rf /")
    world["jobs"][0]["spec"] = None
    _found, warnings = _info(world)
    assert any("rm -rf" in text for text in warnings)
    assert not any("kubectl" in text for text in warnings if "rm -rf" in text)
