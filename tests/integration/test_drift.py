# SPDX-License-Identifier: BSD-2-Clause
"""Drift planted in all ways that people have is in one report, with who did it; the work of controllers is not."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.drift import drift_info, restore
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import READ
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import pool
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, run_task

from .accounts import account
from .ansible import Ansible, Run
from .api import PATHS, Api, eventually
from .kubelet import ended
from .manifests import compute, inference, notebook, training
from .namespaces import remove_namespaces, unused_namespace
from .pools import POOL, SYSTEM, Field
from .pools import manifest as pool_manifest
from .recorder import Recorder

Row = dict[str, Any]
STRATEGIC, MERGE, APPLY = (
    "application/strategic-merge-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclass
class World:
    """A cluster, and a directory that declares all kinds of things in it."""

    api: Api
    field: Field
    kubeconfig: Path
    directory: Path
    team: str
    other: str
    requests: Recorder
    source: str = "cluster"  # the name of the directory
    warnings: list[str] = field(default_factory=list)

    def run(self, module: ModuleSpec[Any], *, check: bool = False, **options: Any) -> Row:
        """A task of a module, in this process."""
        self.warnings = []
        task = Task(
            module.options(**options),
            {"kubeconfig": str(self.kubeconfig)},
            check,
            self.warnings.append,
            lambda values: None,
            environ={},
        )
        return run_task(task, module)

    def apply(self, module: ModuleSpec[Any], **options: Any) -> Row:
        result = self.run(module, **options)
        assert not result.get("failed"), result["msg"]
        return result

    def provision(self) -> None:
        src = [str(self.directory)]
        self.apply(pool.MODULE, src=src, allow_empty=True, source=self.source)
        self.apply(quota.MODULE, src=src, allow_empty=True, source=self.source)
        self.apply(job.MODULE, src=src, allow_empty=True, source=self.source)

    def drift(self, **options: Any) -> Row:
        return self.run(drift_info.MODULE, src=[str(self.directory)], source=self.source, **options)

    def write(self, name: str, *manifests: Row) -> None:
        (self.directory / name).write_text(yaml.safe_dump_all(manifests))

    def patch(
        self, manager: str, kind: str, name: str, body: Any, namespace: str = "", content: str = STRATEGIC
    ) -> None:
        self.request("PATCH", manager, kind, name, body, namespace, content)

    def request(
        self, method: str, manager: str, kind: str, name: str, body: Any, namespace: str = "", content: str = STRATEGIC
    ) -> None:
        force = "&force=true" if content == APPLY else ""
        path = f"{PATHS[kind].format(namespace)}/{name}?fieldManager={manager}{force}"
        status, answer = self.api.call(method, path, body, content)
        assert status in (200, 201), answer

    def scale(self, manager: str, kind: str, name: str, replicas: int) -> None:
        self.request("PATCH", manager, kind, f"{name}/scale", {"spec": {"replicas": replicas}}, self.team, MERGE)


@pytest.fixture
def world(api: Api, field: Field, recorder: Recorder, tmp_path: Path) -> Iterator[World]:
    team, other = unused_namespace(), unused_namespace()
    found = World(api, field, recorder.kubeconfig, tmp_path / "cluster", team, other, recorder)
    found.directory.mkdir()
    declare(found)
    found.provision()
    yield found
    for node in field.nodes:
        api.patch("node", node, {"spec": {"taints": None, "unschedulable": None}})
    remove_namespaces(api, team, other)


def declare(world: World) -> None:
    nodes, team, pools = world.field.nodes, world.team, world.field.pool
    world.write(
        "pools.yaml",
        pool_manifest(pools("a"), [nodes[0], nodes[2]], description="the first"),
        pool_manifest(pools("b"), [nodes[1]]),
        pool_manifest(pools("old"), []),
    )
    limits = {"cpu": 64, "memory": "64Gi", "gpu": 6}
    world.write(
        "quotas.yaml",
        {"kind": "quota", "quota": {"name": pools("q")}, "pod_security": "privileged", "users": {team: limits}},
        {"kind": "quota", "quota": {"name": pools("other")}, "users": {world.other: limits}},
    )
    here: Row = {"namespace": team}
    hub = {"name": "HUB", "value_from": {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "ca.crt"}}}
    environment = {"env": [{"name": "A", "value": "1"}, {"name": "API_TOKEN", "value": "s3cr3t-v4lue"}, hub]}
    environment["env"] += [{"name": "B", "value": "2"}]
    keys = [{"name": name, "value_from": {"secretKeyRef": {"name": "keys", "key": "one"}}} for name in ("ONE", "TWO")]
    world.write(
        "jobs.yaml",
        compute("web", job=here, environment=environment, service={"replicas": 2, "port": 80}),
        compute("gone", job=here),
        compute("old", job=here),
        inference("serve", job=here, autoscaling={"min_replicas": 1, "max_replicas": 3}),
        notebook("lab", job=here, environment={"env": keys}, resources={"pool": pools("a")}),
        training("train", job=here),
    )


def container(**fields: Any) -> Row:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", **fields}]}}}}


def labels(key: str, value: str | None) -> Row:
    return {"metadata": {"labels": {key: value}}}


@dataclass(frozen=True)
class Plant:
    """What a user does, and its row: its object, field and change, and the field manager."""

    do: Callable[[World], Any]
    object: Callable[[World], str]
    field: str | None
    change: str
    manager: str | None


def of(kind: str, name: str) -> Callable[[World], str]:
    return lambda world: f"{kind}/{world.team}/{name}"


def on_job(
    kind: str, name: str, body: Row, field: str | None, change: str, manager: str, content: str = STRATEGIC
) -> Plant:
    word = {"deployment": "Deployment", "service": "Service", "statefulset": "StatefulSet", "job": "Job"}.get(kind)
    word = word or "HorizontalPodAutoscaler"
    return Plant(
        lambda world: world.patch(manager, kind, name, body, world.team, content),
        of(word, name),
        field,
        change,
        manager,
    )


def on_quota(kind: str, body: Row, field: str, change: str, manager: str) -> Plant:
    word = {"resourcequota": "ResourceQuota", "limitrange": "LimitRange"}[kind]

    def name(world: World) -> str:
        return f"{world.field.pool('q')}-{world.team}"

    return Plant(
        lambda world: world.patch(manager, kind, name(world), body, world.team, MERGE),
        lambda world: f"{word}/{world.team}/{name(world)}",
        field,
        change,
        manager,
    )


def on_node(number: int, body: Callable[[World], Row], field: str, change: str, manager: str | None) -> Plant:
    return Plant(
        lambda world: world.patch(manager or "kubectl-label", "node", world.field.nodes[number], body(world)),
        lambda world: f"Node/{world.field.nodes[number]}",
        field,
        change,
        manager,
    )


def foreign_apply(world: World) -> None:
    """What a deployer declares elsewhere, with all conflicts overwritten."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": world.team}}
    body["metadata"] |= {"labels": {"runwhere.ai/priority": "low"}}  # type: ignore[operator]
    world.patch("argocd-controller", "deployment", "web", body, world.team, APPLY)


