# SPDX-License-Identifier: BSD-2-Clause
"""Attacks by an account of the level submit: by the modules of the collection, and by plain requests as kubectl's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import SUBMIT
from integration.accounts import account, make_priority_classes
from integration.ansible import ROOT, Ansible, TaskResult
from integration.api import PATHS, Api, eventually
from integration.manifests import compute
from integration.namespaces import make_namespace, remove_namespaces
from integration.pools import LEASE, SYSTEM, Field
from integration.recorder import Recorder

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
WHO_AM_I = "/selfsubjectreviews"  # a question that is sent with POST
POD = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
JOB = {"metadata": {"name": "mine"}, "spec": {"template": {"spec": POD}}}
DEPLOYMENT = {
    "metadata": {"name": "theirs", "labels": {"app": "theirs", "app.kubernetes.io/managed-by": "runwhere.gpuctl"}},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "theirs"}},
        "template": {"metadata": {"labels": {"app": "theirs"}}, "spec": {"containers": POD["containers"]}},
    },
}

# What RBAC cannot refuse, so that no test here expects it to be refused. The guide to security says so, in these words,
# with a ValidatingAdmissionPolicy as the cure.
ONLY_BY_POLICY = [
    "run pods with any path of a node, with privileges, or in the host's network",
    "run pods as another service account of the namespace",
    "use any PriorityClass, also ``gpuctl-high`` and ``system-cluster-critical``",
    "run pods on the nodes of any pool, by selector, toleration or ``nodeName``",
    "create Services of type ``LoadBalancer`` or ``ExternalName``, or with ``externalIPs``",
    "write labels, annotations or a ledger that pretend a job, its submitter or its result is another one",
]


@dataclass
class Stage:
    """The attacker may submit jobs to ``own``. ``other`` is the namespace of another team."""

    api: Api
    attacker: Api
    own: str
    other: str
    node: str

    def refused(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> None:
        """The request, as a dry run where it writes: if the server let it through, nothing else would suffer."""
        path = path if method == "GET" or path.endswith("/token") else f"{path}?dryRun=All"
        status, answer = self.attacker.call(method, path, body, content_type)
        assert status == 403, f"{method} {path}: {status} {answer}"

    def in_own(self, kind: str) -> str:
        return PATHS[kind].format(self.own)

    def in_other(self, kind: str) -> str:
        return PATHS[kind].format(self.other)


@pytest.fixture(scope="module")
def stage(api: Api) -> Iterator[Stage]:
    own, other = make_namespace(api), make_namespace(api)
    make_priority_classes(api)
    api.call("POST", PATHS["namespace"], {"metadata": {"name": SYSTEM}})
    for place in (own, other):
        api.create("secret", {"metadata": {"name": "hub"}, "stringData": {"token": "s3cret"}}, place)
        api.create("serviceaccount", {"metadata": {"name": "operator"}}, place)
        api.create("resourcequota", {"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "50"}}}, place)
        api.create("limitrange", {"metadata": {"name": "q"}, "spec": {"limits": []}}, place)
    api.create("deployment", DEPLOYMENT, other)
    node = api.list("node")[0]["metadata"]["name"]
    with account(api, SUBMIT, [own]) as attacker:
        if attacker is api:
            pytest.skip("this cluster does not enforce RBAC")
        yield Stage(api, attacker, own, other, node)
    remove_namespaces(api, own, other)


def test_the_attacker_is_a_submitter(stage: Stage):
    """What a submitter does all day is allowed, so the refusals below are not those of an account without rights."""
    status, answer = stage.attacker.call("POST", f"{stage.in_own('job')}?dryRun=All", JOB)
    assert status == 201, answer


# ---- By plain requests


def test_secrets_of_the_cluster(stage: Stage):
    """A submitter lists the Secrets of all namespaces: refused."""
    stage.refused("GET", "/api/v1/secrets")


def test_a_secret_of_another_team(stage: Stage):
    """A submitter reads a Secret of another team: refused."""
    stage.refused("GET", f"{stage.in_other('secret')}/hub")


def test_a_secret_of_its_own_namespace_by_request(stage: Stage):
    """A submitter reads a Secret of its own namespace by a request: refused (its pods may, says the guide)."""
    stage.refused("GET", f"{stage.in_own('secret')}/hub")


@pytest.mark.parametrize("place", ["own", "other"])
def test_a_shell_in_a_container(stage: Stage, place: str):
    """A submitter runs a command in a pod, its own or another team's: refused."""
    stage.refused("POST", f"{PATHS['pod'].format(getattr(stage, place))}/some-pod/exec?command=sh&container=main")


