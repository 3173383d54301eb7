# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_rbac: the access of accounts, and that the levels allow exactly what the modules need."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.levels import (
    ADMINISTER,
    LEVELS,
    READ,
    SUBMIT,
    cluster_roles,
)

from .accounts import account
from .ansible import Ansible, TaskResult
from .api import Api, eventually
from .manifests import compute, inference, notebook, training
from .pools import LEASE, Field
from .recorder import Permission, Recorder

OURS = "app.kubernetes.io/managed-by=runwhere.gpuctl"
RBAC = "runwhere.gpuctl.gpuctl_rbac"
ROLES = [role["metadata"]["name"] for level in LEVELS for role in cluster_roles(level)]


@pytest.fixture(autouse=True)
def _leave_no_roles(api: Api) -> Iterator[None]:
    before = {name for name in ROLES if api.get("clusterrole", name)}
    yield
    for name in set(ROLES) - before:
        api.delete("clusterrole", name)


@pytest.fixture
def robot(api: Api, namespace: str) -> Iterator[dict[str, Any]]:
    """Options for an account of the test; what it was bound to goes away."""
    name = f"t-{secrets.token_hex(4)}"
    yield {"name": name, "namespace": namespace}
    for obj in api.list("clusterrolebinding"):
        if obj["metadata"]["name"].endswith(f":{namespace}:{name}"):
            api.delete("clusterrolebinding", obj["metadata"]["name"])


def grant(ansible: Ansible, robot: dict[str, Any], **options: Any) -> TaskResult:
    return ansible.module("gpuctl_rbac", **robot, **options)


def may(api: Api, robot: dict[str, Any], verb: str, resource: str, namespace: str = "", group: str = "") -> bool:
    """What the cluster says that the account may do."""
    attributes = {"verb": verb, "resource": resource, "namespace": namespace, "group": group}
    user = f"system:serviceaccount:{robot['namespace']}:{robot['name']}"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    status, answer = api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


def test_run_again_check_and_check_again(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, robot: dict[str, Any]
):
    options = {"level": SUBMIT, "namespaces": [namespace]}
    predicted = grant(ansible, robot, **options, check=True)
    assert predicted.changed, predicted.message
    assert recorder.writes == []
    assert any("rolebindings" in request for request in recorder.dry_runs)
    first = grant(ansible, robot, **options)
    assert first.changed, first.message
    assert first.diff == predicted.diff
    (result,) = first.result["results"]
    assert result["action"] == "create"
    assert result["user"] == f"system:serviceaccount:{namespace}:{robot['name']}"
    eventually(lambda: may(api, robot, "create", "jobs", namespace, "batch"))
    assert not may(api, robot, "create", "jobs", "default", "batch")

    for check in (False, True):
        recorder.clear()
        again = grant(ansible, robot, **options, check=check)
        assert not again.changed, again.diff
        assert {request.method for request in recorder.requests} == {"GET"}


def test_an_account_has_the_permissions_of_the_last_task(
    ansible: Ansible, api: Api, namespace: str, robot: dict[str, Any]
):
    grant(ansible, robot, level=ADMINISTER)
    eventually(lambda: may(api, robot, "patch", "nodes"))
    lowered = grant(ansible, robot, level=READ, namespaces=[namespace])
    assert [
        each["action"] for each in lowered.result["results"][0]["resources"] if each["kind"] == "ClusterRoleBinding"
    ] == ["delete"]
    eventually(lambda: may(api, robot, "list", "pods", namespace) and not may(api, robot, "list", "nodes"))

    gone = grant(ansible, robot, state="absent")
    assert gone.result["results"][0]["action"] == "delete"
    assert api.get("serviceaccount", robot["name"], namespace) is None
    assert api.list("rolebinding", namespace) == []
    assert not grant(ansible, robot, state="absent").changed


def test_an_unmanaged_account_is_bound_and_not_changed(
    ansible: Ansible, api: Api, namespace: str, robot: dict[str, Any]
):
    made = api.create("serviceaccount", {"metadata": {"name": robot["name"]}}, namespace)
    assert grant(ansible, robot, level=READ).changed
    assert grant(ansible, robot, state="absent").changed
    now = api.get("serviceaccount", robot["name"], namespace)
    assert now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    eventually(lambda: not may(api, robot, "list", "pods", namespace))


def test_a_manually_changed_role_is_restored(ansible: Ansible, api: Api, robot: dict[str, Any]):
    grant(ansible, robot, level=READ)
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    api.patch("clusterrole", "gpuctl-read", {"rules": everything})
    result = grant(ansible, robot, level=READ)
    assert result.result["results"][0]["action"] == "update", result.message
    assert api.get("clusterrole", "gpuctl-read")["rules"] != everything


