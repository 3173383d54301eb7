# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of a command whose WebSocket is refused, answered by another server, or silent.

tests/integration/test_copy.py runs commands that succeed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import exec
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client, cached_client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError, ConnectionProblem
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.exec import exec_path, run_command
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.limits import HEAD
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.metered import Meter
from integration.api import eventually
from integration.certificates import pem_files
from integration.cut_proxy import tcp_proxy
from kubesim import Cluster

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
    run_command(Client(connection, sleep=lambda seconds: None), "ml", "x", "main", ["sh", "-c", "a b", ""])


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


def test_a_page_of_a_load_balancer_that_is_busy():
    page = http("502 Bad Gateway", PAGE, "text/html")
    with server(page, status(400, "no")) as (url, heads), pytest.raises(ApiError, match="no"):
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
def test_an_answer_of_another_server(answer: bytes, said: str):
    with server(answer) as (url, heads), pytest.raises(ConnectionProblem) as problem:
        run(url)
    message = str(problem.value)
    assert message.startswith(f"no WebSocket to the API server at {url}{PATH}: {said}")
    assert message.endswith(" A proxy or load balancer in between has to pass WebSockets on.")
    assert "<" not in message
    assert len(heads) == 1, "the credentials are sent to no other server"


def test_a_silent_server_is_given_up_after_request_timeout():
    with (
        server(None, None, None) as (url, _heads),
        pytest.raises(ConnectionProblem, match=r"no answer within 0 s \(request_timeout\)"),
    ):
        run(url, timeout=0.2)


SUCCESS = b'{"status": "Success"}'


def frame(opcode: int, data: bytes) -> bytes:
    """Of a server: unmasked (RFC 6455, 5.2); less than 126 bytes."""
    return bytes([0x80 | opcode, len(data)]) + data


def received(connection: socket.socket) -> tuple[int, bytes]:
    """Opcode and data of a frame of the client: masked, and less than 126 bytes."""
    with connection.makefile("rb", buffering=0) as stream:
        opcode, length = stream.read(1)[0] & 0xF, stream.read(1)[0] & 0x7F
        mask = stream.read(4)
        return opcode, bytes(byte ^ mask[number % 4] for number, byte in enumerate(stream.read(length)))


def test_a_ping_is_answered():
    answers: list[tuple[int, bytes]] = []

    def serve() -> None:
        connection, _address = listener.accept()
        with connection:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += connection.recv(1)
            (key,) = re.findall(rb"(?i)sec-websocket-key: (\S+)", head)
            accept = b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            connection.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
            )
            connection.sendall(frame(0x9, b"hello"))
            answers.append(received(connection))
            connection.sendall(frame(0x2, b"\x03" + SUCCESS))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        run(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert answers == [(0xA, b"hello")]


def test_the_end_of_a_command_counts_although_its_stdin_was_not_wanted():
    from websocket import ABNF

    class HungUp:
        """A socket that takes nothing; the status of the command has arrived before."""

        def __init__(self, connection: socket.socket) -> None:
            self.sock = self
            self.fileno = connection.fileno
            self.meter = Meter(connection, HEAD)
            self.frames = [ABNF.create_frame(b"\x03" + SUCCESS, ABNF.OPCODE_BINARY)]

        def send(self, data: bytes) -> int:
            raise BrokenPipeError("hung up")

        def recv_frame(self) -> ABNF:
            if not self.frames:
                raise ConnectionResetError("closed")
            return self.frames.pop()

    near, far = socket.socketpair()
    with near, far:
        result = exec._Conversation(HungUp(near), 0.0, iter([b"unwanted"]), pytest.fail).run()
    assert result == exec.ExecResult(0, "")


def test_tls_to_a_proxy(tmp_path: Path):
    """The proxy delivers more at once than is read at once: what TLS has kept must not be waited for."""
    certificate, key = pem_files(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Cluster(nodes=1, tls=True, exec_root=tmp_path).running() as cluster, tcp_proxy(context=context) as proxy:
        spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "i"}]}
        pod = {"metadata": {"name": "x", "namespace": "default"}, "spec": spec}
        cluster.call(lambda: cluster.registry.create("Pod", pod))
        eventually(lambda: cluster.call(lambda: cluster.kubelet.is_running(pod, "main")))
        kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        # Less than the seconds between pings, which would bring the data that was overlooked.
        options = {"proxy": proxy.url, "validate_certs": False, "kubeconfig": kubeconfig, "request_timeout": 4}
        client, received = cached_client(options, {}), bytearray()
        sent = os.urandom(2_000_000)
        pieces = [sent[start : start + 65_536] for start in range(0, len(sent), 65_536)]
        run_command(client, "default", "x", "main", ["head", "-c", str(len(sent))], pieces, received.extend)
    assert received == sent


def test_no_server():
    with server() as (url, _heads):
        pass
    with pytest.raises(ConnectionProblem, match=r"^cannot reach the API server"):
        run(url)
