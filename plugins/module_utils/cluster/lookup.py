# SPDX-License-Identifier: BSD-2-Clause
"""What a user has named and the cluster does not have: the nearest name, and jobs that are named by one of their pods.

Only read once nothing was found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import if_allowed
from ..kube.resources import CONFIG_MAP, JOB, NAMESPACE, NODE, POD, Resource
from ..labels import (
    DEFAULT_POOL,
    DNS_LABEL,
    JOB_TYPE,
    MANAGED,
    POOL,
    SWEEP,
    SYSTEM_NAMESPACE,
    job_name_of,
    pods_of,
    pool_config_map_name,
)
from ..manifest.problems import abridged, nearest, number_of
from .read_jobs import WORKLOADS, JobId, read_pods

_NAMED = 5  # jobs of a sweep in a message
_READ_SINGLY = 3  # Of more namespaces than that, all are listed.


def not_found(what: str, name: str, known: Iterable[str], otherwise: str = "Check its name.") -> str:
    """``pool not found: trainig. Did you mean training?``, or what to do ``otherwise``."""
    meant = _meant(name, [*known])
    return f"{what} not found: {name}. {f'Did you mean {meant}?' if meant else otherwise}"


def _meant(name: str, known: Collection[str]) -> str | None:
    """The nearest name, or that of the job whose pod was named so, and is gone."""
    return nearest(name, known) or max((job for job in known if name.startswith(f"{job}-")), key=len, default=None)


def namespaces_not_found(client: Client, names: Iterable[str], allowed: Collection[str] | None = None) -> Iterator[str]:
    """A sentence for each namespace that does not exist, as far as the account may know.

    Only those that are ``allowed`` are suggested: what else is in the cluster is not for every user of an account.
    """
    names = list(dict.fromkeys(names))
    known: set[str] | None = None
    if len(names) > _READ_SINGLY:
        known = _namespace_names(client)
    for name in names:
        if name in known if known is not None else _may_exist(client, name):
            continue
        known = _namespace_names(client) if known is None else known
        yield not_found("namespace", name, sorted((known or set()) & set(allowed or known or ())))


def namespace_meant(client: Client, name: str, allowed: Collection[str] | None) -> str | None:
    """The nearest of the namespaces that are allowed, as far as the account may list them."""
    known = _namespace_names(client) or set()
    return nearest(name, sorted(known & set(allowed or known)))


def _may_exist(client: Client, name: str) -> bool:
    return if_allowed(lambda: client.get(NAMESPACE, None, name) is not None, True)


def _namespace_names(client: Client) -> set[str] | None:
    """All; None if listing them is forbidden."""
    found = if_allowed(lambda: client.list_objects(NAMESPACE, metadata_only=True), None)
    return None if found is None else {obj["metadata"]["name"] for obj in found}


def job_names(client: Client, namespaces: Sequence[str] | None) -> list[str]:
    """The names of all jobs and sweeps in the namespaces or the whole cluster (None), as far as they may be listed."""
    found = _metadata_of(client, WORKLOADS, namespaces, labels=JOB_TYPE)
    names = {job_name_of(obj) or obj["metadata"]["name"] for obj in found}
    labels = ((obj["metadata"].get("labels") or {}) for obj in found)
    return sorted(names.union(own[SWEEP] for own in labels if own.get(SWEEP)))


def job_hint(client: Client, job: JobId, allowed: Collection[str] | None) -> str:
    """What was probably meant by a job that does not exist, as a sentence; else that its namespace does not either."""
    namespace, name = job
    if meant := _meant(name, job_names(client, [namespace])):
        return f"Did you mean {meant}?"
    return next(namespaces_not_found(client, [namespace], allowed), "")


def namespaces_with_job(client: Client, name: str, allowed: Collection[str] | None) -> list[str]:
    """The namespaces with a job of that name; none without the permission to list them all."""

    def read() -> set[str]:
        return {
            obj["metadata"]["namespace"]
            for resource in WORKLOADS
            for obj in client.list_objects(resource, labels=pods_of(name), metadata_only=True)
        }

    found = if_allowed(read, set[str]())
    return sorted(found if allowed is None else found & set(allowed))


def job_of_pod(client: Client, name: str, namespaces: Sequence[str] | None) -> JobId | None:
    """The job of the pod of that name, in one of the namespaces or in the whole cluster (None).

    The former command line called the names of pods the IDs of jobs.
    """
    if not re.fullmatch(DNS_LABEL, name):
        return None
    pods = _metadata_of(client, (POD,), namespaces, labels=JOB_TYPE, fields=f"metadata.name={name}")
    jobs = ((pod["metadata"]["namespace"], job_name_of(pod)) for pod in pods)
    return next(((namespace, job) for namespace, job in jobs if job), None)


def jobs_of_sweep(client: Client, name: str, namespaces: Sequence[str] | None) -> list[JobId]:
    """The jobs of the sweep of that name, which tables show as one row, in the namespaces or in the whole cluster."""
    if not re.fullmatch(DNS_LABEL, name):
        return []
    jobs = _metadata_of(client, (JOB,), namespaces, labels=f"{MANAGED},{SWEEP}={name}")
    return sorted((obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in jobs)


def _metadata_of(
    client: Client, resources: Iterable[Resource], namespaces: Sequence[str] | None, **selected: str
) -> list[dict[str, Any]]:
    """The metadata of the selected objects, a list for each namespace, or one (None), as far as they may be listed."""

    def read(query: tuple[str | None, Resource]) -> list[dict[str, Any]]:
        namespace, resource = query
        none: list[dict[str, Any]] = []
        return if_allowed(lambda: client.list_objects(resource, namespace, metadata_only=True, **selected), none)

    queries = product([None] if namespaces is None else namespaces, resources)
    return list(chain.from_iterable(run_concurrently(read, queries, client.concurrency)))


def sweep_text(name: str, jobs: Sequence[JobId]) -> str:
    """``search is a sweep of 4 jobs in namespace team-a: search-1, search-2, …``"""
    places = " and ".join(dict.fromkeys(namespace for namespace, _name in jobs))
    named = abridged([job for _namespace, job in jobs], _NAMED)
    return f"{name} is a sweep of {number_of(len(jobs), 'job')} in namespace {places}: {named}."


def pods_of_job_or_pod(client: Client, job: JobId) -> tuple[JobId, str | None, list[dict[str, Any]]]:
    """The pods of the job. If there are none and a pod is named so: its job, its name, and the pods of that job."""
    if pods := read_pods(client, [job])[job]:
        return job, None, pods
    named = job_of_pod(client, job[1], [job[0]])
    if named is None:
        return job, None, []
    return named, job[1], read_pods(client, [named])[named]


def pool_not_found(client: Client, name: str, pools_of_nodes: Collection[str] | None = None) -> str | None:
    """A sentence if no node is in the pool and none is declared for it, as far as the account may know."""
    if pools_of_nodes is None:
        nodes = if_allowed(lambda: client.list_objects(NODE, labels=POOL, metadata_only=True), None)
        if nodes is None:
            return None
        pools_of_nodes = {node["metadata"]["labels"][POOL] for node in nodes}
    known = {*pools_of_nodes, DEFAULT_POOL}
    if name in known:
        return None
    declared = if_allowed(
        lambda: client.list_objects(CONFIG_MAP, SYSTEM_NAMESPACE, labels=f"{MANAGED},{POOL}", metadata_only=True), None
    )
    if declared is None:
        meant = nearest(name, sorted(known))
        return f"no node is in pool {name}.{f' Did you mean {meant}?' if meant else ''}"
    known |= {config_map["metadata"]["name"].removeprefix(pool_config_map_name("")) for config_map in declared}
    return None if name in known else not_found("pool", name, sorted(known))
