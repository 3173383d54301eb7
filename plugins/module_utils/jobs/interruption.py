# SPDX-License-Identifier: BSD-2-Clause
"""What a recreation stops: a job that has run, for how long, and on how many GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from ..cluster.pod_status import start_of
from ..cluster.read_jobs import read_pods
from ..cluster.related import own_pods
from ..cluster.status import ENDED, pods_ready, status_of
from ..engine.plan import WORKLOAD_KINDS, Plan
from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.times import read_time
from ..labels import JOB_TYPE
from ..manifest.problems import number_of
from .transitions import held_gpus

Object = Mapping[str, Any]


def with_interruptions(plans: list[Plan], client: Client) -> list[Plan]:
    """The plans; those that recreate a job that has run and has not ended say in ``stops`` what that stops, and have
    its pods.

    One list of pods for each namespace with such a job.
    """
    hit = {(plan.namespace, plan.name): workload for plan in plans if (workload := _recreated(plan))}
    if not hit:
        return plans
    pods = if_allowed(lambda: read_pods(client, hit), None)
    now = datetime.now(timezone.utc)

    def interrupted(plan: Plan) -> Plan:
        job = plan.namespace, plan.name
        if job not in hit:
            return plan
        own = None if pods is None else tuple(pods[job])
        return replace(plan, stops=interruption(hit[job], own, now), pods=own)

    return [interrupted(plan) for plan in plans]


def interruption(workload: Object, pods: Iterable[Object] | None, now: datetime) -> str:
    """``a training that has run for 3 h on 16 GPUs``; "" for a job none of whose containers has ever started.

    ``pods`` are None without permission to list them.
    """
    kind = str((workload["metadata"].get("labels") or {}).get(JOB_TYPE, "job"))
    subject = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    if pods is None:
        return f"{subject} that is running, since when is not known" if pods_ready(workload) else ""
    own = own_pods(workload, pods)
    started = min((moment for pod in own for moment in _start_times(pod)), default=None)
    if started is None:
        return ""
    gpus = held_gpus(own)
    where = f" on {number_of(gpus, 'GPU')}" if gpus else ""
    return f"{subject} that has run for {_rough_duration((now - started).total_seconds())}{where}"


def refusal(plan: Plan) -> str:
    """Why a plan that stops a job that has run is not applied, and what allows it."""
    because = ""
    if paths := plan.steps[0].immutable:
        because = f" (Kubernetes cannot change {', '.join(paths)} in place)"
    return f"recreating it stops {plan.stops}{because}. Use O(recreate=true) to recreate it all the same."


def _recreated(plan: Plan) -> dict[str, Any] | None:
    """The live workload that the plan deletes and that has not ended."""
    if not plan.steps or not plan.steps[0].replaces:
        return None
    live = plan.steps[0].live
    ended = live["kind"] not in WORKLOAD_KINDS or status_of(live) in ENDED
    return None if ended else live


def _start_times(pod: Object) -> Iterator[datetime]:
    """When the containers of a pod started, for the last time and for the last but one."""
    for container in pod.get("status", {}).get("containerStatuses") or ():
        for state in ("state", "lastState"):
            if text := start_of(container.get(state)):
                yield read_time(text)


def _rough_duration(seconds: float) -> str:
    """In the largest unit that gives at least 2: ``100 s``, ``12 min``, ``5 h``, ``3 days``."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
