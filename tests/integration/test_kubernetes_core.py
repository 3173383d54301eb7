# SPDX-License-Identifier: BSD-2-Clause
"""The simulated cluster answers kubernetes.core as well, which `make bench` measures on it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from kubesim import Cluster

from tools.peers import kubernetes_core

from .ansible import BIN

pytestmark = pytest.mark.nightly  # It changes with the simulator and nothing else.

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


def test_kubernetes_core(tmp_path: Path) -> None:
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
    with Cluster(nodes=2, tls=True).running() as cluster:
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(kubernetes_core()),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig(tmp_path / "kubeconfig")),
        }
        command = [str(BIN / "ansible-playbook"), str(play)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
