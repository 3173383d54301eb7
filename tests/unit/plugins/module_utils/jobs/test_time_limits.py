# SPDX-License-Identifier: BSD-2-Clause
"""Time limits of trainings: those of manifests and of pools, what runs already, and when it ends."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware, UnfitHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.time_limits import ends_at, limit_text
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import plan_job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.kept_time_limits import (
    keep_time_limit,
    stopped_at_once,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.time_limit import TimeLimit, time_limit_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
HOUR = 3600
ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


def manifest(limit: str | None) -> Training:
    job = {"name": "t"} | ({"time_limit": limit} if limit else {})
    environment = {"image": "registry.example.com/ml:v1", "command": ["run"]}
    resources = {"pool": "a", "cpu": "1", "memory": "1Gi"}
    return Training.model_validate({"kind": "training", "job": job, "environment": environment, "resources": resources})


@pytest.mark.parametrize(
    ("own", "of_pool", "limit"),
    [
        (None, {}, None),
        ("12h", {}, TimeLimit("12h")),
        (None, {"default": "8h", "max": "3d"}, TimeLimit("8h", "a")),
        (None, {"max": "3d"}, TimeLimit("3d", "a")),
        ("3d", {"default": "8h", "max": "72h"}, TimeLimit("3d")),
        ("30d", {"default": "8h"}, TimeLimit("30d")),
        (None, {"default": "soon"}, None),
        ("12h", {"max": "soon"}, TimeLimit("12h")),
    ],
    ids=["none", "own", "default", "max", "as long as max", "no max", "malformed default", "malformed max"],
)
def test_the_limit_of_a_training(own: str | None, of_pool: dict[str, str], limit: TimeLimit | None) -> None:
    assert time_limit_of(manifest(own), PoolHardware(time_limit=of_pool)) == limit


def test_a_limit_beyond_that_of_the_pool_is_refused() -> None:
    with pytest.raises(UnfitHardware) as refused:
        time_limit_of(manifest("4d"), PoolHardware(time_limit={"max": "3d"}))
    assert str(refused.value) == (
        "job.time_limit: pool a allows at most 3d: 4d. Use a shorter one, with checkpoints to go on from."
    )


def job(seconds: int | None, text: str = "", pool: str = "", **status: Any) -> dict[str, Any]:
    annotations = {"runwhere.ai/time-limit": text, "runwhere.ai/time-limit-of": pool}
    noted = {key: value for key, value in annotations.items() if value}
    limit = {} if seconds is None else {"activeDeadlineSeconds": seconds}
    template = {"spec": {"containers": [{"name": "main"}], "terminationGracePeriodSeconds": 300}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "t", "namespace": "n", "uid": "u"} | ({"annotations": noted} if noted else {}),
        "spec": {"parallelism": 1, "completions": 1, **limit, "template": template},
        **({"status": status} if status else {}),
    }


OWN, OF_POOL, NONE = job(HOUR, "65m"), job(2 * HOUR, "125m", "a"), job(None)


@pytest.mark.parametrize(
    ("desired", "live", "kept"),
    [
        (OF_POOL, [], OF_POOL),
        (OF_POOL, [job(None, active=1)], NONE),
        (OF_POOL, [job(HOUR, "65m", "a", active=1)], job(HOUR, "65m", "a")),
        (OF_POOL, [job(9 * HOUR, "125m", "a", active=1)], job(9 * HOUR, "125m", "a")),
        (OF_POOL, [job(HOUR, "65m", active=1)], OWN),
        (OF_POOL, [job(None, **ENDED)], OF_POOL),
        (OWN, [job(None, active=1)], OWN),
        (NONE, [job(HOUR, "65m", active=1)], NONE),
    ],
    ids=["new", "none", "former default", "raised by hand", "former own", "ended", "own", "removed"],
)
def test_the_limit_of_a_pool_leaves_what_runs_alone(
    desired: dict[str, Any], live: list[dict[str, Any]], kept: dict[str, Any]
) -> None:
    assert keep_time_limit((desired,), live) == (kept,)


@pytest.mark.parametrize(
    ("live", "hours", "stops"),
    [
        (job(None, active=1, startTime="2026-03-01T12:00:00Z"), 1.0, False),
        (job(None, active=1, startTime="2026-03-01T12:00:00Z"), 1.1, True),
        (job(9 * HOUR, "545m", active=1, startTime="2026-03-01T12:00:00Z"), 5, True),
        (job(HOUR, "65m", active=1, startTime="2026-03-01T12:00:00Z"), 5, False),
        (job(None, startTime="2026-03-01T12:00:00Z", **ENDED), 5, False),
        (job(None), 5, False),
    ],
    ids=["in time", "too late", "shortened", "the same", "ended", "not started"],
)
def test_a_limit_that_would_stop_what_runs_at_once_is_refused(live: dict[str, Any], hours: float, stops: bool) -> None:
    text = stopped_at_once(plan_job("t", "n", "training", [OWN], [live]), START + timedelta(hours=hours))
    assert bool(text) is stops
    if text:
        assert text == (
            "the training has run since 2026-03-01T12:00:00Z, and a limit of 65m would stop it at once. Use a longer "
            "one. To stop it, use O(state=absent)."
        )


@pytest.mark.parametrize(
    ("live", "minutes"),
    [
        (job(HOUR, active=1, startTime="2026-03-01T12:00:00Z"), 65),
        (job(HOUR), None),
        (job(None, active=1, startTime="2026-03-01T12:00:00Z"), None),
        (job(HOUR, startTime="2026-03-01T12:00:00Z", **ENDED), None),
        (job(2**62, active=1, startTime="2026-03-01T12:00:00Z"), None),
    ],
    ids=["runs", "not started", "no limit", "ended", "beyond all calendars"],
)
def test_when_a_job_ends_at_the_latest(live: dict[str, Any], minutes: int | None) -> None:
    assert ends_at(live) == (None if minutes is None else START + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("seconds", "text"), [(2 * 86_400 - 300, "2d"), (12 * HOUR - 300, "12h"), (HOUR, "65m"), (HOUR + 1, "3901s")]
)
def test_the_limit_in_words(seconds: int, text: str) -> None:
    assert limit_text(job(seconds)) == text
