# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_rbac: the access of accounts, and that the levels allow exactly what the modules need."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import DEVICE_CLAIMS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import ADMINISTER, READ, SUBMIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.levels import cluster_roles

from .accounts import account, make_priority_classes
from .ansible import ROOT, Ansible, TaskResult
from .api import PATHS, Api, eventually, require
from .manifests import compute, inference, notebook, training
from .namespaces import make_namespace, remove_namespaces, unused_namespace
from .pools import LEASE, Field
from .recorder import Permission, Recorder

DECLARED = ROOT / "examples" / "manifests" / "training-full-finetune.yaml"  # without secrets
OURS = "app.kubernetes.io/managed-by=runwhere.gpuctl"
RBAC, WORKSPACE = "runwhere.gpuctl.gpuctl_rbac", "runwhere.gpuctl.gpuctl_workspace"


@pytest.fixture
def robot(api: Api, namespace: str) -> Iterator[dict[str, Any]]:
    """Options for an account of the test; what it was bound to goes away."""
    name = f"t-{secrets.token_hex(4)}"
    yield {"name": name, "namespace": namespace}
    for kind, obj in [("clusterrolebinding", obj) for obj in api.list("clusterrolebinding")] + role_bindings(api):
        if obj["metadata"]["name"].endswith(f":{namespace}:{name}"):
            api.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))


def role_bindings(api: Api) -> list[tuple[str, dict[str, Any]]]:
    """Those of all namespaces, each with its kind."""
    status, answer = api.call("GET", "/apis/rbac.authorization.k8s.io/v1/rolebindings")
    assert status == 200, answer
    return [("rolebinding", obj) for obj in answer["items"]]


def grant(ansible: Ansible, robot: dict[str, Any], **options: Any) -> TaskResult:
    return ansible.module("gpuctl_rbac", **robot, **options)


def may(
    api: Api,
    robot: dict[str, Any],
    verb: str,
    resource: str,
    namespace: str = "",
    group: str = "",
    subresource: str = "",
) -> bool:
    """What the cluster says that the account may do."""
    attributes = {
        "verb": verb,
        "resource": resource,
        "namespace": namespace,
        "group": group,
        "subresource": subresource,
    }
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


def test_append_keeps_what_an_account_has(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, robot: dict[str, Any]
):
    with_jobs = make_namespace(api)
    try:
        grant(ansible, robot, level=SUBMIT, namespaces=[with_jobs])
        added = grant(ansible, robot, level=READ, namespaces=[namespace], append=True)
        assert added.changed, added.message
        assert "delete" not in {each["action"] for each in added.result["results"][0]["resources"]}
        eventually(lambda: may(api, robot, "list", "pods", namespace))
        assert may(api, robot, "create", "jobs", with_jobs, "batch")
        assert not may(api, robot, "create", "jobs", namespace, "batch")
        recorder.clear()
        assert not grant(ansible, robot, level=READ, namespaces=[namespace], append=True).changed
        assert recorder.writes == []
        grant(ansible, robot, level=READ, namespaces=[namespace])
        eventually(lambda: not may(api, robot, "create", "jobs", with_jobs, "batch"))
    finally:
        remove_namespaces(api, with_jobs)


def test_an_unmanaged_account_is_bound_and_not_changed(
    ansible: Ansible, api: Api, namespace: str, robot: dict[str, Any]
):
    made = api.create("serviceaccount", {"metadata": {"name": robot["name"]}}, namespace)
    assert grant(ansible, robot, level=READ).changed
    assert grant(ansible, robot, state="absent").changed
    now = api.get("serviceaccount", robot["name"], namespace)
    assert now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    eventually(lambda: not may(api, robot, "list", "pods", namespace))


