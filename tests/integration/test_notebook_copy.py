# SPDX-License-Identifier: BSD-2-Clause
"""The playbook runwhere.gpuctl.notebook_copy, on a simulated cluster that runs commands for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kubesim import Cluster

from .ansible import Ansible, TaskResult
from .manifests import notebook


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
    pod = cluster.call(lambda: cluster.registry.get("Pod", "default", "lab-0"))
    return containers / str(pod["metadata"]["uid"]) / "main"


def copy(ansible: Ansible, **variables: str) -> TaskResult:
    """The last task of the playbook that does something."""
    given = {"name": "lab", "local": "data", "remote": "/home/jovyan/data", **variables}
    arguments = [part for name, value in given.items() for part in ("-e", f"gpuctl_{name}={value}")]
    run = ansible.run("ansible-playbook", "runwhere.gpuctl.notebook_copy", *arguments)
    last = next(task for task in reversed(run.tasks) if task.task != "Show what was copied")
    return replace(last, screen=run.output)


def test_a_directory_to_a_notebook_and_back(ansible: Ansible, home: Path, tmp_path: Path):
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "sub" / "a.txt").write_text("hello")
    for direction in ("", "to_notebook"):
        sent = copy(ansible, local="data/", direction=direction)
        assert not sent.failed, sent.screen
        assert (home / "home/jovyan/data/sub/a.txt").read_text() == "hello"
    assert not sent.changed
    fetched = copy(ansible, direction="from_notebook", local=str(tmp_path / "back"))
    assert fetched.changed, fetched.screen
    assert (tmp_path / "back" / "sub" / "a.txt").read_text() == "hello"


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
            "gpuctl_direction: unknown value: sideways. Use one of: to_notebook, from_notebook.",
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
    said = copy(ansible, dirction="from_notebook")
    assert said.failed, said.screen
    assert said.message == "Unknown variable: gpuctl_dirction. Did you mean gpuctl_direction?"
