# SPDX-License-Identifier: BSD-2-Clause
"""The playbooks check their variables: known names, accepted values, and what is said about others."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.playbook_variables import (
    described_playbooks,
    role_variables,
    shared_variables,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.variable_problems import (
    several_clusters,
    unknown_variables,
    value_problems,
)

KNOWN = {*shared_variables(), *role_variables()}

UNKNOWN: dict[str, tuple[str, str]] = {
    "a letter too many": ("gpuctl_srcc", "Unknown variable: gpuctl_srcc. Did you mean gpuctl_src?"),
    "letters in the wrong order": ("gpuctl_naem", "Unknown variable: gpuctl_naem. Did you mean gpuctl_name?"),
    "a hyphen": ("gpuctl-wait-timeout", "Unknown variable: gpuctl-wait-timeout. Did you mean gpuctl_wait_timeout?"),
    "capitals": ("GPUCTL_SRC", "Unknown variable: GPUCTL_SRC. Did you mean gpuctl_src?"),
    "the prefix is misspelled": ("gpuclt_src", "Unknown variable: gpuclt_src. Did you mean gpuctl_src?"),
    "a variable of a role": (
        "jobs_forse_conflicts",
        "Unknown variable: jobs_forse_conflicts. Did you mean jobs_force_conflicts?",
    ),
    "like no other": ("gpuctl_zzz", "Unknown variable: gpuctl_zzz. Rename it. gpuctl* is for the playbooks."),
    "what the playbooks use themselves": (
        "gpuctl_target_state",
        "Unknown variable: gpuctl_target_state. Rename it. gpuctl* is for the playbooks.",
    ),
}


@pytest.mark.parametrize(("name", "expected"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_misspelled_variable_is_named_with_the_one_that_was_meant(name: str, expected: str) -> None:
    assert unknown_variables({name: 1, "gpuctl_src": "a"}, KNOWN) == [expected]


def test_variables_of_others_are_not_looked_at() -> None:
    given = ["ansible_user", "awx_job_id", "tower_job_id", "env", "gpu_type", "gpuctl_submitted", "jobs_wait", "region"]
    assert unknown_variables(dict.fromkeys(given), KNOWN) == []


PROBLEMS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "nothing is required": ("status", {}, []),
    "one is missing": ("logs", {}, ["Missing variable: gpuctl_name. Add -e gpuctl_name=sft."]),
    "an empty answer is none": (
        "logs",
        {"gpuctl_name": " "},
        ["Missing variable: gpuctl_name. Add -e gpuctl_name=sft."],
    ),
    "several are missing": (
        "copy",
        {"gpuctl_name": "lab"},
        [
            "Missing variables: gpuctl_local, gpuctl_remote. "
            "Add -e gpuctl_local=data/ -e gpuctl_remote=/home/jovyan/work/data."
        ],
    ),
    "one of two is missing": (
        "pause",
        {},
        ["Missing variable: gpuctl_name or gpuctl_src. Add -e gpuctl_name=sft or -e gpuctl_src=manifests/."],
    ),
    "the other name counts": ("pause", {"gpuctl_dir": "manifests/"}, []),
    "a list of blanks is empty": (
        "provision",
        {"gpuctl_dir": " , "},
        [
            "Missing variable: gpuctl_dir or gpuctl_node_labels or gpuctl_plan. Add -e gpuctl_dir=cluster/ or "
            "-e gpuctl_plan=plan.json."
        ],
    ),
    "required with a value": (
        "job_state",
        {"gpuctl_state": "present", "gpuctl_name": "web"},
        ["Missing variable: gpuctl_replicas. Add -e gpuctl_replicas=3."],
    ),
    "not required with another value": ("job_state", {"gpuctl_state": "paused", "gpuctl_name": "web"}, []),
    "two that exclude each other": (
        "submit",
        {"gpuctl_src": "a", "gpuctl_definition": "kind: training"},
        ["gpuctl_src and gpuctl_definition exclude each other. Give one of them."],
    ),
    "zero is a value": ("scale", {"gpuctl_name": "web", "gpuctl_replicas": 0}, []),
    "texts of a survey": ("scale", {"gpuctl_name": "web", "gpuctl_replicas": "3", "gpuctl_force": "yes"}, []),
    "not a boolean": (
        "status",
        {"gpuctl_pods": "maybe"},
        ["gpuctl_pods: not a boolean: maybe. Use true or false."],
    ),
    "not a number": (
        "status",
        {"gpuctl_watch": "ten"},
        ["gpuctl_watch: not a whole number: ten. Use a number such as 10."],
    ),
    "a boolean is no number": (
        "status",
        {"gpuctl_watch": True},
        ["gpuctl_watch: not a whole number: True. Use a number such as 10."],
    ),
    "not a text": (
        "logs",
        {"gpuctl_name": ["sft"]},
        ["gpuctl_name: not a string: ['sft']. Use a string such as sft."],
    ),
    "not a list": (
        "submit",
        {"gpuctl_src": {"a": 1}},
        ["gpuctl_src: not a list of strings: {'a': 1}. Use a list or a string such as manifests/."],
    ),
    "a list of names": ("submit", {"gpuctl_src": ["a", "b"], "gpuctl_allowed_namespaces": "team-a,team-b"}, []),
    "not a choice": (
        "submit",
        {"gpuctl_src": "a", "gpuctl_rerun": "alway"},
        ["gpuctl_rerun: unknown value: alway. Use one of: never, on_change, on_failure, always."],
    ),
    "a part": ("idle", {"gpuctl_idle_below": "0.1"}, []),
    "no part": (
        "idle",
        {"gpuctl_idle_below": "low"},
        ["gpuctl_idle_below: not a number: low. Use a number."],
    ),
    "several choices": ("usage", {"gpuctl_group_by": "team, user"}, []),
    "one of several is no choice": (
        "usage",
        {"gpuctl_group_by": ["team", "usr"]},
        ["gpuctl_group_by: unknown value: usr. Use one of: job, user, team, pool, sweep, gpu_type, month."],
    ),
    "not the only choice": (
        "teardown",
        {"gpuctl_dir": "a", "gpuctl_confirm": "yes"},
        ["gpuctl_confirm: unknown value: yes. Use teardown."],
    ),
    "what limits must not be empty": (
        "status",
        {"gpuctl_allowed_namespaces": " , "},
        ["gpuctl_allowed_namespaces: empty. Give a value, such as team-a,team-b, or leave it out."],
    ),
    "an empty list limits neither": (
        "status",
        {"gpuctl_allowed_namespaces": []},
        ["gpuctl_allowed_namespaces: empty. Give a value, such as team-a,team-b, or leave it out."],
    ),
    "a long value is cut, and its line breaks are shown": (
        "status",
        {"gpuctl_pods": "a\n" + "b" * 100},
        [f"gpuctl_pods: not a boolean: a\\x0a{'b' * 54}…. Use true or false."],
    ),
}


@pytest.mark.parametrize(("playbook", "given", "expected"), PROBLEMS.values(), ids=PROBLEMS)
def test_missing_and_wrong_values_are_reported_with_a_hint(
    playbook: str, given: dict[str, Any], expected: list[str]
) -> None:
    assert value_problems(described_playbooks()[playbook], given, in_awx=False) == expected


def test_a_job_of_awx_names_the_question_of_the_survey() -> None:
    assert value_problems(described_playbooks()["logs"], {}, in_awx=True) == [
        'Missing variable: gpuctl_name. Answer "Name" in the survey, or set the extra variable.'
    ]
    assert value_problems(described_playbooks()["provision"], {}, in_awx=True) == [
        "Missing variable: gpuctl_dir or gpuctl_node_labels or gpuctl_plan. Set the extra variable."
    ]


def test_a_playbook_for_one_cluster_names_those_that_it_would_run_on() -> None:
    playbooks = described_playbooks()
    for name in ("submit", "submit_training", "delete", "notebook_copy", "teardown"):
        (problem,) = several_clusters(playbooks[name], ["a", "b", "c", "d"], {}, "a", in_awx=False)
        these = "and these are 4: a, b, c and 1 more. Add --limit a."
        if name.startswith("submit"):
            these += " With -e gpuctl_clusters=all, the job goes to one in which it runs."
        assert problem == f"runwhere.gpuctl.{name} is for one cluster, {these}"
        assert several_clusters(playbooks[name], ["a"], {}, "a", in_awx=False) == []
    assert several_clusters(playbooks["status"], ["a", "b"], {}, "a", in_awx=False) == []
    (problem,) = several_clusters(playbooks["onboard"], ["a", "b"], {}, "a", in_awx=False)
    assert problem.endswith("a, b. Add --limit a. With -e gpuctl_clusters=all, it acts in each of them.")
    (problem,) = several_clusters(playbooks["submit"], ["a", "b"], {}, "a", in_awx=True)
    placed = "With the extra variable gpuctl_clusters=all, the job goes to one in which it runs."
    assert problem.endswith(f"a, b. Choose one in the survey or as the limit, such as a. {placed}")


def test_a_job_is_placed_in_one_of_several_clusters() -> None:
    submit, given = described_playbooks()["submit"], {"gpuctl_clusters": "all"}
    assert several_clusters(submit, ["a", "b"], given, "a", in_awx=False) == []
    for clusters in (["a", "b"], ["a"]):
        (problem,) = several_clusters(submit, clusters, {**given, "gpuctl_state": "absent"}, "a", in_awx=False)
        assert problem == "gpuctl_clusters is for jobs that are submitted. Leave out gpuctl_state."


@pytest.mark.parametrize("name", ["describe", "logs", "copy", "delete", "pause"])
def test_the_cluster_of_one_job_is_found_by_its_name(name: str) -> None:
    playbook = described_playbooks()[name]
    assert several_clusters(playbook, ["a", "b"], {"gpuctl_name": "sft"}, "a", in_awx=False) == []
    for given in ({}, {"gpuctl_name": "sft,lab"}):
        (problem,) = several_clusters(playbook, ["a", "b"], given, "a", in_awx=False)
        assert problem == f"runwhere.gpuctl.{name} is for one cluster, and these are 2: a, b. Add --limit a."


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ({"gpuctl_watch": "5"}, ["gpuctl_watch is for one cluster, and these are 2: a, b. Add --limit a."]),
        ({"gpuctl_watch": ""}, []),
        (
            {"gpuctl_output": "plan.json"},
            [
                "gpuctl_output: each cluster would write to this file, and these are 2: a, b. Add --limit a, or write "
                "{{ inventory_hostname }} in its name."
            ],
        ),
        ({"gpuctl_output": "plan-b.json"}, []),
        ({"gpuctl_output": "plan.html"}, []),
    ],
)
def test_what_several_clusters_would_overwrite_is_refused(values: dict[str, Any], problems: list[str]) -> None:
    assert several_clusters(described_playbooks()["plan"], ["a", "b"], values, "b", in_awx=False) == problems


def test_one_file_has_what_is_shown_together() -> None:
    values = {"gpuctl_output": "usage.html"}
    assert several_clusters(described_playbooks()["usage"], ["a", "b"], values, "b", in_awx=False) == []
