# SPDX-License-Identifier: BSD-2-Clause
"""The rules of tests/contract/README.md, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from contract.matcher import Matcher, Rules, at_path, fill

UID = "0d3f1c5e-1111-2222-3333-444455556666"
SUBSET = Rules(subset=True)

CASES: list[tuple[str, Rules, Any, Any, bool]] = [
    ("equal", Rules(), {"a": [1, "x", None, True]}, {"a": [1, "x", None, True]}, True),
    ("a key too many", Rules(), {"a": 1}, {"a": 1, "b": 2}, False),
    ("a key missing", Rules(), {"a": 1, "b": 2}, {"a": 1}, False),
    ("null is not a missing key", Rules(), {"a": None}, {}, False),
    ("true is not 1", Rules(), {"a": 1}, {"a": True}, False),
    ("1 is not true", Rules(), {"a": True}, {"a": 1}, False),
    ("numbers are compared as numbers", Rules(), {"a": 1}, {"a": 1.0}, True),
    ("a number is no text", Rules(), {"a": 1}, {"a": "1"}, False),
    ("lists are ordered", Rules(), [1, 2], [2, 1], False),
    ("subset: more keys at every depth", SUBSET, {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}, True),
    ("subset: lists keep their length", SUBSET, {"a": [1]}, {"a": [1, 2]}, False),
    ("subset: entries may have more keys", SUBSET, [{"a": 1}], [{"a": 1, "b": 2}], True),
    ("ignored whatever is there", Rules(ignore=["/a"]), {"a": 1}, {"a": 2}, True),
    ("ignored when missing", Rules(ignore=["/a"]), {"a": 1}, {}, True),
    ("ignored when not recorded", Rules(ignore=["/a"]), {}, {"a": 1}, True),
    ("a star is one step", Rules(ignore=["/*/x"]), {"a": {"x": 1}}, {"a": {"x": 2}}, True),
    ("a star is not two steps", Rules(ignore=["/*/x"]), {"a": {"b": {"x": 1}}}, {"a": {"b": {"x": 2}}}, False),
    ("unordered", Rules(unordered=["/a"]), {"a": [1, 2]}, {"a": [2, 1]}, True),
    ("unordered has no more entries", Rules(unordered=["/a"]), {"a": [1]}, {"a": [1, 2]}, False),
    ("contains", Rules(contains=["/a"]), {"a": [2]}, {"a": [1, 2]}, True),
    ("contains needs each entry once", Rules(contains=["/a"]), {"a": [1, 1]}, {"a": [1, 2]}, False),
    ("the body itself", Rules(contains=[""]), [3], [1, 2, 3], True),
    (
        "entries are paired so that all find one",
        Rules(unordered=[""]),
        ["<text>", "x"],
        ["x", "y"],
        True,
    ),
    ("uid", Rules(), "<uid>", UID, True),
    ("no uid", Rules(), "<uid>", "abc", False),
    ("a placeholder within a text", Rules(), 'uid "<uid>" of <rv>', f'uid "{UID}" of 12', True),
    ("the text around it counts", Rules(), "at <rv>", "on 12", False),
    ("a time with a fraction", Rules(), "<time>", "2026-01-02T03:04:05.123456Z", True),
    ("no time", Rules(), "<time>", "2026-01-02", False),
    ("an address", Rules(), "<ip>", "10.0.0.1", True),
    ("a node port is a number", Rules(), "<port>", 30086, True),
    ("... in range", Rules(), "<port>", 29999, False),
    ("... and not a text", Rules(), "<port>", "30086", False),
    ("made-up part of a name", Rules(), "web-<rand>", "web-x7k2p", True),
    ("made-up parts are lower case", Rules(), "web-<rand>", "web-X", False),
    ("lines", Rules(), "<lines:2>", "a\nb\n", True),
    ("other lines", Rules(), "<lines:2>", "a\n", False),
    ("items", Rules(), {"a": "<items:2>"}, {"a": [1, 2]}, True),
    ("no items may be missing", Rules(), {"a": "<items:0>"}, {}, True),
    ("one item may not", Rules(), {"a": "<items:1>"}, {}, False),
    ("absent", SUBSET, {"a": "<absent>"}, {"b": 1}, True),
    ("not absent", SUBSET, {"a": "<absent>"}, {"a": 1}, False),
    ("managedFields that are not recorded", Rules(), {}, {"managedFields": [{}]}, True),
    (
        "managedFields: entries may have more keys, in any order",
        Rules(),
        {"managedFields": [{"manager": "a"}, {"manager": "b"}]},
        {"managedFields": [{"manager": "b", "time": "t"}, {"manager": "a", "time": "t"}]},
        True,
    ),
    (
        "managedFields: fields are compared in full",
        Rules(),
        {"managedFields": [{"manager": "a", "fieldsV1": {"f:x": {}}}]},
        {"managedFields": [{"manager": "a", "fieldsV1": {"f:x": {}, "f:y": {}}}]},
        False,
    ),
    (
        "managedFields: an entry too many",
        Rules(),
        {"managedFields": [{"manager": "a"}]},
        {"managedFields": [{"manager": "a"}, {"manager": "b"}]},
        False,
    ),
]


@pytest.mark.parametrize(("rules", "expected", "actual", "matches"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_matching(rules: Rules, expected: Any, actual: Any, matches: bool) -> None:
    assert (Matcher(rules).differences(expected, actual) == []) is matches


def test_expect_asks_for_contents_in_any_order() -> None:
    contained = Matcher(SUBSET, contained=True)
    assert contained.differences({"a": [{"x": 1}]}, {"a": [{"x": 2}, {"x": 1, "y": 1}]}) == []
    assert contained.differences({"a": [{"x": 3}]}, {"a": [{"x": 2}]}) != []


@pytest.mark.parametrize(
    ("given", "url", "filled"),
    [
        ("{{rv}}", False, 7),
        ("v{{rv}}", False, "v7"),
        ("/x?c={{c}}", True, "/x?c=a%2Fb%3D"),
        ({"k": ["{{c}}"]}, False, {"k": ["a/b="]}),
    ],
)
def test_captured_values_are_put_in(given: Any, url: bool, filled: Any) -> None:
    assert fill(given, {"rv": 7, "c": "a/b="}, url=url) == filled


def test_paths_name_keys_with_slashes_and_list_entries() -> None:
    assert at_path({"a": {"b/c": [1, {"d": 2}]}}, "/a/b~1c/1/d") == 2
    with pytest.raises(KeyError):
        at_path({"a": []}, "/a/0")
