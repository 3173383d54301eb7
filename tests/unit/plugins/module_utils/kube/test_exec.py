# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of a command whose WebSocket is refused, answered by somebody else, or silent.

tests/integration/test_copy.py runs commands that succeed.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError, ConnectionProblem
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.exec import exec_path

PATH = "/api/v1/namespaces/ml/pods/x/exec"
PAGE = "<html>Sign in</html>"


@contextmanager
def server(*answers: bytes | None) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the heads of the requests that it gets; an answer for each: None keeps silent."""
    listener = socket.create_server(("127.0.0.1", 0))
    heads: list[str] = []
    silent: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            for answer in answers:
                connection, _address = listener.accept()
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += connection.recv(1)
                heads.append(head.decode())
                if answer is None:
                    silent.append(connection)
                    continue
                connection.sendall(answer)
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", heads
    for connection in silent:
        connection.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def http(status: str, body: str, kind: str = "application/json", **headers: str) -> bytes:
    named = {"Content-Type": kind, "Content-Length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items()), "", body]
    return "\r\n".join(lines).encode()


def status(code: int, message: str) -> bytes:
    return http(f"{code} No", json.dumps({"kind": "Status", "code": code, "reason": "No", "message": message}))


def run(url: str, *, timeout: float = 30, retries: int = 2, **more: str) -> None:
    connection = Connection(url, lambda: {"Authorization": "Bearer secret"}, request_timeout=timeout, retries=retries)
    Client(connection, sleep=lambda seconds: None).run_command("ml", "x", "main", ["sh", "-c", "a b", ""])


def test_the_request():
    with server(status(400, "no")) as (url, heads), pytest.raises(ApiError):
        run(url)
    (head,) = heads
    first, *lines = head.splitlines()
    assert first == (
        f"GET {PATH}?container=main&stdin=true&stdout=true&stderr=true"
        "&command=sh&command=-c&command=a+b&command= HTTP/1.1"
    )
    headers = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines if line}
    assert headers["authorization"] == "Bearer secret"
    assert headers["user-agent"] == "runwhere.gpuctl"
    assert headers["sec-websocket-protocol"] == "v5.channel.k8s.io,v4.channel.k8s.io"
    assert "origin" not in headers


def test_names_are_quoted():
    assert exec_path("/a b", "c&d", ["é"]).startswith("/a%20b?container=c%26d&")


def test_a_refusal():
    with (
        server(status(403, "no way")) as (url, heads),
        pytest.raises(ApiError, match="no way") as error,
    ):
        run(url)
    assert error.value.path == PATH
    assert len(heads) == 1


@pytest.mark.parametrize("answer", [status(503, "busy"), status(429, "busy"), b""], ids=["503", "429", "reset"])
def test_what_may_pass_is_tried_again(answer: bytes):
    with server(answer, status(400, "no")) as (url, heads), pytest.raises(ApiError, match="no"):
        run(url)
    assert len(heads) == 2


def test_a_server_that_stays_busy():
    with server(*[status(503, "busy")] * 3) as (url, heads), pytest.raises(ApiError, match="HTTP 503"):
        run(url)
    assert len(heads) == 3


PAGES = {
    "a page": (http("200 OK", PAGE, "text/html"), "HTTP 200"),
    "a page that says no": (http("403 Forbidden", PAGE, "text/html"), "HTTP 403"),
    "another object": (http("404 Not Found", "{}"), "HTTP 404"),
    "a redirect": (http("302 Found", "", Location="http://127.0.0.1:1/login"), "Redirect limit exhausted"),
    "another protocol": (http("101 Switching Protocols", "", Upgrade="h2c", Connection="Upgrade"), "Invalid WebSocket"),
}


@pytest.mark.parametrize(("answer", "said"), PAGES.values(), ids=PAGES)
def test_an_answer_of_somebody_else(answer: bytes, said: str):
    with server(answer) as (url, heads), pytest.raises(ConnectionProblem) as problem:
        run(url)
    message = str(problem.value)
    assert message.startswith(f"no WebSocket to the API server at {url}{PATH}: {said}")
    assert message.endswith(" A proxy or load balancer in between has to pass WebSockets on.")
    assert "<" not in message
    assert len(heads) == 1, "the credentials are sent to nobody else"


def test_a_silent_server_is_given_up_after_request_timeout():
    with (
        server(None, None, None) as (url, _heads),
        pytest.raises(ConnectionProblem, match=r"no answer within 0 s \(request_timeout\)"),
    ):
        run(url, timeout=0.2)


def test_no_server():
    with server() as (url, _heads):
        pass
    with pytest.raises(ConnectionProblem, match=r"^cannot reach the API server"):
        run(url)