def undeclare(name: str, keep: Callable[[World, Row], bool]) -> Callable[[World], None]:
    def do(world: World) -> None:
        path = world.directory / name
        path.write_text(
            yaml.safe_dump_all([each for each in yaml.safe_load_all(path.read_text()) if keep(world, each)])
        )

    return do


def look_alike(kind: str, name: str, job: str, manager: str, *, every: bool = False) -> Plant:
    """A workload of others that wears the name of a job, or ``every`` label, and takes GPUs."""

    def do(world: World) -> None:
        worn = world.api.get(kind, job, world.team)["metadata"]["labels"] if every else {"app": job}
        gpus = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        pod: Row = {"containers": [gpus], **({"restartPolicy": "Never"} if kind == "job" else {})}
        template = {"metadata": {"labels": {**worn, "mine": "yes"}}, "spec": pod}
        spec = (
            {"template": template}
            if kind == "job"
            else {"selector": {"matchLabels": {"mine": "yes"}}, "template": template}
        )
        body = {"metadata": {"name": name, "namespace": world.team, "labels": worn}, "spec": spec}
        status, answer = world.api.call("POST", f"{PATHS[kind].format(world.team)}?fieldManager={manager}", body)
        assert status == 201, answer

    return Plant(do, of("Job" if kind == "job" else "Deployment", name), None, "added", manager)


def foreign_autoscaler(world: World) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    body = {
        "metadata": {"name": "mine", "namespace": world.team},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9},
    }
    status, answer = world.api.call("POST", f"{PATHS['hpa'].format(world.team)}?fieldManager=kubectl-autoscale", body)
    assert status == 201, answer


def edit_pool(world: World) -> None:
    name = f"pool-{world.field.pool('a')}"
    body = {"metadata": {"annotations": {"runwhere.ai/description": "mine"}}}
    world.patch("kubectl-edit", "configmap", name, body, SYSTEM)


