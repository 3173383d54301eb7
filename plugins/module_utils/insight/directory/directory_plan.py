# SPDX-License-Identifier: BSD-2-Clause
"""Plan all that a directory declares, as the playbook provision would apply it, and go on where something is wrong.

Pools, quotas, policies, labels of nodes, jobs: in this order, each against the cluster as it is after those before it
(planned_client.py). The plans are those of the modules; nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from ...accelerators.hardware import UnfitHardware
from ...access.policy import PolicyOptions, plan_policy, rules_in
from ...cluster.declared import read_declared
from ...cluster.read_jobs import JobId
from ...engine.apply import Executor
from ...engine.dry_run import PlansRejected
from ...engine.node_writer import LabelChange
from ...engine.paths import ABSENT, Change
from ...engine.plan import Action, Plan, Step
from ...jobs.job import STATES, apply_plans, plan_jobs
from ...jobs.job_options import JobOptions
from ...jobs.priority_classes import priority_class_steps
from ...jobs.runs.ledger import RERUN
from ...jobs.runs.run_record import RunRecord
from ...jobs.select import SelectedJob, is_provisioned_in, select_jobs
from ...kube.errors import ConnectionProblem, KubeError
from ...labels import POOL
from ...manifest.problems import MissingLibrary
from ...namespaces import NamespaceOptions, allowed_namespaces, require_allowed
from ...nodes.label_options import desired_labels
from ...nodes.node_label_options import NodeLabelOptions
from ...nodes.node_label_plan import plan_node_labels
from ...options import ConcurrencyOptions, DeclaringOptions, Options, option
from ...pools.drain import disturbance, jobs_on_divided_nodes
from ...pools.pool import select_pools
from ...pools.pool_apply import validate_pools
from ...pools.pool_options import PoolOptions
from ...pools.pool_plan import PoolPlans, plan_pools
from ...queues.gangs import gang_advice
from ...queues.provide_queues import plans_for_queues, queued_pools
from ...quotas.live_quotas import read_live_quotas
from ...quotas.quota import select_quotas
from ...quotas.quota_apply import created_namespaces, validate_quotas
from ...quotas.quota_options import QuotaOptions
from ...quotas.quota_plan import plan_quotas
from ...rbac.new_namespaces import plans_for_new_namespaces
from ...task import Task, TaskFailed
from .planned_client import PlannedClient


@dataclass(frozen=True, kw_only=True)
class SourceOptions(ConcurrencyOptions, NamespaceOptions):
    """What declares a cluster: a directory, and what the playbook provision takes beside it."""

    src: list[str] = option("list", elements="path", required=True)
    policies: list[str] | None = option("list", elements="path")
    node_labels: dict[str, Any] | None = option("dict")
    source: str | None = option("str")
    namespace: str | None = option("str")
    cluster: str | None = option("str")


@dataclass(frozen=True, kw_only=True)
class DirectoryOptions(SourceOptions, DeclaringOptions):
    """And how the modules that provision runs apply it."""

    force: bool = option("bool", default=False)
    drain: bool = option("bool", default=False)
    rerun: str = option("str", choices=list(RERUN), default="on_change")
    upgrade: bool = option("bool", default=False)
    on_immutable: str = option("str", choices=["recreate", "fail"], default="recreate")
    recreate: bool = option("bool", default=False)
    strict: bool = option("bool", default=False)
    takeover: bool = option("bool", default=False)
    force_conflicts: bool = option("bool", default=False)
    wait_for_nodes: bool = option("bool", default=False)


@dataclass(frozen=True)
class Problem:
    """Why the directory cannot be applied. ``name`` and ``namespace`` are empty where only the text has them."""

    kind: str
    text: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class PlannedManifest:
    """What a manifest, or what follows from it, changes.

    ``kind`` is that of the manifest, or ``node`` for labels, ``queue`` for queues of pools, ``access`` for what
    accounts get in new namespaces, ``priority`` for PriorityClasses. ``plan`` has the steps, also those that the server
    refuses (``problem``). Jobs have ``job``, and those that start pods have ``fit``.
    """

    kind: str
    plan: Plan
    problem: str = ""
    job: SelectedJob | None = None
    fit: Mapping[str, Any] | None = None

    @property
    def namespace(self) -> str:
        return self.plan.namespace

    @property
    def name(self) -> str:
        return self.plan.name


JudgeJobs = Callable[[Task[JobOptions], Sequence[SelectedJob], Sequence[Plan]], Mapping[JobId, Mapping[str, Any]]]
"""Says of jobs that start pods whether they would run, in rows of gpuctl_fit_info."""


@dataclass
class DirectoryPlan:
    """``client`` reads the cluster as it is after the plans, except the workloads of jobs. ``judge`` says whether jobs
    would run; without it that is not asked."""

    client: PlannedClient
    judge: JudgeJobs | None = None
    manifests: list[PlannedManifest] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pools: PoolPlans | None = None
    declared: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """What the directory declares: namespace and name, by kind. A kind of which nothing is known is missing."""

    def add(self, kind: str, plans: Iterable[Plan]) -> None:
        """Add what is applied before the jobs, and go on from there."""
        plans = list(plans)
        self.manifests += [PlannedManifest(kind, plan) for plan in plans]
        self.client.assume(plans)

    def declare(self, kind: str, places: Iterable[tuple[str, str]]) -> None:
        self.declared.setdefault(kind, []).extend(places)


def plan_directory(task: Task[Any], options: DirectoryOptions, judge: JudgeJobs | None = None) -> DirectoryPlan:
    """Raises ManifestErrors for manifests that cannot be read, MissingLibrary, and ConnectionProblem.

    Without ``judge``, the server is only read: no dry runs validate the plans.
    """
    found = DirectoryPlan(PlannedClient(task.client(), reads_only=judge is None), judge)
    task = replace(task, check_mode=True, warn=found.warnings.append, opened_client=found.client)
    parts: tuple[tuple[str, Callable[[Task[Any], DirectoryOptions, DirectoryPlan], None]], ...] = (
        ("pool", _plan_pools),
        ("quota", _plan_quotas),
        ("policy", _plan_policies),
        ("node", _plan_labels),
        ("job", _plan_jobs),
    )
    for kind, plan in parts:
        try:
            plan(task, options, found)
        except (ConnectionProblem, MissingLibrary):
            raise
        except (KubeError, TaskFailed) as problem:
            found.problems.append(Problem(kind, _message_of(problem)))
    found.warnings = list(dict.fromkeys(found.warnings))
    return found


OptionsT = TypeVar("OptionsT", bound=Options)


def _options_of(module: type[OptionsT], options: DirectoryOptions, **given: Any) -> OptionsT:
    """The options of a module: those that the directory has too, and what is given."""
    shared = {each.name for each in fields(module)} & {each.name for each in fields(options)}
    return module(**{**{name: getattr(options, name) for name in shared}, **given})


def _message_of(problem: Exception) -> str:
    """Without what goes without saying."""
    return "\n".join(line for line in str(problem).splitlines() if line != "Nothing was changed.")


# -- pools -------------------------------------------------------------------------------------------------------------


def _plan_pools(task: Task[Any], options: DirectoryOptions, found: DirectoryPlan) -> None:
    own = _options_of(PoolOptions, options, allow_empty=True)
    task = task.with_options(own)
    requests = select_pools(own)
    found.declare("pool", (("", request.name) for request in requests))
    if not requests:
        return
    limited = allowed_namespaces(task) is not None
    found.pools = plans = plan_pools(
        found.client, requests, force=own.force, keep_going=True, options=own, limited=limited
    )
    found.problems += [Problem("pool", text) for text in plans.blockers]
    found.warnings += plans.warnings
    if not plans.blockers:
        try:
            validate_pools(found.client, plans, task.warn)
        except (KubeError, TaskFailed) as problem:
            found.problems.append(Problem("pool", _message_of(problem)))
    for pool, jobs in jobs_on_divided_nodes(task, plans).items():
        names = ", ".join(f"{namespace}/{name}" for namespace, name in jobs)
        drained = f"pool {pool}: jobs are paused while their devices are divided otherwise: {names}."
        task.warn(drained if own.drain else disturbance(pool, jobs))
    found.add("pool", _plans_by_pool(plans))
    if plans.changed:
        _plan_priorities(task, found)
    if queued := queued_pools(plans.declarations) or queued_pools(plans.live.declarations):
        found.add("queue", plans_for_queues(task, queued_pools(plans.declarations) if queued else {}))


def _plan_priorities(task: Task[Any], found: DirectoryPlan) -> None:
    """The PriorityClasses that pools and quotas bring with them."""
    missing = [step for step in priority_class_steps(found.client, task.warn) if step.action is Action.CREATE]
    found.add("priority", [Plan("PriorityClasses", "", "", tuple(missing))] if missing else [])


def _plans_by_pool(plans: PoolPlans) -> Iterator[Plan]:
    """The declaration and the labels of each pool. A node that moves counts for the pool that gets it."""
    declarations = {plan.name: plan for plan in plans.config_maps}
    labels = {change.node: change for change in plans.label_changes}
    for pool in plans.membership.pools:
        nodes = (*pool.added, *pool.changed_types, *pool.divided, *pool.nodes, *pool.removed)
        steps = [label_step(labels.pop(node)) for node in dict.fromkeys(nodes) if _is_of(labels.get(node), pool.name)]
        declaration = declarations.pop(pool.name, Plan(pool.name, "", "pool"))
        yield replace(declaration, steps=(*declaration.steps, *steps))
    yield from declarations.values()  # of pools that lose nodes to others
    for change in labels.values():
        yield Plan(change.node, "", "node", (label_step(change),))


def _is_of(change: LabelChange | None, pool: str) -> bool:
    """Whether the change of a node is one of the pool: it gets or loses the node, or labels one that it has."""
    return change is not None and change.labels.get(POOL, pool) in (pool, None)


def label_step(change: LabelChange) -> Step:
    """A change of a node's labels as a step. Pure."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": dict(change.metadata)}
    changes = (
        Change(
            ("metadata", "labels", key),
            ABSENT if (before := change.based_on.get(key)) is None else before,
            ABSENT if after is None else after,
        )
        for key, after in change.labels.items()
    )
    return Step(Action.UPDATE, {}, node, tuple(changes))


