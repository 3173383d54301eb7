# SPDX-License-Identifier: BSD-2-Clause
"""Results that leave the process of a task: without secrets, plain, and small."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import AT_ONCE, printable_data
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.module_action import _masked

HIDDEN = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"


def rows(number: int) -> list[dict[str, Any]]:
    written = [{"name": f"pod-{index}", "node": "gpu-node-1", "restarts": index, "tags": []} for index in range(number)]
    read: list[dict[str, Any]] = json.loads(json.dumps(written))
    return read


@pytest.mark.parametrize("number", [0, 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE + 5])
def test_rows_keep_their_order_and_values(number: int) -> None:
    assert _masked(rows(number), {"token"}) == rows(number)


@pytest.mark.parametrize("place", [0, AT_ONCE, 2 * AT_ONCE + 1])
def test_a_secret_in_any_row_is_masked(place: int) -> None:
    given = rows(2 * AT_ONCE + 2)
    given[place]["name"] = "with hunter22 in it"
    found = _masked(given, {"hunter22"})
    assert found[place]["name"] == "with ******** in it"
    assert "hunter22" not in json.dumps(found)


def test_equal_strings_of_many_rows_are_one() -> None:
    found = _masked(rows(2 * AT_ONCE), set())
    assert found[0]["node"] is found[AT_ONCE - 1]["node"]


@pytest.mark.parametrize(
    ("value", "masked"),
    [("hunter22", HIDDEN), (["hunter22", True], [HIDDEN, True]), (True, True), (None, None), ((1, 2), [1, 2])],
)
def test_values_of_every_type(value: Any, masked: Any) -> None:
    assert _masked(value, {"hunter22", "true", "True"}) == masked


@pytest.mark.parametrize("place", [0, AT_ONCE, 2 * AT_ONCE + 1])
def test_what_acts_on_a_terminal_is_found_in_any_row(place: int) -> None:
    given = rows(2 * AT_ONCE + 2)
    given[place]["node"] = "\x1b[2J"
    assert printable_data(given)[place]["node"] == "\\x1b[2J"
