# SPDX-License-Identifier: BSD-2-Clause
"""The requests that record trainings, and what happens when they are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.apply import ApplyResult
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs import ledger_store
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import Entry, entry_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger_store import LedgerStore
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task

from ..kube.conversation import Exchange, conversation

LEDGERS = "/api/v1/namespaces/ml/configmaps"
LEDGER = f"{LEDGERS}/gpuctl-ledger"
WRITE = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict"}
KNOWN = Entry("digest", "uid-of-old", "2026-01-01T00:00:00Z", 3600)


def status(code: int, reason: str, message: str = "no") -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


NOT_FOUND = status(404, "NotFound")
FORBIDDEN = status(403, "Forbidden", 'configmaps "gpuctl-ledger" is forbidden: User "u" cannot do that')


def job(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"kind": "Job", "metadata": metadata, "spec": {"ttlSecondsAfterFinished": 3600}}


def submitted(*names: str) -> list[ApplyResult]:
    return [ApplyResult(Plan(name, "ml", "training", manifest="digest"), {("Job", name): job(name)}) for name in names]


def written(*names: str) -> dict[str, str]:
    return {name: str(entry_of(job(name), "digest")) for name in names}


def ledger(url: str, warnings: list[str], check_mode: bool = False) -> LedgerStore:
    task = Task(JobOptions(), {}, check_mode, warnings.append, lambda values: None)
    task.opened_client = Client(Connection(server=url, authorization=dict, retries=0))
    return LedgerStore(task)


def holds(*exchanges: Exchange, record: list[ApplyResult], times: int = 1, check_mode: bool = False) -> list[str]:
    """Record the results with just these requests; returns the warnings."""
    warnings: list[str] = []
    with conversation(*exchanges) as url:
        store = ledger(url, warnings, check_mode)
        for _time in range(times):
            store.record(record)
    return warnings


def stored(version: str = "5", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": "gpuctl-ledger", "namespace": "ml", "resourceVersion": version}, "data": data}


def read(version: str = "5", **data: str) -> Exchange:
    return Exchange("GET", LEDGER, answer=stored(version, **data))


def patch(data: dict[str, str | None], version: str = "5", **answer: Any) -> Exchange:
    sent = {"data": data, "metadata": {"resourceVersion": version}}
    return Exchange("PATCH", LEDGER, WRITE, sent=sent, **answer)


def stale(data: dict[str, str | None], version: str = "5") -> Exchange:
    return patch(data, version, status=409, answer=status(409, "Conflict"))


def live(name: str, uid: str) -> Exchange:
    found = job(name)
    return Exchange(
        "GET", f"/apis/batch/v1/namespaces/ml/jobs/{name}", answer={"metadata": {**found["metadata"], "uid": uid}}
    )


def living(name: str, uid: str) -> Exchange:
    selector = f"app.kubernetes.io/managed-by=runwhere.gpuctl,app in ({name})"
    items = [{"metadata": {"name": name, "namespace": "ml", "uid": uid}}]
    query = {"limit": "500", "labelSelector": selector}
    return Exchange("GET", "/apis/batch/v1/namespaces/ml/jobs", query, answer={"items": items})


def new_ledger(*names: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "gpuctl-ledger",
            "namespace": "ml",
            "labels": {"app.kubernetes.io/managed-by": "runwhere.gpuctl"},
        },
        "data": written(*names),
    }


def test_the_first_training_of_a_namespace_creates_the_ledger():
    ledger = new_ledger("a", "b")
    assert not holds(
        Exchange("GET", LEDGER, status=404, answer=NOT_FOUND),
        Exchange("POST", LEDGERS, WRITE, sent=ledger, status=201, answer=ledger),
        record=submitted("a", "b"),
        times=2,
    )


def test_what_was_created_is_the_version_to_write_next():
    """The end of a short training may only be recorded once its Job is gone: nothing tells then that it counts."""
    warnings: list[str] = []
    created = new_ledger("a")
    with conversation(
        Exchange("GET", LEDGER, status=404, answer=NOT_FOUND),
        Exchange("POST", LEDGERS, WRITE, sent=created, status=201, answer=stored("3", **written("a"))),
        patch(written("b"), "3", answer=stored("4", **written("a", "b"))),
    ) as url:
        store = ledger(url, warnings)
        store.record(submitted("a"))
        store.record(submitted("b"))
    assert not warnings


def test_a_ledger_that_others_write_all_the_time_is_said_to_be_out_of_date():
    rounds = [each for _attempt in range(9) for each in (stale(written("a")), read())]
    unversioned = {"data": written("a"), "metadata": {}}
    last = Exchange("PATCH", LEDGER, WRITE, sent=unversioned, status=409, answer=status(409, "Conflict"))
    (warning,) = holds(read(), *rounds, last, record=submitted("a"))
    assert "ConfigMap gpuctl-ledger" in warning
    assert "is not up to date" in warning


def test_another_run_may_create_it_first():
    warnings: list[str] = []
    with conversation(
        Exchange("GET", LEDGER, status=404, answer=NOT_FOUND),
        Exchange("POST", LEDGERS, WRITE, status=409, answer=status(409, "AlreadyExists")),
        stale(written("a"), "1"),
        read("6", other="anything"),
        patch(written("a"), "6", answer=stored("7", **written("a"))),
        patch(written("b"), "7", answer=stored("8", **written("a", "b"))),
    ) as url:
        store = ledger(url, warnings)
        store.record(submitted("a"))
        store.record(submitted("b"))
    assert not warnings


def test_the_entries_of_other_trainings_do_not_matter():
    assert not holds(
        read("5"),
        stale(written("a")),
        read("6", **written("b")),
        patch(written("a"), "6", answer=stored("7")),
        record=submitted("a"),
    )


def test_the_entry_of_another_run_stays_if_its_job_is_the_live_one():
    theirs = str(Entry("another", "uid-of-theirs", "2026-01-01T00:00:01Z", 3600))
    conflict = (read("5"), stale(written("a")), read("6", a=theirs))
    assert not holds(*conflict, live("a", "uid-of-theirs"), record=submitted("a"))
    assert not holds(
        *conflict, live("a", "uid-of-a"), patch(written("a"), "6", answer=stored("7")), record=submitted("a")
    )


def test_an_entry_that_appeared_before_planning_again_stays_as_well():
    """Another job was in conflict, so the ledger was read again, and its version does not tell."""
    theirs = str(Entry("another", "uid-of-theirs", "2026-01-01T00:00:01Z", 3600))
    warnings: list[str] = []
    with conversation(read("5"), read("6", a=theirs), live("a", "uid-of-theirs")) as url:
        store = ledger(url, warnings)
        assert store.entry("ml", "a") is None
        store.forget()
        store.record(submitted("a"))
    assert not warnings


def test_only_new_entries_are_written():
    assert not holds(
        read(**written("a"), other="anything"), patch(written("b"), answer={}), record=submitted("a", "b"), times=2
    )


def test_what_is_known_costs_no_request_but_the_first():
    assert not holds(read(**written("a")), record=submitted("a"), times=3)


def test_a_run_without_manifest_is_recorded_with_the_manifest_of_the_one_before():
    paused, restarted = (
        ApplyResult(Plan(name, "ml", "training"), {("Job", name): job(name)}) for name in ("paused", "restarted")
    )
    assert not holds(
        read(paused=written("paused")["paused"], restarted=str(KNOWN)),
        patch(written("restarted"), answer={}),
        record=[
            paused,
            restarted,
            *[ApplyResult(Plan("unknown", "ml", "training"), {("Job", "unknown"): job("unknown")})],
        ],
    )


def test_the_end_of_a_run_without_manifest_is_recorded():
    ended = job("restarted")
    over = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T01:00:00Z"}
    ended["status"] = {"conditions": [over]}
    assert not holds(
        read(**written("restarted")),
        patch({"restarted": str(entry_of(ended, "digest"))}, answer={}),
        record=[ApplyResult(Plan("restarted", "ml", "training"), {("Job", "restarted"): ended})],
        times=2,
    )


def test_check_mode_writes_nothing():
    assert not holds(record=submitted("a"), check_mode=True)


def test_only_trainings_are_recorded():
    outcome = ApplyResult(Plan("web", "ml", "compute"), {("Deployment", "web"): {**job("web"), "kind": "Deployment"}})
    assert not holds(record=[outcome])


def test_without_permission_to_read_it_warns_once_and_does_not_write():
    warnings = holds(Exchange("GET", LEDGER, status=403, answer=FORBIDDEN), record=submitted("a"), times=2)
    assert len(warnings) == 1
    assert "Grant get, create and patch on configmaps there" in warnings[0]


def test_a_ledger_that_cannot_be_written_is_a_warning():
    full = status(422, "Invalid", "too long: may not be more than 1048576 bytes")
    warnings = holds(read(), patch(written("a"), status=422, answer=full), record=submitted("a"), times=2)
    assert len(warnings) == 1
    assert "too long" in warnings[0]


def test_a_server_that_is_lost_when_all_is_done_is_a_warning():
    gone = [ApplyResult(Plan("old", "ml", "training"))]
    broken = status(503, "ServiceUnavailable", "no endpoints")
    warnings: list[str] = []
    with conversation(Exchange("GET", LEDGER, status=503, answer=broken)) as url:
        ledger(url, warnings).remove(gone)
    assert "no endpoints" in warnings[0]


def test_a_ledger_that_cannot_be_read_before_anything_is_done_is_an_error():
    broken = status(503, "ServiceUnavailable", "no endpoints")
    with conversation(Exchange("GET", LEDGER, status=503, answer=broken)) as url:
        store = ledger(url, [])
        with pytest.raises(ApiError, match="no endpoints"):
            store.entry("ml", "train")


def replacing(name: str, uid: str = "uid-of-old") -> Plan:
    former = {**job(name), "metadata": {**job(name)["metadata"], "uid": uid}}
    return Plan(name, "ml", "training", (Step(Action.RECREATE, job(name), former),), manifest="digest")


def announced(*exchanges: Exchange, plans: list[Plan], warnings: list[str]) -> None:
    with conversation(*exchanges) as url:
        store = ledger(url, warnings)
        for plan in plans:
            store.before_replacing(plan, plans)


def test_replacements_are_announced_with_one_write(monkeypatch):
    monkeypatch.setattr(ledger_store, "now_as_text", lambda: "2026-02-01T00:00:00Z")
    lab = dataclasses.replace(replacing("lab"), kind="notebook")
    plans = [lab, replacing("old"), replacing("other", uid="another"), replacing("unknown"), lab]
    announcement = {
        "old": str(KNOWN.being_replaced("uid-of-old", "2026-02-01T00:00:00Z")),
        "other": str(KNOWN.being_replaced("another", "2026-02-01T00:00:00Z")),
    }
    known = read(old=str(KNOWN), other=str(KNOWN))
    announced(known, patch(announcement, answer={}), plans=plans, warnings=[])


def test_without_permission_to_announce_it_warns_and_goes_on():
    warnings: list[str] = []
    denied = Exchange("PATCH", LEDGER, WRITE, status=403, answer=FORBIDDEN)
    announced(read(old=str(KNOWN)), denied, plans=[replacing("old")] * 2, warnings=warnings)
    assert len(warnings) == 1


def test_a_replacement_that_cannot_be_announced_now_does_not_begin():
    broken = status(503, "ServiceUnavailable", "no endpoints")
    failing = Exchange("PATCH", LEDGER, WRITE, status=503, answer=broken)
    with pytest.raises(ApiError, match="no endpoints") as caught:
        announced(read(old=str(KNOWN)), failing, plans=[replacing("old")], warnings=[])
    assert not caught.value.may_be_written


def test_removing_entries_affects_only_recorded_trainings():
    gone = [ApplyResult(Plan("old", "ml", "training")), ApplyResult(Plan("never-seen", "ml", None))]
    with conversation(read(old=str(KNOWN)), living("old", "another"), patch({"old": None}, answer={})) as url:
        ledger(url, []).remove(gone)


def test_the_entry_of_a_job_that_was_created_meanwhile_is_not_removed():
    """Another run has created the training after this one had read what to delete."""
    with conversation(read(old=str(KNOWN)), living("old", KNOWN.uid)) as url:
        ledger(url, []).remove([ApplyResult(Plan("old", "ml", "training"))])


def test_deleting_services_does_not_look_for_trainings():
    with conversation() as url:
        ledger(url, []).remove([ApplyResult(Plan("web", "ml", "compute"))])
