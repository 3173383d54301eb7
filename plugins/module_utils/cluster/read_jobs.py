# SPDX-License-Identifier: BSD-2-Clause
"""Read the objects and the pods of jobs: a list by label for each kind and namespace, however many jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import if_allowed
from ..kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    NAMESPACE,
    POD,
    RESOURCE_CLAIM_TEMPLATE,
    SERVICE,
    STATEFUL_SET,
    Object,
    Resource,
)
from ..kube.shapes import MalformedObject, UnreadableObject
from ..labels import job_name_of, pod_security_of, selector_of

JobId = tuple[str, str]  # namespace, name
ByJob = dict[JobId, list[dict[str, Any]]]

WORKLOADS = (JOB, DEPLOYMENT, STATEFUL_SET)
_WORKLOAD_KINDS = frozenset(resource.kind for resource in WORKLOADS)
OWNED = (*WORKLOADS, SERVICE, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP)


def job_id_of(obj: Object) -> JobId:
    """The job that an object belongs to by its labels; without them, its name is empty, which no job has."""
    return obj["metadata"]["namespace"], job_name_of(obj) or ""


def read_jobs(client: Client, jobs: Iterable[JobId], resources: Sequence[Resource] = OWNED) -> ByJob:
    """The objects of the given jobs, by job; a job without any has an empty list.

    Raises UnreadableObject for a workload that is not like its kind: a plan without it would create it again.
    """
    names: dict[str, set[str]] = defaultdict(set)
    wanted = set(jobs)
    for namespace, name in wanted:
        names[namespace].add(name)

    def read(query: tuple[str, Resource]) -> list[dict[str, Any]]:
        namespace, resource = query
        return client.list_objects(resource, namespace, labels=selector_of(names[namespace]))

    found: ByJob = {job: [] for job in wanted}
    for objects in run_concurrently(read, product(sorted(names), resources), client.concurrency):
        for obj in objects:
            job = job_id_of(obj)
            # A workload has the name of its job. Others with its label are not ours.
            if job in found and (obj["kind"] not in _WORKLOAD_KINDS or obj["metadata"]["name"] == job[1]):
                found[job].append(obj)
    for job in wanted if set(resources) & set(WORKLOADS) else ():
        if malformed := malformed_workload(client, job):
            raise UnreadableObject(malformed)
    if set(resources) >= set(OWNED):
        claiming = [job for job, objects in found.items() if any(map(claim_templates_of, objects))]
        for job, templates in read_claim_templates(client, claiming).items():
            found[job] += templates
    return found


def read_claim_templates(client: Client, jobs: Iterable[JobId]) -> ByJob:
    """The ResourceClaimTemplates of jobs, which few jobs have: a list for each of their namespaces."""
    jobs = list(jobs)
    return read_jobs(client, jobs, (RESOURCE_CLAIM_TEMPLATE,)) if jobs else {}


def claim_templates_of(workload: Object) -> list[str]:
    """The names of the templates that the pods of a workload get their claims from."""
    spec = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    claims = spec.get("resourceClaims") or () if workload["kind"] in _WORKLOAD_KINDS else ()
    return [one["resourceClaimTemplateName"] for one in claims if "resourceClaimTemplateName" in one]


def malformed_workload(client: Client, job: JobId) -> MalformedObject | None:
    """The workload of a job, where a list has left it out."""
    found = (client.malformed_objects.get((resource.kind, *job)) for resource in WORKLOADS)
    return next(filter(None, found), None)


def read_pods(client: Client, jobs: Iterable[JobId]) -> ByJob:
    """Their pods, by job."""
    return read_jobs(client, jobs, (POD,))


def enforced_levels(client: Client, namespaces: Iterable[str]) -> dict[str, str]:
    """The Pod Security level that each namespace enforces; none without that label, or without permission."""

    def read(name: str) -> str | None:
        namespace = if_allowed(lambda: client.get(NAMESPACE, None, name), None) or {"metadata": {}}
        return pod_security_of(namespace)

    names = sorted(set(namespaces))
    levels = zip(names, run_concurrently(read, names, client.concurrency), strict=True)
    return {name: level for name, level in levels if level}


def without_managed_fields(obj: dict[str, Any]) -> dict[str, Any]:
    """``managedFields`` are a third of an object, and mostly not used."""
    obj["metadata"].pop("managedFields", None)
    return obj
