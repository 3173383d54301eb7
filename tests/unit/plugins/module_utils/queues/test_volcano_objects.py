# SPDX-License-Identifier: BSD-2-Clause
"""What Volcano gets: a Queue for each team, with its share, and no more than there is."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration, PoolQueue
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.provide_queues import queue_objects
from ansible_collections.runwhere.gpuctl.plugins.module_utils.queues.teams import UNCOUNTED, Capacity, Team, capacity_of

GPU = "nvidia.com/gpu"
CAPACITY = Capacity({"cpu": Fraction(64), "memory": Fraction(2**40), GPU: Fraction(16)}, 16)


def queue(team: Team, capacity: Capacity = CAPACITY, *others: Team, **limits: Any) -> dict[str, Any]:
    """The Queue of the team."""
    pool = Declaration("big", nodes={"node-1": None}, queue=PoolQueue("volcano", **limits))
    first, *rest = queue_objects(pool, capacity, [team, *others])
    assert [obj["metadata"]["name"] for obj in (first, *rest)] == [
        f"gpuctl-big.{one.namespace}" for one in (team, *others)
    ]
    assert first["kind"] == "Queue"
    return dict(first["spec"])


def test_a_team_has_its_share_and_may_have_all():
    assert queue(Team("a", {"big": 4})) == {
        "weight": 4,
        "reclaimable": True,
        "capability": {"cpu": "64", "memory": "1Ti", GPU: "16"},
        "deserved": {GPU: "4"},  # and no CPUs, which would take back GPUs beyond the share
    }


def test_a_team_without_a_share_borrows():
    spec = queue(Team("a"))
    assert "deserved" not in spec
    assert (spec["weight"], spec["capability"][GPU]) == (1, "16")


@pytest.mark.parametrize(
    ("limits", "capability", "guarantee"),
    [
        ({}, "16", None),
        ({"borrowing_limit": 2}, "6", None),
        ({"borrowing_limit": 0}, "4", None),
        ({"borrowing_limit": 100}, "16", None),
        ({"lending_limit": 0}, "16", "4"),
        ({"lending_limit": 1}, "16", "3"),
        ({"lending_limit": 4}, "16", None),
        ({"lending_limit": 9}, "16", None),
    ],
)
def test_limits(limits: dict[str, int], capability: str, guarantee: str | None):
    spec = queue(Team("a", {"big": 4}), **limits)
    assert spec["capability"][GPU] == capability
    assert spec.get("guarantee") == ({"resource": {GPU: guarantee}} if guarantee else None)


def test_a_namespace_gets_no_more_than_its_quota():
    spec = queue(Team("a", {"big": 8}, ({f"requests.{GPU}": "3", "limits.cpu": "10"}, {"requests.cpu": "8"})))
    assert (spec["capability"][GPU], spec["capability"]["cpu"], spec["deserved"]) == ("3", "8", {GPU: "3"})
    assert queue(Team("a", {}, ({f"requests.{GPU}": "0"},)))["capability"][GPU] == "0"


def test_shares_beyond_the_pool_are_reduced():
    assert queue(Team("a", {"big": 24}), CAPACITY, Team("b", {"big": 8}))["deserved"] == {GPU: "12"}


@pytest.mark.parametrize(("preemption", "reclaimable"), [("never", False), ("reclaim", True), ("priority", True)])
def test_who_may_be_stopped(preemption: str, reclaimable: bool):
    assert queue(Team("a"), preemption=preemption)["reclaimable"] is reclaimable


def test_what_is_not_counted_is_not_limited():
    spec = queue(Team("a", {"big": 4}), Capacity({**CAPACITY.amounts, "aliyun.com/gpu-mem": UNCOUNTED}, 16))
    assert "aliyun.com/gpu-mem" not in {**spec["capability"], **spec["deserved"]}


def test_the_weight_is_one_that_volcano_accepts():
    many = Capacity({"cpu": Fraction(1), GPU: Fraction(10**6)}, 10**6)
    assert queue(Team("a", {"big": 10**6}), many)["weight"] == 65535


def test_a_place_of_the_network_is_a_hyper_node():
    hardware = PoolHardware(topology={"block": "example.com/block", "rack": "example.com/rack"})
    pool = Declaration("big", "", dict.fromkeys("abc"), None, hardware, PoolQueue("volcano"))
    places = {"a": ("b1", "R_1"), "b": ("b1", "r2"), "c": ("b2", "r2")}
    found = queue_objects(pool, Capacity(CAPACITY.amounts, 16, places), [])
    digest = hashlib.sha256(b"R_1").hexdigest()[:8]
    assert {obj["metadata"]["name"]: (obj["spec"]["tier"], members(obj)) for obj in found} == {
        f"gpuctl-big.b1.{digest}": (1, ["Node a"]),
        "gpuctl-big.b1.r2": (1, ["Node b"]),
        "gpuctl-big.b2.r2": (1, ["Node c"]),
        "gpuctl-big.b1": (2, sorted([f"HyperNode gpuctl-big.b1.{digest}", "HyperNode gpuctl-big.b1.r2"])),
        "gpuctl-big.b2": (2, ["HyperNode gpuctl-big.b2.r2"]),
    }
    tiers = [obj["spec"]["tier"] for obj in found]
    assert tiers == sorted(tiers)


def members(obj: dict[str, Any]) -> list[str]:
    return [f"{one['type']} {one['selector']['exactMatch']['name']}" for one in obj["spec"]["members"]]


def test_only_nodes_with_all_labels_have_a_place():
    hardware = PoolHardware(topology={"block": "example.com/block", "rack": "example.com/rack"})
    pool = Declaration("big", "", dict.fromkeys("ab"), None, hardware, PoolQueue("volcano"))
    labels = {"a": {"example.com/block": "b1", "example.com/rack": "r1"}, "b": {"example.com/rack": "r1"}}
    nodes = [
        {"metadata": {"name": name, "labels": own, "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {}}
        for name, own in labels.items()
    ]
    assert capacity_of(pool, nodes).places == {"a": ("b1", "r1")}
    assert capacity_of(replace(pool, hardware=PoolHardware()), nodes).places == {}
