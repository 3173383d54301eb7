# SPDX-License-Identifier: BSD-2-Clause
"""The entries of the ledger, and for how long they are kept."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import (
    MAX_ENTRIES,
    Entry,
    RunResult,
    Writer,
    entry_of,
    last_run_result,
    ledger_changes,
    not_rerun_reason,
    read_entries,
    should_run_again,
    writer_of,
)

ENTRY = Entry("digest", "uid-1", "2026-01-01T00:00:00Z", 3600)
SUCCEEDED = RunResult("Succeeded", "2026-01-01T00:10:00Z")
FAILED = RunResult("Failed", "2026-01-01T00:10:00Z")
UNSEEN = RunResult()


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-01T{text}").replace(tzinfo=timezone.utc)


def job(*conditions: tuple[str, str]) -> dict[str, Any]:
    return {
        "kind": "Job",
        "metadata": {"name": "train", "uid": "uid-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"ttlSecondsAfterFinished": 3600},
        "status": {
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:10:00Z"}
                for kind, status in conditions
            ]
        },
    }


def leaving(live: dict[str, Any]) -> dict[str, Any]:
    return {**live, "metadata": {**live["metadata"], "deletionTimestamp": "2026-01-01T00:20:00Z"}}


REPLACED = ENTRY._replace(result="Succeeded", finished_at="now").being_replaced("uid-2", "2026-01-01T11:00:00Z")

SEEN = {
    "running": (job(), ENTRY),
    "about to succeed": (job(("SuccessCriteriaMet", "True")), ENTRY),
    "no longer failed": (job(("Failed", "False")), ENTRY),
    "suspended": (job(("Suspended", "True")), ENTRY),
    "succeeded": (
        job(("SuccessCriteriaMet", "True"), ("Complete", "True")),
        ENTRY._replace(result="Succeeded", finished_at="2026-01-01T00:10:00Z"),
    ),
    "failed": (job(("Failed", "True")), ENTRY._replace(result="Failed", finished_at="2026-01-01T00:10:00Z")),
}


@pytest.mark.parametrize(("live", "entry"), SEEN.values(), ids=SEEN)
def test_a_live_job_is_recorded(live: dict[str, Any], entry: Entry) -> None:
    assert entry_of(live, "digest") == entry
    assert read_entries({"train": str(entry)}) == {"train": entry}


NO_ENTRIES = [
    "",
    "[]",
    "{}",
    "null",
    '{"uid": 1}',
    str(ENTRY._replace(submitted_at="yesterday")),
    str(ENTRY._replace(submitted_at="2026-01-01")),
    str(ENTRY).replace("3600", '"an hour"'),
    str(ENTRY).replace("3600", "1e300"),
    str(ENTRY).replace("3600", "true"),
    "[" * 100_000,
    str(ENTRY._replace(uid="x" * 5000)),
    str(ENTRY._replace(result="Running")),
    str(ENTRY._replace(result="Failed", finished_at="0000-01-01T00:00:00Z")),
    str(ENTRY).replace('"uid": "', '"uid": ["').replace('", "submitted_at"', '"], "submitted_at"'),
]


@pytest.mark.parametrize("text", NO_ENTRIES)
def test_invalid_entries_are_left_out(text: str) -> None:
    assert read_entries({"broken": text, "train": str(ENTRY)}) == {"train": ENTRY}


ENDINGS = {
    "nothing is known": (None, None, None),
    "it is live and runs": (job(), ENTRY, None),
    "it runs again, and its last run failed": (job(), ENTRY._replace(result="Failed"), None),
    "it is live and has failed": (job(("Failed", "True")), None, FAILED),
    "its end was seen": (None, ENTRY._replace(result="Succeeded", finished_at=SUCCEEDED.finished_at), SUCCEEDED),
    "it has gone before its time": (None, ENTRY._replace(submitted_at="2026-01-01T11:00:01Z"), None),
    "its time to live can have passed": (None, ENTRY, UNSEEN),
    "it has gone and had no time to live": (None, ENTRY._replace(ttl_seconds=None), None),
    "it has gone while a task replaced it": (None, REPLACED, None),
    "it had ended, and terminates while a task replaces it": (leaving(job(("Complete", "True"))), REPLACED, None),
    "it has ended, and is terminating": (leaving(job(("Failed", "True"))), ENTRY, FAILED),
    "it has ended, and was not replaced after all": (job(("Failed", "True")), REPLACED, FAILED),
}


@pytest.mark.parametrize(("live", "entry", "last_run"), ENDINGS.values(), ids=ENDINGS)
def test_how_the_last_run_ended(live: dict[str, Any] | None, entry: Entry | None, last_run: RunResult | None) -> None:
    assert last_run_result(live, entry, at("12:00:00")) == last_run


def test_version_1_0_0_reads_what_is_being_replaced_as_deleted_by_a_user():
    """It ignores entries with other fields, and takes a missing Job for one that has ended if it had a time to live."""
    data = json.loads(str(REPLACED))
    assert data == {
        "manifest": "digest",
        "uid": "uid-2",
        "submitted_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T11:00:00Z",
    }
    assert REPLACED.is_being_replaced
    assert not any(entry.is_being_replaced for _live, entry in SEEN.values())


AGAIN = [
    # rerun, how it ended, the same manifest, a changed one
    ("never", SUCCEEDED, False, False),
    ("never", FAILED, False, False),
    ("on_change", SUCCEEDED, False, True),
    ("on_change", FAILED, False, True),
    ("on_change", UNSEEN, False, True),
    ("on_failure", SUCCEEDED, False, True),
    ("on_failure", FAILED, True, True),
    ("on_failure", UNSEEN, False, True),
    ("always", SUCCEEDED, True, True),
    ("always", UNSEEN, True, True),
]


@pytest.mark.parametrize(("rerun", "last_run", "same", "changed"), AGAIN)
def test_when_a_training_runs_again(rerun: str, last_run: RunResult, same: bool, changed: bool) -> None:
    assert should_run_again(rerun, last_run, changed=False) is same
    assert should_run_again(rerun, last_run, changed=True) is changed


SENTENCES = [
    (
        ("on_change", SUCCEEDED, False),
        "It succeeded at 2026-01-01T00:10:00Z and is not run again: its manifest is the same, and O(rerun) "
        "is on_change. O(rerun=always) runs it again.",
    ),
    (
        ("on_change", FAILED, False),
        "It failed at 2026-01-01T00:10:00Z and is not run again: its manifest is the same, and O(rerun) "
        "is on_change. O(rerun=on_failure) runs it again.",
    ),
    (
        ("never", FAILED, True),
        "It failed at 2026-01-01T00:10:00Z and is not run again: its manifest has changed since, and O(rerun) "
        "is never. O(rerun=on_change) runs it again.",
    ),
    (
        ("on_failure", UNSEEN, False),
        "It has ended with an unknown result and is not run again: its manifest is the same, and O(rerun) "
        "is on_failure. O(rerun=always) runs it again.",
    ),
]


@pytest.mark.parametrize(("case", "sentence"), SENTENCES)
def test_the_sentence_says_what_to_do(case: tuple[str, RunResult, bool], sentence: str) -> None:
    rerun, last_run, changed = case
    assert not_rerun_reason(rerun, last_run, changed=changed) == sentence


def test_what_only_the_ledger_says_is_not_said_to_be_certain() -> None:
    writer = Writer("kubectl-edit", "2026-01-02T00:00:00Z")
    assert not_rerun_reason("never", SUCCEEDED, changed=False, recorded_by=writer).startswith(
        f"It succeeded at {SUCCEEDED.finished_at} according to the ledger (field manager kubectl-edit, last at "
        "2026-01-02T00:00:00Z), which nothing proves once the Job is gone, and is not run again: "
    )


def held(manager: str, *names: str) -> dict[str, Any]:
    keys: dict[str, Any] = {f"f:{name}": {} for name in names}
    return {"manager": manager, "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:data": {".": {}, **keys}}}


def test_the_server_knows_which_field_manager_wrote_an_entry() -> None:
    ledger = {"metadata": {"managedFields": [held("runwhere.gpuctl", "mine"), held("kubectl-edit", "forged")]}}
    assert writer_of(ledger, "mine").is_gpuctl
    assert writer_of(ledger, "forged") == Writer("kubectl-edit", "2026-01-02T00:00:00Z")
    assert not writer_of(ledger, "unknown").is_gpuctl
    assert str(writer_of({}, "unknown")) == "field manager unknown"


def test_only_what_is_new_is_written() -> None:
    newer = ENTRY._replace(result="Failed")
    entries = {"a": ENTRY, "b": ENTRY}
    assert ledger_changes(entries, {"a": ENTRY, "b": newer, "c": ENTRY}) == {"b": str(newer), "c": str(ENTRY)}
    assert ledger_changes(entries, {"a": ENTRY}) == {}


def test_the_oldest_go_when_there_are_too_many() -> None:
    full = {f"t{number}": ENTRY._replace(submitted_at=f"20{number:04}-01-01") for number in range(MAX_ENTRIES)}
    new = ENTRY._replace(submitted_at="209999-01-01")
    assert ledger_changes(full, {"x": new, "y": new}) == {"x": str(new), "y": str(new), "t0": None, "t1": None}
    assert ledger_changes(full, {"t5": full["t5"]}) == {}


def test_a_full_ledger_fits_into_a_config_map() -> None:
    longest = Entry("f" * 32, "f" * 36, "2026-01-01T00:00:00Z", 86_400, "Succeeded", "2026-01-02T00:00:00Z")
    assert MAX_ENTRIES * (len(str(longest)) + 52) < 2**20 * 0.8
