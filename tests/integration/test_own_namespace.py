# SPDX-License-Identifier: BSD-2-Clause
"""Where a task acts that names no namespace: where kubectl would, and no request is sent to find that out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run
from .api import Api
from .manifests import compute, training
from .recorder import Recorder


def with_context(ansible: Ansible, recorder: Recorder, namespace: str, **environment: str) -> Ansible:
    """Ansible with a kubeconfig whose context has the namespace."""
    config = yaml.safe_load(recorder.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    file = ansible.directory / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return Ansible(ansible.directory, {**ansible.environment, "K8S_AUTH_KUBECONFIG": str(file), **environment})


def playbook(ansible: Ansible, name: str, **variables: Any) -> Run:
    given = [part for key, value in variables.items() for part in ("-e", f"gpuctl_{key}={value}")]
    wide = Ansible(ansible.directory, {**ansible.environment, "COLUMNS": "160"})
    return wide.run("ansible-playbook", f"runwhere.gpuctl.{name}", *given)


@pytest.mark.parametrize("fast_path", ["1", "0"], ids=["in process", "as a module"])
def test_the_context_costs_no_request(ansible: Ansible, recorder: Recorder, namespace: str, fast_path: str, api: Api):
    own = with_context(ansible, recorder, namespace, GPUCTL_FAST_PATH=fast_path)
    recorder.clear()
    created = own.job(definition=training(), wait=True)  # Why it waits would be asked for otherwise.
    assert created.changed, created.message
    assert api.get("job", "train", namespace)
    assert created.jobs["train"]["namespace"] == namespace
    recorder.clear()
    assert not own.job(definition=training()).changed
    sent = sorted(map(str, recorder.requests))
    recorder.clear()
    assert not ansible.job(definition=training(), namespace=namespace).changed
    assert sent == sorted(map(str, recorder.requests))


def test_the_variable_overrides_the_context_and_the_manifest_all(
    ansible: Ansible, recorder: Recorder, namespace: str, api: Api
):
    own = with_context(ansible, recorder, "elsewhere", GPUCTL_NAMESPACE=namespace)
    assert own.job(definition=compute("web")).jobs["web"]["namespace"] == namespace
    named = {**compute("other"), "job": {"name": "other", "namespace": namespace}}
    in_context = with_context(ansible, recorder, "elsewhere")
    assert in_context.job(definition=named, namespace="nowhere").jobs["other"]["namespace"] == namespace
    assert api.get("deployment", "other", namespace)


def test_status_shows_the_namespace_of_the_context(ansible: Ansible, recorder: Recorder, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace)
    own = with_context(ansible, recorder, namespace)
    recorder.clear()
    shown = playbook(own, "status")
    assert shown.status == 0, shown.output
    assert f"Only namespace {namespace} is shown. Add -e gpuctl_all_namespaces=true to show all." in shown.output
    assert [str(each) for each in recorder.requests if each.path == "/apis/apps/v1/deployments"] == []
    everything = playbook(own, "status", all_namespaces="true")
    assert "Only namespace" not in everything.output
    assert [str(each) for each in recorder.requests if each.path == "/apis/apps/v1/deployments"] != []
    named = playbook(own, "status", namespace="default")
    assert "Only namespace" not in named.output


def test_history_shows_the_namespace_of_the_context(ansible: Ansible, recorder: Recorder, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace)
    shown = playbook(with_context(ansible, recorder, namespace), "history")
    assert "web" in shown.output
    assert f"Only namespace {namespace} is shown. Add -e gpuctl_all_namespaces=true to show all." in shown.output
    elsewhere = with_context(ansible, recorder, "default")
    assert namespace not in playbook(elsewhere, "history").output
    everything = playbook(elsewhere, "history", all_namespaces="true")
    assert namespace in everything.output
    assert "Only namespace" not in everything.output


@pytest.mark.parametrize(
    ("name", "done", "verb"),
    [
        ("usage", "shown", "show"),
        ("advise", "shown", "show"),
        ("expire", "shown", "show"),
        ("idle", "shown", "show"),
        ("record_history", "recorded", "record"),
    ],
)
def test_other_playbooks_about_jobs_keep_to_the_context_too(
    ansible: Ansible, recorder: Recorder, namespace: str, name: str, done: str, verb: str
):
    own = with_context(ansible, recorder, namespace)
    recorder.clear()
    shown = playbook(own, name)
    assert shown.status == 0, shown.output
    only = f"Only namespace {namespace} is {done}. Add -e gpuctl_all_namespaces=true to {verb} all."
    assert only in shown.output
    assert [str(each) for each in recorder.requests if each.path == "/apis/apps/v1/deployments"] == []
    everything = playbook(own, name, all_namespaces="true")
    assert everything.status == 0, everything.output
    assert "Only namespace" not in everything.output
    assert [str(each) for each in recorder.requests if each.path == "/apis/apps/v1/deployments"] != []
    assert "Only namespace" not in playbook(own, name, namespace="default").output


@pytest.mark.parametrize(
    "module",
    [
        "gpuctl_advice_info",
        "gpuctl_expire",
        "gpuctl_idle",
        "gpuctl_job_history",
        "gpuctl_job_history_info",
        "gpuctl_job_info",
        "gpuctl_quota_info",
        "gpuctl_usage_info",
    ],
)
def test_modules_about_jobs_return_the_namespace_of_the_environment(
    ansible: Ansible, recorder: Recorder, namespace: str, module: str
):
    own = with_context(ansible, recorder, "elsewhere", GPUCTL_NAMESPACE=namespace)
    assert own.module(module).result["namespace"] == namespace
    assert own.module(module, all_namespaces=True).result["namespace"] is None
    assert own.module(module, namespaces=["default"]).result["namespace"] is None
    limited = own.module(module, allowed_namespaces=["team-b"])
    assert f"GPUCTL_NAMESPACE: namespace not allowed: {namespace}. Use one of: team-b." in limited.message


def test_without_a_context_namespace_those_that_are_allowed_are_counted(ansible: Ansible, namespace: str):
    """As for a team of AWX, whose credential names its namespaces."""
    ansible.job(definition=compute("web"), namespace=namespace)
    found = ansible.module("gpuctl_job_history_info", allowed_namespaces=[namespace, "default"]).result
    assert found["namespace"] is None
    assert "web" in {row["name"] for row in found["results"]}


def test_an_unusable_namespace_is_refused_before_any_request(ansible: Ansible, recorder: Recorder):
    recorder.clear()
    refused = with_context(ansible, recorder, "a_b").job(definition=compute("web"))
    assert refused.message.startswith("namespace of the kubeconfig's context: invalid namespace: 'a_b'. Use lower case")
    limited = with_context(ansible, recorder, "team-a").job(definition=compute("web"), allowed_namespaces=["team-b"])
    assert (
        "namespace of the kubeconfig's context: namespace not allowed: team-a. Use one of: team-b." in limited.message
    )
    assert recorder.requests == []


def test_mistakes_in_manifests_are_said_without_a_cluster(ansible: Ansible, tmp_path: Path):
    nowhere = Ansible(ansible.directory, {"K8S_AUTH_KUBECONFIG": str(tmp_path / "missing")})
    assert "resources.gpu: " in nowhere.job(definition=training(resources={"gpu": -1})).message
    assert nowhere.job(definition=training()).message.startswith("kubeconfig not found: ")
