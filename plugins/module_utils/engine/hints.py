# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Messages for what the server refuses: the job, the error and what to do. Pure."""

from __future__ import annotations

from ..kube.errors import ApiError
from .plan import Plan


def describe(plan: Plan) -> str:
    """How messages name the subject of a plan."""
    where = f" in namespace {plan.namespace}" if plan.namespace else ""
    return f"{plan.kind or 'job'} {plan.name}{where}"


def with_hint(error: ApiError, plan: Plan) -> str:
    """The error of a request for the plan, with a hint where there is one."""
    if error.is_field_conflict:
        held = "; ".join(f"{cause.field.lstrip('.')} ({cause.message})" for cause in error.causes)
        return (
            f"fields of the manifest were changed by others to different values: {held}. "
            f"Set force_conflicts to true to overwrite them, or copy their values into the manifest."
        )
    if error.is_missing_namespace:
        return (
            f"namespace {plan.namespace} not found. Create it (kubectl create namespace {plan.namespace}), or set "
            f"job.namespace or the option namespace to another one."
        )
    if error.status == 403 and "priorityclasses" in error.message:
        return f"{error}. An admin must create the PriorityClasses gpuctl-high, gpuctl-medium and gpuctl-low once."
    return str(error)
