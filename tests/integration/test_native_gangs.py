# SPDX-License-Identifier: BSD-2-Clause
"""Pools with queue: native, where Kubernetes itself starts the pods of a training together (alpha in 1.36)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.doctor.doctor import MODULE as DOCTOR
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE as FIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_info import MODULE as INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from kubesim import Cluster

from .manifests import inference, training
from .tasks import perform

NODES = ["node-1", "node-2", "node-3", "node-4"]
GANGS = {"native-gangs"}
PLACED = {"wait": True, "wait_for": "scheduled", "wait_timeout": 60}


def gang(name: str, nodes: int = 3) -> dict[str, Any]:
    return training(name, resources={"gpu": 8, "node_count": nodes, "pool": "big"})


def declare(cluster: Cluster, **options: Any) -> dict[str, Any]:
    return perform(POOL, cluster, name="big", nodes=NODES, **{"queue": "native", **options})


def reason(cluster: Cluster, name: str) -> str:
    (found,) = [row for row in perform(INFO, cluster)["results"] if row["name"] == name]
    return str(found["reason"])


def findings(cluster: Cluster) -> list[dict[str, str]]:
    checks = perform(DOCTOR, cluster, fail_on="never")["checks"]
    return [finding for each in checks if each["check"] in ("queues", "gangs") for finding in each["findings"]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4, addons=GANGS).running() as found:
        yield found


def test_a_training_waits_as_a_whole_and_holds_nothing(cluster: Cluster) -> None:
    assert declare(cluster)["results"][0]["queue"] == {"backend": "native"}
    assert not declare(cluster)["changed"]
    assert perform(JOB, cluster, definition=[gang("first")], **PLACED)["changed"]
    rows = perform(FIT, cluster, definition=[gang("second"), training("one", resources={"gpu": 8, "pool": "big"})])
    second, one = rows["results"]
    assert second["verdict"] == "after_jobs"
    assert second["reason"].endswith("Its 3 pods are only started together.")
    assert one["verdict"] == "now", "the waiting training holds no node"
    late = perform(JOB, cluster, definition=[gang("second")], **{**PLACED, "wait_timeout": 3})
    assert "its 3 pods are only started together, and have not found room for all since" in late["msg"], late
    assert "Insufficient nvidia.com/gpu" in reason(cluster, "second")
    pods = cluster.call(lambda: cluster.registry.list("Pod"))
    assert sum("nodeName" in pod["spec"] for pod in pods) == 3
    cluster.requests.reset()
    assert not perform(JOB, cluster, definition=[gang("first"), gang("second")])["changed"]
    assert cluster.requests.writes() == []
    assert perform(JOB, cluster, definition=[gang("first")], state="absent")["changed"]
    assert not perform(JOB, cluster, definition=[gang("second")], **PLACED)["changed"]
    assert findings(cluster) == []


def test_only_trainings_on_several_nodes_are_marked(cluster: Cluster) -> None:
    declare(cluster)
    here = {"gpu": 1, "pool": "big"}
    perform(JOB, cluster, definition=[gang("many"), training("one", resources=here), inference("chat", resources=here)])
    marked = [
        obj["metadata"]["name"]
        for kind in ("Job", "Deployment")
        for obj in cluster.call(lambda kind=kind: cluster.registry.list(kind))
        if "runwhere.ai/gang" in (obj["metadata"].get("annotations") or {})
    ]
    assert marked == ["many"]


def test_it_is_refused_by_name_where_it_is_not_served() -> None:
    with Cluster(nodes=4).running() as cluster:
        run = declare(cluster)
        assert run["failed"]
        assert run["msg"].startswith(
            "pool big: queue native, but the cluster does not serve scheduling.k8s.io/v1alpha2. Switch it "
            "and the feature gates GenericWorkload, GangScheduling and WorkloadWithJob on (Kubernetes 1.36), or remove"
        )
        assert cluster.requests.writes() == []


def test_no_half_gangs_after_the_api_was_switched_off() -> None:
    with Cluster(nodes=4, addons=GANGS).running() as cluster:
        declare(cluster)
        objects = cluster.objects()
    with Cluster(nodes=4).running() as cluster:
        cluster.load(objects)
        run = perform(JOB, cluster, definition=[gang("half")])
        assert run["failed"]
        assert "its pool has the queue native, but the cluster does not serve scheduling.k8s.io/v1alpha2" in run["msg"]
        assert cluster.call(lambda: cluster.registry.list("Job")) == []
        assert perform(JOB, cluster, definition=[training("one", resources={"gpu": 1, "pool": "big"})])["changed"]
        (finding,) = findings(cluster)
        assert (finding["level"], finding["place"]) == ("error", "pool big")


def test_a_controller_that_makes_no_groups_is_named() -> None:
    with Cluster(nodes=4, addons=GANGS, gates_off={"WorkloadWithJob"}).running() as cluster:
        declare(cluster)
        perform(JOB, cluster, definition=[gang("first"), gang("second")])
        perform(JOB, cluster, definition=[gang("second")], **{**PLACED, "wait_timeout": 2})
        waiting = [reason(cluster, name) for name in ("first", "second")]
        assert any("its pods are in no PodGroup, so they are started one by one" in text for text in waiting), waiting
        (finding,) = findings(cluster)
        assert finding["level"] == "warning"
        assert "WorkloadWithJob of kube-controller-manager is off" in finding["hint"]


def test_doctor_offers_it_where_it_is_served() -> None:
    with Cluster(nodes=4, addons=GANGS, gates_off={"WorkloadWithJob"}).running() as cluster:
        declare(cluster, queue=None)
        perform(JOB, cluster, definition=[gang("first")], **PLACED)
        (finding,) = findings(cluster)
        assert finding["hint"].endswith("This cluster can also do that by itself (queue: native).")


def test_a_running_training_stays_as_it_started(cluster: Cluster) -> None:
    declare(cluster, queue=None)
    assert perform(JOB, cluster, definition=[gang("first")], **PLACED)["changed"]
    declare(cluster)
    cluster.requests.reset()
    assert not perform(JOB, cluster, definition=[gang("first")])["changed"]
    assert cluster.requests.writes() == []


def test_native_has_no_limits_and_no_shares(cluster: Cluster) -> None:
    refused = declare(cluster, queue={"backend": "native", "preemption": "never"})
    assert "native has no preemption. Remove it, or use kueue or volcano" in refused["msg"], refused
    declare(cluster)
    quota = {"kind": "quota", "quota": {"name": "q"}, "users": {"team": {"gpu": 8, "shares": {"big": 4}}}}
    (warning,) = perform(QUOTA, cluster, definition=quota)["warnings"]
    assert warning.startswith("shares of pool big have no effect")
