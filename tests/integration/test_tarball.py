# SPDX-License-Identifier: BSD-2-Clause
"""The built tarball, installed where nothing else is, does what the clone does."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from tools.tree import ROOT, copy_tree, shipped

from .ansible import BIN, Ansible
from .api import Api
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


# ---- The commands that README.md gives a newcomer


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], subprocess.CompletedProcess[str]]]:
    """A shell with ansible-core and a cluster with the pool and the namespace of the examples."""
    home = tmp_path_factory.mktemp("newcomer")
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
    core = f"ansible-core=={importlib.metadata.version('ansible-core')}"
    pip = [str(home / "venv" / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", core]
    subprocess.run(pip, check=True)
    pip_settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    environment = {
        **pip_settings,
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{home / 'venv' / 'bin'}:/usr/bin:/bin",
        "K8S_AUTH_KUBECONFIG": str(home / "kubeconfig"),
    }

    def typed(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    with Cluster(nodes=4).running() as cluster:
        api = Api(str(cluster.kubeconfig(home / "kubeconfig")))
        api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
        api.patch("node", "node-1", {"metadata": {"labels": {"runwhere.ai/pool": "training-pool"}}})
        yield typed


def test_what_the_readme_says_works_word_for_word(tarball: Path, newcomer: Callable[[str], Any]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [
        line.removeprefix("$ ")
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        if "make " not in block and ".venv" not in block  # of those who have a clone
        for line in block.splitlines()
    ]
    (manifest,) = re.findall(r"in `(\S+\.yaml)`:\n\n```yaml\n(.*?)```", text, re.DOTALL)
    assert newcomer(f"cat >{manifest[0]} <<'END'\n{manifest[1]}END").returncode == 0
    install = [command for command in commands if command.startswith(("ansible-galaxy", "pip"))]
    use = [command for command in commands if command not in install]
    assert install
    assert use
    for command in [*install, *use]:
        # Galaxy cannot be asked here: the tarball is what it would send.
        done = newcomer(command.replace("collection install runwhere.gpuctl", f"collection install {tarball}"))
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    submit = next(command for command in use if "runwhere.gpuctl.submit" in command)
    assert "changed=0 " in newcomer(submit).stdout

    (tasks,) = (block for block in re.findall(r"```yaml\n(- name.*?)```", text, re.DOTALL) if "gpuctl_job:" in block)
    play = yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": yaml.safe_load(tasks)}])
    done = newcomer(f"cat >play.yml <<'END'\n{play}END\nansible-playbook play.yml")
    assert "changed=0 " in done.stdout, done.stderr
