# SPDX-License-Identifier: BSD-2-Clause
"""One look at the cluster before jobs are written: what of them cannot work there.

A list of the nodes in their pools, and for each namespace one of its quotas and one of each kind of object that the
jobs refer to. What the account may not read is not judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..cluster.nodes import Node, slim_node
from ..cluster.pending_reason import PendingReason
from ..cluster.prediction import missing, needed_names, unschedulable
from ..cluster.quota_fit import refused_by_quotas
from ..cluster.read_jobs import JobId
from ..cluster.shortage import Shortages
from ..engine.dry_run import several_jobs
from ..engine.plan import Plan
from ..engine.planning import starts_pods
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import KubeError
from ..kube.resources import NODE, RESOURCE_QUOTA, Resource
from ..labels import DEFAULT_POOL, POOL
from ..manifest.problems import abridged
from .select import SelectedJob

R = TypeVar("R")
Object = Mapping[str, Any]
Planned = tuple[SelectedJob, Plan]


def precheck(
    planned: Iterable[Planned], client: Client, *, new_nodes: bool, check_mode: bool
) -> dict[JobId, list[PendingReason]]:
    """What keeps jobs that are about to start pods from running, by job.

    ``new_nodes``: nodes may be added, so that a lack of them is no problem. In check mode, a pool or quota that is
    among the manifests of the task may be about to be written, too, and is not judged.
    """
    starting = [(job, plan) for job, plan in planned if starts_pods(plan)]
    if not starting:
        return {}
    look = _look_at([plan for _job, plan in starting], client, reads_nodes=not new_nodes)
    found = {}
    for job, plan in starting:
        skipped = job.declared if check_mode else frozenset[str]()
        if reasons := list(look.reasons(plan, skipped)):
            found[job.id] = reasons
    return found


def grouped(problems: Mapping[JobId, Sequence[PendingReason]]) -> list[str]:
    """The problems of all jobs, each text once with the jobs that have it."""
    jobs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (namespace, name), reasons in problems.items():
        for reason in reasons:
            jobs[namespace, reason.sentence].append(name)
    return [
        f"{several_jobs(namespace, names) if len(names) > 1 else f'job {names[0]} in namespace {namespace}'}: {text}"
        for (namespace, text), names in jobs.items()
    ]


def advice(jobs: Iterable[SelectedJob]) -> list[str]:
    """What the builders say of the manifests; the same of several is one sentence with their places."""
    places: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        for text in job.warnings:
            places[text].append(job.origin)
    return [f"{abridged(origins, 2)}: {text}" for text, origins in places.items()]


@dataclass(frozen=True)
class _Look:
    """What one look at the cluster has found; None is what could not be read."""

    shortages: Shortages | None
    quotas: Mapping[str, Sequence[Object] | None]  # by namespace
    present: Mapping[tuple[Resource, str], set[str] | None]  # names of objects by kind and namespace

    def reasons(self, plan: Plan, skipped: frozenset[str]) -> Iterator[PendingReason]:
        workload = plan.steps[0].desired
        if self.shortages is not None and "pool" not in skipped:
            yield from unschedulable(workload, self.shortages)
        if "quota" not in skipped:
            yield from refused_by_quotas(workload, self.quotas[plan.namespace] or ())
        for (resource, namespace), names in self.present.items():
            if namespace == plan.namespace and names is not None:
                present = names | {step.name for step in plan.steps[1:] if step.kind == resource.kind}
                for reason in missing(workload, resource, present):  # Without nodes, predictions look no further.
                    yield replace(reason, predicted=reason.predicted and self.shortages is not None)


def _look_at(plans: Sequence[Plan], client: Client, *, reads_nodes: bool) -> _Look:
    needed: dict[tuple[Resource, str], set[str]] = defaultdict(set)
    for plan in plans:
        own = {(step.kind, step.name) for step in plan.steps[1:]}
        for resource, names in needed_names(plan.steps[0].desired).items():
            if others := {name for name in names if (resource.kind, name) not in own}:
                needed[resource, plan.namespace] |= others

    def names_of(resource: Resource, namespace: str) -> set[str]:
        names = needed[resource, namespace]
        # Permission to list by resourceNames requires a field selector (Kubernetes, RBAC, "Referring to resources").
        only = f"metadata.name={min(names)}" if len(names) == 1 else ""
        found = client.list_objects(resource, namespace, fields=only, metadata_only=True)
        return {obj["metadata"]["name"] for obj in found}

    def read(question: tuple[Resource, str]) -> Any:
        resource, namespace = question
        if resource == NODE:
            return _answer_or_none(lambda: _nodes_of_pools(plans, client))
        if resource == RESOURCE_QUOTA:
            return _answer_or_none(lambda: client.list_objects(RESOURCE_QUOTA, namespace))
        return _answer_or_none(lambda: names_of(resource, namespace))

    namespaces = sorted({plan.namespace for plan in plans})
    questions = [*([(NODE, "")] if reads_nodes else []), *((RESOURCE_QUOTA, each) for each in namespaces), *needed]
    answers = dict(zip(questions, run_concurrently(read, questions, client.concurrency), strict=True))
    nodes: Sequence[Node] | None = answers.get((NODE, ""))
    return _Look(
        shortages=None if nodes is None else Shortages(nodes),
        quotas={namespace: answers[RESOURCE_QUOTA, namespace] for namespace in namespaces},
        present={question: answers[question] for question in needed},
    )


def _nodes_of_pools(plans: Iterable[Plan], client: Client) -> list[Node]:
    """The nodes of the pools of the jobs; all, to name the nearest, if one of these has none.

    A thousand nodes take longer to read than all the rest of the task.
    """
    selectors = [plan.steps[0].desired["spec"]["template"]["spec"].get("nodeSelector") or {} for plan in plans]
    pools = {selector.get(POOL, DEFAULT_POOL) for selector in selectors}
    labels = f"!{POOL}" if pools == {DEFAULT_POOL} else f"{POOL} in ({','.join(sorted(pools))})"
    if pools == {DEFAULT_POOL} or DEFAULT_POOL not in pools:  # No selector has nodes with and without a label.
        nodes = client.list_slim(NODE, slim_node, labels=labels)
        if pools <= {node.pool for node in nodes}:
            return nodes
    return client.list_slim(NODE, slim_node)


def _answer_or_none(read: Callable[[], R]) -> R | None:
    """None without permission, or where reading fails: a precheck must not fail a task."""
    try:
        return read()
    except KubeError:
        return None
