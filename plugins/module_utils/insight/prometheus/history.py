# SPDX-License-Identifier: BSD-2-Clause
"""What the peaks of pods are made of, and what rules record of them every quarter of an hour. Pure.

Weeks of raw samples are too many to look at for each question. A recorded peak is that of half an hour, so an
evaluation that Prometheus misses loses none, and the highest of them is that of all samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...labels import MAIN_CONTAINER
from .promql import GPU, POD, UTILIZATION, Queries, Source, scraped_by

STEP = 900  # seconds between two evaluations
MINUTE = 60
_RATE = 300  # seconds; four scrapes of the usual 60 s
CONTAINER = (*POD, "id")
_MAIN = f'{{container="{MAIN_CONTAINER}"}}'
MEMORY = f"container_memory_working_set_bytes{_MAIN}"
CPU = f"rate(container_cpu_usage_seconds_total{_MAIN}[{_RATE}s])"
_OUT_OF_MEMORY = (
    f'kube_pod_container_status_last_terminated_reason{{container="{MAIN_CONTAINER}",reason="OOMKilled"}}',
    f'kube_pod_container_status_terminated_reason{{container="{MAIN_CONTAINER}",reason="OOMKilled"}}',
    f"container_oom_events_total{_MAIN}",
)
EVALUATED = "cluster:runwhere_history:time"
"""When the rules were evaluated, in seconds since 1970."""

LABELS: Mapping[str, tuple[str, ...]] = {
    "memory": CONTAINER,
    "cpu": CONTAINER,
    "gpu_utilization": GPU,
    "gpu_memory": GPU,
    "gpu": GPU,
    "out_of_memory": POD,
    "pods": (*POD, "job_name"),
}
_LEVELS = {CONTAINER: "namespace_pod_id", GPU: "namespace_pod_uuid"}


def peak_record(name: str) -> str:
    """The recorded series of a peak."""
    return f"{_LEVELS.get(LABELS[name], 'namespace_pod')}:runwhere_{name}:max30m"


def known_record(name: str) -> str:
    """The recorded minutes in which something is known."""
    return f"{_LEVELS[LABELS[name]]}:runwhere_{name}:minutes15m"


def peaks(queries: Queries, window: str, step: int = _RATE) -> dict[str, str]:
    """The highest values in a window such as 30m, by name; of what is not recorded, those at the ends of steps."""
    by = {name: ",".join(labels) for name, labels in LABELS.items()}
    killed = (scraped_by(queries.state_jobs if "kube_" in name else "", name) for name in _OUT_OF_MEMORY)
    ended = " or ".join(f"max by({by['out_of_memory']})(max_over_time({each}[{window}]))" for each in killed)
    return {
        # A value that is no number fails every comparison, and is no use that is known.
        **{
            name: f"max by({by[name]})(max_over_time({text}{f'[{window}]' if is_recorded else f'[{window}:{step}s]'}))"
            for name, text, is_recorded in _devices(queries)
        },
        "memory": f"max by({by['memory']})(max_over_time({MEMORY}[{window}]))>0",
        "cpu": f"max by({by['cpu']})(max_over_time(({CPU}>=0)[{window}:{step}s]))",
        "out_of_memory": f"max by({by['out_of_memory']})({ended})>0",
    }


def _devices(queries: Queries) -> Iterator[tuple[str, str, bool]]:
    """Utilization and memory, where exporters tell both."""
    names = {"gpu_utilization": UTILIZATION.name, "gpu_memory": "memory_used"}
    is_recorded = queries.source is Source.RULES
    if {*names.values()} <= queries.has:
        for name, measure in names.items():
            text = queries.measured(measure)
            yield name, text if is_recorded else f"({text}>=0)", is_recorded


def known(queries: Queries, window: str, step: int = MINUTE) -> dict[str, str]:
    """In how many steps of a window the values are known, by name."""
    values = {"memory": f"max by({','.join(CONTAINER)})({MEMORY})>0", "cpu": f"max by({','.join(CONTAINER)})({CPU})>=0"}
    if devices := [text for _name, text, _is_recorded in _devices(queries)]:
        values["gpu"] = f"({devices[0]}>=0) and on({','.join(GPU)}) ({devices[1]}>=0)"
    return {
        name: f"max by({','.join(LABELS[name])})(count_over_time(({text})[{window}:{step}s]))"
        for name, text in values.items()
    }
