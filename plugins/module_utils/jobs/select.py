# SPDX-License-Identifier: BSD-2-Clause
"""The jobs of a task: named by its options, or built from its manifests. No request is sent here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from ..accelerators.hardware import DEFAULT_ACCELERATOR, UnfitHardware
from ..cluster.admission import JobQueue
from ..cluster.declared import Declared
from ..kube.errors import KubeError
from ..labels import DEFAULT_NAMESPACE, DEFAULT_POOL
from ..manifest.problems import abridged
from ..manifest.secrets import secret_values
from ..namespaces import allowed_namespaces, job_namespace_problem, namespace_problem, own_namespace, require_job_name
from ..task import Task, TaskFailed
from .job_options import JOB_KINDS, not_scalable_reason
from .job_queues import dispatch_problem, is_dispatched, kept_queue, pool_queue
from .objects.pod_levels import as_restricted

if TYPE_CHECKING:
    from ..manifest.job_blocks import JobManifest
    from ..manifest.job_models import Compute, Inference, Notebook, Training
    from ..manifest.policy_model import Policy
    from ..manifest.validation import Document
    from ..policies.policy_rules import PolicyRules
    from .job_options import JobOptions

# The fields of ``resources`` that the hardware of the pool decides about.
_HARDWARE = ("accelerator", "gpu", "gpu_share", "gpu_type")


@dataclass(frozen=True)
class SelectedJob:
    """One job of the task, with its objects where the state of the task needs them.

    ``warnings`` are advice about what is built, ``mistakes`` what is probably wrong in the manifest, and ``certain``
    those of them that are wrong in every cluster.
    ``former_commands`` are what former versions of the collection ran (see Built).
    ``manifest`` is the digest of a training's manifest, ``former_manifests`` are those that earlier versions recorded.
    ``origin`` is where the manifest is from. ``declared`` has ``pool`` and ``quota`` where manifests of these kinds,
    for the pool and the namespace of the job, are among those of the task. The objects are built from the ``model``
    once it is known what administrators declare. ``host_policy`` is that of the host that runs the task.
    """

    namespace: str
    name: str
    kind: str | None
    objects: tuple[dict[str, Any], ...] = ()
    priority_class: Mapping[str, Any] | None = None
    former_commands: tuple[tuple[str, list[str]], ...] = ()
    warnings: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    certain: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict, compare=False)
    manifest: str | None = None
    former_manifests: tuple[str, ...] = ()
    origin: str = ""
    declared: frozenset[str] = frozenset()
    model: JobManifest | None = None
    host_policy: PolicyRules | None = None

    @property
    def pool(self) -> str:
        """The pool that its manifest names, or "" without a manifest."""
        return self.model.resources.pool if self.model else ""

    @property
    def asks_for_hardware(self) -> bool:
        """Whether it matters to the job what its pool declares."""
        if self.model is None:
            return False
        resources, distributed = self.model.resources, getattr(self.model, "distributed", None)
        return (
            any(getattr(resources, name) for name in _HARDWARE)
            or resources.interconnect != "none"
            or (distributed is not None and distributed.placement.within is not None)
        )

    @property
    def reads_declared(self) -> bool:
        """Whether the job is built otherwise for what its pool declares: of its hardware, or of a queue."""
        return self.asks_for_hardware or (self.model is not None and self.model.resources.pool != DEFAULT_POOL)

    @property
    def claims_devices(self) -> bool:
        return any(obj["kind"] == "ResourceClaimTemplate" for obj in self.objects)

    def built(self, declared: Declared, queue: JobQueue | None = None) -> SelectedJob:
        """The job with its objects, in the given queue or its pool's. Raises UnfitHardware."""
        from ..manifest.job_blocks import Queue
        from .objects.job_objects import build

        model = cast("Training | Inference | Notebook | Compute", self.model)
        pool = declared.pools.get(model.resources.pool)
        if queue is None and pool and pool.queue and model.queue.backend == "none":
            queue = pool_queue(pool.queue.backend, pool.name, self.namespace)
        if queue is not None:  # Not validated: names of queues may be longer than those that a manifest may choose.
            model = model.model_copy(update={"queue": Queue.model_construct(**queue._asdict())})
        built = build(model, self.namespace, declared.hardware(model.resources.pool))
        if is_dispatched(pool) and (problem := dispatch_problem(built.objects)):
            raise UnfitHardware("resources.pool", *problem)
        return replace(
            self,
            objects=tuple(built.objects),
            priority_class=built.priority_class,
            former_commands=built.former_commands,
            warnings=(*built.warnings, *self._unknown_pool(declared)),
        )

    def in_former_queue(self, declared: Declared, live: Sequence[dict[str, Any]]) -> SelectedJob:
        """The built job as it stays in the queue that it started in."""
        queue = kept_queue(self.objects[0], live)
        return self if queue is None else self.built(declared, queue)

    def _unknown_pool(self, declared: Declared) -> Iterator[str]:
        resources = self.model.resources if self.model else None
        if declared.known or resources is None or resources.accelerator or resources.pool == DEFAULT_POOL:
            return
        if self.asks_for_hardware:
            yield (
                f"the account may not read what pool {resources.pool} declares, so its nodes count as nodes with "
                f"{DEFAULT_ACCELERATOR}. Grant it the level submit again with M(gpuctl_rbac), or set "
                f"resources.accelerator."
            )

    @property
    def restricted(self) -> tuple[dict[str, Any], ...]:
        """The objects for a namespace of the Pod Security level restricted."""
        workload, *dependents = self.objects
        return as_restricted(workload), *dependents

    @property
    def forms(self) -> Iterator[tuple[dict[str, Any], ...]]:
        """All forms in which a live job may have been built."""
        from .objects.older_servers import without_feature

        yield self.objects
        yield self.restricted
        if older := without_feature(self.objects):
            yield older
            yield replace(self, objects=older).restricted

    def place(self, path: str) -> str:
        """Where a manifest says something, for messages, and as it is written there."""
        written = self.as_written(path)
        return f"{self.origin}, {written}" if self.origin else written

    def as_written(self, path: str) -> str:
        """The path of a field in the spelling of the manifest."""
        return self.spellings.get(path, path)

    @property
    def id(self) -> tuple[str, str]:
        return self.namespace, self.name


