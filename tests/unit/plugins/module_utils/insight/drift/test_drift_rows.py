# SPDX-License-Identifier: BSD-2-Clause
"""What a row of drift says about who, and what it does not show."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import Change
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.drift.drift_rows import (
    Declaring,
    addition_row,
    change_row,
    node_additions,
    step_additions,
)

AUDIT = "audit.example.com/user"


def service(*held: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata = {"name": "s", "namespace": "a", "labels": {"app": "x"}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "managedFields": list(held)}}


def entry(manager: str, part: str, key: str, minute: int | None) -> dict[str, Any]:
    time = {} if minute is None else {"time": f"2026-01-01T10:{minute:02}:00Z"}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:metadata": {part: {f"f:{key}": {}}}}, **time}


@pytest.mark.parametrize(
    ("theirs", "ours", "user"), [(2, 1, "bob"), (1, 2, None), (None, 1, None), (None, None, "bob")]
)
def test_the_annotation_of_the_last_write_names_no_user_if_that_was_ours(
    theirs: int | None, ours: int | None, user: str | None
) -> None:
    held = entry("kubectl", "f:labels", "app", theirs), entry("runwhere.gpuctl", "f:labels", "b", ours)
    live = service(*held, **{AUDIT: "bob"})
    found = change_row(live, Change(("metadata", "labels", "app"), "x", "y"), Declaring("compute a/s", AUDIT))
    assert (found["manager"], found["user"]) == ("kubectl", user)


def test_an_annotation_that_others_have_added_shows_no_secret() -> None:
    live = service(
        entry("kubectl", "f:annotations", "api-token", 1),
        entry("kubectl", "f:annotations", "note", 1),
        **{"api-token": "s3cr3t-v4lue", "note": "hello"},
    )
    step = Step(Action.UNCHANGED, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}, live)
    rows = [addition_row(step, each, Declaring("compute a/s")) for each in step_additions(step)]
    assert {row["id"].rpartition(":")[2]: row["live"] for row in rows} == {
        "metadata.annotations.api-token": "********",
        "metadata.annotations.note": "hello",
    }


@pytest.mark.parametrize(
    ("managers", "level"), [([], "warning"), (["kubectl-taint"], "warning"), (["kubelet"], "info")]
)
def test_a_taint_is_drift_unless_a_controller_has_set_it(managers: list[str], level: str) -> None:
    fields = [
        {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:taints": {}}}} for manager in managers
    ]
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1", "managedFields": fields},
        "spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]},
    }
    (taint,) = node_additions(node, ())
    row = addition_row(Step(Action.UNCHANGED, {}, node), taint, Declaring("pool a"))
    assert (row["field"], row["level"]) == ("spec.taints[broken,NoSchedule]", level)
