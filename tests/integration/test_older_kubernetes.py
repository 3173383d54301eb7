# SPDX-License-Identifier: BSD-2-Clause
"""What tasks do on the versions of Kubernetes that people run, by the table of features (kube/features.py)."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.policy import MODULE as POLICY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.doctor.doctor import MODULE as DOCTOR
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE as FIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import FEATURES
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from kubesim import Cluster, Fault

from .manifests import compute, inference, notebook, training
from .tasks import perform

TOO_LARGE = training("large", resources={"gpu": 64})
LIMITED = {"kind": "policy", "policy": {"name": "p"}, "defaults": {"max_gpus_per_job": 4}}
RAY = training("ray", resources={"gpu": 1, "node_count": 2}, distributed={"launcher": "ray"})
MPI = training("mpi", resources={"gpu": 1, "node_count": 2}, distributed={"launcher": "mpi"})
JOBS = [training("llm"), RAY, MPI, inference("chat"), compute("web"), notebook("lab")]
VERSIONS = ("1.29", "1.30", "1.31", "1.33", "1.36")
SLEEP, PROGRAM = {"sleep": {"seconds": 10}}, {"exec": {"command": ["sleep", "10"]}}


def live(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    found = cluster.call(lambda: cluster.registry.get(kind, "default", name))
    assert found is not None
    return found


def before_it_stops(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = live(cluster, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]["lifecycle"]
    return found["preStop"]


def asked_for_the_version(cluster: Cluster) -> int:
    return [entry.path for entry in cluster.requests].count("/version")


def api_findings(cluster: Cluster) -> tuple[dict[str, Any], list[dict[str, str]]]:
    result = perform(DOCTOR, cluster, fail_on="never")
    (check,) = [each for each in result["checks"] if each["check"] == "api_version"]
    return result, check["findings"]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_kinds_of_jobs_run_and_stay_as_they_are(version: str) -> None:
    with Cluster(nodes=2, version=version).running() as cluster:
        assert perform(JOB, cluster, check=True, definition=JOBS)["changed"]
        run = perform(JOB, cluster, definition=JOBS, wait=True, wait_for="scheduled", wait_timeout=60)
        assert run["changed"], run
        assert run["warnings"] == []
        assert before_it_stops(cluster, "chat") == (PROGRAM if version == "1.29" else SLEEP)
        for name in ("ray", "mpi"):
            assert ("successPolicy" in live(cluster, "Job", name)["spec"]) is (version not in ("1.29", "1.30"))
        cluster.requests.reset()
        again = perform(JOB, cluster, definition=JOBS)
        assert not again["changed"], again
        assert cluster.requests.writes() == []
        assert asked_for_the_version(cluster) == 0, "what runs in any form is left in it"


def test_the_version_is_read_only_for_what_depends_on_it() -> None:
    with Cluster(nodes=2).running() as cluster:
        assert perform(JOB, cluster, definition=[training("llm"), notebook("lab")])["changed"]
        assert asked_for_the_version(cluster) == 0
        assert perform(JOB, cluster, definition=[RAY, MPI, inference("chat"), compute("web")])["changed"]
        assert asked_for_the_version(cluster) == 1


def test_a_server_that_does_not_say_its_version_counts_as_new() -> None:
    with Cluster(nodes=2).running() as cluster:
        cluster.faults.add(Fault("conflict", path="/version"))
        assert perform(JOB, cluster, definition=[inference("chat")])["changed"]
        assert before_it_stops(cluster, "chat") == SLEEP


@pytest.mark.parametrize("former", ["1.29", "1.30", "1.31", "1.33"])
def test_nothing_changes_when_the_cluster_is_upgraded(former: str) -> None:
    with Cluster(nodes=2, version=former).running() as cluster:
        waited = {"wait": True, "wait_for": "scheduled", "wait_timeout": 60}
        assert perform(JOB, cluster, definition=JOBS, **waited)["changed"]
        objects = cluster.objects()
    for later in ("1.33", "1.36"):
        with Cluster(nodes=2, version=later, controllers=False).running() as cluster:
            cluster.load(objects)
            cluster.requests.reset()
            run = perform(JOB, cluster, definition=JOBS)
            assert not run["changed"], run
            assert cluster.requests.writes() == []
            assert asked_for_the_version(cluster) == 0


def test_what_is_replaced_gets_what_the_newer_cluster_has() -> None:
    with Cluster(nodes=2, version="1.29").running() as cluster:
        assert perform(JOB, cluster, definition=[inference("chat")])["changed"]
        objects = cluster.objects()
    with Cluster(nodes=2, version="1.36", controllers=False).running() as cluster:
        cluster.load(objects)
        assert perform(JOB, cluster, definition=[inference("chat", environment={"image": "other:2"})])["changed"]
        assert before_it_stops(cluster, "chat") == SLEEP


def test_namespaces_of_the_level_restricted_get_their_form_in_any_version() -> None:
    level = {"pod-security.kubernetes.io/enforce": "restricted"}
    with Cluster(nodes=2, version="1.29").running() as cluster:
        cluster.call(lambda: cluster.registry.modify("Namespace", None, "default", lambda o: _label(o, level)))
        assert perform(JOB, cluster, definition=[inference("chat")])["changed"]
        assert before_it_stops(cluster, "chat") == PROGRAM
        (container,) = live(cluster, "Deployment", "chat")["spec"]["template"]["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not perform(JOB, cluster, definition=[inference("chat")])["changed"]


def _label(obj: dict[str, Any], labels: dict[str, str]) -> None:
    obj["metadata"].setdefault("labels", {}).update(labels)


def test_a_feature_gate_that_is_off_is_found_by_what_was_dropped() -> None:
    with Cluster(nodes=2, version="1.31", gates_off={"JobSuccessPolicy"}).running() as cluster:
        for check in (True, False):
            run = perform(JOB, cluster, check=check, definition=[RAY])
            assert run["changed"], run
            assert run["warnings"] == [
                "training ray in namespace default: the API server has dropped spec.successPolicy of its Job: the "
                "feature gate JobSuccessPolicy is off. The training does not end when its first node has succeeded. "
                "Switch the gate on, or delete the training once it is done."
            ]


@pytest.mark.parametrize("version", ["1.29", "1.33"])
def test_a_job_that_cannot_be_scheduled_says_why(version: str) -> None:
    with Cluster(nodes=2, version=version).running() as cluster:
        run = perform(JOB, cluster, definition=TOO_LARGE, wait=True, wait_timeout=5)
        assert "it needs 64 GPUs on one node" in run["msg"], run
        found = perform(FIT, cluster, definition=TOO_LARGE)
        assert "It needs 64 GPUs on one node" in found["results"][0]["reason"], found


@pytest.mark.parametrize("version", ["1.30", "1.33"])
def test_limits_of_policies_count_without_claims(version: str) -> None:
    with Cluster(nodes=2, version=version).running() as cluster:
        assert perform(POLICY, cluster, definition=LIMITED)["changed"]
        assert not perform(POLICY, cluster, definition=LIMITED)["changed"]


def test_policies_are_refused_by_name_before_1_30() -> None:
    with Cluster(nodes=2, version="1.29").running() as cluster:
        run = perform(POLICY, cluster, definition=LIMITED)
        assert run["failed"]
        assert run["msg"].endswith(". Kubernetes has ValidatingAdmissionPolicies (gpuctl_policy) since 1.30"), run
        assert cluster.requests.writes() == []


SINCE = "Kubernetes has Dynamic Resource Allocation (device_class of pools) since 1.34"
CLAIMED = {"name": "dra", "nodes": ["node-1"], "device_class": "gpu.example.com"}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("addons", "instead"),
    [
        ((), ""),
        (
            ("beta-claims",),
            ", but resource.k8s.io/v1beta1 and resource.k8s.io/v1beta2, which the collection does not use",
        ),
    ],
)
def test_a_pool_whose_devices_no_job_could_claim_is_refused(addons: tuple[str, ...], instead: str, check: bool) -> None:
    with Cluster(nodes=2, version="1.33", addons=addons).running() as cluster:
        run = perform(POOL, cluster, check=check, **CLAIMED)
        assert run["failed"], run
        problem = f"this cluster does not serve resource.k8s.io/v1{instead}. {SINCE}. Remove device_class."
        assert f"pool dra, device_class gpu.example.com: {problem}" in run["msg"], run
        assert cluster.requests.writes() == []
        assert perform(POOL, cluster, name="plain", nodes=["node-1"])["changed"]


def test_a_class_that_is_declared_already_is_not_checked_again() -> None:
    with Cluster(nodes=2).running() as cluster:
        assert perform(POOL, cluster, **CLAIMED)["changed"]
        cluster.requests.reset()
        assert not perform(POOL, cluster, **CLAIMED)["changed"]
        assert "/apis" not in [entry.path for entry in cluster.requests]


def test_a_pool_that_was_declared_on_a_newer_cluster_is_named() -> None:
    with Cluster(nodes=2).running() as cluster:
        assert perform(POOL, cluster, **CLAIMED)["changed"]
        objects = cluster.objects()
    with Cluster(nodes=2, version="1.33").running() as cluster:
        cluster.load(objects)
        assert not perform(POOL, cluster, **CLAIMED)["changed"]
        run = perform(JOB, cluster, definition=training("claim", resources={"pool": "dra", "gpu": 1}))
        assert run["failed"]
        assert "API not served by this cluster: resource.k8s.io/v1" in run["msg"]
        assert run["msg"].endswith(SINCE), run
        assert cluster.call(lambda: cluster.registry.list("Job")) == []
        _result, findings = api_findings(cluster)
        (finding,) = [each for each in findings if each["level"] == "error"]
        assert finding["place"] == "pool dra"
        assert finding["problem"].endswith("Kubernetes v1.33.13 does not serve resource.k8s.io/v1")


def test_a_policy_says_that_it_does_not_judge_claims_of_beta_versions() -> None:
    with Cluster(nodes=2, version="1.33", addons={"beta-claims"}).running() as cluster:
        limited = {"kind": "policy", "policy": {"name": "p"}, "teams": {"default": {"max_gpus_per_job": 4}}}
        for check, changed in ((True, True), (False, True), (False, False)):
            run = perform(POLICY, cluster, check=check, definition=limited)
            assert run["changed"] is changed, run
            (warning,) = [each for each in run["warnings"] if "claims" in each]
            assert warning == (
                "policy p: the limits of GPUs do not hold for claims of devices, because this cluster serves "
                "resource.k8s.io/v1beta1 and resource.k8s.io/v1beta2 and not resource.k8s.io/v1. Until it does, do not "
                "let teams create ResourceClaims or ResourceClaimTemplates."
            ), run


@pytest.mark.parametrize("version", VERSIONS)
def test_doctor_names_what_a_version_lacks(version: str) -> None:
    with Cluster(nodes=2, version=version).running() as cluster:
        lacking = [each for each in FEATURES if tuple(map(int, version.split("."))) < each.since]
        result, findings = api_findings(cluster)
        assert [each["level"] for each in findings] == ["ok"] * len(lacking)
        for finding, feature in zip(findings, lacking, strict=True):
            assert finding["problem"].endswith(f" lacks {feature.title}")
            assert finding["hint"].rstrip(".") == feature.without
            assert feature.title in result["msg"]
        assert ("lacks" in result["msg"]) is bool(lacking)
