# SPDX-License-Identifier: BSD-2-Clause
"""The alerts: a table of what each asks, for how long, and what it says. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...given_times import seconds_of
from .promql import ALLOCATED, JOB, JOB_UTILIZATION, UTILIZATION, Queries, Source
from .recording import Group, Rule, history_group, recording_rules

_DURATION = re.compile(r"(?=.)([1-9]\d*d)?([1-9]\d*h)?([1-9]\d*m)?([1-9]\d*s)?|0s|0m")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COVERED = 0.9  # of the window: what has fewer samples may have been busy
DEFAULT_INTERVAL = "1m"


@dataclass(frozen=True)
class Alert:
    """One alert. ``threshold`` and ``window`` are what its expression compares with and looks back on, if it does."""

    name: str
    severity: str
    expression: Callable[[Queries, Alert], str]
    summary: str
    description: str
    hold: str = ""  # how long before it fires: ``for``
    threshold: float | None = None
    window: str = ""
    enabled: bool = True
    labels: Mapping[str, str] | None = None

    def rule(self, queries: Queries) -> Rule | None:
        """As Prometheus reads it; None if no exporter has what it asks."""
        expression = self.expression(queries, self)
        if not (expression and self.enabled):
            return None
        return {
            "alert": self.name,
            "expr": expression,
            **({"for": self.hold} if self.hold else {}),
            "labels": {"severity": self.severity, **(self.labels or {})},
            "annotations": {"summary": self.summary, "description": self.description},
        }


def _temperature(queries: Queries, alert: Alert) -> str:
    return f"{queries.of_devices('temperature')}>={alert.threshold:g}"


def _idle(queries: Queries, alert: Alert) -> str:
    """Missing samples are no idleness, and neither is a job that has ended or has just begun."""
    seconds = seconds_of(alert.window) or 0
    enough = max(int(seconds / 60 * _COVERED), 1)
    started = queries.pods("kube_pod_start_time")
    return (
        f"max by({','.join(JOB)})(max_over_time({JOB_UTILIZATION}[{alert.window}]))<{alert.threshold:g}"
        f" and on(namespace,job_name) {JOB_UTILIZATION}"
        f" and on(namespace,job_name) (count_over_time({JOB_UTILIZATION}[{alert.window}:1m])>={enough})"
        f" and on(namespace,job_name) (time()-max by(namespace,job_name)({started})>{seconds})"
    )


def _pending(queries: Queries, alert: Alert) -> str:
    pending = queries.pods('kube_pod_status_phase{phase="Pending"}') + "==1"
    waited = queries.pods("kube_pod_created")
    return f"max by({','.join(JOB)})((time()-{waited}) and ({pending}))>{seconds_of(alert.window)}"


def _unmeasured(queries: Queries, _alert: Alert) -> str:
    return f"sum by({','.join(JOB)})({ALLOCATED} unless on(namespace,pod) {UTILIZATION.record})"


ALERTS: Mapping[str, Alert] = {
    alert.name: alert
    for alert in (
        Alert(
            "GpuTemperatureHigh",
            "critical",
            _temperature,
            "GPU {{ $labels.gpu }} of node {{ $labels.hostname }} is {{ $value }} °C hot",
            "{{ $labels.modelName }} {{ $labels.UUID }}. Check the cooling of the node.",
            hold="5m",
            threshold=85,
        ),
        Alert(
            "GpuXid",
            "critical",
            lambda queries, alert: queries.errors(alert.window),
            "GPU {{ $labels.gpu }} of node {{ $labels.hostname }} has reported error {{ $value }}",
            "{{ $labels.modelName }} {{ $labels.UUID }}. The vendor's documentation explains the code (NVIDIA: Xid).",
            window="10m",
        ),
        Alert(
            "GpuErrorsUncorrected",
            "critical",
            lambda queries, alert: queries.error_counts(alert.window),
            "GPU {{ $labels.gpu }} of node {{ $labels.hostname }} has errors that it cannot correct",
            "{{ $labels.modelName }} {{ $labels.UUID }}. Results of jobs on it may be wrong. Take it out of use.",
            window="10m",
        ),
        Alert(
            "GpuUnhealthy",
            "critical",
            lambda queries, _alert: queries.unhealthy(),
            "GPU {{ $labels.gpu }} of node {{ $labels.hostname }} is not healthy",
            "{{ $labels.modelName }} {{ $labels.UUID }}. Its exporter says so.",
            hold="5m",
        ),
        Alert(
            "NodeLost",
            "critical",
            lambda queries, _alert: queries.lost_nodes(),
            "Node {{ $labels.node }} is not ready",
            "It has accelerators or is in pool {{ $labels.pool }}. Its jobs no longer run.",
            hold="5m",
        ),
        Alert(
            "GpuIdle",
            "warning",
            _idle,
            "Job {{ $labels.job_name }} in namespace {{ $labels.namespace }} holds GPUs and does not use them",
            "Their utilization was at most {{ $value | humanizePercentage }}. Pause the job or make it smaller.",
            hold="5m",
            threshold=0.05,
            window="30m",
        ),
        Alert(
            "JobPendingTooLong",
            "warning",
            _pending,
            "Job {{ $labels.job_name }} in namespace {{ $labels.namespace }} is waiting",
            "A pod has been pending for {{ $value | humanizeDuration }}. gpuctl_job_info tells the reason.",
            window="30m",
        ),
        Alert(
            "QuotaNearlyUsed",
            "info",
            lambda queries, alert: f"{queries.quota_used()}>={alert.threshold:g}",
            "Namespace {{ $labels.namespace }} has used {{ $value | humanizePercentage }} of its quota",
            "Of {{ $labels.resource }} in quota {{ $labels.resourcequota }}.",
            hold="15m",
            threshold=0.9,
        ),
        Alert(
            "GpuMetricsMissing",
            "info",
            _unmeasured,
            "The utilization of job {{ $labels.job_name }} in namespace {{ $labels.namespace }} is not known",
            "It holds {{ $value }} devices that no exporter tells of. Run the playbook runwhere.gpuctl.doctor.",
            hold="15m",
        ),
    )
}


class AlertProblem(Exception):
    """What is wrong with the settings of an alert."""


def rule_groups(
    plain: Queries, settings: Mapping[str, Any] | None = None, interval: str = DEFAULT_INTERVAL
) -> list[Group]:
    """Everything that Prometheus evaluates. Raises AlertProblem."""
    if not is_duration(interval) or not seconds_of(interval):
        raise AlertProblem(f"interval: not a duration: {interval}. Use one such as 1m.")
    queries = replace(plain, source=Source.RULES)
    alerts = [rule for alert in alerts_with(settings or {}) if (rule := alert.rule(queries))]
    groups = {"recording": recording_rules(plain), "alerts": alerts}
    found = [
        {"name": f"runwhere-gpuctl.{name}", "interval": interval, "rules": rules}
        for name, rules in groups.items()
        if rules
    ]
    return [*found, history_group(plain)]


def alerts_with(settings: Mapping[str, Any]) -> Iterator[Alert]:
    """The alerts with what is set of each. Raises AlertProblem."""
    unknown = [name for name in settings if name not in ALERTS]
    if unknown:
        raise AlertProblem(f"alerts: unknown alert: {unknown[0]}. Known are {', '.join(ALERTS)}.")
    for name, alert in ALERTS.items():
        yield replace(alert, **dict(_given_changes(alert, settings.get(name))))


def _given_changes(alert: Alert, given: Any) -> Iterator[tuple[str, Any]]:
    where = f"alerts.{alert.name}"
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise AlertProblem(f"{where}: not a dictionary: {given}. Give settings such as severity.")
    readers = {key: reader for key, reader in _SETTINGS.items() if getattr(alert, key) is not None or key == "labels"}
    for key, value in given.items():
        field = "hold" if key == "for" else key
        if field not in readers or (field == "window" and not alert.window):
            known = [name for name in readers if name != "window" or alert.window]
            names = ", ".join("for" if name == "hold" else name for name in known)
            raise AlertProblem(f"{where}.{key}: unknown setting. Known are {names}.")
        try:
            yield field, readers[field](value)
        except (TypeError, ValueError):
            raise AlertProblem(f"{where}.{key}: not {_WANTED[field]}: {value}. Correct it.") from None


def _read_duration(value: Any) -> str:
    if not is_duration(str(value)):
        raise ValueError
    return str(value)


def _read_labels(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(_LABEL.fullmatch(str(key)) for key in value):
        raise ValueError
    return {str(key): str(text) for key, text in value.items()}


def _read_name(value: Any) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise ValueError
    return value


def _read_switch(value: Any) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise ValueError
    return str(value).lower() == "true"


def _read_number(value: Any) -> float:
    found = float(value)
    if not math.isfinite(found):
        raise ValueError
    return found


_SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    "enabled": _read_switch,
    "severity": _read_name,
    "hold": _read_duration,
    "threshold": _read_number,
    "window": _read_duration,
    "labels": _read_labels,
}
_WANTED = {
    "enabled": "true or false",
    "severity": "a word",
    "hold": "a duration such as 5m",
    "threshold": "a number",
    "window": "a duration such as 30m",
    "labels": "labels with their values",
}


def is_duration(text: str) -> bool:
    """Whether Prometheus takes it for a duration, and ``seconds_of`` too, which knows no numbers without end."""
    return _DURATION.fullmatch(text) is not None and seconds_of(text) is not None
