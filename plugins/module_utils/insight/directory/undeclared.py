# SPDX-License-Identifier: BSD-2-Clause
"""What a source has declared, and its directory does not declare any more."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cluster.pool_declarations import declarations_in
from ...cluster.read_jobs import OWNED, WORKLOADS, JobId, job_id_of
from ...cluster.status import ENDED, is_terminating, status_of
from ...declared_source import of_source
from ...engine.plan import WORKLOAD_KINDS
from ...kube.client import Client
from ...kube.errors import if_allowed
from ...kube.resources import CONFIG_MAP, RESOURCE_QUOTA, Resource
from ...labels import (
    APP,
    JOB_TYPE,
    MANAGED,
    QUOTA,
    SYSTEM_NAMESPACE,
    is_managed,
    policy_name,
    pool_config_map_name,
)
from ...listed_namespaces import list_each
from ...quotas.usage import quota_name_of

if TYPE_CHECKING:
    from .directory_plan import SourceOptions

Object = dict[str, Any]


class Undeclared(NamedTuple):
    """What is no longer declared. Only jobs have a ``namespace``."""

    kind: str
    namespace: str
    name: str
    objects: list[Object]


def whole_source(options: SourceOptions) -> str:
    """The source of a task, if the task has all that it declares: single files do not say what else it declares."""
    return options.source if options.source and all(map(os.path.isdir, options.src)) else ""


def find_undeclared(
    client: Client,
    declared: Mapping[str, Sequence[tuple[str, str]]],
    allowed: Collection[str] | None,
    source: str,
) -> Iterator[Undeclared]:
    """What carries the source, and is not declared. Nothing else: it is what others declare, or a person has made.

    ``declared``: namespace and name, by kind, of the kinds that could be read. ``allowed``: the namespaces that the
    task may act in; None for all.
    """
    if not source:
        return
    names = {kind: {name for _namespace, name in places} for kind, places in declared.items()}

    def read(read_objects: Callable[[], list[Object]], *kinds: str) -> list[Object]:
        """Who declares nothing of a kind need not be allowed to list it."""
        if any(names.get(kind) for kind in kinds):
            return read_objects()
        none: list[Object] = []
        return if_allowed(read_objects, none)

    if {"pool", "policy"} & names.keys():
        config_maps = read(lambda: client.list_objects(CONFIG_MAP, SYSTEM_NAMESPACE), "pool", "policy")
        config_maps = of_source(config_maps, source)
        for name, obj in undeclared_pools(config_maps, names["pool"]) if "pool" in names else ():
            yield Undeclared("pool", "", name, [obj])
        for name, obj in undeclared_policies(config_maps, names["policy"]) if "policy" in names else ():
            yield Undeclared("policy", "", name, [obj])
    if "quota" in names:
        quotas = of_source(read(lambda: read_quotas(client, allowed), "quota"), source)
        for name, objects in undeclared_quotas(quotas, names["quota"]).items():
            yield Undeclared("quota", "", name, objects)
    if "job" in names:
        jobs = set(declared["job"])
        found = read(lambda: read_job_objects(client, allowed, {namespace for namespace, _name in jobs}), "job")
        for (namespace, name), objects in undeclared_jobs(found, jobs, source).items():
            yield Undeclared("job", namespace, name, objects)


def undeclared_pools(config_maps: Iterable[Object], declared: Collection[str]) -> Iterator[tuple[str, Object]]:
    """The declarations of pools in gpuctl-system. Pure, as what follows."""
    config_maps = list(config_maps)
    known = {obj["metadata"]["name"]: obj for obj in config_maps}
    for name in declarations_in(config_maps):
        if name not in declared:
            yield name, known[pool_config_map_name(name)]


def undeclared_policies(config_maps: Iterable[Object], declared: Collection[str]) -> Iterator[tuple[str, Object]]:
    for obj in config_maps:
        if (name := policy_name(obj)) and name not in declared:
            yield name, obj


def undeclared_quotas(quotas: Iterable[Object], declared: Collection[str]) -> dict[str, list[Object]]:
    """The ResourceQuotas of each quota that is not declared."""
    found: dict[str, list[Object]] = defaultdict(list)
    for obj in quotas:
        name = quota_name_of(obj)
        if name is not None and name not in declared and not is_terminating(obj):
            found[name].append(obj)
    return found


def undeclared_jobs(objects: Iterable[Object], declared: Collection[JobId], source: str) -> dict[JobId, list[Object]]:
    """The workload of each job that the source has declared and declares no longer; without one, what is left of it.
    Ended trainings go by themselves, and what has an owner goes with it.

    A job belongs to the source if its workload does: who may write in the namespace can label other objects as its own.
    """
    found: dict[JobId, list[Object]] = defaultdict(list)
    for obj in objects:
        job = job_id_of(obj)
        if is_managed(obj) and job not in declared:
            found[job].append(obj)
    left = {}
    for job, own in found.items():
        workloads = [obj for obj in own if obj["kind"] in WORKLOAD_KINDS and obj["metadata"]["name"] == job[1]]
        running = [obj for obj in workloads if not is_terminating(obj) and status_of(obj) not in ENDED]
        if workloads:
            shown = running if len(of_source(running, source)) == len(running) else []
        else:
            rest = [obj for obj in own if not is_terminating(obj) and not obj["metadata"].get("ownerReferences")]
            shown = of_source(rest, source)
        if shown:
            left[job] = shown
    return left


def read_job_objects(client: Client, namespaces: Collection[str] | None, known: Collection[str]) -> list[Object]:
    """The objects of all jobs: a list for each kind. ``known`` namespaces are listed where the cluster may not be."""

    def read(resource: Resource, namespace: str | None) -> list[dict[str, Any]]:
        labels = f"{MANAGED},{APP},{JOB_TYPE}"
        return client.list_objects(resource, namespace, labels=labels, metadata_only=resource not in WORKLOADS)

    read_all = partial(list_each, read, OWNED, concurrency=client.concurrency)
    found = if_allowed(lambda: read_all(None), None) if namespaces is None else None
    return read_all(sorted(known if namespaces is None else namespaces)) if found is None else found


def read_quotas(client: Client, namespaces: Collection[str] | None) -> list[Object]:
    """The ResourceQuotas of all quotas, in the namespaces that the task may act in."""
    found = client.list_objects(RESOURCE_QUOTA, labels=f"{MANAGED},{QUOTA}")
    return [obj for obj in found if namespaces is None or obj["metadata"]["namespace"] in namespaces]
