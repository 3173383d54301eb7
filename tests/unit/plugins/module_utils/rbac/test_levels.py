# SPDX-License-Identifier: BSD-2-Clause
"""The permissions of the three levels, and their bindings."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.levels import (
    LEVELS,
    account,
    bindings,
    cluster_roles,
    is_subject,
)


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
        ("read", None, [("ClusterRoleBinding", None, "gpuctl-read")]),
        ("read", ["a", "b"], [("RoleBinding", "a", "gpuctl-read"), ("RoleBinding", "b", "gpuctl-read")]),
        (
            "submit",
            ["a"],
            [("ClusterRoleBinding", None, "gpuctl-submit-cluster"), ("RoleBinding", "a", "gpuctl-submit")],
        ),
        ("administer", None, [("ClusterRoleBinding", None, "gpuctl-administer")]),
    ],
)
def test_bindings(level: str, namespaces: list[str] | None, expected: list[tuple[str, str | None, str]]):
    found = bindings("robot", "here", level, namespaces)
    assert [(obj["kind"], obj["metadata"].get("namespace"), obj["roleRef"]["name"]) for obj in found] == expected
    assert {role["metadata"]["name"] for role in cluster_roles(level)} == {role for _kind, _place, role in expected}
    for obj in found:
        assert obj["metadata"]["name"] == f"{obj['roleRef']['name']}:here:robot"
        assert obj["subjects"] == [{"kind": "ServiceAccount", "name": "robot", "namespace": "here"}]


def test_two_accounts_never_share_a_binding():
    (one,), (other,) = bindings("b-c", "a", "read", None), bindings("c", "a-b", "read", None)
    assert one["metadata"]["name"] != other["metadata"]["name"]


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        ([{"kind": "ServiceAccount", "name": "robot", "namespace": "here"}], True),
        ([{"kind": "User", "name": "x"}, {"kind": "ServiceAccount", "name": "robot", "namespace": "here"}], True),
        ([{"kind": "ServiceAccount", "name": "robot", "namespace": "there"}], False),
        ([{"kind": "User", "name": "robot"}], False),
        (None, False),
    ],
)
def test_the_subject_of_a_binding(subjects: list[dict[str, Any]] | None, expected: bool):
    assert is_subject({"subjects": subjects}, "robot", "here") is expected


def test_administer_includes_the_other_levels():
    read, submit, administer = ({permission[:3] for permission in permissions(level)} for level in LEVELS)
    assert read <= administer
    assert submit <= administer


@pytest.mark.parametrize("level", LEVELS)
def test_no_level_has_a_wildcard(level: str):
    assert all("*" not in permission for permission in permissions(level))


def test_read_allows_no_writes():
    assert {verb for verb, *_ in permissions("read")} <= {"get", "list", "watch"}


def test_cluster_wide_writes_are_limited_to_our_own_objects():
    for resource in ("priorityclasses", "clusterroles"):
        allowed = permissions("administer")
        writes = {(verb, name) for verb, _, kind, name in allowed if kind == resource and verb != "list"}
        assert all(name.startswith("gpuctl-") for _verb, name in writes)
        assert {"create", "patch"} <= {verb for verb, _ in writes}


def test_an_account_carries_our_label():
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    assert account("robot", "here")["metadata"] == {"name": "robot", "namespace": "here", "labels": labels}
