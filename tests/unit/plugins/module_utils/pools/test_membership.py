# SPDX-License-Identifier: BSD-2-Clause
"""Which node belongs to which pool, and what a task changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.membership import (
    LivePools,
    Membership,
    PoolRequest,
    plan_membership,
)

CASES = yaml.safe_load(Path(__file__).with_name("membership.yaml").read_text())
PREFIX = "runwhere.ai/"


def prefixed(labels: dict[str, Any]) -> dict[str, Any]:
    return {PREFIX + key: value for key, value in labels.items()}


def live_pools(case: dict[str, Any]) -> LivePools:
    nodes = {node: prefixed(labels) for node, labels in case["nodes"].items()}
    pools = {name: Declaration(name, "", nodes) for name, nodes in case.get("pools", {}).items()}
    return LivePools(nodes, pools, case.get("unmanaged", ()))


def plan(case: dict[str, Any], live: LivePools) -> Membership:
    requests = [
        PoolRequest(**{**request, "remove": frozenset(request.get("remove", ()))}) for request in case["requests"]
    ]
    return plan_membership(requests, live, force=case.get("force", False))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_plan(case: dict[str, Any]) -> None:
    planned = plan(case, live_pools(case))
    assert list(planned.blockers) == case.get("blockers", [])
    if planned.blockers:
        return
    assert planned.labels == {node: prefixed(edit) for node, edit in case.get("labels", {}).items()}
    declared = {name: after.nodes if after else None for name, after in planned.declarations.items()}
    assert declared == case.get("declared", {})
    for pool, expected in zip(planned.pools, case["result"], strict=True):
        assert (pool.name, pool.action) == (expected["name"], expected["action"])
        assert list(pool.added) == expected.get("added", [])
        assert list(pool.removed) == expected.get("removed", [])
        assert {node: list(types) for node, types in pool.changed_types.items()} == expected.get("changed_types", {})
        assert pool.taken_from == expected.get("taken_from", {})


@pytest.mark.parametrize("case", [case for case in CASES if "blockers" not in case], ids=lambda case: case["name"])
def test_a_second_run_changes_nothing(case: dict[str, Any]) -> None:
    live = live_pools(case)
    planned = plan(case, live)
    nodes = {
        node: {key: value for key, value in {**labels, **planned.labels.get(node, {})}.items() if value is not None}
        for node, labels in live.nodes.items()
    }
    pools = {name: after for name, after in {**live.declarations, **planned.declarations}.items() if after}
    again = plan({**case, "force": False}, LivePools(nodes, pools))
    assert (again.labels, again.declarations, again.blockers) == ({}, {}, ())
    assert {pool.action for pool in again.pools} == {"unchanged"}


DESCRIPTIONS = {
    "none is given": (None, "old"),
    "another one": ("new", "new"),
    "an empty one": ("", ""),
}


@pytest.mark.parametrize(("given", "expected"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_the_description_of_a_pool(given: str | None, expected: str) -> None:
    live = LivePools({}, {"a": Declaration("a", "old")})
    (pool,) = plan_membership([PoolRequest("a", description=given)], live).pools
    assert pool.description == expected
    assert pool.action == ("unchanged" if expected == "old" else "update")
