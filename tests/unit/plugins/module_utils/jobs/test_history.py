# SPDX-License-Identifier: BSD-2-Clause
"""What the history keeps of a run, in which size, and what it makes of what others write into it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_times import Hold
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.past_runs import user_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import RunResult
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_history import (
    LARGEST_WRITE,
    VISITED,
    HistoryLimits,
    end_keys,
    exit_code_of,
    gone_keys,
    job_keys,
    live_keys,
    log_keys,
    oldest_half,
    pod_keys,
    read_history,
    read_limits,
    size_of,
    slim_history,
    written_in_parts,
)

NOW = datetime(2026, 8, 1, 12, tzinfo=timezone.utc)
HOLD = Hold("pod-1", "train-0", 100.0, 160.0, 3760.0, {"nvidia.com/gpu": 8}, "node-1", preempted=True, exact=False)


def workload(name: str = "train", **metadata: Any) -> dict[str, Any]:
    labels = {"app": name, "runwhere.ai/job-type": "training", "runwhere.ai/pool": "h100", "runwhere.ai/sweep": "lr"}
    return {
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": "run-1",
            "creationTimestamp": "2026-08-01T10:00:00Z",
            "labels": labels,
            "annotations": {"runwhere.ai/submitted-by": '{"user":"u","host":"h","awx_user":"alice"}'},
            **metadata,
        },
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "ml:v1"}]}}},
    }


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else 1


def config_map(data: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "gpuctl-history", "namespace": "a"}, "data": data}


def test_what_is_written_is_read() -> None:
    data = {
        **job_keys(workload(), digest="d", manifest={"kind": "training"}),
        **pod_keys("run-1", HOLD),
        **end_keys("run-1", RunResult("Failed", "2026-08-01T11:00:00Z"), exit_code=3),
        **log_keys("run-1", ["one", "two"]),
    }
    (run,) = read_history([config_map(data)]).values()
    assert (run.name, run.kind, run.pool, run.sweep, run.image) == ("train", "training", "h100", "lr", "ml:v1")
    assert (run.digest, run.manifest, run.log) == ("d", {"kind": "training"}, ["one", "two"])
    assert (run.result, run.finished_at, run.exit_code) == ("Failed", "2026-08-01T11:00:00Z", 3)
    assert run.holds == {"pod-1": HOLD}
    assert user_of(run.submitter) == "alice"


@pytest.mark.parametrize(
    "manifest", [{"kind": "training", "a": {"b": 1, "manifest": [{"manifest": 2}]}}, "x" * 40_000, None]
)
@pytest.mark.parametrize("image", ["ml:v1", 'ml,"manifest":{}', '\\",\\"manifest\\":1}'])
def test_without_texts_all_but_the_manifest_is_read(image: str, manifest: Any) -> None:
    submitted = workload()
    submitted["spec"]["template"]["spec"]["containers"][0]["image"] = image
    data = {**job_keys(submitted, digest="d", manifest=manifest), **pod_keys("run-1", HOLD)}
    whole = {"kind": "ConfigMap", **config_map(data)}
    (run,), (slim,) = (read_history([slim_history(whole, texts=texts)]).values() for texts in (True, False))
    assert (run.image, run.manifest_note is None) == (image, not isinstance(manifest, str))
    assert slim == replace(run, manifest=None)


def test_what_is_live_does_not_replace_what_was_submitted() -> None:
    submitted = job_keys(workload(), digest="d", manifest={"kind": "training"})
    seen = live_keys(workload(), NOW)
    for data in ({**submitted, **seen}, {**seen, **submitted}):
        (run,) = read_history([config_map(data)]).values()
        assert (run.digest, run.manifest, run.seen) == ("d", {"kind": "training"}, NOW.timestamp())


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_records_of_a_pod_the_one_that_knows_more_counts(swapped: bool) -> None:
    run = job_keys(workload())
    maps = [
        config_map({**run, **pod_keys("run-1", HOLD._replace(end=None))}),
        config_map(pod_keys("run-1", HOLD._replace(exact=True))),
    ]
    found = read_history(maps[::-1] if swapped else maps)["run-1"]
    assert found.holds["pod-1"] == HOLD._replace(exact=True)


def test_a_pod_whose_end_was_not_observed_held_until_it_was_seen_last() -> None:
    keys = {**job_keys(workload()), **pod_keys("run-1", HOLD._replace(end=None, exact=True))}
    run = read_history([config_map(keys)])["run-1"]
    (hold,) = run.known_holds(1000.0)
    assert (hold.end, hold.exact) == (1000.0, False)
    (hold,) = run.known_holds(0.0)  # It was seen when it began, at least.
    assert hold.end == 160.0


def test_a_pod_holds_no_longer_than_its_run() -> None:
    keys = {**job_keys(workload()), **pod_keys("run-1", HOLD._replace(end=None, exact=True))}
    seen = datetime.fromtimestamp(1_800_000_000, timezone.utc)
    ended = RunResult("Failed", "2027-01-15T07:00:00Z")
    for end, last in (
        (gone_keys("run-1", RunResult("Deleted"), seen), 1_800_000_000),
        (end_keys("run-1", ended), None),
    ):
        run = read_history([config_map({**keys, **end})])["run-1"]
        (hold,) = run.known_holds(1_900_000_000.0)  # Visits go on, and do not see it.
        assert hold.end == (last or datetime(2027, 1, 15, 7, tzinfo=timezone.utc).timestamp())


@pytest.mark.parametrize(
    "data",
    [
        {"run-1.job": "no JSON"},
        {"run-1.job": "[" * 100_000},
        {"run-1.job": '"x"'},
        {"run-1.job": "{}"},
        {"run-1.job": json.dumps({"name": 1})},
        {"run-1.job": json.dumps({"name": "x" * 100_000})},
        {"../run.job": json.dumps({"name": "x"})},
        {"run-1.what": json.dumps({"name": "x"})},
        {VISITED: "yesterday"},
    ],
)
def test_what_others_write_is_no_run(data: dict[str, str]) -> None:
    assert read_history([config_map(data)]) == {}


@pytest.mark.parametrize(
    "pod",
    [
        {"created": "1", "holds": {"nvidia.com/gpu": 1}},
        {"created": 1, "holds": {"nvidia.com/gpu": -1}},
        {"created": 1, "holds": {"nvidia.com/gpu": True}},
        {"created": 1, "holds": ["nvidia.com/gpu"]},
        {"created": 10**30, "holds": {"nvidia.com/gpu": 1}},
        {"created": 1, "start": -5, "holds": {"nvidia.com/gpu": 1}},
        {"holds": {"nvidia.com/gpu": 1}},
    ],
)
def test_a_pod_that_cannot_be_is_left_out_by_name(pod: dict[str, Any]) -> None:
    left_out: list[str] = []
    hostile = config_map({**job_keys(workload()), "run-1.pod.p": json.dumps(pod)})
    run = read_history([hostile], lambda _obj, key: left_out.append(key))["run-1"]
    assert run.holds == {}
    assert left_out == ["run-1.pod.p"]


def test_fields_of_the_wrong_type_count_as_unknown() -> None:
    odd = {"result": "Great", "finished_at": "soon"}
    run = read_history([config_map({**job_keys(workload()), "run-1.end": json.dumps(odd)})])["run-1"]
    assert (run.result, run.finished_at) == ("Unknown", None)


@pytest.mark.parametrize(
    ("part", "data"),
    [
        ("was", {"name": "train", "seen": 10**400}),
        ("was", {"name": "train", "seen": -1}),
        ("end", {"result": "Failed", "exit_code": 10**400}),
        ("end", {"result": "Failed", "exit_code": "1"}),
        ("was", {"name": "train", "manifest": nested(900)}),
    ],
)
def test_a_part_that_cannot_be_is_left_out_by_name(part: str, data: dict[str, Any]) -> None:
    left_out: list[tuple[str, str]] = []
    hostile = config_map({**job_keys(workload()), f"run-1.{part}": json.dumps(data)})
    run = read_history([hostile], lambda obj, key: left_out.append((obj["metadata"]["name"], key)))["run-1"]
    assert left_out == [(hostile["metadata"]["name"], f"run-1.{part}")]
    assert (run.name, run.result, run.seen) == ("train", None, 0.0)


def test_a_manifest_that_is_too_long_is_left_out_and_that_is_said() -> None:
    (run,) = read_history([config_map(job_keys(workload(), manifest={"a": "x" * 40_000}))]).values()
    assert (run.manifest, run.manifest_note) == (None, "longer than 32 KiB, so it is not kept")


def test_of_a_long_log_the_end_is_kept() -> None:
    (text,) = log_keys("run-1", [f"{number} {'x' * 2000}" for number in range(20)]).values()
    lines = json.loads(text)["lines"]
    assert lines[-1].startswith("19 ")
    assert 5 < len(lines) < 13


def test_a_large_write_is_sent_in_parts() -> None:
    keys = {f"run-{number}.job": "x" * 50_000 for number in range(20)}
    parts = written_in_parts(keys)
    assert {key: text for part in parts for key, text in part.items()} == keys
    assert len(parts) == 4
    assert all(size_of(part) <= LARGEST_WRITE for part in parts)
    assert written_in_parts({}) == []


def test_what_has_ended_is_handed_on_first_and_runs_stay_together() -> None:
    data: dict[str, str] = {VISITED: "2026-08-01T12:00:00Z"}
    for number in range(10):
        metadata = {"uid": f"run-{number}", "creationTimestamp": f"2026-08-01T1{number}:00:00Z"}
        data |= job_keys(workload(**metadata))
        if number % 2:
            data |= end_keys(f"run-{number}", RunResult("Succeeded", "2026-08-02T00:00:00Z"))
    moved = oldest_half(data)
    assert {key.partition(".")[0] for key in moved} == {"run-1", "run-3", "run-5", "run-7"}
    assert VISITED not in moved
    assert {"run-1.job", "run-1.end"} <= set(moved)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ('{"days": 7, "mebibytes": 2}', HistoryLimits(7, 2)),
        ('{"days": 7}', HistoryLimits(7)),
        ('{"days": 0}', HistoryLimits()),
        ('{"days": "7"}', HistoryLimits()),
        ('{"days": 9999999999}', HistoryLimits()),
        ("[]", HistoryLimits()),
        ("", HistoryLimits()),
    ],
)
def test_the_limits_that_an_administrator_has_set(text: str, limits: HistoryLimits) -> None:
    assert read_limits({"metadata": {"annotations": {"runwhere.ai/history-limits": text}}}) == limits
    assert read_limits(None) == HistoryLimits()


@pytest.mark.parametrize(
    ("codes", "exit_code"),
    [([], None), ([0], 0), ([0, 3, 0], 3), ([1, 137], 137)],
)
def test_the_exit_code_is_that_of_the_last_failure(codes: list[int], exit_code: int | None) -> None:
    pods = [
        {"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": code, "finishedAt": str(number)}}}]}}
        for number, code in enumerate(codes)
    ]
    assert exit_code_of(pods) == exit_code
