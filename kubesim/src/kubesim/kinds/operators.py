# SPDX-License-Identifier: BSD-2-Clause
"""Kinds of operators for monitoring, which are only stored: their API servers check no more than their schemas."""

from __future__ import annotations

from kubesim.kinds.strategy import Strategy


class AlertmanagerStrategy(Strategy):
    kind = "Alertmanager"


class AlertmanagerConfigStrategy(Strategy):
    kind = "AlertmanagerConfig"


class GrafanaDashboardStrategy(Strategy):
    kind = "GrafanaDashboard"


class PodMonitorStrategy(Strategy):
    kind = "PodMonitor"


class PrometheusStrategy(Strategy):
    kind = "Prometheus"


class PrometheusRuleStrategy(Strategy):
    kind = "PrometheusRule"


class ScaledObjectStrategy(Strategy):
    kind = "ScaledObject"


class ServiceMonitorStrategy(Strategy):
    kind = "ServiceMonitor"
