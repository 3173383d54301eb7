# SPDX-License-Identifier: BSD-2-Clause
"""A simulated cluster in a process of its own: python tests/bench/server.py NODES PODS KUBECONFIG [--controllers]

With pods the nodes are in pools. Without controllers it is an API server alone, and nothing happens to what is stored.
Prints its URL when it serves, and ends with its standard input.
"""

from __future__ import annotations

import sys
from typing import Any

from kubesim import Cluster

IMAGE = "registry.example.com/ml:v1"
PODS_PER_JOB = 4
POOLS = ("training-pool", "inference-pool", "dev-pool")


def main(nodes: int, pods: int, kubeconfig: str, *options: str) -> None:
    with Cluster(nodes=0, controllers="--controllers" in options, tls=True).running() as cluster:
        for index, pool in enumerate(POOLS):
            labels = {"runwhere.ai/pool": pool, "runwhere.ai/gpu-type": "A100-80G"} if pods else None
            cluster.add_nodes((f"node-{number}" for number in range(index + 1, nodes + 1, len(POOLS))), labels=labels)
        cluster.load(running_job(number) for number in range(pods // PODS_PER_JOB))
        cluster.load(bound_pod(number, nodes) for number in range(pods))
        cluster.kubeconfig(kubeconfig)
        print(cluster.url, flush=True)
        sys.stdin.read()


def labels_of(job: int) -> dict[str, str]:
    return {
        "app": f"job-{job}",
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/job-type": "training",
        "runwhere.ai/pool": POOLS[job % len(POOLS)],
    }


def running_job(number: int) -> dict[str, Any]:
    """The training that a few of the pods belong to."""
    template = {"metadata": {"labels": labels_of(number)}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "namespace": f"team-{number % 20}", "labels": labels_of(number)},
        "spec": {"parallelism": PODS_PER_JOB, "completions": PODS_PER_JOB, "template": template},
        "status": {"active": PODS_PER_JOB, "ready": PODS_PER_JOB, "startTime": "2026-01-01T00:00:00Z"},
    }


def bound_pod(number: int, nodes: int) -> dict[str, Any]:
    """A running pod of one GPU, as large as real ones are: with a full spec and status."""
    job, node = number // PODS_PER_JOB, number % nodes + 1
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    mounts = [{"name": f"workdir-{index}", "mountPath": f"/data/{index}"} for index in range(4)]
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python", "train.py", "--epochs", "3"],
        "env": [{"name": f"SETTING_{index}", "value": "value"} for index in range(10)],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": mounts,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    volumes = [{"name": mount["name"], "hostPath": {"path": mount["mountPath"], "type": ""}} for mount in mounts]
    moment = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    state = {"running": {"startedAt": moment}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"job-{job}-{number}", "namespace": f"team-{job % 20}", "labels": labels_of(job)},
        "spec": {"nodeName": f"node-{node}", "containers": [container], "volumes": volumes, "restartPolicy": "Never"},
        "status": {
            "phase": "Running",
            "podIP": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
            "conditions": conditions,
            "containerStatuses": [
                {"name": "main", "ready": True, "restartCount": 0, "image": container["image"], "state": state}
            ],
        },
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
