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


@dataclass
class Exchange:
    """One expected request and its response.

    ``status`` 0 breaks the connection instead of responding; ``cut`` breaks it one byte before the promised end.
    ``arrived`` is set when the request comes.
    """

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    sent: Any = None
    status: int = 200
    answer: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    expect_headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    arrived: threading.Event = field(default_factory=threading.Event)


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
            body = json.loads(self.rfile.read(length)) if length else None
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
            for name, value in exchange.expect_headers.items():
                got = ", ".join(self.headers.get_all(name) or [])
                if got != value:
                    mistakes.append(f"{request}: expected header {name}: {value}, got {got}")
            if not exchange.status:
                self.close_connection = True
                self.connection.close()
                return
            text = exchange.answer if isinstance(exchange.answer, str) else json.dumps(exchange.answer or {})
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
