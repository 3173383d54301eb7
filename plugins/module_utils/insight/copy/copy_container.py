# SPDX-License-Identifier: BSD-2-Clause
"""The container that files are copied to or from: its commands, with messages for what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...kube.client import Client
from ...kube.errors import ApiError
from ...kube.exec import CommandNotStarted, ConnectionLost, ExecResult, run_command
from ...kube.limits import MIB
from ...permissions import MissingPermission, missing_permission
from ...printable import one_line
from ...reporter import Report, silent
from ...task import TaskFailed
from .copy_tree import Listing, parse_listing

_MAX_LISTING = 20 * MIB
_MAX_LINES = 300_000  # two for each file; both are some 120 MiB in memory
_TOOLS = "sh, tar, find, stat and xargs"


@dataclass(frozen=True)
class Container:
    """A running container of a pod. Its methods raise TaskFailed. ``progress`` reports how much was copied."""

    client: Client
    namespace: str
    pod: str
    name: str
    progress: Report = silent

    def __str__(self) -> str:
        return f"container {self.name} of pod {self.pod}"

    def run(
        self, command: Sequence[str], stdin: Iterable[bytes] = (), output: Callable[[bytes], object] = lambda data: None
    ) -> ExecResult:
        """Run a command. Raises ConnectionLost if the connection breaks meanwhile."""
        try:
            return run_command(self.client, self.namespace, self.pod, self.name, command, stdin, output)
        except CommandNotStarted as problem:
            if "executable file not found" in str(problem) or "no such file" in str(problem):
                raise TaskFailed(f"{self} has no shell. Use an image with {_TOOLS}.") from None
            raise TaskFailed(f"{self} cannot run commands: {problem}") from None
        except ApiError as error:
            if error.is_forbidden:
                # The API server asks for ``create`` from 1.35 on, and does not say so (registry/core/pod/rest).
                missing = missing_permission(error.message) or MissingPermission(
                    "", "create", "pods/exec", self.namespace
                )
                raise TaskFailed(f"running commands in {self} is forbidden. {missing.sentences}") from None
            raise

    def list_files(self, command: Sequence[str], stdin: Sequence[bytes] = ()) -> Listing:
        """What a listing command of copy_scripts.py prints."""
        output = bytearray()
        lines = 0

        def collect(data: bytes) -> None:
            nonlocal lines
            output.extend(data)
            lines += data.count(b"\n")
            if len(output) > _MAX_LISTING or lines > _MAX_LINES:
                raise TaskFailed(
                    f"too many files in {self} to copy at once. Copy parts of the directory, or an archive."
                )

        try:
            result = self.run(command, stdin, collect)
        except ConnectionLost as problem:
            raise TaskFailed(f"{problem} Nothing was copied. Run the task again.") from None
        try:
            listing = parse_listing(bytes(output))
        except ValueError as problem:
            reason = failure_text(result) if result.exit_code else one_line(str(problem))
            raise TaskFailed(f"{self} cannot list files: {reason}.") from None
        if listing.lacks:
            raise TaskFailed(f"{self} lacks {', '.join(map(one_line, listing.lacks))}. Use an image with {_TOOLS}.")
        if result.exit_code:
            raise TaskFailed(f"{self} cannot list files: {failure_text(result)}.")
        return listing


def failure_text(result: ExecResult) -> str:
    """What a command said when it failed, in one line."""
    lines = [one_line(line) for line in result.stderr.splitlines() if line.strip()]
    return "; ".join(lines[-3:]).rstrip(".") or f"exit code {result.exit_code}"
