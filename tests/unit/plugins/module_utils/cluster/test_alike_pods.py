# SPDX-License-Identifier: BSD-2-Clause
"""What the pods of a list have in common is kept once."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.alike_pods import AlikePods
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import devices_of


def pod(name: str, gpus: int = 1, **labels: str) -> dict[str, Any]:
    """As a list has it: no string of it is one of another pod."""
    amounts = {"nvidia.com/gpu": str(gpus)}
    written = {
        "metadata": {"name": name, "namespace": "team-a", "labels": {"app": "sft", **labels}},
        "spec": {"nodeName": "gpu-node-1", "containers": [{"name": "main", "resources": {"requests": amounts}}]},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    }
    read: dict[str, Any] = json.loads(json.dumps(written))
    return read


def test_nothing_of_a_pod_is_lost() -> None:
    alike = AlikePods(devices_of)
    for one in (pod("a"), pod("b"), pod("c", rank="1"), pod("d")):
        assert alike.shared(one) == one


def test_equal_strings_and_labels_are_kept_once() -> None:
    alike = AlikePods(devices_of)
    first, second, other = (alike.shared(one) for one in (pod("a"), pod("b"), pod("c", rank="1")))
    assert first["metadata"]["labels"] is second["metadata"]["labels"]
    assert first["spec"]["nodeName"] is other["spec"]["nodeName"]
    assert first["status"]["startTime"] is other["status"]["startTime"]
    assert first["metadata"]["labels"]["app"] is other["metadata"]["labels"]["app"]


def test_a_pod_without_status_or_labels_has_empty_ones() -> None:
    bare = {"metadata": {"name": "a", "namespace": "team-a"}, "spec": {"containers": []}}
    assert AlikePods(devices_of).shared(bare) == {
        "metadata": {"name": "a", "namespace": "team-a", "labels": {}},
        "spec": {"containers": []},
        "status": {},
    }


def test_amounts_are_worked_out_once_for_pods_that_request_the_same() -> None:
    asked = []

    def count(one: Any) -> Any:
        asked.append(one["metadata"]["name"])
        return devices_of(one)

    alike = AlikePods(count)
    found = [alike.amounts(one)["nvidia.com/gpu"] for one in (pod("a"), pod("b", rank="1"), pod("c", gpus=2), pod("d"))]
    assert (found, asked) == ([1, 1, 2, 1], ["a", "c"])
