# SPDX-License-Identifier: BSD-2-Clause
"""How pools divide the devices of their nodes: which labels they set, and which they take back."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import (
    Declaration,
    declarations_in,
    pool_config_map,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.membership import (
    LivePools,
    Membership,
    PoolRequest,
    plan_membership,
)

POOL, DIVISION = "runwhere.ai/pool", "runwhere.ai/division"
MIG, SHARING = "nvidia.com/mig.config", "nvidia.com/device-plugin.config"
SLICED = {"sharing": {"time_slicing": 4}}


def planned(
    request: dict[str, Any], labels: dict[str, str] | None = None, before: dict[str, Any] | None = None, **more: Any
) -> Membership:
    """The plan for pool a, which has node n already if it has its label."""
    found = labels or {}
    pools = {"a": Declaration("a", nodes={"n": None}, hardware=PoolHardware(**(before or {})))} if POOL in found else {}
    live = LivePools({"n": found, "other": {}}, {**pools, **more})
    return plan_membership([PoolRequest("a", **{"nodes": {"n": None}, **request})], live)


@pytest.mark.parametrize(
    ("hardware", "labels"),
    [
        (SLICED, {SHARING: "time-slicing-4", DIVISION: "sharing"}),
        ({"sharing": {"mps": 2}}, {SHARING: "mps-2", DIVISION: "sharing"}),
        ({"mig": "all-1g.10gb"}, {MIG: "all-1g.10gb", DIVISION: "mig"}),
        ({}, {}),
    ],
)
def test_a_pool_divides_its_nodes(hardware: dict[str, Any], labels: dict[str, str]) -> None:
    membership = planned({"hardware": hardware})
    assert membership.labels == {"n": {POOL: "a", **labels}}
    again = planned({"hardware": hardware}, {POOL: "a", **labels}, hardware)
    assert (again.labels, again.pools[0].action, again.pools[0].divided) == ({}, "unchanged", {})


def test_what_is_divided_otherwise_is_said() -> None:
    live = {POOL: "a", MIG: "all-1g.10gb", DIVISION: "mig"}
    membership = planned({"hardware": {"mig": None, **SLICED}}, live, {"mig": "all-1g.10gb"})
    assert membership.labels == {"n": {MIG: None, SHARING: "time-slicing-4", DIVISION: "sharing"}}
    assert membership.pools[0].divided == {"n": {MIG: ("all-1g.10gb", None), SHARING: (None, "time-slicing-4")}}


@pytest.mark.parametrize(
    "request_",
    [
        {"hardware": {"mig": None}},
        {"nodes": {"other": None}},
        {"present": False, "nodes": None},
        {"nodes": None, "remove": frozenset({"n"})},
    ],
    ids=["no longer declared", "another node", "deleted", "removed"],
)
def test_the_label_goes_with_the_declaration_and_with_the_node(request_: dict[str, Any]) -> None:
    live = {POOL: "a", MIG: "all-1g.10gb", DIVISION: "mig", SHARING: "of-a-person"}
    edit = planned(request_, live, {"mig": "all-1g.10gb"}).labels["n"]
    assert (edit[MIG], edit[DIVISION]) == (None, None)
    assert SHARING not in edit, "what a person set stays"


def test_a_label_that_a_person_set_stays_until_the_pool_declares_another() -> None:
    live = {POOL: "a", MIG: "all-balanced"}
    assert planned({"hardware": {"mig": None}}, live).labels == {}
    assert planned({"hardware": {"mig": "all-1g.10gb"}}, live).labels["n"] == {MIG: "all-1g.10gb", DIVISION: "mig"}


def test_a_node_that_comes_from_another_pool_is_divided_as_its_new_one_declares() -> None:
    live = LivePools(
        {"n": {POOL: "b", MIG: "all-1g.10gb", DIVISION: "mig"}},
        {"b": Declaration("b", nodes={"n": None}, hardware=PoolHardware(mig="all-1g.10gb"))},
    )
    membership = plan_membership([PoolRequest("a", nodes={"n": None})], live, force=True)
    assert membership.labels == {"n": {POOL: "a", MIG: None, DIVISION: None}}


def test_the_declaration_is_stored() -> None:
    for hardware in (PoolHardware(**SLICED), PoolHardware(mig="all-1g.10gb")):
        declaration = Declaration("a", hardware=hardware)
        assert declarations_in([pool_config_map(declaration)])["a"].hardware == hardware


def test_a_declaration_that_a_person_has_damaged_is_a_problem() -> None:
    config_map = pool_config_map(Declaration("a", hardware=PoolHardware(**SLICED)))
    config_map["data"]["hardware"] = '{"sharing": {"time_slicing": "four"}}'
    assert "hardware cannot be read" in (declarations_in([config_map])["a"].problem or "")


@pytest.mark.parametrize(
    ("labels", "state"),
    [
        ({}, "nvidia.com/mig.config is not set"),
        ({MIG: "all-disabled"}, "nvidia.com/mig.config is all-disabled"),
        ({MIG: "all-1g.10gb"}, "unknown"),
        ({MIG: "all-1g.10gb", "nvidia.com/mig.config.state": "pending"}, "nvidia.com/mig.config.state is pending"),
        ({MIG: "all-1g.10gb", "nvidia.com/mig.config.state": "success"}, "done"),
    ],
)
def test_what_a_node_shows_of_its_division(labels: dict[str, str], state: str) -> None:
    (division,) = built_in_catalog().profiles["nvidia"].divisions(PoolHardware(mig="all-1g.10gb"))
    assert division.state(labels) == state


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"sharing": {"time_slicing": 4, "mps": 2}}, "needs either time_slicing or mps"),
        ({"sharing": {}}, "needs either time_slicing or mps"),
        ({"sharing": {"time_slicing": 1}}, "time_slicing"),
        ({"sharing": {"time_slicing": 49}}, "time_slicing"),
        ({"sharing": {"time_slicing": 4}, "mig": "all-1g.10gb"}, "sharing and mig exclude each other"),
        ({"mig": "all 1g"}, "mig"),
    ],
)
def test_divisions_that_no_node_can_have_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ManifestErrors, match=problem):
        load(definition={"kind": "pool", "pool": {"name": "a"}, **fields})
