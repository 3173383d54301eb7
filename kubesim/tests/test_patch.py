# SPDX-License-Identifier: BSD-2-Clause
"""JSON patch, merge patch and strategic merge patch where the recordings do not reach."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim import schema
from kubesim.errors import ApiError
from kubesim.patch import json_patch, merge_patch, patched, strategic_merge

JSON_PATCHES = [
    ("insert into a list", {"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ("append", {"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ("move", {"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ("copy", {"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
    ("test of null on a missing key", {}, [{"op": "test", "path": "/a", "value": None}], {}),
    ("an escaped tilde", {"a~b": 1}, [{"op": "remove", "path": "/a~0b"}], {}),
]


@pytest.mark.parametrize(
    ("given", "operations", "expected"), [c[1:] for c in JSON_PATCHES], ids=[c[0] for c in JSON_PATCHES]
)
def test_json_patch(given: Any, operations: Any, expected: Any) -> None:
    assert json_patch(given, operations) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/7", "value": 1},
        {"op": "add", "path": "/missing/x", "value": 1},
        {"op": "remove", "path": "/a/7"},
        {"op": "test", "path": "/b", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "add", "path": "/x"},
    ],
)
def test_json_patches_that_cannot_be_applied_are_422(operation: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": [1], "b": True}, [operation])
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("given", "patch", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
    ],
)
def test_merge_patch(given: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(given, patch) == expected


POD = schema.of("", "v1", "Pod")


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"finalizers": ["a/a", "b/b"]}, "spec": spec}


STRATEGIC = [
    (
        "entries merge by name, new ones are appended",
        pod(containers=[{"name": "a", "image": "1", "tty": True}]),
        {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "3"}]}},
        pod(containers=[{"name": "a", "image": "3", "tty": True}, {"name": "b", "image": "2"}]),
    ),
    (
        "an entry is deleted",
        pod(containers=[{"name": "a"}, {"name": "b"}]),
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        pod(containers=[{"name": "b"}]),
    ),
    (
        "a list is replaced",
        pod(containers=[{"name": "a"}, {"name": "b"}]),
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
        pod(containers=[{"name": "c"}]),
    ),
    (
        "an order is set",
        pod(containers=[{"name": "a"}, {"name": "b"}]),
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "b", "tty": True}],
            }
        },
        pod(containers=[{"name": "b", "tty": True}, {"name": "a"}]),
    ),
    (
        "lists without a merge strategy are replaced",
        pod(tolerations=[{"key": "a"}]),
        {"spec": {"tolerations": [{"key": "b"}]}},
        pod(tolerations=[{"key": "b"}]),
    ),
    (
        "only some keys of a volume are retained",
        pod(volumes=[{"name": "v", "emptyDir": {}}]),
        {"spec": {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/x"}}]}},
        pod(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
    ),
    (
        "a map is replaced",
        pod(nodeSelector={"a": "1"}),
        {"spec": {"nodeSelector": {"$patch": "replace", "b": "1"}}},
        pod(nodeSelector={"b": "1"}),
    ),
]


@pytest.mark.parametrize(("given", "patch", "expected"), [c[1:] for c in STRATEGIC], ids=[c[0] for c in STRATEGIC])
def test_strategic_merge(given: Any, patch: Any, expected: Any) -> None:
    assert strategic_merge(given, patch, POD) == expected


def test_primitive_lists_merge_and_lose_entries() -> None:
    added = strategic_merge(pod(), {"metadata": {"finalizers": ["c/c"]}}, POD)
    assert added["metadata"]["finalizers"] == ["a/a", "b/b", "c/c"]
    removed = strategic_merge(pod(), {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}, POD)
    assert removed["metadata"]["finalizers"] == ["b/b"]


def test_an_entry_without_its_merge_key_is_refused() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge(pod(), {"spec": {"containers": [{"image": "x"}]}}, POD)


@pytest.mark.parametrize(("kind", "beginning"), [("merge", "error decoding patch: "), ("strategic", "")])
def test_a_patch_that_is_no_object_is_refused(kind: str, beginning: str) -> None:
    """jsonPatcher.applyJSPatch and strategicPatchObject differ in how they begin."""
    text = f"^{beginning}json: cannot unmarshal array into Go value"
    with pytest.raises(ApiError, match=text):
        patched(pod() | {"apiVersion": "v1", "kind": "Pod"}, kind, b"[]", "Warn")
