# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Read Kueue's Workloads: one for each job in a Kueue queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ..cluster.live_jobs import JobId
from ..kube.client import Client
from ..kube.errors import KubeError
from ..kube.resources import KUEUE_WORKLOAD
from ..labels import KUEUE_JOB_UID


def read_admissions(client: Client, jobs: Mapping[JobId, Mapping[str, Any]]) -> dict[JobId, dict[str, Any]]:
    """Kueue's Workloads for the given Jobs, with one request per namespace. Raises KubeError without Kueue."""
    if not jobs:
        return {}
    version = client.preferred_version(KUEUE_WORKLOAD.api_version.partition("/")[0])
    if version is None:
        names = ", ".join(f"{name} in namespace {namespace}" for namespace, name in sorted(jobs))
        raise KubeError(
            f"Kueue is not installed (its API group is not served), but jobs are in its queues: {names}. Install "
            f"Kueue, or remove queue.backend kueue from the manifests. Nothing was changed."
        )
    uids: dict[str, dict[str, JobId]] = defaultdict(dict)
    for job, workload in jobs.items():
        uids[job[0]][workload["metadata"]["uid"]] = job
    resource = KUEUE_WORKLOAD._replace(api_version=version)
    found = {}
    for namespace, wanted in sorted(uids.items()):
        for admission in client.select(resource, namespace, labels=KUEUE_JOB_UID):
            uid = admission["metadata"]["labels"][KUEUE_JOB_UID]
            if uid in wanted:
                found[wanted[uid]] = admission
    return found
