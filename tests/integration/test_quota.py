# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_quota and gpuctl_quota_info: what an administrator who declares limits gets."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .ansible import Ansible, TaskResult
from .api import Api, eventually
from .manifests import compute, training
from .namespaces import remove_namespaces, unused_namespace
from .recorder import Recorder

QUOTA = "runwhere.gpuctl.gpuctl_quota"
INFO = "runwhere.gpuctl.gpuctl_quota_info"


def run(ansible: Ansible, module: str = QUOTA, *, check: bool = False, **options: Any) -> TaskResult:
    done = ansible.play([{"name": "quota", module: options}], check=check)
    (task,) = done.tasks
    return replace(task, screen=done.output)


def rows(result: TaskResult) -> dict[str, dict[str, Any]]:
    """The entries of ``results`` by their namespace."""
    return {row["namespace"]: row for row in result.result["results"]}


def said(result: TaskResult) -> str:
    """Everything printed, on one line: ansible-core 2.16 wraps warnings."""
    return " ".join(result.screen.split())


def manifest(name: str, users: dict[str, Any], **section: Any) -> dict[str, Any]:
    return {"kind": "quota", "quota": {"name": name, **section}, "users": users}


@pytest.fixture
def quota() -> str:
    return f"q-{secrets.token_hex(4)}"


@pytest.fixture
def users(api: Api) -> Iterator[list[str]]:
    """Names for three namespaces; what a test makes of them goes away."""
    names = [unused_namespace() for _ in range(3)]
    yield names
    remove_namespaces(api, *names)


def hard(api: Api, quota: str, namespace: str) -> dict[str, str]:
    return dict(api.get("resourcequota", f"{quota}-{namespace}", namespace)["spec"].get("hard") or {})


def test_run_again_check_and_check_again(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, quota: str, users: list[str]
):
    new = users[0]
    declared = manifest(
        quota,
        {new: {"cpu": 10, "memory": "20Gi", "gpu": 4}, namespace: {"cpu": "500m", "pods": 3}},
        description="Team quota",
    )

    predicted = run(ansible, definition=declared, check=True)
    assert predicted.changed, predicted.message
    assert {name: row["action"] for name, row in rows(predicted).items()} == {new: "create", namespace: "create"}
    assert recorder.writes == []
    assert any(f"resourcequotas/{quota}-{namespace}" in request for request in recorder.dry_runs)
    assert api.get("namespace", new) is None

    first = run(ansible, definition=declared)
    assert first.changed, first.message
    assert first.diff == predicted.diff
    assert {name: row["action"] for name, row in rows(first).items()} == {new: "create", namespace: "create"}
    assert rows(first)[namespace]["cpu"] == {"used": "0", "hard": "500m", "percent": 0.0}
    assert rows(first)[namespace]["gpu"] is None
    assert hard(api, quota, new) == {
        "requests.cpu": "10",
        "limits.cpu": "10",
        "requests.memory": "20Gi",
        "limits.memory": "20Gi",
        "requests.nvidia.com/gpu": "4",
    }
    assert hard(api, quota, namespace) == {"requests.cpu": "500m", "limits.cpu": "500m", "pods": "3"}
    defaults = {name: api.get("limitrange", f"{quota}-{name}", name)["spec"]["limits"] for name in (new, namespace)}
    full, small = {"cpu": "1", "memory": "1Gi"}, {"cpu": "125m"}
    assert defaults == {
        new: [{"type": "Container", "default": full, "defaultRequest": full}],
        namespace: [{"type": "Container", "default": small, "defaultRequest": small}],
    }
    made, found = (api.get("namespace", name)["metadata"]["labels"] for name in (new, namespace))
    assert made["runwhere.ai/namespace"] == found["runwhere.ai/namespace"] == "true"
    assert made["app.kubernetes.io/managed-by"] == "runwhere.gpuctl"
    assert "app.kubernetes.io/managed-by" not in found, "it is not ours"

    for check in (False, True):
        recorder.clear()
        again = run(ansible, definition=declared, check=check)
        assert not again.changed, again.diff
        assert [request.method for request in recorder.requests] == ["GET"] * 3


