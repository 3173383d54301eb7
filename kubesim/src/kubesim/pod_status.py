# SPDX-License-Identifier: BSD-2-Clause
"""What `kubectl get pods` says of a pod in its columns Ready, Status and Restarts.

Source: pkg/printers/internalversion/printers.go (printPod).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubesim.clock import human_duration, parse_time

Object = dict[str, Any]


def _statuses(pod: Object, init: bool = False) -> list[Object]:
    return pod.get("status", {}).get("initContainerStatuses" if init else "containerStatuses") or []


def _sidecars(pod: Object) -> set[str]:
    containers = pod["spec"].get("initContainers") or ()
    return {c["name"] for c in containers if c.get("restartPolicy") == "Always"}


def ready(pod: Object) -> str:
    """Ready containers of all, sidecars among them: 1/2."""
    sidecars = _sidecars(pod)
    counted = _statuses(pod) + [s for s in _statuses(pod, init=True) if s["name"] in sidecars]
    total = len(pod["spec"].get("containers") or ()) + len(sidecars)
    return f"{sum(bool(s.get('ready') and s.get('state', {}).get('running') is not None) for s in counted)}/{total}"


def reason(pod: Object) -> str:
    """The phase, or what better describes it: Init:0/1, CrashLoopBackOff, Completed, Terminating…"""
    status = pod.get("status", {})
    text = status.get("reason") or status.get("phase", "")
    if any(
        c["type"] == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()
    ):
        text = "SchedulingGated"
    initializing = _initializing(pod)
    text = initializing or _from_containers(pod, text)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        return text if status.get("phase") in ("Failed", "Succeeded") else "Terminating"
    return text


def _initializing(pod: Object) -> str:
    sidecars = _sidecars(pod)
    total = len(pod["spec"].get("initContainers") or ())
    for index, container in enumerate(_statuses(pod, init=True)):
        state = container.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended and ended.get("exitCode") == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            continue
        if ended:
            return "Init:" + (ended.get("reason") or _exit(ended))
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _exit(ended: Object) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _from_containers(pod: Object, text: str) -> str:
    running = False
    for container in reversed(_statuses(pod)):
        state = container.get("state", {})
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("reason"):
            text = waiting["reason"]
        elif ended:
            text = ended.get("reason") or _exit(ended)
        elif container.get("ready") and state.get("running") is not None:
            running = True
    if text == "Completed" and running:
        conditions = pod["status"].get("conditions") or ()
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return "Running" if is_ready else "NotReady"
    return text


def restarts(pod: Object, now: datetime) -> str:
    """How often containers were restarted, and when last: 3 (2m ago)."""
    sidecars = _sidecars(pod)
    counted = _statuses(pod) + [s for s in _statuses(pod, init=True) if s["name"] in sidecars]
    if _initializing(pod):
        counted = _statuses(pod, init=True)
    total = sum(s.get("restartCount", 0) for s in counted)
    ends = [
        s["lastState"]["terminated"]["finishedAt"]
        for s in counted
        if (s.get("lastState") or {}).get("terminated", {}).get("finishedAt")
    ]
    if not total or not ends:
        return str(total)
    return f"{total} ({human_duration((now - max(map(parse_time, ends))).total_seconds())} ago)"
