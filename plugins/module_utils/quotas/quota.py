# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_quota: select, read, plan one change per namespace, validate by dry run, apply, report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..cluster.declared import read_declared
from ..declared_source import once_each, own_sources, require_usable
from ..engine.apply import ApplyResult
from ..engine.plan import Action
from ..jobs.priority_classes import provide_priority_classes
from ..kube.errors import KubeError
from ..kube.resources import RESOURCE_QUOTA
from ..namespaces import require_allowed
from ..queues.provide_queues import provide_queues, queued_pools
from ..task import ModuleSpec, Task, TaskFailed
from .live_quotas import LiveQuotas, contents_lost, read_live_quotas
from .quota_apply import apply_quotas, created_namespaces, deleted_namespaces, validate_quotas
from .quota_options import QUOTA_CONSTRAINTS, QuotaOptions
from .quota_plan import QuotaPlans, plan_quota_removal, plan_quotas
from .quota_results import quota_results

if TYPE_CHECKING:
    from ..manifest.quota_model import Quota


def run(task: Task[QuotaOptions]) -> dict[str, Any]:
    """Bring the quotas of a task to the desired state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with the result up to then.
    """
    options = task.options
    task.require_non_negative("wait_timeout")
    require_usable(options)
    quotas, mistakes = select_quotas(options)
    named = (*(options.namespaces or ()), *(namespace for quota in quotas for namespace in quota.namespaces))
    require_allowed(task, named, "O(namespaces)" if options.namespaces else "users")
    if not quotas and options.from_manifests:
        return {"changed": False, "results": [], "diff": [], "msg": "0 namespaces: nothing to do"}

    def plan(live: LiveQuotas) -> QuotaPlans:
        if options.state == "present":
            plans = plan_quotas(quotas, live, options)
        else:
            plans = plan_quota_removal(
                quotas,
                options.name,
                options.namespaces,
                live,
                delete_namespaces=options.delete_namespaces,
                sources=_sources(options),
            )
        # Also those that the manifest no longer names.
        require_allowed(task, (each.namespace for each in plans.plans if each.changed), "quota")
        return plans

    declared = [limits for quota in quotas for limits in quota.namespaces.values()]
    if any(each.accelerators or (each.gpu_hours and each.gpu_hours.accelerators) for each in declared):
        read_declared(task.client(), task.warn)
    try:
        planned = plan(read_live_quotas(task.client()))
    except TaskFailed as problem:
        raise TaskFailed(f"{problem} Nothing was changed.") from problem
    blockers = list(planned.blockers)
    if not options.force:
        blockers += contents_lost(task.client(), deleted_namespaces(planned.plans), options.ignore_jobs or ())
    dry_runs, errors = validate_quotas(task, planned.plans)
    blockers += errors
    if blockers:
        raise TaskFailed.before_any_write(once_each(blockers), changed=False, results=[])
    for warning in planned.warnings:
        task.warn(warning)
    applied = dry_runs if task.check_mode else apply_quotas(task, planned, plan)
    result = quota_results(task, applied, planned)
    _update_queues(task, quotas, applied, result)
    if result["changed"] and options.state == "present":
        for mistake in mistakes:
            task.warn(mistake)
        if created := created_namespaces(each.plan for each in applied):
            from ..rbac.new_namespaces import grant_in_new_namespaces  # Here: few tasks create namespaces.

            result["diff"] += grant_in_new_namespaces(task, created)
        result["diff"] += provide_priority_classes(task)
    return result


def _sources(options: QuotaOptions) -> set[str] | None:
    """The sources of what a task may remove; None for all. What a manifest declares may be of no source yet."""
    if options.source is None:
        return None
    return own_sources(options) | ({""} if options.from_manifests else set())


def _update_queues(
    task: Task[QuotaOptions], quotas: Iterable[Quota], applied: Sequence[ApplyResult], result: dict[str, Any]
) -> None:
    """Bring the queues of pools to the quotas that were written, and add what was done to the result."""
    if not result["changed"]:
        return
    try:
        queued = queued_pools(read_declared(task.client(), task.warn).pools)
    except KubeError as problem:
        task.warn(f"the quotas were written, but queues of pools may not be up to date: {problem}")
        return
    shared = {pool for quota in quotas for limits in quota.namespaces.values() for pool in limits.shares}
    for pool in sorted(shared - queued.keys()):
        task.warn(f"shares of pool {pool} have no effect: it declares no queue. Add queue: kueue to the pool.")
    if not queued:
        return

    def as_planned(live: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """In check mode, nothing is written."""
        after = {(obj["metadata"]["namespace"], obj["metadata"]["name"]): obj for obj in live}
        for each in applied if task.check_mode else ():
            for step in each.plan.steps:
                if step.kind == RESOURCE_QUOTA.kind:
                    place = each.plan.namespace, step.name
                    after.pop(place, None)
                    if step.action is not Action.DELETE:
                        after[place] = step.desired
        gone = set(deleted_namespaces(each.plan for each in applied))
        return [obj for (namespace, _name), obj in after.items() if namespace not in gone]

    try:
        queues = provide_queues(task, queued, as_planned)
    except TaskFailed as failure:
        raise TaskFailed(str(failure), **{**result, **failure.result}) from failure
    result["diff"] += queues.diff


MODULE = ModuleSpec(QuotaOptions, run, QUOTA_CONSTRAINTS, manifests=("quota",), level="administer")


def select_quotas(options: QuotaOptions) -> tuple[list[Quota], list[str]]:
    """The quotas of the manifests, with the shares of this cluster, validated before any request is sent, and what is
    probably wrong in them; none if the options name them."""
    from ..manifest.load import load
    from .quota_shares import quotas_of_cluster

    if not options.from_manifests:
        return [], []
    documents = load(options.src or (), options.definition)
    quotas, mistakes = quotas_of_cluster(documents, options.cluster, required=options.state == "present")
    if not quotas and not options.allow_empty:
        others = ", ".join(f"{document.origin} ({document.model.kind})" for document in documents)
        raise TaskFailed(f"no quota found in O(src) or O(definition). Found: {others}.")
    return quotas, mistakes
