# SPDX-License-Identifier: BSD-2-Clause
"""A scripted API server: a test lists the exact HTTP conversation, in order, to the last request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import resources
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import Resource


@dataclass
class Exchange:
    """One expected request and its response.

    ``status`` 0 breaks the connection instead of responding; ``cut`` breaks it one byte before the promised end.
    ``sent_bytes`` are in the body as it is sent. ``arrived`` is set when the request comes.
    """

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    sent: Any = None
    sent_bytes: bytes = b""
    status: int = 200
    answer: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    expect_headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    arrived: threading.Event = field(default_factory=threading.Event)


def _identity(exchange: Exchange, accept: str) -> dict[str, Any]:
    """What every answer of an API server says of itself, for the tests that leave it out: its kind, and its name."""
    if exchange.status >= 400:
        return {"kind": "Status"}
    if exchange.method == "DELETE":
        return {"kind": "Status", "status": "Success", "details": {"name": exchange.path.rpartition("/")[2]}}
    *parents, last = exchange.path.split("/")
    kinds = {resource.plural: resource.kind for resource in vars(resources).values() if isinstance(resource, Resource)}
    if last in kinds and exchange.method == "GET":
        return {"kind": "PartialObjectMetadataList" if "as=Partial" in accept else f"{kinds[last]}List"}
    plural, name = (last, exchange.sent["metadata"]["name"]) if last in kinds else (parents[-1], last)
    kind = "PartialObjectMetadata" if "as=Partial" in accept else kinds.get(plural, "")
    return {"kind": kind, "metadata": {"name": name}}


@contextmanager
def conversation(*exchanges: Exchange) -> Iterator[str]:
    """Serve the exchanges in order at the yielded URL; fail if the client sends anything else."""
    pending = list(exchanges)
    mistakes: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            body = json.loads(data) if length else None
            request = (self.command, split.path, dict(parse_qsl(split.query)))
            if not pending:
                mistakes.append(f"unexpected: {request}")
                self.send_error(599)
                return
            exchange = pending.pop(0)
            exchange.arrived.set()
            expected = (exchange.method, exchange.path, exchange.query)
            if request != expected:
                mistakes.append(f"expected {expected}, got {request}")
            if exchange.sent is not None and body != exchange.sent:
                mistakes.append(f"{request}: expected body {exchange.sent}, got {body}")
            if exchange.sent_bytes not in data:
                mistakes.append(f"{request}: expected {exchange.sent_bytes!r} in the body, got {data!r}")
            for name, value in exchange.expect_headers.items():
                got = ", ".join(self.headers.get_all(name) or [])
                if got != value:
                    mistakes.append(f"{request}: expected header {name}: {value}, got {got}")
            if not exchange.status:
                self.close_connection = True
                self.connection.close()
                return
            text = exchange.answer
            if not isinstance(text, str):
                text = json.dumps({**_identity(exchange, self.headers["Accept"] or ""), **(exchange.answer or {})})
            self.send_response(exchange.status)
            for name, value in exchange.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode()) + exchange.cut))
            self.end_headers()
            self.wfile.write(text.encode())
            self.close_connection = self.close_connection or exchange.cut

        do_GET = do_PATCH = do_POST = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:
            """The test reports what went wrong; a log would only repeat it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.block_on_close = False  # The client keeps its connections open.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
    mistakes += [f"never sent: {exchange.method} {exchange.path}" for exchange in pending]
    assert not mistakes, "\n".join(mistakes)
