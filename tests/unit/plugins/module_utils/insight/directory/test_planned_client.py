# SPDX-License-Identifier: BSD-2-Clause
"""What lists and objects are once plans are applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import ABSENT, Change
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.planned_client import (
    PlannedClient,
    after_steps,
    selector_matches,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import NODE


def node(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": labels}, "spec": {"a": 1}}


def labelled(key: str, before: Any, after: Any) -> Step:
    return Step(Action.UPDATE, {}, node(), (Change(("metadata", "labels", key), before, after),))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("pool", True),
        ("!pool", False),
        ("!team", True),
        ("pool=train", True),
        ("pool=dev", False),
        ("pool in (dev,train)", True),
        ("pool in (dev,debug)", False),
        ("tier=gold,pool in (dev,train)", True),
        ("pool in (dev,train),tier", True),
        ("pool in (train),!tier", False),
        ("pool,tier=silver", False),
    ],
)
def test_selectors(selector: str, expected: bool) -> None:
    assert selector_matches(selector, node(pool="train", tier="gold")) is expected


def test_steps_add_up() -> None:
    steps = [labelled("pool", ABSENT, "train"), labelled("old", "x", ABSENT), labelled("pool", "train", "dev")]
    assert after_steps(steps, node(old="x", kept="y")) == node(kept="y", pool="dev")


def test_no_step_leaves_an_object_as_it_is() -> None:
    assert after_steps([], node()) == node()
    assert after_steps([], None) is None


@pytest.mark.parametrize("live", [None, node(pool="old")])
def test_a_created_object_is_the_desired_one(live: Any) -> None:
    assert after_steps([Step(Action.CREATE, node(pool="new"), {})], live) == node(pool="new")
    assert after_steps([Step(Action.RECREATE, node(pool="new"), node())], live) == node(pool="new")


def test_a_deleted_object_is_gone_and_can_be_created_again() -> None:
    gone = Step(Action.DELETE, {}, node())
    assert after_steps([gone], node()) is None
    assert after_steps([gone, Step(Action.CREATE, node(a="b"), {})], node()) == node(a="b")
    assert after_steps([labelled("pool", ABSENT, "train")], None) is None


@pytest.mark.parametrize(
    ("step", "asked", "listed"),
    [
        (labelled("pool", ABSENT, "train"), "", ["node-1"]),
        (Step(Action.UPDATE, {}, node(), (Change(("spec", "a"), 1, 2),)), "pool", []),
        (Step(Action.CREATE, node(pool="train"), {}), "pool", ["node-1"]),
        (Step(Action.DELETE, {}, node(pool="train")), "pool", []),
    ],
)
def test_only_if_a_plan_labels_objects_all_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, step: Step, asked: str, listed: list[str]
) -> None:
    queries: list[str] = []

    def list_slim(self: Client, resource: Any, slim: Any, namespace: Any = None, **query: Any) -> list[Any]:
        queries.append(query["labels"])
        return [] if query["labels"] else [slim(node())]

    monkeypatch.setattr(Client, "list_slim", list_slim)
    client = PlannedClient(cast(Any, SimpleNamespace()))
    client.assume([Plan("node-1", "", "node", (step,))])
    assert client.list_slim(NODE, lambda obj: obj["metadata"]["name"], labels="pool") == listed
    assert queries == [asked]
