# SPDX-License-Identifier: BSD-2-Clause
"""A day of 40 jobs of three teams, as a cluster would have it: objects for an API server, samples for a Prometheus, and
what comes out by arithmetic.

Times are seconds from the beginning of the range that is counted, which has twelve hours. Some pods begin before it,
some do not end in it; some are preempted and begin again, are paused in between, or restart their containers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

ZERO = datetime(2026, 7, 31, 20, tzinfo=timezone.utc).timestamp()
RANGE = 12 * 3600
TEAMS = ("team-a", "team-b", "team-c")
USERS = ("alice", "bob", "carol", "dave")
WHOLE, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
NODES = 8
GPUS = 8  # of each node


@dataclass(frozen=True)
class ScheduledPod:
    """A pod that held ``amount`` of a resource. ``gone``: it was deleted afterwards."""

    team: str
    user: str
    job: str
    name: str
    node: str
    resource: str
    amount: int
    start: int
    end: int | None = None
    gone: bool = False
    waited: int = 0  # seconds without a node, before its start
    preempted: bool = False
    measured: bool = True
    priority: str = "medium"

    @property
    def counted(self) -> float:
        """Hours of devices within the range."""
        end = RANGE if self.end is None else min(self.end, RANGE)
        return max(0, end - max(self.start, 0)) / 3600 * self.amount

    @property
    def queued(self) -> float:
        """Hours of devices that it waited for within the range."""
        start = min(self.start, RANGE)
        return max(0, start - max(self.start - self.waited, 0)) / 3600 * self.amount

    def is_busy(self, moment: int) -> bool:
        """Busy for the first three of every five minutes."""
        return (moment // 60) % 5 < 3


def schedule() -> list[ScheduledPod]:
    return [pod for number in range(40) for pod in _pods(number)]


def _pods(number: int) -> Iterator[ScheduledPod]:
    start = (number * 1009) % 30_000 - 3600 + 17
    end: int | None = start + 3600 + (number * 733) % 20_000
    resource, amount = (SLICE, 2) if number % 5 == 0 else (WHOLE, (1, 2, 4, 8)[number % 4])
    pod = ScheduledPod(
        TEAMS[number % 3],
        USERS[number % 4],
        f"job-{number}",
        f"job-{number}-0-aaaaa",
        f"node-{number % NODES + 1}",
        resource,
        amount,
        start,
        end,
        waited=1500 if number % 6 == 5 else 0,
        measured=number != 39,
        priority="opportunistic" if number % 14 == 1 else "medium",
    )
    if number % 7 == 1:  # preempted after 37 minutes, placed again 11 minutes later
        yield replace(pod, end=start + 2220, gone=True, preempted=True)
        yield replace(pod, start=start + 2880, waited=0, name=f"job-{number}-0-bbbbb", node="node-1")
    elif number % 7 == 2:  # paused for half an hour
        yield replace(pod, end=start + 1500, gone=True)
        yield replace(pod, start=start + 3300, waited=0, name=f"job-{number}-0-bbbbb")
    elif number % 7 == 4:  # still running
        yield replace(pod, end=None)
    else:  # Its containers may have started again: that is no other pod.
        yield pod


def hours(pods: Iterable[ScheduledPod], key: str, resource: str) -> dict[str, float]:
    """By arithmetic."""
    found: dict[str, float] = defaultdict(float)
    for pod in pods:
        if pod.resource == resource:
            found[getattr(pod, key)] += pod.counted
    return dict(found)


# -- as objects --------------------------------------------------------------------------------------------------------


def labels(pod: ScheduledPod) -> dict[str, str]:
    return {
        "app": pod.job,
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/job-type": "training",
        "runwhere.ai/priority": pod.priority,
        "runwhere.ai/pool": "default",
        "runwhere.ai/namespace": pod.team,
    }


def job_object(pod: ScheduledPod) -> dict[str, Any]:
    submitter = json.dumps({"user": "ci", "host": "runner", "awx_user": pod.user})
    metadata = {"name": pod.job, "labels": labels(pod), "annotations": {"runwhere.ai/submitted-by": submitter}}
    template = {"metadata": {"labels": labels(pod)}, "spec": {**_spec(pod), "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template, "parallelism": 1, "completions": 1},
    }


def pod_object(pod: ScheduledPod) -> dict[str, Any]:
    spec = {**_spec(pod), "restartPolicy": "Never", "nodeName": pod.node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name, "labels": labels(pod)}, "spec": spec}


def pod_status(pod: ScheduledPod) -> dict[str, Any]:
    """As a kubelet and the scheduler report it."""
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": _text(pod.start)}]
    state: dict[str, Any] = {"running": {"startedAt": _text(pod.start)}}
    if pod.end is not None:
        state = {
            "terminated": {
                "exitCode": 137 if pod.gone else 0,
                "startedAt": _text(pod.start),
                "finishedAt": _text(pod.end),
            }
        }
    if pod.preempted:
        reason = {"reason": "PreemptionByScheduler", "message": "preempted"}
        moment = _text(pod.end or 0)
        conditions.append({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": moment, **reason})
    container = {
        "name": "main",
        "image": "ml:v1",
        "imageID": "",
        "ready": pod.end is None,
        "restartCount": 2,
        "state": state,
    }
    phase = "Running" if pod.end is None else "Failed" if pod.gone else "Succeeded"
    return {"phase": phase, "conditions": conditions, "containerStatuses": [container], "startTime": _text(pod.start)}


def _spec(pod: ScheduledPod) -> dict[str, Any]:
    amounts = {pod.resource: str(pod.amount)}
    return {"containers": [{"name": "main", "image": "ml:v1", "resources": {"requests": amounts, "limits": amounts}}]}


def _text(seconds: int) -> str:
    return datetime.fromtimestamp(ZERO + seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- as samples --------------------------------------------------------------------------------------------------------


def openmetrics(pods: Iterable[ScheduledPod], since: int = -3600, until: int = RANGE, step: int = 60) -> Iterator[str]:
    """What kube-state-metrics and dcgm-exporter served, metric by metric, as promtool reads it."""
    pods = list(pods)
    moments = range(since, until + 1, step)
    # A pod holds within the scrapes from its start on, up to its end.
    present = {
        pod: [each for each in moments if pod.start <= each < (until + 1 if pod.end is None else pod.end)]
        for pod in pods
    }
    waiting = {pod: [each for each in moments if pod.start - pod.waited <= each < pod.start] for pod in pods}

    def samples(name: str, text: str, values: Iterable[tuple[int, float]]) -> Iterator[str]:
        for moment, value in values:
            yield f"{name}{{{text}}} {value:g} {ZERO + moment:.0f}\n"

    for name in ("kube_pod_labels", "kube_pod_status_phase", "kube_pod_container_resource_requests"):
        yield f"# TYPE {name} gauge\n"
        for pod in pods:
            base = f'namespace="{pod.team}",pod="{pod.name}"'
            told = {
                "kube_pod_labels": (
                    f',label_app="{pod.job}",label_runwhere_ai_job_type="training",label_runwhere_ai_pool="default",'
                    f'label_runwhere_ai_priority="medium"',
                    1,
                ),
                "kube_pod_status_phase": (',phase="{phase}"', 1),
                "kube_pod_container_resource_requests": (
                    f',container="main",node="{{node}}",resource="{_sanitized(pod.resource)}",unit="integer"',
                    pod.amount,
                ),
            }
            text, value = told[name]
            for moments_so, phase, node in ((waiting[pod], "Pending", ""), (present[pod], "Running", pod.node)):
                series = base + text.format(phase=phase, node=node)
                yield from samples(name, series, ((each, value) for each in moments_so))
    yield "# TYPE kube_node_status_allocatable gauge\n"
    for node in range(1, NODES + 1):
        text = f'node="node-{node}",resource="nvidia_com_gpu",unit="integer"'
        yield from samples("kube_node_status_allocatable", text, ((each, GPUS) for each in moments))
    for name in ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE"):
        yield f"# TYPE {name} gauge\n"
        for pod in pods:
            for index in range(pod.amount if pod.measured else 0):
                partition = f',GPU_I_ID="{index}",GPU_I_PROFILE="1g.10gb"' if pod.resource == SLICE else ""
                uuid = f"GPU-{pod.job}-{0 if partition else index}"
                text = (
                    f'exported_namespace="{pod.team}",exported_pod="{pod.name}",UUID="{uuid}",gpu="{index}",'
                    f'Hostname="{pod.node}",modelName="H100"{partition},namespace="gpu-operator",pod="dcgm-exporter"'
                )
                yield from samples(name, text, ((each, _value(name, pod, each)) for each in present[pod]))
    yield "# EOF\n"


def _value(name: str, pod: ScheduledPod, moment: int) -> float:
    busy = pod.is_busy(moment)
    if name == "DCGM_FI_PROF_GR_ENGINE_ACTIVE":
        return 0.9 if busy else 0.0
    if name == "DCGM_FI_DEV_FB_USED":
        return 40_000 if busy else 1_000
    return 500 if busy else 100


def _sanitized(name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in name)
