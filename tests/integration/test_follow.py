# SPDX-License-Identifier: BSD-2-Clause
"""The playbook runwhere.gpuctl.logs with gpuctl_follow: each line once, whatever happens to connections and pods."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster, Fault

from .ansible import BIN, Ansible, Run, says_while_it_runs
from .cut_proxy import TcpProxy, tcp_proxy
from .manifests import compute, training

pytestmark = says_while_it_runs


@dataclass(frozen=True)
class Field:
    """A cluster, and Ansible that reaches it directly or through a proxy."""

    cluster: Cluster
    directory: Path

    def ansible(self, url: str = "") -> Ansible:
        return Ansible(
            self.directory,
            {
                "K8S_AUTH_HOST": url or self.cluster.url,
                "K8S_AUTH_API_KEY": self.cluster.token,
                "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain",
            },
        )

    def submit(self, *jobs: dict[str, Any]) -> None:
        result = self.ansible().job(definition=list(jobs), wait=True, wait_timeout=60)
        assert not result.failed, result.message

    def behave(self, name: str, **behavior: Any) -> None:
        """How the containers of a job behave."""
        self.cluster.call(lambda: self.cluster.kubelet.behave(labels={"app": name}, **behavior))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as cluster:
        yield cluster


@pytest.fixture
def field(cluster: Cluster, tmp_path: Path) -> Iterator[Field]:
    yield Field(cluster, tmp_path)
    cluster.call(cluster.kubelet.forget)


def arguments(name: str, **variables: Any) -> list[str]:
    given = {"name": name, **variables, "follow": "true"}
    return ["runwhere.gpuctl.logs", *(part for key, value in given.items() for part in ("-e", f"gpuctl_{key}={value}"))]


def follow(ansible: Ansible, name: str, **variables: Any) -> Run:
    return ansible.run("ansible-playbook", *arguments(name, **variables))


@contextmanager
def cutting(proxy: TcpProxy, times: int, seconds: float) -> Iterator[None]:
    """Break all connections so many times."""
    stopped = threading.Event()

    def cut() -> None:
        while proxy.cuts < times and not stopped.wait(seconds):
            proxy.cut()

    thread = threading.Thread(target=cut)
    thread.start()
    yield
    stopped.set()
    thread.join()


class Screen:
    """A terminal of 100 columns that runs ansible-playbook."""

    def __init__(self, process: int, terminal: int) -> None:
        self.process = process
        self.status: int | None = None
        self._terminal = terminal
        self._output = b""

    @property
    def output(self) -> str:
        return self._output.decode().replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """What is there at the end, with what was erased and overwritten left out."""
        return [line.rpartition("\r")[2].removeprefix("\x1b[K") for line in self.output.split("\n")]

    def until(self, condition: Callable[[str], object], seconds: float = 60) -> str:
        """All output, once the condition holds for it."""
        end = time.monotonic() + seconds
        while not condition(self.output):
            assert time.monotonic() < end, self.output
            if not self._receive():
                assert condition(self.output), self.output
                break
        return self.output

    def to_the_end(self) -> int:
        """The exit status."""
        end = time.monotonic() + 60
        while self._receive() and time.monotonic() < end:
            pass
        if time.monotonic() >= end:
            os.kill(self.process, signal.SIGKILL)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return self.status

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def _receive(self, seconds: float = 1.0) -> bool:
        """False at the end."""
        if wait([self._terminal], seconds):
            try:
                piece = os.read(self._terminal, 65_536)
            except OSError:
                return False
            self._output += piece
            return bool(piece)
        return True


@contextmanager
def started(ansible: Ansible, arguments: list[str], in_shell: bool = False, **environment: str) -> Iterator[Screen]:
    """ansible-playbook on a terminal; with ``in_shell``, the terminal stays there after it until Return is pressed."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ansible.directory)
        variables = {**ansible.full_environment, "TERM": "xterm", **environment}
        command = [str(BIN / "ansible-playbook"), *arguments]
        if in_shell:
            command = ["/bin/sh", "-c", 'trap : INT; "$0" "$@"; status=$?; read _; exit $status', *command]
        os.execve(command[0], command, variables)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    screen = Screen(process, terminal)
    try:
        yield screen
    finally:
        if screen.status is None:
            os.killpg(process, signal.SIGINT)
            screen.to_the_end()
        os.close(terminal)


def numbered(output: str) -> list[str]:
    return re.findall(r"^(line \d+)\r?$", output, re.MULTILINE)


def lines(number: int) -> list[str]:
    return [f"line {each}" for each in range(1, number + 1)]


def test_each_line_once_through_a_proxy_that_cuts(field: Field):
    field.behave("cut", log_lines=20_000, log_seconds=12, run_seconds=14)
    field.submit(training("cut"))
    with tcp_proxy(field.cluster.url) as proxy, cutting(proxy, 20, 0.45):
        run = follow(field.ansible(proxy.url), "cut", tail=-1)
    assert proxy.cuts == 20
    assert run.status == 0, run.output[-2000:]
    assert numbered(run.output) == lines(20_000)
    assert "Job cut: Succeeded." in run.output


