# SPDX-License-Identifier: BSD-2-Clause
"""Servers that take notifications: one for HTTP, which answers as the test says, and one for mail."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """``answers``: status, body and headers, one for each request; the last one for all that follow."""

    url: str
    answers: list[tuple[int, str, dict[str, str]]] = field(default_factory=lambda: [(200, "ok", {})])
    requests: list[Received] = field(default_factory=list)


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    receiver = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append(Received(self.path, dict(self.headers), body))
            status, text, headers = receiver.answers[min(len(receiver.requests), len(receiver.answers)) - 1]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *unused: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield receiver
    server.shutdown()
    server.server_close()


@dataclass
class Mails:
    port: int = 0
    texts: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """What is said of a recipient, by a part of its address."""


@contextmanager
def mail_receiver() -> Iterator[Mails]:
    """An SMTP server (RFC 5321) without encryption."""
    mails = Mails()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 mail.example.com")
            while line := self.rfile.readline().decode().strip():
                verb = line.split(":")[0].split()[0].upper()
                if verb == "DATA":
                    self._say("354 go on")
                    lines = iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), ".")
                    mails.texts.append("\n".join(lines))
                refusals = (said for name, said in mails.refused.items() if verb == "RCPT" and name in line)
                self._say("221 bye" if verb == "QUIT" else next(refusals, "250 ok"))
                if verb == "QUIT":
                    return

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        mails.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield mails
        server.shutdown()
