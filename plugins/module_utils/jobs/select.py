# SPDX-License-Identifier: BSD-2-Clause
"""The jobs of a task: named by its options, or built from its manifests. No request is sent here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..manifest.digest import digest_of
from ..manifest.secrets import secret_values
from ..task import Task, TaskFailed
from .transitions import not_scalable_reason

if TYPE_CHECKING:
    from .job import JobOptions

JOB_KINDS = ("training", "inference", "notebook", "compute")


@dataclass(frozen=True)
class SelectedJob:
    """One job of the task, with its objects where the state of the task needs them.

    ``manifest`` is the digest of a training's manifest.
    """

    namespace: str
    name: str
    kind: str | None
    objects: tuple[dict[str, Any], ...] = ()
    priority_class: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    manifest: str | None = None

    @property
    def id(self) -> tuple[str, str]:
        return self.namespace, self.name


def select_jobs(task: Task[JobOptions], *, builds_objects: bool) -> list[SelectedJob]:
    """The jobs of the task. Raises TaskFailed and ManifestErrors."""
    options = task.options
    namespace = options.namespace or "default"
    task.require_non_negative("replicas", "wait_timeout")
    if options.replicas is not None and options.state != "present":
        raise TaskFailed(f"replicas is only valid with state=present: state is {options.state}. Remove one of them.")
    if options.name:
        return [SelectedJob(namespace, options.name, options.kind)]
    return _from_manifests(task, namespace, builds_objects)


def _from_manifests(task: Task[JobOptions], default_namespace: str, builds_objects: bool) -> list[SelectedJob]:
    from ..manifest.load import load
    from ..manifest.models import Compute, Inference, Pool, Quota, Training
    from .objects.job_objects import build

    replicas = task.options.replicas
    jobs, others, not_scalable = [], [], []
    for document in load(task.options.src or (), task.options.definition, default_namespace):
        model = document.model
        if isinstance(model, (Pool, Quota)):
            others.append(f"{document.origin} ({model.kind})")
            continue
        task.definition_secrets |= secret_values(model)
        namespace = model.job.namespace or default_namespace
        if not builds_objects:
            jobs.append(SelectedJob(namespace, model.job.name, model.kind))
            continue
        if replicas is not None:
            autoscaled = isinstance(model, Inference) and model.autoscaling is not None
            reason = not_scalable_reason(model.kind, autoscaled=autoscaled)
            if reason is None and isinstance(model, (Inference, Compute)):
                model = model.model_copy(update={"service": model.service.model_copy(update={"replicas": replicas})})
            else:
                not_scalable.append(f"{document.origin}: replicas of {model.kind} {model.job.name}: {reason}")
                continue
        built = build(model, namespace)
        jobs.append(
            SelectedJob(
                namespace,
                model.job.name,
                model.kind,
                tuple(built.objects),
                built.priority_class,
                (*document.warnings, *(f"{document.origin}: {text}" for text in built.warnings)),
                digest_of(model) if isinstance(model, Training) else None,
            )
        )
    if not_scalable:
        raise TaskFailed("\n".join([*not_scalable, "Nothing was changed."]))
    if not jobs and not task.options.allow_empty:
        raise TaskFailed(
            f"no job found, only: {', '.join(others)}. The kinds of jobs are {', '.join(JOB_KINDS)}; use gpuctl_pool "
            f"and gpuctl_quota for the others."
        )
    return jobs
