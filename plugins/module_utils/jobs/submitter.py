# SPDX-License-Identifier: BSD-2-Clause
"""Who submitted a job: recorded on its workload, and compared before another user changes it.

An annotation of the workload has the record, never its pod template: another submitter must not restart pods. An
account that can write the workload can forge it: it protects from accidents, not from attackers.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.paths import ABSENT, Change, value_at
from ..engine.plan import WORKLOAD_KINDS, Action, Plan, Step
from ..kube.reviews import user_name
from ..labels import SUBMITTED_BY
from ..task import Task

if TYPE_CHECKING:
    from .job_options import JobOptions

# The action plugins pass on what AWX gives its jobs as extra variables (see plugin_utils/awx.py).
AWX_USER, AWX_JOB = "GPUCTL_AWX_USER", "GPUCTL_AWX_JOB"

_PATH = ("metadata", "annotations", SUBMITTED_BY)
_LONGEST = 256  # characters of a name


class Submitter(NamedTuple):
    """Who runs a task. AWX and the API server know a person better than the account that happens to run Ansible."""

    user: str
    host: str
    kubernetes_user: str | None = None
    awx_user: str | None = None
    awx_job: str | None = None

    def is_same(self, other: Submitter) -> bool:
        """Whether both are one person or service, as far as AWX or else Kubernetes can tell."""
        if self.awx_user or other.awx_user:
            return self.awx_user == other.awx_user
        if self.kubernetes_user and other.kubernetes_user:
            return self.kubernetes_user == other.kubernetes_user
        return (self.user, self.host) == (other.user, other.host)

    @property
    def title(self) -> str:
        """How messages name the submitter."""
        if self.awx_user:
            return f"AWX user {self.awx_user}{f' (AWX job {self.awx_job})' if self.awx_job else ''}"
        where = f"{self.user} on {self.host}"
        return f"Kubernetes user {self.kubernetes_user} ({where})" if self.kubernetes_user else where

    def __str__(self) -> str:
        """The value of the annotation."""
        return json.dumps({name: text for name, text in self._asdict().items() if text}, separators=(",", ":"))


def read_submitter(text: str) -> Submitter | None:
    """The submitter that an annotation names; None if it is not one of ours."""
    try:
        found = json.loads(text)
        submitter = Submitter(**found)
    except (RecursionError, TypeError, ValueError):
        return None
    texts = (submitter.user, submitter.host, *filter(None, submitter[2:]))
    return submitter if all(isinstance(each, str) and len(each) <= _LONGEST for each in texts) else None


def submitter_title(workload: Mapping[str, Any]) -> str | None:
    """Who submitted a workload, for people; None if no submitter is recorded."""
    text = (workload["metadata"].get("annotations") or {}).get(SUBMITTED_BY)
    if text is None:
        return None
    submitter = read_submitter(text)
    return submitter.title if submitter else "a user that its annotation does not name"


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
        names = (text and text[:_LONGEST] for text in (kubernetes_user, awx_user, awx_job))
        return Submitter(_system_user()[:_LONGEST], socket.gethostname()[:_LONGEST], *names)

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
