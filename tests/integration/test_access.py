# SPDX-License-Identifier: BSD-2-Clause
"""Where services and notebooks answer, and who gets to see the token of a notebook."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from .ansible import Ansible, Run
from .api import Api
from .manifests import compute, inference, notebook, training
from .recorder import Recorder

TOKEN = "sesame-4f2c91d0"
FROM_SECRET = {"name": "JUPYTER_TOKEN", "valueFrom": {"secretKeyRef": {"name": "jupyter", "key": "token"}}}
HOLDERS: dict[str, dict[str, Any]] = {
    "flag": {"command": ["jupyter-lab", "--ip=0.0.0.0", f"--NotebookApp.token={TOKEN}", "--NotebookApp.password="]},
    "args": {"command": ["jupyter", "lab"], "args": ["--ServerApp.token", TOKEN]},
    "variable": {"command": ["jupyter-lab"], "env": {"JUPYTER_TOKEN": TOKEN}},
    "secret": {"command": ["jupyter-lab"], "env": [FROM_SECRET]},
}


def urls(ansible: Ansible, namespace: str, **options: Any) -> dict[str, list[str]]:
    result = ansible.module("gpuctl_job_info", namespaces=[namespace], **options)
    assert not result.failed, result.message
    return {name: job["access_urls"] for name, job in result.jobs.items()}


def node_addresses(api: Api) -> list[str]:
    return [entry["address"] for node in api.list("node") for entry in node["status"].get("addresses") or ()]


def test_a_dry_run_promises_no_node_port(ansible: Ansible, namespace: str):
    predicted = ansible.job(definition=compute(), namespace=namespace, check=True).jobs["web"]
    assert predicted["access_urls"] == [f"http://svc-web.{namespace}.svc:8000"]


def test_where_each_kind_answers(ansible: Ansible, api: Api, namespace: str):
    definition = [
        training(),
        inference(service={"type": "ClusterIP", "port": 8000}),
        notebook(),
        compute(service={"type": "LoadBalancer", "port": 80}),
    ]
    ansible.job(definition=definition, namespace=namespace)
    ingress = {"status": {"loadBalancer": {"ingress": [{"hostname": "web.example.com"}]}}}
    path = f"/api/v1/namespaces/{namespace}/services/svc-web/status"
    status, answer = api.call("PATCH", path, ingress, "application/merge-patch+json")
    assert status == 200, answer

    found = urls(ansible, namespace)
    assert found["train"] == []
    assert found["serve"] == [f"http://svc-serve.{namespace}.svc:8000"]
    assert (found["web"][0], found["web"][-1]) == ("http://web.example.com:80", f"http://svc-web.{namespace}.svc:80")
    assert found["lab"][-1] == f"http://svc-lab.{namespace}.svc:8888"
    if node_addresses(api):
        (port,) = api.get("service", "svc-lab", namespace)["spec"]["ports"]
        assert found["lab"][0] in {f"http://{address}:{port['nodePort']}" for address in node_addresses(api)}

    again = ansible.job(definition=definition, namespace=namespace)
    assert {name: job["access_urls"] for name, job in again.jobs.items()} == found, "a submission returns the same"


@pytest.fixture
def notebooks(ansible: Ansible, api: Api, namespace: str) -> str:
    """A notebook for each place that a token can be in; the name of their namespace."""
    data = {"token": base64.b64encode(f"{TOKEN}\n".encode()).decode()}
    api.create("secret", {"metadata": {"name": "jupyter"}, "data": data}, namespace)
    definition = [notebook(name, environment=environment) for name, environment in HOLDERS.items()]
    done = ansible.job(definition=definition, namespace=namespace)
    assert not done.failed, done.message
    return namespace


@pytest.fixture
def secrets_open(api: Api, recorder: Recorder) -> None:
    """Run Ansible as a user with permission to read Secrets."""
    recorder.identity = api


def info(ansible: Ansible, namespace: str, **options: Any) -> Run:
    """Everything that the module can print, at the highest verbosity."""
    module = {"namespaces": [namespace], "full": True, "details": True, "pods": True, **options}
    return ansible.play([{"name": "info", "runwhere.gpuctl.gpuctl_job_info": module}], arguments=("-vvv",))


@pytest.mark.usefixtures("secrets_open")
def test_tokens_are_hidden_by_default(ansible: Ansible, notebooks: str):
    run = info(ansible, notebooks)
    assert len(run.tasks[0].jobs) == len(HOLDERS)
    assert TOKEN not in run.output + json.dumps(run.tasks[0].result)


@pytest.mark.usefixtures("secrets_open")
def test_show_token_adds_tokens_to_links_and_nowhere_else(ansible: Ansible, api: Api, notebooks: str):
    result = info(ansible, notebooks, show_token=True).tasks[0]
    for name in HOLDERS:
        assert result.jobs[name].pop("access_urls")[-1] == f"http://svc-{name}.{notebooks}.svc:8888/?token={TOKEN}"
    assert TOKEN not in json.dumps(result.result), "not in the objects, pods and events either"
    if node_addresses(api):
        node_port = urls(ansible, notebooks, name="flag", show_token=True)["flag"][0]
        assert f":{api.get('service', 'svc-flag', notebooks)['spec']['ports'][0]['nodePort']}/?token=" in node_port


@pytest.mark.parametrize("environment", [{}, {"GPUCTL_FAST_PATH": "no"}], ids=["in the worker", "as a module"])
def test_no_log_keeps_the_links_from_the_screen(ansible: Ansible, notebooks: str, environment: dict[str, str]):
    task = {
        "runwhere.gpuctl.gpuctl_job_info": {"namespaces": [notebooks], "show_token": True},
        "environment": environment,
        "no_log": True,
    }
    use = {"ansible.builtin.assert": {"that": ["info.results[0].access_urls[0].endswith(ending)"], "quiet": True}}
    tasks = [{"name": "info", "register": "info", **task}, {"name": "use", **use, "vars": {"ending": TOKEN}}]
    run = ansible.play(tasks, arguments=("-vvv",))
    assert [task.outcome for task in run.tasks] == ["ok", "ok"], run.output
    assert "/?token=" not in run.output


def test_show_token_hides_other_secrets(ansible: Ansible, namespace: str):
    environment = {"command": ["jupyter-lab", f"--ServerApp.token={TOKEN}"], "env": {"HF_TOKEN": "hf-77aa3f9c01"}}
    service = {"command": ["serve", "--api-key", "sk-55d0c2ee"], "env": {"JUPYTER_TOKEN": "not-a-notebook"}}
    ansible.job(definition=[notebook(environment=environment), compute(environment=service)], namespace=namespace)
    run = info(ansible, namespace, show_token=True)
    assert TOKEN in run.tasks[0].jobs["lab"]["access_urls"][-1]
    for secret in ("hf-77aa3f9c01", "sk-55d0c2ee", "not-a-notebook"):
        assert secret not in run.output + json.dumps(run.tasks[0].result)


def test_a_forbidden_secret_is_reported(ansible: Ansible, notebooks: str):
    """The roles that come with the collection do not let anybody read Secrets."""
    run = info(ansible, notebooks, show_token=True)
    said = " ".join(run.output.split())
    assert f"access_urls of notebook secret in namespace {notebooks} lack its token" in said
    assert "reading key token of Secret jupyter is forbidden" in said
    found = {name: job["access_urls"][-1].rpartition("/")[2] for name, job in run.tasks[0].jobs.items()}
    token = f"?token={TOKEN}"
    assert found == {"flag": token, "args": token, "variable": token, "secret": f"svc-secret.{notebooks}.svc:8888"}


@pytest.mark.usefixtures("secrets_open")
def test_a_missing_token(ansible: Ansible, namespace: str):
    ansible.job(definition=notebook(environment={"env": [FROM_SECRET]}), namespace=namespace)
    run = info(ansible, namespace, show_token=True)
    assert "key token of Secret jupyter not found" in " ".join(run.output.split())
    assert run.tasks[0].jobs["lab"]["access_urls"][-1] == f"http://svc-lab.{namespace}.svc:8888"
