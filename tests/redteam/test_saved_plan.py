# SPDX-License-Identifier: BSD-2-Clause
"""Somebody who can write the file of a saved plan, but does not have the key of the controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.manifests import training
from kubesim import Cluster

from .hostile import run

KEY = "0123456789abcdef-plan-key"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1).running() as cluster:
        yield cluster


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "train.yaml").write_text(json.dumps(training()))
    return tmp_path


def planned(cluster: Cluster, directory: Path, **options: Any) -> dict[str, Any]:
    given = {"src": [str(directory / "cluster")], "namespace": "default", "request_timeout": 20, **options}
    return run("insight.plan.plan_info", cluster.url, api_key=cluster.token, **given).result


def test_a_changed_plan_is_refused(cluster: Cluster, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCTL_PLAN_KEY", KEY)
    made = planned(cluster, directory)
    assert KEY not in json.dumps(made)
    file = directory / "plan.json"
    file.write_text(json.dumps(made))
    assert not planned(cluster, directory, plan=str(file)).get("failed")
    shown = {**made["plan"], "summary": "what a workflow adds"}
    assert not planned(cluster, directory, plan=shown).get("failed"), "only what decides is signed"

    plan = made["plan"]
    for changed in (
        {**plan, "options": {**plan["options"], "force": True}},
        {**plan, "cluster": ""},
        {**plan, "manifests": "0" * 64},
        {**plan, "signature": "0" * 64},
        {**plan, "signature": "\u00e9"},
    ):
        refused = planned(cluster, directory, plan=changed)
        assert "changed since it was made, or signed with another GPUCTL_PLAN_KEY" in refused["msg"]
    unsigned = {name: value for name, value in plan.items() if name != "signature"}
    for without in (unsigned, {**plan, "signature": None}):
        assert "not signed, although GPUCTL_PLAN_KEY is set" in planned(cluster, directory, plan=without)["msg"]
    monkeypatch.setenv("GPUCTL_PLAN_KEY", KEY[::-1])
    assert "signed with another GPUCTL_PLAN_KEY" in planned(cluster, directory, plan=plan)["msg"]


def test_without_a_key_plans_are_as_they_were(
    cluster: Cluster, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUCTL_PLAN_KEY", raising=False)
    made = planned(cluster, directory)
    assert "signature" not in made["plan"]
    assert not planned(cluster, directory, plan=made["plan"]).get("failed")
    monkeypatch.setenv("GPUCTL_PLAN_KEY", "short")
    assert "GPUCTL_PLAN_KEY: too short" in planned(cluster, directory)["msg"]
