# SPDX-License-Identifier: BSD-2-Clause
"""Policies: what is written for them, twice, in check mode, changed and removed; and what gpuctl_access_info tells.

What they refuse is in tests/redteam/test_policy.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import (
    Declaration,
    pool_config_map,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import ADMISSION_POLICIES
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import pool_config_map_name
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import SUBMIT

from .accounts import account, make_priority_classes
from .ansible import Ansible
from .api import Api, eventually, require
from .manifests import compute, training
from .pools import SYSTEM
from .recorder import Recorder

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@dataclass
class Place:
    """Ansible in the name of the cluster's administrator, and a policy for one namespace."""

    ansible: Ansible
    api: Api
    recorder: Recorder
    namespace: str

    @property
    def name(self) -> str:
        return f"p-{self.namespace}"

    def manifest(self, **team: Any) -> dict[str, Any]:
        section = {"name": self.name, "contact": "gpu-admins@example.com"}
        return {"kind": "policy", "policy": section, "teams": {"vision": {"namespaces": [self.namespace], **team}}}

    def apply(self, check: bool = False, **team: Any) -> Any:
        self.recorder.clear()
        result = self.ansible.module("gpuctl_policy", definition=self.manifest(**team), check=check)
        assert not result.failed, result.message
        return result

    def admission(self) -> list[str]:
        selector = f"labelSelector=runwhere.ai/policy={self.name}"
        found = [self.api.call("GET", f"{ADMISSION}/{kind.lower()[:-1]}ies?{selector}") for kind in KINDS[:1]]
        found += [self.api.call("GET", f"{ADMISSION}/{KINDS[1].lower()}s?{selector}")]
        return [obj["metadata"]["name"] for status, answer in found for obj in answer["items"] if status == 200]

    def network_policy(self) -> Any:
        path = f"/apis/networking.k8s.io/v1/namespaces/{self.namespace}/networkpolicies/gpuctl-policy-{self.name}"
        status, answer = self.api.call("GET", path)
        return answer["spec"] if status == 200 else None


@pytest.fixture
def place(ansible: Ansible, api: Api, recorder: Recorder, namespace: str) -> Iterator[Place]:
    require(api, ADMISSION_POLICIES)
    recorder.identity = api
    here = Place(ansible, api, recorder, namespace)
    yield here
    recorder.identity = api
    assert not ansible.module("gpuctl_policy", name=here.name, state="absent").failed


def writes(recorder: Recorder) -> list[str]:
    return [str(each) for each in recorder.requests if each.method not in ("GET", "HEAD") and not each.dry_run]


FULL = {
    "pools": ["training-pool"],
    "max_gpus_per_job": 8,
    "max_gpus": 16,
    "pod_security": "baseline",
    "service_types": ["ClusterIP"],
    "network": {"namespaces": ["monitoring"], "cidrs": ["10.20.0.0/16"], "internet": True},
}


def test_a_policy_is_written_once_changed_and_removed(place: Place):
    checked = place.apply(check=True, **FULL)
    assert checked.changed
    assert writes(place.recorder) == []
    assert place.admission() == []

    first = place.apply(**FULL)
    assert first.changed
    suffixes = ["claims", "jobs", "pods", "scales", "services", "workloads"]
    assert sorted(place.admission()) == sorted([f"gpuctl-{place.name}-{suffix}" for suffix in suffixes] * 2)
    assert place.network_policy()["policyTypes"] == ["Ingress", "Egress"]
    quota = place.api.get("resourcequota", f"gpuctl-policy-{place.name}", place.namespace)
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "16"
    labels = place.api.get("namespace", place.namespace)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert place.api.get("configmap", f"policy-{place.name}", SYSTEM)

    again = place.apply(**FULL)
    assert not again.changed, again.result
    assert writes(place.recorder) == []

    changed = place.apply(pools=["training-pool", "other"])
    assert changed.changed
    assert place.network_policy() is None
    assert place.api.get("resourcequota", f"gpuctl-policy-{place.name}", place.namespace) is None
    assert not place.apply(pools=["training-pool", "other"]).changed

    gone = place.ansible.module("gpuctl_policy", name=place.name, state="absent")
    assert gone.changed
    assert place.admission() == []
    assert place.api.get("configmap", f"policy-{place.name}", SYSTEM) is None
    assert not place.ansible.module("gpuctl_policy", name=place.name, state="absent").changed


def test_two_policies_do_not_take_a_namespace_from_each_other(place: Place):
    place.apply(pod_security="restricted")
    other = {**place.manifest(pod_security="baseline"), "policy": {"name": f"{place.name}-2"}}
    place.recorder.clear()
    try:
        refused = place.ansible.module("gpuctl_policy", definition=other)
        level = f"gives namespace {place.namespace} the Pod Security level restricted. Remove pod_security from one"
        assert refused.failed
        assert f"policy {place.name}-2: policy {place.name}" in refused.message
        assert level in refused.message
        assert writes(place.recorder) == []
        assert not place.apply(pod_security="restricted").changed
        place.apply()  # It no longer says which.
        assert not place.ansible.module("gpuctl_policy", definition=other).failed
    finally:
        place.ansible.module("gpuctl_policy", name=f"{place.name}-2", state="absent")


