# SPDX-License-Identifier: BSD-2-Clause
"""The kubectl of this machine works against the simulator, as its users would use it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from kubesim.cluster import Cluster

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed on this machine")

Kubectl = Callable[..., str]
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "registry.example.com/web:v1"}]},
}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}
TRAIN = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "template": {
            "metadata": {"annotations": {"lab/run-seconds": "1"}},
            "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"},
        }
    },
}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl(*arguments, stdin=object or None, code=0) gives what was printed, both streams together."""
    with Cluster(nodes=2, tls=True).running() as cluster:
        folder = tmp_path_factory.mktemp("kubectl")
        tokens = {"admin": cluster.token, "lab": "lab-user-token"}
        users = {user: cluster.kubeconfig(folder / user, token) for user, token in tokens.items()}

        def run(*arguments: str, stdin: Any = None, code: int = 0, user: str = "admin") -> str:
            done = subprocess.run(
                [KUBECTL or "", f"--kubeconfig={users[user]}", f"--cache-dir={folder}", *arguments],
                input=None if stdin is None else yaml.safe_dump(stdin),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == code, done.stdout
            return done.stdout

        run("create", "namespace", "made")  # a quota among what is made must not hinder the others
        yield run


@pytest.fixture(scope="module")
def web(kubectl: Kubectl) -> Kubectl:
    """kubectl, with the Deployment applied and rolled out."""
    applied = kubectl("apply", "--server-side", "-f", "-", stdin=WEB)
    assert applied == "deployment.apps/web serverside-applied\n"
    assert 'deployment "web" successfully rolled out' in kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    return kubectl


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_get_shows_tables(web: Kubectl) -> None:
    head, row = rows(web("get", "deployment", "web"))
    assert head == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row[:4] == ["web", "2/2", "2", "2"]
    head, *pods = rows(web("get", "pods", "-A", "-o", "wide", "-l", "app=web"))
    assert head[:7] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"]
    assert [(pod[0], pod[2], pod[3]) for pod in pods] == [("default", "1/1", "Running")] * 2
    assert {pod[7] for pod in pods} <= {"node-1", "node-2"}


def test_get_prints_objects_and_reports_what_is_missing(web: Kubectl) -> None:
    found = json.loads(web("get", "deploy/web", "-o", "json"))
    assert found["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert web("get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}") == "2"
    missing = web("get", "deployment", "other", code=1)
    assert missing == 'Error from server (NotFound): deployments.apps "other" not found\n'


@pytest.mark.parametrize("kind", ["deployment", "replicaset", "pod"])
def test_describe_shows_the_object_and_its_events(web: Kubectl, kind: str) -> None:
    text = web("describe", kind, "-l", "app=web")
    assert "registry.example.com/web:v1" in text
    reason = {"deployment": "ScalingReplicaSet", "replicaset": "SuccessfulCreate", "pod": "Scheduled"}[kind]
    assert reason in text.partition("Events:")[2]


def test_describe_a_node_sums_up_its_pods(web: Kubectl) -> None:
    text = web("describe", "node", "node-1")
    assert "Allocated resources:" in text
    assert "nvidia.com/gpu" in text


def test_apply_again_changes_nothing_and_conflicts_are_reported(web: Kubectl) -> None:
    before = web("get", "deploy/web", "-o", "jsonpath={.metadata.generation}")
    web("apply", "--server-side", "-f", "-", stdin=WEB)
    assert web("get", "deploy/web", "-o", "jsonpath={.metadata.generation}") == before
    other = {**WEB, "spec": {**WEB["spec"], "replicas": 4}}  # type: ignore[dict-item]
    refused = web("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other, code=1)
    assert 'Apply failed with 1 conflict: conflict with "kubectl"' in refused
    assert ".spec.replicas" in refused


def test_apply_on_the_clients_side(kubectl: Kubectl) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "client"}, "data": {"a": "1", "b": "2"}}
    assert kubectl("apply", "-f", "-", stdin=settings) == "configmap/client created\n"
    assert kubectl("apply", "-f", "-", stdin=settings) == "configmap/client unchanged\n"
    assert kubectl("apply", "-f", "-", stdin={**settings, "data": {"a": "3"}}) == "configmap/client configured\n"
    assert kubectl("get", "cm/client", "-o", "jsonpath={.data}") == '{"a":"3"}'


def test_diff(kubectl: Kubectl) -> None:
    claim = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "differs"}, "data": {"a": "1"}}
    kubectl("apply", "--server-side", "-f", "-", stdin=claim)
    assert kubectl("diff", "--server-side", "-f", "-", stdin=claim) == ""
    assert '+  a: "2"' in kubectl("diff", "--server-side", "-f", "-", stdin={**claim, "data": {"a": "2"}}, code=1)