# -- quotas and policies -----------------------------------------------------------------------------------------------


def _plan_quotas(task: Task[Any], options: DirectoryOptions, found: DirectoryPlan) -> None:
    # ``force`` is that of pools and labels. Quotas and jobs have another of this name, which deletes.
    own = _options_of(QuotaOptions, options, allow_empty=True, force=False)
    quota_task = task.with_options(own)
    quotas, mistakes = select_quotas(own)
    require_allowed(quota_task, [namespace for quota in quotas for namespace in quota.namespaces], "users")
    found.declare("quota", ((namespace, quota.quota.name) for quota in quotas for namespace in quota.namespaces))
    if not quotas:
        return
    read_declared(found.client, task.warn)
    planned = plan_quotas(quotas, read_live_quotas(found.client), own)
    require_allowed(quota_task, (each.namespace for each in planned.plans if each.changed), "quota")
    found.problems += [Problem("quota", text) for text in planned.blockers]
    found.warnings += planned.warnings
    _dry_runs, errors = validate_quotas(quota_task, planned.plans)
    found.problems += [Problem("quota", text) for text in errors]
    found.add("quota", planned.plans)
    if not any(plan.changed for plan in planned.plans):
        return
    found.warnings += mistakes
    if queued := queued_pools(read_declared(found.client, task.warn).pools):
        found.add("queue", plans_for_queues(task, queued))
    found.add("access", plans_for_new_namespaces(task, created_namespaces(planned.plans)))
    _plan_priorities(task, found)


