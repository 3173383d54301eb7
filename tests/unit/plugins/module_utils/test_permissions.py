# SPDX-License-Identifier: BSD-2-Clause
"""What a refusal of the API server says of the levels of gpuctl_rbac."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import (
    grant_commands,
    listed,
    missing_permission,
)

ROBOT = "system:serviceaccount:gpuctl-system:robot"


def refusal(verb: str, resource: str, group: str, place: str, user: str = ROBOT) -> str:
    what = f"{resource}.{group}" if group else resource
    return f'{what} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" {place}'


def sentences(*attempt: str, user: str = ROBOT) -> str:
    missing = missing_permission(refusal(*attempt, user=user))
    assert missing
    return missing.sentences


CLUSTER, TEAM = "at the cluster scope", 'in the namespace "team-a"'


@pytest.mark.parametrize(
    ("attempt", "level", "options"),
    [
        (("list", "pods", "", CLUSTER), "read", "level=read"),
        (("list", "pods", "", TEAM), "read", "level=read namespaces=team-a"),
        (("get", "pods/log", "", TEAM), "read", "level=read namespaces=team-a"),
        (("create", "jobs", "batch", TEAM), "submit", "level=submit namespaces=team-a"),
        (("patch", "jobs", "batch", TEAM), "submit", "level=submit namespaces=team-a"),
        (("list", "priorityclasses", "scheduling.k8s.io", CLUSTER), "read", "level=read"),
        (("patch", "priorityclasses", "scheduling.k8s.io", CLUSTER), "administer", "level=administer"),
        (("patch", "nodes", "", CLUSTER), "administer", "level=administer"),
        (("create", "serviceaccounts", "", TEAM), "administer", "level=administer namespaces=team-a"),
        (("patch", "resourcequotas", "", TEAM), "administer", "level=administer namespaces=team-a"),
        (
            ("get", "configmaps", "", 'in the namespace "gpuctl-system"'),
            "administer",
            "level=administer namespaces=gpuctl-system",
        ),
        (
            ("patch", "leases", "coordination.k8s.io", 'in the namespace "gpuctl-system"'),
            "administer",
            "level=administer namespaces=gpuctl-system",
        ),
    ],
)
def test_the_lowest_level_that_has_it(attempt: tuple[str, ...], level: str, options: str) -> None:
    text = sentences(*attempt)
    assert f"The level {level} of gpuctl_rbac has it." in text
    arguments = f"name=robot namespace=gpuctl-system {options} append=true"
    assert f'ansible localhost -m runwhere.gpuctl.gpuctl_rbac -a "{arguments}"' in text


@pytest.mark.parametrize(
    ("attempt", "least", "level"),
    [
        (("list", "jobs", "batch", TEAM), "read", "read"),
        (("list", "jobs", "batch", TEAM), "submit", "submit"),
        (("list", "nodes", "", CLUSTER), "administer", "administer"),
        # What a higher level lacks there.
        (("list", "persistentvolumes", "", CLUSTER), "submit", "administer"),
        (("patch", "nodes", "", CLUSTER), "submit", "administer"),
    ],
)
def test_the_level_that_the_whole_task_needs(attempt: tuple[str, ...], least: str, level: str) -> None:
    missing = missing_permission(refusal(*attempt), least)
    assert missing
    assert missing.level == level


def test_a_hint_takes_nothing_from_an_account() -> None:
    """The message does not say what else an account may do, and gpuctl_rbac revokes it without ``append``."""
    text = sentences("list", "pods", "", TEAM)
    assert text.rpartition("An administrator grants it with: ")[2].endswith('append=true"')


@pytest.mark.parametrize(
    ("attempt", "what"),
    [
        (
            ("create", "pods/exec", "", 'in the namespace "kube-system"'),
            "create pods/exec in namespace kube-system",
        ),
        (("list", "secrets", "", CLUSTER), "list secrets in the whole cluster"),
        (("patch", "jobs", "batch", CLUSTER), "patch jobs.batch in the whole cluster"),
        (("patch", "jobs", "batch", 'in the namespace "kube-system"'), "patch jobs.batch in namespace kube-system"),
        (("patch", "leases", "coordination.k8s.io", TEAM), "patch leases.coordination.k8s.io in namespace team-a"),
    ],
)
def test_what_no_level_has(attempt: tuple[str, ...], what: str) -> None:
    assert sentences(*attempt) == f"Missing permission: {what}. No level of gpuctl_rbac has it"


def test_running_commands_is_granted_by_an_option() -> None:
    assert sentences("create", "pods/exec", "", TEAM) == (
        "Missing permission: create pods/exec in namespace team-a. The level submit of gpuctl_rbac has it "
        "with exec=true. An administrator grants it with: ansible localhost -m runwhere.gpuctl.gpuctl_rbac -a "
        '"name=robot namespace=gpuctl-system level=submit namespaces=team-a exec=true append=true"'
    )


def test_what_is_missing_is_said_once_for_all() -> None:
    attempts = [("list", "pods", "", CLUSTER), ("list", "nodes", "", CLUSTER), ("list", "configmaps", "", TEAM)]
    attempts += [("create", "jobs", "batch", TEAM), ("list", "secrets", "", CLUSTER), ("list", "pods", "", CLUSTER)]
    missing = [found for each in attempts if (found := missing_permission(refusal(*each)))]
    assert listed(missing) == (
        "create jobs.batch in namespace team-a; list configmaps in namespace team-a; list nodes, pods, secrets in the "
        "whole cluster"
    )
    grants = [command.partition(" level=")[2] for command in grant_commands(missing)]
    assert grants == ['read append=true"', 'submit namespaces=team-a append=true"']


RBAC = 'ansible localhost -m runwhere.gpuctl.gpuctl_rbac -a "kind=user'


@pytest.mark.parametrize(
    ("user", "named"),
    [
        ("ann", "ann"),
        ("CN=Ann Lee", "'CN=Ann Lee'"),
        ("ann; rm -rf /", "USER"),
        ("system:anonymous", "USER"),
    ],
)
def test_people_get_the_level_too(user: str, named: str) -> None:
    text = sentences("create", "jobs", "batch", TEAM, user=user)
    options = f'name={named} level=submit namespaces=team-a append=true"'
    assert text.endswith(f"An administrator grants it with: {RBAC} {options}")
    in_cluster = sentences("patch", "nodes", "", CLUSTER, user=user)
    assert in_cluster.endswith(f'{RBAC} name={named} level=administer append=true"')


@pytest.mark.parametrize(
    "message",
    [
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
        'jobs.batch "j" is forbidden: ',
        'forbidden: User "u" cannot get path "/apis"',
        # The command to copy is for a shell.
        'forbidden: User "u" cannot create resource "jobs" in API group "batch" in the namespace "a; reboot"',
    ],
)
def test_other_messages_stay_as_they_are(message: str) -> None:
    assert missing_permission(message) is None
    assert str(ApiError("GET", "/x", 403, {"message": message})) == f"{message} (HTTP 403 to GET /x)"


def test_the_error_of_a_request_names_what_is_missing() -> None:
    error = ApiError("GET", "/api/v1/nodes", 403, {"message": refusal("list", "nodes", "", CLUSTER)})
    assert "(HTTP 403 to GET /api/v1/nodes). Missing permission: list nodes in the whole cluster. The level" in str(
        error
    )
