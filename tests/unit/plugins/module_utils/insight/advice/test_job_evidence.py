# SPDX-License-Identifier: BSD-2-Clause
"""What is asked of Prometheus about a range: the peaks of all samples, and the rest in a bounded number of steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advice.job_evidence import (
    evidence_queries,
    evidence_step,
    recorded_queries,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import Source, plain_queries
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.recording import history_group
from promtool import check

DAY = 86_400
POD = 'namespace="t",pod="p"'
DEVICE = f'{POD},UUID="a"'
CONTAINER = f'id="x",{POD}'


def expressions(days: int, step: int) -> dict[str, str]:
    return evidence_queries(plain_queries(built_in_catalog(), Source.RULES), days * DAY, step, 0.05)


@pytest.mark.parametrize("step", [60, 300, 900])
def test_a_peak_of_a_minute_is_found(tmp_path: Path, step: int) -> None:
    """At a minute at which no step of five or fifteen ends. The CPU works for nine minutes."""
    days = 1 if step == 60 else 6
    before = after = days * 720 + 7
    once = f"1x{before} 9 1x{after}"
    asked, peaks = (
        expressions(days, step),
        {"gpu_utilization_max": DEVICE, "gpu_memory_max": DEVICE, "memory_max": CONTAINER},
    )
    series = {
        f"namespace_pod_uuid:runwhere_gpu_utilization:ratio{{{DEVICE}}}": once,
        f"namespace_pod_uuid:runwhere_gpu_memory_used:bytes{{{DEVICE}}}": once,
        f'container_memory_working_set_bytes{{container="main",{CONTAINER}}}': once,
        f'container_cpu_usage_seconds_total{{container="main",{CONTAINER}}}': (
            f"0+60x{before} {60 * before + 240}+240x9 {60 * before + 2460}+60x{after}"
        ),
    }
    tests = [
        {"expr": text, "eval_time": f"{days}d", "exp_samples": [{"labels": f"{{{labels}}}", "value": value}]}
        for text, labels, value in (
            *((asked[name], labels, 9.0) for name, labels in peaks.items()),
            (f"{asked['cpu_max']} > bool 3.9", CONTAINER, 1.0),
        )
    ]
    check(tmp_path, [], series, promql_expr_test=tests)


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "not recorded yet"])
def test_the_history_has_the_peak_of_a_minute(tmp_path: Path, is_recorded: bool) -> None:
    """Of a day, or of its last ten minutes."""
    known, end = (1_440, DAY // 60) if is_recorded else (11, 10)
    once = f"1x{end - 8} 9 1x6"
    series = {
        f"namespace_pod_uuid:runwhere_gpu_utilization:ratio{{{DEVICE}}}": once,
        f"namespace_pod_uuid:runwhere_gpu_memory_used:bytes{{{DEVICE}}}": once,
        f'container_memory_working_set_bytes{{container="main",{CONTAINER}}}': once,
        f'container_cpu_usage_seconds_total{{container="main",{CONTAINER}}}': f"0+60x{end}",
        f'container_oom_events_total{{container="main",{CONTAINER}}}': f"0x{end - 8} 1x7",
        f'namespace_pod:runwhere_pod:info{{{POD},job_name="j"}}': f"1x{end}",
    }
    asked = recorded_queries(DAY, 1 if is_recorded else 601, 0.05)
    expected = [
        (asked["gpu_utilization_max"], DEVICE, 9.0),
        (asked["gpu_memory_max"], DEVICE, 9.0),
        (asked["memory_max"], CONTAINER, 9.0),
        (asked["cpu_max"], CONTAINER, 1.0),
        (asked["out_of_memory_max"], POD, 1.0),
        (asked["pods_max"], f'job_name="j",{POD}', 1.0),
        *((f"abs({asked[name]} - {known}) < bool 5", CONTAINER, 1.0) for name in ("memory_count", "cpu_count")),
        (f"abs({asked['gpu_count']} - {known}) < bool 5", DEVICE, 1.0),
        *([(asked["memory_p50"], CONTAINER, 1.0), (asked["busy_p95"], POD, 1.0)] if is_recorded else ()),
    ]
    tests = [
        {"expr": text, "eval_time": f"{end}m", "exp_samples": [{"labels": f"{{{labels}}}", "value": value}]}
        for text, labels, value in expected
    ]
    group = history_group(plain_queries(built_in_catalog()))
    rules, interval = (group["rules"], group["interval"]) if is_recorded else ([], "1m")
    check(tmp_path, rules, series, interval, promql_expr_test=tests)


def test_both_ask_the_same_questions() -> None:
    assert {*recorded_queries(30 * DAY, 60, 0.05)} == {*expressions(30, 900)}


@pytest.mark.parametrize(("days", "most"), [(2, 2_880), (7, 2_016), (31, 2_976)])
def test_prometheus_looks_at_all_series_in_a_bounded_number_of_steps(days: int, most: int) -> None:
    """But for the peaks of CPU, which are averages of five minutes."""
    steps = {
        name: days * DAY / int(found[1])
        for name, text in expressions(days, evidence_step(days * DAY)).items()
        if name != "cpu_max" and (found := re.search(r"\[\d+s:(\d+)s\]", text))
    }
    assert len(steps) >= 8
    assert max(steps.values()) <= most
