# SPDX-License-Identifier: BSD-2-Clause
"""Metrics that an adapter serves."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from kubesim import Cluster

METRIC = "DCGM_FI_DEV_GPU_UTIL"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"


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
