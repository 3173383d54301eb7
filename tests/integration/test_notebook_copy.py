# SPDX-License-Identifier: BSD-2-Clause
"""The playbook runwhere.gpuctl.copy and its former name, on a simulated cluster that runs commands for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kubesim import Cluster

from .ansible import Ansible, TaskResult
from .manifests import notebook, training


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers")


@pytest.fixture(scope="module")
def cluster(containers: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1, exec_root=containers).running() as cluster:
        yield cluster


@pytest.fixture
def ansible(tmp_path: Path, cluster: Cluster) -> Ansible:
    return Ansible(tmp_path, {"K8S_AUTH_HOST": cluster.url, "K8S_AUTH_API_KEY": cluster.token})


@pytest.fixture
def home(ansible: Ansible, cluster: Cluster, containers: Path) -> Path:
    """The root directory of a running notebook."""
    submitted = ansible.job(definition=notebook(resources={"gpu": 0}), wait=True, wait_timeout=60)
    assert not submitted.failed, submitted.message
    return roots_of("lab", cluster, containers)["lab-0"]


def roots_of(job: str, cluster: Cluster, containers: Path) -> dict[str, Path]:
    """The root directory of the container of each of the job's pods, by the name of the pod."""
    return {
        pod["metadata"]["name"]: containers / str(pod["metadata"]["uid"]) / "main"
        for pod in cluster.call(lambda: cluster.registry.list("Pod", "default"))
        if pod["metadata"]["labels"]["app"] == job
    }


def copy(ansible: Ansible, playbook: str = "copy", **variables: str) -> TaskResult:
    """The last task of the playbook that does something."""
    given = {"name": "lab", "local": "data", "remote": "/home/jovyan/data", **variables}
    arguments = [part for name, value in given.items() for part in ("-e", f"gpuctl_{name}={value}")]
    run = ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", *arguments)
    last = next(task for task in reversed(run.tasks) if task.task != "Show what was copied")
    return replace(last, screen=run.output)


@pytest.mark.parametrize(("playbook", "noun"), [("copy", "job"), ("notebook_copy", "notebook")])
def test_a_directory_to_a_notebook_and_back(ansible: Ansible, home: Path, tmp_path: Path, playbook: str, noun: str):
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "sub" / "a.txt").write_text(playbook)
    for direction in ("", f"to_{noun}"):
        sent = copy(ansible, playbook, local="data/", direction=direction)
        assert not sent.failed, sent.screen
        assert (home / "home/jovyan/data/sub/a.txt").read_text() == playbook
    assert not sent.changed
    fetched = copy(ansible, playbook, direction=f"from_{noun}", local=str(tmp_path / "back"))
    assert fetched.changed, fetched.screen
    assert (tmp_path / "back" / "sub" / "a.txt").read_text() == playbook


def test_files_of_a_training(ansible: Ansible, cluster: Cluster, containers: Path, tmp_path: Path):
    """One of its pods is named by its rank, or by its JOB ID instead of the name."""
    resources = {"gpu": 0, "node_count": 2}
    submitted = ansible.job(definition=training("sft", resources=resources), wait=True, wait_timeout=60)
    assert not submitted.failed, submitted.message
    pods = roots_of("sft", cluster, containers)
    for job_id, root in pods.items():
        (root / "output").mkdir(parents=True)
        (root / "output" / "model.pt").write_text(job_id)
    refused = copy(ansible, name="sft", direction="from_job", remote="/output", local="out")
    assert f"2 pods are running. Set gpuctl_pod to one of them, such as {min(pods)}" in refused.message
    for given in ({"name": "sft", "pod": "1"}, {"name": max(pods)}):
        fetched = copy(ansible, **given, direction="from_job", remote="/output", local="out")
        assert not fetched.failed, fetched.screen
        assert (tmp_path / "out" / "model.pt").read_text() == max(pods)


def test_files_of_a_sweep(ansible: Ansible, cluster: Cluster, containers: Path, tmp_path: Path):
    """To and from each of its jobs. What comes from a job has a directory of its own."""
    command = {"command": ["train", "$(matrix.seed)"]}
    sweep = training("search", resources={"gpu": 0}, matrix={"seed": [1, 2]}, environment=command)
    submitted = ansible.job(definition=sweep, wait=True, wait_timeout=60)
    assert not submitted.failed, submitted.message
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("for all")
    sent = copy(ansible, name="search", remote="/data")
    assert not sent.failed, sent.screen
    roots = {job: roots_of(job, cluster, containers).values() for job in ("search-1", "search-2")}
    for name, (root,) in roots.items():
        assert (root / "data" / "a.txt").read_text() == "for all"
        (root / "data" / "a.txt").write_text(name)
    for remote in ("/data/", "/data/a.txt"):
        fetched = copy(ansible, name="search", direction="from_job", remote=remote, local="out")
        assert not fetched.failed, fetched.screen
        assert {path.parent.name: path.read_text() for path in (tmp_path / "out").glob("*/a.txt")} == {
            name: name for name in roots
        }
    assert not fetched.changed, "the same file by its own name"
    refused = ansible.module("gpuctl_copy", name="search", local_path="data", remote_path="/data")
    expected = "search is a sweep of 2 jobs in namespace default: search-1, search-2. Name one of them."
    assert refused.message == expected
    assert refused.result["sweep_jobs"] == ["search-1", "search-2"]


def test_a_missing_notebook(ansible: Ansible):
    (ansible.directory / "data").mkdir()
    said = copy(ansible, name="nobody")
    assert said.message.startswith(
        "job nobody not found in namespace default. To list the jobs, use the playbook runwhere.gpuctl.status. "
    )


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"remote": ""}, "Missing variable: gpuctl_remote. Add -e gpuctl_remote="),
        (
            {"direction": "sideways"},
            "gpuctl_direction: unknown value: sideways. Use one of: to_job, from_job.",
        ),
        ({"namspace": "team-a"}, "Unknown variable: gpuctl_namspace. Did you mean gpuctl_namespace?"),
    ],
    ids=["nowhere", "sideways", "misspelled"],
)
def test_what_cannot_be_meant(ansible: Ansible, variables: dict[str, str], words: str):
    said = copy(ansible, **variables)
    assert said.failed, said.screen
    assert words in said.message


def test_a_misspelled_direction_copies_nothing(ansible: Ansible):
    said = copy(ansible, dirction="from_job")
    assert said.failed, said.screen
    assert said.message == "Unknown variable: gpuctl_dirction. Did you mean gpuctl_direction?"
