# SPDX-License-Identifier: BSD-2-Clause
"""The job that curves belong to: its workload if it still exists, its life, and the names that its pods have or had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...cluster.read_jobs import WORKLOADS, JobId, read_jobs
from ...cluster.related import own_pods
from ...kube.client import Client
from ...kube.resources import POD
from ...kube.times import read_time
from ...labels import JOB_TYPE
from ..jobs.job_rows import finished_at
from ..prometheus.label_matchers import pattern_of
from .metrics_range import Life

# What the controllers append to the name of the workload (apiserver, storage/names; pkg/controller/job).
_SUFFIXES = {
    "Job": r"(?:-[0-9]+)?-[a-z0-9]{5}",
    "Deployment": r"-[a-z0-9]{1,10}-[a-z0-9]{5}",
    "StatefulSet": r"-[0-9]+",
}


@dataclass(frozen=True)
class MeasuredJob:
    """``workload`` is None for a job that does not exist any more: Prometheus may still know its pods."""

    namespace: str
    name: str
    workload: Mapping[str, Any] | None
    pods: tuple[Mapping[str, Any], ...] = ()

    @property
    def life(self) -> Life | None:
        """A job that was created again under its name is another one: earlier series are not its own."""
        if self.workload is None:
            return None
        ended = finished_at(self.workload.get("status") or {})
        created = read_time(self.workload["metadata"]["creationTimestamp"]).timestamp()
        return Life(created, read_time(ended).timestamp() if ended else None)

    @property
    def kind(self) -> str | None:
        return ((self.workload or {}).get("metadata", {}).get("labels") or {}).get(JOB_TYPE)

    @property
    def pod_pattern(self) -> str:
        """A regular expression for the names of its pods.

        Of a training, those that exist: pods of a Job are not deleted when they fail, and those of another one, called
        like a pod of this one, have names that look like its own. Of services, those that are gone as well.
        """
        names = {pattern_of(pod["metadata"]["name"]) for pod in self.pods}
        kind = self.workload["kind"] if self.workload else None
        if kind == "Job" and names:
            return "|".join(sorted(names))
        usual = [f"{pattern_of(self.name)}{suffix}" for owner, suffix in _SUFFIXES.items() if kind in (None, owner)]
        # The name of a job that is too long is cut before the suffix.
        return "|".join([*usual, *sorted(name for name in names if not name.startswith(pattern_of(self.name)))])


def read_measured_job(client: Client, job: JobId) -> MeasuredJob:
    """Four lists at once."""
    objects = read_jobs(client, [job], (*WORKLOADS, POD))[job]
    return measured_job(job, objects)


def measured_job(job: JobId, objects: Iterable[Mapping[str, Any]]) -> MeasuredJob:
    """The job among its objects; of two workloads, while it changes its kind, the newer one."""
    objects = list(objects)
    workloads = [obj for obj in objects if obj["kind"] != POD.kind]
    pods = [obj for obj in objects if obj["kind"] == POD.kind]
    workload = max(workloads, key=lambda obj: obj["metadata"]["creationTimestamp"], default=None)
    return MeasuredJob(*job, workload, tuple(own_pods(workload, pods) if workload else pods))
