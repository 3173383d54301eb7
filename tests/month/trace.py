# SPDX-License-Identifier: BSD-2-Clause
"""A month of jobs, drawn from what two published traces say, each with the truth about it: when it works, when anybody
has use of it, and what it needs.

What is taken from where:

- PHILLY_HOURS: quantiles of the run times of Microsoft's Philly cluster (M. Jeon et al., USENIX ATC '19), computed from
  cluster-trace-gpu-v2020/analysis/philly_runtime.csv of github.com/alibaba/clusterdata. Of its 83,154 jobs, those of an
  hour or more are drawn: they are 23.7 % of the jobs and 95.1 % of the time.
- GPUS: the generator of Gavel, which imitates that trace (D. Narayanan et al., OSDI '20; generate_trace.py of
  github.com/stanford-futuredata/gavel): 70 % of jobs have 1 GPU, 10 % 2, and 20 % more.
- UTILIZATION: around 52 % on average in Philly (ATC '19).
- FAINT: in Alibaba's PAI (Q. Weng et al., "MLaaS in the Wild", NSDI '22), half of the instances use 1.5 % of their GPU
  or less on average.
- LEAN: what uses as much as it asks for. In PAI, 95.88 % of tasks plan more memory than they use (analysis.ipynb of the
  trace).
- Nodes have 4 GPUs, as PAI's have on average (6,742 in 1,897 machines).

Everything else is assumed, and has ASSUMED in its name or is in a function below: how many jobs of which kind, how many
hang or are forgotten, when people work, what is asked for, and how much the next run differs.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus import history

HOUR, DAY = 3600, 86_400
NODES, GPUS_OF_NODE, PEOPLE = 64, 4, 40
PHILLY_HOURS = (
    (0, 1.0), (10, 1.15), (20, 1.44), (30, 1.61), (40, 2.04), (50, 2.79), (60, 3.81), (70, 6.49), (80, 15.23),
    (90, 38.22), (95, 69.59), (97, 105.56), (99, 222.64), (99.5, 350.37), (100, 1285.62),
)  # fmt: skip
GPUS = ((1, 70), (2, 10), (4, 15), (8, 5))
UTILIZATION, FAINT, LEAN = 0.52, 0.015, 0.0412
ASSUMED_JOBS = {"training": 1000, "notebook": 180, "inference": 60}  # in 30 days
ASSUMED_HANG = 0.05  # of trainings: they neither compute nor log until their owner notices, 12 to 72 hours later
ASSUMED_PREPARE = 0.10  # of trainings: half an hour to 8 hours on CPUs alone, with a line in the log every 10 minutes
ASSUMED_FAINT = 0.10  # of trainings: no more than FAINT of a GPU, and they log
ASSUMED_UNUSED = 0.10  # of jobs with several GPUs: half of them are never used
ASSUMED_FORGOTTEN = {"notebook": 0.6, "inference": 0.25}
ASSUMED_OVERNIGHT = 0.10  # of the days of a notebook: it computes until the next morning
ASSUMED_TAB = 0.20  # of notebooks: a browser stays open for days after the last use

Span = tuple[float, float]


@dataclass(frozen=True)
class TracedJob:
    """Times are seconds from the beginning of the month; the end is when the job is through or its owner deletes it.

    ``works``: when it computes. ``useful``: when anybody has use of it. ``open``: when a browser shows it."""

    name: str
    kind: str
    team: str
    gpus: int
    pods: int
    start: float
    end: float
    works: Sequence[Span]
    useful: Sequence[Span]
    open: Sequence[Span]
    used: int  # GPUs of each pod that ever compute
    utilization: float
    memory: int  # GiB that it asks for
    memory_peak: float
    cpu: int
    cpu_peak: float

    @property
    def last(self) -> float:
        """When anybody has use of it for the last time."""
        return self.useful[-1][1]

    def last_active(self, moment: float) -> float:
        """When it computed, or was used, for the last time up to a moment."""
        ends = [min(end, moment) for begin, end in (*self.works, *self.useful) if begin <= moment]
        return max(ends, default=self.start)

    def last_line(self, moment: float) -> float:
        """When a training wrote the last line of its log."""
        return max(self.start, min(moment, self.last) // 600 * 600)


def within(spans: Sequence[Span], moment: float) -> bool:
    return any(begin <= moment < end for begin, end in spans)


def common(spans: Sequence[Span], others: Sequence[Span]) -> float:
    """The seconds that are in both."""
    return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in spans for since, until in others)


def month(days: int, seed: int) -> list[TracedJob]:
    """The jobs that are submitted in so many days."""
    chance = random.Random(seed)
    jobs = []
    for kind, number in ASSUMED_JOBS.items():
        for each in range(max(3, round(number * days / 30))):
            jobs.append(_job(chance, kind, each, days * DAY))
    return sorted(jobs, key=lambda job: job.start)


def _job(chance: random.Random, kind: str, number: int, length: float) -> TracedJob:
    gpus = _drawn(chance, GPUS) if kind == "training" else 1
    per_pod = min(gpus, GPUS_OF_NODE)
    pods = gpus // per_pod if kind == "training" else chance.choice((1, 2)) if kind == "inference" else 1
    start = chance.randrange(int(length / DAY)) * DAY + chance.randrange(8, 16) * HOUR
    life = {"training": _training, "notebook": _notebook, "inference": _service}[kind](chance, start)
    end, works, useful, tab = life
    memory, cpu = chance.choice((16, 32, 64, 128)), chance.choice((2, 4, 8, 16))
    unused = per_pod > 1 and chance.random() < ASSUMED_UNUSED
    faint = kind == "training" and chance.random() < ASSUMED_FAINT
    return TracedJob(
        f"{kind}-{number}", kind, f"person-{chance.randrange(PEOPLE) + 1}", per_pod, pods, start, end, works, useful,
        tab, per_pod // 2 if unused else per_pod, FAINT if faint else chance.uniform(0.2, 2 * UTILIZATION - 0.2),
        memory, memory * (chance.uniform(0.9, 0.99) if chance.random() < LEAN else chance.uniform(0.1, 0.85)),
        cpu, cpu * chance.uniform(0.1, 0.95),
    )  # fmt: skip


Life = tuple[float, Sequence[Span], Sequence[Span], Sequence[Span]]


def _training(chance: random.Random, start: float) -> Life:
    begin = start + (chance.uniform(0.5, 8) * HOUR if chance.random() < ASSUMED_PREPARE else 300)
    done = begin + _quantile(PHILLY_HOURS, chance.uniform(0, 100)) * HOUR
    if chance.random() >= ASSUMED_HANG:
        return done, [(begin, done)], [(start, done)], ()
    hangs = begin + chance.uniform(0.1, 0.9) * (done - begin)
    return hangs + chance.uniform(12, 72) * HOUR, [(begin, hangs)], [(start, hangs)], ()


def _notebook(chance: random.Random, start: float) -> Life:
    """Used on some days, in the morning and in the afternoon; then deleted, or forgotten for 2 to 14 days."""
    works: list[Span] = []
    useful: list[Span] = []
    morning = start
    for _day in range(chance.randint(1, 8)):
        evening = morning + chance.uniform(2, 8) * HOUR
        begin = morning + 0.2 * HOUR
        works.append((begin, begin + chance.uniform(0.2, 1) * HOUR))
        useful.append((morning, evening))
        morning = (morning // DAY + 1) * DAY + chance.uniform(8, 10) * HOUR
        if chance.random() < ASSUMED_OVERNIGHT:
            works.append((evening - 60, morning))
            useful[-1] = useful[-1][0], morning
    last = useful[-1][1]
    forgotten = chance.random() < ASSUMED_FORGOTTEN["notebook"]
    end = last + (chance.uniform(2, 14) * DAY if forgotten else 0.1 * HOUR)
    tab = [(start, min(end, last + chance.uniform(1, 5) * DAY))] if chance.random() < ASSUMED_TAB else useful
    return end, works, useful, tab


def _service(chance: random.Random, start: float) -> Life:
    """Requests by day. One that is forgotten has no more after some days, and stays."""
    end = start + chance.uniform(10, 60) * DAY
    last = start + chance.uniform(2, 12) * DAY if chance.random() < ASSUMED_FORGOTTEN["inference"] else end
    days = range(int(start // DAY), int(last // DAY) + 1)
    works = [(max(start, day * DAY + 8 * HOUR), min(last, day * DAY + 22 * HOUR)) for day in days]
    return end, [span for span in works if span[0] < span[1]], [(start, last)], ()


def _quantile(table: Sequence[tuple[float, float]], percent: float) -> float:
    """Between the values of the table, on a line."""
    (low, less), (high, more) = next(pair for pair in pairwise(table) if pair[0][0] <= percent <= pair[1][0])
    return less + (more - less) * (percent - low) / (high - low)


def _drawn(chance: random.Random, weights: Sequence[tuple[int, int]]) -> int:
    return chance.choices([value for value, _weight in weights], [weight for _value, weight in weights])[0]


# -- as samples --------------------------------------------------------------------------------------------------------

STEP = 120
PEAK = 600.0  # seconds, in which it needs most memory and CPU
GIB = 2**30
RECORDED = "namespace_pod_uuid:runwhere_gpu_{}"


def pod_names(job: TracedJob) -> list[str]:
    """As the controllers name them."""
    ends = {"notebook": ("-0",), "inference": ("-5d4f7-aaaaa", "-5d4f7-bbbbb"), "training": ("-0-aaaaa", "-1-bbbbb")}
    return [f"{job.name}{end}" for end in ends[job.kind][: job.pods]]


def openmetrics(jobs: Sequence[TracedJob], begin: float, since: float, until: float) -> Iterator[str]:
    """What the rules of the role monitoring record of devices, and what cAdvisor serves, from one moment to another, in
    seconds since 1970. Another tool always has a pod with a GPU, so that there are always recorded series."""
    for name, series in (
        (RECORDED.format("utilization:ratio"), _utilization),
        (RECORDED.format("memory_used:bytes"), _device_memory),
        ("container_memory_working_set_bytes", _memory),
        ("container_cpu_usage_seconds_total", _cpu),
    ):
        yield f"# TYPE {name.removesuffix('_total')} {'counter' if name.endswith('_total') else 'gauge'}\n"
        for moment in range(-int(-since // STEP) * STEP, int(until), STEP):
            yield f'{name}{{namespace="tools",pod="other",UUID="GPU-other",id="/kubepods/other"}} 1 {moment}\n'
        for job in jobs:
            first = -(-max(since, begin + job.start + 30) // STEP) * STEP
            moments = range(int(first), int(min(until, begin + job.end)), STEP)
            if moments:
                values = [(moment, moment - begin) for moment in moments]
                for labels, own in series(job, [at for _moment, at in values]):
                    yield from (
                        f"{name}{{{labels}}} {value} {moment}\n"
                        for (moment, _at), value in zip(values, own, strict=True)
                    )
    yield from _history(jobs, begin, since, until)
    yield "# EOF\n"


def _history(jobs: Sequence[TracedJob], begin: float, since: float, until: float) -> Iterator[str]:
    """What is recorded every quarter of an hour of the samples of the half hour before."""
    moments = range(-int(-since // history.STEP) * history.STEP, int(until), history.STEP)
    yield f"# TYPE {history.EVALUATED} gauge\n"
    yield from (f"{history.EVALUATED} {moment} {moment}\n" for moment in moments)
    for name, series in (("gpu_utilization", _utilization), ("gpu_memory", _device_memory), ("memory", _memory),
                         ("cpu", _cpu), ("pods", _pods)):  # fmt: skip
        yield from _recorded(history.peak_record(name), history.LABELS[name], jobs, series, begin, moments)
    for name, series in (("gpu", _utilization), ("memory", _memory), ("cpu", _memory)):
        yield from _recorded(history.known_record(name), history.LABELS[name], jobs, series, begin, moments)


def _recorded(
    name: str,
    labels: Sequence[str],
    jobs: Sequence[TracedJob],
    series: Callable[[TracedJob, Sequence[float]], Labelled],
    begin: float,
    moments: range,
) -> Iterator[str]:
    yield f"# TYPE {name} gauge\n"
    window = 2 * history.STEP if name.endswith("max30m") else history.STEP - 1
    for job in jobs:
        first, last = begin + job.start + 30, begin + job.end
        own = [moment for moment in moments if first <= moment < last + window]
        if not own:
            continue
        times = range(int(-(-max(first, own[0] - window - 300) // STEP) * STEP), int(min(own[-1] + 1, last)), STEP)
        for text, values in series(job, [moment - begin for moment in times]):
            kept = ",".join(each for each in text.split(",") if each.split("=")[0] in labels)
            known = list(zip(times, map(float, values), strict=True))
            for moment in own:
                value = _value_of(name, known[bisect_left(times, moment - window - 300) :], moment, window)
                if value is not None:
                    yield f"{name}{{{kept}}} {value:g} {moment}\n"


def _value_of(name: str, samples: Sequence[tuple[int, float]], moment: int, window: int) -> float | None:
    found = [(at, value) for at, value in samples[: (window + 300) // STEP + 2] if at <= moment]
    own = [value for at, value in found if at >= moment - window]
    if not own:
        return None
    if not name.endswith("max30m"):  # A sample counts until the next one is due.
        ends = min(max(at for at, _value in found) + STEP - 1, moment)
        return (ends - max(found[0][0], moment - window)) // 60 + 1
    if "runwhere_cpu" not in name:
        return max(own)
    rates = []
    for end in range(-(-(moment - window) // 300) * 300, moment + 1, 300):
        pair = [(at, value) for at, value in found if end - 300 <= at <= end]
        if len(pair) > 1:
            rates.append((pair[-1][1] - pair[0][1]) / (pair[-1][0] - pair[0][0]))
    return max(rates, default=None)


def _pods(job: TracedJob, times: Sequence[float]) -> Labelled:
    for pod in pod_names(job):
        yield f'namespace="{job.team}",pod="{pod}",job_name="{job.name}"', ["1"] * len(times)


Labelled = Iterator[tuple[str, Sequence[str]]]


def _devices(job: TracedJob, used: Sequence[str], unused: str) -> Labelled:
    for pod in pod_names(job):
        for index in range(job.gpus):
            text = f'namespace="{job.team}",pod="{pod}",UUID="GPU-{pod}-{index}",job_name="{job.name}",pool="default"'
            yield text, used if index < job.used else [unused] * len(used)


def _utilization(job: TracedJob, times: Sequence[float]) -> Labelled:
    """Around the average of the job; every hour, a checkpoint is written."""
    values = [f"{job.utilization * factor:.4f}" for factor in (0.8, 1.0, 1.2, 1.0)]
    used = [
        ("0" if at % HOUR < STEP else values[int(at // STEP) % 4]) if within(job.works, at) else "0" for at in times
    ]
    return _devices(job, used, "0")


def _device_memory(job: TracedJob, times: Sequence[float]) -> Labelled:
    """Of what computes once, until the job ends: a model stays loaded, and so does what a kernel holds."""
    first = job.works[0][0]
    return _devices(job, ["2e10" if at >= first else "4e8" for at in times], "4e8")


def _containers(job: TracedJob, values: Sequence[str]) -> Labelled:
    for pod in pod_names(job):
        yield f'container="main",id="/kubepods/{pod}",namespace="{job.team}",pod="{pod}",image="ml:v1"', values


def peak_of(job: TracedJob) -> Span:
    """In the middle of the first time that it computes."""
    begin, end = job.works[0]
    return (begin + end - PEAK) / 2, (begin + end + PEAK) / 2


def _memory(job: TracedJob, times: Sequence[float]) -> Labelled:
    high, low = (f"{job.memory_peak * GIB * part:.0f}" for part in (1, 0.7))
    return _containers(job, [high if within([peak_of(job)], at) else low for at in times])


def _cpu(job: TracedJob, times: Sequence[float]) -> Labelled:
    """Half of the peak, but for those minutes: the counter of seconds."""
    begin, _end = peak_of(job)
    extra = [min(max(at - begin, 0.0), PEAK) for at in times]
    return _containers(
        job,
        [f"{job.cpu_peak * (0.5 * (at - job.start) + 0.5 * more):.3f}" for at, more in zip(times, extra, strict=True)],
    )
