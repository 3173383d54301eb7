# SPDX-License-Identifier: BSD-2-Clause
"""What vendors and controllers of clusters change beside Kubernetes, as far as a simulated cluster can show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.doctor.doctor import MODULE as DOCTOR
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE as FIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import MODULE as STATUS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from kubesim import Cluster, Fault

from .manifests import compute, inference, notebook, training
from .tasks import perform

JOBS = [training("llm"), inference("chat"), compute("web"), notebook("lab")]
KINDS = ("Job", "Deployment", "StatefulSet")
Object = dict[str, Any]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as running:
        yield running


@pytest.fixture
def api_server() -> Iterator[Cluster]:
    """Without controllers."""
    with Cluster(nodes=2, controllers=False).running() as running:
        yield running


def webhook(cluster: Cluster, change: Any) -> None:
    """A mutating webhook for the templates of all workloads, on creation and on each update."""

    def admit(request: Any) -> None:
        template = (request.obj or {}).get("spec", {}).get("template")
        if template and not request.subresource and request.resource.kind in KINDS:
            change(request.obj, template)

    cluster.registry.webhooks.append(admit)


def add(obj: Object, template: Object) -> None:
    """What Kyverno, Gatekeeper or a service mesh adds."""
    pod = template["spec"]
    obj["metadata"].setdefault("labels", {})["cost-center"] = "17"
    template["metadata"].setdefault("annotations", {})["sidecar.example.com/status"] = "injected"
    pod["imagePullSecrets"] = [{"name": "registry"}]
    pod.setdefault("nodeSelector", {})["kubernetes.io/os"] = "linux"
    main, *others = pod["containers"]
    if not any(each["name"] == "TZ" for each in main.setdefault("env", [])):
        main["env"].append({"name": "TZ", "value": "UTC"})
    if not others:
        # The server fills in what a webhook leaves out.
        defaults = {"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File", "resources": {}}
        pod["containers"].append({"name": "proxy", "image": "proxy:1", **defaults})


def override(_obj: Object, template: Object) -> None:
    """What GKE Autopilot does to requests below its minimum."""
    for container in template["spec"]["containers"]:
        for amounts in container["resources"].values():
            amounts["cpu"] = "2"


def test_what_a_webhook_adds_is_no_difference(api_server: Cluster) -> None:
    cluster = api_server
    webhook(cluster, add)
    run = perform(JOB, cluster, definition=JOBS)
    assert run.get("changed"), run
    template = cluster.call(lambda: cluster.registry.get("Deployment", "default", "chat"))["spec"]["template"]  # type: ignore[index]
    assert [each["name"] for each in template["spec"]["containers"]] == ["main", "proxy"]
    cluster.requests.reset()
    for check in (True, False):
        again = perform(JOB, cluster, check=check, definition=JOBS)
        assert again.get("changed") is False, again
    assert cluster.requests.writes() == []


def test_what_a_webhook_sets_to_its_own_value_changes_once(cluster: Cluster) -> None:
    webhook(cluster, override)
    assert perform(JOB, cluster, definition=JOBS)["changed"]
    before = specs(cluster)
    for check in (True, False, True):
        again = perform(JOB, cluster, check=check, definition=JOBS)
        assert not again.get("failed"), again
        assert not again["changed"], again
        assert [row["action"] for row in again["results"]] == ["unchanged"] * 4
        assert again["diff"] == []
    assert specs(cluster) == before


def specs(cluster: Cluster) -> list[tuple[str, Object]]:
    return [(obj["metadata"]["uid"], obj["spec"]) for obj in cluster.objects() if obj["kind"] in KINDS]


def test_a_change_beside_what_a_webhook_overrides_is_made(cluster: Cluster) -> None:
    webhook(cluster, override)
    assert perform(JOB, cluster, definition=[inference("chat")])["changed"]
    run = perform(JOB, cluster, definition=[inference("chat", environment={"image": "other:2"})])
    assert [row["action"] for row in run["results"]] == ["update"], run


def test_an_aggregated_api_that_is_down_stops_nothing() -> None:
    """/apis lists the group of an APIService whose server does not answer, and its own paths are 503."""
    addons = {"metrics", "custom-metrics", "external-metrics"}
    with Cluster(nodes=2, addons=addons).running() as cluster:
        for group in ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"):
            cluster.faults.add(Fault("unavailable", path=f"/apis/{group}/*", count=None))
        large = training("large", resources={"gpu": 64})
        for definition in (JOBS, [large]):
            run = perform(JOB, cluster, definition=definition)
            assert run.get("changed"), run
        assert perform(FIT, cluster, definition=JOBS)["results"]
        assert perform(STATUS, cluster)["jobs"]
        assert not perform(JOB, cluster, state="absent", definition=JOBS).get("failed")
        doctor = perform(DOCTOR, cluster, fail_on="never")
        assert doctor["checks"], doctor


def test_a_pool_without_nodes_gets_them_from_an_autoscaler(cluster: Cluster) -> None:
    """Its nodes come with its label. Until then a job waits, and its submitter says that it may."""
    assert perform(POOL, cluster, name="spot", nodes=[])["changed"]
    job = training("later", resources={"pool": "spot", "gpu": 8})
    options = {"definition": job, "wait": True, "wait_for": "scheduled"}
    refused = perform(JOB, cluster, **options, wait_timeout=30)
    assert "pool spot has no nodes" in refused["msg"], refused
    waited = perform(JOB, cluster, **options, wait_timeout=1, wait_for_nodes=True)
    assert "is not scheduled after 1 s" in waited["msg"], waited
    cluster.add_nodes(["spot-1"], labels={"runwhere.ai/pool": "spot"})
    run = perform(JOB, cluster, **options, wait_timeout=60, wait_for_nodes=True)
    assert not run.get("failed"), run