def build_jobs(jobs: Iterable[SelectedJob], declared: Declared) -> list[SelectedJob]:
    """The jobs with their objects. Raises TaskFailed for those that ask for what the hardware does not have."""
    built, refused = [], []
    for job in jobs:
        try:
            built.append(job.built(declared))
        except UnfitHardware as problem:
            refused.append(f"{job.origin}, {problem}")
    if refused:
        if not declared.known:
            refused.append("The account may not read what administrators declare of accelerators and pools.")
        raise TaskFailed.before_any_write(refused)
    return built


def select_jobs(task: Task[JobOptions], *, builds_objects: bool) -> list[SelectedJob]:
    """The jobs of the task. Raises TaskFailed and ManifestErrors."""
    options = task.options
    task.require_non_negative("replicas", "wait_timeout")
    if options.source or options.adopt:
        from ..declared_source import require_usable  # Here: few tasks have a source.

        require_usable(options)
    if options.replicas is not None and options.state != "present":
        raise TaskFailed(
            f"O(replicas) is only valid with O(state=present): O(state) is {options.state}. Remove one of them."
        )
    if options.name:
        if options.state == "present" and options.replicas is None and not options.wait:
            raise TaskFailed(
                f"O(name) alone changes nothing: {options.name}. Set O(wait=true) to wait for the job, O(replicas) to "
                f"scale it, or give its manifest with O(src) or O(definition)."
            )
        own = own_namespace(task, options.namespace)
        if problem := _namespace_rule(task)(own.name):
            raise TaskFailed(f"{own.origin}: {problem} Nothing was changed.")
        require_job_name(options.name)
        return [SelectedJob(own.name, options.name, options.kind)]
    return _from_manifests(task, builds_objects)


