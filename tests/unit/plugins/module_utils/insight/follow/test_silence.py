# SPDX-License-Identifier: BSD-2-Clause
"""Why the log of a pod does not come although the API server answers."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow.silence import silence_text

from ...cluster.live_objects import accounted, node, pod

GET = 'Get "https://10.0.0.1:10250/containerLogs/ml/x-1/main?tailLines=100"'
SILENCE = {
    "its node is lost": (
        accounted([node("n1", ready="Unknown")]),
        f"{GET}: dial tcp 10.0.0.1:10250: connect: connection refused",
        "pod x-1 is on node n1, which has not been ready since 2026-01-01T00:04:00Z (Kubelet stopped posting node "
        "status). Its log is there, and can be read once the node is back",
    ),
    "its kubelet has just stopped": (
        accounted([node("n1")]),
        f"{GET}: dial tcp 10.0.0.1:10250: connect: connection refused",
        "the kubelet of node n1 does not answer the API server (connection refused). The log of pod x-1 is there, and "
        "can be read once the kubelet answers",
    ),
    "no permission to read nodes": (
        [],
        f"{GET}: net/http: TLS handshake timeout",
        "the kubelet of node n1 does not answer the API server (TLS handshake timeout). The log of pod x-1 is there, "
        "and can be read once the kubelet answers",
    ),
    "the kubelet answers": (accounted([node("n1")]), "failed to create fsnotify watcher: too many open files", ""),
}


@pytest.mark.parametrize(("nodes", "answer", "text"), SILENCE.values(), ids=SILENCE)
def test_why_a_log_cannot_be_read(nodes: Any, answer: str, text: str):
    assert silence_text(pod(nodeName="n1"), nodes, answer) == text
