# SPDX-License-Identifier: BSD-2-Clause
"""Names that a screen shows are names that every command takes: of a sweep, one row of a table, and of a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run
from .api import Api, eventually
from .manifests import compute, training
from .recorder import Recorder

SWEEP = training("search", matrix={"seed": [1, 2, 3]}, environment={"command": ["train", "$(matrix.seed)"]})
NAMES = {"search-1", "search-2", "search-3"}


@pytest.fixture
def sweep(ansible: Ansible, namespace: str) -> str:
    """The name of a sweep of three trainings, which run."""
    created = ansible.job(definition=SWEEP, namespace=namespace, wait=True, wait_timeout=60)
    assert set(created.jobs) == NAMES, created.message
    return "search"


def playbook(ansible: Ansible, title: str, namespace: str, /, **variables: Any) -> Run:
    given = [part for key, value in variables.items() for part in ("-e", f"gpuctl_{key}={value}")]
    plain = {"ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain", "COLUMNS": "80"}
    own = Ansible(ansible.directory, {**ansible.environment, **plain, "GPUCTL_NAMESPACE": namespace})
    return own.run("ansible-playbook", f"runwhere.gpuctl.{title}", *given)


def words(run: Run) -> str:
    return " ".join(run.output.split())


@pytest.mark.parametrize(("name", "verb"), [("delete", "delete"), ("pause", "pause"), ("restart", "restart")])
def test_what_stops_a_sweep_asks_for_consent(
    ansible: Ansible, api: Api, namespace: str, sweep: str, recorder: Recorder, name: str, verb: str
):
    recorder.clear()
    refused = playbook(ansible, name, namespace, name=sweep)
    assert refused.status == 2, refused.output
    assert (
        f"search is a sweep of 3 jobs in namespace {namespace}: search-1, search-2, search-3. "
        f"Set -e gpuctl_confirm=search to {verb} all of them. Nothing was changed."
    ) in words(refused)
    assert "unchanged" not in refused.output
    assert playbook(ansible, name, namespace, name=sweep, confirm="serch").status == 2
    assert recorder.writes == []
    done = playbook(ansible, name, namespace, name=sweep, confirm=sweep)
    assert done.status == 0, done.output
    assert all(each in done.output for each in NAMES)
    if name == "delete":
        eventually(lambda: not api.list("job", namespace))
        again = playbook(ansible, name, namespace, name=sweep, confirm=sweep)
        assert again.status == 2, "nothing is left of it"
    if name == "pause":
        assert all(obj["spec"]["suspend"] for obj in api.list("job", namespace))
        resumed = playbook(ansible, "resume", namespace, name=sweep)
        assert resumed.status == 0, resumed.output
        assert not any(obj["spec"]["suspend"] for obj in api.list("job", namespace))


def test_check_mode_shows_what_would_happen_to_a_sweep(ansible: Ansible, namespace: str, sweep: str, api: Api):
    predicted = ansible.job(name=sweep, namespace=namespace, state="absent", check=True)
    assert {job["action"] for job in predicted.jobs.values()} == {"delete"}, predicted.message
    assert set(predicted.jobs) == NAMES
    refused = ansible.job(name=sweep, namespace=namespace, state="absent")
    assert refused.message.endswith("Set confirm=search to delete all of them. Nothing was changed.")
    assert len(api.list("job", namespace)) == 3


def test_what_reads_takes_the_name_of_a_sweep(ansible: Ansible, namespace: str, sweep: str):
    logs = playbook(ansible, "logs", namespace, name=sweep)
    assert logs.status == 0, logs.output
    assert all(f"==> {namespace}/{each}-" in logs.output for each in NAMES)
    described = playbook(ansible, "describe", namespace, name=sweep)
    assert described.status == 0, described.output
    assert f"sweep search in namespace {namespace}, 3 jobs: 3 Running" in words(described)
    assert all(each in described.output for each in NAMES)
    shown = playbook(ansible, "status", namespace, name=sweep)
    assert "3 jobs: 3 Running" in shown.output
    info = ansible.module("gpuctl_job_info", name=sweep, namespaces=[namespace], pods=True)
    assert set(info.jobs) == NAMES
    assert {pod["name"] for pod in info.result["pods"]} == NAMES
    filtered = ansible.module("gpuctl_job_info", sweep=sweep, namespaces=[namespace])
    assert set(filtered.jobs) == NAMES


def test_the_history_of_a_sweep_has_the_runs_of_all_its_jobs(ansible: Ansible, namespace: str, sweep: str):
    shown = playbook(ansible, "history", namespace, name=sweep)
    assert shown.status == 0, shown.output
    assert "3 runs:" in shown.output
    assert all(each in shown.output for each in NAMES)
    none = playbook(ansible, "history", namespace, name=sweep, result="Failed")
    assert none.status == 0, none.output
    assert "Sweep search has runs, but none that the other options ask for." in words(none)


def test_a_sweep_is_not_rolled_back(ansible: Ansible, namespace: str, sweep: str, recorder: Recorder):
    recorder.clear()
    refused = playbook(ansible, "rollback", namespace, name=sweep)
    assert refused.status == 2, refused.output
    assert (
        f"search is a sweep of 3 jobs in namespace {namespace}: search-1, search-2, search-3. A training is not "
        f"updated in place, so there is nothing to go back to."
    ) in words(refused)
    assert "not found" not in refused.output
    assert recorder.writes == []


def test_a_sweep_is_suggested_by_its_name(ansible: Ansible, namespace: str, sweep: str):
    refused = playbook(ansible, "delete", namespace, name="serach")
    assert refused.status == 2, refused.output
    assert f"job serach in namespace {namespace}: job not found. Did you mean search?" in words(refused)


def test_a_job_id_is_a_name(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training(), namespace=namespace, wait=True, wait_timeout=60)
    (pod,) = [obj["metadata"]["name"] for obj in api.list("pod", namespace)]
    for title in ("describe", "logs", "history", "pause"):
        done = playbook(ansible, title, namespace, name=pod)
        assert done.status == 0, done.output
        assert title != "history" or "\ntrain " in done.output
    assert api.get("job", "train", namespace)["spec"]["suspend"]
    ansible.job(name="train", namespace=namespace, state="resumed", wait=True, wait_timeout=60)
    pod = eventually(lambda: [o["metadata"]["name"] for o in api.list("pod", namespace)])[0]
    deleted = playbook(ansible, "delete", namespace, name=pod)
    assert deleted.status == 0, deleted.output
    eventually(lambda: api.get("job", "train", namespace) is None)


def test_a_delete_names_the_namespace_that_has_the_job(ansible: Ansible, namespace: str):
    ansible.job(definition=training(namespace), namespace=namespace)  # no other test has a job of that name
    refused = playbook(ansible, "delete", "default", name=namespace)
    assert refused.status == 2, refused.output
    expected = f"job {namespace} in namespace default: job not found. It exists in {namespace}: set gpuctl_namespace."
    assert expected in words(refused)


def test_a_delete_that_found_nothing_fails(ansible: Ansible, namespace: str, tmp_path: Path):
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([compute("one"), compute("two")]))
    refused = playbook(ansible, "delete", namespace, src=str(file))
    assert refused.status == 2
    missing = [f"compute {name} in namespace {namespace}: job not found." for name in ("one", "two")]
    assert " ".join([*missing, "Nothing was deleted. If that is right, set"]) in words(refused)
    assert playbook(ansible, "delete", namespace, src=str(file), missing_ok="true").status == 0
    ansible.job(definition=compute("one"), namespace=namespace)
    assert playbook(ansible, "delete", namespace, src=str(file)).status == 0, "one of them was there"
