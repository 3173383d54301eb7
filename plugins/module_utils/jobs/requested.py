# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What jobs a task asks for: named by its options, or built from its manifests. No request is sent here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..task import Task, TaskFailed

JOB_KINDS = ("training", "inference", "notebook", "compute")


@dataclass(frozen=True)
class RequestedJob:
    """One job of the task: its identity, and what it is made of (nothing for a deletion).

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


def requested(task: Task) -> list[RequestedJob]:
    """The jobs that the options name, built; no request has been sent when this fails."""
    default_namespace = task.params["namespace"] or "default"
    if task.params["name"]:
        return [RequestedJob(default_namespace, task.params["name"], task.params["kind"])]
    return _built(task, default_namespace)


def _built(task: Task, default_namespace: str) -> list[RequestedJob]:
    from ..build.job import build
    from ..manifest.digest import digest_of
    from ..manifest.load import load
    from ..manifest.models import Pool, Quota, Training
    from ..manifest.secrets import secret_values

    jobs, others = [], []
    for document in load(task.params["src"] or (), task.params["definition"], default_namespace):
        model = document.model
        if isinstance(model, (Pool, Quota)):
            others.append(f"{document.origin} ({model.kind})")
            continue
        task.hide(secret_values(model))
        namespace = model.job.namespace or default_namespace
        if task.params["state"] == "absent":
            jobs.append(RequestedJob(namespace, model.job.name, model.kind))
            continue
        built = build(model, namespace)
        warnings = (*document.warnings, *(f"{document.origin}: {text}" for text in built.warnings))
        jobs.append(
            RequestedJob(
                namespace,
                model.job.name,
                model.kind,
                tuple(built.objects),
                built.priority_class,
                warnings,
                digest_of(model) if isinstance(model, Training) else None,
            )
        )
    if not jobs:
        raise TaskFailed(
            f"there is no job in what was given, only: {', '.join(others)}. Job kinds are {', '.join(JOB_KINDS)}; "
            f"pools and quotas have modules of their own."
        )
    return jobs
