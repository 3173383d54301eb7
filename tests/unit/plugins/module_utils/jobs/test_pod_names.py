# SPDX-License-Identifier: BSD-2-Clause
"""The names of pods in place of those of jobs, and pods whose labels say what their creator wanted."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from kubesim import Cluster

from .sessions import Session


def pod(name: str, job: str) -> dict[str, Any]:
    labels = {"app": job, "runwhere.ai/job-type": "training", "app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "ml:v1"}]},
    }


@pytest.mark.parametrize("jobs", [{"a": "b", "b": "a"}, {"a": "a"}], ids=["of each other", "of itself"])
def test_pods_that_say_they_are_of_jobs_that_do_not_exist(jobs: dict[str, str]) -> None:
    with Cluster(nodes=1).running() as cluster:
        for name, job in jobs.items():
            cluster.call(lambda name=name, job=job: cluster.registry.create("Pod", pod(name, job)))
        done = Session(cluster).run(JOB, name="a", state="paused")
    assert done["failed"]
    assert "not found" in done["msg"]
