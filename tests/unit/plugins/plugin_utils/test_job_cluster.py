# SPDX-License-Identifier: BSD-2-Clause
"""Which of several clusters has a job, and what is said where that is not known."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.job_cluster import job_cluster_problem

HAS, LACKS, SILENT = (
    {"results": [{"name": "sft"}]},
    {"not_found": ["sft"], "msg": "not found"},
    {"msg": "cannot reach it."},
)

PROBLEMS: dict[str, tuple[dict[str, Any], bool, str | None]] = {
    "one has it": ({"a": LACKS, "b": HAS}, True, None),
    "two have it": ({"a": HAS, "b": HAS}, False, "job sft exists in a, b. Add --limit a."),
    "five have it": (dict.fromkeys("abcde", HAS), False, "job sft exists in a, b, c and 2 more. Add --limit a."),
    "none has it": (dict.fromkeys("abc", LACKS), False, "job sft not found in a, b and c."),
    "one cannot be asked": (
        {"a": LACKS, "b": SILENT},
        False,
        "job sft not found in a. b could not be asked: cannot reach it.",
    ),
    "none can be asked": ({"a": SILENT}, False, "a could not be asked: cannot reach it."),
    "it is read where it is known to be": ({"a": SILENT, "b": HAS}, False, None),
    "it is not changed while another may have it": (
        {"a": SILENT, "b": HAS},
        True,
        "job sft exists in b, and may exist elsewhere. Add --limit b if that one is meant. "
        "a could not be asked: cannot reach it.",
    ),
}


@pytest.mark.parametrize(("looked", "changes", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_the_cluster_of_a_job(looked: dict[str, Any], changes: bool, problem: str | None) -> None:
    assert job_cluster_problem("sft", looked, changes=changes, in_awx=False) == problem


def test_a_job_of_awx_has_a_limit() -> None:
    said = job_cluster_problem("sft", {"a": HAS, "b": HAS}, changes=False, in_awx=True)
    assert said == "job sft exists in a, b. Choose one in the survey or as the limit, such as a."
