# SPDX-License-Identifier: BSD-2-Clause
"""Policies beside a directory: the plan tells what they forbid before they are there, and provision applies them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from .manifests import training
from .recorder import Recorder
from .test_plan import Scene, scene

__all__ = ["scene"]


@pytest.fixture
def guarded(scene: Scene, recorder: Recorder) -> Iterator[Scene]:
    """A team that may use one GPU in a job, and asks for two. Only a cluster administrator may write policies."""
    recorder.identity = scene.api
    name, team = f"{scene.field.prefix}-policy", scene.teams["a"]
    policy: dict[str, Any] = {"kind": "policy", "policy": {"name": name}, "teams": {team: {"max_gpus_per_job": 1}}}
    (scene.ansible.directory / "policy.yaml").write_text(yaml.safe_dump(policy))
    scene.pool("a", 0)
    scene.quota(a={"gpu": 4})
    scene.job(training("greedy"), gpu=2)
    scene.write()
    yield scene
    scene.ansible.module("gpuctl_policy", name=name, state="absent")


def test_a_plan_tells_what_its_policies_will_forbid_and_provision_applies_them(guarded: Scene) -> None:
    name = f"{guarded.field.prefix}-policy"
    planned = guarded.run("plan", dir="cluster", policies="policy.yaml")
    assert planned.status != 0
    (line,) = [line for line in planned.output.splitlines() if line.startswith("Refused: ")]
    assert "training" in line
    assert f"policy {name}" in " ".join(planned.output.split())
    assert guarded.api.get("configmap", f"policy-{name}", "gpuctl-system") is None

    guarded.change("greedy", "resources", gpu=1)
    guarded.write()
    plan = guarded.plan(policies="policy.yaml")
    assert ("policy", name, "create") in {(row["kind"], row["name"], row["action"]) for row in plan["results"]}
    done = guarded.run("provision", plan="plan.json")
    assert done.status == 0, done.output
    assert guarded.api.get("configmap", f"policy-{name}", "gpuctl-system")
    assert guarded.api.get("job", "greedy", guarded.teams["a"])
    assert guarded.plan(policies="policy.yaml")["results"] == []
