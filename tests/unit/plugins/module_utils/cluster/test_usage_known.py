# SPDX-License-Identifier: BSD-2-Clause
"""A node whose usage may not be read is not an idle node."""

from __future__ import annotations

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import node_row, slim_node, with_use

NODE = slim_node(
    {
        "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
)
USAGE = ("gpu_used", "gpu_free", "cpu_used", "memory_used")


def test_an_idle_node() -> None:
    (node,) = with_use([NODE], [])
    assert [node_row(node)[key] for key in USAGE] == [0, 8, "0", "0Gi"]


def test_a_node_without_its_pods() -> None:
    assert [node_row(NODE)[key] for key in USAGE] == [None] * 4
    assert node_row(NODE)["gpu_total"] == 8
