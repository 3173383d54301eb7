# SPDX-License-Identifier: BSD-2-Clause
"""How long gpuctl_fit_info thinks about ten jobs, once it has read a cluster of so many nodes and ten times the pods.

``python tests/bench/fit_alone.py 1000`` prints the seconds of the processor: the lists reduced to what counts, and the
answers. All GPUs are in use, so that each answer says which of a thousand jobs have to end, or are preempted.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".cache" / "collections")]

from ansible_collections.runwhere.gpuctl.plugins.module_utils.scheduling.fit import fit_jobs  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.scheduling.fit_snapshot import FitSnapshot  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.scheduling.pod_facts import (  # noqa: E402
    placed_pod,
    roomy_node,
)

Object = dict[str, Any]
CLASSES = {"high": {"value": 1_000_000}, "low": {"value": 100, "preemptionPolicy": "Never"}}


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    chance = random.Random(1)
    nodes = [_node(index) for index in range(number)]
    pods = [_pod(chance, index, number) for index in range(10 * number)]
    jobs = [_job(index) for index in range(10)]
    gc.disable()  # as tasks do (task.py)
    started = time.process_time()
    snapshot = FitSnapshot(
        [roomy_node(node) for node in nodes],
        [placed_pod(pod) for pod in pods],
        priority_classes=CLASSES,
        quotas={"team": []},
        limit_ranges={"team": []},
    )
    read = time.process_time() - started
    fits = fit_jobs(snapshot.cluster({}), [snapshot.job_of([job]) for job in jobs])
    seconds = time.process_time() - started
    print(f"{number} nodes, {len(pods)} pods, {len(jobs)} jobs: {', '.join(fit.verdict for fit in fits)}")
    print(f"of it to reduce the lists: {read:.3f}")
    print(f"{seconds:.3f}")


def _node(index: int) -> Object:
    room = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {"kubernetes.io/hostname": f"n{index}", "runwhere.ai/pool": f"p{index % 5}", "rack": f"r{index // 40}"}
    return {
        "metadata": {"name": f"n{index}", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": room},
    }


def _pod(chance: random.Random, index: int, nodes: int) -> Object:
    """Eight of ten on a node have a GPU each."""
    requests = {"cpu": "4", "memory": "16Gi", **({"nvidia.com/gpu": "1"} if index < 8 * nodes else {})}
    return {
        "metadata": {
            "name": f"p{index}",
            "namespace": f"ns{index % 50}",
            "uid": str(index),
            "labels": {"app": f"j{index // 8}", "runwhere.ai/job-type": "training"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "nodeName": f"n{index % nodes}",
            "priority": chance.choice([100, 500_000, 1_000_000]),
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    }


def _job(index: int) -> Object:
    requests = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": str((1, 8, 4, 16, 2)[index % 5])}
    name, pods = f"new-{index}", (1, 2, 4, 1, 8)[index % 5]
    spec: Object = {
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        "nodeSelector": {"runwhere.ai/pool": f"p{index % 5}"},
        "priorityClassName": "high" if index < 5 else "low",
    }
    if index == 2:
        term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": name}}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "labels": {"app": name}},
        "spec": {"parallelism": pods, "template": {"metadata": {"labels": {"app": name}}, "spec": spec}},
    }


if __name__ == "__main__":
    main()
