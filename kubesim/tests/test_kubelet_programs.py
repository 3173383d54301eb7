# SPDX-License-Identifier: BSD-2-Clause
"""The few programs that containers of the simulated cluster run: what they print, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from simulation import Object, Simulation

ENV = [
    {"name": "WHO", "value": "world"},
    {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['index']"}}},
]
VOLUMES = [
    {"name": "job", "configMap": {"name": "hosts"}},
    {"name": "keys", "secret": {"secretName": "keys", "items": [{"key": "token", "path": "api/token"}]}},
    {"name": "scratch", "emptyDir": {}},
]
MOUNTS = [
    {"name": "job", "mountPath": "/job"},
    {"name": "job", "mountPath": "/etc/one", "subPath": "hostfile"},
    {"name": "keys", "mountPath": "/keys"},
    {"name": "scratch", "mountPath": "/scratch"},
]


def run(restart: str = "Never", hostname: str = "", **command: list[str]) -> tuple[Object, list[str]]:
    """A pod with the command, and the lines of its log."""
    sim = Simulation(nodes=1)
    sim.create("ConfigMap", "hosts", data={"hostfile": "a slots=1\nb slots=1\n"})
    sim.create("Secret", "keys", data={"token": "czNjcjN0"})
    container: dict[str, Any] = {"name": "main", "image": "busybox:1.36", "env": ENV, "volumeMounts": MOUNTS, **command}
    spec = {"containers": [container], "volumes": VOLUMES, "restartPolicy": restart}
    sim.create("Pod", "p", spec | ({"hostname": hostname} if hostname else {}), metadata={"labels": {"index": "1"}})
    sim.advance(1)
    pod = sim.get("Pod", "p")
    return pod, sim.kubelet.logs(pod, "main").splitlines()


@pytest.mark.parametrize(
    ("script", "lines", "exit_code"),
    [
        ("env", ["WHO=world", "INDEX=1"], 0),
        ("printenv INDEX", ["1"], 0),
        ("printenv NOBODY", [], 1),
        ("echo hello $WHO, rank ${INDEX}", ["hello world, rank 1"], 0),
        ("cat /job/hostfile", ["a slots=1", "b slots=1"], 0),
        ("cat /etc/one", ["a slots=1", "b slots=1"], 0),
        ("cat /keys/api/token", ["s3cr3t"], 0),
        ("cat /keys/token", ["cat: can't open '/keys/token': No such file or directory"], 1),
        ("cat /scratch/x", ["cat: can't open '/scratch/x': No such file or directory"], 1),
        ("cat /none; echo then", ["cat: can't open '/none': No such file or directory", "then"], 0),
        ("false && echo never; echo then", ["then"], 0),
        ("true && echo 'one;  two'\nexit 3; echo never", ["one;  two"], 3),
        ("false; exit", [], 1),
    ],
)
def test_a_line_for_a_shell(script: str, lines: list[str], exit_code: int):
    pod, log = run(command=["sh", "-c", script])
    assert log == lines
    assert pod["status"]["phase"] == ("Succeeded" if exit_code == 0 else "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == exit_code


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ({"command": ["printenv", "WHO"]}, ["world"]),
        ({"command": ["echo"], "args": ["$(WHO)", "a;b"]}, ["world a;b"]),
        ({"command": ["hostname"]}, ["p"]),
    ],
)
def test_a_program_without_a_shell(command: dict[str, list[str]], lines: list[str]):
    assert run(**command)[1] == lines


def test_the_host_name_is_that_of_the_pod_unless_it_has_one():
    assert run(hostname="train-0", command=["hostname"])[1] == ["train-0"]


@pytest.mark.parametrize("script", ["python train.py", "env | sort", "(env)", "echo 'open", "exit $?", "env; python x"])
def test_a_container_with_any_other_command_runs_on(script: str):
    pod, log = run(command=["sh", "-c", script])
    assert pod["status"]["phase"] == "Running"
    assert log[-1] == "step 10/10"


def test_a_program_that_ends_is_restarted_where_the_pod_says_so():
    pod, _log = run("Always", command=["false"])
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert "CrashLoopBackOff" in str(pod["status"]["containerStatuses"][0]["state"])
