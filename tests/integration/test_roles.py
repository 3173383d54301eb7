# SPDX-License-Identifier: BSD-2-Clause
"""The roles by themselves: in a user's play, with a survey's texts, and without leaving variables behind."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
import yaml

from .ansible import ROOT, Ansible, Run
from .api import Api
from .manifests import compute
from .pools import Field
from .pools import manifest as pool
from .recorder import Recorder

ROLES = ("pools", "quotas", "node_labels", "jobs", "rbac")


def play(ansible: Ansible, *roles: str, check: bool = False, **variables: Any) -> Run:
    """A play that has the roles; afterwards it lists the variables that a host has got from them."""
    content = {
        "hosts": "localhost",
        "gather_facts": False,
        "roles": [f"runwhere.gpuctl.{role}" for role in roles],
        "post_tasks": [
            {
                "name": "left",
                "ansible.builtin.debug": {"msg": "{{ query('varnames', '^_*(pools|quotas|node_labels|jobs|rbac)_') }}"},
            }
        ],
    }
    playbook, given = ansible.directory / "play.yml", ansible.directory / "variables.yml"
    playbook.write_text(yaml.safe_dump([content]))
    given.write_text(yaml.safe_dump(variables))
    arguments = ("-e", f"@{given}", "--diff", *(["--check"] if check else []))
    environment = {**ansible.environment, "ANSIBLE_PRIVATE_ROLE_VARS": "true"}
    return Ansible(ansible.directory, environment).run("ansible-playbook", str(playbook), *arguments)


def changed(done: Run) -> list[str]:
    assert done.status == 0, done.output
    return [task.task for task in done.tasks if task.changed]


def each_role(field: Field, namespace: str) -> dict[str, dict[str, Any]]:
    """For each role, variables under which it has something to do."""
    quota = {"kind": "quota", "quota": {"name": field.pool("q")}, "users": {namespace: {"cpu": 4}}}
    return {
        "pools": {"pools_definition": pool(field.pool("a"), [field.nodes[0]])},
        "quotas": {"quotas_definition": quota},
        "node_labels": {"node_labels_nodes": {node: {"gpu-type": "T4"} for node in field.nodes[1:3]}},
        "jobs": {"jobs_definition": compute(), "jobs_namespace": namespace},
        "rbac": {
            "rbac_accounts": [
                {"name": field.pool("r"), "namespace": namespace, "level": "read", "namespaces": [namespace]}
            ]
        },
    }


@pytest.mark.parametrize("role", ROLES)
def test_run_again_check_and_check_again(ansible: Ansible, recorder: Recorder, field: Field, namespace: str, role: str):
    variables = each_role(field, namespace)[role]
    assert len(changed(play(ansible, role, check=True, **variables))) == 1
    assert recorder.writes == []
    assert len(changed(play(ansible, role, **variables))) == 1
    assert recorder.writes != []
    for check in (False, True):
        recorder.clear()
        assert changed(play(ansible, role, check=check, **variables)) == []
        assert recorder.writes == recorder.dry_runs == []


def test_nothing_is_left_behind_but_the_results(ansible: Ansible, field: Field, namespace: str):
    given = {name: value for variables in each_role(field, namespace).values() for name, value in variables.items()}
    done = play(ansible, *ROLES, **given)
    assert done.status == 0, done.output
    assert set(done.tasks[-1].result["msg"]) - given.keys() == {f"{role}_result" for role in ROLES}


def test_without_variables_no_request_is_sent(ansible: Ansible, recorder: Recorder):
    assert changed(play(ansible, *ROLES)) == []
    assert recorder.requests == []


@pytest.mark.parametrize("role", [role for role in ROLES if role != "rbac"])
def test_an_empty_answer_of_a_survey_counts_as_not_given(
    ansible: Ansible, recorder: Recorder, field: Field, namespace: str, role: str
):
    defaults = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text())
    empty = dict.fromkeys((name for name in defaults if not name.endswith("_allowed_namespaces")), "")
    assert changed(play(ansible, role, **empty)) == []
    assert recorder.requests == []
    assert len(changed(play(ansible, role, **{**empty, **each_role(field, namespace)[role]}))) == 1


@pytest.mark.parametrize("role", ["jobs", "quotas"])
def test_a_bound_that_was_answered_with_nothing_is_a_mistake(
    ansible: Ansible, recorder: Recorder, field: Field, namespace: str, role: str
):
    """It must not be taken for no bound at all."""
    variable = f"{role}_allowed_namespaces"
    done = play(ansible, role, **each_role(field, namespace)[role], **{variable: ""})
    assert done.status != 0
    assert f"{variable}: empty. Name at least one namespace, or leave it out." in done.output
    assert recorder.requests == []


def test_texts_of_a_survey_mean_what_they_say(ansible: Ansible, api: Api, field: Field, namespace: str):
    variables = each_role(field, namespace)
    as_text = {
        "pools_definition": yaml.safe_dump(variables["pools"]["pools_definition"]),
        "node_labels_nodes": yaml.safe_dump(variables["node_labels"]["node_labels_nodes"]),
        "jobs_definition": yaml.safe_dump(compute()),
        "jobs_namespace": namespace,
        "jobs_replicas": "2",
        "jobs_wait": "true",
        "jobs_wait_timeout": "60",
    }
    assert len(changed(play(ansible, "pools", "node_labels", "jobs", **as_text))) == 3
    assert api.get("deployment", "web", namespace)["status"]["readyReplicas"] == 2

    second = pool(field.pool("a"), [field.nodes[3]])
    grown = play(ansible, "pools", pools_definition=second, pools_purge="no")
    assert len(changed(grown)) == 1
    assert field.members("a") == {field.nodes[0], field.nodes[3]}


def test_nodes_with_the_same_labels_are_labelled_in_one_task(ansible: Ansible, recorder: Recorder, field: Field):
    a, b, c = field.nodes[:3]
    labels = {a: {"gpu-type": "T4"}, b: {"gpu-type": "T4"}, c: {"gpu-type": "A100", "rack": 7}}
    done = play(ansible, "node_labels", node_labels_nodes=labels)
    assert done.status == 0, done.output
    assert len([request for request in recorder.requests if request.method == "GET"]) == 2
    assert field.labels(b) == {"runwhere.ai/gpu-type": "T4"}
    assert field.labels(c) == {"runwhere.ai/gpu-type": "A100", "runwhere.ai/rack": "7"}

    other = {a: {"gpu-type": "L40"}}
    assert play(ansible, "node_labels", node_labels_nodes=other).status != 0, "a conflict"
    assert len(changed(play(ansible, "node_labels", node_labels_nodes=other, node_labels_overwrite="true"))) == 1
    assert len(changed(play(ansible, "node_labels", node_labels_nodes=labels, node_labels_state="absent"))) == 1
    assert field.labels(a) == {"runwhere.ai/gpu-type": "L40"}, "set to another value since"
    assert field.labels(b) == field.labels(c) == {}


def test_manifests_of_other_kinds_are_passed_over(ansible: Ansible, recorder: Recorder, field: Field):
    folder = ansible.directory / "pools-only"
    folder.mkdir()
    (folder / "pool.yaml").write_text(yaml.safe_dump(pool(field.pool("a"), [field.nodes[0]])))
    assert changed(play(ansible, "quotas", "jobs", quotas_src=str(folder), jobs_src=str(folder))) == []
    assert recorder.requests == []


@pytest.mark.parametrize(
    ("role", "variables", "words"),
    [
        ("jobs", {"jobs_state": "gone"}, ["jobs_state", "one of"]),
        ("pools", {"pools_state": "running"}, ["pools_state", "one of"]),
        ("rbac", {"rbac_accounts": [{"level": "read"}]}, ["name", "rbac_accounts"]),
        ("rbac", {"rbac_accounts": [{"name": "a", "level": "root"}]}, ["level", "one of"]),
        (
            "rbac",
            {"rbac_accounts": [{"name": "a", "level": "read", "namespaces": []}]},
            ["namespaces", "must not be empty"],
        ),
    ],
)
def test_a_wrong_variable_is_reported_before_any_request(
    ansible: Ansible, recorder: Recorder, role: str, variables: dict[str, Any], words: list[str]
):
    done = play(ansible, role, **variables)
    assert done.status != 0
    assert all(word in done.output for word in words), done.output
    assert recorder.requests == []


def test_accounts_come_and_go(ansible: Ansible, api: Api, namespace: str):
    name = f"t-{secrets.token_hex(4)}"
    both = [
        {"name": f"{name}-{level}", "namespace": namespace, "level": level, "namespaces": [namespace]}
        for level in ("read", "submit")
    ]
    assert len(changed(play(ansible, "rbac", rbac_accounts=both))) == 1
    assert len(api.list("rolebinding", namespace)) == 3, "of read, of its logs, and of submit"
    ended = [{"name": each["name"], "namespace": namespace, "state": "absent"} for each in both]
    assert len(changed(play(ansible, "rbac", rbac_accounts=ended))) == 1
    assert api.list("rolebinding", namespace) == []
    assert api.get("serviceaccount", both[0]["name"], namespace) is None
