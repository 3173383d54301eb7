# SPDX-License-Identifier: BSD-2-Clause
"""The pod of a job that files are copied to or from: one whose container is running."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...cluster.lookup import pods_of_job_or_pod
from ...cluster.pod_status import pod_status
from ...cluster.read_jobs import JobId
from ...cluster.status import is_terminating
from ...kube.client import Client
from ...logs.log_pods import choose_pods, sort_pods
from ..jobs.absence import NoPods, named_sweep, not_started_reasons, one_job_meant

Pod = dict[str, Any]


class SweepGiven(Exception):
    """The name is no job's, but that of a sweep of these ``jobs``. Nothing was copied."""

    def __init__(self, name: str, jobs: Sequence[JobId]) -> None:
        super().__init__(one_job_meant(name, jobs))
        self.jobs = jobs


def pod_to_copy(
    client: Client, job: JobId, wanted: str | None, container: str, allowed: Collection[str] | None = None
) -> str:
    """The name of the pod, by which the job may be named, too. ``allowed``: the namespaces that messages may name.

    Raises ValueError with a message for the user if there is not exactly one, and SweepGiven.
    """
    job, named, found = pods_of_job_or_pod(client, job)
    if not found:
        try:
            raise SweepGiven(job[1], named_sweep(client, job, allowed))
        except NoPods as reason:
            raise ValueError(str(reason)) from None
    pods = sort_pods(found)
    where = f"job {job[1]} in namespace {job[0]}"
    try:
        chosen = choose_pods(pods, wanted or named, container)
    except ValueError as problem:
        raise ValueError(f"{where}: {problem}") from None
    running = [pod for pod in chosen if is_running(pod, container)]
    if not running:
        raise ValueError(f"{where}: {_not_running(client, job, chosen, container)}")
    if len(running) > 1:
        names = ", ".join(pod["metadata"]["name"] for pod in running[:5])
        raise ValueError(f"{where}: {len(running)} pods are running. Set O(pod) to one of them, such as {names}.")
    return str(running[0]["metadata"]["name"])


def is_running(pod: Mapping[str, Any], container: str) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    states = [each.get("state") or {} for each in statuses if each["name"] == container]
    return any("running" in state for state in states) and not is_terminating(pod)


def _not_running(client: Client, job: JobId, pods: Sequence[Pod], container: str) -> str:
    newest = pods[-1]
    name, status = newest["metadata"]["name"], pod_status(newest)
    if status in ("Succeeded", "Failed", "Completed"):
        return f"pod {name} has ended ({status}). Files can only be copied while its container runs."
    reason = not_started_reasons(client, job, [newest]).get(name)
    why = f": {reason}" if reason else f" ({status}). Wait until it is ready."
    return f"container {container} of pod {name} is not running{why}"
