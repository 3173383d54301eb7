# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_node_label refuses before it looks at the cluster, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_label import node_label_argument_spec, run
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed


def refusal(**options: Any) -> list[str]:
    defaults = {name: option.get("default") for name, option in node_label_argument_spec().items()}
    params = {**defaults, "nodes": ["a"], **options}
    task = Task(params, params, False, lambda text: None, lambda values: None)
    with pytest.raises(TaskFailed) as raised:
        run(task)
    return str(raised.value).splitlines()


CHARACTERS = "use letters, digits, '-', '_' and '.', and begin and end with a letter or digit."
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "the prefix of somebody else": (
        {"nvidia.com/gpu": "1"},
        "labels.nvidia.com/gpu has the prefix nvidia.com/, whose labels belong to others; only runwhere.ai/ can be set "
        "here (or no prefix).",
    ),
    "nearly our prefix": (
        {"runwhere.ai.evil.com/gpu": "1"},
        "labels.runwhere.ai.evil.com/gpu has the prefix runwhere.ai.evil.com/, whose labels belong to others; only "
        "runwhere.ai/ can be set here (or no prefix).",
    ),
    "two slashes": ({"runwhere.ai/a/b": "1"}, f"labels.runwhere.ai/a/b is not the key of a label; {CHARACTERS}"),
    "a key of nothing": ({"runwhere.ai/": "1"}, f"labels.runwhere.ai/ is not the key of a label; {CHARACTERS}"),
    "a long key": (
        {"k" * 64: "1"},
        f"labels.{'k' * 64} has 64 characters after the prefix; use at most 63.",
    ),
    "a long value": (
        {"rack": "v" * 64},
        f"labels.rack has a value of 64 characters ({'v' * 64}); a label's value has at most 63.",
    ),
    "a value with blanks": (
        {"gpu-type": "A100 80G"},
        f"labels.gpu-type has the value 'A100 80G', which no label can have; {CHARACTERS}",
    ),
    "a value that ends in a line break": (
        {"rack": "a\n"},
        f"labels.rack has the value 'a\\n', which no label can have; {CHARACTERS}",
    ),
    "a list": ({"rack": ["a"]}, "labels.rack is a list; a label has one text."),
    "the default pool": (
        {"pool": "default"},
        "labels.pool is default, which stands for the nodes that are in no pool; to take nodes out of their pool, "
        "remove the label (null).",
    ),
    "an empty pool": (
        {"runwhere.ai/pool": ""},
        "labels.runwhere.ai/pool is empty; to take nodes out of their pool, remove the label (null).",
    ),
    "a pool that could not be declared": (
        {"pool": "Team_A"},
        "labels.pool has the value 'Team_A', which is no name of a pool; use lower case letters, digits and '-'.",
    ),
    "one label in two spellings": (
        {"rack": "1", "runwhere.ai/rack": "2"},
        "labels.runwhere.ai/rack is given twice, with and without the prefix runwhere.ai/; keep one.",
    ),
    "no label": ({}, "labels is empty; name at least one label."),
}


@pytest.mark.parametrize(("labels", "message"), CASES.values(), ids=CASES)
def test_a_label_is_refused_in_these_words(labels: dict[str, Any], message: str) -> None:
    assert refusal(labels=labels) == [message, "Nothing was changed."]


def test_all_mistakes_are_told_at_once() -> None:
    assert len(refusal(labels={"a.com/x": "1", "rack": "a b", "pool": "none"})) == 4


def test_a_pool_that_would_be_another_selector_is_refused() -> None:
    assert (
        refusal(nodes=None, pool="a,b=c", labels={"x": "1"})[0]
        == f"pool 'a,b=c' is not the name of a pool; {CHARACTERS}"
    )


@pytest.mark.parametrize("choice", ["pool", "selector"])
def test_an_empty_choice_is_not_every_node(choice: str) -> None:
    assert refusal(**{"nodes": None, choice: "", "labels": {"x": "1"}})[0].startswith(f"{choice} ")


def test_keys_to_remove_are_held_to_the_same_rules() -> None:
    assert refusal(state="absent", keys=["a.com/x", "ok"])[0].startswith("keys: a.com/x has the prefix a.com/")
