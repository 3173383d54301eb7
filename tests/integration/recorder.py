# SPDX-License-Identifier: BSD-2-Clause
"""A proxy in front of any cluster that records every request."""

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

Permission = tuple[str, str, str]  # verb, API group, resource or resource/subresource

_FORWARDED = frozenset({"accept", "content-type", "impersonate-group", "impersonate-user", "user-agent"})


@dataclass
class Request:
    """``status`` is 0 until the response arrives. ``received``: the bytes of its body, 0 for a watch."""

    method: str
    path: str
    dry_run: bool
    query: str = ""
    status: int = 0
    received: int = 0

    @property
    def permissions(self) -> set[Permission]:
        """What RBAC must allow for this request; an apply that creates its object takes two permissions."""
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
    """``kubeconfig`` leads through the proxy; ``requests`` has all requests since the last ``clear()``.

    ``before`` is called with each request before it is forwarded, in the thread of its connection: there a test changes
    the cluster, or delays the request. Requests are forwarded with the credentials of ``identity``.
    """

    kubeconfig: Path
    url: str
    identity: Api
    requests: list[Request] = field(default_factory=list)
    before: Callable[[Request], object] = lambda request: None

    @property
    def writes(self) -> list[str]:
        """What may have changed the cluster: neither dry runs nor what is asked about the client."""
        asking = ("/selfsubjectreviews", "/selfsubjectaccessreviews")
        sent = (request for request in self.requests if request.method != "GET" and not request.dry_run)
        return [str(request) for request in sent if not request.path.endswith(asking)]

    @property
    def dry_runs(self) -> list[str]:
        return [str(request) for request in self.requests if request.dry_run]

    def clear(self) -> None:
        self.requests.clear()
        self.before = lambda request: None


class Server(ThreadingHTTPServer):
    """Accepts all connections that a task opens at once; with a full queue the client would retry after a second."""

    request_queue_size = 128  # of socketserver: 5
    block_on_close = False


def start(api: Api, directory: Path) -> tuple[Recorder, Server]:
    """Serve on a free local port. Requests that impersonate are forwarded as ``api``: no other account may."""
    recorder = Recorder(directory / "recorded.kubeconfig", "", api)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Without this the kernel delays small responses by up to 40 ms (Nagle and delayed ACK).
        disable_nagle_algorithm = True

        def forward(self) -> None:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            # The server reads the options of a deletion from its body alone, if it has one. Those of Go's clients may
            # be protobuf, which is not looked into.
            in_body = self.command == "DELETE" and "json" in self.headers.get("Content-Type", "")
            dry_run = bool(json.loads(body or b"{}").get("dryRun")) if in_body else "dryRun" in parse_qs(split.query)
            request = Request(self.command, split.path, dry_run, split.query)
            recorder.requests.append(request)
            recorder.before(request)
            identity = api if "Impersonate-User" in self.headers else recorder.identity
            headers = HTTPHeaderDict(identity.headers)
            for name, value in self.headers.items():
                if name.lower() in _FORWARDED:
                    headers.add(name, value)
            answer = identity.pool.request(
                self.command,
                identity.server + self.path,
                body=body,
                headers=headers,
                retries=False,
                preload_content=not request.watch,
            )
            request.status = answer.status
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After", "Warning"):
                for value in answer.headers.getlist(name):
                    self.send_header(name, value)
            if request.watch:
                self.stream(answer)
                return
            request.received = len(answer.data)
            self.send_header("Content-Length", str(request.received))
            self.end_headers()
            self.wfile.write(answer.data)

        def stream(self, answer: BaseHTTPResponse) -> None:
            """Forward chunk by chunk until either side closes."""
            self.close_connection = True
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            upstream = socket.socket(fileno=os.dup(answer.fileno()))
            threading.Thread(target=self.end_with_client, args=(upstream,), daemon=True).start()
            with upstream, suppress(OSError, HTTPError):
                for chunk in answer.stream():
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                self.wfile.write(b"0\r\n\r\n")
            answer.close()

        def end_with_client(self, upstream: socket.socket) -> None:
            with suppress(OSError):
                self.connection.recv(1, socket.MSG_PEEK)  # It sends nothing more: this returns when it disconnects.
                upstream.shutdown(socket.SHUT_RDWR)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward

        def log_message(self, format: str, *args: object) -> None:
            """``requests`` is the log."""

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
                "users": [{"name": "recorded", "user": {"token": "replaced-by-the-proxy"}}],
                "contexts": [{"name": "recorded", "context": {"cluster": "recorded", "user": "recorded"}}],
            }
        )
    )
    return recorder, server
