# SPDX-License-Identifier: BSD-2-Clause
"""What the modules, and the server, say about a job."""

from __future__ import annotations

from time import monotonic
from typing import Any

from integration.ansible import Ansible, TaskResult
from integration.api import Api, eventually

NEVER = 120  # seconds that no test waits for: who gets there has not failed early
GPU = "nvidia.com/gpu"
EARLY = 60  # a pull that fails, or a container that crashes, is tried again before it counts as failed


def failed_early(ansible: Ansible, manifest: dict[str, Any], namespace: str, **options: Any) -> TaskResult:
    began = monotonic()
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=NEVER, **options)
    assert result.failed, result.screen
    assert monotonic() - began < EARLY, result.message
    return result


def info(ansible: Ansible, namespace: str, name: str) -> dict[str, Any]:
    (row,) = ansible.module("gpuctl_job_info", name=name, namespaces=[namespace]).result["results"]
    return dict(row)


def reason(ansible: Ansible, namespace: str, name: str, *words: str) -> str:
    """The reason of a job, once it has these words."""

    def found() -> str | None:
        text = str(info(ansible, namespace, name)["reason"])
        return text if all(word in text for word in words) else None

    return str(eventually(found, 2 * EARLY))


def pods(api: Api, namespace: str, name: str) -> list[dict[str, Any]]:
    return api.list("pod", namespace, f"app={name}")


def logged(ansible: Ansible, namespace: str, name: str) -> list[str]:
    """The lines of all pods of a job."""
    result = ansible.module("gpuctl_job_log", name=name, namespace=namespace, tail=-1)
    return [line for row in result.result.get("results", ()) for line in row["lines"]]


def free_gpus(api: Api, node: dict[str, Any]) -> int:
    """The GPUs of a node that no pod of the whole cluster has."""
    _status, answer = api.call("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node['metadata']['name']}")
    containers = [
        container
        for pod in answer["items"]
        if pod["status"]["phase"] not in ("Succeeded", "Failed")
        for container in pod["spec"]["containers"]
    ]
    used = sum(int(container.get("resources", {}).get("limits", {}).get(GPU, 0)) for container in containers)
    return int(node["status"]["allocatable"].get(GPU, 0)) - used


def has_gpus(api: Api) -> bool:
    return any(GPU in node["status"]["allocatable"] for node in api.list("node"))
