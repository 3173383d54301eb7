# SPDX-License-Identifier: BSD-2-Clause
"""A simulated cluster in a process of its own: python -m bench.server NODES PODS KUBECONFIG

With pods the nodes are in pools and nothing is scheduled; without any, an empty cluster that runs what it is given.
Prints one line of JSON when it serves (how long loading took, what it holds in memory) and ends with its standard
input.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

from kubesim.cluster import Cluster

POOLS = ("training-pool", "inference-pool", "dev-pool")


def main(nodes: int, pods: int, kubeconfig: str) -> None:
    with Cluster(nodes=0, controllers=pods == 0, tls=True).running() as cluster:
        started = time.perf_counter()
        for index, pool in enumerate(POOLS):
            labels = {"runwhere.ai/pool": pool, "runwhere.ai/gpu-type": "A100-80G"} if pods else None
            cluster.add_nodes((f"node-{number}" for number in range(index + 1, nodes + 1, len(POOLS))), labels=labels)
        cluster.load(bound_pod(number, nodes) for number in range(pods))
        seconds = time.perf_counter() - started
        cluster.kubeconfig(kubeconfig)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"url": cluster.url, "token": cluster.token, "seconds": seconds, "kib": memory}), flush=True)
        sys.stdin.read()


def bound_pod(number: int, nodes: int) -> dict[str, Any]:
    """A running pod of one GPU, as large as real ones are: with a full spec and status."""
    name, node = f"job-{number // 4}-{number}", number % nodes + 1
    pool = POOLS[(node - 1) % len(POOLS)]
    labels = {
        "app": f"job-{number // 4}",
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/job-type": "training",
        "runwhere.ai/pool": pool,
    }
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    mounts = [{"name": f"workdir-{index}", "mountPath": f"/data/{index}"} for index in range(4)]
    container = {
        "name": "main",
        "image": "registry.example.com/ml:v1",
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
        "metadata": {"name": name, "namespace": f"team-{number % 20}", "labels": labels},
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
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
