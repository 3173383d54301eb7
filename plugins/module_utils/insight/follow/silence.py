# SPDX-License-Identifier: BSD-2-Clause
"""Why the log of a pod does not come although the API server answers: its node, or its kubelet. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...cluster.node_loss import loss_text
from ...cluster.nodes import FAULTY, Node
from ...kube.resources import Object

# What the API server says when it cannot reach a kubelet (net.Dialer, http.Transport, apiserver-network-proxy).
_NO_ANSWER = re.compile(
    r"\b(dial|dialing|lookup|read) \w+\b|connect(ion)? (refused|reset|timed out)|i/o timeout|no route to host|"
    r"handshake timeout|deadline exceeded|client connection|\bEOF\b",
    re.IGNORECASE,
)


def is_on_lost_node(pod: Object, nodes: Iterable[Node]) -> bool:
    return any(node.name == pod["spec"].get("nodeName") and node.status == FAULTY for node in nodes)


def silence_text(pod: Object, nodes: Sequence[Node], answer: str) -> str:
    """Why nothing can be read from a pod: its node is lost, or its kubelet does not answer, by the words of the API
    server. "" where neither is so. ``nodes`` has its node, where that may be read."""
    name, where = pod["metadata"]["name"], pod["spec"].get("nodeName")
    if is_on_lost_node(pod, nodes):
        return f"{loss_text([pod], nodes)}. Its log is there, and can be read once the node is back"
    if not _NO_ANSWER.search(answer):
        return ""
    cause = answer.rpartition(": ")[2].rstrip(". ") or "no answer"
    return (
        f"the kubelet of node {where} does not answer the API server ({cause}). The log of pod {name} is there, and "
        f"can be read once the kubelet answers"
    )
