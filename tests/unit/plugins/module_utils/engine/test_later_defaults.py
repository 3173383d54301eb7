# SPDX-License-Identifier: BSD-2-Clause
"""Defaults of later versions, on what former versions have built."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.later_defaults import (
    LaterDefault,
    as_formerly_built,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import ABSENT, with_value_at
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import plan_job, upgraded
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import BUILT_BY

from .objects import live, wanted

MAIN = ("spec", "template", "spec", "containers", (("name", "main"),))
HARDENED = (*MAIN, "securityContext")
# 1.1 brings a probe and two fields of a block, 1.2 another value for one of them, a third and a variable, 1.10 a label.
ROWS = {
    "1.1": (
        LaterDefault("Deployment", (*MAIN, "readinessProbe")),
        LaterDefault("Deployment", (*HARDENED, "seccompProfile")),
        LaterDefault("Deployment", (*HARDENED, "allowPrivilegeEscalation")),
    ),
    "1.2": (
        LaterDefault("Deployment", (*MAIN, "readinessProbe", "periodSeconds"), 5),
        LaterDefault("Deployment", (*HARDENED, "readOnlyRootFilesystem")),
        LaterDefault("Deployment", (*MAIN, "env", (("name", "NEW"),))),
    ),
    "1.10": (LaterDefault("Deployment", ("metadata", "labels", "new")),),
}
PROBE = {"tcpSocket": {"port": 1}}
PROFILE = {"type": "RuntimeDefault"}
BUILT = {
    "1.0": {"image": "a"},
    "1.1": {
        "image": "a",
        "readinessProbe": {**PROBE, "periodSeconds": 5},
        "securityContext": {"seccompProfile": PROFILE, "allowPrivilegeEscalation": False},
    },
    "1.2": {
        "image": "a",
        "readinessProbe": {**PROBE, "periodSeconds": 7},
        "securityContext": {
            "seccompProfile": PROFILE,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
        },
        "env": [{"name": "NEW", "value": "1"}],
    },
}


def spec(container: dict[str, Any], replicas: int = 1) -> dict[str, Any]:
    containers = [{"name": "main", **container}]
    return {"replicas": replicas, "template": {"spec": {"containers": containers}}}


def built_by(version: str, container: dict[str, Any] | None = None) -> dict[str, Any]:
    """The live Deployment as a version built it, or with another container."""
    obj = live("Deployment", spec=spec(BUILT[version] if container is None else container))
    if version != "1.0":
        obj["metadata"]["annotations"] = {BUILT_BY: version}
        tree = obj["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]
        tree["f:annotations"] = {f"f:{BUILT_BY}": {}}
    return obj


def desired(replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """As 1.10 builds it, with fields that the manifest sets."""
    obj = wanted("Deployment", spec=spec({**BUILT["1.2"], **fields}, replicas))
    obj["metadata"]["labels"]["new"] = "label"
    return obj


def plan(wanted_now: dict[str, Any], present: dict[str, Any]) -> Plan:
    return plan_job("train", "ml", "compute", [wanted_now], [present], ROWS)


def changed(found: Plan) -> list[str]:
    return [str(change) for change in found.steps[0].changes]


@pytest.mark.parametrize("version", BUILT)
def test_alone_they_change_nothing(version: str) -> None:
    assert changed(plan(desired(), built_by(version))) == []


@pytest.mark.parametrize("version", BUILT)
def test_upgraded_has_them_all(version: str) -> None:
    found = upgraded(plan(desired(), built_by(version)))
    assert "metadata.labels.new" in changed(found)
    applied = found.steps[0].desired
    assert applied["spec"] == desired()["spec"]
    assert applied["metadata"]["annotations"] == {BUILT_BY: "1.10"}


def test_a_change_in_place_brings_what_is_in_place() -> None:
    found = plan(desired(replicas=2), built_by("1.0"))
    assert changed(found) == ["metadata.labels.new", "spec.replicas"]
    assert found.steps[0].desired["spec"] == spec(BUILT["1.0"], replicas=2)


def test_a_change_of_the_pods_brings_all() -> None:
    found = plan(desired(image="b"), built_by("1.1"))
    assert found.steps[0].desired["spec"] == desired(image="b")["spec"]
    assert found.steps[0].desired["metadata"]["annotations"] == {BUILT_BY: "1.10"}


def test_a_field_of_the_manifest_beside_a_default_is_a_change() -> None:
    context = {**BUILT["1.2"]["securityContext"], "runAsUser": 1000}
    found = plan(desired(securityContext=context), built_by("1.0"))
    assert found.steps[0].desired["spec"] == desired(securityContext=context)["spec"]


@pytest.mark.parametrize(
    ("version", "lost"),
    [("1.1", "readinessProbe"), ("1.1", "securityContext"), ("1.2", "readinessProbe"), ("1.2", "env")],
)
def test_what_was_removed_is_restored(version: str, lost: str) -> None:
    left = {name: value for name, value in BUILT[version].items() if name != lost}
    assert any(lost in path for path in changed(plan(desired(), built_by(version, left))))


def test_what_another_manager_has_set_at_the_path_stays_theirs() -> None:
    present = built_by("1.0")
    present["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"path": "/", "port": 2}}
    assert changed(plan(desired(), present)) == []


@pytest.mark.parametrize("text", ["", "x", "1."])
def test_what_is_no_version_is_older_than_any(text: str) -> None:
    present = built_by("1.1")
    present["metadata"]["annotations"][BUILT_BY] = text
    former = as_formerly_built(desired(), present, ROWS)
    assert former["metadata"]["annotations"][BUILT_BY] == text
    assert changed(plan(desired(), present)) == []


@pytest.mark.parametrize(
    ("obj", "path", "value", "expected"),
    [
        ({"a": {"b": 1}}, ("a", "b"), 2, {"a": {"b": 2}}),
        ({"a": {"b": 1}}, ("a", "b"), ABSENT, {}),
        ({"a": {"b": 1, "c": {}}}, ("a", "b"), ABSENT, {"a": {"c": {}}}),
        ({}, ("a", "b"), ABSENT, {}),
        ({}, ("a", "b"), 1, {"a": {"b": 1}}),
        ({"l": [{"name": "x", "v": 1}]}, ("l", (("name", "x"),), "v"), 2, {"l": [{"name": "x", "v": 2}]}),
        ({"l": [{"name": "x"}, {"name": "y"}]}, ("l", (("name", "x"),)), ABSENT, {"l": [{"name": "y"}]}),
        ({"l": [{"name": "x"}]}, ("l", (("name", "x"),)), ABSENT, {}),
        ({"l": [{"name": "x"}]}, ("l", (("name", "y"),)), {"name": "y"}, {"l": [{"name": "x"}, {"name": "y"}]}),
    ],
    ids=lambda value: "absent" if value is ABSENT else str(value),
)
def test_a_value_at_a_path_leaves_nothing_empty_behind(obj: Any, path: Any, value: Any, expected: Any) -> None:
    before = json.dumps(obj)
    assert with_value_at(obj, path, value) == expected
    assert json.dumps(obj) == before