def test_amounts_are_compared_by_value(ansible: Ansible, recorder: Recorder, namespace: str, quota: str):
    run(ansible, definition=manifest(quota, {namespace: {"cpu": 1, "memory": "1Gi", "gpu": 2}}))
    recorder.clear()
    again = run(ansible, definition=manifest(quota, {namespace: {"cpu": "1000m", "memory": "1024Mi", "gpu": "2"}}))
    assert not again.changed, again.diff
    assert recorder.writes == recorder.dry_runs == []


def test_a_removed_limit_no_longer_applies(ansible: Ansible, api: Api, namespace: str, quota: str):
    run(ansible, definition=manifest(quota, {namespace: {"cpu": 4, "memory": "8Gi"}}))
    result = run(ansible, definition=manifest(quota, {namespace: {"cpu": 4, "gpu": 1}}))
    assert rows(result)[namespace]["action"] == "update"
    assert set(hard(api, quota, namespace)) == {"requests.cpu", "limits.cpu", "requests.nvidia.com/gpu"}
    (limits,) = api.get("limitrange", f"{quota}-{namespace}", namespace)["spec"]["limits"]
    assert limits["default"] == limits["defaultRequest"] == {"cpu": "1"}

    run(ansible, definition=manifest(quota, {namespace: {"gpu": 1}}))
    assert api.get("limitrange", f"{quota}-{namespace}", namespace) is None
    assert not run(ansible, definition=manifest(quota, {namespace: {"gpu": 1}})).changed


def test_a_pod_that_asks_for_nothing_starts_in_a_small_quota(ansible: Ansible, api: Api, namespace: str, quota: str):
    run(ansible, definition=manifest(quota, {namespace: {"cpu": "200m", "memory": "64Mi", "gpu": 0}}))
    container = {"name": "main", "image": "registry.example.com/ml:v1"}
    pod = api.create("pod", {"metadata": {"name": "bare"}, "spec": {"containers": [container]}}, namespace)
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "50m", "memory": "16Mi"}
    assert "nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"]["limits"]


def test_a_job_that_never_fits_into_its_quota_says_so(ansible: Ansible, namespace: str, quota: str):
    run(ansible, definition=manifest(quota, {namespace: {"cpu": 8, "memory": "8Gi", "gpu": 1}}))
    job = training(resources={"gpu": 2})
    ansible.job(definition=job, namespace=namespace)
    reason = eventually(lambda: ansible.job(definition=job, namespace=namespace).jobs["train"]["reason"])
    assert f"quota {quota}-{namespace}" in reason
    assert "is too small for the job (nvidia.com/gpu: 2 requested, at most 1 allowed)" in reason


def test_a_limit_below_the_usage_is_applied_with_a_warning(ansible: Ansible, namespace: str, quota: str):
    run(ansible, definition=manifest(quota, {namespace: {"cpu": 8, "memory": "8Gi"}}))
    web = compute(resources={"cpu": "200m", "memory": "64Mi"})
    assert not ansible.job(definition=web, namespace=namespace, wait=True, wait_timeout=90).failed
    lower = manifest(quota, {namespace: {"cpu": "100m", "memory": "8Gi"}})
    predicted, result = run(ansible, definition=lower, check=True), run(ansible, definition=lower)
    for each in (predicted, result):
        assert each.changed, each.message
        assert rows(each)[namespace]["over_quota"] == [{"resource": "cpu", "used": "200m", "hard": "100m"}]
        assert rows(each)[namespace]["cpu"] == {"used": "200m", "hard": "100m", "percent": 200.0}
        assert "cpu 200m of 100m" in said(each)
    again = run(ansible, definition=lower)
    assert not again.changed
    assert rows(again)[namespace]["over_quota"] == rows(result)[namespace]["over_quota"]
    info = run(ansible, INFO, namespaces=[namespace])
    assert rows(info)[namespace]["over_quota"] == rows(result)[namespace]["over_quota"]


