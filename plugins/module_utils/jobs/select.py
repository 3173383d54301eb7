# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What jobs a task asks for: named by its options, or built from its manifests. No request is sent here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..task import Task, TaskFailed

if TYPE_CHECKING:
    from .job import JobOptions

JOB_KINDS = ("training", "inference", "notebook", "compute")


@dataclass(frozen=True)
class SelectedJob:
    """One job of the task: its identity, and what it is made of (nothing, where its name is all that is needed).

    ``manifest`` is the digest of a training's.
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


def select_jobs(task: Task[JobOptions]) -> list[SelectedJob]:
    """The jobs that the options name, built; no request has been sent when this fails."""
    default_namespace = task.options.namespace or "default"
    state = task.options.state
    task.require_non_negative("replicas", "wait_timeout")
    if task.options.replicas is not None and state != "present":
        raise TaskFailed(f"replicas goes with state=present, not with state={state}; leave one of them out.")
    if task.options.name:
        return [SelectedJob(default_namespace, task.options.name, task.options.kind)]
    return _built(task, default_namespace)


def _built(task: Task[JobOptions], default_namespace: str) -> list[SelectedJob]:
    from ..manifest.digest import digest_of
    from ..manifest.load import load
    from ..manifest.models import Compute, Inference, Pool, Quota, Training
    from ..manifest.secrets import secret_values
    from .objects.build import build

    replicas = task.options.replicas
    jobs, others, unscalable = [], [], []
    for document in load(task.options.src or (), task.options.definition, default_namespace):
        model = document.model
        if isinstance(model, (Pool, Quota)):
            others.append(f"{document.origin} ({model.kind})")
            continue
        task.mask(secret_values(model))
        namespace = model.job.namespace or default_namespace
        if task.options.state != "present":
            jobs.append(SelectedJob(namespace, model.job.name, model.kind))
            continue
        if replicas is not None:
            from .transitions import why_not_scalable

            autoscaled = isinstance(model, Inference) and model.autoscaling is not None
            why_not = why_not_scalable(model.kind, autoscaled=autoscaled)
            if why_not is None and isinstance(model, (Inference, Compute)):
                model = model.model_copy(update={"service": model.service.model_copy(update={"replicas": replicas})})
            else:
                unscalable.append(f"{document.origin}: replicas and {model.kind} {model.job.name}: {why_not}")
                continue
        built = build(model, namespace)
        warnings = (*document.warnings, *(f"{document.origin}: {text}" for text in built.warnings))
        jobs.append(
            SelectedJob(
                namespace,
                model.job.name,
                model.kind,
                tuple(built.objects),
                built.priority_class,
                warnings,
                digest_of(model) if isinstance(model, Training) else None,
            )
        )
    if unscalable:
        raise TaskFailed("\n".join([*unscalable, "Nothing was changed."]))
    if not jobs and not task.options.allow_empty:
        raise TaskFailed(
            f"there is no job in what was given, only: {', '.join(others)}. Job kinds are {', '.join(JOB_KINDS)}; "
            f"pools and quotas have modules of their own."
        )
    return jobs