MAIN = "spec.template.spec.containers[main]"
PLANTS = {
    "scale": Plant(
        lambda world: world.scale("kubectl", "deployment", "web", 3), of("Deployment", "web"), "spec.replicas",
        "changed", "kubectl",
    ),
    "set image": on_job("deployment", "web", container(image="nginx:mine"), f"{MAIN}.image", "changed", "kubectl-set"),
    "set env": on_job(
        "deployment", "web", container(env=[{"name": "A", "value": "2"}]), f"{MAIN}.env[A].value", "changed",
        "kubectl-set",
    ),
    "edit the command": on_job(
        "deployment", "web", container(command=["sleep", "9"]), f"{MAIN}.command", "changed", "kubectl-edit"
    ),
    "edit a limit": on_job(
        "deployment", "web", container(resources={"limits": {"memory": "3Gi"}}), f"{MAIN}.resources.limits.memory",
        "changed", "kubectl-edit",
    ),
    "add a variable": on_job(
        "deployment", "web", container(env=[{"name": "EXTRA", "value": "x"}]), f"{MAIN}.env[EXTRA]", "added",
        "kubectl-patch",
    ),
    "add a container": on_job(
        "deployment", "web", {"spec": {"template": {"spec": {"containers": [{"name": "debug", "image": "sh"}]}}}},
        "spec.template.spec.containers[debug]", "added", "kubectl-debug",
    ),
    "label": on_job("deployment", "web", labels("owner", "me"), "metadata.labels.owner", "added", "kubectl-label"),
    "annotate": on_job(
        "deployment", "web", {"metadata": {"annotations": {"note": "mine"}}}, "metadata.annotations.note", "added",
        "kubectl-annotate",
    ),
    "ask for other nodes": on_job(
        "statefulset", "lab", {"spec": {"template": {"spec": {"nodeSelector": {"zone": "nowhere"}}}}},
        "spec.template.spec.nodeSelector", "changed", "kubectl-patch",
    ),
    "do without a setting": on_job(
        "deployment", "web",
        container(env=[{"name": "HUB", "valueFrom": {"configMapKeyRef": {"key": "ca.crt", "optional": True}}}]),
        f"{MAIN}.env[HUB].valueFrom.configMapKeyRef", "changed", "kubectl-edit",
    ),
    "send requests to other pods": on_job(
        "service", "svc-web", {"spec": {"selector": {"track": "canary"}}}, "spec.selector", "changed", "kubectl-patch"
    ),
    "pause a rollout": on_job(
        "deployment", "web", {"spec": {"paused": True}}, "spec.paused", "added", "kubectl-rollout"
    ),
    "foreign apply": Plant(
        foreign_apply, of("Deployment", "web"), "metadata.labels[runwhere.ai/priority]", "changed", "argocd-controller"
    ),
    "give a service account": on_job(
        "statefulset", "lab", {"spec": {"template": {"spec": {"serviceAccountName": "root"}}}},
        "spec.template.spec.serviceAccountName", "added", "Lens",
    ),
    "suspend a training": on_job("job", "train", {"spec": {"suspend": True}}, "spec.suspend", "added", "kubectl-patch"),
    "label a training": on_job(
        "job", "train", labels("runwhere.ai/priority", "high"), "metadata.labels[runwhere.ai/priority]", "changed",
        "kubectl-label",
    ),
    "open a service": on_job(
        "service", "svc-web", {"spec": {"sessionAffinity": "ClientIP"}}, "spec.sessionAffinity", "added", "kubectl-edit"
    ),
    "unlabel a service": Plant(
        lambda world: world.patch(
            "kubectl-label", "service", "svc-web", labels("runwhere.ai/pool", None), world.team, MERGE
        ),
        of("Service", "svc-web"), "metadata.labels[runwhere.ai/pool]", "removed", None,
    ),
    "edit an autoscaler": on_job("hpa", "serve", {"spec": {"maxReplicas": 9}}, "spec.maxReplicas", "changed", "k9s"),
    "delete a job": Plant(
        lambda world: world.api.delete("deployment", "gone", world.team), of("Deployment", "gone"), None, "missing",
        None,
    ),
    "delete a service": Plant(
        lambda world: world.api.delete("service", "svc-lab", world.team), of("Service", "svc-lab"), None, "missing",
        None,
    ),
    "raise a quota": on_quota(
        "resourcequota", {"spec": {"hard": {"requests.nvidia.com/gpu": "99"}}}, "spec.hard[requests.nvidia.com/gpu]",
        "changed", "kubectl-patch",
    ),
    "limit something else": on_quota(
        "resourcequota", {"spec": {"hard": {"pods": "7"}}}, "spec.hard.pods", "added", "kubectl-edit"
    ),
    "edit defaults": on_quota(
        "limitrange", {"spec": {"limits": [{"type": "Container", "default": {"cpu": "7"}}]}}, "spec.limits", "changed",
        "kubectl-edit",
    ),
    "secure a namespace otherwise": Plant(
        lambda world: world.patch(
            "kubectl-label", "namespace", world.team, labels("pod-security.kubernetes.io/enforce", "baseline")
        ),
        lambda world: f"Namespace/{world.team}", "metadata.labels[pod-security.kubernetes.io/enforce]", "changed",
        "kubectl-label",
    ),
    "delete a namespace": Plant(
        lambda world: delete_namespace(world), lambda world: f"Namespace/{world.other}", None, "missing", None
    ),
    "taint": on_node(
        0, lambda world: {"spec": {"taints": [{"key": "mine", "value": "x", "effect": "NoSchedule"}]}},
        "spec.taints[mine,NoSchedule]", "added", "kubectl-taint",
    ),
    "cordon": on_node(
        2, lambda world: {"spec": {"unschedulable": True}}, "spec.unschedulable", "added", "kubectl-cordon"
    ),
    "take a node out of its pool": on_node(
        0, lambda world: labels(POOL, None), f"metadata.labels[{POOL}]", "removed", None
    ),
    "move a node": on_node(
        1, lambda world: labels(POOL, world.field.pool("a")), f"metadata.labels[{POOL}]", "changed",
        "kubectl-label",
    ),
    "put a node into a pool that is not declared": on_node(
        3, lambda world: labels(POOL, world.field.pool("ghost")), f"metadata.labels[{POOL}]",
        "added", "kubectl-label",
    ),
    "edit a pool": Plant(
        edit_pool, lambda world: f"ConfigMap/{SYSTEM}/pool-{world.field.pool('a')}",
        "metadata.annotations[runwhere.ai/description]", "changed", "kubectl-edit",
    ),
    "let a Secret be missing": on_job(
        "statefulset", "lab",
        container(env=[{"name": "ONE", "valueFrom": {"secretKeyRef": {"key": "one", "optional": True}}}]),
        f"{MAIN}.env[ONE].valueFrom.secretKeyRef", "changed", "kubectl-edit",
    ),
    "read another key": on_job(
        "statefulset", "lab", container(env=[{"name": "TWO", "valueFrom": {"secretKeyRef": {"key": "two"}}}]),
        f"{MAIN}.env[TWO].valueFrom.secretKeyRef", "changed", "kubectl-set",
    ),
    "select nodes": on_job(
        "deployment", "serve", {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}},
        "spec.template.spec.nodeSelector", "added", "k9s",
    ),
    "imitate a name": look_alike("deployment", "web-2", "web", "kubectl-create"),
    "imitate all labels": look_alike("deployment", "serve-2", "serve", "argocd-controller", every=True),
    "imitate a training": look_alike("job", "train-2", "train", "kubectl-create"),
    "scale by another autoscaler": Plant(
        foreign_autoscaler, of("HorizontalPodAutoscaler", "mine"), None, "added", "kubectl-autoscale"
    ),
    "tolerate everything": on_job(
        "deployment", "web", {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}},
        "spec.template.spec.tolerations", "added", "kubectl-edit",
    ),
    "use the network of the node": on_job(
        "deployment", "web", {"spec": {"template": {"spec": {"hostNetwork": True}}}}, "spec.template.spec.hostNetwork",
        "added", "kubectl-patch",
    ),
    "add a volume": on_job(
        "deployment", "web", {"spec": {"template": {"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}}}},
        "spec.template.spec.volumes[scratch]", "added", "Lens",
    ),
    "set another priority": on_job(
        "statefulset", "lab", {"spec": {"template": {"spec": {"priorityClassName": "gpuctl-high"}}}},
        "spec.template.spec.priorityClassName", "changed", "kubectl-edit",
    ),
    "pull otherwise": on_job(
        "deployment", "serve", container(imagePullPolicy="Never"), f"{MAIN}.imagePullPolicy", "changed", "kubectl-edit"
    ),
    "probe less often": on_job(
        "statefulset", "lab", container(readinessProbe={"periodSeconds": 77}), f"{MAIN}.readinessProbe.periodSeconds",
        "changed", "kubectl-edit",
    ),
    "allow more privileges": on_job(
        "deployment", "serve", container(securityContext={"allowPrivilegeEscalation": True}),
        f"{MAIN}.securityContext.allowPrivilegeEscalation", "changed", "kubectl-patch",
    ),
    "run as root": on_job(
        "deployment", "serve", container(securityContext={"runAsUser": 0}), f"{MAIN}.securityContext.runAsUser",
        "added", "kubectl-patch",
    ),
    "add arguments": on_job(
        "deployment", "serve", container(args=["--debug"]), f"{MAIN}.args", "added", "kubectl-edit"
    ),
    "remove a variable": Plant(
        lambda world: world.patch(
            "kubectl-set", "deployment", "web", container(env=[{"name": "B", "$patch": "delete"}]), world.team
        ),
        of("Deployment", "web"), f"{MAIN}.env[B]", "removed", None,
    ),
    "add an init container": on_job(
        "deployment", "web", {"spec": {"template": {"spec": {"initContainers": [{"name": "setup", "image": "sh"}]}}}},
        "spec.template.spec.initContainers[setup]", "added", "kubectl-edit",
    ),
    "publish what is not ready": on_job(
        "service", "svc-serve", {"spec": {"publishNotReadyAddresses": True}}, "spec.publishNotReadyAddresses", "added",
        "kubectl-edit",
    ),
    "scale further down": on_job(
        "hpa", "serve", {"spec": {"minReplicas": 2}}, "spec.minReplicas", "changed", "kubectl-patch"
    ),
    "retry more often": on_job(
        "job", "train", {"spec": {"backoffLimit": 99}}, "spec.backoffLimit", "changed", "kubectl-edit"
    ),
    "keep a training longer": on_job(
        "job", "train", {"spec": {"ttlSecondsAfterFinished": 7}}, "spec.ttlSecondsAfterFinished", "changed",
        "kubectl-patch",
    ),
    "end a training early": on_job(
        "job", "train", {"spec": {"activeDeadlineSeconds": 99999}}, "spec.activeDeadlineSeconds", "added",
        "kubectl-edit",
    ),
    "wait after a start": on_job(
        "deployment", "web", {"spec": {"minReadySeconds": 9}}, "spec.minReadySeconds", "added", "kubectl-edit"
    ),
    "label the pods": on_job(
        "statefulset", "lab", {"spec": {"template": {"metadata": {"labels": {"runwhere.ai/priority": "low"}}}}},
        "spec.template.metadata.labels[runwhere.ai/priority]", "changed", "kubectl-label",
    ),
    "unlabel a job": Plant(
        lambda world: world.patch(
            "kubectl-label", "deployment", "serve", labels("runwhere.ai/priority", None), world.team, MERGE
        ),
        of("Deployment", "serve"), "metadata.labels[runwhere.ai/priority]", "removed", None,
    ),
    "label a quota": on_quota(
        "resourcequota", labels("owner", "me"), "metadata.labels.owner", "added", "kubectl-label"
    ),
    "taint a little": on_node(
        1, lambda world: {"spec": {"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]}},
        "spec.taints[soft,PreferNoSchedule]", "added", "kubectl-taint",
    ),
    "remove a job from the directory": Plant(
        undeclare("jobs.yaml", lambda world, each: each["job"]["name"] != "old"), of("Deployment", "old"), None,
        "undeclared", None,
    ),
    "remove a pool from the directory": Plant(
        undeclare("pools.yaml", lambda world, each: each["pool"]["name"] != world.field.pool("old")),
        lambda world: f"ConfigMap/{SYSTEM}/pool-{world.field.pool('old')}", None, "undeclared", None,
    ),
}  # fmt: skip


def delete_namespace(world: World) -> None:
    world.api.delete("namespace", world.other)
    eventually(lambda: world.api.get("namespace", world.other) is None, 120)


def own(world: World, result: Row) -> list[Row]:
    """The rows about what this test has made: other tests may run on the same cluster."""
    mine = (world.team, world.other, world.field.prefix, *world.field.nodes)
    return [row for row in result["results"] if any(each in row["id"] or each in row["manifest"] for each in mine)]


def test_a_cluster_as_declared_has_no_drift(world: World):
    world.requests.clear()
    result = world.drift()
    assert own(world, result) == []
    assert result["problems"] == []
    assert world.requests.writes == world.requests.dry_runs == []


def test_the_level_read_is_enough(world: World):
    PLANTS["set image"].do(world)
    PLANTS["delete a job"].do(world)
    PLANTS["raise a quota"].do(world)
    expected = [row["id"] for row in own(world, world.drift())]
    with account(world.api, READ) as reader:
        world.requests.identity = reader
        world.requests.clear()
        result = world.drift()
    assert [row["id"] for row in own(world, result)] == expected
    assert (len(expected), result["problems"]) == (3, [])
    assert ["the value of API_TOKEN looks like a token" in text for text in world.warnings] == [True]
    assert world.requests.writes == world.requests.dry_runs == []
    assert 403 not in {request.status for request in world.requests.requests}


def test_the_work_of_controllers_and_our_own_is_no_drift(world: World):
    world.scale("kube-controller-manager", "deployment", "serve", 2)  # as an autoscaler
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-11-22T20:24:28Z"}
    body = {"spec": {"template": {"metadata": {"annotations": restarted}}}}
    world.patch("kubectl-rollout", "deployment", "web", body, world.team)
    world.apply(job.MODULE, state="paused", name="train", namespace=world.team)
    world.apply(job.MODULE, state="paused", name="lab", namespace=world.team)
    world.apply(job.MODULE, state="restarted", name="old", namespace=world.team)
    for kind, name in (("deployment", "web"), ("deployment", "serve"), ("job", "train"), ("hpa", "serve")):
        written = {"metadata": {"annotations": {"example.com/observed": "7"}}}
        world.patch("example-controller", kind, name, written, world.team)
    registered = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    world.patch("kubelet", "node", world.field.nodes[0], {"spec": {"taints": registered}})
    try:
        eventually(lambda: world.api.get("deployment", "old", world.team)["status"].get("observedGeneration", 0) > 1)
        result = world.drift()
    finally:
        world.patch("kubelet", "node", world.field.nodes[0], {"spec": {"taints": None}})
    assert [row for row in own(world, result) if row["level"] != "info"] == []
    assert result["passed"]


MINUTES = 60


@pytest.mark.parametrize("minutes", [6, pytest.param(MINUTES, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])])
def test_an_hour_of_autoscalers_rollouts_and_restarts_is_no_drift(world: World, minutes: int):
    """Each minute of the hour is what happens in it, without the time between."""
    choose = random.Random(minutes)
    world.provision()
    rollout = "kubectl.kubernetes.io/restartedAt"

    def restart_by_kubectl(kind: str, name: str, minute: int) -> None:
        body = {"spec": {"template": {"metadata": {"annotations": {rollout: f"2026-11-24T10:{minute:02}:00Z"}}}}}
        world.patch("kubectl-rollout", kind, name, body, world.team)

    def delete_pod(_minute: int) -> None:
        """As an eviction: the controller makes another one."""
        if pods := [pod for pod in world.api.list("pod", world.team) if "deletionTimestamp" not in pod["metadata"]]:
            world.api.delete("pod", choose.choice(pods)["metadata"]["name"], world.team)

    def taint(_minute: int) -> None:
        taints = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
        node = choose.choice(world.field.nodes[:3])
        world.patch("kube-controller-manager", "node", node, {"spec": {"taints": choose.choice([taints, None])}})

    def observe(minute: int) -> None:
        kind, name = choose.choice([("deployment", "web"), ("job", "train"), ("hpa", "serve"), ("service", "svc-web")])
        written = {"metadata": {"annotations": {"example.com/observed": str(minute)}}}
        world.patch("example-controller", kind, name, written, world.team)

    def pause(_minute: int) -> None:
        state, name = choose.choice(["paused", "resumed"]), choose.choice(["web", "lab"])
        world.apply(job.MODULE, state=state, name=name, namespace=world.team)

    happens: list[Callable[[int], Any]] = [
        lambda _minute: world.scale("kube-controller-manager", "deployment", "serve", choose.randint(1, 3)),
        lambda minute: restart_by_kubectl("deployment", choose.choice(["web", "serve", "gone"]), minute),
        lambda minute: restart_by_kubectl("statefulset", "lab", minute),
        lambda _minute: world.apply(job.MODULE, state="restarted", name=choose.choice(["old", "train"]),
                                    namespace=world.team),
        delete_pod, taint, observe, pause,
    ]  # fmt: skip
    for minute in range(minutes):
        for event in [happens[minute % len(happens)], *choose.sample(happens, 2)]:
            event(minute)
        result = world.drift()
        false = [row for row in own(world, result) if row["level"] != "info"]
        assert (false, result["passed"]) == ([], True), (minute, false)


def test_a_training_that_ended_and_whose_job_was_removed_is_no_drift(world: World):
    """As the controller of ttlSecondsAfterFinished removes it."""
    eventually(lambda: world.api.list("pod", world.team, "app=train"))
    ended(world.api, world.team, "train")
    eventually(lambda: world.api.get("job", "train", world.team)["status"].get("succeeded"))
    assert [row for row in own(world, world.drift()) if row["level"] != "info"] == []
    world.provision()  # It records how the training ended.
    world.api.delete("job", "train", world.team)
    eventually(lambda: world.api.get("job", "train", world.team) is None)
    assert [row for row in own(world, world.drift()) if row["level"] != "info"] == []


def test_an_unmanaged_autoscaler_is_reported_but_is_not_drift(world: World):
    world.scale("kube-controller-manager", "deployment", "web", 4)
    (row,) = own(world, world.drift())
    assert (row["field"], row["level"], row["cause"]) == ("spec.replicas", "info", "controller")


@pytest.mark.parametrize("imitates", ["the name", "all labels"])
def test_a_workload_that_passes_for_a_job_is_found_and_stays(world: World, imitates: str):
    """Its pods get the requests of the job's Service, and its GPUs are counted as those of the job."""
    live = world.api.get("deployment", "web", world.team)
    worn = {"app": "web"} if imitates == "the name" else live["metadata"]["labels"]
    gpus = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    template = {"metadata": {"labels": {**worn, "mine": "yes"}}, "spec": {"containers": [gpus]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"mine": "yes"}}, "template": template}
    body = {"metadata": {"name": "web-2", "namespace": world.team, "labels": worn}, "spec": spec}
    path = f"{PATHS['deployment'].format(world.team)}?fieldManager=kubectl-create"
    assert world.api.call("POST", path, body)[0] == 201
    result = world.drift()
    (row,) = own(world, result)
    assert row["id"] == f"Deployment/{world.team}/web-2"
    assert (row["field"], row["change"], row["level"]) == (None, "added", "warning")
    assert (row["cause"], row["manager"], row["manifest"]) == ("others", "kubectl-create", f"compute {world.team}/web")
    assert row["live"] == "has its label, 3 pods with 2 GPUs each"
    assert [each for each in result["undeclared"] if each["namespace"] == world.team] == []
    world.provision()
    assert [row["id"] for row in own(world, world.drift())] == [f"Deployment/{world.team}/web-2"]


def test_an_autoscaler_of_others_is_found_and_stays(world: World):
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
    metrics[0]["resource"]["target"]["averageUtilization"] = 80  # type: ignore[index]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "metrics": metrics}
    for name, owner in (("mine", None), ("keda-hpa-web", "ScaledObject")):
        reference = {"apiVersion": "keda.sh/v1alpha1", "kind": owner, "name": "web", "uid": "1", "controller": True}
        metadata = {"name": name, "namespace": world.team, "ownerReferences": [reference] if owner else []}
        path = f"{PATHS['hpa'].format(world.team)}?fieldManager=kubectl-autoscale"
        status, answer = world.api.call("POST", path, {"metadata": metadata, "spec": spec})
        assert status == 201, answer
    result = world.drift()
    (row,) = [row for row in own(world, result) if row["level"] != "info"]
    assert (row["id"], row["change"]) == (f"HorizontalPodAutoscaler/{world.team}/mine", "added")
    assert (row["cause"], row["manager"], row["live"]) == (
        "others",
        "kubectl-autoscale",
        "scales it to 1 to 9 replicas",
    )
    assert [each for each in result["undeclared"] if each["namespace"] == world.team] == []


def test_what_cannot_be_planned_hides_nothing(world: World):
    world.write("bad.yaml", pool_manifest(world.field.pool("bad"), ["no-such-node"]))
    world.patch("kubectl-set", "deployment", "web", container(image="nginx:mine"), world.team)
    result = world.drift(fail_on="error")
    assert result["failed"]
    assert any("no-such-node not found" in each["problem"] for each in result["problems"])
    assert f"Deployment/{world.team}/web:{MAIN}.image" in {row["id"] for row in result["results"]}
    world.patch("runwhere.gpuctl", "deployment", "web", container(image="nginx:ours"), world.team)
    assert {row["cause"] for row in own(world, world.drift()) if row["field"] == f"{MAIN}.image"} == {"gpuctl"}


def test_the_last_job_of_a_directory_is_no_longer_declared_but_only_of_its_source(world: World):
    (world.directory / "jobs.yaml").unlink()
    assert {row["name"] for row in own(world, world.drift())} == {"web", "gone", "old", "serve", "lab", "train"}
    world.source = "another"
    assert [row for row in own(world, world.drift()) if row["change"] == "undeclared"] == []


def test_an_annotation_of_the_cluster_names_the_user(world: World):
    body = {"metadata": {"annotations": {"audit.example.com/user": "mallory"}}}
    world.patch("kubectl-edit", "deployment", "web", {**container(image="nginx:mine"), **body}, world.team)
    found = world.drift(audit_annotation="audit.example.com/user")
    (row,) = [row for row in own(world, found) if row["field"] == f"{MAIN}.image"]
    assert row["user"] == "mallory"


def test_named_fields_are_restored_and_no_others(world: World):
    taken = (
        "scale", "set env", "edit the command", "add a variable", "add a container", "label", "foreign apply",
        "ask for other nodes", "do without a setting", "send requests to other pods",
        "suspend a training", "unlabel a service", "edit an autoscaler", "raise a quota", "limit something else",
        "secure a namespace otherwise", "taint", "cordon", "take a node out of its pool", "move a node", "edit a pool",
        "put a node into a pool that is not declared",
    )  # fmt: skip
    left = ("set image", "edit a limit", "annotate", "open a service", "edit defaults", "label a training")
    for name in (*taken, *left):
        PLANTS[name].do(world)
    before = {row["id"] for row in own(world, world.drift())}
    wanted = [f"{PLANTS[name].object(world)}:{PLANTS[name].field}" for name in taken]
    options = {"src": [str(world.directory)], "restore": wanted}
    predicted = world.run(restore.MODULE, check=True, **options)
    assert (predicted.get("failed"), predicted["changed"]) == (None, True), predicted
    assert {row["id"] for row in own(world, world.drift())} == before
    done = world.run(restore.MODULE, **options)
    assert not done.get("failed"), done
    after = {row["id"] for row in own(world, world.drift())}
    assert after == before - set(wanted) == {f"{PLANTS[name].object(world)}:{PLANTS[name].field}" for name in left}
    again = world.run(restore.MODULE, **options)
    assert (again["changed"], len(world.warnings)) == (False, len(taken))
    held = world.api.get("deployment", "web", world.team)
    entry = next(each for each in held["metadata"]["managedFields"] if each["operation"] == "Apply")
    assert (entry["manager"], "f:replicas" in entry["fieldsV1"]["f:spec"]) == ("runwhere.gpuctl", True)


def test_drift_of_all_kinds_is_in_one_report_with_who_did_it(world: World):
    assert len(PLANTS) >= 60
    for plant in PLANTS.values():
        plant.do(world)
    result = world.drift()
    assert not result.get("failed"), result
    found = {(row["id"].partition(":")[0], row["field"]): row for row in own(world, result)}
    expected = {(plant.object(world), plant.field): name for name, plant in PLANTS.items()}
    missing = {name: place for place, name in expected.items() if place not in found}
    assert not missing, json.dumps([list(found), result["problems"]], indent=1)
    for name, plant in PLANTS.items():
        row = found[plant.object(world), plant.field]
        assert (row["change"], row["manager"]) == (plant.change, plant.manager), (name, row)
        assert row["cause"] == ("others" if plant.manager else "unknown"), (name, row)
        assert row["level"] == ("warning" if plant.change == "added" else row["level"]), row
    # With the namespace, what was in it; with a job, what belonged to it.
    follows = (f"/{world.other}/", f"/{world.team}/svc-gone", f"/{world.team}/svc-old")
    extra = {
        place: (row["change"], row["declared"], row["live"], row["manager"])
        for place, row in found.items()
        if place not in expected and not any(each in place[0] for each in follows)
    }
    assert extra == {}
    assert "s3cr3t-v4lue" not in json.dumps(result)
    assert {(each["kind"], each["name"]) for each in result["undeclared"]} >= {
        ("job", "old"),
        ("pool", world.field.pool("old")),
    }


def test_the_playbook_reports_restores_and_prunes(world: World, ansible: Ansible):
    PLANTS["scale"].do(world)
    PLANTS["label"].do(world)
    PLANTS["remove a job from the directory"].do(world)
    PLANTS["remove a pool from the directory"].do(world)
    web = f"Deployment/{world.team}/web"
    output = ansible.directory / "drift.json"

    def run(*arguments: str, **variables: Any) -> Run:
        given = json.dumps({f"gpuctl_{name}": value for name, value in variables.items()})
        return ansible.run(
            "ansible-playbook", "runwhere.gpuctl.drift", "-e", "gpuctl_dir=cluster", "-e", given, *arguments
        )

    found = run(output=str(output))
    assert found.status != 0
    assert "  spec.replicas: declared 2, live 3\n    by kubectl, " in found.output
    assert f"(job {world.team}/old" in found.output
    assert {row["id"] for row in json.loads(output.read_text())["results"]} >= {f"{web}:spec.replicas"}

    assert "-e 'gpuctl_prune=cluster'" in found.output

    named = [f"job/{world.team}/old", f"pool/{world.field.pool('old')}"]
    before = world.requests.writes
    for refused in (True, "yes", "all", f"{named[0]},quota/{world.field.pool('q')}"):
        answer = run(restore=f"{web}:spec.replicas", prune=refused)
        assert answer.status != 0
        assert "neither the source of this directory, cluster, nor" in answer.output.replace("\n", " "), answer.output
    assert world.requests.writes == before

    predicted = run("--check", restore=f"{web}:spec.replicas", prune=",".join(named))
    assert predicted.status != 0
    assert re.search(r"old +\S+ +job +delete", predicted.output), predicted.output
    assert world.api.get("deployment", "old", world.team)

    done = run(restore=f"{web}:spec.replicas", prune=named, fail_on="error")
    assert world.api.get("deployment", "web", world.team)["spec"]["replicas"] == 2, done.output
    assert world.api.get("deployment", "old", world.team) is None, done.output
    assert world.api.get("configmap", f"pool-{world.field.pool('old')}", SYSTEM) is None
    assert world.api.get("deployment", "web", world.team)["metadata"]["labels"]["owner"] == "me"
    assert done.status == 0, done.output