def test_a_quota_in_a_namespace_with_pods_counts_them_at_once(ansible: Ansible, namespace: str, quota: str):
    ansible.job(
        definition=compute(resources={"cpu": "200m", "memory": "64Mi"}), namespace=namespace, wait=True, wait_timeout=90
    )
    result = run(ansible, definition=manifest(quota, {namespace: {"cpu": "100m", "pods": 5}}))
    assert rows(result)[namespace]["pods"] == {"used": 1, "hard": 5, "percent": 20.0}
    assert rows(result)[namespace]["over_quota"] == [{"resource": "cpu", "used": "200m", "hard": "100m"}]


def test_the_unenforced_gpu_key_is_migrated(ansible: Ansible, api: Api, recorder: Recorder, namespace: str, quota: str):
    """Whoever wrote the key: an apply alone would leave another manager's in place."""
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/quota": quota}
    old = {"metadata": {"name": f"{quota}-{namespace}", "labels": labels}, "spec": {"hard": {"nvidia.com/gpu": "4"}}}
    api.create("resourcequota", old, namespace)
    declared = manifest(quota, {namespace: {"gpu": 4}})

    predicted, result = run(ansible, definition=declared, check=True), run(ansible, definition=declared)
    for each in (predicted, result):
        assert rows(each)[namespace]["action"] == "update"
        assert "Kubernetes does not enforce nvidia.com/gpu" in said(each)
    assert hard(api, quota, namespace) == {"requests.nvidia.com/gpu": "4"}
    recorder.clear()
    again = run(ansible, definition=declared)
    assert not again.changed
    assert "does not enforce" not in said(again)
    assert recorder.writes == []


def test_a_namespace_that_is_dropped_loses_its_quota_and_stays(
    ansible: Ansible, api: Api, namespace: str, quota: str, users: list[str]
):
    both = {namespace: {"cpu": 4}, users[0]: {"cpu": 4}}
    run(ansible, definition=manifest(quota, both))
    result = run(ansible, definition=manifest(quota, {namespace: {"cpu": 4}}))
    assert {name: row["action"] for name, row in rows(result).items()} == {namespace: "unchanged", users[0]: "delete"}
    assert api.get("namespace", users[0])["status"]["phase"] == "Active"
    assert api.list("resourcequota", users[0]) == api.list("limitrange", users[0]) == []
    assert not run(ansible, definition=manifest(quota, {namespace: {"cpu": 4}})).changed


def test_two_quotas_cannot_claim_one_namespace_but_it_can_move(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, quota: str
):
    other = f"{quota}-b"
    run(ansible, definition=manifest(quota, {namespace: {"cpu": 4}}))
    recorder.clear()
    refused = run(ansible, definition=manifest(other, {namespace: {"cpu": 8}}))
    assert refused.failed
    assert f"quota {other}: the namespace {namespace} already belongs to the quota {quota}." in refused.message
    together = [manifest(quota, {namespace: {"cpu": 4}}), manifest(other, {namespace: {"cpu": 8}})]
    refused = run(ansible, definition=together)
    assert refused.failed
    assert f"namespace in several quotas: in {other}" in refused.message
    assert f"also in {quota}, document 1" in refused.message
    assert recorder.writes == []

    moved = run(ansible, definition=[manifest(quota, {}), manifest(other, {namespace: {"cpu": 8}})])
    assert [(row["name"], row["action"]) for row in moved.result["results"]] == [(other, "create"), (quota, "delete")]
    assert [obj["metadata"]["name"] for obj in api.list("resourcequota", namespace)] == [f"{other}-{namespace}"]


