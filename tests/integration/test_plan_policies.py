# SPDX-License-Identifier: BSD-2-Clause
"""Policies beside a directory: the plan tells what they forbid before they are there, and provision applies them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import ADMISSION_POLICIES
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import ADMINISTER, SUBMIT

from .accounts import account
from .api import require
from .manifests import training
from .recorder import Recorder
from .test_plan import Scene, scene

__all__ = ["scene"]


@pytest.fixture
def guarded(scene: Scene, recorder: Recorder) -> Iterator[Scene]:
    """A team that may use one GPU in a job, and asks for two. Only a cluster administrator may write policies."""
    require(scene.api, ADMISSION_POLICIES)
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


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (ADMINISTER, ["create, patch validatingadmissionpolicies", "networkpolicies", "cluster-admin"]),
        (
            SUBMIT,
            ["patch nodes", "namespaces", "leases", "level=administer", "validatingadmissionpolicies", "cluster-admin"],
        ),
    ],
)
def test_an_account_that_may_not_write_all_of_it_writes_nothing(
    guarded: Scene, recorder: Recorder, level: str, words: list[str]
) -> None:
    guarded.change("greedy", "resources", gpu=1)
    guarded.write()
    with account(guarded.api, level) as own:
        if own is guarded.api:
            pytest.skip("the cluster does not enforce permissions")
        recorder.identity = own
        for arguments in ([], ["--check"]):
            recorder.clear()
            done = guarded.run("provision", *arguments, dir="cluster", policies="policy.yaml")
            text = " ".join(done.output.split())
            assert done.status != 0, text
            assert recorder.writes == [], arguments
            assert [word for word in ("Missing permissions: ", *words) if word not in text] == [], text
            assert arguments or "Nothing was changed." in text
        recorder.identity = guarded.api
    assert guarded.api.get("namespace", guarded.teams["a"]) is None


def test_who_may_write_everything_is_asked_about_once_and_who_need_not_write_is_let_through(
    guarded: Scene, recorder: Recorder
) -> None:
    guarded.change("greedy", "resources", gpu=1)
    guarded.write()
    recorder.clear()
    assert guarded.run("provision", dir="cluster", policies="policy.yaml").status == 0
    assert sum(one.path.endswith("/selfsubjectaccessreviews") for one in recorder.requests) == 1
    with account(guarded.api, ADMINISTER, jobs=[guarded.teams["a"]]) as own:  # Nothing is left to write.
        recorder.identity = own
        recorder.clear()
        again = guarded.run("provision", dir="cluster")
        recorder.identity = guarded.api
    assert again.status == 0, again.output
    assert [one for one in recorder.writes if "/leases/" not in one] == []