def test_a_server_that_is_away_for_a_while(field: Field):
    field.behave("away", log_lines=2000, log_seconds=16, run_seconds=20)
    field.submit(training("away"))
    with tcp_proxy(field.cluster.url) as proxy, started(field.ansible(proxy.url), arguments("away", tail=-1)) as screen:
        screen.until(lambda text: len(numbered(text)) > 10)
        proxy.refuses = True
        proxy.cut()
        screen.until(lambda text: "-- connection lost; trying again" in text)
        proxy.refuses = False
        assert screen.to_the_end() == 0
    assert numbered(screen.output) == lines(2000)
    assert "-- connected again" in screen.lines


@contextmanager
def lost_node(field: Field, job: str) -> Iterator[str]:
    """The node of a job's pod, whose kubelet has stopped."""
    (pod,) = (
        each
        for each in field.cluster.objects()
        if each["kind"] == "Pod" and each["metadata"]["labels"].get("app") == job
    )
    name = pod["spec"]["nodeName"]
    (node,) = (each for each in field.cluster.objects() if (each["kind"], each["metadata"]["name"]) == ("Node", name))
    lost = json.loads(json.dumps({**node, "kind": "Node"}))
    (ready,) = (one for one in lost["status"]["conditions"] if one["type"] == "Ready")
    since = {"lastTransitionTime": "2026-08-01T10:00:00Z"}
    ready.update(status="Unknown", message="Kubelet stopped posting node status.", **since)
    field.cluster.load([lost])
    yield name
    field.cluster.load([{**node, "kind": "Node"}])


def test_the_log_of_a_pod_on_a_lost_node(field: Field):
    field.behave("far", log_lines=20, log_seconds=1)
    field.submit(training("far"))
    with lost_node(field, "far") as node:
        run = field.ansible().run("ansible-playbook", "runwhere.gpuctl.logs", "-e", "gpuctl_name=far")
    assert run.status == 2
    since = "which has not been ready since 2026-08-01T10:00:00Z (Kubelet stopped posting node status)"
    text = " ".join(run.output.split())
    assert f" is on node {node}, {since}. Its log is there, and can be read once the node is back" in text
    assert "dial tcp" not in text
    assert "HTTP 500" not in text


def test_a_node_that_is_lost_while_its_pod_is_followed(field: Field):
    field.behave("left", log_lines=2000, log_seconds=16, run_seconds=20)
    field.submit(training("left"))
    with tcp_proxy(field.cluster.url) as proxy, started(field.ansible(proxy.url), arguments("left")) as screen:
        screen.until(lambda text: "line " in text)
        with lost_node(field, "left") as node:
            proxy.cut()
            text = " ".join(screen.until(lambda text: "posting node status" in text).split())
        assert f" is on node {node}, which has not been ready since 2026-08-01T10:00:00Z" in text


def test_a_burst_comes_whole(field: Field):
    field.behave("burst", log_lines=100_000, log_seconds=1, run_seconds=4)
    field.submit(training("burst"))
    assert numbered(follow(field.ansible(), "burst", tail=-1).output) == lines(100_000)


def test_only_so_many_lines_from_before(field: Field):
    field.behave("tail", log_lines=30, run_seconds=3)
    field.submit(training("tail"))
    assert numbered(follow(field.ansible(), "tail", tail=2).output) == ["line 29", "line 30"]
    found = follow(field.ansible(), "tail", tail=2, grep="1")
    assert numbered(found.output) == ["line 19", "line 21"]


def test_a_container_that_restarts_and_a_job_that_fails(field: Field):
    field.behave("again", log_lines=3, crash_seconds=12, exit_code=3)
    field.submit(compute("again"))
    with started(field.ansible(), arguments("again", tail=-1)) as screen:
        output = screen.until(lambda text: len(numbered(text)) >= 6)
    assert numbered(output)[:6] == lines(3) * 2
    assert "ended with exit code 3, is restarted" in output

    field.behave("broken", log="no\n", run_seconds=1, exit_code=137, reason="OOMKilled")
    field.submit(training("broken"))
    run = follow(field.ansible(), "broken")
    assert "exit code 137 (OOMKilled)" in run.output
    assert run.output.count("Job broken: Failed.") == 1
    assert run.status == 0, "the logs were read"


def test_several_pods_have_their_names_before_their_lines(field: Field):
    field.behave("dist", log="hello\n", run_seconds=4)
    field.submit(training("dist", resources={"node_count": 2}))
    output = follow(field.ansible(), "dist").output
    assert sorted(re.findall(r"^\[(\d)-\w{5}\] hello$", output, re.MULTILINE)) == ["0", "1"]
    (only,) = re.findall(r"^(.*)hello$", follow(field.ansible(), "dist-0-x", pod="0").output, re.MULTILINE) or [""]
    assert only == ""


