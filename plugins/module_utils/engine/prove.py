# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Put to the server what a plan cannot know by itself, before anything is written.

Two questions: does an object that we are about to create exist already without being ours, and can an uncertain update
be made in place. Everything that stands in the way is reported at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ..cluster.live import WORKLOADS
from ..kube.client import Client
from ..kube.errors import ApiError, KubeError
from ..kube.resources import Resource, resource_of
from ..labels import pod_selector
from .plan import Action, Plan, Step
from .remedies import describe, remedied


class Refused(KubeError):
    """The plan cannot be carried out; nothing was written."""


def prove(
    plans: Iterable[Plan], client: Client, *, on_immutable: str, check_mode: bool, warn: Callable[[str], None]
) -> list[Plan]:
    """The plans with every uncertain update settled as update or recreation.

    Raises Refused with one line for each obstacle: a foreign object of the same name, a namespace that is not there or
    closed to us, a change that needs a recreation under ``on_immutable=fail``, a new object that the server would not
    accept.
    """
    plans = list(plans)
    obstacles = _foreign_objects(plans, client)
    if not check_mode:  # which sends every write as a dry run anyway
        obstacles += _closed_namespaces(plans, client)
    settled = []
    for plan in plans:
        try:
            settled.append(plan.with_steps(_settle(step, client, on_immutable) for step in plan.steps))
        except Refused as problem:
            obstacles.append(f"{describe(plan)}: {problem}")
        except ApiError as problem:
            if not (check_mode and problem.is_forbidden):
                obstacles.append(f"{describe(plan)}: {remedied(problem, plan)}")
                continue
            # A dry run needs the right to write. Without it the worse of the two is predicted.
            warn(f"{describe(plan)}: not validated by the server, {problem.message}")
            settled.append(plan.with_steps(_pessimistic(step) for step in plan.steps))
    if obstacles:
        raise Refused("\n".join([*obstacles, "Nothing was changed."]))
    return settled


def refuse_foreign_workloads(plans: Iterable[Plan], client: Client) -> None:
    """Of jobs that have no objects of ours: raise Refused if a workload of that name is there and is somebody else's.

    Without this a deletion of such a job would say "unchanged, absent" while it runs.
    """
    names: dict[str, set[str]] = defaultdict(set)
    for plan in plans:
        names[plan.namespace].add(plan.name)
    obstacles = [
        f"{resource.kind} {name} in namespace {namespace} does not belong to gpuctl, so it was not deleted."
        for namespace, wanted in sorted(names.items())
        for resource in WORKLOADS
        for name in _foreign_names(client, resource, namespace, dict(zip(wanted, wanted, strict=True)))
    ]
    if obstacles:
        raise Refused("\n".join([*obstacles, "Nothing was changed."]))


def _foreign_names(client: Client, resource: Resource, namespace: str, jobs: Mapping[str, str]) -> list[str]:
    """Those of the names, each wanted for a job, that an object of a kind has which does not belong to that job.

    One that does belong to it may have come since we looked: another run is at the same job.
    """
    only = f"metadata.name={next(iter(jobs))}" if len(jobs) == 1 else ""
    found = client.select(resource, namespace, fields=only, metadata_only=True)
    named = {obj["metadata"]["name"]: obj["metadata"].get("labels") or {} for obj in found}
    return sorted(
        name for name, job in jobs.items() if name in named and not pod_selector(job).items() <= named[name].items()
    )


def _foreign_objects(plans: list[Plan], client: Client) -> list[str]:
    """Names that a creation needs and that an object without our label holds; one list per kind and namespace."""
    wanted: dict[tuple[str, str], dict[str, tuple[Plan, Step]]] = defaultdict(dict)
    for plan in plans:
        for step in plan.steps:
            renamed_kind = step.action is Action.RECREATE and step.live["kind"] != step.kind
            if (step.action is Action.CREATE and not step.live) or renamed_kind:
                wanted[step.kind, plan.namespace][step.name] = (plan, step)
    obstacles = []
    for (kind, namespace), steps in wanted.items():
        sample = next(iter(steps.values()))[1]
        jobs = {name: plan.name for name, (plan, _step) in steps.items()}
        for name in _foreign_names(client, resource_of(dict(sample.identity)), namespace, jobs):
            plan = steps[name][0]
            obstacles.append(
                f"{describe(plan)}: {kind} {name} exists there and does not belong to gpuctl, so it was not touched. "
                f"Give the job another name, or delete it with: kubectl delete {kind.lower()} {name} -n {namespace}"
            )
    return sorted(obstacles)


def _closed_namespaces(plans: list[Plan], client: Client) -> list[str]:
    """Namespaces in which nothing can be created (missing, terminating, forbidden), found by one dry run in each."""
    obstacles = []
    for plan in {plan.namespace: plan for plan in reversed(plans) if plan.steps[0].action is Action.CREATE}.values():
        workload = plan.steps[0]
        if workload.live:
            continue
        try:
            client.apply(workload.desired, dry_run=True)
        except ApiError as error:
            obstacles.append(f"{describe(plan)}: {remedied(error, plan)}")
    return obstacles


def _pessimistic(step: Step) -> Step:
    return replace(step, action=Action.RECREATE) if step.uncertain else step


def _settle(step: Step, client: Client, on_immutable: str) -> Step:
    if step.uncertain:
        try:
            client.apply(step.desired, dry_run=True, force=True)
            return step
        except ApiError as refusal:
            if not refusal.is_immutable:
                raise
        step = replace(step, action=Action.RECREATE)
    if step.action is Action.RECREATE:
        if on_immutable == "fail":
            raise Refused(
                f"Kubernetes cannot change {', '.join(step.immutable)} of a {step.kind} in place. Set on_immutable to "
                f"recreate to have it deleted and created anew, or delete the job first."
            )
        client.try_create(step.desired)
    return step