@pytest.mark.parametrize("place", ["other", "kube-system", SYSTEM])
def test_logs_of_others(stage: Stage, place: str):
    """A submitter reads the log of a pod of another team or of the system: refused."""
    namespace = getattr(stage, place, place)
    stage.refused("GET", f"{PATHS['pod'].format(namespace)}/some-pod/log")


@pytest.mark.parametrize("place", ["other", "kube-system", SYSTEM])
def test_jobs_elsewhere(stage: Stage, place: str):
    """A submitter creates a Job in the namespace of another team or of the system: refused."""
    stage.refused("POST", PATHS["job"].format(getattr(stage, place, place)), JOB)


def test_the_end_of_another_teams_service(stage: Stage):
    """A submitter deletes the Deployment of another team: refused."""
    stage.refused("DELETE", f"{stage.in_other('deployment')}/theirs")


def test_the_end_of_another_teams_pods(stage: Stage):
    """A submitter deletes or evicts the pods of another team: refused."""
    stage.refused("DELETE", stage.in_other("pod"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "some-pod"}}
    stage.refused("POST", f"{stage.in_other('pod')}/some-pod/eviction", eviction)


def test_a_pod_around_the_job(stage: Stage):
    """A submitter creates a pod by itself, or adds a container to one that runs: refused."""
    stage.refused("POST", stage.in_own("pod"), {"metadata": {"name": "mine"}, "spec": POD})
    debugger = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}}
    stage.refused("PATCH", f"{stage.in_own('pod')}/some-pod/ephemeralcontainers", debugger, MERGE)


def test_the_pool_of_a_node(stage: Stage):
    """A submitter labels a node to get it into its pool: refused."""
    label = {"metadata": {"labels": {"runwhere.ai/pool": "mine"}}}
    stage.refused("PATCH", f"{PATHS['node']}/{stage.node}", label, MERGE)


def test_the_taints_of_a_node(stage: Stage):
    """A submitter cordons a node to keep it from others: refused."""
    stage.refused("PATCH", f"{PATHS['node']}/{stage.node}", {"spec": {"unschedulable": True}}, MERGE)


def test_the_kubelet_of_a_node(stage: Stage):
    """A submitter asks the kubelet of a node for its pods and logs, around the API server's permissions: refused."""
    stage.refused("GET", f"{PATHS['node']}/{stage.node}/proxy/pods")


def test_a_global_default_priority(stage: Stage):
    """A submitter makes gpuctl-high the priority of all pods: refused."""
    stage.refused("PATCH", f"{PATHS['priorityclass']}/gpuctl-high", {"globalDefault": True}, MERGE)


def test_a_priority_class_of_its_own(stage: Stage):
    """A submitter creates a PriorityClass, one of its own or gpuctl-low with the highest value: refused."""
    for name in ("mine", "gpuctl-low"):
        stage.refused("POST", PATHS["priorityclass"], {"metadata": {"name": name}, "value": 1_000_000_000})


def test_the_end_of_a_priority_class(stage: Stage):
    """A submitter deletes a PriorityClass, to create it with another value: refused."""
    stage.refused("DELETE", f"{PATHS['priorityclass']}/gpuctl-low")


def _binding(stage: Stage, role: str) -> dict[str, Any]:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": stage.own}
    return {"metadata": {"name": "mine"}, "roleRef": ref, "subjects": [subject]}


@pytest.mark.parametrize("role", ["cluster-admin", "edit", "gpuctl-administer", "gpuctl-submit"])
def test_a_role_for_itself(stage: Stage, role: str):
    """A submitter binds an account of its namespace to a role, in its own namespace or everywhere: refused."""
    stage.refused("POST", stage.in_own("rolebinding"), _binding(stage, role))
    stage.refused("POST", stage.in_other("rolebinding"), _binding(stage, role))
    stage.refused("POST", PATHS["clusterrolebinding"], _binding(stage, role))