def test_two_hosts_that_claim_a_namespace_at_the_same_time(
    ansible: Ansible, api: Api, namespace: str, quota: str, users: list[str]
):
    """Different quotas: the second one fails. The same quota: both succeed."""

    def declare(name: str, directory: str) -> TaskResult:
        (ansible.directory / directory).mkdir(exist_ok=True)
        host = replace(ansible, directory=ansible.directory / directory)
        return run(host, definition=manifest(name, {users[0]: {"cpu": 4}, namespace: {"cpu": 4}}))

    for names in ((quota, quota), (f"{quota}-a", f"{quota}-b")):
        with ThreadPoolExecutor() as pool:
            one, two = pool.map(declare, names, ("one", "two"))
        if names[0] == names[1]:
            assert not one.failed, one.message
            assert not two.failed, two.message
            assert len(api.list("resourcequota", users[0])) == len(api.list("resourcequota", namespace)) == 1
            assert run(ansible, name=quota, state="absent").changed
            continue
        messages = " ".join(result.message for result in (one, two) if result.failed)
        assert messages
        for user in (users[0], namespace):
            assert len(api.list("resourcequota", user)) == 1 or f"the namespace {user} to the quota" in messages


def test_an_unmanaged_quota_is_reported_and_not_changed(ansible: Ansible, api: Api, namespace: str, quota: str):
    theirs = api.create("resourcequota", {"metadata": {"name": "theirs"}, "spec": {"hard": {"pods": "9"}}}, namespace)
    result = run(ansible, definition=manifest(quota, {namespace: {"cpu": 4}}))
    assert rows(result)[namespace]["other_quotas"] == ["theirs"]
    assert f"namespace {namespace} is also limited by quotas that do not belong to gpuctl" in said(result)
    run(ansible, definition=manifest(quota, {namespace: {"cpu": 4}}), state="absent")
    assert api.get("resourcequota", "theirs", namespace)["metadata"]["uid"] == theirs["metadata"]["uid"]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_all_blockers_are_reported_before_anything_is_written(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, quota: str, users: list[str], state: str
):
    for kind, spec in {"resourcequota": {"hard": {"pods": "9"}}, "limitrange": {"limits": [{"type": "Pod"}]}}.items():
        api.create(kind, {"metadata": {"name": f"{quota}-{namespace}"}, "spec": spec}, namespace)
    declared = manifest(quota, {users[0]: {"cpu": 4}, namespace: {"cpu": 4}})
    result = run(ansible, definition=declared, state=state)
    assert result.failed
    for kind in ("ResourceQuota", "LimitRange"):
        assert f"{kind} {quota}-{namespace} exists and does not belong to gpuctl" in result.message
    assert "Nothing was changed." in result.message
    assert recorder.writes == []
    assert api.get("namespace", users[0]) is None


def test_a_manually_edited_limit_is_a_conflict_unless_forced(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, quota: str, users: list[str]
):
    declared = manifest(quota, {users[0]: {"pods": 1}, namespace: {"pods": 5}})
    run(ansible, definition=manifest(quota, {namespace: {"pods": 5}}))
    api.patch("resourcequota", f"{quota}-{namespace}", {"spec": {"hard": {"pods": "7"}}}, namespace)
    recorder.clear()
    result = run(ansible, definition=declared)
    assert result.failed
    assert "spec.hard.pods" in result.message
    assert "force_conflicts" in result.message
    assert recorder.writes == []
    assert run(ansible, definition=declared, force_conflicts=True).changed
    assert hard(api, quota, namespace) == {"pods": "5"}


def test_deletion_leaves_namespaces(ansible: Ansible, api: Api, recorder: Recorder, quota: str, users: list[str]):
    declared = manifest(quota, {user: {"cpu": 4} for user in users})
    run(ansible, definition=declared)
    predicted = run(ansible, namespaces=[users[0]], state="absent", check=True)
    assert rows(predicted)[users[0]]["action"] == "delete"
    assert rows(run(ansible, namespaces=[users[0]], state="absent"))[users[0]]["name"] == quota
    assert api.list("resourcequota", users[0]) == api.list("limitrange", users[0]) == []
    assert set(rows(run(ansible, name=quota, namespaces=[users[1]], state="absent"))) == {users[1]}
    assert set(rows(run(ansible, name=quota, state="absent"))) == {users[2]}
    assert all(api.get("namespace", user)["status"]["phase"] == "Active" for user in users)

    recorder.clear()
    for options in ({"definition": declared}, {"name": quota}, {"namespaces": users}):
        assert not run(ansible, **options, state="absent").changed
    assert recorder.writes == []


