# SPDX-License-Identifier: BSD-2-Clause
"""How long gpuctl_fit_info thinks about jobs, once it has read a cluster of so many nodes and ten times the pods.

``python tests/bench/fit_alone.py 1000`` prints the seconds of the processor: the lists reduced to what counts, and the
answers. All GPUs are in use, so that each answer says which of a thousand jobs have to end, or are preempted. With a
second number, so many unlike trainings are judged instead, each with the changes of its manifest that would help it; a
third one is how many of a hundred GPUs are in use (``1000 200 40``: most of the trainings run at once).
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections import Counter
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".cache" / "collections")]

from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.alike_pods import AlikePods  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.declared import Declared  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_facts import (  # noqa: E402
    amounts_of_pod,
    placed_pod,
    roomy_node,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit import fit_jobs  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_snapshot import FitSnapshot  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.job_fit import rows_of  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.select import SelectedJob  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training  # noqa: E402

Object = dict[str, Any]
_HIGH, _MEDIUM, _LOW = {"value": 1_000_000}, {"value": 500_000}, {"value": 100, "preemptionPolicy": "Never"}
DECLARED = Declared(
    {f"p{index}": Declaration(f"p{index}", hardware=PoolHardware(topology={"rack": "rack"})) for index in range(5)}
)
CLASSES: Object = {"high": _HIGH, "low": _LOW, "gpuctl-high": _HIGH, "gpuctl-medium": _MEDIUM, "gpuctl-low": _LOW}


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    manifests = [_training(index) for index in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0)]
    chance = random.Random(1)
    nodes = [_node(index) for index in range(number)]
    used = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    pods = [_pod(chance, index, number, used) for index in range(10 * number)]
    jobs = [_job(index) for index in range(10)]
    gc.disable()  # as tasks do (task.py)
    started = time.process_time()
    snapshot = FitSnapshot(
        [roomy_node(node) for node in nodes],
        [*map(partial(placed_pod, alike=AlikePods(amounts_of_pod)), pods)],  # as fit_snapshot.py reads them
        priority_classes=CLASSES,
        quotas={"team": []},
        limit_ranges={"team": []},
    )
    read = time.process_time() - started
    if manifests:
        verdicts = [row["verdict"] for row in rows_of(snapshot, manifests, DECLARED, {}, datetime.now(timezone.utc))]
    else:
        fits = fit_jobs(snapshot.cluster({}), [snapshot.job_of([job]) for job in jobs])
        verdicts = [fit.verdict for fit in fits]
    seconds = time.process_time() - started
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())
    print(f"{number} nodes, {len(pods)} pods, {len(verdicts)} jobs: {counts}")
    print(f"of it to reduce the lists: {read:.3f}")
    print(f"{seconds:.3f}")


def _training(index: int) -> SelectedJob:
    resources: Object = {
        "pool": f"p{index % 5}",
        "gpu": (1, 2, 4, 8, 16)[index // 5 % 5],
        "cpu": str(1 + index % 16),
        "memory": f"{8 + index % 37}Gi",
        "node_count": (2, 4, 8)[index // 3 % 3] if index % 3 == 0 else 1,
    }
    manifest: Object = {
        "kind": "training",
        "job": {"name": f"new-{index}", "priority": ("low", "medium", "high")[index % 3]},
        "environment": {"image": "registry.example.com/ml:v1", "command": ["run"]},
        "resources": resources,
    }
    if resources["node_count"] > 1 and index % 2:
        manifest["distributed"] = {"placement": {"within": "rack", "required": True}}
    model = Training.model_validate(manifest)
    return SelectedJob("team", f"new-{index}", "training", model=model).built(DECLARED)


def _node(index: int) -> Object:
    room = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {"kubernetes.io/hostname": f"n{index}", "runwhere.ai/pool": f"p{index % 5}", "rack": f"r{index // 40}"}
    return {
        "metadata": {"name": f"n{index}", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": room},
    }


def _pod(chance: random.Random, index: int, nodes: int, used: int) -> Object:
    """Eight of ten on a node have a GPU each, or so many of a hundred of these."""
    requests = {"cpu": "4", "memory": "16Gi"}
    if index < 8 * nodes and (used >= 100 or chance.random() * 100 < used):
        requests["nvidia.com/gpu"] = "1"
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
