# SPDX-License-Identifier: BSD-2-Clause
"""The built tarball, installed where nothing else is, does what the clone does."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from tools.tree import ROOT, files, lay, shipped

from .ansible import BIN, Ansible
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
    tree = lay(folder / "tree", files(ROOT))
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


def test_it_carries_what_galaxy_yml_lets_through(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        members = {member.name for member in archive if member.isfile()}
    assert members - {"MANIFEST.json", "FILES.json"} == set(shipped(ROOT)) - {"galaxy.yml"}


def test_of_the_tests_it_carries_only_what_ansible_test_reads() -> None:
    development = ("tests/", "tools/", ".", "conftest.py", "Makefile")
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
