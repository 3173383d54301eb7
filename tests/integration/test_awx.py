# SPDX-License-Identifier: BSD-2-Clause
"""The job templates of awx/, launched as AWX launches them, with answers as its surveys give them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import ROOT, Ansible
from .api import Api, eventually
from .awx_launch import AWX, Launched, launch, templates
from .manifests import IMAGE, compute
from .pools import Field
from .recorder import Recorder

Launch = Callable[[str, Mapping[str, Any]], Launched]


@pytest.fixture
def awx(ansible: Ansible, tmp_path: Path, namespace: str) -> Launch:
    """Launches templates with a credential of the type "GPU cluster", those of a team with its own."""
    credential = {**ansible.environment, "K8S_AUTH_CONTEXT": ""}  # the context is optional, and empty then
    return partial(_launch, tmp_path / "job", credential, [namespace])


def _launch(
    directory: Path, credential: Mapping[str, str], namespaces: list[str], name: str, answers: Mapping[str, Any]
) -> Launched:
    shutil.rmtree(directory, ignore_errors=True)  # a container is fresh for each job
    directory.mkdir()
    bound = {"GPUCTL_ALLOWED_NAMESPACES": ",".join(namespaces) if name.endswith(" team") else ""}
    return launch(directory, name, answers, {**credential, **bound}, namespaces=namespaces)


def training(namespace: str, **answers: Any) -> dict[str, Any]:
    return {"gpuctl_name": "sft", "gpuctl_namespace": namespace, "gpuctl_image": IMAGE, **answers}


def test_a_training_of_answers(awx: Launch, api: Api, namespace: str):
    done = awx(
        "GPU submit training team",
        training(
            namespace,
            gpuctl_command="echo start && python train.py --lr 2e-5",
            gpuctl_cpu="1",
            gpuctl_memory="1Gi",
            gpuctl_gpu=2,
            gpuctl_priority="high",
            gpuctl_workdirs="/datasets, /output\n/models",
            gpuctl_env="LR: 2e-5\nNAME: a b",
        ),
    )
    assert done.status == "successful", done.output
    job = api.get("job", "sft", namespace)
    pod = job["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert main["command"] == ["/bin/sh", "-c", "echo start && python train.py --lr 2e-5"]
    assert main["resources"]["limits"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}
    assert main["env"][:2] == [{"name": "LR", "value": "2e-5"}, {"name": "NAME", "value": "a b"}]
    assert [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume] == [
        "/datasets",
        "/output",
        "/models",
    ]
    assert pod["priorityClassName"] == "gpuctl-high"


def test_what_is_left_empty_is_not_given(awx: Launch, api: Api, namespace: str):
    answers = {"gpuctl_cpu": "1", "gpuctl_memory": "1Gi", "gpuctl_wait": "no"}
    done = awx("GPU submit training team", training(namespace, **answers))
    assert done.status == "successful", done.output
    job = api.get("job", "sft", namespace)
    assert job["metadata"]["labels"]["runwhere.ai/pool"] == "default"
    pod = job["spec"]["template"]["spec"]
    assert "nodeSelector" not in pod
    assert "command" not in pod["containers"][0]


def test_numbers_as_texts_and_a_command_as_a_list(awx: Launch, api: Api, namespace: str):
    answers = {"gpuctl_command": ' ["python", "-c", "print(\'it is\')"]', "gpuctl_cpu": "0.5", "gpuctl_memory": "1Gi"}
    done = awx("GPU submit training team", training(namespace, gpuctl_wait="no", gpuctl_node_count=2, **answers))
    assert done.status == "successful", done.output
    job = api.get("job", "sft", namespace)
    assert job["spec"]["completions"] == 2
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["python", "-c", "print('it is')"]


@pytest.mark.parametrize(
    ("manifest", "reasons"),
    [
        ({**compute("a"), "kind": "trainning"}, ["unknown kind: trainning. Did you mean training?"]),
        (
            compute("a", resources={"gpu": 4000}),
            ["compute a in namespace", "will not become ready", "it needs 4000 GPUs on one node"],
        ),
    ],
    ids=["a manifest", "a row of the table"],
)
def test_the_task_that_fails_says_why(awx: Launch, namespace: str, manifest: Mapping[str, Any], reasons: list[str]):
    """AWX shows the message of the task, and hands it to notifications."""
    answers = {"gpuctl_definition": yaml.safe_dump(manifest), "gpuctl_namespace": namespace, "gpuctl_wait": "yes"}
    done = awx("GPU submit manifests team", answers)
    assert done.status == "failed", done.output
    assert [reason for reason in reasons if reason not in failure(done)] == [], failure(done)


def failure(done: Launched) -> str:
    """The message of the task that failed."""
    (failed,) = [event["event_data"]["res"] for event in done.events if event["event"] == "runner_on_failed"]
    return str(failed["msg"])


def test_the_events_show_what_was_done_and_hand_it_on(awx: Launch, namespace: str):
    manifests = yaml.safe_dump_all([compute("a"), compute("b")])
    answers = {"gpuctl_definition": manifests, "gpuctl_namespace": namespace, "gpuctl_wait": "yes"}
    first = awx("GPU submit manifests team", answers)
    assert first.status == "successful", first.output
    lines = [line.split() for line in first.output.splitlines()]
    (a, b) = (next(line for line in lines if line[:2] == [name, namespace]) for name in ("a", "b"))
    assert {"create", "\x1b[0;32mRunning\x1b[0m"} <= set(a) & set(b)
    assert f"+++ after: Deployment {namespace}/a (create)" in first.output
    assert "ansible-playbook" not in first.output, "users of AWX have no command line"
    submitted = first.artifacts["gpuctl_submitted"]
    assert [{job["name"], job["status"]} for job in submitted] == [{"a", "Running"}, {"b", "Running"}]

    again = awx("GPU submit manifests team", answers)
    assert [job["action"] for job in again.artifacts["gpuctl_submitted"]] == ["unchanged", "unchanged"]


def test_a_mistake_is_reported_in_one_message(awx: Launch, namespace: str, recorder: Recorder):
    answers = {"gpuctl_cpu": "lots", "gpuctl_memory": "1Gi", "gpuctl_env": "LR 2e-5"}
    done = awx("GPU submit training team", training(namespace, **answers))
    assert done.status == "failed"
    assert failure(done).count("resources.cpu") == 1
    assert failure(done).count("environment.env") == 1
    assert recorder.writes == []


@pytest.mark.parametrize("namespaces", ["{}", "{},default", ""])
def test_the_status(awx: Launch, ansible: Ansible, namespace: str, namespaces: str):
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    done = awx("GPU status", {"gpuctl_namespace": namespaces.format(namespace)})
    assert done.status == "successful", done.output
    assert ["web", namespace] in [line.split()[:2] for line in done.output.splitlines()]


def test_the_status_of_a_team_is_that_of_its_namespaces(awx: Launch, ansible: Ansible, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace)
    theirs = f"t-{namespace}"
    ansible.job(definition=compute(theirs), namespace="default")
    try:
        done = awx("GPU status team", {})
        assert done.status == "successful", done.output
        assert ["web", namespace] in [line.split()[:2] for line in done.output.splitlines()]
        assert theirs not in done.output
    finally:
        ansible.job(name=theirs, namespace="default", state="absent", force=True)


@pytest.mark.parametrize("place", ["default", "kube-system", "gpuctl-system"])
def test_a_manifest_does_not_leave_the_namespaces_of_the_team(
    awx: Launch, recorder: Recorder, namespace: str, place: str
):
    manifests = yaml.safe_dump_all([compute("a"), {**compute("b"), "job": {"name": "b", "namespace": place}}])
    answers = {"gpuctl_definition": manifests, "gpuctl_namespace": namespace, "gpuctl_wait": "no"}
    done = awx("GPU submit manifests team", answers)
    assert done.status == "failed"
    (failed,) = done.results("Apply the state of the jobs")
    assert place in failed["msg"]
    assert recorder.writes == []


def test_logs(awx: Launch, ansible: Ansible, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    done = awx("GPU logs team", {"gpuctl_name": "web", "gpuctl_namespace": namespace, "gpuctl_tail": 5})
    assert done.status == "successful", done.output


def test_the_life_of_a_service(awx: Launch, ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    which = {"gpuctl_name": "web", "gpuctl_namespace": namespace}

    def replicas() -> Any:
        return api.get("deployment", "web", namespace)["spec"]["replicas"]

    for template, more, expected in (
        ("GPU pause team", {}, 0),
        ("GPU resume team", {}, 1),
        ("GPU scale team", {"gpuctl_replicas": 2}, 2),
        ("GPU restart team", {}, 2),
    ):
        done = awx(template, {**which, **more})
        assert done.status == "successful", done.output
        assert replicas() == expected, template
    assert awx("GPU delete team", which).status == "successful"
    assert eventually(lambda: api.get("deployment", "web", namespace) is None)


def test_plan_and_drift_show_what_apply_then_does(
    ansible: Ansible, api: Api, field: Field, namespace: str, tmp_path: Path
):
    project = tmp_path / "checked-out"
    shutil.copytree(AWX / "project", project)
    (project / "cluster" / "jobs").mkdir()
    declared = {**compute("web"), "job": {"name": "web", "namespace": namespace}}
    (project / "cluster" / "jobs" / "web.yml").write_text(yaml.safe_dump(declared))
    pool = {"kind": "pool", "pool": {"name": field.pool("p")}, "nodes": [field.nodes[0]]}
    (project / "cluster" / "pools.yaml").write_text(yaml.safe_dump(pool))

    def run(name: str, handed_on: dict[str, Any] | None = None, **answers: str) -> Launched:
        folder = tmp_path / "job"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return launch(folder, name, answers, ansible.environment, project=project, handed_on=handed_on)

    drift = run("GPU drift", gpuctl_fail_on="error")
    assert drift.status == "failed"
    assert f"Deployment/{namespace}/web (compute {namespace}/web" in drift.output
    plan = run("GPU plan")
    assert plan.status == "successful", plan.output
    # Perhaps PriorityClasses too.
    assert re.match(r"[23] changes: [23] to create", plan.artifacts["gpuctl_plan"]["summary"])
    assert api.get("deployment", "web", namespace) is None

    applied = run("GPU apply", plan.artifacts, gpuctl_recreate="yes")
    assert applied.status == "successful", applied.output
    assert api.get("deployment", "web", namespace)
    assert field.pool_of(field.nodes[0]) == field.pool("p")
    assert run("GPU drift", gpuctl_fail_on="error").status == "successful"
    again = run("GPU apply", plan.artifacts, gpuctl_recreate="yes")
    assert again.status == "successful", again.output
    assert "steps of the plan done before, 0 now." in again.output
    # The job was changed by someone else since.
    api.patch("deployment", "web", {"spec": {"replicas": 2}}, namespace)
    stale = run("GPU apply", plan.artifacts, gpuctl_recreate="yes")
    assert stale.status == "failed"
    assert "is out of date. Nothing was changed." in stale.output


def test_every_template_that_asks_for_a_job_asks_alike() -> None:
    asked = {
        name: [question["variable"] for question in template["survey"]][:2]
        for name, template in templates().items()
        if template["playbook"] in ("pause.yml", "resume.yml", "restart.yml", "scale.yml", "delete.yml")
    }
    assert len(asked) == 5
    assert set(map(tuple, asked.values())) == {("gpuctl_name", "gpuctl_namespace")}


def test_what_has_a_default_needs_no_answer() -> None:
    """AWX wants an answer to what is required from schedules and programs, whatever the default."""
    required = {
        question["variable"]
        for template in templates().values()
        for question in template.get("survey", [])
        if question["required"] and "default" in question
    }
    assert required == {"gpuctl_namespace"}, "the form suggests one, but a program must not act in the wrong one"


def test_the_guide_lists_the_templates() -> None:
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_awx.rst").read_text()
    table = guide[guide.index("* - Job template") : guide.index("AWX roles decide")]
    assert set(re.findall(r"``(GPU [^`]+)``", table)) == set(templates("TEAM", clusters=["east"]))
