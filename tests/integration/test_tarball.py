# SPDX-License-Identifier: BSD-2-Clause
"""The built tarball, installed where nothing else is, does what the clone does."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from kubesim import Cluster

from tests.demo.terminal import Terminal
from tools.tree import ROOT, copy_tree, shipped

from .ansible import BIN, Ansible
from .documents import blocks_of
from .recorder import Recorder

MANIFEST = {
    "kind": "compute",
    "job": {"name": "from-tarball"},
    "environment": {"image": "nginx:1.27"},
    "resources": {"cpu": 1, "memory": "1Gi"},
}


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make collection` builds."""
    folder = tmp_path_factory.mktemp("tarball")
    tree = copy_tree(folder / "tree", shipped(ROOT))
    command = [str(BIN / "ansible-galaxy"), "collection", "build", "--output-path", str(folder), str(tree)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*.tar.gz")
    return path


@pytest.fixture
def installed(tarball: Path, ansible: Ansible, recorder: Recorder) -> Ansible:
    """Ansible with no other collection than the one from the tarball, installed without asking any server."""
    path = ansible.directory / "collections"
    environment = {"K8S_AUTH_KUBECONFIG": str(recorder.kubeconfig), "ANSIBLE_COLLECTIONS_PATH": str(path)}
    offline = Ansible(ansible.directory, environment)
    done = offline.run("ansible-galaxy", "collection", "install", "--offline", "-p", str(path), str(tarball))
    assert done.status == 0, done.output
    return offline


def test_it_carries_what_is_listed(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        members = {member.name for member in archive if member.isfile()}
    assert members - {"MANIFEST.json", "FILES.json"} == set(shipped(ROOT)) - {"galaxy.yml"}


def test_of_the_tests_it_carries_only_what_ansible_test_reads() -> None:
    development = ("tests/", "tools/", ".", "awx/", "conftest.py", "noxfile.py", "Makefile")
    assert [name for name in shipped(ROOT) if name.startswith(development)] == ["tests/config.yml"]


def test_its_documentation_can_be_read(installed: Ansible) -> None:
    for kind, name in (("module", "gpuctl_job"), ("filter", "table")):
        done = installed.run("ansible-doc", "-t", kind, f"runwhere.gpuctl.{name}")
        assert done.status == 0, done.output
        assert str(installed.directory / "collections") in done.output


def test_it_runs_a_job(installed: Ansible, namespace: str) -> None:
    first = installed.job(definition=MANIFEST, namespace=namespace)
    assert (first.changed, first.jobs["from-tarball"]["action"]) == (True, "create"), first.message
    again = installed.job(definition=MANIFEST, namespace=namespace)
    assert (again.changed, again.jobs["from-tarball"]["action"]) == (False, "unchanged"), again.message


# ---- The commands with which README.md installs it. Galaxy cannot be asked here: the tarball is what it would send.


INSTALL = [
    command
    for block in blocks_of("README.md")
    if "ansible-galaxy collection install" in block.text
    for command, _output in block.commands
]


def test_what_the_readme_installs_suffices_to_run_a_playbook(tarball: Path, tmp_path: Path) -> None:
    """In a virtual environment that has ansible-core and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    core = f"ansible-core=={importlib.metadata.version('ansible-core')}"
    pip = [str(tmp_path / "venv" / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", core]
    subprocess.run(pip, check=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin",
        "K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig"),
    }
    assert len(INSTALL) == 2
    use = "ansible-playbook runwhere.gpuctl.status"
    with Cluster(nodes=4).running() as cluster, Terminal(tmp_path, environment) as terminal:
        cluster.kubeconfig(tmp_path / "kubeconfig")
        for command in [*INSTALL, use]:
            done = terminal.type(command.replace("install runwhere.gpuctl", f"install {tarball}"))
            assert done.status == 0, f"{command}\n{done.output}"
