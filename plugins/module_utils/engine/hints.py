# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From the server's refusals to sentences that name the job and say what to do. Pure."""

from __future__ import annotations

from ..kube.errors import ApiError
from .plan import Plan


def describe(plan: Plan) -> str:
    """How messages name what a plan is about."""
    where = f" in namespace {plan.namespace}" if plan.namespace else ""
    return f"{plan.kind or 'job'} {plan.name}{where}"


def with_hint(error: ApiError, plan: Plan) -> str:
    """The server's refusal of something of the plan, with what to do about it where that is known."""
    if error.is_field_conflict:
        held = "; ".join(f"{cause.field.lstrip('.')} ({cause.message})" for cause in error.causes)
        return (
            f"fields were changed by others since, and the manifest wants other values: {held}. "
            f"Set force_conflicts to true to take them over, or put their values into the manifest."
        )
    if error.is_missing_namespace:
        return (
            f"the namespace {plan.namespace} does not exist. Create it (kubectl create namespace {plan.namespace}) "
            f"or name another one as job.namespace or the option namespace."
        )
    if error.status == 403 and "priorityclasses" in error.message:
        return f"{error}. An admin has to create the PriorityClasses gpuctl-high, gpuctl-medium and gpuctl-low once."
    return str(error)
