# SPDX-License-Identifier: BSD-2-Clause
"""What MultiKueue consists of, and what is read of it: nothing that Kueue or others have written is trusted."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.multikueue_objects import (
    activity,
    dispatching_queues,
    kubeconfig_in,
    manager_objects,
    worker_objects,
)


def test_each_object_comes_after_what_it_names():
    kinds = [obj["kind"] for obj in manager_objects({"west": "a", "north": "b"}, "kueue-system")]
    pairs = [kind for kind in ("Secret", "MultiKueueCluster") for _worker in range(2)]
    assert kinds == [*pairs, "MultiKueueConfig", "AdmissionCheck"]
    assert manager_objects({}, "kueue-system") == []  # A MultiKueueConfig needs a cluster.


def test_the_account_of_a_worker_writes_jobs_and_workloads_only():
    _account, role, binding = worker_objects()
    written = {
        f"{name}.{rule['apiGroups'][0]}"
        for rule in role["rules"]
        if {*rule["verbs"]} - {"get", "list", "watch"}
        for name in rule["resources"]
    }
    assert written == {"jobs.batch", "workloads.kueue.x-k8s.io", "workloads/status.kueue.x-k8s.io"}
    resources = {name for rule in role["rules"] for name in rule["resources"]}
    assert not resources & {"*", "secrets", "configmaps", "serviceaccounts"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


@pytest.mark.parametrize(
    "secret", [None, {}, {"data": None}, {"data": {"kubeconfig": "%"}}, {"data": {"kubeconfig": "/w=="}}]
)
def test_a_secret_that_cannot_be_read_has_no_kubeconfig(secret: dict[str, Any] | None):
    assert kubeconfig_in(secret) == ""


@pytest.mark.parametrize(
    ("obj", "is_active", "says"),
    [
        (None, None, "has not said yet"),
        ({"status": {"conditions": [{"type": "Other", "status": "True"}]}}, None, "has not said yet"),
        ({"status": {"conditions": [{"type": "Active", "status": "True"}]}}, True, ""),
        (
            {"status": {"conditions": [{"type": "Active", "status": "False", "reason": "R", "message": "m"}]}},
            False,
            "R: m",
        ),
    ],
    ids=["missing", "other", "active", "inactive"],
)
def test_what_kueue_says_of_it(obj: dict[str, Any] | None, is_active: bool | None, says: str):
    active, why = activity(obj)
    assert active is is_active
    assert says in why if says else why == ""


def test_only_queues_that_ask_the_admission_check_are_looked_for_in_workers():
    def cluster_queue(name: str, *checks: str) -> dict[str, Any]:
        strategy = {"admissionChecks": [{"name": check} for check in checks]}
        spec = {"admissionChecksStrategy": strategy} if checks else {}
        return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}

    def local_queue(namespace: str, queue: str) -> dict[str, Any]:
        metadata = {"name": "gpuctl-big", "namespace": namespace}
        return {"kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": queue}}

    live = [cluster_queue("a", "other", "gpuctl-multikueue"), cluster_queue("b", "other"), cluster_queue("c")]
    live += [local_queue("team-a", "a"), local_queue("team-b", "b"), local_queue("team-c", "c")]
    assert dispatching_queues(live) == {("team-a", "gpuctl-big")}
