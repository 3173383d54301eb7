# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Patch only the changes of a step into the live object, unless someone else has changed those fields meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..kube.client import Client
from ..kube.errors import ApiError, KubeError
from ..kube.resources import resource_of
from .fields import ABSENT, Change, value_at
from .plan import Step

_TRIES = 5


def patch(client: Client, step: Step, *, dry_run: bool) -> dict[str, Any]:
    """The live object with the changes of the step.

    The patch is guarded by the resourceVersion. Controllers change that all the time, so after a conflict only the
    fields of the changes are compared. Raises KubeError if they differ from what the plan was made for.
    """
    live = step.live
    for _try in range(_TRIES):
        try:
            return client.merge_patch(resource_of(live), live["metadata"], _merge_patch(step.changes), dry_run=dry_run)
        except ApiError as error:
            if error.status != 409:
                raise
            problem = error
        now = client.get(resource_of(live), live["metadata"].get("namespace"), live["metadata"]["name"])
        if now is None or now["metadata"]["uid"] != live["metadata"]["uid"]:
            raise KubeError(f"{step.kind} {step.name} was deleted in the meantime. Run the task again.")
        if all(value_at(now, change.path) == change.after for change in step.changes):
            return now  # Our own write, whose response was lost; or someone else made the same change.
        for change in step.changes:
            if value_at(now, change.path) != change.before:
                raise KubeError(
                    f"{change} of {step.kind} {step.name} was changed by someone else in the meantime. "
                    f"Run the task again."
                )
        live = now
    raise problem


def _merge_patch(changes: Iterable[Change]) -> dict[str, Any]:
    """A JSON merge patch (RFC 7386): null removes a field."""
    root: dict[Any, Any] = {}
    for change in changes:
        node = root
        for name in change.path[:-1]:
            node = node.setdefault(name, {})
        node[change.path[-1]] = None if change.after is ABSENT else change.after
    return root