def test_only_managed_namespaces_are_deleted(ansible: Ansible, api: Api, namespace: str, quota: str, users: list[str]):
    declared = manifest(quota, {users[0]: {"cpu": 4}, namespace: {"cpu": 4}})
    run(ansible, definition=declared)
    options = {"definition": declared, "state": "absent", "delete_namespaces": True, "wait": True, "wait_timeout": 90}
    predicted = run(ansible, **options, check=True)
    result = run(ansible, **options)
    for each in (predicted, result):
        assert {name: row["action"] for name, row in rows(each).items()} == {users[0]: "delete", namespace: "delete"}
        assert rows(each)[namespace]["reason"] == "not created by gpuctl"
        assert f"namespace {namespace} is kept" in said(each)
    assert api.get("namespace", users[0]) is None
    assert api.get("namespace", namespace)["status"]["phase"] == "Active"
    assert api.list("resourcequota", namespace) == []
    assert not run(ansible, **options).changed


def test_a_shared_namespace_is_never_deleted(ansible: Ansible, api: Api, recorder: Recorder):
    options = {"namespaces": ["default", "kube-system"], "state": "absent", "delete_namespaces": True, "force": True}
    result = run(ansible, **options)
    assert not result.changed, result.message
    assert {row["reason"] for row in rows(result).values()} == {"protected namespace"}
    assert recorder.writes == []


def test_a_namespace_with_pods_or_claims_needs_force(
    ansible: Ansible, api: Api, recorder: Recorder, quota: str, users: list[str]
):
    busy, storing, idle = users
    declared = manifest(quota, {user: {"pods": 4} for user in users})
    run(ansible, definition=declared)
    ansible.job(definition=compute(), namespace=busy, wait=True, wait_timeout=90)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    api.create("persistentvolumeclaim", {"metadata": {"name": "models"}, "spec": claim}, storing)
    options = {"definition": declared, "state": "absent", "delete_namespaces": True}
    recorder.clear()
    refused = run(ansible, **options)
    assert refused.failed
    assert f"namespace {busy}: its deletion would also delete pods web-" in refused.message
    assert f"namespace {storing}: its deletion would also delete claims models" in refused.message
    assert idle not in refused.message
    assert recorder.writes == []

    assert run(ansible, **options, force=True, wait=True, wait_timeout=120).changed
    assert not any(api.get("namespace", user) for user in users)


def test_a_terminating_namespace_is_created_again(ansible: Ansible, api: Api, quota: str, users: list[str]):
    declared = manifest(quota, {users[0]: {"pods": 4}})
    run(ansible, definition=declared)
    uid = api.get("namespace", users[0])["metadata"]["uid"]
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    api.create("configmap", held, users[0])
    run(ansible, definition=declared, state="absent", delete_namespaces=True)
    eventually(lambda: "hold" in str(api.get("namespace", users[0])["status"].get("conditions")))

    timed_out = run(ansible, definition=declared, wait_timeout=1)
    assert timed_out.failed
    assert f"still terminating after 1 s: Namespace {users[0]} (" in timed_out.message
    assert "example.com/hold in 1 resource instances." in timed_out.message, "what keeps the namespace"
    api.patch("configmap", "held", {"metadata": {"finalizers": None}}, users[0])
    assert run(ansible, definition=declared, wait_timeout=90).changed
    assert api.get("namespace", users[0])["metadata"]["uid"] != uid
    assert hard(api, quota, users[0]) == {"pods": "4"}


