# SPDX-License-Identifier: BSD-2-Clause
"""What is asked about jobs in queues of Volcano: two lists in a namespace, and nothing without such jobs."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.read_reasons import read_queued
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection

from ..kube.conversation import Exchange, conversation

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ml/podgroups"
EVENTS = "/api/v1/namespaces/ml/events"
ABOUT_GROUPS = {"limit": "500", "fieldSelector": "involvedObject.kind=PodGroup,reason=Unschedulable"}


def read(job: dict[str, Any], pods: list[dict[str, Any]], *exchanges: Exchange) -> Any:
    with conversation(*exchanges) as url:
        return read_queued(Client(Connection(url, authorization=dict, retries=0)), {"train": job}, {"train": pods})


def job(scheduler: str | None = "volcano") -> dict[str, Any]:
    spec = {"template": {"spec": {"schedulerName": scheduler} if scheduler else {}}}
    return {"kind": "Job", "metadata": {"name": "train", "namespace": "ml", "uid": "1"}, "spec": spec}


def pod(node: str | None = None) -> dict[str, Any]:
    owner = {"kind": "Job", "name": "train", "uid": "1", "controller": True}
    spec = {"schedulerName": "volcano", **({"nodeName": node} if node else {})}
    return {"metadata": {"name": "train-0", "namespace": "ml", "ownerReferences": [owner]}, "spec": spec}


def group(uid: str, phase: str) -> dict[str, Any]:
    metadata = {"name": f"podgroup-{uid}", "namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"queue": "q", "minMember": 2}, "status": {"phase": phase}}


def test_the_group_and_the_events_about_it():
    said = {
        "metadata": {"name": "e", "namespace": "ml", "uid": "9", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "involvedObject": {"kind": "PodGroup", "name": "podgroup-1"},
        "message": "queue resource quota insufficient",
    }
    found = read(
        job(),
        [pod()],
        Exchange("GET", GROUPS, {"limit": "500"}, answer={"items": [group("1", "Pending"), group("2", "Inqueue")]}),
        Exchange("GET", EVENTS, ABOUT_GROUPS, answer={"items": [said]}),
    )
    assert found["train"].text.endswith("by its configuration): queue resource quota insufficient")
    assert "and 1 more of this namespace wait there" in found["train"].text


def test_nothing_is_known_without_permission():
    refused = Exchange("GET", GROUPS, {"limit": "500"}, status=403, answer={"message": "podgroups is forbidden: User"})
    assert read(job(), [pod()], refused) == {}


def test_nothing_is_asked_of_what_has_its_nodes_or_another_scheduler():
    assert read(job(), [pod("node-1")]) == {}
    assert read(job(None), [pod()]) == {}
