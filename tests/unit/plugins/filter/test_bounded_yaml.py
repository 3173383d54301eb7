# SPDX-License-Identifier: BSD-2-Clause
"""YAML from survey answers: the data of a text, and no more than fits."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.runwhere.gpuctl.plugins.filter._bounded_yaml import bounded_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{former}'] * 9)}]\n" for former, name in zip("abcdefgh", "bcdefghi", strict=True)
)

ANSWERS: dict[str, tuple[Any, Any]] = {
    "a map": ("A: 1\nB: [x, {y: z}]", {"A": "1", "B": ["x", {"y": "z"}]}),
    "a list": ("[python, train.py, --lr, 1e-4]", ["python", "train.py", "--lr", "1e-4"]),
    "text as it was written": ("A: yes\nB: 1.10\nC: 0755", {"A": "yes", "B": "1.10", "C": "0755"}),
    "null": ("A: null\nB:\nC: ''", {"A": None, "B": None, "C": ""}),
    "nothing": ("", None),
    "an alias": ("a: &a {x: y}\nb: *a", {"a": {"x": "y"}, "b": {"x": "y"}}),
    "data": ({"A": 1}, {"A": 1}),
}
REFUSED = {
    "an alias bomb": (BOMB, "aliases repeat more than 10000 values"),
    "a deep text": ("[" * 1000, "nested more than 32 levels deep"),
    "a large text": ("a" * 2**20 + "a", "larger than 1024 KiB"),
    "many values": ("[" + "a," * 200_000 + "]", "more than 100000 values"),
    "an object": ("!!python/object/apply:os.system [id]", "unsupported tag"),
    "no YAML": ("{", "expected a value"),
    "two documents": ("a: 1\n---\nb: 2", "one document expected, got 2"),
}


@pytest.mark.parametrize(("text", "data"), ANSWERS.values(), ids=ANSWERS)
def test_data_of_an_answer(text: Any, data: Any) -> None:
    assert bounded_yaml(text) == data


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_an_answer_is_refused(text: str, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        bounded_yaml(text)
