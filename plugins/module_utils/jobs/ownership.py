# SPDX-License-Identifier: BSD-2-Clause
"""Whether a task may change a job that another user submitted, and the record of who did (submitter.py)."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..engine.paths import ABSENT, Change, value_at
from ..engine.plan import WORKLOAD_KINDS, Action, Plan, Step
from ..kube.reviews import user_name
from ..labels import SUBMITTED_BY
from ..task import Task
from .submitter import AWX_JOB, AWX_USER, LONGEST, Submitter, read_submitter, submitter_title

if TYPE_CHECKING:
    from .job_options import JobOptions

_PATH = ("metadata", "annotations", SUBMITTED_BY)


def keep_submitter(objects: tuple[dict[str, Any], ...], live: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The objects of a job, the workload first, with the record of the live one: applying a manifest keeps it."""
    found = (value_at(obj, _PATH) for obj in live if obj["kind"] in WORKLOAD_KINDS)
    recorded = next((text for text in found if text is not ABSENT), None)
    if recorded is None:
        return objects
    return (_annotated(objects[0], recorded), *objects[1:])


class Ownership:
    """Whether a task may change jobs, by who submitted them.

    The server is only asked who the task is once that matters: where something is about to be written.
    """

    def __init__(self, task: Task[JobOptions]) -> None:
        self._task = task

    @cached_property
    def submitter(self) -> Submitter:
        """Who runs this task. Raises KubeError."""
        environ = self._task.environ
        awx_user, awx_job = environ.get(AWX_USER), environ.get(AWX_JOB)
        # What authentication makes of the credentials; the user of a kubeconfig is only a name in that file.
        kubernetes_user = user_name(self._task.client()) if not awx_user else None
        names = (text and text[:LONGEST] for text in (kubernetes_user, awx_user, awx_job))
        return Submitter(_system_user()[:LONGEST], socket.gethostname()[:LONGEST], *names)

    def refusal(self, workload: Mapping[str, Any]) -> str | None:
        """Why a live workload must not be changed. One without a record, as of version 1.0.0, has no owner."""
        text = value_at(workload, _PATH)
        if text is ABSENT or self._task.options.takeover:
            return None
        recorded = read_submitter(text)
        if recorded and recorded.is_same(self.submitter):
            return None
        created = workload["metadata"].get("creationTimestamp", "an unknown time")
        return (
            f"it belongs to another user: {submitter_title(workload)}, since {created}. This task runs as "
            f"{self.submitter.title}. Ask them, or use O(takeover=true) to change it all the same."
        )

    def signed(self, plan: Plan) -> Plan:
        """The plan, in which a workload that is written records who submits it, unless that is the same as before."""
        if not plan.steps or plan.steps[0].kind not in WORKLOAD_KINDS or not plan.steps[0].desired:
            return plan
        step = plan.steps[0]
        recorded = read_submitter(text) if isinstance(text := value_at(step.live, _PATH), str) else None
        if step.action is Action.UNCHANGED or (recorded and recorded.is_same(self.submitter)):
            return plan
        return plan.with_steps([_signed(step, str(self.submitter)), *plan.steps[1:]])


def _signed(step: Step, text: str) -> Step:
    desired = _annotated(step.desired, text)
    replacement = _annotated(step.replacement, text) if step.replacement else {}
    change = Change(_PATH, value_at(step.live, _PATH), text)
    changes = (*step.changes, change) if step.action is Action.UPDATE else step.changes
    return replace(step, desired=desired, replacement=replacement, changes=changes)


def _annotated(obj: dict[str, Any], text: str) -> dict[str, Any]:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), SUBMITTED_BY: text}}}


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # Containers may run as a number without a name.
        return str(os.getuid())
