# SPDX-License-Identifier: BSD-2-Clause
"""The clusters that are measured against: a simulated one in a process of its own, or the one that is named."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.peers import kubernetes_core

ROOT = Path(__file__).resolve().parents[2]

_TRUSTING = ssl._create_unverified_context()  # of a server that this very program has started


@dataclass(frozen=True)
class Served:
    """A cluster, and the environment of the commands that work with it. ``url`` and ``pid``: of a simulated one."""

    environment: Mapping[str, str]
    url: str | None = None
    pid: int | None = None

    def forget_requests(self) -> None:
        self._ask("DELETE")

    def requests(self) -> int | None:
        """How many were sent since they were forgotten."""
        answer = self._ask("GET")
        return None if answer is None else sum(answer["counts"].values())

    def processor_seconds(self) -> float | None:
        """What the server's process has used until now (proc(5): fields 14 and 15 of stat)."""
        stat = Path(f"/proc/{self.pid}/stat")
        if self.pid is None or not stat.exists():
            return None
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _ask(self, method: str) -> Any:
        if self.url is None:
            return None
        request = urllib.request.Request(f"{self.url}/_sim/requests", method=method)
        with urllib.request.urlopen(request, context=_TRUSTING) as response:
            return json.loads(response.read() or b"null")


@contextmanager
def simulated(directory: Path, *, nodes: int, pods: int = 0, controllers: bool = False) -> Iterator[Served]:
    """A simulated cluster of that size. Without controllers nothing happens to what is stored."""
    kubeconfig = directory / f"kubeconfig-{nodes}-{pods}"
    options = ["--controllers"] if controllers else []
    program = str(Path(__file__).with_name("server.py"))
    command = [sys.executable, program, str(nodes), str(pods), str(kubeconfig), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        url = process.stdout.readline().strip()
        try:
            yield Served(_environment(directory, kubeconfig), url, process.pid)
        finally:
            process.stdin.close()


def named(directory: Path, kubeconfig: Path) -> Served:
    """A cluster that is there: nothing is known of it but what the commands find."""
    return Served(_environment(directory, kubeconfig))


# Settings of this shell that would be measured too: with PYTHONUNBUFFERED a module that comes over standard input
# is read byte by byte.
_SETTINGS = ("K8S_AUTH_", "GPUCTL_", "PYTHON")


def _environment(directory: Path, kubeconfig: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)},
        "ANSIBLE_COLLECTIONS_PATH": f"{ROOT / '.cache' / 'collections'}:{kubernetes_core()}",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_PIPELINING": "true",
        "HOME": str(directory),
        "K8S_AUTH_KUBECONFIG": str(kubeconfig),
        "KUBECONFIG": str(kubeconfig),
    }
