# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The writes of quotas that are not the executor's: dry runs before everything, and the end of unenforced keys."""

from __future__ import annotations

from typing import Any

from ..engine.apply import ApplyResult
from ..engine.plan import Action, Plan, Step
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import NAMESPACE, RESOURCE_QUOTA, resource_of
from .usage import UNENFORCED_KEYS

_ATTEMPTS = 5


def dry_run(client: Client, step: Step, plan: Plan, *, force_conflicts: bool) -> dict[str, Any] | None:
    """Have the server judge one step; its answer, or None where it cannot predict one. Raises ApiError.

    In a namespace that is yet to be made the server has judged the rights, and nothing more, when it says that it is
    not there (authorization comes first, NamespaceLifecycle in admission).
    """
    if step.action is Action.UNCHANGED:
        return step.live
    namespace_to_come = any(s.kind == "Namespace" and s.action is Action.CREATE for s in plan.prerequisites)
    if namespace_to_come and plan.prerequisites[0].live:
        return None  # The former namespace is on its way out; it takes nothing new.
    try:
        if step.action is Action.DELETE:
            client.delete(resource_of(step.live), step.live["metadata"], propagation="Background", dry_run=True)
            return None
        return client.apply(step.desired, dry_run=True, force=force_conflicts)
    except ApiError as error:
        if namespace_to_come and error.status == 404 and step.kind != NAMESPACE.kind:
            return None
        raise


def drop_unenforced(client: Client, outcome: ApplyResult) -> None:
    """Take keys out of the ResourceQuota that limit nothing; an apply only removes what we applied ourselves.

    The quota controller writes the status at about the same time, so the object is read anew when it has moved on.
    """
    for (kind, name), obj in list(outcome.objects.items()):
        unenforced = unenforced_keys(obj) if kind == RESOURCE_QUOTA.kind else []
        if not unenforced:
            continue
        patch = {"spec": {"hard": dict.fromkeys(unenforced)}}
        for attempt in range(_ATTEMPTS):
            try:
                outcome.objects[kind, name] = client.merge_patch(RESOURCE_QUOTA, obj["metadata"], patch)
                break
            except ApiError as error:
                now = client.get(RESOURCE_QUOTA, outcome.plan.namespace, name)
                if error.status != 409 or now is None or attempt == _ATTEMPTS - 1:
                    raise
                obj = now


def unenforced_keys(resource_quota: dict[str, Any]) -> list[str]:
    """What a ResourceQuota names in vain."""
    return [key for key in UNENFORCED_KEYS if key in (resource_quota.get("spec", {}).get("hard") or {})]
