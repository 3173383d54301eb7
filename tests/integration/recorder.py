# SPDX-License-Identifier: BSD-2-Clause
"""A proxy that stands before the cluster and writes down every request, so that any cluster's can be counted."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import yaml
from kubesim import parse_request
from urllib3 import BaseHTTPResponse, HTTPHeaderDict
from urllib3.exceptions import HTTPError

from .api import Api

Right = tuple[str, str, str]  # verb, API group, resource or resource/subresource

_PASSED = frozenset({"accept", "content-type", "impersonate-group", "impersonate-user", "user-agent"})


@dataclass
class Request:
    """``status`` is that of the answer, 0 until there is one."""

    method: str
    path: str
    dry_run: bool
    query: str = ""
    status: int = 0

    @property
    def rights(self) -> set[Right]:
        """What RBAC has to allow for this request; an apply that makes its object needs two rights."""
        info = parse_request(self.method, self.path, {k: v[0] for k, v in parse_qs(self.query).items()})
        resource = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
        created = {"create"} if self.method == "PATCH" and self.status == 201 else set()
        return {(verb, info.group, resource) for verb in {info.verb, *created}}

    @property
    def watch(self) -> bool:
        return "watch" in parse_qs(self.query)

    def __str__(self) -> str:
        return f"{'WATCH' if self.watch else self.method} {self.path}{' (dry run)' if self.dry_run else ''}"


@dataclass
class Recorder:
    """``kubeconfig`` leads through the proxy; ``requests`` is what came through since the last ``clear()``.

    ``before`` is called with each request before it is passed on, in a thread of its own: a test lets things happen at
    that very moment, or holds the request back. ``identity`` is in whose name requests are passed on.
    """

    kubeconfig: Path
    url: str
    identity: Api
    requests: list[Request] = field(default_factory=list)
    before: Callable[[Request], object] = lambda request: None

    @property
    def writes(self) -> list[str]:
        return [str(request) for request in self.requests if request.method != "GET" and not request.dry_run]

    @property
    def dry_runs(self) -> list[str]:
        return [str(request) for request in self.requests if request.dry_run]

    def clear(self) -> None:
        self.requests.clear()
        self.before = lambda request: None


class Server(ThreadingHTTPServer):
    """Takes all connections that a task opens at once: of those beyond its queue the client tries again in a second."""

    request_queue_size = 128  # of socketserver: 5
    block_on_close = False


def start(api: Api, directory: Path) -> tuple[Recorder, Server]:
    """Serve on a free port of this machine. ``api`` is for requests that impersonate: no other account may."""
    recorder = Recorder(directory / "recorded.kubeconfig", "", api)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Answers are small: without this the kernel holds each back for up to 40 ms (Nagle and delayed ACK).
        disable_nagle_algorithm = True

        def forward(self) -> None:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            # Where a deletion has a body, the server reads its options from there alone.
            in_body = self.command == "DELETE" and body is not None
            dry_run = bool(json.loads(body or b"{}").get("dryRun")) if in_body else "dryRun" in parse_qs(split.query)
            request = Request(self.command, split.path, dry_run, split.query)
            recorder.requests.append(request)
            recorder.before(request)
            identity = api if "Impersonate-User" in self.headers else recorder.identity
            passed = HTTPHeaderDict(identity.headers)
            for name, value in self.headers.items():
                if name.lower() in _PASSED:
                    passed.add(name, value)
            answer = identity.pool.request(
                self.command,
                identity.server + self.path,
                body=body,
                headers=passed,
                retries=False,
                preload_content=not request.watch,
            )
            request.status = answer.status
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            if request.watch:
                self.pass_on(answer)
                return
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)

        def pass_on(self, answer: BaseHTTPResponse) -> None:
            """A stream, piece by piece, until either side ends it."""
            self.close_connection = True
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            upstream = socket.socket(fileno=os.dup(answer.fileno()))
            threading.Thread(target=self.end_with_client, args=(upstream,), daemon=True).start()
            with upstream, suppress(OSError, HTTPError):
                for piece in answer.stream():
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
            answer.close()

        def end_with_client(self, upstream: socket.socket) -> None:
            with suppress(OSError):
                self.connection.recv(1, socket.MSG_PEEK)  # It says nothing more, so this returns when it has gone.
                upstream.shutdown(socket.SHUT_RDWR)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward

        def log_message(self, format: str, *args: object) -> None:
            """The record is the log."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    recorder.url = f"http://127.0.0.1:{server.server_port}"
    recorder.kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "recorded",
                "clusters": [{"name": "recorded", "cluster": {"server": recorder.url}}],
                "users": [{"name": "recorded", "user": {"token": "the-proxy-has-its-own"}}],
                "contexts": [{"name": "recorded", "context": {"cluster": "recorded", "user": "recorded"}}],
            }
        )
    )
    return recorder, server
