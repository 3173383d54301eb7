# SPDX-License-Identifier: BSD-2-Clause
"""What older versions of Kubernetes do not serve, drop and refuse."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from kubesim import Cluster
from kubesim.versions import RELEASES

APPLY = "application/apply-patch+yaml"
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
GPUS = {"limits": {"nvidia.com/gpu": 1}}


def send(cluster: Cluster, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(cluster.url).netloc, timeout=30)
    kind = APPLY if method == "PATCH" else "application/json"
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": kind}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text.startswith(b"{") else text


def apply(cluster: Cluster, plural: str, body: Mapping[str, Any]) -> tuple[int, Any]:
    path = f"/apis/{body['apiVersion']}/namespaces/default/{plural}/{body['metadata']['name']}"
    return send(cluster, "PATCH", f"{path}?fieldManager=t&force=true", body)


def job(**spec: Any) -> dict[str, Any]:
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {**indexed, "template": {"spec": POD}, **spec},
    }


@pytest.mark.parametrize("version", RELEASES)
def test_a_version_says_which_it_is(version: str) -> None:
    with Cluster(nodes=1, version=version, controllers=False).running() as cluster:
        _status, said = send(cluster, "GET", "/version")
        assert (said["major"], said["minor"], said["gitVersion"]) == ("1", version[2:], RELEASES[version])
        assert ("emulationMinor" in said) is (int(version[2:]) >= 34)
        _status, node = send(cluster, "GET", "/api/v1/nodes/node-1")
        assert node["status"]["nodeInfo"]["kubeletVersion"] == RELEASES[version]


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^unknown version of Kubernetes: 1\.4\. Known: 1\.29, 1\.30"):
        Cluster(version="1.4")


@pytest.mark.parametrize(("version", "served"), [("1.33", False), ("1.34", True)])
def test_claims_of_devices_came_with_1_34(version: str, served: bool) -> None:
    with Cluster(version=version, mixed_nodes=True, controllers=False).running() as cluster:
        status, answer = send(cluster, "GET", "/apis/resource.k8s.io/v1/deviceclasses")
        assert (status == 200) is served
        assert served or answer == b"404 page not found\n"
        _status, groups = send(cluster, "GET", "/apis")
        assert ("resource.k8s.io" in [group["name"] for group in groups["groups"]]) is served


@pytest.mark.parametrize(("version", "served"), [("1.29", False), ("1.30", True)])
def test_policies_of_admission_came_with_1_30(version: str, served: bool) -> None:
    with Cluster(version=version, controllers=False).running() as cluster:
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        status, answer = send(cluster, "GET", path)
        assert status == (200 if served else 404)
        # Before that, the version of the group is served, for webhooks.
        assert served or answer["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("cluster", "kept"),
    [
        ({"version": "1.30"}, False),
        ({"version": "1.31"}, True),
        ({"version": "1.36", "gates_off": {"JobSuccessPolicy"}}, False),
    ],
    ids=["1.30", "1.31", "gate off"],
)
def test_success_policies_are_dropped_without_a_word(cluster: dict[str, Any], kept: bool) -> None:
    with Cluster(nodes=1, controllers=False, **cluster).running() as running:
        status, answer = apply(running, "jobs", job(successPolicy={"rules": [{"succeededIndexes": "0"}]}))
        assert status == 201
        assert ("successPolicy" in answer["spec"]) is kept


def test_a_hook_without_its_sleep_is_refused() -> None:
    container = {**POD["containers"][0], "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}  # type: ignore[index]
    labels = {"app": "d"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    with Cluster(nodes=1, controllers=False, version="1.29").running() as cluster:
        status, answer = apply(cluster, "deployments", deployment)
        assert status == 422
        assert answer["details"]["causes"][0]["message"] == "Required value: must specify a handler type"
    with Cluster(nodes=1, controllers=False, version="1.30").running() as cluster:
        assert apply(cluster, "deployments", deployment)[0] == 201


@pytest.mark.parametrize(("version", "status"), [("1.35", 422), ("1.36", 200)])
def test_a_suspended_job_gets_other_resources_since_1_36(version: str, status: int) -> None:
    with Cluster(nodes=1, controllers=False, version=version).running() as cluster:
        assert apply(cluster, "jobs", job(suspend=True))[0] == 201
        container = {**POD["containers"][0], "resources": GPUS}  # type: ignore[index]
        again = job(suspend=True, template={"spec": {**POD, "containers": [container]}})
        assert apply(cluster, "jobs", again)[0] == status
        placed = job(suspend=True, template={"spec": {**POD, "nodeSelector": {"a": "b"}}})
        assert apply(cluster, "jobs", placed)[0] == 200


@pytest.mark.parametrize(("version", "warned"), [("1.32", False), ("1.33", True)])
def test_endpoints_are_deprecated_since_1_33(version: str, warned: bool) -> None:
    with Cluster(nodes=1, controllers=False, version=version).running() as cluster:
        connection = http.client.HTTPConnection(urlsplit(cluster.url).netloc, timeout=30)
        connection.request("GET", "/api/v1/endpoints", headers={"Authorization": f"Bearer {cluster.token}"})
        assert bool(connection.getresponse().headers.get("Warning")) is warned
        connection.close()


def test_exec_cannot_close_streams_before_1_30() -> None:
    assert Cluster(version="1.29").exec_protocols == ("v4.channel.k8s.io",)
    assert Cluster(version="1.30").exec_protocols[0] == "v5.channel.k8s.io"
