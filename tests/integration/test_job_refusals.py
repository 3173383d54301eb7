# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job with bad input: one clear message, nothing half done, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from .ansible import Ansible
from .manifests import compute, training
from .recorder import Recorder

FIVE_MISTAKES = """\
kind: training
job:
  name: Not_A_Name
  gpu: 4
environment:
  image: registry.example.com/ml:v1
  command: python train.py
resources:
  gpu: -1
  cpu: lots
  memory: 1Gi
"""


def test_five_mistakes_are_five_located_messages_and_no_request(ansible: Ansible, recorder: Recorder):
    path = ansible.directory / "training.yaml"
    path.write_text(FIVE_MISTAKES)
    result = ansible.job(src=str(path))

    assert result.failed
    lines = result.message.splitlines()
    assert "5 errors" in lines[0]
    for place, value in {
        "job.name": "Not_A_Name",
        "job.gpu": "resources",
        "environment.command": '["python", "train.py"]',
        "resources.gpu": "-1",
        "resources.cpu": "lots",
    }.items():
        (line,) = [line for line in lines if f"{place}:" in line]
        assert "training.yaml" in line
        assert "document 1" in line
        assert value in line
    assert recorder.requests == []


CASES = {
    "no input": ({}, ["src", "definition", "name"]),
    "two inputs": ({"src": "a.yaml", "definition": {}}, ["mutually exclusive"]),
    "a name is not enough to create": (
        {"name": "x"},
        ["name alone changes nothing: x", "wait=true", "src"],
    ),
    "a list of names": ({"name": ["a", "b"], "state": "absent"}, ["name: a list in place of a string"]),
    "nothing at that path": ({"src": "nowhere/*.yaml"}, ["nowhere/*.yaml"]),
    "the same job twice": (
        {"definition": [training(), training(job={"namespace": "gpuctl-x"})], "namespace": "gpuctl-x"},
        ["document 2, job.name", "namespace gpuctl-x", "document 1"],
    ),
    "only a pool": (
        {"definition": {"kind": "pool", "pool": {"name": "a"}, "nodes": ["node-1"]}},
        ["no job", "pool"],
    ),
    "a kubeconfig that is not there": (
        {"definition": training(), "kubeconfig": "/nowhere/kubeconfig"},
        ["/nowhere/kubeconfig", "K8S_AUTH_KUBECONFIG"],
    ),
    "a context that is not there": (
        {"definition": training(), "context": "nowhere"},
        ["context not found in kubeconfig ", ": nowhere. Set context to one of: "],
    ),
    "a server that is not there": (
        {"definition": training(), "host": "http://127.0.0.1:1", "api_key": "t-0p5ecret", "retries": 0},
        ["cannot reach the API server http://127.0.0.1:1", "refused"],
    ),
}


@pytest.mark.parametrize(("options", "words"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_bad_input(ansible: Ansible, recorder: Recorder, options: dict, words: list[str], check: bool):
    result = ansible.job(**options, check=check)
    assert result.failed
    for word in words:
        assert word in result.message
    assert "Traceback" not in result.message
    assert "exception" not in result.result or "Traceback" not in str(result.result["exception"])
    assert recorder.writes == []


def test_a_missing_namespace(ansible: Ansible, recorder: Recorder):
    result = ansible.job(definition=training(), namespace="gpuctl-nowhere")
    assert result.failed
    assert "training train in namespace gpuctl-nowhere" in result.message
    assert "Create it with gpuctl_workspace (namespace=gpuctl-nowhere)" in result.message
    assert "Did you mean" not in result.message
    # With its priority class there already, the first write of a single job is what the server refuses.
    assert {request.status for request in recorder.requests if str(request) in recorder.writes} <= {404}


def test_a_missing_namespace_is_said_before_what_else_a_job_lacks(ansible: Ansible):
    """In check mode an earlier task may make the namespace, so the rest is said there."""
    too_large = training(resources={"gpu": 500})
    warning = "pods cannot be scheduled"
    assert warning in " ".join(ansible.job(definition=too_large, namespace="gpuctl-nowhere", check=True).screen.split())
    result = ansible.job(definition=too_large, namespace="gpuctl-nowhere")
    assert "namespace gpuctl-nowhere not found" in result.message
    assert warning not in " ".join(result.screen.split())


def test_a_misspelled_namespace(ansible: Ansible, namespace: str):
    result = ansible.job(definition=training(), namespace=f"{namespace}a")
    create = f"reate it with gpuctl_workspace (namespace={namespace}a)"
    assert f"Did you mean {namespace}? If not, c{create}" in result.message
    bounded = ansible.job(definition=training(), namespace=f"{namespace}a", allowed_namespaces=[f"{namespace}a"])
    assert f"C{create}" in bounded.message


def test_a_check_run_trusts_an_earlier_task_to_make_the_namespace_and_warns(ansible: Ansible, recorder: Recorder):
    result = ansible.job(definition=training(), namespace="gpuctl-nowhere", check=True)
    assert result.jobs["train"]["action"] == "create"
    shown = " ".join(result.screen.split())
    assert 'not validated by the server: namespaces "gpuctl-nowhere" not found' in shown
    assert recorder.writes == []


def test_a_missing_write_permission_is_named(ansible: Ansible, namespace: str, recorder: Recorder):
    """Nobody may act as a user without rights but an admin: impersonation is how to be one on any cluster."""
    result = ansible.job(definition=compute(), namespace=namespace, impersonate_user="gpuctl-test-nobody")
    assert result.failed
    assert "forbidden" in result.message
    # The first request that is refused is one that reads; the task needs more than that.
    assert "The level submit of gpuctl_rbac has it." in " ".join(result.message.split())
    assert recorder.writes == []


def test_a_token_of_the_options_never_shows(ansible: Ansible, tmp_path: Path):
    token = "t-2f8e91c7"
    run = ansible.play(
        [
            {
                "name": "job",
                "runwhere.gpuctl.gpuctl_job": {
                    "definition": training(),
                    "host": "http://127.0.0.1:1",
                    "api_key": token,
                },
            }
        ],
        arguments=("-vvv",),
    )
    assert run.tasks[0].failed
    assert token not in run.output


SECRET = "s-2f8e91c7"


@pytest.mark.parametrize(
    "environment",
    [
        {"env": {"HF_TOKEN": SECRET}},
        {"env": [{"name": "HF_TOKEN", "value": SECRET}]},
        {"env": [f"HF_TOKEN={SECRET}"]},
        {"command": ["serve", "--api-key", SECRET]},
        {"command": ["serve", "--api-key"], "args": [SECRET]},
        {"command": f"serve --api-key {SECRET}"},
    ],
    ids=str,
)
@pytest.mark.parametrize("as_text", [False, True], ids=["data", "text"])
def test_a_secret_of_a_refused_definition_never_shows(ansible: Ansible, environment: dict, as_text: bool):
    definition = {**training(), "environment": {"imag": "a", **environment}}
    task = {"definition": yaml.safe_dump(definition) if as_text else definition}
    run = ansible.play([{"name": "job", "runwhere.gpuctl.gpuctl_job": task}], arguments=("-vvv",))
    assert run.tasks[0].failed
    assert "Did you mean image" in run.tasks[0].message
    assert SECRET not in run.output
