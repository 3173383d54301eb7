# SPDX-License-Identifier: BSD-2-Clause
"""The options that gpuctl_node_label rejects before it sends a request, and the messages."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_label import run
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_label_options import NodeLabelOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed


def refusal(**options: Any) -> list[str]:
    task = Task(NodeLabelOptions(**{"nodes": ["a"], **options}), {}, False, lambda text: None, lambda values: None)
    with pytest.raises(TaskFailed) as raised:
        run(task)
    return str(raised.value).splitlines()


CHARACTERS = "Use letters, digits, '-', '_' and '.', and begin and end with a letter or digit."
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "the prefix of someone else": (
        {"nvidia.com/gpu": "1"},
        "labels.nvidia.com/gpu: the prefix nvidia.com/ is not allowed. Use runwhere.ai/ or no prefix.",
    ),
    "a prefix like ours": (
        {"runwhere.ai.evil.com/gpu": "1"},
        "labels.runwhere.ai.evil.com/gpu: the prefix runwhere.ai.evil.com/ is not allowed. Use runwhere.ai/ or no "
        "prefix.",
    ),
    "two slashes": ({"runwhere.ai/a/b": "1"}, f"labels.runwhere.ai/a/b: invalid label key. {CHARACTERS}"),
    "an empty key": ({"runwhere.ai/": "1"}, f"labels.runwhere.ai/: invalid label key. {CHARACTERS}"),
    "a long key": (
        {"k" * 64: "1"},
        f"labels.{'k' * 64}: the key has 64 characters after the prefix. Use at most 63.",
    ),
    "a long value": (
        {"rack": "v" * 64},
        f"labels.rack: the value has 64 characters: {'v' * 64}. Use at most 63.",
    ),
    "a value with a space": (
        {"gpu-type": "A100 80G"},
        f"labels.gpu-type: invalid label value 'A100 80G'. {CHARACTERS}",
    ),
    "a value that ends in a line break": (
        {"rack": "a\n"},
        f"labels.rack: invalid label value 'a\\n'. {CHARACTERS}",
    ),
    "a list": ({"rack": ["a"]}, "labels.rack: the value is a list. Use a string."),
    "the default pool": (
        {"pool": "default"},
        "labels.pool: the name default is reserved, because it denotes the nodes without a pool. To remove "
        "nodes from their pool, remove the label (null).",
    ),
    "an empty pool": (
        {"runwhere.ai/pool": ""},
        "labels.runwhere.ai/pool: must not be empty. To remove nodes from their pool, remove the label (null).",
    ),
    "a pool that could not be declared": (
        {"pool": "Team_A"},
        "labels.pool: invalid pool name 'Team_A'. Use lower case letters, digits and '-'.",
    ),
    "one label in two spellings": (
        {"rack": "1", "runwhere.ai/rack": "2"},
        "labels.runwhere.ai/rack: given with and without the prefix runwhere.ai/. Remove one of them.",
    ),
    "no label": ({}, "labels: must not be empty. Name at least one label."),
}


@pytest.mark.parametrize(("labels", "message"), CASES.values(), ids=CASES)
def test_an_invalid_label(labels: dict[str, Any], message: str) -> None:
    assert refusal(labels=labels) == [message, "Nothing was changed."]


def test_all_errors_are_reported_at_once() -> None:
    assert len(refusal(labels={"a.com/x": "1", "rack": "a b", "pool": "none"})) == 4


def test_a_pool_that_would_be_another_selector() -> None:
    assert refusal(nodes=None, pool="a,b=c", labels={"x": "1"})[0] == f"pool: invalid name 'a,b=c'. {CHARACTERS}"


@pytest.mark.parametrize("choice", ["pool", "selector"])
def test_an_empty_choice_is_not_every_node(choice: str) -> None:
    assert refusal(**{"nodes": None, choice: "", "labels": {"x": "1"}})[0].startswith(f"{choice}: ")


def test_keys_to_remove_follow_the_same_rules() -> None:
    assert refusal(state="absent", keys=["a.com/x", "ok"])[0].startswith("keys: a.com/x: the prefix a.com/ ")
