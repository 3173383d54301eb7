# SPDX-License-Identifier: BSD-2-Clause
"""Launchers start real processes here, from the pods that are built. PyTorch is that of `make torch`."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.built import Built

from . import local_pods

ROOT = Path(__file__).parents[6]
TORCH = ROOT / ".cache" / "torch"
PATIENCE = 240
TRAIN = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
place = f"node {os.environ['GROUP_RANK']}, process {os.environ['LOCAL_RANK']}"
os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()}: {place}, sum {total.item()}\\n".encode())
dist.destroy_process_group()
"""

BuildJob = Callable[..., Built]


@pytest.fixture
def torch_path() -> str:
    """The search path with torchrun."""
    path = local_pods.search_path(TORCH / "bin", Path(sys.executable).parent)
    if shutil.which("torchrun", path=path) is None:
        pytest.skip("no torchrun: run make torch")
    return path


@pytest.mark.parametrize(
    ("nodes", "command", "distributed"),
    [
        (2, ["python", "train.py"], {}),
        (1, ["python", "train.py"], {}),
        (1, ["python", "-u", "-m", "train"], {"launcher": "torchrun"}),
    ],
    ids=["a script on two nodes", "a script with two GPUs", "a module on one node"],
)
def test_a_plain_script_forms_a_group(
    build_job: BuildJob, tmp_path: Path, torch_path: str, nodes: int, command: list[str], distributed: dict[str, Any]
) -> None:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    built = build_job(
        {
            "environment": {"command": command, "env": {"OMP_NUM_THREADS": 1}},
            "resources": {"gpu": 2, "node_count": nodes},
            "distributed": {"master_port": free_port(), **distributed},
        }
    )
    packages = {"PYTHONPATH": str(TORCH)} if TORCH.is_dir() else {}
    pods = local_pods.start(built, tmp_path, torch_path, GLOO_SOCKET_IFNAME="lo", **packages)
    said = "".join(local_pods.outputs(pods, PATIENCE))

    size = nodes * 2
    total = sum(range(size))
    assert sorted(line for line in said.splitlines() if line.startswith("rank ")) == [
        f"rank {rank} of {size}: node {rank // 2}, process {rank % 2}, sum {total}" for rank in range(size)
    ]


# -- launchers of the first node, with programs that only say what they are told ---------------------------------------


@pytest.fixture
def programs(tmp_path: Path) -> Callable[..., str]:
    """A search path with shell scripts by these names."""

    def written(**scripts: str) -> str:
        for name, script in scripts.items():
            program = tmp_path / name.replace("_", "-")
            program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            program.chmod(0o755)
        return local_pods.search_path(tmp_path)

    return written


def first_node_job(build_job: BuildJob, launcher: str) -> Built:
    command = ["python", "-c", "import sys; print('trained', *sys.argv[1:]); sys.exit(int(sys.argv[1]))"]
    return build_job(
        {
            "environment": {"command": command, "args": [0, "a b"]},
            "resources": {"gpu": 2, "node_count": 2},
            "distributed": {"launcher": launcher},
        }
    )


def test_ray_runs_the_command_on_the_first_node_while_the_others_serve(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    path = programs(ray='echo "ray $*"; case "$*" in *--block*) sleep 60 & wait;; esac')
    built = first_node_job(build_job, "ray")
    head, worker = local_pods.start(built, tmp_path, path)
    assert head.communicate(timeout=PATIENCE)[0].splitlines() == [
        "ray start --head --port=29500 --disable-usage-stats",
        "trained 0 a b",
        "ray stop",
    ]
    assert head.returncode == 0
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ray start --address=127.0.0.1:29500 --block\n"
    assert worker.poll() is None, "it serves until the Job has succeeded"
    worker.send_signal(signal.SIGTERM)
    assert worker.stdout.readline() == "ray stop\n"
    assert worker.wait(PATIENCE) == 143
    assert built.workload["spec"]["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}


def test_a_failure_of_the_command_is_that_of_the_pod(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    built = first_node_job(build_job, "ray")
    built.workload["spec"]["template"]["spec"]["containers"][0]["args"] = ["3"]
    head, worker = local_pods.start(built, tmp_path, programs(ray="true"))
    worker.kill()
    head.communicate(timeout=PATIENCE)
    assert head.returncode == 3


def test_a_signal_reaches_the_command_and_leaves_it_time_for_a_checkpoint(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    saves = "trap 'echo saved; exit 7' TERM; echo begun; sleep 60 & wait"
    built = first_node_job(build_job, "ray")
    container = built.workload["spec"]["template"]["spec"]["containers"][0]
    container["command"], container["args"] = [*container["command"][:4], "sh", "-c", saves], []
    head, worker = local_pods.start(built, tmp_path, programs(ray="true"))
    worker.kill()
    assert head.stdout is not None
    assert head.stdout.readline() == "begun\n"
    head.send_signal(signal.SIGTERM)
    assert head.communicate(timeout=PATIENCE)[0] == "saved\n"
    assert head.returncode == 7


def test_mpirun_waits_until_all_nodes_answer(build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]) -> None:
    path = programs(
        ssh="[ -e up ] && exit; touch up; exit 255",
        mpirun='echo "mpirun $*"; cat "$OMPI_MCA_orte_default_hostfile"',
        sshd='echo "sshd $*"',
        ssh_keygen='echo "ssh-keygen $*"',
        mkdir="true",
        sleep="true",
    )
    built = first_node_job(build_job, "mpi")
    hosts = tmp_path / "hostfile"
    hosts.write_text(next(obj for obj in built.dependents if obj["kind"] == "ConfigMap")["data"]["hostfile"])
    for variable in built.workload["spec"]["template"]["spec"]["containers"][0]["env"]:
        if variable.get("value") == "/job/hostfile":
            variable["value"] = str(hosts)
    first, second = local_pods.outputs(local_pods.start(built, tmp_path, path), PATIENCE)
    launched, *listed = first.splitlines()
    assert launched.startswith("mpirun --bind-to none python -c import sys;")
    assert launched.endswith(" 0 a b")
    assert listed == ["bert-0.svc-bert slots=2", "bert-1.svc-bert slots=2"]
    assert second.splitlines() == ["ssh-keygen -A", "sshd -D -e"]


def test_the_command_waits_for_the_rank_table(build_job: BuildJob, tmp_path: Path) -> None:
    built = build_job(
        {
            "environment": {"command": ["echo", "trained"]},
            "resources": {"accelerator": "ascend", "gpu": 2},
            "distributed": {"rank_table": True},
        }
    )
    (container,) = built.workload["spec"]["template"]["spec"]["containers"]
    (variable,) = [each for each in container["env"] if each["name"] == "RANK_TABLE_FILE"]
    variable["value"] = str(tmp_path / "hccl.json")
    (pod,) = local_pods.start(built, tmp_path, local_pods.search_path())
    with pytest.raises(subprocess.TimeoutExpired):
        pod.wait(0.5)
    (tmp_path / "hccl.json").write_text('{"status": "completed"}', encoding="utf-8")
    assert local_pods.outputs([pod], PATIENCE) == ["trained\n"]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
