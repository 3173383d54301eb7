# SPDX-License-Identifier: BSD-2-Clause
"""Two days of `make month`: what its courses cost, and that it notices a policy that stops what works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle import idle_jobs
from month import run, world
from month.run import Outcome
from month.trace import DAY, TracedJob, common, month

from .monitoring import needs_prometheus

DAYS, SEED, EVERY = 2, 5, 4.0
# A third of the jobs that `make month` submits in two days.
JOBS = month(DAYS, SEED)[::3]


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_blocks(tmp_path_factory.mktemp("month"), JOBS, DAYS)


@pytest.fixture(autouse=True)
def machine_time() -> Iterator[None]:
    yield
    world.SimulatedTime.restore()


def as_it_is(jobs: Sequence[TracedJob]) -> float:
    spans = ((job, [(job.start, min(job.end, DAYS * DAY))]) for job in jobs)
    return sum(common(span, span) / 3600 * job.gpus * job.pods for job, span in spans)


def played(directory: Path, blocks: Path) -> Outcome:
    return run.play_course(directory, JOBS, blocks, "both", DAYS, SEED, EVERY)


@needs_prometheus
def test_limits_and_reclaim_free_what_nobody_uses_and_stop_nothing_that_works(tmp_path: Path, blocks: Path) -> None:
    found = played(tmp_path / "course", blocks)
    assert found.counts["stopped: idle"] > 3
    assert (found.wrong, found.lacking) == ([], [])
    assert found.lost == pytest.approx(0, abs=0.1)
    assert found.held < as_it_is(JOBS) - 10
    assert found.advice is not None
    assert found.advice["advised"]["memory"]
    for hours in found.counted.values():
        assert hours == pytest.approx(found.held, rel=0.01)


@needs_prometheus
def test_a_policy_that_stops_what_works_is_noticed(
    tmp_path: Path, blocks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that waits for requests at night has no use of its GPUs for hours."""
    monkeypatch.setitem(world.IDLE_POLICY, "exempt_kinds", [])
    found = played(tmp_path / "course", blocks)
    assert any(each.startswith("inference-") for each in found.wrong)
    assert found.lost > 1


def test_the_clock_is_this_machines_again() -> None:
    assert idle_jobs.datetime is not world.SimulatedTime
