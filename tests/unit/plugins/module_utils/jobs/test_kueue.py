# SPDX-License-Identifier: BSD-2-Clause
"""Kueue's Workloads are found by the uid of their Job, in the version that the server prefers."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_plans import read_admissions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import KubeError

from ..kube.conversation import Exchange, conversation

GROUP = "/apis/kueue.x-k8s.io"
SERVED = {
    "name": "kueue.x-k8s.io",
    "preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2", "version": "v1beta2"},
}
APPS = {"name": "apps", "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}
QUERY = {"limit": "500", "labelSelector": "kueue.x-k8s.io/job-uid"}
JOBS = {("ml", "train"): {"metadata": {"uid": "1"}}, ("ml", "new"): {"metadata": {"uid": "2"}}}


def workload(uid: str) -> dict[str, Any]:
    metadata = {"name": f"job-{uid}", "namespace": "ml", "labels": {"kueue.x-k8s.io/job-uid": uid}}
    return {"metadata": metadata, "spec": {"active": True}}


def read(jobs: Any, *exchanges: Exchange) -> Any:
    with conversation(*exchanges) as url:
        return read_admissions(Client(Connection(url, authorization=dict, retries=0)), jobs)


def test_one_list_for_a_namespace_answers_for_all_jobs():
    found = read(
        JOBS,
        Exchange("GET", "/apis", answer={"kind": "APIGroupList", "groups": [APPS, SERVED]}),
        Exchange(
            "GET",
            f"{GROUP}/v1beta2/namespaces/ml/workloads",
            QUERY,
            answer={"kind": "WorkloadList", "items": [workload("1"), workload("of another job")]},
        ),
    )
    assert found.keys() == {("ml", "train")}
    assert found["ml", "train"]["apiVersion"] == "kueue.x-k8s.io/v1beta2"


def test_nothing_is_asked_when_no_job_is_in_a_queue():
    assert read({}) == {}


def test_without_kueue_the_jobs_are_named():
    with pytest.raises(KubeError, match="new in namespace ml, train in namespace ml"):
        read(JOBS, Exchange("GET", "/apis", answer={"kind": "APIGroupList", "groups": [APPS]}))
