# SPDX-License-Identifier: BSD-2-Clause
"""Check with the server what a plan cannot know, before anything is written.

Does an unmanaged object of the same name exist, and can an uncertain update be made in place? All blockers are found at
once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ..cluster.read_jobs import WORKLOADS, JobId
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError, KubeError
from ..kube.resources import Resource, resource_of
from ..labels import pod_selector
from ..manifest.problems import abridged
from .guarded_write import guarded_apply
from .plan import Action, Plan, Step, Suggest, describe, with_hint
from .planning import recreated

_NAMED = 3  # jobs with the same problem


class PlansRejected(KubeError):
    """The plans cannot be applied; nothing was written. ``texts`` says why, by namespace and name of the job."""

    def __init__(self, message: str, texts: Mapping[JobId, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.texts = texts or {}


Blocker = tuple[Plan, str]


def validate_by_dry_run(
    plans: Iterable[Plan],
    client: Client,
    *,
    on_immutable: str,
    check_mode: bool,
    keep_going: bool,
    warn: Callable[[str], None],
    namespace_meant: Suggest = lambda name: None,
) -> list[Plan]:
    """The plans with every uncertain update settled as an update or a recreation.

    Blockers are an unmanaged object of the same name, a namespace that is missing or forbidden, a change that needs a
    recreation under ``on_immutable=fail``, and a new object that the server rejects. Raises PlansRejected with a line
    for each of them; with ``keep_going``, only the plans that they concern are blocked. Raises ConcurrentChange if an
    object is no longer the one that the plan was made from.
    """
    plans = list(plans)
    blockers = _unmanaged_objects(plans, client)
    # Not needed in check mode, which sends every write as a dry run, nor if each job may fail by itself. The first
    # write of a single job says the same, unless it is that of a prerequisite, which has no namespace.
    prerequisites = any(step.action is not Action.UNCHANGED for plan in plans for step in plan.prerequisites)
    if (len(plans) > 1 or prerequisites) and not check_mode and not keep_going:
        taken = {(plan.namespace, plan.name) for plan, _text in blockers}
        untaken = (plan for plan in plans if (plan.namespace, plan.name) not in taken)
        blockers += closed_namespaces(untaken, client, namespace_meant)
    settled = run_concurrently(lambda plan: _settle(plan, client, on_immutable, check_mode), plans, client.concurrency)
    for plan, blocker, warning in settled:
        if blocker:
            blockers.append((plan, blocker))
        if warning:
            warn(warning)
    return block_plans([plan for plan, _blocker, _warning in settled], blockers, keep_going)


def unmanaged_workloads(plans: Iterable[Plan], client: Client) -> list[Blocker]:
    """A blocker for each job that has no managed objects but shares its name with an unmanaged workload.

    Without this, a deletion of such a job would report that it is absent while it runs.
    """
    names: Names = defaultdict(dict)
    for plan in sorted(plans, key=lambda plan: plan.namespace):
        for resource in WORKLOADS:
            names[resource, plan.namespace][plan.name] = plan
    return _names_in_use(client, names, "Only jobs submitted with gpuctl_job can be managed with it.")


def block_plans(plans: list[Plan], blockers: Iterable[Blocker], keep_going: bool) -> list[Plan]:
    """The plans, blocked where there is a blocker. Raises PlansRejected with all blockers unless ``keep_going``."""
    found: dict[JobId, list[str]] = defaultdict(list)
    for plan, text in blockers:
        found[plan.namespace, plan.name].append(text)
    if found and not keep_going:
        alike: dict[tuple[str, str], list[Plan]] = defaultdict(list)
        for plan in plans:
            for text in found[plan.namespace, plan.name]:
                alike[plan.namespace, text].append(plan)
        lines = [f"{who}: {text}" for (_namespace, text), own in alike.items() for who in describe_alike(own)]
        raise PlansRejected("\n".join([*lines, "Nothing was changed."]), found)
    return [
        plan.blocked_by("\n".join(texts)) if (texts := found[plan.namespace, plan.name]) else plan for plan in plans
    ]


Names = dict[tuple[Resource, str], dict[str, Plan]]  # by kind and namespace: names, and the plan that wants each


def _names_in_use(client: Client, names: Names, hint: str) -> list[Blocker]:
    """The plans whose names belong to objects of another job or of none: one list per kind and namespace.

    An object of the same job may have appeared since the plan was made: another run creates it. ``hint`` may have the
    fields ``{kind}``, ``{name}`` and ``{namespace}``.
    """

    def read(place: tuple[Resource, str]) -> dict[str, Mapping[str, str]]:
        only = f"metadata.name={next(iter(names[place]))}" if len(names[place]) == 1 else ""
        found = client.list_objects(*place, fields=only, metadata_only=True)
        return {obj["metadata"]["name"]: obj["metadata"].get("labels") or {} for obj in found}

    blockers = []
    for place, present in zip(names, run_concurrently(read, names, client.concurrency), strict=True):
        kind = place[0].kind
        for name, plan in names[place].items():
            # Names are unique per kind and namespace, so ours would be an apply to an object of others.
            if name in present and not pod_selector(plan.name).items() <= present[name].items():
                text = f"{kind} {name} exists and is not managed by gpuctl; it was not changed. "
                blockers.append((plan, text + hint.format(kind=kind.lower(), name=name, namespace=plan.namespace)))
    return blockers


def _unmanaged_objects(plans: list[Plan], client: Client) -> list[Blocker]:
    """The plans that create an object whose name an unmanaged object has."""
    names: Names = defaultdict(dict)
    for plan in plans:
        for step in plan.steps:
            changes_kind = step.action is Action.RECREATE and step.live["kind"] != step.kind
            if (step.action is Action.CREATE and not step.live) or changes_kind:
                names[resource_of(dict(step.identity)), plan.namespace][step.name] = plan
    delete = "kubectl delete {kind} {name} -n {namespace}"
    return _names_in_use(client, names, f"Give the job another name, or delete the object with: {delete}")


def closed_namespaces(plans: Iterable[Plan], client: Client, namespace_meant: Suggest) -> list[Blocker]:
    """The plans in namespaces where nothing can be created (missing, terminating, forbidden): one dry run in each."""
    first: dict[str, Plan] = {}
    for plan in plans:
        if plan.steps and plan.steps[0].action is Action.CREATE and not plan.steps[0].live:
            first.setdefault(plan.namespace, plan)

    def try_first_step(plan: Plan) -> list[Blocker]:
        try:
            guarded_apply(client, plan.steps[0].desired, dry_run=True)
        except ApiError as error:
            return [(plan, with_hint(error, plan, namespace_meant))]
        return []

    return list(chain.from_iterable(run_concurrently(try_first_step, first.values(), client.concurrency)))


def _settle(plan: Plan, client: Client, on_immutable: str, check_mode: bool) -> tuple[Plan, str | None, str | None]:
    """The plan without uncertain steps, its blocker, and a warning."""
    try:
        return _with_owned(plan, [_settled_step(step, client, on_immutable) for step in plan.steps]), None, None
    except PlansRejected as problem:
        return plan, str(problem), None
    except ApiError as problem:
        if not (check_mode and problem.is_forbidden):
            return plan, with_hint(problem, plan), None
        # A dry run needs permission to write. Without it, recreation is predicted.
        steps = [replace(step, action=Action.RECREATE) if step.uncertain else step for step in plan.steps]
        return _with_owned(plan, steps), None, f"{describe(plan)}: not validated by the server: {problem.message}"


def _with_owned(plan: Plan, steps: list[Step]) -> Plan:
    """The plan with these steps; if they recreate the workload, what it owns is created again as well."""
    settled = plan.with_steps(steps)
    return recreated(settled) if settled.action is Action.RECREATE else settled


def _settled_step(step: Step, client: Client, on_immutable: str) -> Step:
    # Not to be confused with a training that has ended and is run again.
    replaced_for_a_change = step.uncertain or step.live.get("kind", step.kind) != step.kind
    if step.uncertain:
        try:
            # Forced, so that a field conflict does not hide whether the fields can change; the apply reports it.
            answer = guarded_apply(client, step.desired, step.live, dry_run=True, force=True)
            from .effect import step_after  # Here: few updates are uncertain.

            return step_after(step, answer)
        except ApiError as refusal:
            if not refusal.is_immutable:
                raise
        step = replace(step, action=Action.RECREATE)
    if replaced_for_a_change and on_immutable == "fail":
        raise PlansRejected(
            f"Kubernetes cannot change {', '.join(step.immutable)} of a {step.kind} in place. Use "
            f"O(on_immutable=recreate) to delete the job and create it again, or delete it first."
        )
    if step.replaces:
        # Before the deletion: what the server refuses must not cost the job that runs.
        client.create(step.desired, dry_run=True)
    return step


def describe_alike(plans: Sequence[Plan]) -> list[str]:
    """How messages name jobs of one namespace that have the same problem: each, or many of them together."""
    if len(plans) <= _NAMED:
        return [describe(plan) for plan in plans]
    return [several_jobs(plans[0].namespace, [plan.name for plan in plans])]


def several_jobs(namespace: str, names: Sequence[str]) -> str:
    return f"{len(names)} jobs, {abridged(names, _NAMED)} in namespace {namespace}"
