# SPDX-License-Identifier: BSD-2-Clause
"""Launchers start real processes here, from the pods that are built. PyTorch is that of `make torch`."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.built import Built
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.older_servers import without_feature

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


# -- launchers of the first node, with programs that only print their arguments ---------------------------------------


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


def first_node_job(build_job: BuildJob, launcher: str, nodes: int = 2) -> Built:
    command = ["python", "-c", "import sys; print('trained', *sys.argv[1:]); sys.exit(int(sys.argv[1]))"]
    return build_job(
        {
            "environment": {"command": command, "args": [0, "a b"]},
            "resources": {"gpu": 2, "node_count": nodes},
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
    saves = "trap 'echo saved; exit 7' TERM; echo begun; sleep 60 >&- 2>&- & wait"
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


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_exit_code_is_that_of_a_command_that_ends_as_the_signal_comes(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str], shell: str
) -> None:
    """bash has then forgotten the process, but not its code. Half of the times, it has lost that too."""
    built = first_node_job(build_job, "ray")
    container = built.workload["spec"]["template"]["spec"]["containers"][0]
    ends = "trap 'exit 7' TERM; sh -c 'echo $PPID'; sleep 60 >&- 2>&- & wait"
    container["command"], container["args"] = [shell, *container["command"][1:4], "sh", "-c", ends], []
    path = programs(ray="true")
    for _attempt in range(8):
        head, worker = local_pods.start(built, tmp_path, path)
        worker.kill()
        assert head.stdout is not None
        command = int(head.stdout.readline())
        head.send_signal(signal.SIGSTOP)
        head.send_signal(signal.SIGTERM)
        os.kill(command, signal.SIGTERM)
        time.sleep(0.1)  # the command ends
        head.send_signal(signal.SIGCONT)
        assert head.wait(PATIENCE) in ({7, 255} if shell == "bash" else {7})


def test_a_signal_before_the_command_runs_is_not_lost(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    built = first_node_job(build_job, "ray")
    head, worker = local_pods.start(built, tmp_path, programs(ray='[ "$2" != --head ] || kill -TERM "$PPID"'))
    worker.kill()
    assert head.communicate(timeout=PATIENCE)[0] == ""
    assert head.returncode == 143


def use_hostfile(built: Built, path: Path) -> None:
    """Let the pods read a file of this machine. The first node is where MASTER_ADDR leads; the others have names."""
    path.write_text(next(obj for obj in built.dependents if obj["kind"] == "ConfigMap")["data"]["hostfile"])
    for variable in built.workload["spec"]["template"]["spec"]["containers"][0]["env"]:
        if variable.get("value") == "/job/hostfile":
            variable["value"] = str(path)
        if variable["name"] == "MASTER_ADDR":  # local_pods would replace the name by an address
            variable["value"] = "first"
    path.write_text(path.read_text().replace("bert-0.svc-bert", "first"))


def test_mpirun_waits_until_all_other_nodes_answer(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    """The first node runs no sshd, and mpirun needs none there."""
    path = programs(
        ssh='case "$*" in *first*) exit 255;; esac; [ -e up ] && exit; touch up; exit 255',
        mpirun='echo "mpirun $*"; cat "$OMPI_MCA_orte_default_hostfile"',
        sshd='echo "sshd $*"',
        ssh_keygen='echo "ssh-keygen $*"',
        mkdir="true",
        sleep="true",
    )
    built = first_node_job(build_job, "mpi")
    use_hostfile(built, tmp_path / "hostfile")
    first, second = local_pods.outputs(local_pods.start(built, tmp_path, path), PATIENCE)
    launched, *listed = first.splitlines()
    assert launched.startswith("mpirun --bind-to none python -c import sys;")
    assert launched.endswith(" 0 a b")
    assert listed == ["first slots=2", "bert-1.svc-bert slots=2"]
    assert second.splitlines() == ["ssh-keygen -A", "sshd -D -e"]


# -- the same where Jobs have no successPolicy: there the Job succeeds once all pods have ------------------------------


def older(built: Built) -> Built:
    found = without_feature(built.objects)
    assert found is not None
    assert "successPolicy" not in found[0]["spec"]
    return built._replace(workload=found[0])


def test_the_first_node_of_ray_tells_the_others_that_it_has_ended(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    path = programs(ray='echo "ray $*"; case "$*" in *--block*) sleep 0.2;; esac')
    built = older(first_node_job(build_job, "ray", nodes=3))
    use_port(built, free_port())
    head, *workers = local_pods.outputs(local_pods.start(built, tmp_path, path), PATIENCE)
    assert [line for line in head.splitlines() if "train" in line] == ["trained 0 a b"]
    assert head.splitlines()[-1] == "ray stop"
    for said in workers:
        assert set(said.splitlines()) == {said.splitlines()[0]}
        assert said.startswith("ray start --address=127.0.0.1:")


def test_the_others_wait_for_the_successor_of_a_first_node_that_failed(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    path = programs(ray='echo "ray $*"; case "$*" in *--block*) sleep 0.2;; esac')
    built = older(first_node_job(build_job, "ray"))
    port = free_port()
    use_port(built, port)
    (container,) = built.workload["spec"]["template"]["spec"]["containers"]
    container["args"] = ["3"]
    head, worker = local_pods.start(built, tmp_path, path)
    assert head.wait(PATIENCE) == 3
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(1)
    container["args"] = ["0"]
    successor, other = local_pods.start(built, tmp_path, path)
    other.kill()
    for pod in (successor, worker):
        pod.communicate(timeout=PATIENCE)
        assert pod.returncode == 0


def test_what_else_connects_to_the_first_node_is_not_taken_for_one_of_the_others(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    built = older(first_node_job(build_job, "ray"))
    port = free_port()
    use_port(built, port)
    head, worker = local_pods.start(built, tmp_path, programs(ray="true"))
    worker.kill()
    for text, answer in ((b"PRI * HTTP/2.0\r\n", b""), (b"ended? x", b"yes"), (b"ended? 1", b"yes")):
        assert head.poll() is None
        assert ask(port, text) == answer
    assert head.wait(PATIENCE) == 0


def test_mpirun_ends_the_other_nodes(build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]) -> None:
    """ssh runs its command here: the others end by a signal to the process whose number they have written."""
    path = programs(
        ssh='case "$*" in *first*) exit 255;; *true) exit;; esac; for command; do :; done; sh -c "$command"',
        mpirun="echo mpirun",
        sshd="exec sleep 60 >&- 2>&-",
        ssh_keygen="true",
    )
    built = older(first_node_job(build_job, "mpi"))
    (container,) = built.workload["spec"]["template"]["spec"]["containers"]
    container["command"] = [word.replace("/run/sshd", str(tmp_path)) for word in container["command"]]
    use_hostfile(built, tmp_path / "hostfile")
    assert local_pods.outputs(local_pods.start(built, tmp_path, path), PATIENCE)[0] == "mpirun\n"


def test_a_failure_of_mpirun_leaves_the_others_serving(
    build_job: BuildJob, tmp_path: Path, programs: Callable[..., str]
) -> None:
    path = programs(ssh="true", mpirun="exit 5", sshd="exec sleep 60", ssh_keygen="true")
    built = older(first_node_job(build_job, "mpi"))
    (container,) = built.workload["spec"]["template"]["spec"]["containers"]
    container["command"] = [word.replace("/run/sshd", str(tmp_path)) for word in container["command"]]
    use_hostfile(built, tmp_path / "hostfile")
    head, other = local_pods.start(built, tmp_path, path)
    assert head.wait(PATIENCE) == 5
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(1.5)
    other.send_signal(signal.SIGTERM)
    assert other.wait(PATIENCE) == 143


def use_port(built: Built, port: int) -> None:
    for variable in built.workload["spec"]["template"]["spec"]["containers"][0]["env"]:
        if variable["name"] == "MASTER_PORT":
            variable["value"] = str(port)


def ask(port: int, text: bytes) -> bytes:
    """What the first node answers once it has ended."""
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 30) as asked:
                asked.sendall(text)
                return asked.recv(16)
        except ConnectionRefusedError:
            time.sleep(0.05)


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
