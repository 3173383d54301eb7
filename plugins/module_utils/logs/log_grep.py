# SPDX-License-Identifier: BSD-2-Clause
"""Search lines with a regular expression that may take for ever, such as ``(a+)+$`` in a line of thirty letters.

Python's ``re`` tries all ways to match, cannot be interrupted in a thread, and keeps all other threads from running. So
a process of its own searches, and the kernel ends it after so many seconds of processor time.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any

from ..kube.errors import cut

_SECONDS = 2.0  # of processor time, and another one for each MiB; all but a few expressions search 50 MiB in one

# The expression, then lines to search, each message after its size in eight bytes. The answer is a byte for each line.
_SEARCH = f"""
import re, signal, sys, time

def receive():
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    return sys.stdin.buffer.read(size).decode()

search, seconds = re.compile(receive()).search, {_SECONDS}
signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
while text := receive():
    seconds += len(text) / 2**20
    signal.setitimer(signal.ITIMER_VIRTUAL, max(0.01, seconds - time.process_time()))
    found = bytes(search(line) is not None for line in text.split("\\n")[:-1])
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    sys.stdout.buffer.write(found)
    sys.stdout.buffer.flush()
"""


class GrepFailed(Exception):
    """The lines could not be searched; the text is for the user."""


class Grep:
    """A context manager; the process starts with the first search and does not outlive it. Threads may share it."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def __enter__(self) -> Grep:
        return self

    def __exit__(self, *unused: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def search(self, lines: Sequence[str]) -> list[bool]:
        """Whether each line has a match. Raises GrepFailed."""
        with self._lock:
            process = self._process = self._process or self._start_process()
            try:
                self._send_input(process, "".join(f"{line}\n" for line in lines))
                found: bytes = process.stdout.read(len(lines))  # type: ignore[union-attr]
            except BrokenPipeError:
                found = b""
            if len(found) < len(lines):
                raise GrepFailed(self._exit_failure(process.wait()))
        return [bool(byte) for byte in found]

    def _start_process(self) -> Any:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = [sys.executable, "-I", "-S", "-c", _SEARCH]
        try:  # run_command waits for the end of a process, and this one gets line after line.
            process = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]  # pylint: disable=ansible-bad-function
        except OSError as problem:
            raise GrepFailed(f"O(grep): cannot start {sys.executable}: {problem.strerror}.") from None
        self._send_input(process, self._expression)
        return process

    @staticmethod
    def _send_input(process: subprocess.Popen[bytes], text: str) -> None:
        data = text.encode("utf-8", "replace")
        process.stdin.write(len(data).to_bytes(8, "big") + data)  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    def _exit_failure(self, code: int) -> str:
        if code == -signal.SIGVTALRM:
            return (
                f"O(grep): {cut(repr(self._expression), 100)} takes too long to search the log. Avoid repetitions "
                f"within repetitions, such as (a+)+."
            )
        return f"O(grep): the search ended with exit code {code}. Run the task again."
