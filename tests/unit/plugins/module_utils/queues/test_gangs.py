# SPDX-License-Identifier: BSD-2-Clause
"""Which trainings on several nodes plan advises administrators to give a queue."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.gangs import gang_advice


def job(name: str, nodes: int, pool: str = "", queue: str = "", scheduler: str = "") -> dict[str, Any]:
    pod = {"nodeSelector": {"runwhere.ai/pool": pool}} if pool else {}
    pod |= {"schedulerName": scheduler} if scheduler else {}
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    spec = {"completions": nodes, "template": {"spec": pod}}
    return {"kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": spec}


def test_one_sentence_for_each_pool() -> None:
    advice = list(gang_advice([job("a", 2, "training"), job("b", 4, "training"), job("c", 2)]))
    assert [text.partition(" are allocated")[0] for text in advice] == [
        "pool training: the nodes of trainings a, b",
        "pool default: the nodes of training c",
    ]
    assert all("queue: kueue" in text for text in advice)


def test_none_for_one_node_or_in_a_queue() -> None:
    queued = [job("a", 2, queue="team"), job("b", 2, scheduler="volcano"), job("c", 2, scheduler="kai-scheduler")]
    native = job("d", 2)
    native["metadata"]["annotations"] = {"runwhere.ai/gang": "2"}
    assert list(gang_advice([job("one", 1), *queued, native])) == []