def _plan_policies(task: Task[Any], options: DirectoryOptions, found: DirectoryPlan) -> None:
    if options.policies is None:
        return
    given = [_options_of(PolicyOptions, options, src=file) for file in options.policies]
    policies = [(own, rules) for own in given if (rules := rules_in(own)) is not None]
    # All of them before any is planned: one that cannot be must not make the others seem to be no longer declared.
    found.declare("policy", (("", rules.name) for _own, rules in policies))
    for own, rules in policies:
        try:
            plan = plan_policy(task.with_options(own), rules.name, rules)
        except TaskFailed as problem:
            found.problems.append(Problem("policy", _message_of(problem), "", rules.name))
            continue
        executor = Executor(found.client, check_mode=True, gone_timeout=0, warn=task.warn)
        (result,) = executor.apply_plans([plan], keep_going=True)
        if result and result.error:
            found.problems.append(Problem("policy", f"policy {rules.name}: {result.error}", "", rules.name))
        found.add("policy", [plan])


# -- labels of nodes ---------------------------------------------------------------------------------------------------


def _plan_labels(task: Task[Any], options: DirectoryOptions, found: DirectoryPlan) -> None:
    """As the role does, a task for each distinct set of labels."""
    sets: dict[tuple[tuple[str, Any], ...], list[str]] = {}
    wanted = options.node_labels or {}
    for node, labels in wanted.items():
        if labels:
            sets.setdefault(tuple(sorted(labels.items())), []).append(node)
    found.declare("node", (("", node) for node in wanted))
    for given, nodes in sets.items():
        own = NodeLabelOptions(nodes=nodes, labels=dict(given), overwrite=options.force, continue_on_error=True)
        planned = plan_node_labels(task.with_options(own), desired_labels(own))
        found.problems += [Problem("node", each.message, "", each.node) for each in planned.failures]
        steps = [Plan(change.node, "", "node", (label_step(change),)) for change in planned.changes]
        same = [Plan(node, "", "node") for node in planned.unchanged]
        declarations = planned.declarations([*(change.node for change in planned.changes), *planned.unchanged])
        found.add("node", [*steps, *same, *declarations])


