# SPDX-License-Identifier: BSD-2-Clause
"""Servers of other projects as processes of this machine: from when they answer until a block ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: How long a server may take to start on a busy machine.
PATIENCE = 120.0


class DidNotStartError(RuntimeError):
    """A server has ended, or does not answer in time. Its message ends with what the server printed."""


@contextmanager
def running(command: Sequence[str], log: Path, ready: str, patience: float = PATIENCE) -> Iterator[None]:
    """The process, from when the URL `ready` answers until the block ends."""
    with log.open("wb") as output:
        # Without proxies, which would be asked for addresses of this machine. In a session of its own, so that a
        # program that starts another one, as proot does, ends with it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + patience
        while not _answers(ready):
            if process.poll() is not None:
                raise DidNotStartError(f"{command[0]} has ended with {process.returncode}\n{_tail(log)}")
            if time.monotonic() > deadline:
                raise DidNotStartError(f"{command[0]} is not ready after {patience:g} s\n{_tail(log)}")
            time.sleep(0.1)
        yield
    finally:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        _signal(process, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        # Also without the proxies of this process.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the process and to all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