def _from_manifests(task: Task[JobOptions], builds_objects: bool) -> list[SelectedJob]:
    from ..manifest.digest import digest_of, former_digests_of
    from ..manifest.host_paths import HostPaths
    from ..manifest.job_blocks import JobManifest
    from ..manifest.job_models import Compute, Inference, Training
    from ..manifest.kinds import is_pool, is_quota
    from ..manifest.load import host_paths_of, load

    options, replicas = task.options, task.options.replicas
    namespace_problem_of = _namespace_rule(task)
    jobs, others, refused = [], [], []
    # What a job mounts, and what policies allow of it, does not matter to its deletion.
    policy = _host_policy(task) if builds_objects else None
    host_paths = (host_paths_of(policy) if policy else HostPaths()) if builds_objects else None
    rules = _rules_of(policy) if policy else None

    def load_in(namespace: str) -> list[Document]:
        return load(options.src or (), options.definition, namespace, host_paths)

    try:
        own = own_namespace(task, options.namespace)
    except (KubeError, ImportError):
        load_in(DEFAULT_NAMESPACE)  # Problems of the manifests first: they need no cluster.
        raise
    documents = load_in(own.name)
    pools = {each.model.pool.name for each in documents if is_pool(each.model)}
    limited = {name for each in documents if is_quota(each.model) for name in each.model.namespaces}
    for document in documents:
        model = document.model
        if not isinstance(model, JobManifest):
            others.append(f"{document.origin} ({model.kind})")
            continue
        task.definition_secrets |= secret_values(model)
        namespace = model.job.namespace or own.name
        if options.only is not None and f"{namespace}/{model.job.name}" not in options.only:
            continue
        if problem := namespace_problem_of(namespace):
            place = "job.namespace" if model.job.namespace else own.origin
            refused.append(f"{document.origin}, {place}: {problem}")
            continue
        if not builds_objects:
            jobs.append(SelectedJob(namespace, model.job.name, model.kind))
            continue
        if replicas is not None:
            autoscaled = isinstance(model, Inference) and model.autoscaling is not None
            reason = not_scalable_reason(model.kind, autoscaled=autoscaled)
            if reason is None and isinstance(model, (Inference, Compute)):
                model = model.model_copy(update={"service": model.service.model_copy(update={"replicas": replicas})})
            else:
                refused.append(f"{document.origin}: replicas of {model.kind} {model.job.name}: {reason}")
                continue
        names = options.cluster_names
        if names and options.allow_empty and not is_provisioned_in(names[0], model, task.warn):
            continue
        if problem := _placement_problem(task, model, names):
            refused.append(f"{document.origin}, placement: {problem}")
            continue
        jobs.append(
            SelectedJob(
                namespace,
                model.job.name,
                model.kind,
                mistakes=document.warnings,
                certain=document.certain,
                spellings=document.spellings,
                manifest=digest_of(model) if isinstance(model, Training) else None,
                former_manifests=former_digests_of(model) if isinstance(model, Training) else (),
                origin=str(document.origin),
                declared=frozenset(
                    kind
                    for kind, is_declared in (("pool", model.resources.pool in pools), ("quota", namespace in limited))
                    if is_declared
                ),
                model=model,
                host_policy=rules,
            )
        )
    if refused:
        raise TaskFailed.before_any_write(refused)
    if not jobs and not options.allow_empty:
        raise TaskFailed(
            f"no job found, only: {', '.join(others)}. The kinds of jobs are {', '.join(JOB_KINDS)}; use "
            f"M(gpuctl_pool,gpuctl_quota) for the others."
        )
    return jobs


def _placement_problem(task: Task[JobOptions], model: JobManifest, names: Sequence[str] | None) -> str | None:
    """Why a job does not belong in the cluster of the task, which inventories know by ``names``."""
    wanted = [*model.placement.clusters, *model.placement.groups] if model.placement else []
    if wanted and names is None:
        task.warn(
            f"placement of job {model.job.name}: not compared, because it is not known which cluster this is. The "
            f"playbook submit compares it, or set O(cluster_names)."
        )
    if not names or not wanted or set(wanted) & {*names, "all"}:
        return None
    return (
        f"the job is for {abridged(wanted, 3)}, and this cluster is {names[0]}. Use an inventory with such a cluster "
        f"and no limit to others, or change placement."
    )


def is_provisioned_in(cluster: str, model: JobManifest, warn: Callable[[str], None]) -> bool:
    """Whether a directory brings the job to this cluster: several clusters are provisioned from one directory, and a
    job that may run in more than one of them must not be in two."""
    placement = model.placement
    if placement is None or (placement.clusters, placement.groups) == ([cluster], []):
        return True
    if placement.groups or not placement.clusters or {cluster, "all"} & {*placement.clusters}:
        warn(f"placement of job {model.job.name}: left out, because the playbook submit chooses its cluster.")
    return False


def _namespace_rule(task: Task[JobOptions]) -> Callable[[str], str | None]:
    """What is wrong with a namespace for the jobs of the task. A job that is where none belongs can be deleted."""
    rule = namespace_problem if task.options.state == "absent" else job_namespace_problem
    allowed = allowed_namespaces(task)
    return lambda namespace: rule(namespace, allowed)


def _host_policy(task: Task[JobOptions]) -> Policy | None:
    """The policy of the host that runs the task. It is no part of what the author of a manifest writes."""
    from ..manifest.load import load_policy

    file = task.options.policy or task.environ.get("GPUCTL_POLICY")
    return load_policy(file) if file else None


def _rules_of(policy: Policy) -> PolicyRules:
    from ..policies.policy_rules import rules_of  # Here: few hosts have a policy.

    return rules_of(policy)
