# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Read what Kueue has to say about jobs in its queues: one Workload of its own for each."""

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
    """Kueue's Workloads for the given Jobs, by job, for those that have one: a list per namespace.

    Raises KubeError when Kueue is not installed.
    """
    if not jobs:
        return {}
    version = client.preferred_version(KUEUE_WORKLOAD.api_version.partition("/")[0])
    if version is None:
        names = ", ".join(f"{name} in namespace {namespace}" for namespace, name in sorted(jobs))
        raise KubeError(
            f"there is no Kueue in this cluster (its API group is not served), which decides when jobs of its queues "
            f"run: {names}. Install Kueue, or take queue.backend kueue out of the manifests. Nothing was changed."
        )
    uids: dict[str, dict[str, JobId]] = defaultdict(dict)
    for job, workload in jobs.items():
        uids[job[0]][workload["metadata"]["uid"]] = job
    resource = KUEUE_WORKLOAD._replace(api_version=version)
    found = {}
    for namespace, wanted in sorted(uids.items()):
        for admission in client.list_objects(resource, namespace, labels=KUEUE_JOB_UID):
            uid = admission["metadata"]["labels"][KUEUE_JOB_UID]
            if uid in wanted:
                found[wanted[uid]] = admission
    return found