def test_a_sweep_is_followed_until_all_its_jobs_have_ended(field: Field):
    sweep = training("lr", matrix={"seed": [1, 2, 3]}, environment={"command": ["train", "$(matrix.seed)"]})
    for number in (1, 2):
        field.behave(f"lr-{number}", log=f"hello of {number}\n", run_seconds=5 + 4 * number)
    field.behave("lr-3", log="hello of 3\n", run_seconds=9, exit_code=2)
    field.submit(sweep)
    run = follow(field.ansible(), "lr")
    assert run.status == 0, run.output
    assert "Following 3 pods of sweep lr (3 Running). Ctrl-C ends that, and not the jobs." in run.output
    assert sorted(re.findall(r"^\[(\d)-\w{5}\] hello of (\d)$", run.output, re.MULTILINE)) == [
        ("1", "1"),
        ("2", "2"),
        ("3", "3"),
    ]
    assert "Sweep lr: 2 Succeeded, 1 Failed. " in run.output
    assert re.search(r"lr-3-\w{5}: exit code 2", run.output)


def test_a_terminal_has_colours_and_nothing_else_that_acts_on_it(field: Field):
    field.behave("bar", log="\x1b[32mgreen\x1b[0m\n1%\r2%\r3%\n\x1b[2J\x1b]0;title\x07\n", run_seconds=4)
    field.submit(training("bar"))
    with started(field.ansible(), arguments("bar"), ANSIBLE_NOCOLOR="false") as screen:
        assert screen.to_the_end() == 0
    assert "\x1b[32mgreen\x1b[0m" in screen.lines
    assert "3%" in screen.lines
    assert "2%" not in screen.output
    assert r"\x1b]0;title\x07" in screen.lines
    with started(field.ansible(), arguments("bar"), ANSIBLE_NOCOLOR="false", NO_COLOR="1") as screen:
        screen.to_the_end()
    assert "green" in screen.lines


def test_a_wait_is_one_line_that_changes(field: Field):
    field.behave("slow", start_seconds=20, log="hello\n", run_seconds=1)
    result = field.ansible().job(definition=training("slow"))
    assert not result.failed, result.message
    with started(field.ansible(), arguments("slow")) as screen:
        assert screen.to_the_end() == 0
    assert "\x1b[Kwaiting for a pod of job slow (Pending)" in screen.output
    assert [line for line in screen.lines if "waiting for" in line] == []
    assert "hello" in screen.lines


def test_ctrl_c_ends_it_with_the_command_to_go_on(field: Field):
    field.behave("long", log_lines=100, log_seconds=100)
    field.submit(compute("long"))
    with started(field.ansible(), arguments("long"), in_shell=True) as screen:
        screen.until(lambda text: len(numbered(text)) >= 2)
        screen.press(b"\x03")
        # The worker that follows and ansible-playbook both print, in any order.
        screen.until(lambda text: "gpuctl_follow=true\n" in text and "User interrupted" in text)
        screen.press(b"\n")
        assert screen.to_the_end() == 99
    assert "Traceback" not in screen.output
    again = (
        "ansible-playbook runwhere.gpuctl.logs -e gpuctl_name=long -e gpuctl_namespace=default -e gpuctl_follow=true"
    )
    assert [line for line in screen.lines if line.startswith("Stopped following; ") and line.endswith(again)]


def test_a_module_process_cannot_follow(field: Field):
    field.submit(compute("any"))
    (task,) = (
        field.ansible()
        .play(
            [
                {
                    "name": "Follow",
                    "runwhere.gpuctl.gpuctl_job_log": {"name": "any", "follow": True},
                    "environment": {"GPUCTL_FAST_PATH": "0"},
                }
            ]
        )
        .tasks
    )
    assert task.failed
    assert task.message.startswith("follow: a task can only print while it runs if it runs in Ansible's own process.")


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_long_batch_says_how_far_it_is(field: Field, on_terminal: bool):
    latency = Fault("latency", verb="patch", path="*/jobs/*", count=None, seconds=1.0)
    number = field.cluster.call(lambda: field.cluster.faults.add(latency))
    manifests = field.directory / "jobs.yaml"
    name = f"batch-{'a' if on_terminal else 'b'}"
    manifests.write_text(yaml.safe_dump_all([training(f"{name}-{each}") for each in range(60)]))
    given = ["runwhere.gpuctl.submit", "-e", f"gpuctl_src={manifests}"]
    with started(field.ansible(), given) if on_terminal else nullcontext() as screen:
        if screen:
            assert screen.to_the_end() == 0, screen.output
            shown, left = screen.output, "\n".join(screen.lines)
        else:
            run = field.ansible().run("ansible-playbook", *given)
            shown, left = run.output, ""
            assert run.status == 0, run.output
    field.cluster.call(lambda: field.cluster.faults.remove(number))
    assert re.search(r"\d+ of 60 jobs created", shown), shown
    assert "jobs created" not in left
