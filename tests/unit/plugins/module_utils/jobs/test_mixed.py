# SPDX-License-Identifier: BSD-2-Clause
"""A cluster with accelerators of several vendors: a job of each runs, wrong ones are refused, and all is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.overview import MODULE as STATUS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from kubesim import Cluster

from .sessions import Session

EXAMPLES = Path(__file__).resolve().parents[5] / "examples" / "mixed"
POOLS = sorted(EXAMPLES.glob("pool-*.yaml"))
JOBS = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(set(EXAMPLES.glob("*.yaml")) - {*POOLS})]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Cluster(nodes=0, mixed_nodes=True).running() as cluster:
        found = Session(cluster)
        declared = found.run(POOL, src=[str(file) for file in POOLS])
        assert declared["msg"] == "8 pools: 8 create", declared
        done = found.run(JOB, definition=JOBS, wait=True, wait_for="scheduled", wait_timeout=60)
        assert "failed" not in done, done["msg"]
        yield found


def test_all_run_and_none_changes_again(session: Session) -> None:
    assert session.run(JOB, definition=JOBS)["msg"] == f"{len(JOBS)} jobs: {len(JOBS)} unchanged"
    pods = [each.obj for each in session.cluster.call(lambda: list(session.cluster.store.scan("Pod")))]
    assert len(pods) == len(JOBS)
    places = {pod["metadata"]["labels"]["app"]: pod["spec"]["nodeName"].rpartition("-")[0] for pod in pods}
    assert places == {
        "on-whole-gpus": "whole",
        "on-a-mig-partition": "mig",
        "on-a-time-slice": "sliced",
        "on-a-share": "hami",
        "on-amd": "amd",
        "on-ascend": "ascend",
        "on-a-vnpu": "vnpu",
        "on-claimed-devices": "dra",
    }


def test_what_is_used_is_the_sum_over_the_pods(session: Session) -> None:
    status = session.run(STATUS)
    used: Counter[str] = Counter()
    for pod in session.cluster.call(lambda: list(session.cluster.store.scan("Pod"))):
        for container in pod.obj["spec"]["containers"]:
            requested = container["resources"]["requests"]
            used.update({name: int(amount) for name, amount in requested.items() if "/" in name})
    for claim in session.cluster.call(lambda: list(session.cluster.store.scan("ResourceClaim"))):
        used["nvidia.com/gpu"] += len(claim.obj["status"]["allocation"]["devices"]["results"])
    for rows in (status["pools"], status["nodes"]):
        counted: Counter[str] = Counter()
        for row in rows:
            counted.update({each["resource"]: each["used"] for each in row["accelerators"] if "/" in each["resource"]})
        assert {name: counted[name] for name in used} == dict(used)
    pools = {row["name"]: row for row in status["pools"]}
    whole = {name: (pool["gpu_total"], pool["gpu_used"], pool["gpu_free"]) for name, pool in pools.items()}
    assert whole == {
        "whole": (16, 4, 12),
        "mig": (4, 0, 4),
        "mig-broken": (0, 0, 0),
        "sliced": (0, 0, 0),
        "hami": (0, 0, 0),
        "amd": (8, 8, 0),
        "ascend": (12, 4, 8),
        "dra": (4, 2, 2),
        "default": (0, 0, 0),
    }
    shares = {each["counts"]: (each["total"], each["used"]) for each in pools["sliced"]["accelerators"]}
    assert shares == {"shares": (16, 1)}
    parts = {each["partition"]: (each["total"], each["used"]) for each in pools["mig"]["accelerators"]}
    assert parts == {None: (4, 0), "1g.10gb": (14, 1), "3g.40gb": (4, 0)}


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a CUDA image on Ascend": (
        {"pool": "ascend", "gpu": 1},
        {"image": "nvcr.io/nvidia/pytorch:24.05-py3"},
        "environment.image: an image for GPUs (nvidia) on Ascend NPUs (ascend): nvcr.io/nvidia/pytorch:24.05-py3.",
    ),
    "a framework of NVIDIA on AMD": (
        {"pool": "amd", "gpu": 1},
        {"framework": "tensorrt"},
        "environment.framework: tensorrt does not run on AMD GPUs (amd).",
    ),
    "another accelerator than the pool's": (
        {"pool": "amd", "gpu": 1, "accelerator": "nvidia"},
        {},
        "resources.accelerator: nvidia in a pool with AMD GPUs (amd).",
    ),
    "a share of more than a device": (
        {"pool": "hami", "gpu-share": "100Gi"},
        {},
        "it needs 100Gi of shared GPU memory, but the largest GPU of pool hami has 80Gi.",
    ),
    "a share of a partition": (
        {"pool": "mig", "partition": "1g.10gb", "gpu-share": "5Gi"},
        {},
        "resources.gpu-share: a share of a partition.",
    ),
    "a share on several nodes": (
        {"pool": "hami", "gpu-share": "5Gi", "node_count": 2},
        {},
        "resources.gpu-share: a shared GPU on several nodes.",
    ),
    "partitions on several nodes": (
        {"pool": "mig", "partition": "1g.10gb", "gpu": 1, "node_count": 2},
        {},
        "resources.partition: partitions on several nodes.",
    ),
    "more vNPUs than a pod can have": (
        {"pool": "ascend", "partition": "6c.1cpu.16g", "gpu": 2},
        {},
        "resources.gpu: too many Ascend vNPUs 6c.1cpu.16g for a pod: 2.",
    ),
    "a number that Ascend does not have": (
        {"pool": "ascend", "gpu": 3},
        {},
        "resources.gpu: not a number of Ascend NPUs that a pod can have: 3. Use 1, 2, 4, 8 or 16.",
    ),
    "an invalid configuration of MIG": (
        {"pool": "mig-broken", "gpu": 1},
        {},
        "the configuration of the GPUs is invalid on every node of pool mig-broken "
        "(NVIDIA-A100-SXM4-80GB-MIG-INVALID).",
    ),
    "an image for other CPUs": (
        {"pool": "ascend", "gpu": 1},
        {"image": "quay.io/ascend/cann:8.0-amd64"},
        "the image is for CPUs of amd64, but the nodes of pool ascend have those of arm64.",
    ),
}


@pytest.mark.parametrize(("resources", "environment", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_one_is_refused_with_the_sentence(
    session: Session, resources: dict[str, Any], environment: dict[str, Any], sentence: str
) -> None:
    manifest = {
        "kind": "training",
        "job": {"name": "wrong"},
        "environment": {"image": "registry.example.com/train:v1", "command": ["run"], **environment},
        "resources": {"cpu": 1, "memory": "1Gi", **resources},
    }
    refused = session.run(JOB, definition=manifest)
    assert refused.get("failed"), refused
    assert sentence in refused["msg"]
    written = {entry.resource for entry in session.cluster.requests.writes()}
    assert written <= {"selfsubjectreviews"}, "who asks is no change"
