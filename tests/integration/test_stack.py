# SPDX-License-Identifier: BSD-2-Clause
"""The role accelerator_stack and gpuctl_stack: what is installed, twice, in check mode, changed and removed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run
from .api import Api
from .recorder import Recorder
from .test_roles import play

PATHS = {
    "daemonset": "/apis/apps/v1/namespaces/{}/daemonsets",
    "service": "/api/v1/namespaces/{}/services",
    "configmap": "/api/v1/namespaces/{}/configmaps",
}


@pytest.fixture
def place(api: Api, recorder: Recorder) -> Iterator[str]:
    """A namespace for the software; the tests run as a cluster administrator, as its users do."""
    recorder.identity = api
    name = f"gpuctl-test-stack-{secrets.token_hex(3)}"
    yield name
    api.delete("namespace", name)
    for kind in ("clusterrole", "clusterrolebinding"):
        for obj in api.list(kind):
            if "runwhere.ai/stack" in (obj["metadata"].get("labels") or {}):
                api.delete(kind, obj["metadata"]["name"])


def install(ansible: Ansible, place: str, check: bool = False, **variables: Any) -> Run:
    given = {"vendor": "nvidia", "namespace": place, **variables}
    return play(
        ansible,
        "accelerator_stack",
        check=check,
        **{f"accelerator_stack_{name}": value for name, value in given.items()},
    )


def objects(api: Api, kind: str, place: str) -> dict[str, Any]:
    status, answer = api.call("GET", PATHS[kind].format(place) + "?labelSelector=runwhere.ai/stack")
    assert status == 200, answer
    return {obj["metadata"]["name"]: obj for obj in answer["items"]}


def changed(done: Run) -> list[str]:
    assert done.status == 0, done.output
    return [task.task.rpartition(" : ")[2] for task in done.tasks if task.changed]


def test_install_again_check_and_remove(ansible: Ansible, api: Api, recorder: Recorder, place: str) -> None:
    recorder.clear()
    changed(install(ansible, place, check=True))
    assert recorder.writes == []

    assert changed(install(ansible, place)) == ["Apply the manifests"]
    found = objects(api, "daemonset", place)
    assert found.keys() == {
        "nvidia-device-plugin",
        "gpu-feature-discovery",
        "nvidia-mps-control-daemon",
        "dcgm-exporter",
    }
    pod = found["nvidia-device-plugin"]["spec"]["template"]["spec"]
    assert {each["image"] for each in pod["containers"]} == {"nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
    # The others have the capability by which the runtime lets them see MIG devices.
    assert {
        f"{name}/{container['name']}"
        for name, obj in found.items()
        for container in obj["spec"]["template"]["spec"]["containers"]
        if container.get("securityContext", {}).get("privileged")
    } == {
        "nvidia-mps-control-daemon/mps-control-daemon",
        "gpu-feature-discovery/config",
        "gpu-feature-discovery/gpu-feature-discovery",
    }
    # What a pool may declare, the plugin knows: accelerators/nvidia.yml has the names.
    known = objects(api, "configmap", place)["nvidia-device-plugin-configs"]["data"]
    assert {"default", "time-slicing-2", "time-slicing-48", "mps-2", "mps-48"} <= known.keys()
    assert yaml.safe_load(known["mps-3"])["sharing"] == {
        "mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}
    }
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    assert objects(api, "service", place)["dcgm-exporter"]["spec"]["ports"][0]["port"] == 9400

    recorder.clear()
    assert changed(install(ansible, place)) == []
    assert recorder.writes == []

    image = "registry.example.com/plugin@sha256:" + "0" * 64
    changed(install(ansible, place, images={"device_plugin": image}, components=["device_plugin"]))
    found = objects(api, "daemonset", place)
    assert found.keys() == {"nvidia-device-plugin"}, "what is no longer wanted is deleted"
    containers = found["nvidia-device-plugin"]["spec"]["template"]["spec"]["containers"]
    assert {each["image"] for each in containers} == {image}

    changed(install(ansible, place, state="absent"))
    assert objects(api, "daemonset", place) == {}
    assert api.get("clusterrole", "gpuctl-nvidia-device-plugin") is None


def test_another_vendor_and_its_own_manifests(ansible: Ansible, api: Api, place: str) -> None:
    changed(install(ansible, place, vendor="amd"))
    assert objects(api, "daemonset", place).keys() == {
        "amdgpu-device-plugin",
        "amdgpu-labeller",
        "amdgpu-metrics-exporter",
    }
    assert objects(api, "service", place)["amdgpu-metrics-exporter"]["spec"]["ports"][0]["port"] == 5000
    changed(install(ansible, place, vendor="amd", state="absent"))

    refused = install(ansible, place, vendor="ascend")
    assert refused.status == 2
    assert "accelerator_stack_src: missing for vendor ascend." in refused.output
    file = ansible.directory / "ascend.yaml"
    file.write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: plugin, namespace: {place}}}\n---\n"
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {place}}}\n"
    )
    changed(install(ansible, place, vendor="ascend", src=str(file)))
    assert objects(api, "configmap", place).keys() == {"plugin"}


def test_what_others_have_installed_is_not_changed(ansible: Ansible, api: Api, namespace: str, place: str) -> None:
    api.create("configmap", {"metadata": {"name": "plugin"}, "data": {"a": "b"}}, namespace)
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plugin", "namespace": namespace}}
    result = ansible.module("gpuctl_stack", name="x", objects=[mine])
    assert result.failed
    assert f"ConfigMap plugin in namespace {namespace} exists and does not belong to stack x" in result.message
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": namespace}}
    assert "kind not supported: batch/v1 Job" in ansible.module("gpuctl_stack", name="x", objects=[job]).message
    wrong = ansible.module("gpuctl_stack", name="x", node_labels={"node-1": {"runwhere.ai/pool": "b"}})
    assert "node_labels.node-1: not a label of a vendor: runwhere.ai/pool" in wrong.message


def test_the_chart_needs_a_collection(ansible: Ansible, place: str) -> None:
    """Without it, Ansible would end with an error about a misspelling."""
    ran = install(ansible, place, method="helm")
    assert ran.status == 2
    assert "ansible-galaxy collection install kubernetes.core), or use accelerator_stack_method=manifests." in (
        ran.tasks[-1].message
    )
    assert "couldn't resolve" not in ran.output


def test_the_playbook_installs_a_stack(ansible: Ansible, api: Api, place: str) -> None:
    def run(**variables: str) -> Run:
        given = {"gpuctl_vendor": "amd", "accelerator_stack_namespace": place, **variables}
        words = [part for name, value in given.items() for part in ("-e", f"{name}={value}")]
        return ansible.run("ansible-playbook", "runwhere.gpuctl.accelerator_stack", *words)

    done = run()
    assert done.status == 0, done.output
    assert re.search(r"stack amd: \d+ objects created", done.output)
    assert "amdgpu-metrics-exporter" in objects(api, "daemonset", place)
    assert re.search(r"stack amd: \d+ objects deleted", run(gpuctl_state="absent").output)
    assert objects(api, "daemonset", place) == {}
    assert "stack amd: nothing to do" in run(gpuctl_state="absent").output
    assert "gpuctl_vendor" in run(gpuctl_vendor="").output
