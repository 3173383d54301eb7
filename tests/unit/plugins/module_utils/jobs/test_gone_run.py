# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a job that is gone, by what the history has of its last run."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.gone_run import gone_run_text

RUN = {
    "namespace": "ml",
    "submitted_at": "2026-08-01T08:00:00Z",
    "finished_at": "2026-08-01T11:30:00Z",
    "result": "Failed",
    "exit_code": 137,
    "log": [],
}
WHERE = "Its last run in namespace ml, submitted at 2026-08-01T08:00:00Z,"
ALL = "For all its runs, use M(gpuctl_job_history_info)."
TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "failed": ({}, f"{WHERE} failed at 2026-08-01T11:30:00Z with exit code 137. {ALL}"),
    "failed, without a container": ({"exit_code": None}, f"{WHERE} failed at 2026-08-01T11:30:00Z. {ALL}"),
    "succeeded": (
        {"result": "Succeeded", "exit_code": 0},
        f"{WHERE} succeeded at 2026-08-01T11:30:00Z. {ALL}",
    ),
    "deleted at an unknown time": (
        {"result": "Deleted", "exit_code": None, "finished_at": None},
        f"{WHERE} was deleted. {ALL}",
    ),
    "its end was not observed": (
        {"result": "Unknown", "exit_code": None, "finished_at": None},
        f"{WHERE} no longer exists, and its end was not observed. {ALL}",
    ),
    "with its log": (
        {"log": [f"line {number}" for number in range(12)]},
        f"{WHERE} failed at 2026-08-01T11:30:00Z with exit code 137. {ALL} The last lines of its log:\n"
        + "\n".join(f"  line {number}" for number in range(2, 12)),
    ),
    "of unknown origin": (
        {"submitted_at": None},
        f"Its last run in namespace ml failed at 2026-08-01T11:30:00Z with exit code 137. {ALL}",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_the_last_run_of_a_job_that_is_gone(case: str) -> None:
    run, text = TEXTS[case]
    assert gone_run_text({**RUN, **run}) == text
