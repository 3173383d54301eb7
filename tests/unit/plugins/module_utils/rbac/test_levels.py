# SPDX-License-Identifier: BSD-2-Clause
"""The permissions of the three levels, and their bindings."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import LEVELS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.levels import (
    Subject,
    account,
    bindings,
    bindings_in_new_namespace,
    cluster_roles,
    reachable_accounts,
    subjects_of,
)


def robot(name: str = "robot", namespace: str = "here") -> Subject:
    return Subject("ServiceAccount", name, namespace)


def permissions(level: str) -> set[tuple[str, str, str, str]]:
    """Verb, group, resource and name ("" for all names) of everything that the roles of a level allow."""
    return {
        (verb, group, resource, name)
        for role in cluster_roles(level)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


@pytest.mark.parametrize(
    ("level", "namespaces", "expected"),
    [
        (
            "read",
            None,
            [
                ("ClusterRoleBinding", None, "gpuctl-read"),
                ("RoleBinding", "a", "gpuctl-logs"),
                ("RoleBinding", "b", "gpuctl-logs"),
            ],
        ),
        (
            "read",
            ["a", "kube-system"],
            [
                ("RoleBinding", "a", "gpuctl-read"),
                ("RoleBinding", "kube-system", "gpuctl-read"),
                ("RoleBinding", "a", "gpuctl-logs"),
                ("RoleBinding", "b", "gpuctl-logs"),
            ],
        ),
        (
            "submit",
            ["a", "b"],
            [
                ("ClusterRoleBinding", None, "gpuctl-submit-cluster"),
                ("RoleBinding", "gpuctl-system", "gpuctl-submit-pools"),
                ("RoleBinding", "a", "gpuctl-submit"),
                ("RoleBinding", "b", "gpuctl-submit"),
            ],
        ),
        (
            "administer",
            ["a", "b"],
            [
                ("RoleBinding", "a", "gpuctl-administer"),
                ("RoleBinding", "b", "gpuctl-administer"),
                ("RoleBinding", "a", "gpuctl-administer-jobs"),
                ("RoleBinding", "b", "gpuctl-administer-jobs"),
            ],
        ),
        (
            "administer",
            ["gpuctl-system"],
            [
                ("RoleBinding", "gpuctl-system", "gpuctl-administer"),
                ("RoleBinding", "gpuctl-system", "gpuctl-administer-pools"),
                ("RoleBinding", "a", "gpuctl-administer-jobs"),
                ("RoleBinding", "b", "gpuctl-administer-jobs"),
            ],
        ),
        (
            "administer",
            None,
            [
                ("ClusterRoleBinding", None, "gpuctl-administer"),
                ("RoleBinding", "gpuctl-system", "gpuctl-administer-pools"),
                ("RoleBinding", "a", "gpuctl-administer-jobs"),
                ("RoleBinding", "b", "gpuctl-administer-jobs"),
            ],
        ),
    ],
)
def test_bindings(level: str, namespaces: list[str] | None, expected: list[tuple[str, str | None, str]]):
    found = bindings(robot(), level, namespaces, ["a", "b"])
    assert [(obj["kind"], obj["metadata"].get("namespace"), obj["roleRef"]["name"]) for obj in found] == expected
    assert {role["metadata"]["name"] for role in cluster_roles(level)} >= {role for _kind, _place, role in expected}
    for obj in found:
        assert obj["metadata"]["name"] == f"{obj['roleRef']['name']}:here:robot"
        assert obj["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "here"}]


def test_running_commands_is_bound_where_jobs_are_only_if_asked_for():
    plain, asked = (bindings(robot(), "submit", ["a"], ["a"], exec=wanted) for wanted in (False, True))
    (extra,) = [obj for obj in asked if obj not in plain]
    assert (extra["kind"], extra["metadata"]["namespace"]) == ("RoleBinding", "a")
    (role,) = [obj for obj in cluster_roles("submit", exec=True) if obj not in cluster_roles("submit")]
    assert extra["roleRef"]["name"] == role["metadata"]["name"] == "gpuctl-exec"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}]


def test_two_accounts_never_share_a_binding():
    (one,), (other,) = bindings(robot("b-c", "a"), "read", None, []), bindings(robot("c", "a-b"), "read", None, [])
    assert one["metadata"]["name"] != other["metadata"]["name"]


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (Subject("User", "alice"), "gpuctl-read:User:alice"),
        (Subject("User", "alice@example.com"), "gpuctl-read:User:alice@example.com"),
        (Subject("Group", "oidc:/ml/team a%"), "gpuctl-read:Group:oidc:=2Fml=2Fteam=20a=25"),
        (Subject("User", "a=b"), "gpuctl-read:User:a=3Db"),
        (Subject("User", "王"), "gpuctl-read:User:=E7=8E=8B"),
    ],
)
def test_users_and_groups_are_bound_by_their_names(subject: Subject, name: str):
    (binding,) = bindings(subject, "read", None, [])
    assert binding["metadata"]["name"] == name
    assert binding["subjects"] == [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": subject.kind, "name": subject.name}
    ]
    assert subjects_of(binding) == [subject]


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        ([{"kind": "ServiceAccount", "name": "robot", "namespace": "here"}], [robot()]),
        (
            [{"kind": "User", "name": "x"}, {"kind": "Group", "name": "y"}],
            [Subject("User", "x"), Subject("Group", "y")],
        ),
        (None, []),
    ],
)
def test_the_subjects_of_a_binding(subjects: list[dict[str, Any]] | None, expected: list[Subject]):
    assert subjects_of({"subjects": subjects}) == expected


def test_a_level_for_the_whole_cluster_reaches_a_new_namespace():
    def reaches(level: str) -> list[str]:
        wide, *_places = bindings(robot(), level, None, [])
        return [obj["roleRef"]["name"] for obj in bindings_in_new_namespace(wide, "new")]

    assert [reaches(level) for level in ("read", "administer")] == [["gpuctl-logs"], ["gpuctl-administer-jobs"]]
    submit_cluster, *_places = bindings(robot(), "submit", ["a"], ["a"])
    assert bindings_in_new_namespace(submit_cluster, "new") == []


def other_bindings(name: str, namespace: str, level: str, *namespaces: str) -> list[dict[str, Any]]:
    return bindings(robot(name, namespace), level, list(namespaces) or None, namespaces)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], None),
        (other_bindings("admin", "gpuctl-system", "administer"), None),
        (other_bindings("admin", "team-a", "administer"), "gpuctl-administer"),
        (other_bindings("reader", "team-a", "read"), "gpuctl-read"),
        (other_bindings("reader", "team-a", "read", "team-a"), None),
        (other_bindings("reader", "team-a", "read", "team-b"), "gpuctl-logs"),
        (other_bindings("robot", "team-a", "submit", "team-a"), None),
        (other_bindings("robot", "team-a", "submit", "team-b"), "gpuctl-submit"),
    ],
)
def test_the_level_submit_reaches_the_accounts_of_the_namespace(others: list[dict[str, Any]], expected: str | None):
    for submitter in (robot("ci", "team-a"), Subject("User", "alice"), Subject("Group", "team-a")):
        own = bindings(submitter, "submit", ["team-a"], ["team-a"])
        assert [role for _one, _other, role in reachable_accounts([*own, *others])] == ([expected] if expected else [])


def test_an_account_that_administers_one_namespace_reaches_its_accounts_too():
    reader = other_bindings("reader", "team-a", "read")
    own = bindings(Subject("User", "alice"), "administer", ["team-a"], ["team-a"])
    assert [role for _one, _other, role in reachable_accounts([*own, *reader])] == ["gpuctl-read"]
    everywhere = bindings(Subject("User", "alice"), "administer", None, ["team-a"])
    assert list(reachable_accounts([*everywhere, *reader])) == []


def test_administer_includes_the_other_levels():
    read, submit, administer = ({permission[:3] for permission in permissions(level)} for level in LEVELS)
    assert read <= administer
    assert submit <= administer


@pytest.mark.parametrize("level", LEVELS)
def test_no_level_has_a_wildcard(level: str):
    """But to read metrics: their resources are the names of metrics, which users and administrators choose."""
    metrics = {"custom.metrics.k8s.io", "external.metrics.k8s.io"}
    wild = [permission for permission in permissions(level) if "*" in permission]
    assert all(verb == "get" and metrics & set(rest) for verb, *rest in wild), wild


def test_read_allows_no_writes():
    assert {verb for verb, *_ in permissions("read")} <= {"get", "list", "watch"}


def test_cluster_wide_writes_are_limited_to_our_own_objects():
    allowed = permissions("administer")
    for resource, verbs in (
        ("priorityclasses", {"get", "create", "patch", "delete"}),
        ("clusterroles", {"get", "bind"}),
        ("leases", {"get", "patch"}),
    ):
        named = {(verb, name) for verb, _, kind, name in allowed if kind == resource and name}
        assert {verb for verb, _name in named} == verbs
        assert all(name.startswith("gpuctl-") or name == "pools" for _verb, name in named)


def test_nothing_for_the_whole_cluster_writes_workloads_or_reads_logs_and_secrets():
    wide = {"gpuctl-read", "gpuctl-submit-cluster", "gpuctl-administer"}
    roles = {role["metadata"]["name"]: role["rules"] for role in cluster_roles("administer")}
    assert wide <= roles.keys()
    for name in wide:
        for rule in roles[name]:
            assert not {"pods/log", "pods/exec", "secrets", "serviceaccounts"} & set(rule["resources"]), name
            if {"pods", "configmaps", "jobs", "deployments", "leases"} & set(rule["resources"]):
                assert set(rule["verbs"]) <= {"get", "list", "watch"}, name


def test_submit_writes_nothing_outside_of_its_namespaces():
    roles = {role["metadata"]["name"]: role["rules"] for role in cluster_roles("submit")}
    for name in ("gpuctl-submit-cluster", "gpuctl-submit-pools"):
        assert {verb for rule in roles[name] for verb in rule["verbs"]} == {"list"}


def test_an_account_carries_our_label():
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    assert account("robot", "here")["metadata"] == {"name": "robot", "namespace": "here", "labels": labels}
