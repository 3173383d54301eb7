# SPDX-License-Identifier: BSD-2-Clause
"""A server in the place of the API server that answers as it likes, and tasks that are sent to it.

It writes bytes, because no library sends such answers. The other servers of the tests (kubesim, the conversation of
the unit tests, the proxy of tests/chaos) behave.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR, create_server, socket
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import resources
from integration.ansible import ROOT

JSON = "Content-Type: application/json\r\n"


@dataclass
class Visitor:
    """A request, and the connection to answer it on."""

    head: str
    body: bytes
    connection: socket
    stopped: threading.Event

    @property
    def method(self) -> str:
        return self.head.split(" ", 1)[0]

    @property
    def path(self) -> str:
        return self.head.split(" ", 2)[1]

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def drip(self, data: bytes, seconds: float = 0.2) -> None:
        """A byte from time to time, and the last ones over and over."""
        while not self.stopped.wait(seconds):
            self.send(data[:1])
            data = data[1:] or data

    def flood(self, data: bytes, first: bytes = b"") -> None:
        """The same again and again."""
        self.send(first)
        while not self.stopped.is_set():
            self.send(data)

    def answer(self, body: bytes, status: str = "200 OK", headers: str = JSON) -> None:
        self.send(
            f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        )

    def begin(self, headers: str = JSON) -> None:
        """The head of an answer in chunks."""
        self.send(f"HTTP/1.1 200 OK\r\n{headers}Transfer-Encoding: chunked\r\n\r\n".encode())

    def list(self, items: bytes = b"[]", **metadata: str) -> None:
        """A list of what was asked for."""
        head = json.dumps({"kind": self.kind, "metadata": {"resourceVersion": "1", **metadata}})[:-1]
        self.answer(head.encode() + b', "items": ' + items + b"}")

    @property
    def kind(self) -> str:
        """That of the list at the path."""
        return f"{_KINDS.get(self.path.partition('?')[0].rpartition('/')[2], 'Pod')}List"


_KINDS = {value.plural: value.kind for value in vars(resources).values() if isinstance(value, resources.Resource)}


@dataclass
class Hostile:
    """``heads`` are those of the requests."""

    url: str
    heads: list[str] = field(default_factory=list)


@contextmanager
def hostile(answer: Callable[[Visitor], object], context: ssl.SSLContext | None = None) -> Iterator[Hostile]:
    """A server on this machine whose every request is answered so; ``context`` makes it speak TLS."""
    listener, stopped = create_server(("127.0.0.1", 0), backlog=64), threading.Event()
    server = Hostile(f"http{'s' if context else ''}://localhost:{listener.getsockname()[1]}")

    def serve(connection: socket) -> None:
        with suppress(OSError, ValueError, IndexError), connection:
            speaking = context.wrap_socket(connection, server_side=True) if context else connection
            with speaking, speaking.makefile("rb") as stream:
                lines = [stream.readline().decode()]
                while (line := stream.readline().decode()) not in ("", "\r\n"):
                    lines.append(line)
                sizes = [int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:")]
                server.heads.append("".join(lines))
                answer(Visitor("".join(lines), stream.read(sum(sizes)), speaking, stopped))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        stopped.set()
        listener.shutdown(SHUT_RDWR)
        listener.close()


@dataclass(frozen=True)
class Outcome:
    """What became of a task. ``mebibytes``: the most memory that its process had."""

    result: dict[str, Any]
    seconds: float
    mebibytes: float
    errors: str

    @property
    def message(self) -> str:
        return str(self.result["msg"])


# What a module does with its arguments, without the time that Ansible takes to start it.
_RUN = """
import importlib, json, resource, sys
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task

place, options = sys.argv[1:]
spec = importlib.import_module("ansible_collections.runwhere.gpuctl.plugins.module_utils." + place).MODULE
params = ArgumentSpecValidator(**spec.arguments()).validate(json.loads(options)).validated_parameters
warnings = []
result = run_task(Task(spec.options.from_params(params), params, False, warnings.append, lambda values: None), spec)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"result": {**result, "warnings": warnings}, "peak": peak}))
"""


def run(place: str, url: str, **options: Any) -> Outcome:
    """The outcome of a task with the module in that place of module_utils, as an account with a token."""
    given = {"host": url, "api_key": "very-secret", "request_timeout": 2, **options}
    environment = {"PYTHONPATH": str(ROOT / ".cache" / "collections"), "HOME": "/nonexistent"}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, place, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
    )
    assert done.stdout, done.stderr[-2000:]
    found = json.loads(done.stdout)
    return Outcome(found["result"], time.monotonic() - began, found["peak"], done.stderr)
