# SPDX-License-Identifier: BSD-2-Clause
"""Why a job has no pod to read from: the job does not exist, it has no pods, or they have not started."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...cluster.lookup import job_hint, jobs_of_sweep, namespaces_with_job, sweep_text
from ...cluster.read_jobs import WORKLOADS, JobId, read_jobs
from ...cluster.read_reasons import read_events, read_reasons, reasons_of
from ...cluster.status import ENDED, status_of
from ...kube.client import Client
from ...kube.errors import if_allowed
from ...labels import MANAGED_BY
from ..history.gone_run import gone_run_message


class NoPods(Exception):
    """The text says why a job has no pods, or where a job of that name is."""


def no_pods_message(client: Client, job: JobId, allowed: Collection[str] | None = None) -> str:
    """Why the one job that is meant has no pods. Of other namespaces, only those that are ``allowed`` are named."""
    try:
        return one_job_meant(job[1], named_sweep(client, job, allowed))
    except NoPods as reason:
        return str(reason)


def one_job_meant(sweep: str, jobs: Sequence[JobId]) -> str:
    """What to do where a sweep is named, and only one of its jobs can be meant."""
    return f"{sweep_text(sweep, jobs)} Name one of them."


def named_sweep(client: Client, job: JobId, allowed: Collection[str] | None = None) -> list[JobId]:
    """The jobs of the sweep by a name that has no pods. Raises NoPods if it is a job's, or nothing's."""
    namespace, name = job
    workloads = if_allowed(lambda: read_jobs(client, [job], WORKLOADS)[job], None)
    if workloads is None:
        raise NoPods(f"no pods found for job {name} in namespace {namespace}")
    if not workloads:
        if jobs := jobs_of_sweep(client, name, [namespace]):
            return jobs
        raise NoPods(_no_job_message(client, job, allowed))
    status = status_of(workloads[0])
    reason = read_reasons(client, {job: workloads[0]}).get(job)
    if status == "Paused":
        text = "is paused, and its pods are deleted with their logs and files"
    elif status in ENDED:
        text = f"has ended ({status}), and its pods are deleted with their logs and files"
    else:
        text = "has no pods yet"
    raise NoPods(f"job {name} in namespace {namespace} {text}" + (f": {reason}" if reason else "."))


def not_started_reasons(client: Client, job: JobId, pods: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Why pods have not started, by name, where a reason is known and may be read."""
    workloads = if_allowed(lambda: read_jobs(client, [job], WORKLOADS)[job], None)
    events = if_allowed(lambda: read_events(client, [job[0]]), None)
    if not workloads or events is None:
        return {}
    named = {pod["metadata"]["name"]: [pod] for pod in pods}
    found = reasons_of(client, dict.fromkeys(named, workloads[0]), named, events)
    # A reason may be about other pods of the job, which cannot be created.
    return {pod: reason for pod, reason in found.items() if f"pod {pod} " in reason}


def _no_job_message(client: Client, job: JobId, allowed: Collection[str] | None) -> str:
    namespace, name = job
    for resource in WORKLOADS:
        if client.get(resource, namespace, name):
            return (
                f"{resource.kind} {name} in namespace {namespace} is not managed by this collection (label "
                f"{MANAGED_BY} is missing). Use kubectl."
            )
    message = f"job {name} not found in namespace {namespace}"
    gone = gone_run_message(client, name, [namespace])
    if namespaces := namespaces_with_job(client, name, allowed):
        return " ".join(filter(None, [f"{message}. It exists in {' and '.join(namespaces)}: set O(namespace).", gone]))
    if gone:
        return f"{message}. {gone}"
    if hint := job_hint(client, job, allowed):
        return f"{message}. {hint}"
    return (
        f"{message}. To list the jobs, use M(gpuctl_job_info). A finished training is removed after a day, with its "
        f"logs."
    )
