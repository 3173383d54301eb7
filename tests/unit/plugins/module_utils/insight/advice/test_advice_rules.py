# SPDX-License-Identifier: BSD-2-Clause
"""What a job should ask for, by what its pods used. tests/integration/advice_cases.py has cases with metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advice.advice_rules import (
    Advice,
    AdviceLimits,
    AskedResources,
    ContainerUse,
    DevicePeak,
    JobEvidence,
    NotKnown,
    PodEvidence,
    Spread,
    advise_cpu,
    advise_gpus,
    advise_memory,
    advise_replicas,
    cpu_text,
    findings_of,
    memory_text,
    readable_cpu,
    readable_memory,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quantity import GIB, parse

HOUR = 3600.0
LIMITS = AdviceLimits(below=0.05, least=6 * HOUR, seconds=7 * 24 * HOUR)
USED, UNUSED = DevicePeak(0.9, 60.0 * GIB, 10 * HOUR), DevicePeak(0.02, 0.5 * GIB, 10 * HOUR)
MEMORY = ContainerUse(Spread(20.0 * GIB, 30.0 * GIB, 31.0 * GIB), 10 * HOUR)
CPU = ContainerUse(Spread(1000.0, 2000.0, 3000.0), 10 * HOUR)
POD = PodEvidence("sft-0", 10 * HOUR, 10 * HOUR, (USED,) * 6 + (UNUSED,) * 2, (6.0, 6.0), MEMORY, CPU, price=2.0)
ASKED = AskedResources(8, catalog().row("nvidia.com/gpu"), 256 * GIB, 32_000)
JOB = JobEvidence("team-a", "sft", "training", ASKED, (POD,))


def test_a_job_that_uses_less_than_it_asks_for() -> None:
    gpus, memory, cpu = findings_of(JOB, LIMITS)
    assert gpus == Advice(
        "resources.gpu",
        8,
        6,
        Spread(6.0, 6.0, 6),
        1.0,
        10 * HOUR,
        20.0,
        "2 of its 8 GPUs were never used in 10 h: less than 5 % utilization, and less than 1 GiB of memory in use.",
        40.0,
    )
    assert isinstance(memory, Advice)
    assert (memory.advised, memory.saved) == (40 * GIB, 2160.0)
    assert memory.reason == "Memory peaks at 31 of 256 GiB in 10 h. 40Gi leaves room for 29 % more."
    assert isinstance(cpu, Advice)
    assert (cpu.advised, cpu.saved) == (4_000, 280.0)
    assert cpu.reason == "CPU peaks at 3 of 32 cores, as the average of five minutes, in 10 h."


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ([], "none of its pods ran"),
        ([replace(POD, seconds=5 * HOUR)], "it ran for 5 h only, less than 6 h"),
        ([replace(POD, devices=())], "no exporter tells"),
        ([replace(POD, devices=(USED,) * 7)], "asks for 8 accelerators, and exporters tell of 7"),
        ([replace(POD, devices=(USED,) * 9)], "asks for 8 accelerators, and exporters tell of 9"),
        ([replace(POD, devices=(*POD.devices[1:], UNUSED._replace(seconds=8.9 * HOUR)))], "is known for 89 % of"),
        ([replace(POD, shared=True)], "its GPUs are shares"),
        ([replace(POD, ambiguous=True)], "series of several clusters"),
        ([replace(POD, changed=True)], "runs with other resources"),
        ([POD, replace(POD, name="sft-1", devices=())], "no exporter tells the use of the accelerators of pod sft-1"),
    ],
)
def test_what_is_not_known_of_one_pod_is_not_known_of_the_job(pods: list[PodEvidence], text: str) -> None:
    found = advise_gpus(replace(JOB, pods=tuple(pods)), LIMITS)
    assert isinstance(found, NotKnown)
    assert text in found.reason


def test_a_pod_that_has_just_started_delays_no_advice() -> None:
    fresh = PodEvidence("sft-1", 599.0, 599.0)
    found = advise_gpus(replace(JOB, pods=(POD, fresh)), LIMITS)
    assert isinstance(found, Advice)
    assert found.advised == 6
    assert found.reason.startswith("2 of 8 GPUs of each pod were never used")


@pytest.mark.parametrize("number", range(9))
def test_no_advice_takes_a_device_that_was_used(number: int) -> None:
    """By its utilization or by its memory."""
    loaded, computing = UNUSED._replace(memory=1.0 * GIB), UNUSED._replace(utilization=0.05)
    used = [loaded if each % 2 else computing for each in range(number)]
    found = advise_gpus(replace(JOB, pods=(replace(POD, devices=(*used, *(UNUSED,) * (8 - number))),)), LIMITS)
    assert (found.advised if isinstance(found, Advice) else 8) == number


def test_memory_of_a_killed_job_and_of_former_pods() -> None:
    killed = advise_memory(replace(JOB, out_of_memory=True), LIMITS)
    assert isinstance(killed, NotKnown)
    before = ContainerUse(Spread(0.0, 0.0, 100.0 * GIB), 0.0)
    found = advise_memory(replace(JOB, former=(PodEvidence("sft-0", memory=before),)), LIMITS)
    assert isinstance(found, Advice)
    assert found.advised == 128 * GIB
    halved = advise_memory(replace(JOB, asked=replace(ASKED, halves_shm=True)), LIMITS)
    assert isinstance(halved, Advice)
    assert halved.advised >= 2 * MEMORY.used.max
    assert halved.reason.endswith("as half of it is the size of /dev/shm.")


@pytest.mark.parametrize(
    ("asked", "peak", "advised"),
    [
        (256, 31, 40),
        (256, 153, 192),
        (256, 160, None),  # less than a quarter
        (2, 0.5, 0.75),
        (1, 0.1, None),  # less than 1 GiB
        (8, 7.9, None),
        (8, 9, None),
    ],
)
def test_small_savings_are_not_worth_a_restart(asked: float, peak: float, advised: float | None) -> None:
    job = replace(JOB, asked=replace(ASKED, memory=int(asked * GIB)))
    use = ContainerUse(Spread(0.0, 0.0, peak * GIB), 10 * HOUR)
    found = advise_memory(replace(job, pods=(replace(POD, memory=use),)), LIMITS)
    assert (found.advised / GIB if isinstance(found, Advice) else None) == advised


@pytest.mark.parametrize(
    ("amount", "text"),
    [(1.0, "256Mi"), (0.3 * GIB, "512Mi"), (1.9 * GIB, "2Gi"), (2.1 * GIB, "3Gi"), (38.75 * GIB, "40Gi"),
     (127 * GIB, "128Gi"), (129 * GIB, "144Gi"), (2000 * GIB, "2000Gi")],
)  # fmt: skip
def test_amounts_of_memory_are_readable(amount: float, text: str) -> None:
    assert memory_text(readable_memory(amount)) == text


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "500m"), (501, "1"), (1_001, "1500m"), (3_750, "4"), (16_001, "20"), (63_000, "64")]
)
def test_amounts_of_cpu_are_readable(amount: float, text: str) -> None:
    assert cpu_text(readable_cpu(amount)) == text


def test_what_is_advised_is_never_below_a_peak_and_is_what_it_says() -> None:
    for number in range(1, 4_000):
        size, cores = number * 0.37 * GIB, number * 23.0
        assert parse(memory_text(readable_memory(size))).value == readable_memory(size) >= size
        assert parse(cpu_text(readable_cpu(cores))).value * 1000 == readable_cpu(cores) >= cores


def test_a_job_without_requests_gets_no_advice() -> None:
    job = replace(JOB, asked=AskedResources())
    assert [rule(job, LIMITS) for rule in (advise_gpus, advise_memory, advise_cpu)] == [None] * 3


REPLICA = replace(
    POD,
    devices=(DevicePeak(0.2, 60.0 * GIB, 10 * HOUR),),
    memory=ContainerUse(Spread(2.0 * GIB, 3.0 * GIB, 4.0 * GIB), 10 * HOUR),
    cpu=ContainerUse(Spread(100.0, 200.0, 500.0), 10 * HOUR),
)
SERVICE = JobEvidence(
    "team-a",
    "chat",
    "inference",
    AskedResources(1, catalog().row("nvidia.com/gpu"), 16 * GIB, 4_000),
    tuple(replace(REPLICA, name=f"chat-{number}") for number in range(6)),
    replicas=6,
)


def test_fewer_replicas_are_the_only_advice_on_a_service() -> None:
    (found,) = findings_of(SERVICE, LIMITS)
    assert isinstance(found, Advice)
    assert (found.what, found.asked, found.advised, found.saved, found.cost) == ("service.replicas", 6, 3, 30.0, 60.0)
    assert found.used == Spread(None, None, pytest.approx(1.2))
    assert found.reason.startswith(
        "The peaks of its 6 replicas in 10 h add up to 1.2 busy GPUs, 24 GiB of memory and 3 cores, at whatever times"
    )


@pytest.mark.parametrize(
    "job",
    [
        replace(SERVICE, replicas=0),
        replace(SERVICE, replicas=5),
        replace(SERVICE, replicas=2, pods=SERVICE.pods[:2]),
        replace(SERVICE, out_of_memory=True),
        replace(SERVICE, asked=replace(SERVICE.asked, gpus=0, device=None)),
        replace(SERVICE, pods=(replace(SERVICE.pods[0], seconds=5 * HOUR), *SERVICE.pods[1:])),
        replace(SERVICE, former=tuple(PodEvidence(f"gone-{number}") for number in range(2))),
        replace(SERVICE, pods=tuple(replace(pod, devices=(USED,)) for pod in SERVICE.pods)),
        replace(SERVICE, pods=tuple(replace(pod, memory=None) for pod in SERVICE.pods)),
    ],
)
def test_no_replica_is_taken_from_a_service_that_may_need_it(job: JobEvidence) -> None:
    assert advise_replicas(job, LIMITS) is None
