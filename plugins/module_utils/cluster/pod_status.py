# SPDX-License-Identifier: BSD-2-Clause
"""The status word of a pod. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .status import is_terminating

HARMLESS = frozenset({"ContainerCreating", "PodInitializing", "Completed"})


def pod_status(pod: Mapping[str, Any]) -> str:
    """The phase of a pod, or the more specific reason of a container: ``ImagePullBackOff``, ``OOMKilled`` ..."""
    status = pod.get("status", {})
    # As kubectl has it: the phase stays Running until the end (pkg/printers/internalversion, printPod).
    if is_terminating(pod):
        return "Terminating"
    if pod_phase(pod) == "Succeeded":  # even if a sidecar reports that it was stopped
        return "Succeeded"
    for container in container_statuses(pod):
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            reason = (state.get(kind) or {}).get("reason")
            if reason and reason not in HARMLESS:
                return str(reason)
    return str(status.get("reason") or pod_phase(pod))


def start_of(state: Mapping[str, Any] | None) -> str | None:
    """When the container of a state started; None where it waits, or could not start.

    Of a process that could not be started, the runtime says that it did in 1970 (containerd, StartedAt 0).
    """
    found = [((state or {}).get(kind) or {}).get("startedAt") for kind in ("running", "terminated")]
    return next((str(text) for text in found if text and not text.startswith("1970-")), None)


def pod_phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase") or "Pending")


def container_statuses(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
