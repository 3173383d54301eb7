# SPDX-License-Identifier: BSD-2-Clause
"""Messages name options as they are called where the user sets them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wording import (
    WORDING,
    names_in,
    worded,
    worded_result,
)

NAMES = {
    "takeover": "gpuctl_takeover",
    "takeover=": "-e gpuctl_takeover={}",
    "state": "gpuctl_state",
    "state=": "-e gpuctl_state={}",
    "state=paused": "the playbook pause",
    "gpuctl_pool": "the playbook provision",
    "gpuctl_quota": "the playbook provision",
    "gpuctl_workspace ": "ansible-playbook runwhere.gpuctl.workspace",
    "gpuctl_workspace.namespace=": "-e gpuctl_namespace={}",
    "gpuctl_workspace.claim.name=": "-e gpuctl_claim={}",
}

CASES = {
    "an option": ("O(takeover): empty", "takeover: empty", "gpuctl_takeover: empty"),
    "a setting": ("Use O(takeover=true).", "Use takeover=true.", "Use -e gpuctl_takeover=true."),
    "a value that is a playbook": ("Run O(state=paused).", "Run state=paused.", "Run the playbook pause."),
    "another value": ("Use O(state=absent).", "Use state=absent.", "Use -e gpuctl_state=absent."),
    "an option without a variable": ("Raise O(wait_timeout).", "Raise wait_timeout.", "Raise wait_timeout."),
    "modules": (
        "Use M(gpuctl_pool,gpuctl_quota).",
        "Use gpuctl_pool or gpuctl_quota.",
        "Use the playbook provision.",
    ),
    "modules at the beginning of a sentence": (
        "Not found. M(gpuctl_pool) lists them. O(takeover) is a name.",
        "Not found. gpuctl_pool lists them. takeover is a name.",
        "Not found. The playbook provision lists them. gpuctl_takeover is a name.",
    ),
    "a command": (
        "Create it with M(gpuctl_workspace namespace=a claim.name=data), or not.",
        "Create it with gpuctl_workspace (namespace=a, claim.name=data), or not.",
        "Create it with ansible-playbook runwhere.gpuctl.workspace -e gpuctl_namespace=a -e gpuctl_claim=data, or not.",
    ),
    "what others wrote": ("O(n log n), NO(takeover)", "O(n log n), NO(takeover)", "O(n log n), NO(takeover)"),
}


@pytest.mark.parametrize(("text", "plain", "named"), CASES.values(), ids=CASES)
def test_a_text_gets_the_names_of_the_way_by_which_the_user_came(text: str, plain: str, named: str) -> None:
    assert worded(text) == plain
    assert worded(text, lambda: NAMES) == named


def test_only_what_the_collection_says_is_changed_in_a_result() -> None:
    rows = [{"name": "a", "reason": "Use O(takeover=true).", "error": None, "log": ["O(takeover=true)"]}, {"name": "b"}]
    result: dict[str, Any] = {"msg": "O(takeover)", "results": rows, "lines": ["O(takeover)"], "changed": False}
    result["notes"] = ["Set O(takeover)."]
    named = worded_result(result, lambda: NAMES)
    assert named["msg"] == "gpuctl_takeover"
    assert named["results"] == [{**rows[0], "reason": "Use -e gpuctl_takeover=true."}, rows[1]]
    assert named["lines"] == ["O(takeover)"]
    written_by_others = {"results": [{"message": "O(takeover=true)"}]}
    assert worded_result(written_by_others, lambda: NAMES) == written_by_others
    failed = worded_result({"failed_nodes": [{"node_name": "a", "message": "O(takeover=true)"}]}, lambda: NAMES)
    assert failed["failed_nodes"] == [{"node_name": "a", "message": "-e gpuctl_takeover=true"}]
    assert named["notes"] == ["Set gpuctl_takeover."]


def test_names_are_not_looked_up_without_a_mark() -> None:
    def names() -> dict[str, str]:
        raise AssertionError

    assert worded_result({"msg": "2 jobs", "results": [{"reason": "It failed."}]}, names)["msg"] == "2 jobs"


@pytest.mark.parametrize("given", ["", "{", "[1]"])
def test_an_environment_that_cannot_be_read_has_no_names(given: str) -> None:
    assert names_in({WORDING: given}) == names_in({}) == {}
