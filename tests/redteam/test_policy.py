# SPDX-License-Identifier: BSD-2-Clause
"""What only a policy refuses: attacks by an account of the level submit, by plain requests and by the modules."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import DEVICE_CLAIMS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import SUBMIT
from integration.accounts import account, make_priority_classes
from integration.ansible import ROOT, Ansible
from integration.api import PATHS, Api, eventually, require
from integration.manifests import training
from integration.namespaces import make_namespace, remove_namespaces
from integration.recorder import Recorder

IMAGE = "registry.example.com/team/train:v1"
CONTAINER = {"name": "main", "image": IMAGE}
PLACED = {"runwhere.ai/pool": "training-pool", "runwhere.ai/gpuType": "A100-100G"}
SPEC: dict[str, Any] = {"restartPolicy": "Never", "containers": [CONTAINER], "priorityClassName": "gpuctl-low"}


def policy(name: str, namespace: str, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "policy",
        "policy": {"name": name, "contact": "gpu-admins@example.com"},
        "host_paths": {"roots": ["/data", "/models"]},
        "images": {"registries": ["registry.example.com", "docker.io/library", "docker.io/pytorch/pytorch"]},
        "labels": {"pods": True, "nodes": True},
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
            # The API server takes a moment until it enforces a new policy, one object after the other.
            eventually(lambda: here.post("pod", pod({"hostNetwork": True}), api)[0] == 422)
            for kind in ("job", "deployment"):
                eventually(lambda kind=kind: here.post(kind, workload(kind, 3, 4), api)[0] == 422)
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


def claims(*templates: str) -> list[dict[str, str]]:
    return [{"name": f"c{number}", "resourceClaimTemplateName": each} for number, each in enumerate(templates)]


def volume(path: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "hostPath": {"path": path}}]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}, "nodeSelector": {"runwhere.ai/gpuType": "A100-100G"}}


OUTSIDE = {"matchExpressions": [{"key": "runwhere.ai/pool", "operator": "DoesNotExist"}]}
INSIDE = {"matchExpressions": [{"key": "runwhere.ai/pool", "operator": "In", "values": ["secret"]}]}

PODS: dict[str, tuple[dict[str, Any], str]] = {
    "GPUs without a priority": (
        pod({"priorityClassName": "", "nodeSelector": PLACED}, gpus(1)),
        "may not use priority 0 (no priorityClassName). Use medium or low.",
    ),
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
    "devices of a class as a resource": (
        pod({"nodeSelector": PLACED}, gpus(9, "deviceclass.resource.kubernetes.io/gpu.example.com")),
        "9 GPUs in a job",
    ),
    "devices of a class and no pool": (
        pod({}, gpus(1, "deviceclass.resource.kubernetes.io/gpu.example.com")),
        "may not use all pools.",
    ),
    "too many devices in several claims": (
        pod({"nodeSelector": PLACED, "resourceClaims": claims("a-x4", "b-x5")}),
        "9 GPUs in a job",
    ),
    "too many devices in a claim and resources": (
        pod({"nodeSelector": PLACED, "resourceClaims": claims("a-x4")}, gpus(5)),
        "9 GPUs in a job",
    ),
    "a privileged container": (
        pod({}, {"securityContext": {"privileged": True}}),
        "pods may not use privileged containers.",
    ),
    "an administrator of the kernel": (
        pod({}, {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
        "pods may not use capabilities beyond those of the Pod Security level baseline.",
    ),
    "the whole of /proc": (
        pod({"hostUsers": False}, {"securityContext": {"procMount": "Unmasked"}}),
        "pods may not use procMount.",
    ),
    "kubelet's own port by a probe": (
        pod({}, {"livenessProbe": {"httpGet": {"host": "127.0.0.1", "port": 10250}}}),
        "pods may not use the host of probes of the node.",
    ),
    "the metadata of the machine by a hook": (
        pod({}, {"lifecycle": {"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80}}}}),
        "pods may not use the host of probes of the node.",
    ),
    "another service account by its former field": (
        pod({"serviceAccount": "pipeline"}),
        "may not use service account pipeline.",
    ),
    "another service account": (pod({"serviceAccountName": "pipeline"}), "may not use service account pipeline."),
    "another pull secret": (pod({"imagePullSecrets": [{"name": "other"}]}), "may not use pull secret other."),
}


@pytest.mark.parametrize("attack", PODS)
def test_a_pod(guarded: Guarded, attack: str):
    body, reason = PODS[attack]
    api = guarded.api  # Pods are created by controllers; the policy counts them for every creator.
    if {"serviceAccount", "serviceAccountName"} & body["spec"].keys():
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
        {"firstAvailable": [{"name": "a", "deviceClassName": "x", "allocationMode": "All"}]},
    ],
)
def test_a_claim_of_too_many_devices(guarded: Guarded, request_: dict[str, Any]):
    require(guarded.api, DEVICE_CLAIMS)
    spec = {"spec": {"devices": {"requests": [{"name": "gpus", **request_}]}}}
    status, message = guarded.post("resourceclaimtemplate", {"metadata": {"name": "attack"}, "spec": spec})
    assert (status, "a claim of more devices" in message) == (422, True), message


def test_a_claim_whose_name_hides_its_devices(guarded: Guarded):
    require(guarded.api, DEVICE_CLAIMS)
    spec = {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "x", "count": 8}}]}}}
    status, message = guarded.post("resourceclaimtemplate", {"metadata": {"name": "gpus-x4"}, "spec": spec})
    assert (status, "name of a claim that does not tell its devices: gpus-x4. End it with -x8." in message) == (
        422,
        True,
    ), message
    assert guarded.post("resourceclaimtemplate", {"metadata": {"name": "gpus-x8"}, "spec": spec}) == (201, "")


def test_pods_that_claim_too_many_devices_together(guarded: Guarded):
    body = {**workload("job", 3, 0), "metadata": {"name": "claiming"}}
    body["spec"]["template"]["spec"]["resourceClaims"] = claims("gpus-x4")
    status, message = guarded.post("job", body)
    assert (status, "12 GPUs in a job" in message) == (422, True), message
    body["spec"]["parallelism"] = 2
    assert guarded.post("job", body) == (201, "")


OTHER_WORKLOADS = {
    "cronjobs": ("/apis/batch/v1", "12 GPUs in a job"),
    "replicasets": ("/apis/apps/v1", "12 GPUs in a job"),
    "replicationcontrollers": ("/api/v1", "12 GPUs in a job"),
    "daemonsets": ("/apis/apps/v1", "DaemonSets may not have GPUs"),
}


def other_workload(kind: str) -> dict[str, Any]:
    """Three pods of four GPUs each."""
    if kind == "cronjobs":
        job = workload("job", 3, 4)["spec"]
        return {"metadata": {"name": "attack"}, "spec": {"schedule": "@hourly", "jobTemplate": {"spec": job}}}
    body = workload("deployment", 3, 4)
    if kind == "daemonsets":
        del body["spec"]["replicas"]
    if kind == "replicationcontrollers":
        body["spec"]["selector"] = {"app": "x"}
    return body


@pytest.mark.parametrize("kind", OTHER_WORKLOADS)
def test_other_workloads(guarded: Guarded, kind: str):
    """What no level of gpuctl_rbac allows, but an account may have by other means."""
    group, reason = OTHER_WORKLOADS[kind]
    path = f"{group}/namespaces/{guarded.namespace}/{kind}?dryRun=All"
    status, answer = guarded.api.call("POST", path, other_workload(kind))
    if status == 404:
        pytest.skip("kubesim has no such workloads")
    assert (status, reason in answer["message"]) == (422, True), answer


def test_a_workload_that_is_scaled(guarded: Guarded):
    """As by kubectl scale and by autoscalers, which do not send the object."""
    body = workload("statefulset", 1, 4)
    body["metadata"]["name"] = "scaled"
    path = PATHS["statefulset"].format(guarded.namespace)
    assert guarded.api.call("POST", path, body)[0] == 201
    merge = "application/merge-patch+json"

    def scaled(replicas: int) -> tuple[int, str]:
        change = {"spec": {"replicas": replicas}}
        status, answer = guarded.api.call("PATCH", f"{path}/scaled/scale?dryRun=All", change, merge)
        return status, answer.get("message", "")

    status, message = scaled(3)
    assert (status, "are not scaled by themselves. Change their replicas." in message) == (422, True), message
    assert scaled(0)[0] == 200
    change = {"spec": {"replicas": 2}}
    assert guarded.api.call("PATCH", f"{path}/scaled?dryRun=All", change, merge)[0] == 200


def test_a_deployment_scales_by_its_replica_sets(guarded: Guarded):
    """Which the controller updates, in its own name; so the Deployment stays as large as it may be."""
    body = workload("deployment", 1, 4)
    body["metadata"]["name"] = "scaled"
    path = f"/apis/apps/v1/namespaces/{guarded.namespace}/replicasets"
    assert guarded.api.call("POST", path, body)[0] == 201
    merge = "application/merge-patch+json"
    change = {"spec": {"replicas": 3}}
    status, answer = guarded.api.call("PATCH", f"{path}/scaled?dryRun=All", change, merge)
    assert (status, "12 GPUs in a job, more than team" in answer["message"]) == (422, True), answer


def test_labels_of_templates_are_those_of_pods(guarded: Guarded, creator: Api):
    """A controller makes the pods, and may label them."""
    for kind in ("deployment", "statefulset", "job"):
        body = {**workload(kind, 1, 0), "metadata": {"name": "unlabelled"}}
        assert guarded.post(kind, body, creator)[0] == 201
        body["spec"]["template"]["metadata"]["labels"]["runwhere.ai/job-type"] = "training"
        status, message = guarded.post(kind, body, creator)
        assert (status, "labels runwhere.ai/ of jobs and their pods are for" in message) == (422, True), message


def test_labels_of_the_jobs_of_a_cron_job(guarded: Guarded, creator: Api):
    """The controller makes the jobs, and may label them."""
    path = f"/apis/batch/v1/namespaces/{guarded.namespace}/cronjobs?dryRun=All"
    template: dict[str, Any] = {"metadata": {"labels": {"other": "label"}}, "spec": workload("job", 1, 0)["spec"]}
    body = {"metadata": {"name": "unlabelled"}, "spec": {"schedule": "@hourly", "jobTemplate": template}}
    status, answer = creator.call("POST", path, body)
    if status == 404:
        pytest.skip("kubesim has no such workloads")
    assert status == 201, answer
    template["metadata"]["labels"]["runwhere.ai/job-type"] = "training"
    status, answer = creator.call("POST", path, body)
    assert (status, "labels runwhere.ai/ of jobs and their pods are for" in answer["message"]) == (422, True), answer


@pytest.mark.parametrize("kind", ["pod", "job", "statefulset"])
def test_labels_by_the_status(guarded: Guarded, creator: Api, kind: str):
    """Whoever writes the status of an object can change its labels as well."""
    path = PATHS[kind].format(guarded.namespace)
    body = pod({}) if kind == "pod" else workload(kind, 0, 0)
    body["metadata"]["name"] = "labelled"
    assert guarded.api.call("POST", path, body)[0] == 201
    merge = "application/merge-patch+json"
    change = {"metadata": {"labels": {"runwhere.ai/job-type": "training"}}}
    status, answer = creator.call("PATCH", f"{path}/labelled/status?dryRun=All", change, merge)
    assert (status, "labels runwhere.ai/ of jobs" in answer["message"]) == (422, True), answer
    change = {"metadata": {"labels": {"other": "label"}}}
    assert creator.call("PATCH", f"{path}/labelled/status?dryRun=All", change, merge)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/namespaces/{0}/pods/x/eviction", {"metadata": {"name": "x"}}),
        ("POST", "/api/v1/namespaces/{0}/pods/x/binding", {"target": {"kind": "Node", "name": "node-1"}}),
        ("PATCH", "/api/v1/namespaces/{0}/pods/x/ephemeralcontainers", {"spec": {"ephemeralContainers": []}}),
        ("PATCH", "/api/v1/namespaces/{0}/pods/x/status", {"metadata": {"labels": {"runwhere.ai/pool": "x"}}}),
        ("POST", "/api/v1/namespaces/{0}/serviceaccounts/default/token", {"spec": {}}),
        ("PATCH", "/api/v1/namespaces/{0}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}),
        ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpuctl-x-pods", None),
        ("DELETE", "/apis/networking.k8s.io/v1/namespaces/{0}/networkpolicies/x", None),
        ("PATCH", "/api/v1/namespaces/gpuctl-system/configmaps/policy-x", {"data": {"rules": "{}"}}),
    ],
)
def test_what_the_level_does_not_allow(guarded: Guarded, method: str, path: str, body: Any):
    """Ways around a policy that are closed to accounts which submit jobs, without the policy."""
    path = path.format(guarded.namespace)
    assert guarded.attacker.call(method, path, body, "application/merge-patch+json")[0] == 403


def test_labels_of_jobs_are_for_those_who_submit(guarded: Guarded, creator: Api):
    """Somebody with the right to create pods, but without a level, cannot pretend that they are those of a job."""
    labelled = pod({}, labels={"runwhere.ai/job-type": "training"})
    job = {**workload("job", 1, 0), "metadata": {"name": "mine", "labels": {"runwhere.ai/job-type": "training"}}}
    assert guarded.post("job", job)[0] == 201, "an account of the level submit may"
    status, message = guarded.post("pod", labelled, creator)
    assert (status, "labels runwhere.ai/ of jobs and their pods are for accounts" in message) == (422, True)
    assert guarded.post("pod", pod({}), creator)[0] == 201


def test_labels_of_nodes_are_for_administrators(guarded: Guarded, creator: Api):
    """A kubelet may write the status of its node, and with it labels that no admission plugin keeps for others."""
    node = guarded.api.list("node")[0]["metadata"]["name"]
    merge = "application/merge-patch+json"
    for place in ("", "/status"):
        path = f"{PATHS['node']}/{node}{place}?dryRun=All"
        status, answer = creator.call("PATCH", path, {"metadata": {"labels": {"runwhere.ai/red": "x"}}}, merge)
        assert (status, "labels runwhere.ai/ of nodes are for" in answer["message"]) == (422, True), answer
        assert creator.call("PATCH", path, {"metadata": {"labels": {"example.com/red": "x"}}}, merge)[0] == 200


@pytest.fixture(scope="module")
def creator(guarded: Guarded) -> Iterator[Api]:
    """An account that may create pods in the namespace and write nodes, and has no level."""
    api, place, name = guarded.api, guarded.namespace, f"creator-{guarded.namespace}"
    resources = ["pods", "pods/status", "jobs", "jobs/status", "deployments", "statefulsets", "statefulsets/status"]
    resources.append("cronjobs")
    roles = {
        "": [{"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "patch"]}],
        place: [{"apiGroups": ["", "apps", "batch"], "resources": resources, "verbs": ["create", "get", "patch"]}],
    }
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": place}]
    api.create("serviceaccount", {"metadata": {"name": name}}, place)
    for where, rules in roles.items():
        kind = "Role" if where else "ClusterRole"
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        api.create(kind.lower(), {"metadata": {"name": name}, "rules": rules}, where)
        body = {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}
        api.create(f"{kind.lower()}binding", body, where)
    path = f"{PATHS['serviceaccount'].format(place)}/{name}/token"
    status, answer = api.call("POST", path, {"spec": {"expirationSeconds": 3600}})
    assert status == 201, answer
    own = api.with_token(answer["status"]["token"])
    eventually(lambda: own.call("GET", f"{PATHS['pod'].format(place)}/nothing")[0] == 404)
    try:
        labelled = pod({}, labels={"runwhere.ai/job-type": "training"})
        eventually(lambda: guarded.post("pod", labelled, own)[0] == 422)  # as in ``guarded``
        for kind in ("job", "statefulset"):
            body = workload(kind, 0, 0)
            body["spec"]["template"]["metadata"]["labels"]["runwhere.ai/job-type"] = "training"
            eventually(lambda kind=kind, body=body: guarded.post(kind, body, own)[0] == 422)
        yield own
    finally:
        api.delete("clusterrolebinding", name)
        api.delete("clusterrole", name)


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"resources": {"pool": "secret"}}, "resources.pool", "may not use pool secret"),
        ({"job": {"priority": "high"}}, "job.priority", "may not use priority high. Use medium or low."),
        ({"environment": {"image": "evil.example.com/x:1"}}, "environment.image", "image that is not allowed"),
        ({"environment": {"service_account": "ci"}}, "environment.service_account", "may not use service account ci"),
        ({"storage": {"workdirs": [{"path": "/scratch"}]}}, "storage.workdirs", "path of the node that is not allowed"),
        ({"resources": {"gpu": 4, "node_count": 4}}, "resources.gpu", "16 GPUs in a job"),
        ({"resources": {"gpu": 1, "gpu_type": None}}, "resources.gpu_type", "may not use all GPU types"),
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
