# SPDX-License-Identifier: BSD-2-Clause
"""Each alert fires when it should, and does not fire otherwise: as Prometheus evaluates it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.alerts import (
    ALERTS,
    AlertProblem,
    is_duration,
    rule_groups,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import plain_queries
from promtool import check

TABLE = yaml.safe_load(Path(__file__).with_name("alerts.yaml").read_text(encoding="utf-8"))
CASES = [pytest.param(case, id=f"{case['alert']}: {case['when']}") for case in TABLE["cases"]]


def rules(**settings: Any) -> list[dict[str, Any]]:
    return [rule for group in rule_groups(plain_queries(built_in_catalog()), settings) for rule in group["rules"]]


@pytest.mark.parametrize("case", CASES)
def test_an_alert_fires_when_it_should(tmp_path: Path, case: Mapping[str, Any]) -> None:
    series = {}
    for name, values in case["series"].items():
        series.update(TABLE["sets"][name] if values is None else {name: values})
    expected = [
        {
            "exp_labels": {"severity": ALERTS[case["alert"]].severity, **fires["labels"]},
            "exp_annotations": fires["says"],
        }
        for fires in case.get("fires", ())
    ]
    test = [{"eval_time": case["at"], "alertname": case["alert"], "exp_alerts": expected}]
    check(tmp_path, rules(**case.get("settings", {})), series, alert_rule_test=test)


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fires = {case["alert"] for case in TABLE["cases"] if case.get("fires")}
    silent = {case["alert"] for case in TABLE["cases"] if not case.get("fires")}
    assert fires == silent == set(ALERTS)


def test_an_alert_that_is_switched_off_is_missing() -> None:
    names = {rule.get("alert") for rule in rules(GpuIdle={"enabled": "false"})}
    assert "GpuIdle" not in names
    assert "NodeLost" in names


def test_labels_are_added() -> None:
    found = next(rule for rule in rules(NodeLost={"labels": {"team": "ops"}}) if rule.get("alert") == "NodeLost")
    assert found["labels"] == {"severity": "critical", "team": "ops"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"GpuHot": {}}, "alerts: unknown alert: GpuHot. Known are GpuTemperatureHigh, GpuXid, "),
        ({"GpuIdle": 3}, "alerts.GpuIdle: not a dictionary: 3. Give settings such as severity."),
        (
            {"NodeLost": {"threshold": 1}},
            "alerts.NodeLost.threshold: unknown setting. Known are enabled, severity, for, ",
        ),
        (
            {"NodeLost": {"window": "1m"}},
            "alerts.NodeLost.window: unknown setting. Known are enabled, severity, for, labels",
        ),
        (
            {"GpuIdle": {"treshold": 1}},
            "alerts.GpuIdle.treshold: unknown setting. Known are enabled, severity, for, threshold, window, labels.",
        ),
        ({"NodeLost": {"for": "soon"}}, "alerts.NodeLost.for: not a duration such as 5m: soon. Correct it."),
        ({"GpuIdle": {"threshold": "nan"}}, "alerts.GpuIdle.threshold: not a number: nan. Correct it."),
        ({"GpuIdle": {"labels": {"a-b": 1}}}, "alerts.GpuIdle.labels: not labels with their values: "),
        ({"GpuIdle": {"severity": "{{ x }}"}}, "alerts.GpuIdle.severity: not a word: {{ x }}. Correct it."),
        ({"GpuIdle": {"enabled": "maybe"}}, "alerts.GpuIdle.enabled: not true or false: maybe. Correct it."),
    ],
)
def test_what_is_wrong_with_the_settings_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(AlertProblem) as raised:
        rules(**settings)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("text", ["5m", "1h30m", "30s", "1d", "0s"])
def test_durations(text: str) -> None:
    assert is_duration(text)


@pytest.mark.parametrize("text", ["", "5", "m", "30m1h", "-5m", "5 m", "1.5h", "9999999h"])
def test_what_is_no_duration(text: str) -> None:
    assert not is_duration(text)
