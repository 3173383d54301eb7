# SPDX-License-Identifier: BSD-2-Clause
"""A server that answers queries as the test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request; ``parameters`` of its query or form."""

    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """``body``: JSON, or the text of something else."""

    body: Any = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Double:
    url: str
    asked: list[Asked] = field(default_factory=list)


def success(data: Any, **more: Any) -> Reply:
    return Reply({"status": "success", "data": data, **more})


def vector(*samples: tuple[dict[str, str], str]) -> Reply:
    result = [{"metric": labels, "value": [1000.0, value]} for labels, value in samples]
    return success({"resultType": "vector", "result": result})


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> Reply:
    result = [{"metric": labels, "values": [list(point) for point in points]} for labels, points in series]
    return success({"resultType": "matrix", "result": result})


@contextmanager
def prometheus_double(answer: Callable[[Asked], Reply]) -> Iterator[Double]:
    """Serve what ``answer`` returns for each request."""
    double = Double("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _reply(self, parameters: str) -> None:
            values = {name: value[0] for name, value in parse_qs(parameters).items()}
            asked = Asked(self.command, urlsplit(self.path).path, values, dict(self.headers))
            double.asked.append(asked)
            reply = answer(asked)
            is_text = isinstance(reply.body, str)
            body = (reply.body if is_text else json.dumps(reply.body)).encode()
            self.send_response(reply.status)
            for name, value in {
                "Content-Type": "text/plain" if is_text else "application/json",
                **reply.headers,
                "Content-Length": str(len(body)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    double.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield double
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def utilized(asked: Asked) -> Reply:
    """One series of half a unit, whatever is asked."""
    if not asked.path.endswith("query_range"):
        return vector(({}, "0.5"))
    start, end, step = (float(asked.parameters[name]) for name in ("start", "end", "step"))
    return matrix(
        ({"namespace": "team-a"}, [(start + number * step, "0.5") for number in range(int((end - start) / step) + 1)])
    )