def test_create_label_annotate_patch_and_delete(kubectl: Kubectl) -> None:
    assert kubectl("create", "configmap", "made", "--from-literal=a=1") == "configmap/made created\n"
    again = kubectl("create", "configmap", "made", code=1)
    assert 'configmaps "made" already exists' in again
    assert kubectl("label", "configmap", "made", "team=a") == "configmap/made labeled\n"
    assert kubectl("annotate", "configmap", "made", "note=b") == "configmap/made annotated\n"
    for kind, patch in {
        "merge": '{"data": {"b": "2"}}',
        "strategic": '{"data": {"c": "3"}}',
        "json": '[{"op": "remove", "path": "/data/a"}]',
    }.items():
        assert kubectl("patch", "configmap", "made", f"--type={kind}", "-p", patch) == "configmap/made patched\n"
    assert kubectl("get", "cm", "-l", "team=a", "-o", "jsonpath={.items[*].data}") == '{"b":"2","c":"3"}'
    assert kubectl("delete", "configmap", "made") == 'configmap "made" deleted\n'


@pytest.mark.parametrize(
    "arguments",
    [
        ("namespace", "other"),
        ("deployment", "d", "--image=registry.example.com/d:v1"),
        ("job", "j", "--image=registry.example.com/j:v1"),
        ("service", "clusterip", "s", "--tcp=80:8080"),
        ("secret", "generic", "s", "--from-literal=a=1"),
        ("serviceaccount", "robot"),
        ("role", "reader", "--verb=get", "--resource=pods"),
        ("rolebinding", "readers", "--role=reader", "--user=somebody"),
        ("quota", "q", "--hard=requests.cpu=100"),
        ("priorityclass", "high", "--value=1000"),
        ("poddisruptionbudget", "p", "--selector=app=d", "--min-available=1"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_create_of_each_kind(kubectl: Kubectl, arguments: tuple[str, ...]) -> None:
    """kubectl sends most of these as protobuf."""
    assert " created" in kubectl("create", "--namespace=made", *arguments)


def test_scale_and_wait(web: Kubectl) -> None:
    assert web("scale", "deployment/web", "--replicas=3") == "deployment.apps/web scaled\n"
    web("wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/web", "--timeout=60s")
    refused = web("scale", "deployment/web", "--replicas=5", "--current-replicas=1", code=1)
    assert "Expected replicas to be 1, was 3" in refused


def test_a_job_is_waited_for_and_its_logs_read(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=TRAIN) == "job.batch/train created\n"
    assert "condition met" in kubectl("wait", "--for=condition=Complete", "job/train", "--timeout=60s")
    assert len(kubectl("logs", "job/train", "--tail=3").splitlines()) == 3
    assert kubectl("delete", "job", "train", "--wait") == 'job.batch "train" deleted\n'
    assert "No resources found" in kubectl("get", "pods", "-l", "job-name=train")


def test_a_rollout_is_seen_and_undone(kubectl: Kubectl) -> None:
    labels = {"app": "rolled"}
    spec = {"selector": {"matchLabels": labels}, "template": {**TEMPLATE, "metadata": {"labels": labels}}}
    kubectl("create", "-f", "-", stdin={**WEB, "metadata": {"name": "rolled"}, "spec": spec})
    kubectl("set", "image", "deployment/rolled", "c=registry.example.com/web:v2")
    kubectl("rollout", "status", "deployment/rolled", "--timeout=60s")
    assert [row[0] for row in rows(kubectl("rollout", "history", "deployment/rolled"))[1:] if row] == [
        "REVISION",
        "1",
        "2",
    ]
    kubectl("rollout", "undo", "deployment/rolled")
    kubectl("rollout", "status", "deployment/rolled", "--timeout=60s")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl("get", "deploy/rolled", "-o", image) == "registry.example.com/web:v1"
    kubectl("rollout", "restart", "deployment/rolled")
    kubectl("rollout", "status", "deployment/rolled", "--timeout=60s")


def test_auth_can_i(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "jobs") == "yes\n"
    assert kubectl("auth", "can-i", "create", "jobs", user="lab", code=1) == "no\n"
    assert kubectl("auth", "can-i", "get", "pods", "--as=somebody", "--as-group=system:masters") == "yes\n"
    assert "selfsubjectaccessreviews.authorization.k8s.io" in kubectl("auth", "can-i", "--list", user="lab")
    assert "lab-user" in kubectl("auth", "whoami", user="lab")
    forbidden = kubectl("get", "pods", user="lab", code=1)
    assert 'User "lab-user" cannot list resource "pods" in API group "" in the namespace "default"' in forbidden


def test_nodes_are_cordoned_drained_and_tainted(kubectl: Kubectl) -> None:
    assert kubectl("cordon", "node-2") == "node/node-2 cordoned\n"
    assert "SchedulingDisabled" in kubectl("get", "node", "node-2")
    assert "drained" in kubectl("drain", "node-2", "--ignore-daemonsets", "--force", "--timeout=60s")
    assert kubectl("uncordon", "node-2") == "node/node-2 uncordoned\n"
    assert kubectl("taint", "nodes", "node-2", "gpu=yes:NoSchedule") == "node/node-2 tainted\n"
    assert kubectl("taint", "nodes", "node-2", "gpu-") == "node/node-2 untainted\n"


def test_what_is_served_and_explained(kubectl: Kubectl) -> None:
    assert ["pods", "po", "v1", "true", "Pod"] in rows(kubectl("api-resources"))
    assert "Server Version: v1.36" in kubectl("version")
    assert "FIELD: backoffLimit" in kubectl("explain", "job.spec.backoffLimit")
