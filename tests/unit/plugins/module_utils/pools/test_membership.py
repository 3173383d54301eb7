# SPDX-License-Identifier: BSD-2-Clause
"""Which node belongs to which pool, and what has to change for what is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.declaration import Declaration
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.membership import (
    Membership,
    PoolRequest,
    PoolsNow,
    declarations_after,
    plan_membership,
    unknown_nodes,
)

CASES = yaml.safe_load(Path(__file__).with_name("membership.yaml").read_text())
PREFIX = "runwhere.ai/"


def prefixed(labels: dict[str, Any]) -> dict[str, Any]:
    return {PREFIX + key: value for key, value in labels.items()}


def there(case: dict[str, Any]) -> PoolsNow:
    nodes = {node: prefixed(labels) for node, labels in case["nodes"].items()}
    pools = {name: Declaration(name, "", nodes) for name, nodes in case.get("pools", {}).items()}
    return PoolsNow(nodes, pools, case.get("foreign", ()))


def planned(case: dict[str, Any], now: PoolsNow) -> Membership:
    requests = [PoolRequest(**{**ask, "remove": frozenset(ask.get("remove", ()))}) for ask in case["ask"]]
    return plan_membership(requests, now, force=case.get("force", False))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_has_to_change(case: dict[str, Any]) -> None:
    plan = planned(case, there(case))
    assert list(plan.blockers) == case.get("obstacles", [])
    if plan.blockers:
        return
    assert plan.labels == {node: prefixed(edit) for node, edit in case.get("labels", {}).items()}
    declared = {name: after.nodes if after else None for name, after in plan.declarations.items()}
    assert declared == case.get("declared", {})
    for pool, expected in zip(plan.pools, case["result"], strict=True):
        assert (pool.name, pool.action) == (expected["name"], expected["action"])
        assert list(pool.added) == expected.get("added", [])
        assert list(pool.removed) == expected.get("removed", [])
        assert {node: list(types) for node, types in pool.changed_types.items()} == expected.get("changed_types", {})
        assert pool.taken_from == expected.get("taken_from", {})


@pytest.mark.parametrize("case", [case for case in CASES if "obstacles" not in case], ids=lambda case: case["name"])
def test_what_was_changed_needs_no_second_change(case: dict[str, Any]) -> None:
    now = there(case)
    plan = planned(case, now)
    nodes = {
        node: {key: value for key, value in {**labels, **plan.labels.get(node, {})}.items() if value is not None}
        for node, labels in now.nodes.items()
    }
    pools = {name: after for name, after in {**now.declarations, **plan.declarations}.items() if after}
    again = planned({**case, "force": False}, PoolsNow(nodes, pools))
    assert (again.labels, again.declarations, again.blockers) == ({}, {}, ())
    assert {pool.action for pool in again.pools} == {"unchanged"}


DESCRIPTIONS = {
    "none is given": (None, "old"),
    "another one": ("new", "new"),
    "an empty one": ("", ""),
}


@pytest.mark.parametrize(("given", "expected"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_the_description_of_a_pool(given: str | None, expected: str) -> None:
    now = PoolsNow({}, {"a": Declaration("a", "old")})
    plan = plan_membership([PoolRequest("a", description=given)], now)
    assert plan.pools[0].description == expected
    assert plan.pools[0].action == ("unchanged" if expected == "old" else "update")


def test_declarations_follow_labels() -> None:
    pools = {"a": Declaration("a", "", {"n1": "T4", "n2": None}), "b": Declaration("b", "", {"n3": "T4"})}
    after = declarations_after(PoolsNow({}, pools), {"n1": "b", "n2": None, "n3": "b", "n4": "elsewhere"})
    assert {name: dict(declaration.nodes) for name, declaration in after.items()} == {
        "a": {},
        "b": {"n3": "T4", "n1": None},
    }


def test_only_the_first_unknown_names_are_compared_with_all_nodes() -> None:
    """A play for another cluster names a thousand nodes that this one does not have."""
    unknown = unknown_nodes([f"gpu-{number}x" for number in range(1000)], [f"gpu-{number}" for number in range(2000)])
    assert len(unknown) == 1000
    assert [said for said in unknown.values() if "did you mean" in said] == [
        f"the cluster has no node gpu-{number}x; did you mean gpu-{number}?" for number in range(3)
    ]
    assert unknown["gpu-999x"] == "the cluster has no node gpu-999x; kubectl get nodes lists the names."
