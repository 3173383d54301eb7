# SPDX-License-Identifier: BSD-2-Clause
"""`make cluster`: what it prints, and how it refuses. What runs on it is in test_documents.py."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.cluster import environment, provisioned
from tools.tree import ROOT

from . import monitoring
from .ansible import BIN

PROGRAM = [sys.executable, "-m", "tests.demo.cluster"]
EXAMPLES = ROOT / "examples"
# Those of `make cluster`; examples/mixed wants the nodes of MIXED=1.
FOLDERS = [path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "mixed"]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "kubeconfig"


@pytest.fixture(scope="module")
def welcome(kubeconfig: Path) -> Iterator[str]:
    """What a cluster that runs has printed."""
    command = [*PROGRAM, "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        yield "".join(iter(running.stdout.readline, "\n")) + "".join(iter(running.stdout.readline, "\n"))
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    assert list(kubeconfig.parent.iterdir()) == []


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}:{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": path, **variables}, capture_output=True, text=True, check=False
    )


def test_the_target_starts_this_program():
    shown = run(
        "make",
        "--dry-run",
        "--assume-old=.venv/.made-for",
        "cluster",
        "NODES=20",
        "MIXED=1",
        "MONITORING=1",
        "PORT=7443",
    ).stdout
    assert "-m tests.demo.cluster --nodes '20' --mixed --monitoring --port '7443'" in " ".join(
        shown.replace("\\\n", "").split()
    )


def test_the_commands_that_it_prints_work(welcome: str):
    commands = [line.strip() for line in welcome.splitlines() if line.startswith("  ")]
    assert len(commands) == 4
    done = run("bash", "-ec", "\n".join(commands))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 jobs: 9 create" in done.stdout


@monitoring.needs_prometheus
@monitoring.needs_alertmanager
def test_prometheus_and_alertmanager_run_beside_it(tmp_path: Path):
    command = [*PROGRAM, "--monitoring", "--mixed", "--kubeconfig", str(tmp_path / "kubeconfig")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        printed = ""
        while "export GPUCTL_PROMETHEUS_URL=" not in printed:
            line = running.stdout.readline()
            assert line, printed
            printed += line
        prometheus, alertmanager = re.findall(r"(http://\S+)$", printed, re.MULTILINE)[:2]
        server = monitoring.Prometheus(prometheus)
        server.wait_for("node:runwhere_gpu_allocatable:sum", lambda found: len(found) > 12)  # of other vendors, too
        assert {rule["health"] for group in server.get("rules")["groups"] for rule in group["rules"]} == {"ok"}
        assert monitoring.Alertmanager(alertmanager, monitoring.Webhook()).alerts() == []
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
    with pytest.raises(OSError, match="refused"):
        server.get("rules")


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_directory_of_examples_can_be_provisioned(welcome: str, kubeconfig: Path, folder: str):
    command = ["ansible-playbook", "runwhere.gpuctl.provision", "-e", f"gpuctl_dir=examples/{folder}"]
    done = run(*command, **environment(kubeconfig))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout + done.stderr


def test_a_copy_of_its_manifests_in_another_directory_is_no_other_source(tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copytree(EXAMPLES / "cluster", tmp_path / "cluster")
    playbook = ["ansible-playbook", "runwhere.gpuctl.provision", "-e"]
    with provisioned(kubeconfig):
        variables = {**environment(kubeconfig), "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain", "COLUMNS": "80"}
        done = run(*playbook, f"gpuctl_dir={tmp_path / 'cluster'}", **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        refused = run(*playbook, "gpuctl_dir=examples/cluster", "-e", "gpuctl_source=other", **variables)
    assert refused.returncode == 2
    said = " ".join(refused.stdout.split())
    assert said.count("declared by cluster, and this is other.") == 1, refused.stdout
    assert "pool compute-pool, pool debug-pool, pool dev-pool" in said
    assert "To declare it here from now on, add -e gpuctl_adopt=cluster." in said


def test_one_that_runs_already_is_a_sentence(welcome: str, kubeconfig: Path):
    done = run(*PROGRAM, "--kubeconfig", str(kubeconfig))
    assert done.returncode == 1
    assert done.stderr.startswith(f"The cluster of {kubeconfig} is running already, at https://127.0.0.1:")
    assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_a_sentence(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for program in (PROGRAM, [sys.executable, "-m", "kubesim"]):
            done = run(*program, "--port", str(port), "--kubeconfig", str(tmp_path / "kubeconfig"))
            assert done.returncode == 1
            assert len(done.stderr.splitlines()) == 1
            assert f"{port}: Address already in use. Choose another" in done.stderr


def test_too_few_nodes_are_a_sentence():
    done = run(*PROGRAM, "--nodes", "3")
    assert done.stderr == "NODES=3 is too small: the pools of examples/cluster need 12 nodes.\n"


def test_files_are_copied_to_a_notebook_and_back(kubeconfig: Path, welcome: str, tmp_path: Path):
    """As on a cluster with containers."""
    (tmp_path / "train.csv").write_text("1\n")
    notebook = EXAMPLES / "manifests" / "notebook-jupyter.yaml"
    variables = environment(kubeconfig)

    def play(playbook: str, **given: str) -> None:
        extra = [part for name, value in given.items() for part in ("-e", f"gpuctl_{name}={value}")]
        done = run("ansible-playbook", f"runwhere.gpuctl.{playbook}", *extra, **variables)
        assert done.returncode == 0, done.stdout + done.stderr

    play("submit", src=str(notebook), wait="true")
    here = {"name": "data-prep-notebook", "remote": "/home/jovyan/train.csv"}
    play("copy", local=str(tmp_path / "train.csv"), **here)
    play("copy", local=str(tmp_path / "back.csv"), direction="from_job", **here)
    assert (tmp_path / "back.csv").read_text() == "1\n"
    play("delete", name="data-prep-notebook", wait="true")
