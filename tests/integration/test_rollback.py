# SPDX-License-Identifier: BSD-2-Clause
"""The way back from an update that fails: to the last manifest with which a job was ready."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .ansible import Ansible, TaskResult
from .api import Api, eventually
from .manifests import inference, notebook, training
from .recorder import Recorder

SECRET = "hunter2-of-the-tests"
TOO_LARGE = {"cpu": "900"}  # more than any node has: the new pods are never ready


def serve(image: str, **blocks: Any) -> dict[str, Any]:
    environment = {**inference()["environment"], "image": f"registry.example.com/vllm:{image}"}
    resources = {"gpu": 0, **blocks.pop("resources", {})}
    return inference(environment=environment, service={"replicas": 2}, resources=resources, **blocks)


def submit(ansible: Ansible, namespace: str, manifest: dict[str, Any], *, ready: bool = True) -> None:
    result = ansible.job(definition=manifest, namespace=namespace, wait=ready, wait_timeout=60)
    assert not result.failed, result.message


def back(ansible: Ansible, namespace: str, name: str = "serve", **options: Any) -> TaskResult:
    return ansible.job(name=name, namespace=namespace, state="rolled_back", **options)


def image(api: Api, namespace: str) -> str:
    deployment = api.get("deployment", "serve", namespace)
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]


def test_an_update_that_fails_says_what_serves_and_is_rolled_back(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder
):
    submit(ansible, namespace, serve("v1"))
    submit(ansible, namespace, serve("v2", resources=TOO_LARGE), ready=False)

    def row() -> dict[str, Any]:
        (found,) = ansible.module("gpuctl_job_info", name="serve", namespaces=[namespace], details=True).result[
            "results"
        ]
        return dict(found)

    found = eventually(lambda: row() if "cannot be scheduled" in str(row()["reason"]) else None)
    assert found["status"] == "Running"
    assert found["reason"].startswith("the update is not done, 2 old replicas still serve: pod serve-")
    assert found["reason"].count("use state=rolled_back") == 1
    assert sorted(pod["image"].rpartition(":")[2] for pod in found["pods"]) == ["v1", "v1", "v2"]

    predicted = back(ansible, namespace, check=True)
    assert predicted.changed
    assert "registry.example.com/vllm:v1" in predicted.screen, "the diff"
    assert image(api, namespace) == "v2"
    done = back(ansible, namespace, wait=True, wait_timeout=60)
    assert done.jobs["serve"]["action"] == "update", done.message
    assert (image(api, namespace), row()["reason"]) == ("v1", None)

    recorder.clear()
    assert not back(ansible, namespace).changed
    assert [request for request in recorder.requests if request.method != "GET"] == []


def test_only_a_manifest_that_was_ready_is_gone_back_to(ansible: Ansible, api: Api, namespace: str):
    submit(ansible, namespace, serve("v1"))
    assert "no earlier manifest is recorded with which it was ready" in back(ansible, namespace).message
    for version in ("v2", "v3"):
        submit(ansible, namespace, serve(version, resources=TOO_LARGE), ready=False)
    assert back(ansible, namespace, wait=True, wait_timeout=60).changed
    assert image(api, namespace) == "v1"
    # One that runs well but is not wanted, too. It is not what the next rollback returns to.
    submit(ansible, namespace, serve("v4"))
    assert back(ansible, namespace, wait=True, wait_timeout=60).changed
    assert image(api, namespace) == "v1"
    assert not back(ansible, namespace).changed


def test_a_notebook_by_its_manifest_and_a_service_by_its_pod(ansible: Ansible, api: Api, namespace: str):
    lab = notebook()
    submit(ansible, namespace, lab)
    submit(ansible, namespace, {**lab, "resources": {**lab["resources"], "memory": "3Gi"}})
    assert ansible.job(definition=lab, namespace=namespace, state="rolled_back").jobs["lab"]["action"] == "update"
    submit(ansible, namespace, serve("v1"))
    submit(ansible, namespace, serve("v2"))
    # A real cluster still has the pods of v1 for a moment, which may be gone when Ansible looks for them.
    first, _second = eventually(lambda: pods if len(pods := api.list("pod", namespace, "app=serve")) == 2 else None)
    pod = first["metadata"]["name"]
    done = back(ansible, namespace, pod)
    assert f"{pod} is a pod of job serve" in " ".join(done.screen.split())
    assert image(api, namespace) == "v1"


def test_a_manifest_with_secrets_is_not_recorded_with_them(ansible: Ansible, api: Api, namespace: str):
    environment = {**serve("v1")["environment"], "env": {"HF_TOKEN": SECRET}}
    submit(ansible, namespace, {**serve("v1"), "environment": environment})
    submit(ansible, namespace, serve("v2"))
    refused = back(ansible, namespace)
    assert "secret values, which are not recorded: environment.env HF_TOKEN" in refused.message
    assert "Nothing was changed." in refused.message
    assert image(api, namespace) == "v2"
    assert SECRET not in json.dumps(api.list("configmap", namespace))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train", "job train in namespace {}: a training is not updated in place, so there is nothing to go back to."),
        ("nope", "job nope in namespace {}: job not found."),
    ],
)
def test_what_cannot_go_back(ansible: Ansible, namespace: str, name: str, said: str):
    submit(ansible, namespace, training(), ready=False)
    for check in (True, False):
        refused = back(ansible, namespace, name, check=check)
        assert refused.failed
        assert refused.message.startswith(said.format(namespace))


def test_a_record_that_is_no_manifest_of_the_job_is_not_applied(ansible: Ansible, api: Api, namespace: str):
    submit(ansible, namespace, serve("v1"))
    submit(ansible, namespace, serve("v2"))
    uid = api.get("deployment", "serve", namespace)["metadata"]["uid"]
    for manifest in ({**training(), "job": {"name": "serve"}}, {"kind": "inference", "job": "serve"}, "text", None):
        planted = json.dumps({"digest": "0" * 32, "manifest": manifest})
        api.patch("configmap", "gpuctl-history", {"data": {f"{uid}.good": planted}}, namespace)
        refused = back(ansible, namespace)
        assert "its earlier manifest is not recorded" in refused.message
        assert image(api, namespace) == "v2"
