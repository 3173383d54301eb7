# SPDX-License-Identifier: BSD-2-Clause
"""Metrics that an adapter serves, and an autoscaler that follows them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from kubesim import Cluster
from kubesim.controllers.hpa_replicas import NoReplicaCount, Recommendations, wanted_by_pods, wanted_by_total
from simulation import Object, Simulation, pod_spec

METRIC = "DCGM_FI_DEV_GPU_UTIL"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"


def pod(name: str, phase: str = "Running", **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("values", "current", "wanted"),
    [
        ({"a": 95, "b": 95}, 2, 4),
        ({"a": 64, "b": 64}, 2, 2),  # within a tenth of the target
        ({"a": 5, "b": 5}, 2, 1),
        ({"a": 90}, 2, 2),  # b is not known: idle, were there to be more
        ({"a": 20}, 2, 2),  # and at the target, were there to be fewer: 40 of 60 for two pods
        ({"a": 150}, 2, 3),
    ],
)
def test_pods_that_are_not_measured_speak_against_a_change(values: dict[str, int], current: int, wanted: int) -> None:
    measured = {name: value * 1000 for name, value in values.items()}
    assert wanted_by_pods(current, [pod("a"), pod("b")], measured, 60_000)[0] == wanted


def test_pending_pods_count_as_idle_when_there_are_to_be_more_and_failed_ones_never() -> None:
    pods = [pod("a"), pod("b", "Pending"), pod("c", "Failed"), pod("d", deletionTimestamp="2026-01-01T00:00:00Z")]
    assert wanted_by_pods(2, pods, {"a": 95_000, "c": 95_000, "d": 95_000}, 60_000) == (2, 95_000)
    with pytest.raises(NoReplicaCount, match="pods might be unready"):
        wanted_by_pods(1, pods, {}, 60_000)
    with pytest.raises(NoReplicaCount, match="no pods returned"):
        wanted_by_pods(1, [], {}, 60_000)


def test_an_external_total_is_divided_by_the_target() -> None:
    assert wanted_by_total(2, 240_000, 60_000) == (4, 120_000)
    assert wanted_by_total(4, 250_000, 60_000) == (4, 62_500)


def test_fewer_replicas_wait_for_the_window_and_more_keep_to_the_policies() -> None:
    history = Recommendations(4, 0)
    assert history.stabilized({}, 4, 1, 100) == 4
    assert history.stabilized({}, 4, 1, 301) == 1
    fast = {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    assert history.limited(fast, (1, 8), 4, 8, 400)[:3] == (5, True, "ScaleUpLimit")
    history.changed(1, 400)
    assert history.limited(fast, (1, 8), 5, 8, 420)[:3] == (5, True, "ScaleUpLimit")
    assert history.limited(fast, (1, 8), 5, 8, 461)[:3] == (6, True, "ScaleUpLimit")
    assert history.limited({}, (1, 6), 5, 8, 500)[:3] == (6, True, "TooManyReplicas")
    assert history.limited({}, (2, 6), 5, 0, 500)[:3] == (2, True, "TooFewReplicas")
    still = {"scaleDown": {"selectPolicy": "Disabled"}}
    assert history.limited(still, (1, 6), 5, 1, 500)[:3] == (5, True, "ScaleDownLimit")
    assert history.limited({}, (1, 6), 5, 4, 500)[:3] == (4, False, "DesiredWithinRange")


def autoscaled(metric: Object) -> Simulation:
    sim = Simulation()
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    sim.create("Deployment", "web", {"replicas": 1, "selector": {"matchLabels": labels}, "template": template})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    spec = {"scaleTargetRef": target, "maxReplicas": 4, "metrics": [metric], "behavior": behavior}
    sim.create("HorizontalPodAutoscaler", "web", spec)
    return sim


def conditions(sim: Simulation) -> dict[str, tuple[str, str]]:
    found = sim.get("HorizontalPodAutoscaler", "web")["status"]["conditions"]
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def test_replicas_follow_a_metric_of_pods() -> None:
    goal = {"metric": {"name": METRIC}, "target": {"type": "AverageValue", "averageValue": "60"}}
    sim = autoscaled({"type": "Pods", "pods": goal})
    sim.advance(20)
    assert conditions(sim)["ScalingActive"] == ("False", "FailedGetPodsMetric")
    served = sim.controllers["horizontal-pod-autoscaler"].served
    served.of_pods[METRIC] = 95
    sim.advance(90)
    assert sim.get("Deployment", "web")["spec"]["replicas"] == 4
    status = sim.get("HorizontalPodAutoscaler", "web")["status"]
    assert status["currentMetrics"] == [
        {"type": "Pods", "pods": {"metric": {"name": METRIC}, "current": {"averageValue": "95"}}}
    ]
    assert conditions(sim)["ScalingLimited"] == ("True", "TooManyReplicas")
    served.of_pods[METRIC] = 5
    sim.advance(30)
    assert sim.get("Deployment", "web")["spec"]["replicas"] == 4
    assert conditions(sim)["AbleToScale"] == ("True", "ScaleDownStabilized")
    sim.advance(90)
    assert sim.get("Deployment", "web")["spec"]["replicas"] == 1
    assert ("SuccessfulRescale", "New size: 1; reason: All metrics below target") in sim.events("web")
    served.of_pods[METRIC] = lambda _pod: None
    sim.advance(20)
    assert conditions(sim)["ScalingActive"] == ("False", "FailedGetPodsMetric")


def test_replicas_follow_an_external_metric() -> None:
    goal = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    sim = autoscaled({"type": "External", "external": goal})
    sim.controllers["horizontal-pod-autoscaler"].served.external["queue"] = 25
    sim.advance(40)
    assert sim.get("Deployment", "web")["spec"]["replicas"] == 3


def test_what_an_adapter_lists_and_answers() -> None:
    job = {
        "metadata": {"name": "chat-0", "namespace": "default", "labels": {"app": "chat"}},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    }
    with Cluster(nodes=1, addons={"custom-metrics"}, pod_start_seconds=0).running() as cluster:
        assert get(cluster, CUSTOM)[1]["resources"] == []
        cluster.call(lambda: cluster.serve_metric(METRIC))
        cluster.drive(job="chat", utilization=90)
        cluster.call(lambda: cluster.registry.create("Pod", job))
        (listed,) = get(cluster, CUSTOM)[1]["resources"]
        assert (listed["name"], listed["kind"]) == (f"pods/{METRIC}", "MetricValueList")
        path = f"{CUSTOM}/namespaces/default/pods/*/{METRIC}"
        for _attempt in range(50):
            status, answer = get(cluster, f"{path}?labelSelector=app%3Dchat")
            if answer["items"]:
                break
            time.sleep(0.1)
        assert status == 200
        (value,) = answer["items"]
        assert (value["describedObject"]["name"], value["value"]) == ("chat-0", "90")
        assert get(cluster, f"{path}?labelSelector=app%3Dother")[1]["items"] == []
        status, answer = get(cluster, f"{CUSTOM}/namespaces/default/pods/*/other")
        assert (status, answer["message"]) == (404, "the server could not find the metric pods/other for pods")
        status, answer = get(cluster, "/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.custom.metrics.k8s.io")
        assert answer["status"]["conditions"][0]["status"] == "True"


def get(cluster: Cluster, path: str) -> tuple[int, Any]:
    request = urllib.request.Request(cluster.url + path, headers={"Authorization": f"Bearer {cluster.token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