def test_an_unmanaged_binding_is_not_changed(ansible: Ansible, api: Api, namespace: str, robot: dict[str, Any]):
    name = f"gpuctl-read:{namespace}:{robot['name']}"
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    api.create("rolebinding", {"metadata": {"name": name}, "roleRef": ref, "subjects": []}, namespace)
    result = grant(ansible, robot, level=READ, namespaces=[namespace])
    assert result.failed
    assert f"RoleBinding {name} exists and does not belong to gpuctl" in result.message
    assert api.get("serviceaccount", robot["name"], namespace) is None, "nothing was changed"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "a"}, ["state is present but all of the following are missing: level"]),
        ({"name": "a", "level": "submit"}, ["level is submit but all of the following are missing: namespaces"]),
        ({"name": "a", "level": "read", "namespaces": []}, ["namespaces: must not be empty"]),
        ({"name": "a", "level": "administer", "namespaces": ["b"]}, ["not allowed with level administer"]),
        (
            {"name": "A_b", "namespace": "C", "level": "read"},
            ["name: invalid name 'A_b'", "namespace: invalid name 'C'"],
        ),
        (
            {"name": "a", "namespace": "default", "level": "submit", "namespaces": ["gpuctl-nowhere", "default"]},
            ["namespace gpuctl-nowhere not found", "kubectl create namespace"],
        ),
    ],
)
def test_bad_input(ansible: Ansible, recorder: Recorder, options: dict[str, Any], words: list[str]):
    result = ansible.module("gpuctl_rbac", **options)
    assert result.failed
    for word in words:
        assert word in result.message
    assert recorder.writes == []


def test_no_account_grants_more_than_it_holds(
    ansible: Ansible, submitter: Api, recorder: Recorder, robot: dict[str, Any]
):
    result = grant(ansible, robot, level=ADMINISTER)
    assert result.failed
    assert "is forbidden" in result.message
    assert recorder.writes == []


# ---- The levels, held to what modules send ---------------------------------------------------------------------------

# What the ClusterRole system:basic-user grants to everybody (plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
EVERYBODY: set[Permission] = {("create", "authentication.k8s.io", "selfsubjectreviews")}

# Only sent when somebody else writes, or deletes, at the same moment (the object is read again), or has changed a job,
# or after an interruption.
IN_RACES: set[Permission] = {
    ("get", "", "nodes"),  # engine/node_writer.py
    ("get", "", "resourcequotas"),  # quotas/quota_apply.py
    ("get", "", "services"),  # Executor._wait_until_gone, and the next
    ("get", "autoscaling", "horizontalpodautoscalers"),
    ("delete", "", "pods"),  # jobs/transitions.py, of a notebook with updateStrategy OnDelete
    ("list", "apps", "controllerrevisions"),  # jobs/restart_copies.py
}


@contextmanager
def acting(api: Api, recorder: Recorder, level: str, namespaces: list[str] | None = None) -> Iterator[None]:
    """Run Ansible as an account of a level; afterwards, what it used has to be what the level allows."""
    with account(api, level, namespaces) as own:
        if own is api:
            pytest.skip("this cluster does not enforce RBAC")
        recorder.identity = own
        recorder.clear()
        for obj in api.list("priorityclass", labels=OURS):  # the first job creates them again
            api.delete("priorityclass", obj["metadata"]["name"])
        yield
        used: set[Permission] = set().union(
            *(request.permissions for request in recorder.requests if request.status != 403)
        )
        assert sorted(used - allowed(level) - EVERYBODY) == []
        assert sorted(allowed(level) - used - IN_RACES) == []


def allowed(level: str) -> set[Permission]:
    """Verb, group and resource of everything that a level's roles allow.

    Without ``bind``, which is not a request, and without permissions for Kueue.
    """
    return {
        (verb, group, resource)
        for role in cluster_roles(level)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb != "bind" and group != "kueue.x-k8s.io"
    }


def refused(recorder: Recorder) -> set[str]:
    return {request.path for request in recorder.requests if request.status == 403}


def test_read_allows_what_the_info_modules_use(
    ansible: Ansible, api: Api, recorder: Recorder, field: Field, namespace: str
):
    quota = {"kind": "quota", "quota": {"name": field.pool("q")}, "users": {namespace: {"cpu": 64}}}
    submitted = ansible.play(
        [
            {"runwhere.gpuctl.gpuctl_pool": {"name": field.pool("a"), "nodes": [field.nodes[0]]}},
            {"runwhere.gpuctl.gpuctl_quota": {"definition": quota}},
            {"runwhere.gpuctl.gpuctl_job": {"definition": jobs(), "namespace": namespace}},
            # What has not started has no log to read.
            {"runwhere.gpuctl.gpuctl_job": {"definition": compute(), "namespace": namespace, "wait": True}},
        ]
    )
    assert not any(task.failed for task in submitted.tasks), submitted.output
    with acting(api, recorder, READ):
        assert_all_well(ansible, reading(namespace))
        assert refused(recorder) == set()


