# SPDX-License-Identifier: BSD-2-Clause
"""The DynamicClient of Kubernetes' official Python client works against the simulator."""

from __future__ import annotations

import pytest
from kubernetes import config, dynamic

from kubesim.cluster import Cluster


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with Cluster(nodes=2, tls=True).running() as cluster:
        yield cluster.kubeconfig(tmp_path_factory.mktemp("peers") / "kubeconfig")


def test_the_dynamic_client(kubeconfig):
    client = dynamic.DynamicClient(config.new_client_from_config(str(kubeconfig)))
    maps = client.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}

    created = maps.create(body=body, namespace="default")
    patched = maps.patch(
        body={"data": {"b": "2"}}, name="settings", namespace="default", content_type="application/merge-patch+json"
    )
    applied = maps.server_side_apply(
        body={**body, "data": {"c": "3"}}, namespace="default", field_manager="test", force_conflicts=True
    )
    assert created.metadata.uid == patched.metadata.uid == applied.metadata.uid
    assert dict(applied.data) == {"a": "1", "b": "2", "c": "3"}
    listed = maps.get(namespace="default", field_selector="metadata.name=settings")
    assert [item.metadata.name for item in listed.items] == ["settings"]

    seen = []
    for event in maps.watch(namespace="default", resource_version="0", timeout=2):
        seen.append((event["type"], event["object"].metadata.name))
    assert ("ADDED", "settings") in seen

    maps.delete(name="settings", namespace="default")
    with pytest.raises(dynamic.exceptions.NotFoundError):
        maps.get(name="settings", namespace="default")
