# SPDX-License-Identifier: BSD-2-Clause
"""A month of 64 nodes and 40 people, four times: as it is, with time limits, with reclaim, and with both; and what
advice makes of the first and the last.   make month ARGS="--days 30 --seed 1 --every 2"

The jobs are those of trace.py. Each time, gpuctl_expire and gpuctl_idle run every two hours (--every) of simulated
time, on a simulated API server and a real Prometheus with the samples of that month (world.py). It exits with 1 if
something was stopped that worked, if work was lost, or if a job with the advised resources would lack what it needs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / ".cache" / "collections")]

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_requests import (  # noqa: E402
    amount_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advice.advice_info import (  # noqa: E402
    MODULE as ADVICE,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.budgets.count_budgets import (  # noqa: E402
    MODULE as BUDGET,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import (  # noqa: E402
    MODULE as USAGE,
)
from month.trace import DAY, GIB, HOUR, PEAK, PEOPLE, TracedJob, common, month, peak_of  # noqa: E402
from month.world import Course, World, world, write_blocks  # noqa: E402

COURSES = {"as it is": (False, False), "limits": (True, False), "reclaim": (False, True), "both": (True, True)}
ADVISED = ("as it is", "both")
ASSUMED_CHANGE = 0.1  # by how much the next run of a job needs more or less memory

Row = dict[str, Any]


@dataclass
class Outcome:
    """What became of the month in one course, in GPU-hours. ``unused``: held while nobody had use of the job, or by
    pods that never use that GPU. ``advice``: what the same jobs hold and do not use as they are advised. ``lacking``:
    what their next run lacks then; ``early``: of jobs that still run, and whose peak was yet to come."""

    jobs: int
    held: float
    unused: float
    lost: float
    counts: Mapping[str, int]
    wrong: list[str]
    by_kind: Mapping[str, tuple[float, float]]
    counted: dict[str, float] = field(default_factory=dict)
    advice: Row | None = None
    lacking: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)


def outcome(world: World, length: float) -> Outcome:
    """By the truth about the jobs."""
    courses = list(world.courses.values())

    def lost(course: Course) -> float:
        job = course.job
        left = [(begin, min(end, length, job.end)) for begin, end in job.works if begin < min(length, job.end)]
        return sum(end - begin for begin, end in left) / 3600 * job.used * job.pods - course.gpu_hours(left, job.used)

    kinds = {job.kind for job in (course.job for course in courses)}
    by_kind = {
        kind: (
            sum(course.gpu_hours() for course in courses if course.job.kind == kind),
            sum(map(_unused, (course for course in courses if course.job.kind == kind))),
        )
        for kind in sorted(kinds)
    }
    held, unused = (sum(each[number] for each in by_kind.values()) for number in (0, 1))
    return Outcome(len(courses), held, unused, sum(map(lost, courses)), world.counts, world.wrong, by_kind)


def _unused(course: Course, gpus: int | None = None) -> float:
    asked = course.job.gpus if gpus is None else gpus
    return course.gpu_hours(gpus=asked) - course.gpu_hours(course.job.useful, min(course.job.used, asked))


def advise(world: World, found: Outcome, days: float, seed: int) -> None:
    """What gpuctl_advice_info says at the end, given to every job, and whether its next run has what it needs."""
    world.forget_samples()
    options: Row = {"all_namespaces": True, "prometheus_url": world.server.url, "range": f"{days:g}d"}
    options["prometheus_timeout"] = 300  # seconds: this machine may do other things, too
    result = _timed(found, world, "advise", lambda: world.perform(ADVICE, **options))
    advised: dict[str, dict[str, Any]] = {name: {} for name in world.courses}
    for row in result["results"]:
        advised[row["name"]][row["what"]] = row["advised"]
    chance = random.Random(seed)
    for name, course in world.courses.items():
        problems = _lacks(course.job, advised[name], chance.uniform(1 - ASSUMED_CHANGE, 1 + ASSUMED_CHANGE))
        has_peaked = common(course.spans, [peak_of(course.job)]) > PEAK - 1
        (found.lacking if has_peaked else found.early).extend(f"{name}: {problem}" for problem in problems)
    gpus = {name: values.get("resources.gpu") for name, values in advised.items()}
    found.advice = {
        "jobs": result["totals"]["jobs"],
        "advised": {
            what: sum(f"resources.{what}" in each for each in advised.values()) for what in ("gpu", "memory", "cpu")
        },
        "held": sum(course.gpu_hours(gpus=gpus[name]) for name, course in world.courses.items()),
        "unused": sum(_unused(course, gpus[name]) for name, course in world.courses.items()),
        "gib_hours": result["totals"]["saved_gib_hours"],
        "unknown": len({(row["namespace"], row["name"]) for row in result["unknown"]}),
    }


def _lacks(job: TracedJob, advised: Mapping[str, Any], change: float) -> Iterator[str]:
    if (gpus := advised.get("resources.gpu")) is not None and gpus < job.used:
        yield f"{gpus} GPUs advised, {job.used} are used"
    memory = advised.get("resources.memory")
    if memory and (need := job.memory_peak * change) > amount_of("memory", memory) / GIB:
        yield f"out of memory: {memory} advised, {need:.1f} GiB are needed"
    cpu = advised.get("resources.cpu")
    if cpu and job.cpu_peak > amount_of("cpu", cpu) / 1000:
        yield f"{cpu} CPUs advised, {job.cpu_peak:.1f} are used"


def count(world: World, found: Outcome, days: float) -> None:
    """The same GPU-hours by gpuctl_usage_info and gpuctl_budget, which know pods and the record of runs."""
    world.move(days * DAY - 60)  # The budgets are those of this calendar month.
    budgets = _timed(found, world, f"budget of {PEOPLE} teams", lambda: world.perform(BUDGET, all_namespaces=True))
    found.counted["budget"] = sum(row["used"] for row in budgets["results"])
    world.move(days * DAY)
    usage = _timed(found, world, "usage", lambda: world.perform(USAGE, all_namespaces=True, range=f"{days:g}d"))
    found.counted["usage"] = usage["totals"]["gpu_hours"]


def _timed(found: Outcome, world: World, what: str, ask: Callable[[], Row]) -> Row:
    """Processor time is that of this process, with the simulated API server in it, and of Prometheus."""
    wall, busy = time.monotonic(), _busy(world)
    result = ask()
    found.times.append(f"{what}: {time.monotonic() - wall:.1f} s, {_busy(world) - busy:.1f} s of processor time")
    return result


def _busy(world: World) -> float:
    with urllib.request.urlopen(f"{world.server.url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    own = next(line for line in lines if line.startswith("process_cpu_seconds_total "))
    return time.process_time() + float(own.split()[1])


def play_course(
    directory: Path, jobs: Sequence[TracedJob], blocks: Path, name: str, days: int, seed: int, every: float
) -> Outcome:
    limits, reclaim = COURSES[name]
    with world(directory, jobs, blocks, limits=limits, reclaim=reclaim) as made:
        made.play(days, every * HOUR)
        found = outcome(made, days * DAY)
        count(made, found, days)
        if name in ADVISED:
            advise(made, found, days, seed)
    return found


def _shown(name: str, found: Outcome) -> str:
    lines = [f"{name}: {found.held:,.0f} GPU-hours held by {found.jobs} jobs, {found.unused:,.0f} of them unused"]
    lines += [f"  {kind}: {held:,.0f} held, {unused:,.0f} unused" for kind, (held, unused) in found.by_kind.items()]
    lines += [f"  {what}: {number}" for what, number in sorted(found.counts.items())]
    lines += [f"  stopped although it worked: {len(found.wrong)}", f"  GPU-hours of work lost: {found.lost:,.1f}"]
    lines += [f"  GPU-hours by {what}: {hours:,.0f}" for what, hours in found.counted.items()]
    if found.advice:
        lines += [f"  advice: {found.advice}"]
        lines += [f"  lacks what it needs as advised: {len(found.lacking)}, and {len(found.early)} before their peak"]
    lines += [f"  {each}" for each in (*found.times, *found.wrong[:20], *found.lacking[:20], *found.early[:20])]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("   make")[0])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=2, help="hours between two runs of the schedule")
    parser.add_argument("--courses", nargs="+", choices=COURSES, default=list(COURSES))
    given = parser.parse_args()
    jobs, found = month(given.days, given.seed), []
    with tempfile.TemporaryDirectory(prefix="gpuctl-month-") as name:
        blocks = write_blocks(Path(name), jobs, given.days)
        for course in given.courses:
            directory = Path(name, course.replace(" ", "-"))
            found.append(play_course(directory, jobs, blocks, course, given.days, given.seed, given.every))
            print(_shown(course, found[-1]), flush=True)
    sys.exit(any(each.wrong or each.lacking or each.lost > 0.5 for each in found))


if __name__ == "__main__":
    main()
