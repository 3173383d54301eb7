# SPDX-License-Identifier: BSD-2-Clause
"""Histories, ledgers and answers of Prometheus, damaged at random: none ends a task, or makes a figure that is none."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history import observed_keys
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history_info import history_rows
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.past_runs import KnownRuns
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.metrics.job_metrics import MODULE as METRICS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.cluster_usage import Seen, uses_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.gpu_usage import usage_rows
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import MODULE as USAGE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.restart_copies import copy_in
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import read_entries
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_history import (
    read_history,
    size_of,
    slim_history,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER, MANAGED_BY, RESTART_OF
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import printable_data
from integration.prometheus_double import Asked, Reply, prometheus_double
from integration.tasks import perform
from kubesim import Cluster

MUTANTS = int(os.environ.get("GPUCTL_TEST_STORED", "2000"))
ANSWERS = int(os.environ.get("GPUCTL_TEST_ANSWERS", "25"))
NOW = datetime(2026, 8, 2, tzinfo=timezone.utc)

DEEP: Any = 1
for _level in range(900):
    DEEP = {"a": DEEP}
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, 2**31, 2**33, 2**63, 10**400, 1e308, -1e308, float("inf"), float("nan"), "", "x",
    "1e308", "NaN", "\x1b[2J", "\ud800", "\u202e", "9" * 400, "0000-00-00T00:00:00Z", "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+23:59", "2026-08-01T10:00:00Z", "{{ 1 }}", [], [None], [[]], [1] * 50, {}, {"": None},
    {"a": 1}, {"nvidia.com/gpu": 1e308}, {"nvidia.com/gpu": 10**30}, DEEP,
)  # fmt: skip
ORIGINAL: dict[str, dict[str, Any]] = {
    "run-1.job": {
        "name": "train", "kind": "training", "submitted_at": "2026-08-01T10:00:00Z", "pool": "default", "image": "a",
        "submitter": '{"user": "alice"}', "priority": "high", "sweep": "s", "gpu_type": "A100", "digest": "d",
        "manifest": {"kind": "training", "job": {"name": "train"}}, "manifest_note": "n",
    },
    "run-1.was": {"name": "train", "kind": "training", "submitted_at": "2026-08-01T10:00:00Z", "seen": 1785578400},
    "run-1.end": {
        "result": "Failed", "finished_at": "2026-08-01T12:00:00Z", "started_at": "2026-08-01T10:01:00Z", "exit_code": 1,
        "seen": 1785585600, "reason": "r",
    },
    "run-1.log": {"lines": ["a", "b"]},
    "run-1.pod.pod-1": {
        "name": "train-0", "created": 1785578400, "start": 1785578460, "end": 1785585600, "node": "node-1",
        "holds": {"nvidia.com/gpu": 8}, "preempted": True, "exact": False,
    },
}  # fmt: skip


def damaged_text(rng: random.Random, data: Any) -> str:
    """As JSON, with a value replaced, and sometimes a few characters."""
    if isinstance(data, dict) and data and rng.random() < 0.9:
        data = {**data, rng.choice(list(data)): rng.choice(VALUES)}
    else:
        data = rng.choice(VALUES)
    text = json.dumps(data)
    if rng.random() < 0.2:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(("", "{", "}", '"', "\\", "9" * 400, "[" * 2000, "\x00", "é")) + text[at + 1 :]
    return text


def damaged_history(rng: random.Random) -> dict[str, Any]:
    data = {key: json.dumps(value) for key, value in ORIGINAL.items()}
    for key in rng.sample(sorted(data), rng.randint(1, len(data))):
        data[key] = damaged_text(rng, ORIGINAL[key])
    data["visited"] = rng.choice([*(str(value)[:500] for value in VALUES), "2026-08-01T13:00:00Z"])
    annotations = {"runwhere.ai/history-limits": damaged_text(rng, {"days": 3, "mebibytes": 1})}
    metadata = {"name": "gpuctl-history", "namespace": "tenant", "uid": "u", "annotations": annotations}
    return {"kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_history_is_read_as_far_as_it_can_be(seed: int) -> None:
    """What is shown can be printed and encoded, and no run that is whole is lost because of another one."""
    rng = random.Random(seed)
    whole = {key.replace("run-1", "run-2"): json.dumps(value) for key, value in ORIGINAL.items()}
    for number in range(MUTANTS // 4):
        config_map = damaged_history(rng)
        config_map["data"] |= whole
        malformed: list[str] = []
        slim = slim_history(config_map, texts=rng.random() < 0.5)
        size_of(slim["data"])
        known = KnownRuns({"tenant": [slim]}, on_malformed=lambda _obj, key, found=malformed: found.append(key))
        rows = [row for row, _end in history_rows(known, NOW)]
        assert "run-2" in {row["uid"] for row in rows}, (seed, number)
        assert not any(key.startswith("run-2") for key in malformed), (seed, number)
        json.dumps(printable_data(rows), allow_nan=False, ensure_ascii=False).encode()
        keys = observed_keys(known, "tenant", known.runs("tenant"), NOW)
        assert all(text.encode() for text in keys.values())
        seen = Seen(runs=list(read_history([slim]).values()), visits={"tenant": known.visited("tenant")})
        _rows, total = usage_rows(uses_of(seen, 0.0, NOW.timestamp()), ["job", "user"], {"default": 2.5})
        figures = total.result((), has_prices=True, is_measured=False)
        json.dumps(figures, allow_nan=False)
        assert figures["gpu_hours"] >= 0, (seed, number)


def test_a_damaged_ledger_is_read_as_far_as_it_can_be() -> None:
    rng = random.Random(1)
    entry = {"manifest": "", "uid": "u", "submitted_at": "2026-01-01T00:00:00Z", "ttl_seconds": 60, "result": "Failed"}
    for _number in range(MUTANTS):
        assert "good" in read_entries({"good": json.dumps(entry), "bad": damaged_text(rng, entry)})


def test_a_damaged_copy_of_a_restart_is_the_training_or_none() -> None:
    """What is found is only objects of the training, whatever else a tenant has written."""
    rng, labels = random.Random(1), {"app": "train", MANAGED_BY: FIELD_MANAGER}
    metadata = {"name": "train", "namespace": "tenant", "labels": labels}
    kinds = ("Job", "Service", "ConfigMap")
    for _number in range(MUTANTS):
        objects: list[Any] = [{"kind": kind, "metadata": {**metadata, "labels": dict(labels)}} for kind in kinds]
        data: dict[str, Any] = {"uid": "u", "objects": objects}
        one = rng.choice(objects)
        container = rng.choice([data, one, one["metadata"], one["metadata"]["labels"]])
        container[rng.choice(sorted(container))] = rng.choice(
            [*VALUES, "Pod", "Secret", "other", {"a": [[]]}, [*objects, {"kind": "ClusterRoleBinding", "metadata": {}}]]
        )
        revision = {"metadata": {**metadata, "labels": {**labels, RESTART_OF: "train"}}, "data": data}
        found = copy_in(revision)
        for obj in found.objects if found else ():
            assert obj["kind"] in (*kinds, "ResourceClaimTemplate")
            assert obj["metadata"]["namespace"] == "tenant"
            assert obj["metadata"]["labels"].items() >= labels.items()


# -- Prometheus --------------------------------------------------------------------------------------------------------


def damaging(rng: random.Random, said: list[str]) -> Callable[[Asked], Reply]:
    """Answers of a Prometheus in which one value is another, or everything is."""
    labels = {"namespace": "default", "pod": "train-0", "job_name": "train", "resource": "nvidia_com_gpu", "pool": "a"}

    def answer(asked: Asked) -> Reply:
        kind, values = ("matrix", "values") if asked.path.endswith("query_range") else ("vector", "value")
        point: list[Any] = [float(asked.parameters.get("time") or asked.parameters.get("start") or 1785585600), "0.5"]
        series: dict[str, Any] = {"metric": dict(labels), values: [point] if kind == "matrix" else point}
        body: dict[str, Any] = {"status": "success", "data": {"resultType": kind, "result": [series, dict(series)]}}
        places = [(point, 0), (point, 1), (point, 1), (point, 1), (series, values), (series, "metric"), (body, "data"),
                  (body["data"], "resultType"), (body["data"], "result"), (body, "status"), (body, "warnings"),
                  *((series["metric"], name) for name in labels)]  # fmt: skip
        container, key = rng.choice(places)
        if rng.random() < 0.7:
            container[key] = rng.choice(VALUES)
            said.append(f"{asked.path} {key}: {str(container[key])[:100]!r}")
        return Reply(body)

    return answer


def test_damaged_answers_of_prometheus_end_in_a_message_or_in_figures() -> None:
    given: dict[str, Any] = {"range": "1d", "use_prometheus": "always", "group_by": ["job", "gpu_type"]}
    with Cluster(nodes=1, controllers=False).running() as cluster:
        for seed in range(ANSWERS):
            said: list[str] = []
            with prometheus_double(damaging(random.Random(seed), said)) as server:
                for spec, options in ((USAGE, given), (METRICS, {"name": "train", "namespace": "default"})):
                    result = perform(spec, cluster, **options, prometheus_url=server.url)
                    assert "bug in runwhere.gpuctl" not in str(result.get("msg")), (seed, said, result["exception"])
                    json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
                    assert len(str(result.get("msg"))) < 6_000, (seed, said)
