# SPDX-License-Identifier: BSD-2-Clause
"""The job whose logs are followed, or those of a sweep: their pods, whether they have ended, and how. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ...cluster.read_jobs import JobId, job_id_of
from ...cluster.status import ENDED, FAILURES, failure_of, status_of
from ...kube.resources import Resource, resource_of
from ...logs.log_pods import sort_pods

Object = dict[str, Any]

_GONE_SECONDS = 5.0  # until a job that was deleted, and may be created again, counts as gone
_DELETED = "Deleted"


class FollowedJobs:
    """The workloads as they were seen last. ``sweep`` is the name that stands for them, if it is a sweep's."""

    def __init__(self, workloads: Sequence[Object], sweep: str | None = None) -> None:
        self._workloads = {job_id_of(workload): workload for workload in workloads}
        self._gone_since: dict[JobId, float] = {}
        (self.namespace, first), *others = self._workloads
        self.is_sweep = bool(sweep and others)
        self.name = sweep if sweep and others else first
        self.resource: Resource = resource_of(workloads[0])

    @property
    def names(self) -> set[str]:
        return {name for _namespace, name in self._workloads}

    @property
    def title(self) -> str:
        return f"{'sweep' if self.is_sweep else 'job'} {self.name}"

    def update(self, found: Iterable[Object], now: float) -> None:
        """Take over what was found of the workloads, and since when the others are gone."""
        live = {job_id_of(workload): workload for workload in found}
        for job in self._workloads:
            if job in live:
                self._workloads[job] = live[job]
                self._gone_since.pop(job, None)
            else:
                self._gone_since.setdefault(job, now)

    def sorted_pods(self, pods: Iterable[Object]) -> list[Object]:
        """Those of the jobs, one job after the other."""
        own = [pod for pod in pods if job_id_of(pod) in self._workloads]
        return sorted(sort_pods(own), key=job_id_of)

    def short_name(self, pod: Object) -> str:
        """The name of a pod without what all of them have in common."""
        name = str(pod["metadata"]["name"])
        workload = self._workloads.get(job_id_of(pod)) or {}
        short = name.removeprefix(f"{self.name}-")
        return short.rpartition("-")[2] if workload.get("kind") == "Deployment" else short

    def have_ended(self, now: float) -> bool:
        """Whether no job can have a new pod."""
        return all(
            now - self._gone_since[job] >= _GONE_SECONDS if job in self._gone_since else status_of(workload) in ENDED
            for job, workload in self._workloads.items()
        )

    def unfinished(self) -> dict[JobId, Object]:
        return {
            job: self._workloads[job] for job, status in self._statuses().items() if status not in (*ENDED, _DELETED)
        }

    @property
    def status(self) -> str:
        """The status; of a sweep that of a job that has failed, or else one that has not succeeded, if there is one."""
        found = self._statuses().values()
        worst = next((status for status in (*FAILURES, _DELETED) if status in found), None)
        return worst or next((status for status in found if status != "Succeeded"), "Succeeded")

    @property
    def status_text(self) -> str:
        """``Running``; of a sweep ``2 Running, 1 Pending``."""
        if not self.is_sweep:
            return self.status
        return ", ".join(f"{number} {status}" for status, number in Counter(self._statuses().values()).most_common())

    def failures(self) -> dict[str, str]:
        """Why jobs have failed, by name; "" where it is not known."""
        failed = [job for job, status in self._statuses().items() if status in FAILURES]
        return {job[1]: failure_of(self._workloads[job]) or "" for job in failed}

    def _statuses(self) -> dict[JobId, str]:
        return {
            job: _DELETED if job in self._gone_since else status_of(workload)
            for job, workload in self._workloads.items()
        }
