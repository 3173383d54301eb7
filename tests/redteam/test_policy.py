# SPDX-License-Identifier: BSD-2-Clause
"""What only a policy refuses: attacks by an account of the level submit, by plain requests and by the modules."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import SUBMIT
from integration.accounts import account, make_priority_classes
from integration.ansible import ROOT, Ansible
from integration.api import PATHS, Api, eventually
from integration.manifests import training
from integration.namespaces import make_namespace, remove_namespaces
from integration.recorder import Recorder

IMAGE = "registry.example.com/team/train:v1"
CONTAINER = {"name": "main", "image": IMAGE}
PLACED = {"runwhere.ai/pool": "training-pool", "runwhere.ai/gpuType": "A100-100G"}
SPEC: dict[str, Any] = {"restartPolicy": "Never", "containers": [CONTAINER]}


def policy(name: str, namespace: str, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "policy",
        "policy": {"name": name, "contact": "gpu-admins@example.com"},
        "host_paths": {"roots": ["/data", "/models"]},
        "images": {"registries": ["registry.example.com", "docker.io/library", "docker.io/pytorch/pytorch"]},
        "labels": {"pods": True},
        "teams": {
            namespace: {
                "pools": ["training-pool", "default"],
                "gpu-types": ["A100-100G"],
                "priorities": ["medium", "low"],
                "max_gpus_per_job": 8,
                "service_accounts": ["default"],
                "image_pull_secrets": ["gpuctl-registry"],
                "service_types": ["ClusterIP", "NodePort"],
            }
        },
        **changes,
    }


@dataclass
class Guarded:
    """A namespace whose team a policy limits."""

    api: Api
    attacker: Api
    namespace: str
    policy: str

    def post(self, kind: str, body: dict[str, Any], who: Api | None = None) -> tuple[int, str]:
        """The status and message of a dry run: what gets through does nothing."""
        path = f"{PATHS[kind].format(self.namespace)}?dryRun=All"
        status, answer = (who or self.attacker).call("POST", path, body)
        return status, answer.get("message", "") if isinstance(answer, dict) else ""


@pytest.fixture(scope="module")
def guarded(api: Api, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    make_priority_classes(api)
    namespace = make_namespace(api)
    name = f"red-{namespace}"
    ansible = Ansible(tmp_path_factory.mktemp("policy"), {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})
    with account(api, SUBMIT, [namespace]) as attacker:
        result = ansible.module("gpuctl_policy", definition=policy(name, namespace))
        assert result.changed, result.message
        here = Guarded(api, attacker, namespace, name)
        try:
            # The API server takes up to a second until it enforces a new policy.
            eventually(lambda: here.post("pod", pod({"hostNetwork": True}), api)[0] == 422)
            yield here
        finally:
            assert not ansible.module("gpuctl_policy", name=name, state="absent").failed
    remove_namespaces(api, namespace)


@pytest.fixture
def modules(guarded: Guarded, ansible: Ansible, recorder: Recorder) -> Ansible:
    """Ansible in the name of the attacker."""
    recorder.identity = guarded.attacker
    return ansible


def pod(changes: dict[str, Any], container: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    spec = {**copy.deepcopy(SPEC), **changes}
    spec["containers"] = [{**CONTAINER, **(container or {})}, *changes.get("containers", [])]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "attack", **metadata}, "spec": spec}


def gpus(number: int, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    return {"resources": {"limits": {resource: str(number)}, "requests": {resource: str(number)}}}


def volume(path: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "hostPath": {"path": path}}]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}, "nodeSelector": {"runwhere.ai/gpuType": "A100-100G"}}


OUTSIDE = {"matchExpressions": [{"key": "runwhere.ai/pool", "operator": "DoesNotExist"}]}
INSIDE = {"matchExpressions": [{"key": "runwhere.ai/pool", "operator": "In", "values": ["secret"]}]}

PODS: dict[str, tuple[dict[str, Any], str]] = {
    "the root directory": (pod(volume("/")), "path of the node that is not allowed: /."),
    "a system path": (pod(volume("/etc")), "path of the node that is not allowed: /etc."),
    "kubelet's directory": (pod(volume("/var/lib/kubelet")), "path of the node that is not allowed"),
    "a path that begins like a root": (pod(volume("/database")), "path of the node that is not allowed: /database."),
    "a root in another spelling": (pod(volume("//data")), "path of the node that is not allowed: //data."),
    "a path with letters that look like others": (pod(volume("/data\uff0fx")), "path of the node that is not allowed"),
    "the network of the node": (pod({"hostNetwork": True}), "pods may not use hostNetwork"),
    "the processes of the node": (pod({"hostPID": True}), "pods may not use hostPID"),
    "the IPC of the node": (pod({"hostIPC": True}), "pods may not use hostIPC"),
    "a port of the node": (pod({}, {"ports": [{"containerPort": 80, "hostPort": 80}]}), "pods may not use hostPort"),
    "an image of another registry": (pod({}, {"image": "evil.example.com/x"}), "image that is not allowed: evil"),
    "an image of Docker Hub": (pod({}, {"image": "evil/x"}), "image that is not allowed: docker.io/evil/x."),
    "a registry that begins like one": (pod({}, {"image": "registry.example.com.evil.io/x"}), "image that is not"),
    "a registry with another port": (pod({}, {"image": "registry.example.com:5000/x"}), "image that is not allowed"),
    "a repository that begins like one": (pod({}, {"image": "pytorch/pytorch-evil:1"}), "image that is not allowed"),
    "an image of an init container": (
        pod({"initContainers": [{"name": "i", "image": "evil.example.com/x"}]}),
        "image that is not allowed: evil.example.com/x.",
    ),
    "an image as a volume": (
        pod({"volumes": [{"name": "v", "image": {"reference": "evil.example.com/x"}}]}),
        "image that is not allowed: evil.example.com/x.",
    ),
    "another pool": (
        pod({"nodeSelector": {**PLACED, "runwhere.ai/pool": "secret"}}, gpus(1)),
        "may not use pool secret. Use pool training-pool or default.",
    ),
    "another pool without accelerators": (pod({"nodeSelector": {"runwhere.ai/pool": "secret"}}), "may not use pool"),
    "no pool": (pod({"nodeSelector": {"runwhere.ai/gpuType": "A100-100G"}}, gpus(1)), "may not use all pools."),
    "no pool by one of two terms": (pod(affinity(OUTSIDE, INSIDE), gpus(1)), "may not use all pools."),
    "a node by name": (pod({"nodeName": "node-1"}), "pods may not name their node."),
    "another GPU type": (
        pod({"nodeSelector": {**PLACED, "runwhere.ai/gpuType": "H100"}}, gpus(1)),
        "may not use GPU type H100. Use GPU type A100-100G.",
    ),
    "no GPU type": (pod({"nodeSelector": {"runwhere.ai/pool": "training-pool"}}, gpus(1)), "may not use all GPU types"),
    "too many GPUs": (pod({"nodeSelector": PLACED}, gpus(9)), "9 GPUs in a job"),
    "too many GPUs in several containers": (
        pod({"nodeSelector": PLACED, "containers": [{"name": "b", "image": IMAGE, **gpus(5)}]}, gpus(5)),
        "10 GPUs in a job",
    ),
    "too many GPUs in an init container": (
        pod({"nodeSelector": PLACED, "initContainers": [{"name": "i", "image": IMAGE, **gpus(9)}]}),
        "9 GPUs in a job",
    ),
    "too many partitions": (pod({"nodeSelector": PLACED}, gpus(9, "nvidia.com/mig-1g.10gb")), "9 GPUs in a job"),
    "accelerators of another vendor": (pod({"nodeSelector": PLACED}, gpus(9, "amd.com/gpu")), "9 GPUs in a job"),
    "another service account": (pod({"serviceAccountName": "pipeline"}), "may not use service account pipeline."),
    "another pull secret": (pod({"imagePullSecrets": [{"name": "other"}]}), "may not use pull secret other."),
}


@pytest.mark.parametrize("attack", PODS)
def test_a_pod(guarded: Guarded, attack: str):
    body, reason = PODS[attack]
    api = guarded.api  # Pods are created by controllers; whoever creates them, the policy counts.
    if "serviceAccountName" in body["spec"]:
        path = PATHS["serviceaccount"].format(guarded.namespace)
        assert api.call("POST", path, {"metadata": {"name": "pipeline"}})[0] in (201, 409)
    status, message = guarded.post("pod", body, api)
    assert status == 422, message
    assert f"policy {guarded.policy} (gpu-admins@example.com): " in message
    assert reason in message


def workload(kind: str, count: int, number: int, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {**pod({"nodeSelector": PLACED}, gpus(number))["spec"]}}
    if kind == "job":
        body: dict[str, Any] = {"parallelism": count, "template": template}
    else:
        template["spec"]["restartPolicy"] = "Always"
        body = {"replicas": count, "selector": {"matchLabels": {"app": "x"}}, "template": template, "serviceName": "x"}
        if kind == "deployment":
            del body["serviceName"]
    return {"metadata": {"name": "attack"}, "spec": {**body, **spec}}


@pytest.mark.parametrize("kind", ["job", "deployment", "statefulset"])
def test_a_workload_of_too_many_pods(guarded: Guarded, kind: str):
    assert guarded.post(kind, workload(kind, 2, 4)) == (201, "")
    status, message = guarded.post(kind, workload(kind, 3, 4))
    assert (status, "12 GPUs in a job" in message) == (422, True), message


@pytest.mark.parametrize("kind", ["job", "deployment"])
def test_a_workload_that_grows(guarded: Guarded, kind: str):
    """What is there may shrink and end, even if it breaks the policy, but not grow."""
    path = PATHS[kind].format(guarded.namespace)
    body = workload(kind, 1, 8)
    if kind == "job":
        body["spec"]["suspend"] = True
    else:
        body["spec"]["paused"] = True
    assert guarded.api.call("POST", path, body)[0] == 201
    field = "parallelism" if kind == "job" else "replicas"
    merge = "application/merge-patch+json"
    grown = guarded.attacker.call("PATCH", f"{path}/attack?dryRun=All", {"spec": {field: 2}}, merge)
    assert grown[0] == 422
    shrunk = guarded.attacker.call("PATCH", f"{path}/attack?dryRun=All", {"spec": {field: 0}}, merge)
    assert shrunk[0] == 200, shrunk


def test_a_workload_whose_pods_name_their_node(guarded: Guarded):
    body = workload("job", 1, 1)
    body["spec"]["template"]["spec"]["nodeName"] = "node-1"
    status, message = guarded.post("job", body)
    assert (status, "pods may not name their node." in message) == (422, True), message


@pytest.mark.parametrize("type_", ["LoadBalancer", "ExternalName"])
def test_a_service_of_another_type(guarded: Guarded, type_: str):
    spec = {"type": type_, "ports": [{"port": 80}], **({"externalName": "x.example.com"} if "Name" in type_ else {})}
    status, message = guarded.post("service", {"metadata": {"name": "attack"}, "spec": spec})
    assert (status, f"type of Service that is not allowed: {type_}. Use ClusterIP or NodePort." in message) == (
        422,
        True,
    )


def test_a_service_with_external_addresses(guarded: Guarded):
    spec = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    status, message = guarded.post("service", {"metadata": {"name": "attack"}, "spec": spec})
    assert (status, "Services may not have external IPs." in message) == (422, True)


@pytest.mark.parametrize(
    "request_",
    [
        {"exactly": {"deviceClassName": "x", "count": 9}},
        {"exactly": {"deviceClassName": "x", "allocationMode": "All"}},
        {"firstAvailable": [{"name": "a", "deviceClassName": "x"}, {"name": "b", "deviceClassName": "x", "count": 9}]},
    ],
)
def test_a_claim_of_too_many_devices(guarded: Guarded, request_: dict[str, Any]):
    spec = {"spec": {"devices": {"requests": [{"name": "gpus", **request_}]}}}
    status, message = guarded.post("resourceclaimtemplate", {"metadata": {"name": "attack"}, "spec": spec})
    assert (status, "a claim of more devices" in message) == (422, True), message


def test_labels_of_jobs_are_for_those_who_submit(guarded: Guarded):
    """Somebody with the right to create pods, but without a level, cannot pretend that they are those of a job."""
    labelled = pod({}, labels={"runwhere.ai/job-type": "training"})
    job = {**workload("job", 1, 0), "metadata": {"name": "mine", "labels": {"runwhere.ai/job-type": "training"}}}
    assert guarded.post("job", job)[0] == 201, "an account of the level submit may"
    with creator_of_pods(guarded) as other:
        status, message = guarded.post("pod", labelled, other)
        assert (status, "labels runwhere.ai/ of jobs and their pods are for accounts" in message) == (422, True)
        assert guarded.post("pod", pod({}), other)[0] == 201


@contextmanager
def creator_of_pods(guarded: Guarded) -> Iterator[Api]:
    """An account that may create pods in the namespace, and has no level."""
    place = guarded.namespace
    rbac = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"}
    guarded.api.create("serviceaccount", {"metadata": {"name": "other"}}, place)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    guarded.api.create("role", {"metadata": {"name": "pods"}, "rules": rules}, place)
    subjects = [{"kind": "ServiceAccount", "name": "other", "namespace": place}]
    guarded.api.create("rolebinding", {"metadata": {"name": "pods"}, "roleRef": rbac, "subjects": subjects}, place)
    path = f"{PATHS['serviceaccount'].format(place)}/other/token"
    status, answer = guarded.api.call("POST", path, {"spec": {"expirationSeconds": 3600}})
    assert status == 201, answer
    yield guarded.api.with_token(answer["status"]["token"])


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"resources": {"pool": "secret"}}, "resources.pool", "may not use pool secret"),
        ({"job": {"priority": "high"}}, "job.priority", "may not use priority high. Use medium or low."),
        ({"environment": {"image": "evil.example.com/x:1"}}, "environment.image", "image that is not allowed"),
        ({"environment": {"service_account": "ci"}}, "environment.service_account", "may not use service account ci"),
        ({"storage": {"workdirs": [{"path": "/scratch"}]}}, "storage.workdirs", "path of the node that is not allowed"),
        ({"resources": {"gpu": 4, "node_count": 4}}, "resources.gpu", "16 GPUs in a job"),
        ({"resources": {"gpu": 1, "gpu_type": None}}, "resources.gpu-type", "may not use all GPU types"),
    ],
)
def test_our_modules_say_so_before_anything_is_sent(
    guarded: Guarded, modules: Ansible, recorder: Recorder, changes: dict[str, Any], place: str, reason: str
):
    manifest = training("attack", **changes)
    recorder.clear()
    said = modules.job(definition=manifest, namespace=guarded.namespace)
    assert said.failed
    assert f"{place}: policy {guarded.policy} (gpu-admins@example.com): " in said.message
    assert reason in said.message
    assert not [request for request in recorder.requests if request.method not in ("GET", "HEAD")]


def test_the_example_jobs_keep_a_policy_that_is_meant_for_them(
    api: Api, kubeconfig: Path, submitter: Api, namespace: str, ansible: Ansible, tmp_path: Path
):
    """What is legitimate is not refused: every example, as a dry run on the server."""
    name = f"ex-{namespace}"
    pools = ["compute-pool", "debug-pool", "default", "dev-pool", "experiment-pool", "inference-pool", "training-pool"]
    team = {
        "pools": pools,
        "priorities": ["high", "medium", "low"],
        "max_gpus_per_job": 64,
        "image_pull_secrets": ["my-secret"],
        "service_accounts": ["default"],
        "service_types": ["ClusterIP", "NodePort"],
    }
    roots = ["/var/www/html", "/output", "/models", "/home/jovyan/work", "/home/data", "/etc/nginx/conf.d"]
    changes = {
        "host_paths": {"roots": [*roots, "/datasets", "/cache"]},
        "images": {"registries": ["registry.example.com", "docker.io/library", "docker.io/vllm"]},
        "teams": {namespace: team},
    }
    administrator = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})
    assert administrator.module("gpuctl_policy", definition=policy(name, namespace, **changes)).changed
    try:
        here = Guarded(api, submitter, namespace, name)
        eventually(lambda: here.post("pod", pod({"hostNetwork": True}), api)[0] == 422)
        said = ansible.job(src=[str(ROOT / "examples" / "manifests")], namespace=namespace, check=True)
        assert not said.failed, said.message
        assert len(said.jobs) >= 8
    finally:
        assert not administrator.module("gpuctl_policy", name=name, state="absent").failed
