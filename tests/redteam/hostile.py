# SPDX-License-Identifier: BSD-2-Clause
"""A server in the place of the API server that answers as it likes, and tasks that are sent to it.

It writes bytes, because no library sends such answers. The other servers of the tests (kubesim, the conversation of
the unit tests, the proxy of tests/chaos) behave.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from socket import SHUT_RDWR, create_server, socket
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import resources
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task
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
        """A list of what was asked for; single objects are not there."""
        if self.path.partition("?")[0].rpartition("/")[2] not in _KINDS:
            self.answer(b'{"kind":"Status","reason":"NotFound","message":"not found","code":404}', "404 Not Found")
            return
        head = json.dumps({"kind": self.kind, "metadata": {"resourceVersion": "1", **metadata}})[:-1]
        self.answer(head.encode() + b', "items": ' + items + b"}")

    @property
    def kind(self) -> str:
        """That of the list at the path."""
        if "as=PartialObjectMetadataList" in self.head:
            return "PartialObjectMetadataList"
        return f"{_KINDS[self.path.partition('?')[0].rpartition('/')[2]]}List"


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


def forward(visitor: Visitor, url: str, token: str) -> tuple[int, bytes]:
    """What another server answers to the request."""
    lines = (line.partition(": ") for line in visitor.head.splitlines()[1:])
    headers = {name: value for name, _colon, value in lines if name.lower() in ("accept", "content-type")}
    headers["Authorization"] = f"Bearer {token}"
    request = Request(url + visitor.path, visitor.body or None, headers, method=visitor.method)
    try:
        with urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


@dataclass(frozen=True)
class Outcome:
    """What became of a task. ``mebibytes``: the most memory that its process had, if it had one of its own."""

    result: dict[str, Any]
    seconds: float
    mebibytes: float = 0.0
    errors: str = ""

    @property
    def message(self) -> str:
        return str(self.result["msg"])


def perform(place: str, options: dict[str, Any]) -> dict[str, Any]:
    """The result of a task with the module in that place of module_utils: what Ansible does, without its own start."""
    spec = import_module(f"ansible_collections.runwhere.gpuctl.plugins.module_utils.{place}").MODULE
    params = ArgumentSpecValidator(**spec.arguments()).validate(options).validated_parameters
    warnings: list[str] = []
    task = Task(spec.options.from_params(params), params, False, warnings.append, lambda values: None)
    return {**run_task(task, spec), "warnings": warnings}


def run(place: str, url: str, *, own_process: bool = False, **options: Any) -> Outcome:
    """The outcome of a task, as an account with a token."""
    given = {"host": url, "api_key": "very-secret", "request_timeout": 2, **options}
    began = time.monotonic()
    if not own_process:
        return Outcome(perform(place, given), time.monotonic() - began)
    folders = [str(ROOT / ".cache" / "collections"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "redteam.hostile", place, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": os.pathsep.join(folders), "HOME": "/nonexistent"},
    )
    assert done.stdout, done.stderr[-2000:]
    return Outcome(**json.loads(done.stdout), seconds=time.monotonic() - began, errors=done.stderr)


if __name__ == "__main__":
    result = perform(sys.argv[1], json.loads(sys.argv[2]))
    # Not getrusage, which includes the process that started this one.
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps({"result": result, "mebibytes": int(peak) / 1024}))
