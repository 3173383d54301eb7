# SPDX-License-Identifier: BSD-2-Clause
"""Nodes of several vendors."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from kubesim import Cluster


def get(cluster: Cluster, path: str) -> Any:
    request = urllib.request.Request(cluster.url + path, headers={"Authorization": f"Bearer {cluster.token}"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_the_nodes_list_what_their_vendors_have_them_list() -> None:
    with Cluster(nodes=1, mixed_nodes=True).running() as cluster:
        nodes = {node["metadata"]["name"]: node for node in get(cluster, "/api/v1/nodes")["items"]}
        slices = get(cluster, "/apis/resource.k8s.io/v1/resourceslices")["items"]
    listed = {
        name: {resource for resource in node["status"]["allocatable"] if "/" in resource}
        for name, node in nodes.items()
    }
    assert listed["node-1"] == {"nvidia.com/gpu", "aliyun.com/gpu-mem"}
    assert listed["mig-1"] == {"nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"}
    assert listed["amd-1"] == {"amd.com/gpu"}
    assert listed["dra-1"] == listed["cpu-1"] == set()
    assert nodes["ascend-1"]["status"]["nodeInfo"]["architecture"] == "arm64"
    assert nodes["amd-1"]["spec"]["taints"] == [{"key": "amd.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert "hami.io/node-nvidia-register" in nodes["hami-1"]["metadata"]["annotations"]
    assert [each["spec"]["nodeName"] for each in slices] == ["dra-1"]
