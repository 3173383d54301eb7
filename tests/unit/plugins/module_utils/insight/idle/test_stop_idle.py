# SPDX-License-Identifier: BSD-2-Clause
"""Whose budget is used up, so that idle jobs are paused."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle.stop_idle import used_up_until

NOW = datetime(2031, 5, 14, 12, tzinfo=timezone.utc)
MANAGED = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
Object = dict[str, Any]


def resource_quota(name: str, found: Object, **metadata: Any) -> Object:
    labels = MANAGED if name.startswith("gpuctl-") else {**MANAGED, "runwhere.ai/quota": "q"}
    annotations = {"runwhere.ai/gpu-hours": json.dumps(found)}
    return {"metadata": {"name": name, "namespace": "a", "labels": labels, "annotations": annotations, **metadata}}


def declared(
    limit: int = 10, then: str = "stop_idle", per: str = "month", name: str = "q-a", **metadata: Any
) -> Object:
    return resource_quota(name, {"limit": limit, "per": per, "warn_at": "80%", "then": then}, **metadata)


def counted(used: float = 10.0, name: str = "2031-06-01", **metadata: Any) -> Object:
    found = {"used": used, "at": "2031-05-14T11:00:00Z"}
    return resource_quota(f"gpuctl-gpu-hours-until-{name}", found, **metadata)


@pytest.mark.parametrize(
    ("objects", "until"),
    [
        ([declared(), counted()], "2031-06-01T00:00:00Z"),
        ([declared(per="week"), counted(name="2031-05-19")], "2031-05-19T00:00:00Z"),
        ([declared(), counted(name="2031-06-01-low")], "2031-06-01T00:00:00Z"),
        ([declared(), counted(9.9)], None),
        ([declared(), counted(name="2031-05-01")], None),
        ([declared(), counted(name="2031-07-01")], None),
        ([declared()], None),
        ([counted()], None),
        ([declared(then="refuse"), counted()], None),
        ([declared(deletionTimestamp="2031-05-14T11:00:00Z"), counted()], None),
        ([declared(namespace="b"), counted()], None),
        ([declared(labels=MANAGED), counted()], None),
        ([declared(labels={"runwhere.ai/quota": "q"}), counted()], None),
        ([declared(), counted(labels={})], None),
        ([declared(limit=20), declared(name="r-a"), counted()], "2031-06-01T00:00:00Z"),
        ([declared(limit=20), declared(then="refuse", name="r-a"), counted(30)], None),
    ],
    ids=[
        "used up",
        "a week",
        "counted for low_priority",
        "something is left",
        "the period before",
        "the period after",
        "not counted",
        "no quota",
        "refuse",
        "a quota that is being deleted",
        "another namespace",
        "not of a quota",
        "of others",
        "counted by others",
        "two quotas",
        "two quotas, of which the smaller one refuses",
    ],
)
def test_until_when_idle_jobs_are_paused(objects: list[Object], until: str | None) -> None:
    assert used_up_until(objects, NOW).get("a") == until
