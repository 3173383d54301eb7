# SPDX-License-Identifier: BSD-2-Clause
"""An upgrade of the cluster changes and restarts nothing, and is no drift.

By default the simulated cluster is upgraded from 1.31 to 1.33 and 1.36. A real one is upgraded by whoever runs it: with
GPUCTL_UPGRADE_DIRECTORY the first run provisions the cluster that GPUCTL_TEST_KUBECONFIG names and records in that
directory what it made, and each later run holds the cluster to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from . import recorder as recording
from .ansible import Ansible
from .api import Api, eventually
from .manifests import compute, inference, notebook, training
from .pools import PREFIX
from .pools import manifest as pool_manifest
from .recorder import Recorder

TEAM, POOL = "upgraded", "upgraded"
KINDS = ("job", "deployment", "statefulset", "service", "configmap", "resourcequota", "pod")
LATER = ("1.33", "1.36")
PODS = 8


def test_an_upgrade_of_the_cluster_changes_nothing(tmp_path: Path) -> None:
    given = os.environ.get("GPUCTL_UPGRADE_DIRECTORY")
    if given:
        kubeconfig = Path(os.environ["GPUCTL_TEST_KUBECONFIG"]).resolve()
        directory = Path(given).resolve()
        with reached(kubeconfig, tmp_path) as (api, ansible, recorder):
            if (directory / "recorded.json").exists():
                hold(api, ansible, recorder, directory)
            else:
                make(api, ansible, directory)
        return
    with Cluster(nodes=4, version="1.31").running() as cluster:
        cluster.kubeconfig(tmp_path / "kubeconfig")
        with reached(tmp_path / "kubeconfig", tmp_path) as (api, ansible, _recorder):
            make(api, ansible, tmp_path)
        objects = cluster.objects()
    for version in LATER:
        with Cluster(nodes=4, version=version, controllers=False).running() as cluster:
            cluster.load(objects)
            cluster.kubeconfig(tmp_path / "kubeconfig")
            with reached(tmp_path / "kubeconfig", tmp_path) as (api, ansible, recorder):
                hold(api, ansible, recorder, tmp_path)
                if version == LATER[-1]:  # and what an upgrade would change is found
                    api.patch("deployment", "web", {"spec": {"replicas": 3}}, TEAM)
                    with pytest.raises(AssertionError, match="deployment web"):
                        hold(api, ansible, recorder, tmp_path)


@contextmanager
def reached(kubeconfig: Path, directory: Path) -> Iterator[tuple[Api, Ansible, Recorder]]:
    """The cluster, and Ansible that reaches it through a proxy that counts requests."""
    api = Api(str(kubeconfig))
    recorder, server = recording.start(api, directory)
    try:
        yield api, Ansible(directory, {"K8S_AUTH_KUBECONFIG": str(recorder.kubeconfig)}), recorder
    finally:
        server.shutdown()
        server.server_close()


def make(api: Api, ansible: Ansible, directory: Path) -> None:
    """Provision one of each kind, and record what there is once it runs."""
    free = [node for node in api.list("node") if not any(key.startswith(PREFIX) for key in labels(node))]
    (directory / "cluster").mkdir(parents=True)
    for name, manifests in declared([node["metadata"]["name"] for node in free[:3]]).items():
        place = directory if name == "policies" else directory / "cluster"  # a policy is no manifest of a directory
        (place / f"{name}.yaml").write_text(yaml.safe_dump_all(manifests))
    provisioned = playbook(ansible, directory, "provision")
    assert provisioned.status == 0, provisioned.output
    eventually(lambda: len(running(api)) == PODS, 120)
    (directory / "recorded.json").write_text(json.dumps(present(api)))


def hold(api: Api, ansible: Ansible, recorder: Recorder, directory: Path) -> None:
    """Nothing has changed since, and nothing is to be changed."""
    assert present(api) == json.loads((directory / "recorded.json").read_text())
    recorder.clear()
    for arguments in (["--check"], []):
        again = playbook(ansible, directory, "provision", *arguments)
        assert again.status == 0, again.output
        assert "changed=0" in again.output, again.output
    drift = playbook(ansible, directory, "drift")
    assert drift.status == 0, drift.output
    assert recorder.writes == []
    assert len(running(api)) == PODS


def declared(nodes: list[str]) -> dict[str, list[dict[str, Any]]]:
    place = {"job": {"namespace": TEAM}}
    here = {"gpu": 1, "pool": POOL}
    limits = {"cpu": 64, "memory": "64Gi", "gpu": 20}
    two = {**here, "node_count": 2}
    return {
        "pools": [pool_manifest(POOL, nodes)],
        "quotas": [{"kind": "quota", "quota": {"name": "upgraded"}, "users": {TEAM: limits}}],
        "policies": [{"kind": "policy", "policy": {"name": "upgraded"}, "teams": {TEAM: {"max_gpus_per_job": 8}}}],
        "jobs": [
            training("llm", **place, resources=here),
            training("ray", **place, resources=two, distributed={"launcher": "ray"}),
            training("mpi", **place, resources=two, distributed={"launcher": "mpi"}),
            inference("chat", **place, resources=here),
            compute("web", **place),
            notebook("lab", **place, resources=here),
        ],
    }


def playbook(ansible: Ansible, directory: Path, name: str, *arguments: str) -> Any:
    variables = {
        "gpuctl_dir": str(directory / "cluster"),
        "gpuctl_policies": [str(directory / "policies.yaml")],
        "gpuctl_source": "upgraded",
    }
    return ansible.run("ansible-playbook", f"runwhere.gpuctl.{name}", "-e", json.dumps(variables), *arguments)


def labels(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def running(api: Api) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.list("pod", TEAM) if pod["status"].get("phase") == "Running"]


def present(api: Api) -> dict[str, list[Any]]:
    """What shows that an object was written or made again, or that a container was started again."""
    return {
        f"{kind} {obj['metadata']['name']}": [
            obj["metadata"]["uid"],
            obj["metadata"].get("generation"),
            [each["restartCount"] for each in obj.get("status", {}).get("containerStatuses") or ()],
        ]
        for kind in KINDS
        for obj in api.list(kind, TEAM)
    }