def test_more_in_its_own_role(stage: Stage):
    """A submitter writes more permissions into its role, or makes one of its own: refused."""
    everything = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    stage.refused("PATCH", f"{PATHS['clusterrole']}/gpuctl-submit", everything, MERGE)
    stage.refused("POST", stage.in_own("role"), {"metadata": {"name": "mine"}, **everything})


def test_the_name_of_another_user(stage: Stage):
    """A submitter impersonates a cluster administrator: refused."""
    disguised = copy.copy(stage.attacker)
    disguised.headers = {**stage.attacker.headers, "Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    status, answer = disguised.call("GET", PATHS["node"])
    assert status == 403, answer


def test_the_token_of_another_account(stage: Stage):
    """A submitter asks for the token of another service account: refused."""
    for place in (stage.own, "kube-system"):
        path = f"{PATHS['serviceaccount'].format(place)}/operator/token"
        stage.refused("POST", path, {"spec": {"expirationSeconds": 600}})


def test_the_lock_of_the_pools(stage: Stage):
    """A submitter takes the Lease of the pools, so that no administrator changes them any more: refused."""
    stage.refused("PATCH", LEASE, {"spec": {"holderIdentity": "mine", "leaseDurationSeconds": 100_000}}, MERGE)
    stage.refused("POST", LEASE.removesuffix("/pools"), {"metadata": {"name": "pools"}})


def test_the_declaration_of_a_pool(stage: Stage):
    """A submitter writes the ConfigMap that declares a pool: refused."""
    data = {"metadata": {"name": "pool-mine"}, "data": {"nodes": f"{stage.node}:\n"}}
    stage.refused("POST", PATHS["configmap"].format(SYSTEM), data)


def test_a_higher_quota(stage: Stage):
    """A submitter raises or removes the limits of its namespace: refused."""
    quota = f"{stage.in_own('resourcequota')}/q"
    stage.refused("PATCH", quota, {"spec": {"hard": {"requests.nvidia.com/gpu": "1000"}}}, MERGE)
    stage.refused("DELETE", quota)
    stage.refused("DELETE", f"{stage.in_own('limitrange')}/q")


def test_the_pod_security_of_its_namespace(stage: Stage):
    """A submitter lowers the Pod Security level of its namespace, or creates a namespace without one: refused."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    stage.refused("PATCH", f"{PATHS['namespace']}/{stage.own}", label, MERGE)
    stage.refused("POST", PATHS["namespace"], {"metadata": {"name": f"{stage.own}-mine"}})


def test_a_volume_of_a_node(stage: Stage):
    """A submitter makes a PersistentVolume of a node's directory, which no Pod Security level would notice: refused."""
    source = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/etc"}}
    stage.refused("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "mine"}, "spec": source})


def test_a_webhook(stage: Stage):
    """A submitter has all objects of the cluster sent to a server of its own: refused."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    stage.refused("POST", path, {"metadata": {"name": "mine"}, "webhooks": []})


# ---- By the modules


@pytest.fixture
def attack(ansible: Ansible, recorder: Recorder, stage: Stage) -> Ansible:
    recorder.identity = stage.attacker
    recorder.clear()
    return ansible


def fails(result: TaskResult, recorder: Recorder, *words: str) -> None:
    assert result.failed, result.result
    for word in words:
        assert word in result.message
    done = [request for request in recorder.requests if request.method != "GET" and request.status in (200, 201)]
    assert [request for request in done if not (request.dry_run or request.path.endswith(WHO_AM_I))] == []


def in_namespace(place: str) -> dict[str, Any]:
    return {**compute("mine"), "job": {"name": "mine", "namespace": place}}


def test_gpuctl_job_in_another_teams_namespace(attack: Ansible, recorder: Recorder, stage: Stage):
    """A submitter's manifest names the namespace of another team: nothing is created there."""
    fails(attack.job(definition=in_namespace(stage.other), namespace=stage.own), recorder, "forbidden")


@pytest.mark.parametrize("place", ["kube-system", "kube-public", SYSTEM])
def test_gpuctl_job_in_a_system_namespace(attack: Ansible, api: Api, recorder: Recorder, stage: Stage, place: str):
    """A manifest names a namespace of the system: refused even if the account is an administrator's."""
    recorder.identity = api
    asked = attack.job(definition=in_namespace(place), namespace=stage.own)
    fails(asked, recorder, "document 1, job.namespace: ", place)
    assert recorder.requests == []


@pytest.mark.parametrize(
    "place", ["{own}/../kube-system", "{own}/pods/../../kube-system", "..", "{own}?x=", "KUBE-SYSTEM"]
)
def test_gpuctl_job_in_a_namespace_that_is_a_path(
    attack: Ansible, api: Api, recorder: Recorder, stage: Stage, place: str
):
    """A namespace is a piece of a URL that leads elsewhere: refused before any request."""
    recorder.identity = api
    named = place.format(own=stage.own)
    fails(attack.job(definition=compute("mine"), namespace=named), recorder, "invalid namespace")
    fails(attack.job(name="mine", namespace=named, state="absent"), recorder, "invalid namespace")
    assert recorder.requests == []


@pytest.mark.parametrize("given", ["manifest", "name", "log", "info", "copy", "quota"])
def test_what_a_credential_for_one_team_refuses(
    attack: Ansible, api: Api, recorder: Recorder, stage: Stage, given: str
):
    """Whoever fills in a form with the credential of one team names another: refused, with any account and option."""
    recorder.identity = api
    attack.environment["GPUCTL_ALLOWED_NAMESPACES"] = stage.own
    wider = {"allowed_namespaces": [stage.own, stage.other]}
    quota = {"kind": "quota", "quota": {"name": "q"}, "users": {stage.other: {"cpu": 1}}}
    module, options = {
        "manifest": ("gpuctl_job", {"definition": [in_namespace(stage.own), in_namespace(stage.other)]}),
        "name": ("gpuctl_job", {"name": "theirs", "namespace": stage.other, "state": "absent"}),
        "log": ("gpuctl_job_log", {"name": "theirs", "namespace": stage.other}),
        "info": ("gpuctl_job_info", {"namespaces": [stage.other]}),
        "copy": (
            "gpuctl_copy",
            {"name": "theirs", "namespace": stage.other, "local_path": "/tmp/x", "remote_path": "/x"},
        ),
        "quota": ("gpuctl_quota", {"definition": quota}),
    }[given]
    fails(attack.module(module, **options, **wider), recorder, "namespace not allowed", stage.other)
    assert recorder.requests == []


def test_a_list_of_all_jobs_with_the_credential_of_one_team(
    attack: Ansible, api: Api, recorder: Recorder, stage: Stage
):
    """Whoever has the credential of one team lists the jobs of all: only those of the team are listed."""
    recorder.identity = api
    attack.environment["GPUCTL_ALLOWED_NAMESPACES"] = stage.own
    listed = attack.module("gpuctl_job_info")
    assert not listed.failed, listed.message
    assert "theirs" not in listed.jobs
    assert all(f"/namespaces/{stage.own}/" in request.path for request in recorder.requests)


def test_the_quota_that_reaches_into_other_namespaces(attack: Ansible, api: Api, recorder: Recorder, stage: Stage):
    """A manifest of one's own namespace removes the limits that its quota has in others: refused."""
    recorder.identity = api
    name = f"q-{stage.own}"
    both = {"kind": "quota", "quota": {"name": name}, "users": {stage.own: {"cpu": 8}, stage.other: {"cpu": 8}}}
    try:
        assert not attack.module("gpuctl_quota", definition=both).failed
        attack.environment["GPUCTL_ALLOWED_NAMESPACES"] = stage.own
        for options in (
            {"definition": {**both, "users": {stage.own: {"cpu": 8}}}},
            {"name": name, "state": "absent"},
        ):
            recorder.clear()
            fails(attack.module("gpuctl_quota", **options), recorder, "namespace not allowed", stage.other)
    finally:
        for place in (stage.own, stage.other):
            api.delete("resourcequota", f"{name}-{place}", place)
            api.delete("limitrange", f"{name}-{place}", place)


def test_gpuctl_job_on_another_teams_job(attack: Ansible, recorder: Recorder, stage: Stage):
    """A submitter pauses and deletes the job of another team: it stays as it is."""
    for state in ("paused", "absent"):
        recorder.clear()
        fails(attack.job(name="theirs", namespace=stage.other, state=state), recorder, "forbidden")
    assert stage.api.get("deployment", "theirs", stage.other)


def test_gpuctl_job_log_of_another_team(attack: Ansible, recorder: Recorder, stage: Stage):
    """A submitter reads the log of another team's job: refused."""
    fails(attack.module("gpuctl_job_log", name="theirs", namespace=stage.other), recorder, "forbidden")


def test_gpuctl_job_info_of_another_team(attack: Ansible, recorder: Recorder, stage: Stage):
    """A submitter lists the jobs of another team, or of the whole cluster: refused."""
    for options in ({"namespaces": [stage.other]}, {}):
        recorder.clear()
        fails(attack.module("gpuctl_job_info", **options), recorder, "forbidden")


def test_gpuctl_pool_and_labels(attack: Ansible, recorder: Recorder, stage: Stage, field: Field):
    """A submitter moves nodes to a pool of its own: refused, no label changes."""
    fails(attack.module("gpuctl_pool", name=field.pool("mine"), nodes=[stage.node]), recorder, "forbidden")
    recorder.clear()
    task = {"nodes": [stage.node], "labels": {"pool": field.pool("mine")}}
    fails(attack.module("gpuctl_node_label", **task), recorder, "forbidden")


def test_gpuctl_quota(attack: Ansible, recorder: Recorder, stage: Stage):
    """A submitter raises the quota of its namespace with the module: refused."""
    quota = {"kind": "quota", "quota": {"name": "q"}, "users": {stage.own: {"gpu": 1000}}}
    fails(attack.module("gpuctl_quota", definition=quota), recorder, "forbidden")


@pytest.mark.parametrize("level", ["administer", "submit"])
def test_gpuctl_rbac(attack: Ansible, recorder: Recorder, stage: Stage, level: str):
    """A submitter grants an account of its namespace a level: refused."""
    where = {"namespaces": [stage.own]} if level == "submit" else {}
    options = {"name": "operator", "namespace": stage.own, "level": level, **where}
    fails(attack.module("gpuctl_rbac", **options), recorder, "forbidden")


def test_gpuctl_job_writes_no_priority_class(attack: Ansible, recorder: Recorder, stage: Stage):
    """A submitter's job needs a PriorityClass that is missing: nothing is written, and an administrator is named."""
    stage.api.delete("priorityclass", "gpuctl-low")
    try:
        job = {**compute("mine"), "job": {"name": "mine", "priority": "low"}}
        asked = attack.job(definition=job, namespace=stage.own)
        fails(asked, recorder, "PriorityClass gpuctl-low not found", "gpuctl_rbac", "Nothing was changed.")
    finally:
        make_priority_classes(stage.api)


def test_gpuctl_job_says_that_a_priority_class_is_wrong(attack: Ansible, api: Api, stage: Stage):
    """gpuctl-low has become the highest priority: a submit reports it, and an administrator corrects it."""
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    wrong = {"metadata": {"name": "gpuctl-low", "labels": labels}, "value": 1_000_000_000}
    api.delete("priorityclass", "gpuctl-low")
    api.create("priorityclass", wrong)
    try:
        done = attack.job(definition=compute("mine"), namespace=stage.own)
        assert not done.failed, done.message
        said = " ".join(done.screen.split())
        assert said.count("PriorityClass gpuctl-low has value 1000000000 instead of 100") == 1
        assert "preemptionPolicy PreemptLowerPriority instead of Never" in said
        assert "run gpuctl_rbac with level submit" in said
        assert api.get("priorityclass", "gpuctl-low")["value"] == 1_000_000_000, "a submitter replaces none"
    finally:
        api.delete("priorityclass", "gpuctl-low")
        make_priority_classes(api)
        eventually(lambda: api.get("priorityclass", "gpuctl-low")["value"] == 100)


# ---- What is left


def test_the_guide_names_what_only_a_policy_refuses():
    """What the API server cannot refuse to a submitter by RBAC is not hidden."""
    guide = " ".join((ROOT / "docs/docsite/rst/guide_security.rst").read_text(encoding="utf-8").split())
    assert [words for words in ONLY_BY_POLICY if words not in guide] == []
