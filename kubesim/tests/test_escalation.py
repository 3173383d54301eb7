# SPDX-License-Identifier: BSD-2-Clause
"""Nobody grants more than they hold, and a patch that would create needs the right to create."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from kubesim import LAB_USER_TOKEN, Cluster

Object = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, CLUSTER_ROLES = f"{RBAC}/namespaces/default/roles", f"{RBAC}/clusterroles"
BINDINGS, CLUSTER_BINDINGS = f"{RBAC}/namespaces/default/rolebindings", f"{RBAC}/clusterrolebindings"
GROUP = "rbac.authorization.k8s.io"


def rule(resources: list[str], verbs: list[str], group: str = "", **more: Any) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **more}


def binding(role: str, kind: str = "ClusterRole") -> Object:
    return {
        "metadata": {"name": "new"},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "friend"}],
    }


MANAGE = [rule(["roles", "clusterroles", "rolebindings", "clusterrolebindings"], ["create", "patch", "update"], GROUP)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0, controllers=False).running() as running:
        yield running


def send(
    cluster: Cluster, method: str, path: str, body: Object, token: str = LAB_USER_TOKEN, kind: str = "application/json"
) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    return requests.request(method, cluster.url + path, data=json.dumps(body), headers=headers, timeout=30)


@pytest.fixture
def hold(cluster: Cluster) -> Iterator[Any]:
    """Give lab-user these rights in the whole cluster; roles that the test makes go away."""
    before = {stored["metadata"]["name"] for stored in cluster.call(lambda: cluster.registry.list("ClusterRole"))}

    def give(rules: list[Object]) -> None:
        send(cluster, "POST", CLUSTER_ROLES, {"metadata": {"name": "held"}, "rules": rules}, cluster.token)
        subject = {"kind": "User", "apiGroup": GROUP, "name": "lab-user"}
        body = {**binding("held"), "metadata": {"name": "held"}, "subjects": [subject]}
        assert send(cluster, "POST", CLUSTER_BINDINGS, body, cluster.token).status_code == 201

    yield give
    for kind, path in (("ClusterRoleBinding", CLUSTER_BINDINGS), ("ClusterRole", CLUSTER_ROLES)):
        for stored in cluster.call(lambda kind=kind: cluster.registry.list(kind)):
            name = stored["metadata"]["name"]
            if name in ("held", "new") or (kind == "ClusterRole" and name not in before):
                send(cluster, "DELETE", f"{path}/{name}", {}, cluster.token)
    for path in (BINDINGS, ROLES):
        send(cluster, "DELETE", f"{path}/new", {}, cluster.token)


PODS = [rule(["pods"], ["get", "list"])]
CASES = [
    ("the same", PODS, PODS, 201),
    ("less", PODS, [rule(["pods"], ["get"])], 201),
    ("one named object of those that are held", PODS, [rule(["pods"], ["get"], resourceNames=["a"])], 201),
    ("more verbs", PODS, [rule(["pods"], ["get", "delete"])], 403),
    ("another group", PODS, [rule(["pods"], ["get"], "apps")], 403),
    ("a part of what is held", PODS, [rule(["pods/log"], ["get"])], 403),
    (
        "all parts of that name",
        [rule(["*/scale"], ["get"], "apps")],
        [rule(["deployments/scale"], ["get"], "apps")],
        201,
    ),
    ("all objects, where one is held", [rule(["pods"], ["get"], resourceNames=["a"])], [rule(["pods"], ["get"])], 403),
    ("together from two rules", [*PODS, rule(["nodes"], ["list"])], [rule(["pods", "nodes"], ["list"])], 201),
    ("every verb", PODS, [rule(["pods"], ["*"])], 403),
    ("with the verb escalate", [rule(["roles"], ["escalate"], GROUP)], [rule(["pods"], ["*"])], 201),
]


@pytest.mark.parametrize(("held", "wanted", "status"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_role_grants_what_its_author_holds(
    cluster: Cluster, hold: Any, held: list[Object], wanted: list[Object], status: int
) -> None:
    hold([*MANAGE, *held])
    answer = send(cluster, "POST", ROLES, {"metadata": {"name": "new"}, "rules": wanted})
    assert answer.status_code == status, answer.text


def test_the_refusal_names_what_is_missing(cluster: Cluster, hold: Any) -> None:
    hold([*MANAGE, *PODS])
    body = {"metadata": {"name": "new"}, "rules": [rule(["pods"], ["get", "patch", "delete"])]}
    answer = send(cluster, "POST", CLUSTER_ROLES, body)
    assert answer.json()["message"] == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "lab-user" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["patch" "delete"]}'
    )


@pytest.mark.parametrize(
    ("held", "status"),
    [([], 403), (PODS, 201), ([rule(["clusterroles"], ["bind"], GROUP, resourceNames=["target"])], 201)],
    ids=["without its rights", "with its rights", "with the verb bind"],
)
def test_a_binding_grants_what_its_author_holds(cluster: Cluster, hold: Any, held: list[Object], status: int) -> None:
    hold([*MANAGE, *held])
    send(cluster, "POST", CLUSTER_ROLES, {"metadata": {"name": "target"}, "rules": PODS}, cluster.token)
    for path in (BINDINGS, CLUSTER_BINDINGS):
        assert send(cluster, "POST", path, binding("target")).status_code == status


def test_an_account_without_the_permissions_may_not_bind_a_missing_role(cluster: Cluster, hold: Any) -> None:
    hold(MANAGE)
    answer = send(cluster, "POST", BINDINGS, binding("missing"))
    assert (answer.status_code, answer.json()["message"]) == (
        404,
        'clusterroles.rbac.authorization.k8s.io "missing" not found',
    )


def test_a_role_that_changes_is_judged_again_and_one_that_stays_is_not(cluster: Cluster, hold: Any) -> None:
    hold(MANAGE)
    send(cluster, "POST", ROLES, {"metadata": {"name": "new"}, "rules": PODS}, cluster.token)
    kind = "application/merge-patch+json"
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert send(cluster, "PATCH", f"{ROLES}/new", labelled, kind=kind).status_code == 403
    assert send(cluster, "PATCH", f"{ROLES}/new", {"metadata": {"finalizers": ["a.b/c"]}}, kind=kind).status_code == 200
    send(cluster, "PATCH", f"{ROLES}/new", {"metadata": {"finalizers": None}}, kind=kind)


def test_an_apply_that_creates_needs_both_permissions(cluster: Cluster, hold: Any) -> None:
    hold([rule(["configmaps"], ["patch"]), rule(["configmaps"], ["create"], resourceNames=["mine"])])
    kind, query = "application/apply-patch+yaml", "fieldManager=t"
    for name, status in (("mine", 201), ("other", 403)):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/default/configmaps/{name}?{query}"
        answer = send(cluster, "PATCH", path, body, kind=kind)
        assert answer.status_code == status
    assert answer.json()["message"] == 'configmaps "other" is forbidden: '
