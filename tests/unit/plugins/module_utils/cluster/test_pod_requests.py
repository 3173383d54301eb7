# SPDX-License-Identifier: BSD-2-Clause
"""What a pod requests: the cases of Kubernetes' own resource.PodRequests (component-helpers/resource)."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_requests import amount_of, pod_requests

GPU = "nvidia.com/gpu"
GIB = 1024**3


def c(name: str = "c", always: bool = False, **requests: str) -> dict[str, Any]:
    named = {GPU if key == "gpu" else key: value for key, value in requests.items()}
    return {"name": name, "resources": {"requests": named}, **({"restartPolicy": "Always"} if always else {})}


def granted(name: str, cpu: str) -> dict[str, Any]:
    return {"name": name, "allocatedResources": {"cpu": cpu}}


def in_force(name: str, cpu: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}}


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}

# spec, status, cpu in thousandths, GPUs
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], int, int]] = {
    "nothing is requested": ({"containers": [{"name": "c"}]}, {}, 0, 0),
    "containers run side by side": ({"containers": [c(cpu="1", gpu="1"), c("d", cpu="500m", gpu="2")]}, {}, 1500, 3),
    "a small init container is within": (
        {"containers": [c(cpu="2", gpu="1")], "initContainers": [c("i", cpu="1")]},
        {},
        2000,
        1,
    ),
    "a large init container counts alone, resource by resource": (
        {"containers": [c(cpu="1", gpu="4")], "initContainers": [c("i", cpu="8", gpu="1")]},
        {},
        8000,
        4,
    ),
    "the largest of the init containers, which run one after the other": (
        {"containers": [c(cpu="1")], "initContainers": [c("i", cpu="3"), c("j", cpu="2")]},
        {},
        3000,
        0,
    ),
    "a sidecar runs beside the containers": (
        {"containers": [c(cpu="2")], "initContainers": [c("s", True, cpu="1")]},
        {},
        3000,
        0,
    ),
    "an init container runs beside the sidecars started before it": (
        {"containers": [c(cpu="1")], "initContainers": [c("s", True, cpu="1"), c("i", cpu="4"), c("t", True, cpu="1")]},
        {},
        5000,
        0,
    ),
    "sidecars after the largest init container do not add to it": (
        {
            "containers": [c(cpu="1")],
            "initContainers": [c("i", cpu="10"), c("s", True, cpu="2"), c("t", True, cpu="3")],
        },
        {},
        10000,
        0,
    ),
    "all sidecars add to the containers": (
        {"containers": [c(cpu="6")], "initContainers": [c("i", cpu="5"), c("s", True, cpu="2"), c("t", True, cpu="3")]},
        {},
        11000,
        0,
    ),
    "the overhead of the runtime class comes on top": (
        {"containers": [c(cpu="1", gpu="1")], "overhead": {"cpu": "250m"}},
        {},
        1250,
        1,
    ),
    "requests of the pod replace those of its containers, but for extended resources": (
        {"containers": [c(cpu="1", gpu="2")], "resources": {"requests": {"cpu": "4", GPU: "9"}}},
        {},
        4000,
        2,
    ),
    "and the overhead comes on top of them": (
        {"containers": [c(cpu="1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}},
        {},
        5000,
        0,
    ),
    "while it is made larger, what is wanted counts": (
        {"containers": [c(cpu="4")]},
        {"containerStatuses": [granted("c", "1")]},
        4000,
        0,
    ),
    "while it is made smaller, what is granted counts": (
        {"containers": [c(cpu="1")]},
        {"containerStatuses": [granted("c", "4")]},
        4000,
        0,
    ),
    "and what is in force": ({"containers": [c(cpu="1")]}, {"containerStatuses": [in_force("c", "3")]}, 3000, 0),
    "a resize that waits counts": (
        {"containers": [c(cpu="4")]},
        {"containerStatuses": [granted("c", "1")], **DEFERRED},
        4000,
        0,
    ),
    "a resize that is impossible does not": (
        {"containers": [c(cpu="4")]},
        {"containerStatuses": [granted("c", "1")], **INFEASIBLE},
        1000,
        0,
    ),
    "a container without a status of its own counts as wanted": (
        {"containers": [c(cpu="1"), c("d", cpu="2")]},
        {"containerStatuses": [granted("c", "1")]},
        3000,
        0,
    ),
    "a sidecar that is resized": (
        {"containers": [c(cpu="1")], "initContainers": [c("s", True, cpu="1")]},
        {"initContainerStatuses": [granted("s", "2")]},
        3000,
        0,
    ),
}


@pytest.mark.parametrize(("spec", "status", "cpu", "gpu"), CASES.values(), ids=CASES)
def test_a_pod_requests(spec: dict[str, Any], status: dict[str, Any], cpu: int, gpu: int) -> None:
    assert pod_requests({"spec": spec, "status": status}, ("cpu", GPU)) == {"cpu": cpu, GPU: gpu}


@pytest.mark.parametrize(
    ("resource", "quantity", "amount"),
    [
        ("cpu", "2", 2000),
        ("cpu", "100u", 1),  # Quantity.MilliValue rounds up
        ("memory", "1Gi", GIB),
        ("memory", "1500m", 2),  # Quantity.Value rounds up
        (GPU, "8", 8),
        (GPU, None, 0),
    ],
)
def test_the_unit_of_an_amount(resource: str, quantity: str | None, amount: int) -> None:
    assert amount_of(resource, quantity) == amount
