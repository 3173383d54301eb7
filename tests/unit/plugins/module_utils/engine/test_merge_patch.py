# SPDX-License-Identifier: BSD-2-Clause
"""What is sent to patch the changes of a step, and what happens after a concurrent write."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.guarded_write import guarded_patch
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import ABSENT, Change
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError, ConcurrentChange

from ..kube.conversation import Exchange, conversation
from .objects import live

PATH = "/apis/apps/v1/namespaces/ml/deployments/train"
QUERY = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict"}
KEPT = ("metadata", "annotations", "kept")
STALE = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
DELETED = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "gone"}


def deployment(version: str, replicas: int, **annotations: str) -> dict[str, Any]:
    obj = live("Deployment", spec={"replicas": replicas})
    obj["metadata"].update(resourceVersion=version, annotations=annotations)
    return obj


PAUSE = (Change(KEPT, ABSENT, "3"), Change(("spec", "replicas"), 3, 0))
RESUME = (Change(KEPT, "3", ABSENT), Change(("spec", "replicas"), 0, 3))


def patched(*exchanges: Exchange, before: dict[str, Any], changes: tuple[Change, ...] = PAUSE, dry_run: bool = False):
    with conversation(*exchanges) as url:
        client = Client(Connection(url, authorization=dict, retries=0), sleep=lambda seconds: None)
        return guarded_patch(client, Step(Action.PAUSE, {}, before, changes), dry_run=dry_run)


def sent(version: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {"kept": "3"}, "resourceVersion": version}, "spec": {"replicas": 0}, **more}


@pytest.mark.parametrize("dry_run", [False, True], ids=["run", "check"])
def test_only_the_changes_are_sent_with_the_version_that_was_read(dry_run):
    query = {**QUERY, **({"dryRun": "All"} if dry_run else {})}
    answer = deployment("2", 0, kept="3")
    exchange = Exchange("PATCH", PATH, query, sent=sent("1"), answer=answer)
    assert patched(exchange, before=deployment("1", 3), dry_run=dry_run) == answer


def test_a_removed_field_is_sent_as_null():
    body = {"metadata": {"annotations": {"kept": None}, "resourceVersion": "1"}, "spec": {"replicas": 3}}
    patched(Exchange("PATCH", PATH, QUERY, sent=body), before=deployment("1", 0, kept="3"), changes=RESUME)


def test_a_concurrent_change_of_other_fields_is_retried():
    patched(
        Exchange("PATCH", PATH, QUERY, sent=sent("1"), status=409, answer=STALE),
        Exchange("GET", PATH, answer=deployment("2", 3, team="x")),
        Exchange("PATCH", PATH, QUERY, sent=sent("2"), answer=deployment("3", 0, kept="3")),
        before=deployment("1", 3),
    )


def test_the_same_change_by_someone_else_is_accepted():
    now = deployment("2", 0, kept="3")
    stale = Exchange("PATCH", PATH, QUERY, status=409, answer=STALE)
    assert patched(stale, Exchange("GET", PATH, answer=now), before=deployment("1", 3)) == now


REFUSED = {
    "someone else has changed the same field": (
        (Exchange("GET", PATH, answer=deployment("2", 5)),),
        "another run changed Deployment train at the same time",
    ),
    "it was deleted": ((Exchange("GET", PATH, status=404, answer=DELETED),), "Deployment train was deleted"),
    "another has taken its name": (
        (Exchange("GET", PATH, answer={**deployment("2", 3), "metadata": {"name": "train", "uid": "other"}}),),
        "Deployment train was changed by someone else at the same time",
    ),
}


@pytest.mark.parametrize(("exchanges", "message"), REFUSED.values(), ids=REFUSED)
def test_a_concurrent_change_of_the_same_fields_is_an_error(exchanges, message):
    stale = Exchange("PATCH", PATH, QUERY, status=409, answer=STALE)
    with pytest.raises(ConcurrentChange, match=message):
        patched(stale, *exchanges, before=deployment("1", 3))


def test_constant_conflicts_are_an_error():
    rounds = [
        exchange
        for version in range(1, 6)
        for exchange in (
            Exchange("PATCH", PATH, QUERY, sent=sent(str(version)), status=409, answer=STALE),
            Exchange("GET", PATH, answer=deployment(str(version + 1), 3)),
        )
    ]
    with pytest.raises(ApiError, match="has been modified"):
        patched(*rounds, before=deployment("1", 3))


def test_other_errors_are_raised():
    refused = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not yours"}
    with pytest.raises(ApiError, match="not yours"):
        patched(Exchange("PATCH", PATH, QUERY, status=403, answer=refused), before=deployment("1", 3))
