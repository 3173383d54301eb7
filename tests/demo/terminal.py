# SPDX-License-Identifier: BSD-2-Clause
"""A terminal in which commands are typed one after another, as a reader of the documentation would."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

# What differs from run to run -> what stands for it. The letters are those of Kubernetes' generated names.
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"(?<= )\d+[smhd](?= |$)", re.MULTILINE), "AGE"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-POD"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "PORT"),
    (re.compile(r"/[^\s=]*/build/"), "build/"),
    (re.compile(r"(?<=:)30\d{3}\b"), "PORT"),
    (re.compile(r"\bgpu-node-\d+"), "NODE"),
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
)


def same_every_time(text: str) -> list[str]:
    """The words of each line, without what differs from run to run. Columns may move, so spaces do not count."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


@dataclass(frozen=True)
class Answer:
    status: int
    output: str


class Terminal:
    """A shell that keeps its directory and its variables from one command to the next."""

    patience = 120  # seconds for one command

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._mark = secrets.token_hex(8)
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def type(self, command: str) -> Answer:
        """Run a command, of one or more lines, to its end."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s %s\\n' {self._mark} $?\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        timer = threading.Timer(self.patience, self._kill)
        timer.start()
        try:
            for line in self._shell.stdout:
                if line.startswith(self._mark):
                    return Answer(int(line.split()[1]), "".join(lines).removesuffix("\n"))
                lines.append(line)
        finally:
            timer.cancel()
        raise AssertionError(
            f"the shell ended, or waited for more than {self.patience} s:\n{command}\n{''.join(lines)}"
        )

    def _kill(self) -> None:
        """The shell and what runs in it."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        self._shell.wait()
        for stream in (self._shell.stdin, self._shell.stdout):
            assert stream is not None
            stream.close()