def test_the_diff_shows_what_a_person_changed(place: Place):
    place.apply(max_gpus_per_job=8)
    result = place.ansible.module("gpuctl_policy", definition=place.manifest(max_gpus_per_job=4), check=True)
    shown = "".join(part["before"] + part["after"] for part in result.diff)
    assert '"max_gpus_per_job": 4' in shown
    assert "variables." not in shown


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"teams": {"a": {"namespaces": ["x"]}, "b": {"namespaces": ["x"]}}}, "duplicate namespace: x."),
        ({"teams": {"a": {"namespaces": ["x", "y"], "max_gpus": 8}}}, "max_gpus for 2 namespaces: x and y."),
        ({"images": {"registries": ["not a registry"]}}, 'invalid registry: "not a registry".'),
        ({"teams": {"a": {"network": {"cidrs": ["10.0.0.1/8"]}}}}, 'invalid address range: "10.0.0.1/8".'),
        ({"teams": {"a": {"pool": ["x"]}}}, "pool"),
    ],
)
def test_a_wrong_policy_changes_nothing(place: Place, changes: dict[str, Any], reason: str):
    place.recorder.clear()
    said = place.ansible.module("gpuctl_policy", definition={**place.manifest(), **changes})
    assert said.failed
    assert reason in said.message
    assert writes(place.recorder) == []


def test_numbers_by_pool_are_numbers_of_what_the_pools_have(place: Place, pools: list[str]):
    """The API server cannot distinguish pools with the same accelerators, and that is said."""
    nvidia, ascend, other = pools
    refused = place.ansible.module(
        "gpuctl_policy", definition=place.manifest(pools=[nvidia, other], max_gpus_in_pools={nvidia: 8, other: 8})
    )
    assert f"pools {nvidia} and {other} have the same nvidia.com/gpu, by which Kubernetes counts." in refused.message
    assert place.admission() == []

    place.apply(pools=[nvidia, ascend], max_gpus_in_pools={nvidia: 8, ascend: 2})
    hard = place.api.get("resourcequota", f"gpuctl-policy-{place.name}", place.namespace)["spec"]["hard"]
    assert {key: number for key, number in hard.items() if number != "0"} == {
        "requests.nvidia.com/gpu": "8",
        "requests.huawei.com/Ascend910": "2",
    }
    assert not place.apply(pools=[nvidia, ascend], max_gpus_in_pools={nvidia: 8, ascend: 2}).changed


@pytest.fixture
def pools(api: Api, namespace: str) -> Iterator[list[str]]:
    """Three declared pools, of which the second has other accelerators."""
    names = [f"{word}-{namespace}" for word in ("one", "two", "three")]
    kinds = [PoolHardware(), PoolHardware(accelerator="ascend"), PoolHardware(accelerator="nvidia")]
    if api.get("namespace", SYSTEM) is None:
        api.create("namespace", {"metadata": {"name": SYSTEM}})
    for name, hardware in zip(names, kinds, strict=True):
        api.create("configmap", pool_config_map(Declaration(name, hardware=hardware)), SYSTEM)
    yield names
    for name in names:
        api.delete("configmap", pool_config_map_name(name), SYSTEM)


def test_a_namespace_that_is_missing_is_said(place: Place):
    manifest = place.manifest()
    manifest["teams"]["vision"]["namespaces"].append("nowhere-at-all")
    result = place.ansible.module("gpuctl_policy", definition=manifest)
    assert "namespace nowhere-at-all does not exist" in " ".join(result.screen.split())


def test_jobs_within_the_policy_run(place: Place):
    """Their pods are created by a controller."""
    place.apply(max_gpus_per_job=2, priorities=["medium"])
    make_priority_classes(place.api)
    with account(place.api, SUBMIT, [place.namespace]) as own:
        place.recorder.identity = own
        said = place.ansible.job(definition=training("fits"), namespace=place.namespace)
        assert not said.failed, said.message
        eventually(lambda: place.api.list("pod", place.namespace))
        wide = training("wide", resources={"gpu": 1, "node_count": 3})
        refused = place.ansible.job(definition=wide, namespace=place.namespace)
        assert "3 GPUs in a job, more than team vision may use. Use at most 2." in refused.message


