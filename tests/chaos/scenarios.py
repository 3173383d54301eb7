# SPDX-License-Identifier: BSD-2-Clause
"""What is done to a cluster, as data: what was there before, the task, and what is there afterwards.

In options and names, ``@ns`` stands for the namespace of the case, ``@other`` for another one of its own, ``@node1`` to
``@node4`` for its nodes. How the end looks in detail is not written here: a run without any fault shows it, and has to
leave the objects of ``leaves``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from integration import kubelet
from integration.api import PATHS, Api, eventually
from integration.manifests import compute, inference, notebook, training

from .places import SYSTEM, Place

Options = Mapping[str, Any]
# Those of every task: a request at a time makes the order of requests the same in every run.
COMMON = {"retries": 2, "request_timeout": 3}
IS_SHARED = "GPUCTL_TEST_KUBECONFIG" in os.environ
# Pods of a real cluster take seconds to become ready.
WAIT_SECONDS = 15 if IS_SHARED else 6


@dataclass(frozen=True)
class Do:
    """One task of a module."""

    module: str
    options: Options


Prepare = Callable[[Place], object]


@dataclass(frozen=True)
class Scenario:
    """``leaves`` has all objects of the end (``Job @ns/train``), ``keeps`` those that are the same ones as before.

    ``again`` is what the third run does where the action is not meant to change nothing the second time (a restart).
    ``rivals`` is what other writers do meanwhile. An ``atomic`` action that fails leaves nothing. ``slow_pods``: pods
    take long enough to start that a task that waits has to watch.
    """

    name: str
    action: Do
    setup: tuple[Do | Prepare, ...] = ()
    leaves: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    again: Do | None = None
    rivals: tuple[Do, ...] = ()
    cluster_wide: bool = False
    atomic: bool = False
    slow_pods: bool = False

    @property
    def deletes(self) -> bool:
        return self.action.options.get("state") == "absent"


def job(definition: Any = None, **options: Any) -> Do:
    given = {"definition": definition} if definition is not None else {}
    return Do(
        "gpuctl_job", {**COMMON, "concurrency": 1, "namespace": "@ns", "wait_timeout": WAIT_SECONDS, **given, **options}
    )


def pool(definition: Any = None, **options: Any) -> Do:
    given = {"definition": definition} if definition is not None else {}
    return Do("gpuctl_pool", {**COMMON, "concurrency": 1, **given, **options})


def quota(definition: Any = None, **options: Any) -> Do:
    given = {"definition": definition} if definition is not None else {}
    return Do("gpuctl_quota", {**COMMON, "concurrency": 1, **given, **options})


def labels(**options: Any) -> Do:
    return Do("gpuctl_node_label", {**COMMON, "concurrency": 1, **options})


def rbac(**options: Any) -> Do:
    return Do("gpuctl_rbac", {**COMMON, "name": "chaos-ci", **options})


def workspace(**options: Any) -> Do:
    return Do("gpuctl_workspace", {**COMMON, "namespace": "@ns", **options})


def policy(**options: Any) -> Do:
    return Do("gpuctl_policy", {**COMMON, **options})


def stack(**options: Any) -> Do:
    return Do("gpuctl_stack", {**COMMON, "name": "chaos", **options})


# -- manifests

V2 = {"image": "registry.example.com/ml:v2"}
V3 = {"image": "registry.example.com/ml:v3"}


def deepspeed(**blocks: Any) -> dict[str, Any]:
    blocks.setdefault("resources", {"node_count": 2})
    return training("train", distributed={"backend": "deepspeed", "deepspeed": "zero2"}, **blocks)


def scaled(**blocks: Any) -> dict[str, Any]:
    return inference("serve", autoscaling={"min_replicas": 2, "max_replicas": 4}, **blocks)


def served(**blocks: Any) -> dict[str, Any]:
    return inference("serve", service={"replicas": 2}, **blocks)


def batch(**blocks: Any) -> list[dict[str, Any]]:
    small = {"cpu": 1, "memory": "1Gi", "gpu": 0}
    return [
        training("one", resources=small, **blocks),
        deepspeed(resources={**small, "node_count": 2}, **blocks),
        inference("three", resources=small, autoscaling={"min_replicas": 1, "max_replicas": 2}, **blocks),
        notebook("four", resources=small, **blocks),
        compute("five", **blocks),
        compute("six", service={"replicas": 2}, **blocks),
    ]


def pool_manifest(name: str, *nodes: str, gpu_type: str | None = None) -> dict[str, Any]:
    return {
        "kind": "pool",
        "pool": {"name": f"chaos-{name}"},
        "nodes": {node: {"gpu-type": gpu_type} if gpu_type else None for node in nodes},
    }


def quota_manifest(**limits: Any) -> dict[str, Any]:
    return {"kind": "quota", "quota": {"name": "chaos"}, "namespace": limits}


def policy_manifest(most: int) -> dict[str, Any]:
    return {
        "kind": "policy",
        "policy": {"name": "chaos"},
        "teams": {"chaos": {"namespaces": ["@ns"], "max_gpus": most}},
    }


def device_plugin(image: str, *names: str) -> list[dict[str, Any]]:
    labels = {"app": "plugin"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin", "namespace": "@ns"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    settings = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "@ns"}, "data": {"a": image}}
        for name in names
    ]
    return [daemons, *settings]


ROOM = {
    "claim": {"size": "5Gi", "storage_class": "fast"},
    "registry": {"server": "registry.example.com", "username": "robot", "password": "secret-of-chaos"},
    "object_counts": {"configmaps": 50},
}
ROOM_LEFT = frozenset(
    {"PersistentVolumeClaim @ns/data", "Secret @ns/gpuctl-registry", "ResourceQuota @ns/gpuctl-object-counts"}
)

# -- what is there before

_THEIRS = "theirs"


def unmanaged(place: Place) -> None:
    """Unmanaged objects and labels, some of which look like ours."""
    namespace = place.names["@ns"]
    metadata = {"name": _THEIRS, "namespace": namespace, "labels": {"app": "train"}}
    place.api.create(
        "configmap", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}, namespace
    )
    service = {"ports": [{"port": 80}], "selector": {"app": "theirs"}}
    place.api.create(
        "service", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}, namespace
    )
    for node in place.nodes[:1] if place.cluster_wide else ():
        place.api.patch("node", node, {"metadata": {"labels": {"chaos.example.com/rack": "r1"}}})


def system(place: Place) -> None:
    """The namespace and the Lease of pools, which the first run of a cluster makes."""
    metadata = {"labels": {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}}
    place.api.call("POST", PATHS["namespace"], {"metadata": {"name": SYSTEM, **metadata}})
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "pools", **metadata}}
    place.api.call("POST", leases, body)


def finished(place: Place) -> None:
    """The training ends well."""
    namespace = place.names["@ns"]
    kubelet.ended(place.api, namespace, "train")
    eventually(lambda: "Complete" in _conditions(place.api, namespace))


def removed(place: Place) -> None:
    """The time to live of the training passes, and the garbage collector has removed what belonged to it."""
    namespace = place.names["@ns"]
    configs = place.api.list("configmap", namespace)
    owned = [obj["metadata"]["name"] for obj in configs if "ownerReferences" in obj["metadata"]]
    place.api.delete("job", "train", namespace)
    eventually(lambda: place.api.get("job", "train", namespace) is None)
    eventually(lambda: not any(place.api.get("configmap", name, namespace) for name in owned))


def started(place: Place) -> None:
    """The job has pods; they may be on their way."""
    eventually(lambda: place.api.list("pod", place.names["@ns"]))


def days_ago(place: Place) -> None:
    """The trainings were submitted three days ago, as the ledger has it: more than their time to live."""
    namespace = place.names["@ns"]
    ledger = place.api.get("configmap", "gpuctl-ledger", namespace)
    data = {name: {**json.loads(text), "submitted_at": "2020-01-01T00:00:00Z"} for name, text in ledger["data"].items()}
    place.api.patch("configmap", "gpuctl-ledger", {"data": {k: json.dumps(v) for k, v in data.items()}}, namespace)


def _conditions(api: Api, namespace: str) -> set[str]:
    found = api.get("job", "train", namespace) or {}
    return {each["type"] for each in found.get("status", {}).get("conditions") or () if each["status"] == "True"}


# -- what is there afterwards

LEDGER = "ConfigMap @ns/gpuctl-ledger"
COPY = "ControllerRevision @ns/"  # of what is restarted
TRAIN = frozenset({"Job @ns/train", LEDGER})
DEEPSPEED = TRAIN | {"Service @ns/svc-train", "ConfigMap @ns/train-hostfile", "ConfigMap @ns/train-deepspeed"}
SERVE = frozenset({"Deployment @ns/serve", "Service @ns/svc-serve"})
SCALED = SERVE | {"HorizontalPodAutoscaler @ns/serve"}
WEB = frozenset({"Deployment @ns/web", "Service @ns/svc-web"})
LAB = frozenset({"StatefulSet @ns/lab", "Service @ns/svc-lab"})
BATCH = frozenset(
    {
        "Job @ns/one",
        *DEEPSPEED,
        "Deployment @ns/three",
        "Service @ns/svc-three",
        "HorizontalPodAutoscaler @ns/three",
        "StatefulSet @ns/four",
        "Service @ns/svc-four",
        "Deployment @ns/five",
        "Service @ns/svc-five",
        "Deployment @ns/six",
        "Service @ns/svc-six",
    }
)
POOLS = ("@node1", "@node2", "@node3")
WAIT = {"wait": True, "wait_timeout": WAIT_SECONDS}
A, B, C = POOLS

_OTHER_TRAINING = (job(deepspeed(environment=V3)), job(name="train", kind="training", state="absent"))
_OTHER_SERVICE = (job(served(environment=V3)), job(name="serve", kind="inference", state="absent"))

# A policy decides over the jobs of all cases, so these run where each has a cluster of its own.
POLICIES = (
    Scenario("policy-create", policy(definition=policy_manifest(8)), cluster_wide=True),
    Scenario(
        "policy-change",
        policy(definition=policy_manifest(4)),
        (policy(definition=policy_manifest(8)),),
        cluster_wide=True,
    ),
    Scenario(
        "policy-delete",
        policy(name="chaos", state="absent"),
        (policy(definition=policy_manifest(8)),),
        cluster_wide=True,
    ),
)
SCENARIOS: tuple[Scenario, ...] = (
    # jobs that are new
    Scenario("training-new", job(training()), leaves=TRAIN, rivals=(job(deepspeed(environment=V3)),)),
    Scenario(
        "deepspeed-new", job(deepspeed()), leaves=DEEPSPEED, rivals=(job(training(environment=V3)), job(deepspeed()))
    ),
    Scenario("inference-new", job(scaled(), **WAIT), leaves=SCALED, slow_pods=True, rivals=_OTHER_SERVICE),
    Scenario("notebook-new", job(notebook()), leaves=LAB, rivals=(job(notebook(environment=V3)),)),
    Scenario("compute-new", job(compute(), **WAIT), leaves=WEB, slow_pods=True, rivals=(job(compute(environment=V3)),)),
    # with a wait, until pods have started, restarted or ended
    Scenario("training-wait", job(deepspeed(), **WAIT), leaves=DEEPSPEED, slow_pods=True),
    Scenario("notebook-wait", job(notebook(), **WAIT, wait_for="scheduled"), leaves=LAB, slow_pods=True),
    Scenario(
        "inference-restart-wait",
        job(name="serve", state="restarted", **WAIT),
        (job(served()), started),
        SERVE,
        SERVE,
        again=job(served()),
        slow_pods=True,
    ),
    Scenario(
        "training-pause-wait",
        job(name="train", state="paused", **WAIT),
        (job(deepspeed()), started),
        DEEPSPEED,
        DEEPSPEED,
        slow_pods=True,
    ),
    Scenario(
        "inference-delete-wait",
        job(name="serve", state="absent", **WAIT),
        (job(served()), started),
        slow_pods=True,
    ),
    # in place
    Scenario("inference-update", job(scaled(environment=V2)), (job(scaled()),), SCALED, SCALED, rivals=_OTHER_SERVICE),
    Scenario("inference-unscale", job(served()), (job(scaled()),), SERVE, SERVE, rivals=(job(scaled(environment=V3)),)),
    Scenario(
        "compute-scale", job(name="web", replicas=3), (job(compute()),), WEB, WEB, rivals=(job(name="web", replicas=2),)
    ),
    Scenario(
        "training-pause",
        job(name="train", state="paused"),
        (job(deepspeed()), started),
        DEEPSPEED,
        DEEPSPEED,
        rivals=(job(name="train", state="absent"), job(deepspeed(environment=V3))),
    ),
    Scenario(
        "training-resume",
        job(name="train", state="resumed"),
        (job(deepspeed()), job(name="train", state="paused")),
        DEEPSPEED,
        DEEPSPEED,
    ),
    Scenario(
        "inference-pause",
        job(name="serve", state="paused"),
        (job(served()), started),
        SERVE,
        SERVE,
        rivals=(job(served(environment=V3)),),
    ),
    Scenario(
        "inference-resume",
        job(name="serve", state="resumed"),
        (job(served()), job(name="serve", state="paused")),
        SERVE,
        SERVE,
    ),
    # recreated
    Scenario(
        "training-recreate",
        job(deepspeed(environment=V2)),
        (job(deepspeed()), started),
        DEEPSPEED,
        rivals=_OTHER_TRAINING,
    ),
    # Its priority is not part of the digest of a manifest in the ledger.
    Scenario(
        "training-recreate-old",
        job(deepspeed(job={"name": "train", "priority": "high"})),
        (job(deepspeed()), started, days_ago),
        DEEPSPEED,
        rivals=_OTHER_TRAINING,
    ),
    Scenario(
        "training-restart",
        job(name="train", state="restarted"),
        (job(deepspeed()), started),
        DEEPSPEED,
        again=job(deepspeed()),
        rivals=_OTHER_TRAINING,
    ),
    Scenario(
        "training-restart-old",
        job(name="train", state="restarted"),
        (job(deepspeed()), started, days_ago),
        DEEPSPEED,
        again=job(deepspeed()),
    ),
    Scenario(
        "inference-restart",
        job(name="serve", state="restarted"),
        (job(served()), started),
        SERVE,
        SERVE,
        again=job(served()),
        rivals=(job(served(environment=V3)),),
    ),
    Scenario(
        "kind-change",
        job(notebook("web")),
        (job(compute("web")), started),
        frozenset({"StatefulSet @ns/web", "Service @ns/svc-web"}),
        rivals=(job(compute("web", environment=V3)),),
    ),
    Scenario(
        "training-finished",
        job(deepspeed()),
        (job(deepspeed()), finished, job(deepspeed()), removed),
        frozenset({LEDGER}),
    ),
    Scenario(
        "training-changed",
        job(deepspeed(environment=V2)),
        (job(deepspeed()), finished, job(deepspeed())),
        DEEPSPEED,
        rivals=(job(deepspeed(environment=V3)),),
    ),
    # the end
    Scenario(
        "training-delete",
        job(name="train", state="absent"),
        (job(deepspeed()), started),
        frozenset({LEDGER}),
        rivals=(job(deepspeed(environment=V3)),),
    ),
    Scenario(
        "inference-delete",
        job(name="serve", state="absent"),
        (job(scaled()), started),
        rivals=(job(scaled(environment=V3)),),
    ),
    # many
    Scenario(
        "batch-new", job(batch(), concurrency=4), leaves=BATCH, rivals=(job(batch(environment=V3), concurrency=4),)
    ),
    Scenario("batch-recreate", job(batch(environment=V2), concurrency=4), (job(batch()), started), BATCH),
    Scenario("batch-delete", job(batch(), state="absent", concurrency=4), (job(batch()), started), frozenset({LEDGER})),
    # what belongs to the whole cluster
    Scenario(
        "pool-create",
        pool([pool_manifest("a", A, B, gpu_type="L4"), pool_manifest("b", C)]),
        (system,),
        frozenset({"ConfigMap gpuctl-system/pool-chaos-a", "ConfigMap gpuctl-system/pool-chaos-b"}),
        rivals=(pool([pool_manifest("c", B, C)]),),
        cluster_wide=True,
        atomic=True,
    ),
    Scenario(
        "pool-move",
        pool([pool_manifest("a", A), pool_manifest("b", B, C)]),
        (system, pool([pool_manifest("a", A, B), pool_manifest("b", C)])),
        frozenset({"ConfigMap gpuctl-system/pool-chaos-a", "ConfigMap gpuctl-system/pool-chaos-b"}),
        rivals=(pool([pool_manifest("a", C), pool_manifest("b", A, B)]),),
        cluster_wide=True,
        atomic=True,
    ),
    Scenario(
        "pool-delete",
        pool(name="chaos-a", state="absent"),
        (system, pool([pool_manifest("a", A, B), pool_manifest("b", C)])),
        frozenset({"ConfigMap gpuctl-system/pool-chaos-b"}),
        rivals=(pool([pool_manifest("a", A, B, C, gpu_type="T4"), pool_manifest("b")]),),
        cluster_wide=True,
        atomic=True,
    ),
    Scenario(
        "node-labels",
        labels(nodes=[A, B, C], labels={"zone": "z1", "pool": "chaos-a"}),
        (system, pool([pool_manifest("a", A)])),
        frozenset({"ConfigMap gpuctl-system/pool-chaos-a"}),
        rivals=(labels(nodes=[C], labels={"zone": "z2", "pool": "chaos-b"}, overwrite=True),),
        cluster_wide=True,
        atomic=True,
    ),
    Scenario(
        "quota-create",
        quota(quota_manifest(**{"@ns": {"cpu": 9, "gpu": 4}, "@other": {"memory": "9Gi"}})),
        leaves=frozenset(
            {
                "ResourceQuota @ns/chaos-@ns",
                "LimitRange @ns/chaos-@ns",
                "Namespace @other",
                "ResourceQuota @other/chaos-@other",
            }
        ),
        rivals=(quota(quota_manifest(**{"@ns": {"cpu": 7}})),),
        cluster_wide=True,
    ),
    Scenario(
        "quota-update",
        quota(quota_manifest(**{"@ns": {"cpu": 12, "gpu": 2}})),
        (quota(quota_manifest(**{"@ns": {"cpu": 9, "gpu": 4, "memory": "9Gi"}})),),
        frozenset({"ResourceQuota @ns/chaos-@ns", "LimitRange @ns/chaos-@ns"}),
        rivals=(quota(quota_manifest(**{"@ns": {"cpu": 7}})),),
        cluster_wide=True,
    ),
    Scenario(
        "quota-delete",
        quota(name="chaos", state="absent"),
        (quota(quota_manifest(**{"@ns": {"cpu": 9}, "@other": {"memory": "9Gi"}})),),
        frozenset({"Namespace @ns", "Namespace @other"}),
        rivals=(quota(quota_manifest(**{"@ns": {"cpu": 7}})),),
        cluster_wide=True,
    ),
    Scenario(
        "workspace-create",
        workspace(**ROOM),
        leaves=ROOM_LEFT,
        rivals=(workspace(object_counts={"configmaps": 70}),),
        cluster_wide=True,
    ),
    Scenario(
        "workspace-new-namespace",
        workspace(**{**ROOM, "namespace": "@other"}),
        leaves=frozenset({"Namespace @other", *(key.replace("@ns", "@other") for key in ROOM_LEFT)}),
        cluster_wide=True,
    ),
    Scenario(
        "workspace-update",
        workspace(**{**ROOM, "object_counts": {"configmaps": 70}, "tokens": {"hugging-face": "hf_secret-of-chaos"}}),
        (workspace(**ROOM),),
        ROOM_LEFT,
        cluster_wide=True,
    ),
    Scenario("workspace-delete", workspace(state="absent"), (workspace(**ROOM),), cluster_wide=True),
    Scenario(
        "stack-create",
        stack(objects=device_plugin("registry.example.com/plugin:v1", "settings")),
        leaves=frozenset({"DaemonSet @ns/plugin", "ConfigMap @ns/settings"}),
        cluster_wide=True,
    ),
    Scenario(
        "stack-change",
        stack(objects=device_plugin("registry.example.com/plugin:v2", "more")),
        (stack(objects=device_plugin("registry.example.com/plugin:v1", "settings")),),
        frozenset({"DaemonSet @ns/plugin", "ConfigMap @ns/more"}),
        keeps=frozenset({"DaemonSet @ns/plugin"}),
        cluster_wide=True,
    ),
    Scenario(
        "stack-delete",
        stack(state="absent"),
        (stack(objects=device_plugin("registry.example.com/plugin:v1", "settings")),),
        cluster_wide=True,
    ),
    *(() if IS_SHARED else POLICIES),
    Scenario(
        "rbac-create",
        rbac(level="submit", namespaces=["@ns"]),
        (system,),
        frozenset({"ServiceAccount gpuctl-system/chaos-ci"}),
        rivals=(rbac(level="read", namespaces=["@ns"]),),
        cluster_wide=True,
    ),
    Scenario(
        "rbac-change",
        # The level administer reaches all namespaces, those of other cases too.
        rbac(level="read", namespaces=["@ns"]) if IS_SHARED else rbac(level="administer"),
        (system, rbac(level="submit", namespaces=["@ns"])),
        frozenset({"ServiceAccount gpuctl-system/chaos-ci"}),
        rivals=(rbac(level="read", namespaces=["@ns"]),),
        cluster_wide=True,
    ),
    Scenario(
        "rbac-delete",
        rbac(state="absent"),
        (system, rbac(level="submit", namespaces=["@ns"])),
        cluster_wide=True,
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def in_place(do: Do, place: Place) -> dict[str, Any]:
    """The options of a task with the names of a place."""
    words = {**place.names, **{f"@node{n}": node for n, node in enumerate(place.nodes, 1)}}
    text = json.dumps(do.options)
    for word, name in words.items():
        text = text.replace(word, name)
    options: dict[str, Any] = json.loads(text)
    return options


def prepare(scenario: Scenario, place: Place, run: Callable[[Do], None]) -> None:
    """Bring the place to where the scenario begins."""
    unmanaged(place)
    for step in scenario.setup:
        if isinstance(step, Do):
            run(step)
        else:
            step(place)