def test_a_wait_for_a_deletion_is_for_what_was_deleted_before_too(
    ansible: Ansible, api: Api, quota: str, users: list[str]
):
    declared = manifest(quota, {users[0]: {"pods": 4}, users[1]: {"pods": 4}})
    run(ansible, definition=declared)
    api.create("configmap", {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}, users[0])
    gone = {"state": "absent", "delete_namespaces": True}
    assert run(ansible, definition=declared, **gone).changed
    eventually(lambda: "hold" in str(api.get("namespace", users[0])["status"].get("conditions")))
    for options in ({"definition": declared}, {"namespaces": users[:1]}):
        waited = run(ansible, **options, **gone, wait=True, wait_timeout=1)
        assert waited.failed, options
        assert waited.message.startswith(f"namespace {users[0]} still terminating after 1 s. Remove what keeps it")
        assert "example.com/hold in 1 resource instances." in waited.message
        (row,) = (row for row in waited.result["results"] if row["namespace"] == users[0])
        assert row["reason"].startswith(f"namespace {users[0]} is being deleted. ")
    api.patch("configmap", "held", {"metadata": {"finalizers": None}}, users[0])
    done = run(ansible, definition=declared, **gone, wait=True, wait_timeout=90)
    assert not done.failed
    assert not any(api.get("namespace", user) for user in users[:2])


def test_a_namespace_that_cannot_end_is_named_by_other_modules(
    ansible: Ansible, api: Api, kubeconfig: Path, quota: str, users: list[str]
):
    run(ansible, definition=manifest(quota, {users[0]: {"pods": 4}}))
    api.create("configmap", {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}, users[0])
    run(ansible, namespaces=users[:1], state="absent", delete_namespaces=True)
    eventually(lambda: "hold" in str(api.get("namespace", users[0])["status"].get("conditions")))
    rules = {"kind": "policy", "policy": {"name": quota}, "teams": {"a": {"namespaces": users[:1], "pools": ["p"]}}}
    try:
        direct = replace(ansible, environment={"K8S_AUTH_KUBECONFIG": str(kubeconfig), "COLUMNS": "400"})
        policy = direct.module("gpuctl_policy", definition=rules, check=True)
        workspace = ansible.module("gpuctl_workspace", namespace=users[0])
        account = ansible.module("gpuctl_rbac", name="alice", level="submit", namespaces=users[:1])
        said = (" ".join(policy.screen.split()), workspace.message, account.message)
        for text in said:
            assert f"namespace {users[0]} is being deleted." in text
            assert "example.com/hold in 1 resource instances." in text
    finally:
        api.patch("configmap", "held", {"metadata": {"finalizers": None}}, users[0])


def test_info_filters_and_takes_two_requests(
    ansible: Ansible, recorder: Recorder, namespace: str, quota: str, users: list[str]
):
    everyone = {user: {"cpu": 4, "gpu": 2} for user in (namespace, *users)}
    run(ansible, definition=manifest(quota, everyone, description="Team quota"))
    recorder.clear()
    result = run(ansible, INFO, name=quota, all_namespaces=True)
    assert [request.method for request in recorder.requests] == ["GET", "GET"], (
        "quotas, and namespaces for their levels"
    )
    assert sorted(rows(result)) == sorted(everyone)
    assert rows(result)[users[0]] == {
        "name": quota,
        "namespace": users[0],
        "description": "Team quota",
        "cpu": {"used": "0", "hard": "4", "percent": 0.0},
        "memory": None,
        "gpu": {"used": 0, "hard": 2, "percent": 0.0},
        "gpu_share": None,
        "gpu_memory": None,
        "accelerators": None,
        "device_classes": None,
        "pods": None,
        "gpu_hours": None,
        "shares": {},
        "opportunistic": False,
        "pod_security": None,
        "problem": None,
        "over_quota": [],
    }
    assert set(rows(run(ansible, INFO, all_namespaces=True))) >= set(everyone)
    only = run(ansible, INFO, namespaces=[users[1]], full=True)
    assert rows(only)[users[1]]["object"]["kind"] == "ResourceQuota"
    assert run(ansible, INFO, name=f"{quota}-none").result["results"] == []
    assert run(ansible, INFO, name="a b").result["results"] == []


