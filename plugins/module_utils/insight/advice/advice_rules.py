# SPDX-License-Identifier: BSD-2-Clause
"""What a job should ask for, by what its pods have used. Pure.

A smaller request that is wrong ends a job, and one that is too large costs money. So there is advice only where nearly
all of the time is known, of every pod and every device, and never below a peak. Everything else is not known, and says
why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ...accelerators.catalog import DeviceResource, ShareBackend
from ...quantity import GIB, uniform
from ..idle.idle_rules import LEAST_COVERAGE, percent, span
from ..prometheus.promql import SEVERAL_CLUSTERS

GPU, MEMORY, CPU = "resources.gpu", "resources.memory", "resources.cpu"
SHARE, REPLICAS = "resources.gpu-share", "service.replicas"
FIELDS = (GPU, SHARE, REPLICAS, MEMORY, CPU)

# A driver and the context of a process take some hundreds of MiB of a device that computes nothing.
UNUSED_MEMORY = GIB
_MARGIN = 1.25  # between two samples, and in the next run, a little more may be needed
_WORTH = 0.75  # Less than a quarter is not worth the restart that a change of resources is.
_LEAST_SAVING = {MEMORY: GIB, CPU: 1000}
_LEAST_REPLICAS = 2  # One goes on while the other one moves to another node.
_LARGEST_SHARE = 0.5  # of a GPU's memory: of a larger one, hardly another fits beside it
_BUSY_SHARE = 0.5  # of a GPU, at the peak: requests wait for a busy one, and samples do not show each burst
_BRIEF = 600.0  # seconds: a pod that has run for less says nothing, and delays nothing

# What an amount is rounded up to, by the amounts below which it counts.
_MEMORY_STEPS = ((2 * GIB, GIB // 4), (16 * GIB, GIB), (128 * GIB, 4 * GIB), (math.inf, 16 * GIB))
_CPU_STEPS = ((2_000, 500), (16_000, 1_000), (math.inf, 4_000))


class Spread(NamedTuple):
    """How much was used: half of the time at most, 95 percent of the time at most, and ever. None is not known."""

    p50: float | None
    p95: float | None
    max: float


class DevicePeak(NamedTuple):
    """The highest utilization of a device, its highest memory in bytes, and the seconds in which both are known."""

    utilization: float
    memory: float
    seconds: float

    def is_used(self, below: float) -> bool:
        """A model that waits for requests computes nothing, and is in the memory of its device."""
        return self.utilization >= below or self.memory >= UNUSED_MEMORY


class ContainerUse(NamedTuple):
    """What a container used of memory, in bytes, or of CPU, in thousandths; ``seconds`` in which that is known."""

    used: Spread
    seconds: float


@dataclass(frozen=True)
class PodEvidence:
    """What is known of a pod. ``seconds`` are those that it ran, ``held`` those that it held its devices; both are 0
    for a pod that is gone, of which only the peaks count. ``price`` is that of an hour of one device."""

    name: str
    seconds: float = 0.0
    held: float = 0.0
    devices: tuple[DevicePeak, ...] = ()
    busy: tuple[float, float] | None = None  # devices at the same time: p50, p95
    memory: ContainerUse | None = None
    cpu: ContainerUse | None = None
    price: float | None = None
    shared: bool = False  # its devices are shares of those of others
    ambiguous: bool = False  # Pods of other clusters may have its name.
    changed: bool = False  # It asks for something else than the manifest does now.

    @property
    def is_empty(self) -> bool:
        return not self.devices and self.memory is None and self.cpu is None


@dataclass(frozen=True)
class AskedResources:
    """What the manifest asks for: devices or partitions, memory in bytes, CPU in thousandths of a core.

    ``halves_shm``: its /dev/shm is half of its memory, so a smaller memory is a smaller /dev/shm.
    """

    gpus: int = 0
    device: DeviceResource | None = None
    memory: int = 0
    cpu: int = 0
    halves_shm: bool = False


class ShareOffer(NamedTuple):
    """How a job's pool shares its devices, and the memory in bytes of the smallest that the job has or may get."""

    backend: ShareBackend
    device: int


