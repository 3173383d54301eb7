# SPDX-License-Identifier: BSD-2-Clause
"""What has happened to nodes and quotas between two looks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.cluster_transitions import (
    KnownNode,
    KnownQuota,
    QuotaUse,
    node_change,
    quota_change,
    quota_uses,
)

T1, T2 = "2026-08-01T10:00:00Z", "2026-08-01T11:00:00Z"
READY = KnownNode("node-1", True, pool="a100")


def node(ready: str, since: str = T1) -> dict[str, Any]:
    return {"metadata": {"name": "node-1", "uid": "u"}, "pool": "a100", "ready": ready, "since": since, "message": ""}


@pytest.mark.parametrize(
    ("seen", "known", "lost"),
    [
        (node("Unknown"), READY, True),
        (node("False"), READY, True),
        (node("True"), READY, False),
        (node("True"), None, False),
        (node("Unknown"), None, True),  # Its kubelet fell silent before the first look.
        (node("False"), None, False),  # It is new, and not ready yet.
        (node("Unknown"), KnownNode("node-1", False, T1), False),
        (node("Unknown", T2), KnownNode("node-1", False, T1), True),  # It was back in between.
    ],
)
def test_a_node_is_lost_once(seen: dict[str, Any], known: KnownNode | None, lost: bool) -> None:
    after, found = node_change(seen, known)
    assert found is lost
    assert node_change(seen, after) == (after, False)


def test_a_limit_is_nearly_used_once_until_it_was_clearly_below() -> None:
    known, reports = KnownQuota("ml", "q"), []
    for percent in (80, 90, 95, 89, 91, 84, 90):
        known, crossed = quota_change(QuotaUse("gpu", 0, 0, percent), known, 90)
        reports.append(crossed)
    assert reports == [False, True, False, False, False, False, True]


def test_the_limits_of_a_quota_that_are_counted() -> None:
    hard = {"requests.cpu": "100", "requests.nvidia.com/gpu": "8", "pods": "0"}
    used = {"requests.cpu": "50", "requests.nvidia.com/gpu": "8", "pods": "0"}
    found = {use.resource: use.percent for use in quota_uses({"spec": {"hard": hard}, "status": {"used": used}})}
    assert found == {"cpu": 50.0, "gpu": 100.0}
    assert list(quota_uses({"spec": {"hard": hard}, "status": {}})) == []
