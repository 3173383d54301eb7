# SPDX-License-Identifier: BSD-2-Clause
"""The playbook runwhere.gpuctl.logs with gpuctl_follow: each line once, whatever happens to connections and pods."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster

from .ansible import BIN, Ansible, Run
from .cut_proxy import TcpProxy, tcp_proxy
from .manifests import compute, training

NAMESPACE = "default"


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
        self.cluster.kubelet.behave(labels={"app": name}, **behavior)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2).running() as cluster:
        yield cluster


@pytest.fixture
def field(cluster: Cluster, tmp_path: Path) -> Iterator[Field]:
    yield Field(cluster, tmp_path)
    cluster.kubelet.forget()


def arguments(name: str, **variables: Any) -> list[str]:
    given = {"name": name, "follow": "true", **variables}
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


def numbered(output: str) -> list[str]:
    return re.findall(r"^(line \d+)$", output, re.MULTILINE)


def test_each_line_once_through_a_proxy_that_cuts(field: Field):
    field.behave("cut", log_lines=20_000, log_seconds=12, run_seconds=14)
    field.submit(training("cut"))
    with tcp_proxy(field.cluster.url) as proxy, cutting(proxy, 20, 0.45):
        run = follow(field.ansible(proxy.url), "cut", tail=-1)
    assert proxy.cuts == 20
    assert run.status == 0, run.output[-2000:]
    assert numbered(run.output) == [f"line {number}" for number in range(1, 20_001)]
    assert "Job cut: Succeeded." in run.output
