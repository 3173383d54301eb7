# SPDX-License-Identifier: BSD-2-Clause
"""The playbooks refuse misspelled variables: which names they know, and what they say about others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.lookup._unknown_variables import unknown_variables

ROOT = Path(__file__).resolve().parents[4]
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


def known() -> list[str]:
    (task,) = yaml.safe_load((ROOT / "playbooks/tasks/check_variables.yml").read_text(encoding="utf-8"))
    return [*task["vars"]["__gpuctl_playbook_variables"], *task["vars"]["__gpuctl_role_variables"]]


CASES: dict[str, tuple[str, str]] = {
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
}


@pytest.mark.parametrize(("name", "expected"), CASES.values(), ids=CASES)
def test_a_misspelled_variable_is_named_with_the_one_that_was_meant(name: str, expected: str) -> None:
    assert unknown_variables({name: 1, "gpuctl_src": "a"}, known()) == [expected]


def test_variables_of_others_are_not_looked_at() -> None:
    given = ["ansible_user", "awx_job_id", "tower_job_id", "env", "gpu_type", "gpuctl_submitted", "jobs_wait", "region"]
    assert unknown_variables(dict.fromkeys(given), known()) == []


def documented(playbook: Path) -> set[str]:
    """The variables in the comment at the top of a playbook."""
    comments = (line for line in playbook.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    return set(re.findall(r"\bgpuctl_[a-z_]+\b", "\n".join(comments)))


def answers() -> set[str]:
    """The variables of the surveys and job templates of AWX."""
    config = yaml.safe_load((ROOT / "awx/config/job_templates.yml").read_text(encoding="utf-8"))
    templates: list[dict[str, Any]] = [*config["gpuctl_awx_job_templates"], *config["gpuctl_awx_team_job_templates"]]
    asked = [
        config["gpuctl_awx_namespace_question"],
        *(each for template in templates for each in template.get("survey", ())),
    ]
    questions = {question["variable"] for question in asked}
    return questions | {name for template in templates for name in template.get("extra_vars", ())}


def test_what_is_documented_and_asked_is_known_and_nothing_else() -> None:
    names = {name for name in known() if name.startswith("gpuctl")}
    assert set().union(*map(documented, PLAYBOOKS)) | answers() | {"gpuctl_hosts", "gpuctl_submitted"} == names


@pytest.mark.parametrize("role", ["jobs", "node_labels", "pools", "quotas"])
def test_the_variables_of_the_roles_are_known(role: str) -> None:
    defaults = yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text(encoding="utf-8"))
    assert defaults.keys() == {name for name in known() if name.startswith(f"{role}_")}
