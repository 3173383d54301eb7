# SPDX-License-Identifier: BSD-2-Clause
"""What is sent to write an object only as it was planned, and what is made of conflicts and lost responses."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.guarded_write import guarded_apply, guarded_delete
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import (
    ApiError,
    ConcurrentChange,
    ConnectionProblem,
    KubeError,
)

from ..kube.conversation import Exchange, conversation
from .objects import at, live, wanted

PATH = "/apis/apps/v1/namespaces/ml/deployments/train"
QUERY = {"fieldManager": "runwhere.gpuctl", "force": "false", "fieldValidation": "Strict"}
OLD, NEW, OTHER = {"replicas": 1}, {"replicas": 2}, {"replicas": 9}
DESIRED, FOUND = wanted("Deployment", spec=NEW), live("Deployment", spec=OLD)
UID = "uid-of-train"
STALE = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
GONE = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "gone"}


def seen(version: str = "8", spec: Any = OLD, uid: str = UID, *, leaving: bool = False, **entry: str) -> Exchange:
    """The object is read again and looks like that; ``entry`` are fields of its last entry in managedFields."""
    obj = live("Deployment", spec=spec, leaving=leaving)
    obj["metadata"].update(uid=uid, resourceVersion=version)
    obj["metadata"]["managedFields"][0] |= {"time": "2026-01-02T03:04:05Z"}
    if entry:
        obj["metadata"]["managedFields"].append({"operation": "Update", "fieldsV1": {}, **entry})
    return Exchange("GET", PATH, answer=obj)


def absent() -> Exchange:
    return Exchange("GET", PATH, status=404, answer=GONE)


def patch(version: str = "", uid: str = "", *, desired: Any = DESIRED, **answer: Any) -> Exchange:
    sent = {"sent": at(desired, version, uid)} if version else {}
    return Exchange("PATCH", PATH, QUERY, **sent, **answer)


def stale(version: str = "", uid: str = "") -> Exchange:
    return patch(version, uid, status=409, answer=STALE)


def delete(preconditions: dict[str, str] | None = None, **answer: Any) -> Exchange:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    sent = {"sent": {**options, "preconditions": preconditions}} if preconditions else {}
    return Exchange("DELETE", PATH, **sent, **answer)


def play(*exchanges: Exchange, write: Any) -> Any:
    with conversation(*exchanges) as url:
        return write(Client(Connection(url, authorization=dict, retries=0), sleep=lambda seconds: None))


def apply(*exchanges: Exchange, found: Any = FOUND, **options: Any) -> dict[str, Any]:
    def write(client: Client) -> dict[str, Any]:
        return guarded_apply(client, DESIRED, found, sleep=lambda seconds: None, **options)

    result: dict[str, Any] = play(*exchanges, write=write)
    return result


def remove(*exchanges: Exchange, found: Any = FOUND) -> None:
    play(*exchanges, write=lambda client: guarded_delete(client, found, propagation="Background"))


def test_an_update_names_the_object_and_the_version_that_were_read():
    apply(patch("7", UID))


def test_a_creation_names_a_version_that_no_object_has():
    apply(patch("1"), found=None)


SURVIVED = {
    "only the status has changed": (FOUND, (stale("7", UID), seen("8"), patch("8", UID))),
    "the response to our own update was lost": (FOUND, (stale(), seen(spec=NEW))),
    "the response to our own creation was lost": (None, (stale("1"), seen(spec=NEW))),
    "what was in the way is gone": (None, (stale("1"), absent(), patch("1"))),
    "no response, but written": (FOUND, (patch(status=0), seen(spec=NEW))),
    "a failing server has written it": (None, (patch(status=500), seen(spec=NEW))),
}


@pytest.mark.parametrize(("found", "exchanges"), SURVIVED.values(), ids=SURVIVED)
def test_an_apply_succeeds_although(found, exchanges):
    apply(*exchanges, found=found)


CONFLICTS = {
    "another run has changed a field": (
        FOUND,
        seen(spec=OTHER),
        r"another run changed Deployment train at the same time \(field manager runwhere.gpuctl, 03:04:05 UTC\)",
    ),
    "a person has changed a field": (
        FOUND,
        seen(spec=OTHER, manager="kubectl-edit", time="2026-01-02T10:00:00Z"),
        r"someone else changed Deployment train at the same time \(field manager kubectl-edit, 10:00:00 UTC\)",
    ),
    "a controller has written the status since": (
        FOUND,
        seen(spec=OTHER, manager="kube-controller-manager", subresource="status", time="2026-01-02T10:00:00Z"),
        "field manager runwhere.gpuctl",
    ),
    "it was deleted": (FOUND, absent(), "Deployment train was deleted at the same time"),
    "it is being deleted": (FOUND, seen(leaving=True), "Deployment train was deleted"),
    "it was replaced": (FOUND, seen(uid="another"), "another run changed Deployment train"),
    "another run has created it": (None, seen(spec=OTHER), "another run changed Deployment train"),
    "it may not be read": (
        FOUND,
        Exchange("GET", PATH, status=403, answer={"message": 'is forbidden: User "x"', "reason": "Forbidden"}),
        "Deployment train was changed by someone else",
    ),
}


@pytest.mark.parametrize(("found", "read", "message"), CONFLICTS.values(), ids=CONFLICTS)
def test_an_apply_is_given_up_because(found, read, message):
    with pytest.raises(ConcurrentChange, match=f"{message}.*Run the task again"):
        apply(stale(), read, found=found)


def test_a_server_that_always_reports_a_conflict_is_an_error():
    with pytest.raises(ApiError, match="has been modified"):
        apply(*[each for version in range(7, 12) for each in (stale(str(version), UID), seen(str(version + 1)))])


def test_fields_of_others_are_for_the_user_to_decide_about():
    causes = [{"reason": "FieldManagerConflict", "field": ".spec.replicas", "message": 'conflict with "kubectl"'}]
    with pytest.raises(ApiError, match="409"):
        apply(patch(status=409, answer={**STALE, "details": {"causes": causes}}))


def test_what_was_not_written_is_known():
    with pytest.raises(ConnectionProblem) as caught:
        apply(patch(status=0), seen(spec=OLD))
    assert not caught.value.may_be_written


def test_what_cannot_be_read_is_not_known():
    with pytest.raises(ConnectionProblem) as caught:
        apply(patch(status=0), Exchange("GET", PATH, status=0))
    assert caught.value.may_be_written


def test_a_former_object_is_not_reused_but_deleted_first():
    former = live("Deployment", spec=OLD)
    apply(
        stale("1"),
        seen("9", leaving=True),
        delete({"uid": UID}),
        patch("1"),
        found=None,
        former=former,
    )


def test_a_former_object_that_is_gone_costs_nothing():
    apply(patch("1"), found=None, former=live("Deployment", spec=OLD))


# -- deletions ---------------------------------------------------------------------------------------------------------


def test_a_deletion_names_the_version_that_was_read():
    remove(delete({"uid": UID, "resourceVersion": "7"}))


def test_the_deletion_of_what_we_did_not_apply_names_only_the_object():
    pod = live("Deployment", spec=OLD)
    pod["metadata"]["managedFields"] = []
    remove(delete({"uid": UID}), found=pod)


DELETED = {
    "it is gone": (delete(status=404, answer=GONE),),
    "only the status has changed": (delete(status=409, answer=STALE), seen("8"), delete()),
    "someone else has deleted it": (delete(status=409, answer=STALE), absent()),
    "it is being deleted": (delete(status=409, answer=STALE), seen(leaving=True)),
    "the response was lost": (delete(status=0), absent()),
}


@pytest.mark.parametrize("exchanges", DELETED.values(), ids=DELETED)
def test_a_deletion_succeeds_although(exchanges):
    remove(*exchanges)


def test_what_another_run_has_created_again_is_planned_again():
    """Otherwise the objects around it would be deleted, which may be those of the other run by now."""
    replaced = {**STALE, "message": "the UID in the precondition (a) does not match the UID in record (b)"}
    for refused in (STALE, replaced):
        with pytest.raises(ConcurrentChange, match="another run changed Deployment train"):
            remove(delete(status=409, answer=refused), seen(uid="another"))


def test_what_another_run_has_changed_is_not_deleted():
    with pytest.raises(ConcurrentChange, match="another run changed Deployment train"):
        remove(delete(status=409, answer=STALE), seen(spec=OTHER))


@pytest.mark.parametrize(("read", "unknown"), [(seen(), False), (Exchange("GET", PATH, status=0), True)])
def test_whether_a_lost_deletion_was_made_is_looked_up(read, unknown):
    with pytest.raises(KubeError) as caught:
        remove(delete(status=0), read)
    assert caught.value.may_be_written is unknown
