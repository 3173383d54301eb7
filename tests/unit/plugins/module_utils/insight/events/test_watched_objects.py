# SPDX-License-Identifier: BSD-2-Clause
"""What the pods of a job say of its start: containers that could not start say that they did in 1970."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.job_transitions import (
    job_transitions,
    known_at_first,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.watched_objects import (
    pods_facts,
    slim_watched_pod,
)

from ...cluster.live_objects import pod, with_container, workload

NOT_STARTED = {"terminated": {"reason": "StartError", "exitCode": 128, "startedAt": "1970-01-01T00:00:00Z"}}
RAN = {"terminated": {"reason": "Error", "exitCode": 1, "startedAt": "2026-01-01T00:00:05Z"}}
RUNS = {"running": {"startedAt": "2026-01-01T00:00:09Z"}}
WAITS = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("states", "started"),
    [
        ({"state": NOT_STARTED}, None),
        ({"state": WAITS, "lastState": NOT_STARTED}, None),
        ({"state": NOT_STARTED, "lastState": RAN}, "2026-01-01T00:00:05Z"),
        ({"state": WAITS, "lastState": RAN}, "2026-01-01T00:00:05Z"),
        ({"state": RUNS, "lastState": NOT_STARTED}, "2026-01-01T00:00:09Z"),
    ],
)
def test_when_a_job_started(states: dict[str, Any], started: str | None):
    facts = pods_facts(workload(), [slim_watched_pod(pod(status=with_container("Failed", **states)))], "")
    assert (facts.started_at, facts.ran) == (started, started is not None)


def test_a_job_whose_container_could_not_start_has_failed_without_having_started():
    failed = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}
    job = workload(status={"conditions": [failed]})
    facts = pods_facts(job, [slim_watched_pod(pod(status=with_container("Failed", state=NOT_STARTED)))], "")
    now = datetime(2026, 1, 1, 0, 2, tzinfo=timezone.utc)
    found = job_transitions(job, known_at_first(job, {}), facts, now, timedelta(hours=1))
    assert [step.type for step in found] == ["job.submitted", "job.failed"]