# -- jobs --------------------------------------------------------------------------------------------------------------


def _plan_jobs(task: Task[Any], options: DirectoryOptions, found: DirectoryPlan) -> None:
    names: list[str] | None = [] if options.cluster else None  # placement is compared here
    own = _options_of(JobOptions, options, allow_empty=True, force=False, continue_on_error=True, cluster_names=names)
    job_task = task.with_options(own)
    # What the directory declares of pools and quotas is known here, so it is judged.
    jobs = [replace(job, declared=frozenset()) for job in select_jobs(job_task, builds_objects=True)]
    found.declare("job", (job.id for job in jobs))
    if cluster := options.cluster:
        jobs = [job for job in jobs if job.model and is_provisioned_in(cluster, job.model, task.warn)]
    jobs = _buildable_jobs(jobs, found, task.warn)
    if not jobs:
        return
    state, record = STATES["present"], RunRecord(job_task, jobs)
    executor = Executor(
        found.client, check_mode=True, gone_timeout=0, warn=task.warn, force_conflicts=own.force_conflicts
    )
    try:
        planned = plan_jobs(job_task, state, jobs, record.ledger)
    except PlansRejected as problem:
        found.problems.append(Problem("job", _message_of(problem)))
        return
    results = apply_plans(job_task, state, jobs, planned, record, executor)
    done = [result for result in results if result and result.error is None]
    plans = [one.plan for one in done]
    fits = found.judge(job_task, jobs, plans) if found.judge else {}
    changed = (plan for plan in planned if plan.changed)
    found.warnings += gang_advice(plan.steps[0].desired for plan in changed if plan.steps and plan.steps[0].desired)
    for job, plan, result in zip(jobs, planned, results, strict=True):
        error = result.error if result and result.error else ""
        found.manifests.append(PlannedManifest(str(job.kind), plan, error, job, fits.get(job.id)))
        if error:
            found.problems.append(Problem(str(job.kind), error, job.namespace, job.name))


def _buildable_jobs(jobs: list[SelectedJob], found: DirectoryPlan, warn: Callable[[str], None]) -> list[SelectedJob]:
    """The jobs that can be built; the others ask for what the hardware of their pools does not have."""
    declared = read_declared(found.client, warn)
    fitting = []
    for job in jobs:
        try:
            job.built(declared)
        except UnfitHardware as problem:
            found.problems.append(Problem(str(job.kind), f"{job.origin}, {problem}", job.namespace, job.name))
        else:
            fitting.append(job)
    return fitting
