# SPDX-License-Identifier: BSD-2-Clause
"""What the kubelet remembers of pods and containers, beyond the API.

Source of the back-off: pkg/kubelet/kuberuntime/kuberuntime_manager.go (10 s, doubled up to 5 min).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubesim.clock import parse_time, rfc3339

from .base import Object
from .kubelet_logs import Line, written_by

BACKOFF_FIRST, BACKOFF_MAX = 10.0, 300.0


@dataclass
class ContainerRun:
    """One container of a pod: its state now, and what was before the last restart."""

    started: datetime | None = None
    ended: Object | None = None
    last: Object | None = None
    restarts: int = 0
    restart_at: datetime | None = None
    log: list[Line] = field(default_factory=list)
    log_grows: bool = False  # Its lines are written at their times; otherwise all are there from the start.
    exit_code: int | None = None  # how its program ends, of those that do
    previous_log: list[Line] | None = None

    @property
    def running(self) -> bool:
        return self.started is not None and self.ended is None

    def after(self, seconds: float) -> datetime:
        """So long after its start (which must have been)."""
        assert self.started is not None
        return self.started + timedelta(seconds=seconds)


@dataclass
class PodRun:
    """What the kubelet knows of a pod beyond the API."""

    uid: str
    ip: str
    host_ip: str
    seen: datetime
    start_time: datetime | None = None
    containers: dict[str, ContainerRun] = field(default_factory=dict)
    waiting: tuple[str, str] | None = None  # why nothing starts: reason, message
    trouble: str = ""  # what is missing, as the last event said
    pulls: int = 0
    last_pull: datetime | None = None
    last_sandbox: datetime | None = None
    stopping: datetime | None = None
    untouched: bool = False  # it came with a status, which stays as it is until there is an order for the pod


def backoff(attempts: int) -> float:
    """Seconds to wait after so many attempts: none, 10, 20, 40 … 300."""
    return min(BACKOFF_FIRST * 2 ** (attempts - 1), BACKOFF_MAX) if attempts else 0.0


def finish(one: ContainerRun, code: int, reason: str, now: datetime) -> None:
    assert one.started is not None
    one.ended = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "startedAt": rfc3339(one.started),
        "finishedAt": rfc3339(now),
    }
    one.restart_at = None
    if one.log_grows:
        one.log, one.log_grows = written_by(one.log, now), False


def take_over(run: PodRun, pod: Object) -> None:
    """Go on with a pod that was started before, e.g. one that was loaded in bulk."""
    status = pod["status"]
    run.start_time = parse_time(status.get("startTime") or pod["metadata"]["creationTimestamp"])
    run.untouched = True
    for one in run.containers.values():
        one.started = run.start_time
    for seen in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = seen.get("state") or {}
        if seen["name"] not in run.containers:
            continue
        one = run.containers[seen["name"]]
        one.restarts = seen.get("restartCount", 0)
        one.ended = state.get("terminated")
        since = (state.get("running") or state.get("terminated") or {}).get("startedAt")
        one.started = parse_time(since) if since else None if "waiting" in state else run.start_time


def succeeded(one: ContainerRun) -> bool:
    return one.ended is not None and one.ended["exitCode"] == 0


def all_containers(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def is_init(pod: Object, container: Object) -> bool:
    return any(one["name"] == container["name"] for one in pod["spec"].get("initContainers") or ())


def pod_text(pod: Object) -> str:
    """format.Pod: name_namespace(uid)."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
