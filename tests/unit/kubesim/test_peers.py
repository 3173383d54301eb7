# SPDX-License-Identifier: BSD-2-Clause
"""What others speak to Kubernetes works here too: the official client's DynamicClient, and kubernetes.core."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kubernetes import config, dynamic
from kubesim.cluster import Cluster

from tools.peers import kubernetes_core

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "registry.example.com/web:v1"}]},
        },
    },
}


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


def test_kubernetes_core(kubeconfig, tmp_path: Path):
    scale = {"api_version": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    checks = [
        "created is changed",
        "again is not changed",
        "found.resources[0].status.readyReplicas == 2",
        "scaled is changed",
        "three.resources | length == 3",
        "gone is changed",
    ]
    tasks = [
        {"kubernetes.core.k8s": {"definition": DEPLOYMENT, "wait": True, "wait_sleep": 1}, "register": "created"},
        {"kubernetes.core.k8s": {"definition": DEPLOYMENT}, "register": "again"},
        {"kubernetes.core.k8s_info": scale, "register": "found"},
        {"kubernetes.core.k8s_scale": {**scale, "replicas": 3, "wait_timeout": 60}, "register": "scaled"},
        {
            "kubernetes.core.k8s_info": {"kind": "Pod", "namespace": "default", "label_selectors": ["app = web"]},
            "register": "three",
        },
        {"kubernetes.core.k8s": {"definition": DEPLOYMENT, "state": "absent", "wait": True}, "register": "gone"},
        {"ansible.builtin.assert": {"that": checks}},
    ]
    play = tmp_path / "play.yml"
    play.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), str(play)],
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(kubernetes_core()),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "K8S_AUTH_KUBECONFIG": str(kubeconfig),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
