# SPDX-License-Identifier: BSD-2-Clause
"""What messages call the options of a module in a playbook, in AWX, in a role, and in a task of the user's own."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wording import worded
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils import option_names as option_names_file
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.option_names import option_names

SUBMIT = {"gpuctl_playbook": "submit"}
AWX = {"awx_job_id": 7}

CASES: dict[str, tuple[str, str | None, dict[str, Any], str, str]] = {
    "a task of the user": ("gpuctl_job", None, {}, "O(takeover=true)", "takeover=true"),
    "a playbook": ("gpuctl_job", None, SUBMIT, "O(takeover=true)", "-e gpuctl_takeover=true"),
    "a survey": (
        "gpuctl_job",
        None,
        SUBMIT | AWX,
        "O(takeover=true)",
        'gpuctl_takeover=true ("Change a job of another user" in the survey)',
    ),
    "an extra variable of AWX": ("gpuctl_job", None, SUBMIT | AWX, "O(upgrade=true)", "gpuctl_upgrade=true"),
    "a role": ("gpuctl_job", "jobs", {}, "O(takeover=true)", "jobs_takeover=true"),
    "a role in a playbook": (
        "gpuctl_job",
        "jobs",
        {"gpuctl_playbook": "provision"},
        "O(takeover=true), O(replicas)",
        "-e gpuctl_takeover=true, jobs_replicas",
    ),
    "an option of another name": (
        "gpuctl_node_label",
        "node_labels",
        {"gpuctl_playbook": "provision"},
        "O(overwrite=true)",
        "-e gpuctl_force=true",
    ),
    "a variable that sets another option there": (
        "gpuctl_job",
        "jobs",
        {"gpuctl_playbook": "provision"},
        "O(force=true)",
        "-e jobs_force=true",
    ),
    "another playbook helps": (
        "gpuctl_status",
        None,
        {"gpuctl_playbook": "status"},
        "Use O(state=restarted) with O(force=true).",
        "Use the playbook runwhere.gpuctl.restart with -e gpuctl_force=true.",
    ),
    "the playbook in place of a module": (
        "gpuctl_job_log",
        None,
        {"gpuctl_playbook": "logs"},
        "M(gpuctl_job_info) lists the jobs.",
        "The playbook runwhere.gpuctl.status lists the jobs.".replace("The", "the"),
    ),
    "a playbook that is not ours": ("gpuctl_job", None, {"gpuctl_playbook": "mine"}, "O(force=true)", "force=true"),
}


@pytest.mark.parametrize(("module", "role", "variables", "text", "expected"), CASES.values(), ids=CASES)
def test_an_option_is_called_what_the_user_can_set(
    module: str, role: str | None, variables: dict[str, Any], text: str, expected: str
) -> None:
    assert worded(text, lambda: option_names(module, role, variables)) == expected


def test_a_task_that_is_not_in_a_playbook_of_the_collection_reads_no_descriptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each worker of a play would read them again."""
    monkeypatch.delattr(option_names_file, "described_playbooks")
    assert option_names("gpuctl_job", None, {"other": 1}) == {}
