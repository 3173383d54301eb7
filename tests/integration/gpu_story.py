# SPDX-License-Identifier: BSD-2-Clause
"""Hours of a small GPU cluster, in a real Prometheus with the recorded series of the role monitoring.

Three teams have jobs on four nodes: a training that works, one that waits for data, an idle notebook, a service with
waves of requests, jobs that end and begin, and one that waits for devices.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import plain_queries
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.recording import recording_rules
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import job_labels
from kubesim import Cluster, past_pod

from . import monitoring
from .monitoring import Prometheus, World

STEP = 60
HOUR = 3600.0
NAMES = (
    "DCGM_FI_.*|kube_pod_(labels|created|start_time|status_scheduled_time|status_phase|container_resource_requests)"
    "|kube_node_(labels|status_allocatable|status_condition)|kube_resourcequota|container_network_.*_bytes_total"
)
# What is recorded in terms of other series that are recorded, last.
_PASSES = ("namespace_pod:runwhere_pod:info", "namespace_job:", "")


@dataclass(frozen=True)
class Work:
    """A job: its pods by node, and from when to when (hours from the beginning) they held how many devices."""

    job: str
    namespace: str
    pool: str
    nodes: Sequence[str]
    gpus: int
    start: float
    end: float | None = None
    kind: str = "training"
    curves: Mapping[str, Any] | None = None
    repeat: float = 0
    resource: str = "nvidia.com/gpu"


# The first batch is slow, and between epochs there is a checkpoint.
EPOCH = [[0, 8], [240, 90], [1500, 95], [2600, 92], [3600, 94], [3650, 20], [3900, 25], [4200, 88]]
BATCHES = [[0, 82], [900, 91], [1800, 84]]
WORKS = (
    Work("llama-sft", "research", "a100", ("node-1", "node-2"), 6, 0.5, curves={"utilization": EPOCH}, repeat=4200),
    Work("tokenize", "research", "a100", ("node-1",), 2, 0.2, 2.5, curves={"utilization": [[0, 20], [4000, 45]]}),
    Work(
        "notebook-li", "vision", "l40", ("node-3",), 2, 0, kind="notebook", curves={"utilization": [[0, 70], [3600, 2]]}
    ),
    Work("detector", "vision", "l40", ("node-3",), 4, 1, curves={"utilization": [[0, 0], [900, 60], [9000, 78]]}),
    Work(
        "chat",
        "serving",
        "l40",
        ("node-4", "node-4"),
        2,
        0,
        kind="inference",
        curves={"utilization": [[0, 15], [900, 40], [1500, 86], [2300, 74], [2900, 30], [3600, 15]]},
        repeat=3600,
    ),
    Work(
        "eval",
        "research",
        "a100",
        ("node-2",),
        2,
        3,
        3.8,
        curves={"utilization": [[0, 82], [900, 91], [1800, 84]]},
        repeat=1800,
    ),
    Work("sweep-7", "research", "a100", ("node-2",), 1, 4, curves={"utilization": 55, "tensor": 12}),
)
WAITING = Work("pretrain", "research", "a100", ("",), 8, 4.5)
POOLS = {"node-1": "a100", "node-2": "a100", "node-3": "l40", "node-4": "l40"}


@contextmanager
def told(directory: Path, end: float, hours: float = 6, world: World | None = None) -> Iterator[Prometheus]:
    """A Prometheus that has scraped everything up to ``end``, and recorded what the rules say."""
    world = replace(world or World(), exporters=("dcgm-exporter", "kube-state-metrics", "cadvisor"))
    start = end - hours * HOUR
    with Cluster(nodes=0).running() as cluster:
        for node, pool in POOLS.items():
            cluster.call(lambda node=node, pool=pool: cluster.add_nodes([node], labels={"runwhere.ai/pool": pool}))
        cluster.load([quota()])
        cluster.remember([pod for work in (*WORKS, WAITING) for pod in pods(work, start, end)])
        for work in WORKS:
            cluster.drive(namespace=work.namespace, job=work.job, repeat=work.repeat, **(work.curves or {}))
        cluster.drive(node="node-1", gpu=3, temperature=[[0, 60], [1, 60], [int(hours * HOUR), 88]])
        blocks = monitoring.backfill(directory, cluster, start, end, world, step=STEP, names=NAMES)
    data = directory / "all"
    shutil.move(str(blocks), data)
    for number, rules in enumerate(passes()):
        path = directory / f"rules-{number}.json"
        path.write_text(json.dumps({"groups": [{"name": "x", "interval": f"{STEP // 2}s", "rules": rules}]}))
        with serving(directory, data, world) as server:
            record(path, server, start, end, directory / "recorded")
        for block in (directory / "recorded").iterdir():
            shutil.move(str(block), data / block.name)
    with serving(directory, data, world) as server:
        yield server


def pods(work: Work, start: float, end: float) -> Iterator[tuple[dict[str, Any], float | None]]:
    """Each pod, with when it was deleted."""
    begun = start + work.start * HOUR
    ended = None if work.end is None else start + work.end * HOUR
    labels = job_labels(work.job, kind=work.kind, priority="medium", pool=work.pool, namespace=work.namespace)
    for number, node in enumerate(work.nodes):
        times = {"started": begun + 60, "ended": ended} if node else {}
        pod = past_pod(
            f"{work.job}-{number}",
            namespace=work.namespace,
            node=node,
            created=begun,
            resources={work.resource: str(work.gpus)},
            labels=labels,
            **times,  # type: ignore[arg-type]
        )
        yield pod, ended


def quota() -> dict[str, Any]:
    amounts = {"requests.nvidia.com/gpu": "16"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "research", "namespace": "research"},
        "spec": {"hard": amounts},
        "status": {"hard": amounts, "used": {"requests.nvidia.com/gpu": "15"}},
    }


def passes() -> list[list[dict[str, Any]]]:
    """promtool does not see what it records, so what builds on something comes after it."""
    left = recording_rules(plain_queries(built_in_catalog(), names=["nvidia"]))
    first = [rule for rule in left if rule["record"] == _PASSES[0]]
    last = [rule for rule in left if rule["record"].startswith(_PASSES[1])]
    return [first, [rule for rule in left if rule not in first and rule not in last], last]


def record(rules: Path, server: Prometheus, start: float, end: float, output: Path) -> None:
    """Twice in a step: each group has its own moment, and what is older than a step does not count."""
    monitoring.promtool(
        "tsdb", "create-blocks-from", "rules", f"--start={start:.0f}", f"--end={end:.0f}", f"--url={server.url}",
        f"--eval-interval={STEP // 2}s", f"--output-dir={output}", str(rules),
    )  # fmt: skip


@contextmanager
def serving(directory: Path, data: Path, world: World) -> Iterator[Prometheus]:
    """Blocks have no marks of staleness: what is older than a step has ended."""
    with monitoring.prometheus(directory / "server", blocks=data, world=world) as server:
        yield server
    shutil.move(str(directory / "server" / "data"), data)