@dataclass(frozen=True)
class JobEvidence:
    """A job and its pods in a range of time. ``out_of_memory``: one of them was killed for its memory. ``replicas`` are
    those that its manifest sets, 0 if something else does. ``share``: of a job that could have one, if that is known.
    """

    namespace: str
    name: str
    kind: str
    asked: AskedResources
    pods: tuple[PodEvidence, ...] = ()
    former: tuple[PodEvidence, ...] = ()
    out_of_memory: bool = False
    replicas: int = 0
    share: ShareOffer | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing has measured any of its pods."""
        return all(pod.is_empty for pod in (*self.pods, *self.former))


@dataclass(frozen=True)
class AdviceLimits:
    """From which utilization a device is in use, how long a job must have run, and the length of the range in
    seconds."""

    below: float
    least: float
    seconds: float


@dataclass(frozen=True)
class Advice:
    """A smaller request. ``saved`` is in hours of devices, GiB or cores, and ``cost`` their price."""

    what: str
    asked: int
    advised: int
    used: Spread
    coverage: float
    seconds: float
    saved: float
    reason: str
    cost: float | None = None


class NotKnown(NamedTuple):
    """Why there is no advice, although there might be some."""

    what: str
    reason: str


Finding: TypeAlias = "Advice | NotKnown | None"
"""None: it asks for what it needs."""


def findings_of(job: JobEvidence, limits: AdviceLimits) -> list[Advice | NotKnown]:
    """What is to be said of each field that the job sets, in their order.

    Of fewer replicas, each uses more of all: what they should ask for then is known once they have run.
    """
    gpus = advise_gpus(job, limits)
    fewer = None if gpus else advise_replicas(job, limits)
    share = None if gpus or fewer else advise_share(job, limits)
    found = (fewer,) if fewer else (gpus, share, advise_memory(job, limits), advise_cpu(job, limits))
    return [each for each in found if each is not None]


def advise_gpus(job: JobEvidence, limits: AdviceLimits) -> Finding:
    """The number of devices of which each pod has ever used as many at most."""
    asked, device = job.asked.gpus, job.asked.device
    if not asked or device is None:
        return None
    if doubt := _doubt(job, limits) or _doubt_of_devices(job):
        return NotKnown(GPU, doubt)
    pods = [*_telling(job.pods), *job.former]
    needed = max(sum(each.is_used(limits.below) for each in pod.devices) for pod in pods)
    if needed >= asked:
        return None
    if needed == 0 and job.kind == "notebook":
        return NotKnown(GPU, "none of its accelerators was used, and its user may go on. The playbook idle pauses it")
    busy = [pod.busy for pod in pods if pod.busy is not None]
    unused = asked - needed
    return Advice(
        GPU,
        asked,
        needed,
        Spread(max((p50 for p50, _p95 in busy), default=0.0), max((p95 for _p50, p95 in busy), default=0.0), needed),
        *_coverage(job.pods, _device_seconds),
        saved=_hours(job.pods) * unused,
        reason=_unused_devices(job, device, unused, limits),
        cost=_cost(job.pods, unused),
    )


def advise_share(job: JobEvidence, limits: AdviceLimits) -> Advice | None:
    """A share in place of a whole device that was never busy for more than half, and whose memory, with room to spare,
    fits into half of one. What pods that are gone used of their devices must be known, too."""
    pods = [*_telling(job.pods), *job.former]
    if job.share is None or job.asked.gpus != 1 or job.out_of_memory or not all(pod.devices for pod in pods):
        return None
    if _doubt(job, limits) or _doubt_of_devices(job):
        return None
    unit, device = job.share.backend.memory, job.share.device
    memory, busy = (max(sum(each[part] for each in pod.devices) for pod in pods) for part in (1, 0))
    wanted = unit.ceil(memory_text(readable_memory(memory * _MARGIN)))
    amounts = [size for size in sorted(job.share.backend.sizes or (wanted,)) if size >= wanted]
    if not amounts or busy > _BUSY_SHARE or unit.bytes(amounts[0]) > device * _LARGEST_SHARE:
        return None
    size = unit.bytes(amounts[0])
    return Advice(
        SHARE,
        1,
        size,
        Spread(None, None, max(memory / device, busy)),
        *_coverage(job.pods, _device_seconds),
        saved=_hours(job.pods) * (unused := 1 - size / device),
        reason=f"Its GPU was busy for {percent(busy)} at most in {_period(job, limits)}, and {_in_gib(memory)} of "
        f"{_in_gib(device)} GiB of its memory were in use. The pool shares GPUs: gpu-share: {memory_text(size)} in "
        f"place of gpu: 1 is {percent(size / device)} of one.",
        cost=_cost(job.pods, unused),
    )


def advise_replicas(job: JobEvidence, limits: AdviceLimits) -> Advice | None:
    """As many replicas as the peaks of all pods fit into together, with room to spare, and two at least.

    Peaks of different times add up, and those of pods that are gone, so the sum is never less than what was used at a
    time. What is not known of a pod that is gone counts as all that it asked for. Of each, the GPU that was busiest
    counts, which is to be busy for half of the time at most.
    """
    asked, replicas, pods = job.asked, job.replicas, _telling(job.pods)
    if replicas <= _LEAST_REPLICAS or job.out_of_memory or not (asked.gpus and asked.memory and asked.cpu):
        return None
    if len(pods) != replicas or min(pod.seconds for pod in pods) < limits.least or _doubt(job, limits):
        return None
    if _doubt_of_container(job, _memory_seconds, "") or _doubt_of_container(job, _cpu_seconds, ""):
        return None
    every = {pod.name: pod for pod in (*job.pods, *job.former)}.values()  # Each once: the former have all names.
    busy = sum(max((each.utilization for each in pod.devices), default=1.0) for pod in every)
    memory = sum(pod.memory.used.max if pod.memory else asked.memory for pod in every)
    cpu = sum(pod.cpu.used.max if pod.cpu else asked.cpu for pod in every)
    full = max(busy / _BUSY_SHARE, memory * _MARGIN / asked.memory, cpu * _MARGIN / asked.cpu)
    needed = max(math.ceil(full), _LEAST_REPLICAS)
    if needed > replicas * _WORTH:
        return None
    unused = asked.gpus * (replicas - needed) / replicas
    return Advice(
        REPLICAS,
        replicas,
        needed,
        Spread(None, None, busy),
        *_coverage(job.pods, _device_seconds),
        saved=_hours(job.pods) * unused,
        reason=f"The peaks of its {replicas} replicas in {_period(job, limits)} add up to {busy:.2g} busy GPUs, "
        f"{_in_gib(memory)} GiB of memory and {cpu / 1000:.2g} cores, at whatever times they were. {needed} hold that "
        f"with room to spare, and their GPUs are busy for half of the time at most.",
        cost=_cost(job.pods, unused),
    )


def advise_memory(job: JobEvidence, limits: AdviceLimits) -> Finding:
    """The peak and a margin. Where /dev/shm is half of the memory, all of the peak may have been in it."""
    asked = job.asked.memory
    if not asked:
        return None
    if doubt := _doubt(job, limits) or _doubt_of_container(job, _memory_seconds, "memory"):
        return NotKnown(MEMORY, doubt)
    used = _highest(pod.memory for pod in (*job.pods, *job.former))
    advised = readable_memory(used.max * (2 if job.asked.halves_shm else _MARGIN))
    if not _is_worth_it(MEMORY, asked, advised):
        return None
    if job.out_of_memory:
        return NotKnown(MEMORY, "it was killed for its memory (OOMKilled), so its peak is not what it needs")
    shm = ", as half of it is the size of /dev/shm" if job.asked.halves_shm else ""
    return Advice(
        MEMORY,
        asked,
        advised,
        used,
        *_coverage(job.pods, _memory_seconds),
        saved=_hours(job.pods) * (asked - advised) / GIB,
        reason=f"Memory peaks at {_in_gib(used.max)} of {_in_gib(asked)} GiB in {_period(job, limits)}. "
        f"{memory_text(advised)} leaves room for {(advised / used.max - 1) * 100:.0f} % more{shm}.",
    )


def advise_cpu(job: JobEvidence, limits: AdviceLimits) -> Finding:
    """The peak of the average of five minutes, and a margin."""
    asked = job.asked.cpu
    if not asked:
        return None
    if doubt := _doubt(job, limits) or _doubt_of_container(job, _cpu_seconds, "CPU"):
        return NotKnown(CPU, doubt)
    used = _highest(pod.cpu for pod in (*job.pods, *job.former))
    advised = readable_cpu(used.max * _MARGIN)
    if not _is_worth_it(CPU, asked, advised):
        return None
    return Advice(
        CPU,
        asked,
        advised,
        used,
        *_coverage(job.pods, _cpu_seconds),
        saved=_hours(job.pods) * (asked - advised) / 1000,
        reason=f"CPU peaks at {used.max / 1000:.3g} of {asked / 1000:g} cores, as the average of five minutes, in "
        f"{_period(job, limits)}.",
    )


# -- amounts -----------------------------------------------------------------------------------------------------------


def readable_memory(size: float) -> int:
    """The next amount that a person would write, in bytes: 38.75 GiB -> 40 GiB."""
    return _rounded_up(size, _MEMORY_STEPS)


def readable_cpu(thousandths: float) -> int:
    """The next amount that a person would write: 3,875 -> 4,000."""
    return _rounded_up(thousandths, _CPU_STEPS)


def memory_text(size: int) -> str:
    """As manifests have it: 40Gi, 1536Mi."""
    return uniform(size, of_bytes=True)


def cpu_text(thousandths: int) -> str:
    """As manifests have it: 4, 500m."""
    return uniform(f"{thousandths}m")


def _in_gib(size: float) -> str:
    """``31``, ``0.4``: without the unit."""
    number = size / GIB
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")


def _rounded_up(amount: float, steps: Sequence[tuple[float, int]]) -> int:
    step = next(step for below, step in steps if amount < below)
    return max(math.ceil(amount / step), 1) * step


def _is_worth_it(what: str, asked: int, advised: int) -> bool:
    return advised <= asked * _WORTH and asked - advised >= _LEAST_SAVING[what]


# -- how much is known -------------------------------------------------------------------------------------------------


def _doubt(job: JobEvidence, limits: AdviceLimits) -> str:
    """Why nothing can be said of the job; "" if something can."""
    longest = max((pod.seconds for pod in job.pods), default=0.0)
    if not longest:
        return "none of its pods ran in this time"
    if longest < max(limits.least, _BRIEF):
        return f"it ran for {span(longest)} only, less than {span(max(limits.least, _BRIEF))}"
    if changed := next((pod for pod in _telling(job.pods) if pod.changed), None):
        return f"pod {changed.name} runs with other resources than the job asks for now"
    return ""


def _doubt_of_devices(job: JobEvidence) -> str:
    for pod in _telling(job.pods):
        if pod.shared:
            return "its GPUs are shares of GPUs that other pods use, too"
        if pod.ambiguous:
            return SEVERAL_CLUSTERS
        if not pod.devices:
            return f"no exporter tells the use of the accelerators of pod {pod.name}"
        if len(pod.devices) != job.asked.gpus:
            return f"pod {pod.name} asks for {job.asked.gpus} accelerators, and exporters tell of {len(pod.devices)}"
    return _doubt_of_coverage(job, _device_seconds, "the use of its accelerators")


def _doubt_of_container(job: JobEvidence, seconds_of: Callable[[PodEvidence], float], noun: str) -> str:
    """Only kubelets measure containers. Without any such series, the pods are not the problem."""
    if not any(seconds_of(pod) for pod in job.pods):
        return f"Prometheus has no {noun} of its pods from the kubelets' cAdvisor"
    return _doubt_of_coverage(job, seconds_of, f"its {noun}")


def _doubt_of_coverage(job: JobEvidence, seconds_of: Callable[[PodEvidence], float], noun: str) -> str:
    """Pods differ: what is known of most of them says nothing about the others."""
    worst = min(_telling(job.pods), key=lambda pod: _known(pod, seconds_of))
    known = _known(worst, seconds_of)
    if known >= LEAST_COVERAGE:
        return ""
    return f"{noun} is known for {math.floor(known * 100)} % of the time of pod {worst.name}"


def _known(pod: PodEvidence, seconds_of: Callable[[PodEvidence], float]) -> float:
    return round(min(seconds_of(pod) / pod.seconds, 1.0), 3)


def _telling(pods: Iterable[PodEvidence]) -> list[PodEvidence]:
    """The pods that have run for long enough to say something."""
    return [pod for pod in pods if pod.seconds >= _BRIEF]


def _device_seconds(pod: PodEvidence) -> float:
    """Of the device of which the least is known."""
    return min((each.seconds for each in pod.devices), default=0.0)


def _memory_seconds(pod: PodEvidence) -> float:
    return pod.memory.seconds if pod.memory else 0.0


def _cpu_seconds(pod: PodEvidence) -> float:
    return pod.cpu.seconds if pod.cpu else 0.0


def _coverage(pods: Iterable[PodEvidence], seconds_of: Callable[[PodEvidence], float]) -> tuple[float, float]:
    """The part of the time of all pods that is known, and the seconds of that."""
    telling = _telling(pods)
    known = sum(min(seconds_of(pod), pod.seconds) for pod in telling)
    return round(known / sum(pod.seconds for pod in telling), 3), known


def _highest(uses: Iterable[ContainerUse | None]) -> Spread:
    """That of the pod with the highest peak: all of them get the same."""
    return max((use.used for use in uses if use is not None), key=lambda used: used.max)


def _hours(pods: Iterable[PodEvidence]) -> float:
    """How long pods held what they asked for."""
    return sum(pod.held for pod in pods) / 3600


def _cost(pods: Iterable[PodEvidence], devices: float) -> float | None:
    """That of as many devices of each pod; None without a price."""
    priced = [pod.held / 3600 * pod.price for pod in pods if pod.price is not None]
    return sum(priced) * devices if priced else None


# -- words -------------------------------------------------------------------------------------------------------------


def _unused_devices(job: JobEvidence, device: DeviceResource, unused: int, limits: AdviceLimits) -> str:
    asked = job.asked.gpus
    of = f"{device.text(asked)} of each pod" if len(job.pods) > 1 else f"its {device.text(asked)}"
    number = "None" if unused == asked else str(unused)
    was = "was" if unused in (1, asked) else "were"
    hint = " Remove them, or stop the job if it does nothing." if unused == asked else ""
    return (
        f"{number} of {of} {was} {'ever' if unused == asked else 'never'} used in {_period(job, limits)}: less than "
        f"{percent(limits.below)} utilization, and less than {_in_gib(UNUSED_MEMORY)} GiB of memory in use.{hint}"
    )


def _period(job: JobEvidence, limits: AdviceLimits) -> str:
    """For how long it was looked at: the range, or as long as the job has run in it."""
    return span(min(max(pod.seconds for pod in job.pods), limits.seconds))