def test_a_manually_changed_role_is_restored(ansible: Ansible, api: Api, recorder: Recorder, robot: dict[str, Any]):
    recorder.identity = api  # Only a cluster administrator writes roles.
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
        (
            {"name": "a", "level": "submit", "namespaces": ["kube-system", "default", "gpuctl-system"]},
            [
                "namespaces: reserved for Kubernetes itself: kube-system. Remove it.",
                "namespaces: reserved for gpuctl itself: gpuctl-system.",
            ],
        ),
        (
            {"name": "A_b", "namespace": "C", "level": "read"},
            ["name: invalid name 'A_b'", "namespace: invalid name 'C'"],
        ),
        (
            {"name": "a", "namespace": "default", "level": "submit", "namespaces": ["gpuctl-nowhere", "default"]},
            ["namespace gpuctl-nowhere not found", "gpuctl_workspace (namespace=gpuctl-nowhere)"],
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


def test_read_for_the_whole_cluster_has_no_logs_of_the_system(ansible: Ansible, api: Api, robot: dict[str, Any]):
    done = grant(ansible, robot, level=READ)
    assert done.changed, done.message
    eventually(lambda: may(api, robot, "get", "pods", robot["namespace"], subresource="log"))
    assert may(api, robot, "list", "pods", "kube-system")
    for namespace in ("kube-system", "kube-public", "gpuctl-system", ""):
        assert not may(api, robot, "get", "pods", namespace, subresource="log"), namespace


def test_administer_in_one_namespace_ends_there(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, robot: dict[str, Any]
):
    done = grant(ansible, robot, level=ADMINISTER, namespaces=[namespace], append=True)
    assert done.changed, done.message
    eventually(lambda: may(api, robot, "create", "resourcequotas", namespace))
    eventually(lambda: may(api, robot, "create", "serviceaccounts", namespace))
    for place in ("default", "kube-system", "gpuctl-system"):
        assert not may(api, robot, "create", "resourcequotas", place), place
        assert not may(api, robot, "create", "serviceaccounts", place), place
    assert not may(api, robot, "patch", "nodes")
    assert not may(api, robot, "create", "namespaces")
    recorder.clear()
    assert not grant(ansible, robot, level=ADMINISTER, namespaces=[namespace]).changed
    assert recorder.writes == []


def test_administer_is_not_cluster_admin(ansible: Ansible, api: Api, recorder: Recorder, robot: dict[str, Any]):
    recorder.identity = api
    done = grant(ansible, robot, level=ADMINISTER)
    assert done.changed, done.message
    own = robot["namespace"]
    eventually(lambda: may(api, robot, "create", "deployments", own, "apps"))
    assert may(api, robot, "patch", "nodes")
    assert may(api, robot, "delete", "configmaps", "gpuctl-system")
    rbac = "rbac.authorization.k8s.io"
    forbidden = [
        *((verb, "deployments", "kube-system", "apps") for verb in ("create", "patch", "delete")),
        *((verb, "jobs", "gpuctl-system", "batch") for verb in ("create", "patch", "delete")),
        *((verb, "configmaps", "kube-system", "") for verb in ("create", "patch", "delete")),
        *((verb, "leases", "kube-system", "coordination.k8s.io") for verb in ("get", "create", "patch")),
        ("patch", "leases", "gpuctl-system", "coordination.k8s.io"),
        *((verb, "serviceaccounts", "kube-system", "") for verb in ("create", "delete")),
        *((verb, "pods", "kube-system", "") for verb in ("create", "delete", "deletecollection")),
        *((verb, "clusterroles", "", rbac) for verb in ("create", "patch", "escalate", "bind")),
        *((verb, "roles", own, rbac) for verb in ("create", "patch", "escalate", "bind")),
        *((verb, "secrets", place, "") for verb in ("get", "list") for place in (own, "kube-system", "")),
        ("create", "pods", own, ""),
        ("patch", "priorityclasses", "", "scheduling.k8s.io"),
    ]
    assert [attempt for attempt in forbidden if may(api, robot, *attempt)] == []


@pytest.mark.parametrize("other", ["cluster-admin", "edit"])
def test_administer_binds_no_roles_of_others(
    administrator: Api, api: Api, namespace: str, robot: dict[str, Any], other: str
):
    if administrator is api:
        pytest.skip("this cluster does not enforce RBAC")
    subject = {"kind": "ServiceAccount", "name": robot["name"], "namespace": namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": other}
    binding = {"metadata": {"name": f"gpuctl-read:{namespace}:{robot['name']}"}, "roleRef": ref, "subjects": [subject]}
    for path in (PATHS["clusterrolebinding"], PATHS["rolebinding"].format(namespace)):
        status, answer = administrator.call("POST", path, binding)
        assert status == 403, answer
        assert "attempting to grant RBAC permissions not currently held" in answer["message"]


def test_a_level_for_the_whole_cluster_reaches_namespaces_of_later_quotas(
    ansible: Ansible, api: Api, field: Field, namespace: str, robot: dict[str, Any]
):
    later = f"{namespace}-later"
    quota = {"kind": "quota", "quota": {"name": field.pool("q")}, "users": {later: {"cpu": 64}}}
    grant(ansible, robot, level=ADMINISTER)
    try:
        task = {"definition": quota}
        predicted = ansible.module("gpuctl_quota", **task, check=True)
        done = ansible.module("gpuctl_quota", **task)
        assert done.changed, done.message
        assert predicted.diff == done.diff
        eventually(lambda: may(api, robot, "create", "jobs", later, "batch"))
    finally:
        remove_namespaces(api, later)


def test_provision_creates_a_namespace_and_jobs_in_it_as_an_administrator(
    ansible: Ansible, api: Api, namespace: str, robot: dict[str, Any]
):
    """Nothing may be created in it before it is there, and what asks for permissions first has to know that."""
    new = unused_namespace()
    quota = {"kind": "quota", "quota": {"name": new}, "users": {new: {"cpu": 4, "memory": "4Gi", "gpu": 1}}}
    (ansible.directory / "new").mkdir()
    (ansible.directory / "new" / "all.yaml").write_text(yaml.safe_dump_all([quota, compute(job={"namespace": new})]))
    grant(ansible, robot, level=ADMINISTER)
    eventually(lambda: may(api, robot, "patch", "nodes"))
    user = f"system:serviceaccount:{namespace}:{robot['name']}"
    administrator = Ansible(ansible.directory, {**ansible.environment, "K8S_AUTH_IMPERSONATE_USER": user})
    try:
        done = administrator.run("ansible-playbook", "runwhere.gpuctl.provision", "-e", "gpuctl_dir=new")
        assert done.status == 0, done.output
        assert api.get("deployment", "web", new)
    finally:
        remove_namespaces(api, new)


def test_an_account_that_more_may_use_does_not_live_where_jobs_run(
    ansible: Ansible, recorder: Recorder, namespace: str, robot: dict[str, Any]
):
    team = {"name": f"{robot['name']}-team", "namespace": "gpuctl-system"}
    try:
        assert not grant(ansible, team, level=SUBMIT, namespaces=[namespace]).failed
        recorder.clear()
        refused = grant(ansible, robot, level=ADMINISTER)
        assert refused.failed
        assert (
            f"an account that submits jobs to namespace {namespace} can run them as any account of it"
            in refused.message
        )
        assert recorder.writes == []
    finally:
        grant(ansible, team, state="absent")


# ---- The levels, held to what modules send ---------------------------------------------------------------------------

# What the ClusterRole system:basic-user grants to everybody (plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
EVERYBODY: set[Permission] = {
    ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ("get", "", ""),  # /version and /apis (system:discovery)
}

# Only sent when another client writes, or deletes, at the same moment (the object is read again), or has changed a job,
# or after an interruption.
IN_RACES: set[Permission] = {
    ("get", "", "nodes"),  # engine/node_writer.py
    ("get", "", "resourcequotas"),  # quotas/quota_apply.py
    ("get", "", "services"),  # Executor._wait_until_gone, and the next
    ("get", "autoscaling", "horizontalpodautoscalers"),
    ("get", "resource.k8s.io", "resourceclaimtemplates"),
    ("delete", "", "pods"),  # jobs/transitions.py, of a notebook with updateStrategy OnDelete
    ("list", "apps", "controllerrevisions"),  # jobs/restart_copies.py
}

# What the event source runwhere.gpuctl.jobs sends, which is no module.
BY_EVENTS: set[Permission] = {
    *(("watch", "", resource) for resource in ("events", "nodes", "pods", "resourcequotas")),
    *(("watch", "apps", resource) for resource in ("deployments", "statefulsets")),
    ("watch", "batch", "jobs"),
}


@contextmanager
def acting(
    api: Api, recorder: Recorder, level: str, namespaces: list[str] | None = None, jobs: list[str] | None = None
) -> Iterator[None]:
    """Run Ansible as an account of a level; afterwards, what it used has to be what the level allows."""
    with account(api, level, namespaces, jobs) as own:
        if own is api:
            pytest.skip("this cluster does not enforce RBAC")
        recorder.identity = own
        recorder.clear()
        make_priority_classes(api)
        yield
        used: set[Permission] = set().union(
            *(request.permissions for request in recorder.requests if request.status != 403)
        )
        assert sorted(used - allowed(level) - EVERYBODY) == []
        assert sorted(allowed(level) - used - IN_RACES - BY_EVENTS) == []


def allowed(level: str) -> set[Permission]:
    """Verb, group and resource of everything that a level's roles allow.

    Without ``bind`` and ``label``, which are no requests, and without permissions for Kueue and Volcano.
    """
    return {
        (verb, group, resource)
        for role in cluster_roles(level)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("bind", "label")
        and group not in ("kueue.x-k8s.io", "scheduling.volcano.sh", "topology.volcano.sh", "keda.sh")
        and (group, resource) != ("scheduling.k8s.io", "podgroups")  # alpha
        and resource != "pods/exec"  # not by the level, but by ``exec``
        # gpuctl_doctor asks these where a service scales by a metric of its pods.
        and group not in ("apiregistration.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
    }


# None answers there: what these modules ask the API server is what counts.
PROMETHEUS = {"prometheus_url": "http://127.0.0.1:9", "prometheus_timeout": 1}


def refused(recorder: Recorder) -> set[str]:
    return {request.path for request in recorder.requests if request.status == 403}


def test_read_allows_what_the_info_modules_use(
    ansible: Ansible, api: Api, recorder: Recorder, field: Field, namespace: str
):
    quota = {"kind": "quota", "quota": {"name": field.pool("q")}, "users": {namespace: {"cpu": 64}}}
    submitted = ansible.play(
        [
            pool_of_devices(field),
            {"runwhere.gpuctl.gpuctl_quota": {"definition": quota}},
            {"runwhere.gpuctl.gpuctl_job": {"definition": [*jobs(), claiming(field)], "namespace": namespace}},
            # What has not started has no log to read.
            {"runwhere.gpuctl.gpuctl_job": {"definition": compute(), "namespace": namespace, "wait": True}},
        ]
    )
    assert not any(task.failed for task in submitted.tasks), submitted.output
    with acting(api, recorder, READ):
        assert_all_well(ansible, reading(namespace))
        assert refused(recorder) == set()


def test_submit_allows_what_gpuctl_job_uses(
    ansible: Ansible, api: Api, recorder: Recorder, field: Field, namespace: str
):
    assert_all_well(ansible, [pool_of_devices(field)])
    with acting(api, recorder, SUBMIT, [namespace]):
        assert_all_well(ansible, submitting(namespace, field))
        assert_all_well(ansible, reading_in(namespace))
        # What they ask beyond it is for explanations only: whose pods use the GPUs, where else a job may be.
        explaining = {"/api/v1/pods", "/apis/batch/v1/jobs", "/apis/resource.k8s.io/v1/resourceclaims"}
        assert refused(recorder) <= explaining


def test_administer_allows_what_all_modules_use(
    ansible: Ansible, api: Api, recorder: Recorder, field: Field, namespace: str, robot: dict[str, Any]
):
    api.call("DELETE", LEASE)
    with acting(api, recorder, ADMINISTER, jobs=[namespace]):
        api.delete("priorityclass", "gpuctl-high")  # A pool creates it again,
        api.delete("priorityclass", "gpuctl-low")  # and gpuctl_rbac corrects this one.
        wrong = {"metadata": {"name": "gpuctl-low", "labels": dict([OURS.split("=")])}, "value": 7}
        api.create("priorityclass", wrong)
        assert_all_well(ansible, [*administering(field, namespace, robot), pool_of_devices(field)])
        assert_all_well(ansible, submitting(namespace, field))
        assert_all_well(ansible, reading(namespace))
        limited = compute("limited", job={"time_limit": "1h"})
        expire = {"namespaces": [namespace], "warn_before": "2h"}
        assert_all_well(ansible, [{"runwhere.gpuctl.gpuctl_job": {"definition": limited, "namespace": namespace}}])
        assert_all_well(ansible, [{"runwhere.gpuctl.gpuctl_expire": expire}])
        budgeted = {
            "kind": "quota",
            "quota": {"name": field.pool("b")},
            "users": {namespace: {"gpu_hours": {"limit": 9}}},
        }
        assert_all_well(ansible, [{"runwhere.gpuctl.gpuctl_quota": {"definition": budgeted}}])
        assert_all_well(ansible, [{"runwhere.gpuctl.gpuctl_budget": {"namespaces": [namespace]}}])
        assert_all_well(ansible, [{"runwhere.gpuctl.gpuctl_quota": {"name": field.pool("b"), "state": "absent"}}])
        # Dry runs need the permissions to write.
        assert_all_well(ansible, [{"runwhere.gpuctl.gpuctl_plan_info": {"src": [str(ROOT / "examples" / "cluster")]}}])
        assert refused(recorder) == set()


def assert_all_well(ansible: Ansible, tasks: list[dict[str, Any]]) -> None:
    done = ansible.play(tasks)
    assert [task.message for task in done.tasks if task.failed] == []


def jobs() -> list[dict[str, Any]]:
    return [compute(), training("stuck", resources={"gpu-type": "H9"})]


def pool_of_devices(field: Field) -> dict[str, Any]:
    """Of a class that there is not, so that jobs with its devices wait."""
    require(field.api, DEVICE_CLAIMS)
    options = {"name": field.pool("a"), "nodes": [field.nodes[0]], "device_class": f"{field.prefix}.example.com"}
    return {"runwhere.gpuctl.gpuctl_pool": options}


def claiming(field: Field) -> dict[str, Any]:
    return training("claiming", resources={"pool": field.pool("a")})


def reading(namespace: str) -> list[dict[str, Any]]:
    return [
        *reading_in(namespace),
        {"runwhere.gpuctl.gpuctl_node_info": {}},
        {"runwhere.gpuctl.gpuctl_pool_info": {}},
        {"runwhere.gpuctl.gpuctl_quota_info": {}},
        {"runwhere.gpuctl.gpuctl_doctor": {"fail_on": "never"}},
        {"runwhere.gpuctl.gpuctl_fit_info": {"definition": claimed(), "namespace": namespace}},
        {"runwhere.gpuctl.gpuctl_monitoring_info": {}},
        {"runwhere.gpuctl.gpuctl_drift_info": {"src": [str(DECLARED)], "namespace": namespace}},
    ]


def claimed() -> dict[str, Any]:
    claim = {"workdirs": [{"path": "/data", "claim": "none"}]}
    return compute("claimed", environment={"service_account": "default"}, storage=claim)


def reading_in(namespace: str) -> list[dict[str, Any]]:
    log = {"namespace": namespace}
    return [
        {"runwhere.gpuctl.gpuctl_job_info": {"namespaces": [namespace], "details": True, "pods": True}},
        {"runwhere.gpuctl.gpuctl_job_log": {**log, "name": "web"}},
        {"runwhere.gpuctl.gpuctl_job_log": {**log, "name": "missing"}, "failed_when": False},
        {"runwhere.gpuctl.gpuctl_quota_info": {"namespaces": [namespace]}},
        {"runwhere.gpuctl.gpuctl_job_history_info": {"namespaces": [namespace]}},
        {"runwhere.gpuctl.gpuctl_usage_info": {"namespaces": [namespace]}},
        {"runwhere.gpuctl.gpuctl_advice_info": {**PROMETHEUS, "namespaces": [namespace]}, "failed_when": False},
        {"runwhere.gpuctl.gpuctl_job_metrics_info": {**log, **PROMETHEUS, "name": "web"}, "failed_when": False},
        {"runwhere.gpuctl.gpuctl_idle": {**PROMETHEUS, "namespaces": [namespace]}, "failed_when": False},
    ]


def submitting(namespace: str, field: Field) -> list[dict[str, Any]]:
    def job(**options: Any) -> dict[str, Any]:
        return {"runwhere.gpuctl.gpuctl_job": {"namespace": namespace, **options}}

    scaled = inference(autoscaling={"min_replicas": 1, "max_replicas": 2, "metric": "cpu", "target": 50})
    wide = training("wide", resources={"node_count": 2}, distributed={"backend": "deepspeed"})
    never = [kind("never-" + kind.__name__, resources={"gpu-type": "H9"}) for kind in (training, notebook, compute)]
    never.append(claiming(field))
    other = {"image": "registry.example.com/ml:v2"}
    return [
        {**job(definition=[claimed()]), "check_mode": True},
        job(definition=[*jobs(), scaled, wide, notebook()]),
        job(definition=[compute(), scaled, notebook(), wide], wait=True, wait_timeout=60),
        {  # Watches for certain: what is ready at the first look is not watched, and this one never is.
            **job(definition=never, wait=True, wait_for_nodes=True, wait_timeout=1),
            "failed_when": False,
        },
        job(definition=[compute(environment=other), training("stuck", environment=other)]),
        {"runwhere.gpuctl.gpuctl_job_history": {"namespaces": [namespace]}},
        *(job(name=name, state="restarted") for name in ("web", "wide")),
        job(name="web", state="paused"),
        job(name="web", state="resumed", wait=True, wait_timeout=60),
        job(definition=notebook(job={"time_limit": "1h"})),
        # No level may write events.
        {"runwhere.gpuctl.gpuctl_expire": {"namespaces": [namespace], "warn_before": "2h"}, "check_mode": True},
        {"runwhere.gpuctl.gpuctl_extend": {"name": "lab", "namespace": namespace, "by": "1h"}},
        job(definition=[scaled, wide, notebook(), *never], state="absent", force=True, wait=True),
    ]


def registry(password: str) -> dict[str, str]:
    return {"server": "registry.example.com", "username": "robot", "password": password}


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
        {WORKSPACE: {"namespace": namespace, "claim": {"size": "1Gi"}, "registry": registry("a")}},
        {WORKSPACE: {"namespace": namespace, "claim": {"size": "1Gi"}, "registry": registry("b")}},
        {WORKSPACE: {"namespace": namespace, "state": "absent"}},
        *({RBAC: {**robot, "level": level, "namespaces": [namespace]}} for level in (READ, SUBMIT)),
        {"runwhere.gpuctl.gpuctl_kubeconfig": {**robot, "dest": "kubeconfig"}},
        {RBAC: {**robot, "level": ADMINISTER}},
        {RBAC: {**robot, "state": "absent"}},
    ]
