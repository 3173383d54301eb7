# SPDX-License-Identifier: BSD-2-Clause
"""How many GPU-hours there were: for the whole life of the nodes, however long Prometheus has known them."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import slim_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.cluster_usage import Seen
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.measured_usage import (
    MeasuredUsage,
    NodeCapacity,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import _capacity_hours
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.times import read_time

from ...cluster.live_objects import node

CREATED = read_time("2026-01-01T00:00:00Z").timestamp()  # of the nodes
SHARED = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
HOUR = 3600.0
# The nodes by their labels, what Prometheus has of them, when the range begins after their creation, the hours.
CASES: dict[str, tuple[dict[str, dict[str, str]], dict[str, NodeCapacity] | None, float, float]] = {
    "without Prometheus": ({"a": {}}, None, -HOUR, 16),
    "a range after the creation of the nodes": ({"a": {}}, None, HOUR, 8),
    "Prometheus came ten minutes ago": ({"a": {}}, {"a": NodeCapacity(8 / 6, 600)}, -HOUR, 16),
    "Prometheus has seen other numbers of GPUs": ({"a": {}}, {"a": NodeCapacity(8, 2 * HOUR)}, 0, 8),
    "Prometheus has not seen a node": ({"a": {}, "b": {}}, {"a": NodeCapacity(16, 2 * HOUR)}, 0, 32),
    "a node that is gone": ({"a": {}}, {"a": NodeCapacity(16, 2 * HOUR), "b": NodeCapacity(4, HOUR)}, 0, 20),
    "shared replicas are no GPUs": ({"a": {}, "b": SHARED}, {"b": NodeCapacity(64, 2 * HOUR)}, 0, 16),
    "nor without Prometheus": ({"a": {}, "b": SHARED}, None, 0, 16),
}


@pytest.mark.parametrize(("labels", "reported", "since", "hours"), CASES.values(), ids=CASES)
def test_the_hours_there_were(
    labels: dict[str, dict[str, str]], reported: dict[str, NodeCapacity] | None, since: float, hours: float
):
    nodes = {name: slim_node(node(name, labels=own)) for name, own in labels.items()}
    measured = None if reported is None else MeasuredUsage(60, capacity=reported)
    found = _capacity_hours(Seen(nodes=nodes, whole=True), CREATED + since, CREATED + 2 * HOUR, measured)
    assert found == pytest.approx(hours)


def test_without_permission_to_list_nodes_what_prometheus_has_seen_counts():
    measured = MeasuredUsage(60, capacity={"a": NodeCapacity(3, HOUR)})
    assert _capacity_hours(Seen(whole=True), CREATED, CREATED + HOUR, measured) == 3
    assert _capacity_hours(Seen(whole=True), CREATED, CREATED + HOUR, None) is None
    assert _capacity_hours(Seen(nodes={}), CREATED, CREATED + HOUR, measured) is None