def test_submit_allows_what_gpuctl_job_uses(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    with acting(api, recorder, SUBMIT, [namespace]):
        assert_all_well(ansible, submitting(namespace))
        assert_all_well(ansible, reading_in(namespace))
        # What they ask beyond it is for explanations only: whose pods use the GPUs, where else a job may be.
        assert refused(recorder) <= {"/api/v1/pods", "/apis/batch/v1/jobs"}


def test_administer_allows_what_all_modules_use(
    ansible: Ansible, api: Api, recorder: Recorder, field: Field, namespace: str, robot: dict[str, Any]
):
    api.call("DELETE", LEASE)
    with acting(api, recorder, ADMINISTER):
        assert_all_well(ansible, administering(field, namespace, robot))
        assert_all_well(ansible, submitting(namespace))
        assert_all_well(ansible, reading(namespace))
        assert refused(recorder) == set()


def assert_all_well(ansible: Ansible, tasks: list[dict[str, Any]]) -> None:
    done = ansible.play(tasks)
    assert [task.message for task in done.tasks if task.failed] == []


def jobs() -> list[dict[str, Any]]:
    return [compute(), training("stuck", resources={"gpu-type": "H9"})]


def reading(namespace: str) -> list[dict[str, Any]]:
    return [
        *reading_in(namespace),
        {"runwhere.gpuctl.gpuctl_node_info": {}},
        {"runwhere.gpuctl.gpuctl_pool_info": {}},
    ]


def reading_in(namespace: str) -> list[dict[str, Any]]:
    log = {"namespace": namespace}
    return [
        {"runwhere.gpuctl.gpuctl_job_info": {"namespaces": [namespace], "details": True, "pods": True}},
        {"runwhere.gpuctl.gpuctl_job_log": {**log, "name": "web"}},
        {"runwhere.gpuctl.gpuctl_job_log": {**log, "name": "missing"}, "failed_when": False},
        {"runwhere.gpuctl.gpuctl_quota_info": {"namespaces": [namespace]}},
    ]


def submitting(namespace: str) -> list[dict[str, Any]]:
    def job(**options: Any) -> dict[str, Any]:
        return {"runwhere.gpuctl.gpuctl_job": {"namespace": namespace, **options}}

    scaled = inference(autoscaling={"min_replicas": 1, "max_replicas": 2, "metric": "cpu", "target": 50})
    wide = training("wide", resources={"node_count": 2}, distributed={"backend": "deepspeed"})
    never = [kind("never-" + kind.__name__, resources={"gpu-type": "H9"}) for kind in (training, notebook, compute)]
    other = {"image": "registry.example.com/ml:v2"}
    return [
        job(definition=[*jobs(), scaled, wide, notebook()]),
        job(definition=[compute(), scaled, notebook(), wide], wait=True, wait_timeout=60),
        {  # Watches for certain: what is ready at the first look is not watched, and this one never is.
            **job(definition=never, wait=True, wait_for_nodes=True, wait_timeout=1),
            "failed_when": False,
        },
        job(definition=[compute(environment=other), training("stuck", environment=other)]),
        *(job(name=name, state="restarted") for name in ("web", "wide")),
        job(name="web", state="paused"),
        job(name="web", state="resumed", wait=True, wait_timeout=60),
        job(definition=[scaled, wide, notebook(), *never], state="absent", force=True, wait=True),
    ]


def administering(field: Field, namespace: str, robot: dict[str, Any]) -> list[dict[str, Any]]:
    pool, quota = field.pool("a"), field.pool("q")
    user = f"{namespace}-user"
    limited = {"kind": "quota", "quota": {"name": quota}, "users": {user: {"cpu": 64}, namespace: {"cpu": 64}}}
    return [
        {"runwhere.gpuctl.gpuctl_pool": {"name": pool, "nodes": [field.nodes[0]]}},
        {"runwhere.gpuctl.gpuctl_node_label": {"nodes": [field.nodes[1]], "labels": {"pool": pool}}},
        {"runwhere.gpuctl.gpuctl_pool": {"name": pool, "state": "absent"}},
        {"runwhere.gpuctl.gpuctl_quota": {"definition": limited}},
        {"runwhere.gpuctl.gpuctl_quota": {"name": quota, "state": "absent", "namespaces": [namespace]}},
        {
            "runwhere.gpuctl.gpuctl_quota": {
                "definition": limited,
                "state": "absent",
                "delete_namespaces": True,
                "wait": True,
            }
        },
        *({RBAC: {**robot, "level": level, "namespaces": [namespace]}} for level in (READ, SUBMIT)),
        {RBAC: {**robot, "level": ADMINISTER}},
        {RBAC: {**robot, "state": "absent"}},
    ]