def test_a_job_that_others_scale_beyond_the_policy_says_which_one(place: Place):
    """The server lets a Scale pass, which has no template, and then refuses the ReplicaSet without an event."""
    place.apply(max_gpus_per_job=2)
    job = compute(resources={"gpu": 1}, service={"replicas": 1})
    assert not place.ansible.job(definition=job, namespace=place.namespace).failed
    path = f"/apis/apps/v1/namespaces/{place.namespace}/deployments/web/scale"
    status, answer = place.api.call("PATCH", path, {"spec": {"replicas": 4}}, "application/merge-patch+json")
    assert status == 200, answer

    def reason() -> str:
        found = place.ansible.module("gpuctl_job_info", name="web", namespaces=[place.namespace])
        return str(found.result["results"][0].get("reason"))

    said = "4 GPUs in a job, more than team vision may use. Use at most 2."
    assert eventually(lambda: said in reason() and reason())
    assert f"policy {place.name}" in reason()
    waited = place.ansible.job(name="web", namespace=place.namespace, replicas=4, wait=True, wait_timeout=90)
    assert waited.failed
    ends = f"will not become ready: no further pods can be created: policy {place.name}"
    assert ends in waited.message, "it does not wait to the end for what only a person can mend"
    assert said in waited.message
    place.apply(max_gpus_per_job=4)
    assert said not in reason()


def test_what_is_forbidden_is_reported_before_any_request(place: Place):
    """By gpuctl_fit_info and in check mode: what the policy and the Pod Security level forbid, where, and why."""
    network = {"namespaces": ["monitoring"]}
    place.apply(pools=["training-pool"], pod_security="baseline", network=network)
    mounts = training("mounts", resources={"pool": "training-pool"}, storage={"workdirs": [{"path": "/data"}]})
    jobs = [training("elsewhere", resources={"pool": "default"}), mounts, compute("web", service={"type": "NodePort"})]
    with account(place.api, SUBMIT, [place.namespace]) as own:
        place.recorder.identity = own
        told = place.ansible.module("gpuctl_fit_info", definition=jobs, namespace=place.namespace).result
        rows = {row["name"]: row for row in told["results"]}
        (by_policy,) = rows["elsewhere"]["forbidden"]
        assert "resources.pool: policy " in by_policy
        assert "team vision may not use pool default. Use pool training-pool." in by_policy
        (by_level,) = rows["mounts"]["forbidden"]
        assert "storage.workdirs[0]: the namespace enforces the Pod Security level baseline" in by_level
        assert (rows["mounts"]["verdict"], rows["web"]["forbidden"]) == ("never", [])
        assert rows["mounts"]["reason"] == f"The server refuses it: {by_level}"

        checked = place.ansible.job(definition=jobs, namespace=place.namespace, check=True)
        assert by_policy in checked.message
        assert by_level in checked.message
        place.recorder.clear()
        warned = place.ansible.job(definition=jobs[2:], namespace=place.namespace, check=True)
        assert not warned.failed, warned.message
        assert "this Service of type NodePort is unreachable from elsewhere." in " ".join(warned.screen.split())


def test_what_an_account_may_do(place: Place):
    place.apply(pools=["training-pool"], max_gpus_per_job=4, max_gpus=8)
    with account(place.api, SUBMIT, [place.namespace]) as own:
        place.recorder.identity = own
        result = place.ansible.module("gpuctl_access_info", namespaces=[place.namespace]).result
        rights = {row["right"]: row for row in result["rights"]}
        assert rights["submit jobs"]["allowed"]
        assert rights["read secrets"] == {
            "namespace": place.namespace,
            "right": "read secrets",
            "allowed": False,
            "missing": ["list secrets"],
        }
        assert not rights["change pools"]["allowed"]
        pools = {row["pool"]: row for row in result["pools"]}
        assert not pools["default"]["allowed"]
        assert pools["default"]["refused_by"] == [f"policy {place.name} (gpu-admins@example.com)"]
        assert pools["default"]["max_gpus_per_job"] == 4
        quota = next(row for row in result["quotas"] if row["resource"] == "gpu")
        assert (quota["used"], quota["hard"]) == (0, 8)
        refused = place.ansible.module("gpuctl_access_info", user="alice", namespaces=[place.namespace])
        assert "the account may not ask about others." in refused.message
    place.recorder.identity = place.api
    rows = place.ansible.module("gpuctl_access_info", user="alice", namespaces=[place.namespace]).result["rights"]
    assert not any(row["allowed"] for row in rows)


def test_a_role_applies_files(place: Place, tmp_path: Path):
    import yaml

    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(place.manifest(max_gpus_per_job=4)))
    role = {"name": "Enforce", "ansible.builtin.include_role": {"name": "runwhere.gpuctl.policy"}}
    run = place.ansible.play([{**role, "vars": {"policy_src": [str(path)]}}])
    assert run.status == 0, run.output
    assert place.admission()
    again = place.ansible.play([{**role, "vars": {"policy_src": str(path)}}])
    assert again.status == 0, again.output
    run = place.ansible.play([{**role, "vars": {"policy_absent": [place.name]}}])
    assert run.status == 0, run.output
    assert place.admission() == []