def test_permission_for_one_namespace_only(ansible: Ansible, api: Api, recorder: Recorder, namespace: str, quota: str):
    run(ansible, definition=manifest(quota, {namespace: {"cpu": 4}}))
    rule = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["get", "list"]}
    api.create("role", {"metadata": {"name": "reader"}, "rules": [rule]}, namespace)
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gpuctl-test-reader"}],
    }
    api.create("rolebinding", binding, namespace)
    someone = {"impersonate_user": "gpuctl-test-reader"}
    own = eventually(lambda: not (r := run(ansible, INFO, namespaces=[namespace], **someone)).failed and r)
    assert rows(own)[namespace]["name"] == quota
    everything = run(ansible, INFO, **someone)
    assert everything.failed
    assert "forbidden" in everything.message

    recorder.clear()
    write = run(ansible, definition=manifest(quota, {namespace: {"cpu": 5}}), **someone)
    assert write.failed
    assert "Managing quotas requires permission" in write.message
    assert recorder.writes == []


@pytest.fixture
def auditor(api: Api) -> Iterator[str]:
    """A user with permission to list everything that quotas concern, and to write nothing."""
    name = f"gpuctl-test-{secrets.token_hex(4)}"
    resources = ["namespaces", "resourcequotas", "limitranges", "pods", "persistentvolumeclaims"]
    rule = {"apiGroups": [""], "resources": resources, "verbs": ["get", "list"]}
    api.create("clusterrole", {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }
    api.create("clusterrolebinding", binding)
    yield name
    api.delete("clusterrolebinding", name)
    api.delete("clusterrole", name)


def test_check_mode_with_read_permissions_warns(
    ansible: Ansible, recorder: Recorder, namespace: str, quota: str, users: list[str], auditor: str
):
    declared = manifest(quota, {users[0]: {"cpu": 4}, namespace: {"cpu": 4}})
    options = {"definition": declared, "impersonate_user": auditor}
    predicted = eventually(lambda: not (r := run(ansible, **options, check=True)).failed and r)
    assert {row["action"] for row in rows(predicted).values()} == {"create"}
    assert "not validated by the server" in said(predicted)
    refused = run(ansible, **options)
    assert refused.failed
    assert "forbidden" in refused.message
    assert users[0] in refused.message
    assert f"quota {quota} in namespace {namespace}" in refused.message
    assert recorder.writes == []


BAD = {
    "a negative amount": ({"team": {"cpu": -1}}, ["users.team.cpu", "-1", "0 or more"]),
    "nonsense": ({"team": {"memory": "20GB"}}, ["users.team.memory", "20GB", "20G"]),
    "a fraction of a GPU": ({"team": {"gpu": 0.5}}, ["users.team.gpu", "0.5", "whole number"]),
    "an unknown resource": ({"team": {"gpus": 4}}, ["users.team.gpus", "Did you mean gpu"]),
    "Kubernetes' words": ({"team": {"nvidia.com/gpu": 4}}, ["nvidia.com/gpu", "Valid keys: cpu"]),
    "a namespace of Kubernetes": ({"kube-system": {"cpu": 1}}, ["users.kube-system", "Kubernetes itself"]),
    "our namespace": ({"gpuctl-system": {"cpu": 1}}, ["users.gpuctl-system", "gpuctl itself"]),
    "an invalid namespace name": ({"Elon_Musk": {"cpu": 1}}, ["users.Elon_Musk", "invalid name"]),
}


@pytest.mark.parametrize(("users", "words"), BAD.values(), ids=BAD)
def test_bad_input(ansible: Ansible, recorder: Recorder, users: dict[str, Any], words: list[str]):
    result = run(ansible, definition=manifest("q", users))
    assert result.failed
    assert "1 error " in result.message
    for word in words:
        assert word in result.message
    assert recorder.requests == []


OPTIONS = {
    "a negative timeout": (
        {"name": "q", "state": "absent", "wait_timeout": -1},
        ["wait_timeout: -1 is negative. Give 0 or more."],
    ),
    "no input": ({}, ["src", "definition", "name", "namespaces"]),
    "names do not create": ({"namespaces": ["team"]}, ["state is present", "src"]),
    "two inputs": ({"name": "q", "definition": manifest("q", {})}, ["mutually exclusive"]),
    "only a job": ({"definition": training()}, ["no quota", "training"]),
}


@pytest.mark.parametrize(("options", "words"), OPTIONS.values(), ids=OPTIONS)
def test_bad_options(ansible: Ansible, recorder: Recorder, options: dict[str, Any], words: list[str]):
    result = run(ansible, **options)
    assert result.failed
    for word in words:
        assert word in result.message
    assert recorder.requests == []


def test_a_namespace_enforces_pod_security(ansible: Ansible, api: Api, namespace: str, quota: str, users: list[str]):
    """An existing namespace and a new one; then the key changes, goes, and the quota goes."""
    places = {namespace: {"pods": 3}, users[0]: {"pods": 3}}

    def levels() -> set[tuple[str | None, str | None]]:
        found = [api.get("namespace", name)["metadata"]["labels"] for name in places]
        return {tuple(each.get(f"pod-security.kubernetes.io/{mode}") for mode in ("enforce", "warn")) for each in found}

    def declared(level: str | None) -> dict[str, Any]:
        return {**manifest(quota, places), **({"pod_security": level} if level else {})}

    first = run(ansible, definition=declared("baseline"))
    assert first.changed, first.message
    assert "no host paths" in said(first)
    assert levels() == {("baseline", "baseline")}
    again = run(ansible, definition=declared("baseline"))
    assert not again.changed, again.diff
    assert "host paths" not in said(again)
    assert {row["pod_security"] for row in rows(run(ansible, INFO, namespaces=list(places))).values()} == {"baseline"}

    assert run(ansible, definition=declared("restricted")).changed
    assert levels() == {("restricted", "restricted")}
    run(ansible, definition=declared(None))
    assert levels() == {(None, None)}
    run(ansible, definition=declared("baseline"))
    run(ansible, name=quota, state="absent")
    assert levels() == {(None, None)}
    assert {row["pod_security"] for row in rows(run(ansible, INFO)).values() if row["name"] == quota} == set()


def test_a_level_set_by_another_field_manager_is_a_conflict(ansible: Ansible, api: Api, namespace: str, quota: str):
    api.patch("namespace", namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    declared = {**manifest(quota, {namespace: {"pods": 3}}), "pod_security": "baseline"}
    refused = run(ansible, definition=declared)
    assert refused.failed
    assert "pod-security.kubernetes.io/enforce" in refused.message
    assert "force_conflicts" in refused.message
    assert api.get("resourcequota", f"{quota}-{namespace}", namespace) is None
    assert run(ansible, definition=declared, force_conflicts=True).changed
    labels = api.get("namespace", namespace)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"


@pytest.mark.skipif("GPUCTL_TEST_KUBECONFIG" not in os.environ, reason="the simulator does not look at existing pods")
def test_running_pods_that_violate_a_level_are_named(ansible: Ansible, api: Api, namespace: str, quota: str):
    ansible.job(definition=training(storage={"workdirs": [{"path": "/tmp"}]}), namespace=namespace)
    eventually(lambda: api.list("pod", namespace))
    declared = {**manifest(quota, {namespace: {"pods": 3}}), "pod_security": "baseline"}
    for check in (True, False):
        result = run(ansible, definition=declared, check=check)
        assert "violate the new PodSecurity enforce level" in said(result)
        assert "hostPath volumes. Running pods continue" in said(result)
    assert "violate" not in said(run(ansible, definition=declared))
