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


def job(
    seconds: int | None, text: str = "", pool: str = "", extended: int | None = None, **status: Any
) -> dict[str, Any]:
    annotations = {
        "runwhere.ai/time-limit": text,
        "runwhere.ai/time-limit-of": pool,
        "runwhere.ai/time-limit-extended": str(extended or ""),
    }
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
        (OWN, [job(4 * HOUR, "65m", extended=4 * HOUR + 300, active=1)], job(4 * HOUR, "65m", extended=4 * HOUR + 300)),
        (OWN, [job(HOUR // 2, "35m", extended=HOUR // 2 + 300, active=1)], OWN),
        (OWN, [job(4 * HOUR, "65m", extended=4 * HOUR + 300, **ENDED)], OWN),
        (NONE, [job(4 * HOUR, "65m", extended=4 * HOUR + 300, active=1)], NONE),
        (OWN, [job(None, "65m", extended=4 * HOUR + 300, active=1)], OWN),
        (
            OF_POOL,
            [job(4 * HOUR, "125m", "a", extended=4 * HOUR + 300, active=1)],
            job(4 * HOUR, "125m", "a", extended=4 * HOUR + 300),
        ),
    ],
    ids=[
        *("new", "none", "former default", "raised by hand", "former own", "ended", "own", "removed", "extended"),
        *("extended by less", "extended and ended", "extended and removed", "its deadline removed by hand"),
        "the former default extended",
    ],
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


def notebook(limit: str | None = None, resumed: str | None = None, extended: str = "", replicas: int = 1) -> Any:
    notes = {"time-limit": limit, "resumed-at": resumed, "time-limit-extended": extended}
    return {
        "kind": "StatefulSet",
        "metadata": {
            "creationTimestamp": "2026-03-01T12:00:00Z",
            "annotations": {f"runwhere.ai/{name}": text for name, text in notes.items() if text},
        },
        "spec": {"replicas": replicas},
    }


@pytest.mark.parametrize(
    ("live", "hours"),
    [
        (notebook("8h"), 8),
        (notebook(), None),
        (notebook("8h", replicas=0), None),
        (notebook("8h", resumed="2026-03-01T15:00:00+01:00"), 10),
        (notebook("8h", resumed="2026-02-01T00:00:00Z"), 8),
        (notebook("8h", resumed="2026-03-02T12:04:00Z"), 32.0667),
        (notebook("8h", resumed="2026-03-02T12:06:00Z"), 8),
        (notebook("8h", resumed="later"), 8),
        (notebook("8h", extended="43200"), 12),
        (notebook("8h", extended="3600"), 8),
        (notebook("8h", extended="99999d"), 8),
        (notebook(extended="43200"), None),
        (notebook("soon"), None),
    ],
    ids=[
        *("created", "no limit", "paused", "resumed", "before it was made", "a fast clock", "in the future", "no time"),
        *("extended", "extended by less", "extended for centuries", "extended without a limit", "no duration"),
    ],
)
def test_when_a_notebook_has_to_end(live: dict[str, Any], hours: float | None) -> None:
    end = ends_at(live, START + timedelta(days=1))
    assert (end and round((end - START).total_seconds() / HOUR, 4)) == hours


@pytest.mark.parametrize(
    ("seconds", "text"), [(2 * 86_400 - 300, "2d"), (12 * HOUR - 300, "12h"), (HOUR, "65m"), (HOUR + 1, "3901s")]
)
def test_the_limit_in_words(seconds: int, text: str) -> None:
    assert limit_text(job(seconds)) == text
