# SPDX-License-Identifier: BSD-2-Clause
"""The copies of trainings that are restarted: what is in them, which count, and what happens without permission."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import with_owner
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.restart_copies import (
    RestartCopies,
    RestartCopy,
    copy_in,
    revision_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import pod_selector
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task

from ..engine.objects import live, wanted
from ..kube.conversation import Exchange, conversation

REVISIONS = "/apis/apps/v1/namespaces/ml/controllerrevisions"
OURS = {"labelSelector": "app.kubernetes.io/managed-by=runwhere.gpuctl,runwhere.ai/restart-of=train"}
WRITE = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict"}
DENIED = {
    "kind": "Status",
    "code": 403,
    "reason": "Forbidden",
    "message": 'controllerrevisions.apps is forbidden: User "u" cannot create resource',
}


def ours(kind: str, name: str = "train") -> dict[str, Any]:
    obj = wanted(kind, name)
    return {**obj, "metadata": {**obj["metadata"], "labels": pod_selector("train")}}


def restart() -> Plan:
    job, service = ours("Job"), with_owner(ours("Service", "svc-train"), wanted("Job"), "uid-of-train")
    steps = (
        Step(Action.RESTART, job, live("Job")),
        Step(Action.UPDATE, service, live("Service", "svc-train"), owned=True),
    )
    return Plan("train", "ml", "training", steps)


def test_a_copy_has_the_objects_without_their_owner() -> None:
    assert copy_in(revision_of(restart())) == RestartCopy("uid-of-train", (ours("Job"), ours("Service", "svc-train")))


def test_another_content_has_another_name_because_revisions_cannot_change() -> None:
    one, other = restart(), restart()
    other.steps[0].desired["spec"] = {"parallelism": 2}
    names = {revision_of(plan)["metadata"]["name"] for plan in (one, restart(), other)}
    assert len(names) == 2


def _objects(revision: dict[str, Any]) -> list[dict[str, Any]]:
    return revision["data"]["objects"]


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "another namespace": lambda revision: _objects(revision)[0]["metadata"].update(namespace="other"),
    "another job": lambda revision: _objects(revision)[0]["metadata"].update(name="other"),
    "no label of ours": lambda revision: _objects(revision)[1]["metadata"].pop("labels"),
    "a kind that no training has": lambda revision: _objects(revision)[1].update(kind="RoleBinding"),
    "two workloads": lambda revision: _objects(revision).append(_objects(revision)[0]),
    "no workload": lambda revision: _objects(revision).pop(0),
    "nothing": lambda revision: _objects(revision).clear(),
    "no objects": lambda revision: revision["data"].update(objects="none"),
    "no data": lambda revision: revision.pop("data"),
    "no uid": lambda revision: revision["data"].pop("uid"),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_what_no_restart_has_written_is_ignored(forge: Callable[[dict[str, Any]], object]) -> None:
    revision = copy.deepcopy(revision_of(restart()))
    forge(revision)
    assert copy_in(revision) is None


def copies(url: str, warnings: list[str]) -> RestartCopies:
    task = Task(JobOptions(), {}, False, warnings.append, lambda values: None)
    task.opened_client = Client(Connection(server=url, authorization=dict, retries=0))
    return RestartCopies(task)


def test_without_permission_it_warns_once_and_restarts_all_the_same() -> None:
    warnings: list[str] = []
    with conversation(Exchange("POST", REVISIONS, WRITE, status=403, answer=DENIED)) as url:
        store = copies(url, warnings)
        store.save(restart())
        store.save(restart())
        store.discard([("ml", "train")])
    (warning,) = warnings
    assert "state=present with the manifests can" in warning
    assert "Grant list, create and deletecollection on controllerrevisions.apps there." in warning


def test_while_the_server_is_busy_no_restart_begins() -> None:
    busy = {"kind": "Status", "code": 503, "reason": "ServiceUnavailable", "message": "no endpoints"}
    with conversation(Exchange("POST", REVISIONS, WRITE, status=503, answer=busy)) as url, pytest.raises(ApiError):
        copies(url, []).save(restart())


def test_only_the_copies_of_the_job_are_deleted() -> None:
    with conversation(Exchange("DELETE", REVISIONS, OURS)) as url:
        copies(url, []).discard([("ml", "train")])


def test_a_copy_that_cannot_be_deleted_now_is_left_to_the_next_task() -> None:
    warnings: list[str] = []
    with conversation(Exchange("DELETE", REVISIONS, OURS, status=401, answer={"code": 401, "message": "no"})) as url:
        assert copies(url, warnings).discard([("ml", "train")]) == {("ml", "train")}
    (warning,) = warnings
    assert "was not deleted after its restart" in warning
