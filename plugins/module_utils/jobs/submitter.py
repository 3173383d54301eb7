# SPDX-License-Identifier: BSD-2-Clause
"""Who submitted a job, as it is recorded on its workload; ownership.py compares it before another user changes it.

An annotation of the workload has the record, never its pod template: another submitter must not restart pods. An
account that can write the workload can forge it: it protects from accidents, not from attackers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..labels import SUBMITTED_BY

# The action plugins pass on what AWX gives its jobs as extra variables (see plugin_utils/awx.py).
AWX_USER, AWX_JOB = "GPUCTL_AWX_USER", "GPUCTL_AWX_JOB"

LONGEST = 256  # characters of a name


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
    return submitter if all(isinstance(each, str) and len(each) <= LONGEST for each in texts) else None


def submitter_title(workload: Mapping[str, Any]) -> str | None:
    """Who submitted a workload, for people; None if no submitter is recorded."""
    text = (workload["metadata"].get("annotations") or {}).get(SUBMITTED_BY)
    if text is None:
        return None
    submitter = read_submitter(text)
    return submitter.title if submitter else "a user that its annotation does not name"
