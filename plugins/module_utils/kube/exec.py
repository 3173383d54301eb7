# SPDX-License-Identifier: BSD-2-Clause
"""Run a command in a container: the subresource exec of pods, over a WebSocket.

The first byte of each message is its channel (apimachinery, pkg/util/remotecommand/constants.go). Output is read while
stdin is sent, else both sides could wait for each other; in one thread, because OpenSSL allows no two on a connection.
"""

from __future__ import annotations

import json
import selectors
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .answer import read_json
from .client import Client
from .errors import ApiError, ConnectionProblem, KubeError, as_sentence, cut
from .limits import COMMAND_SECONDS, FRAME_BYTES, HANDSHAKE, MESSAGES, SLOWEST, Allowance, TooMuchData
from .resources import POD

# Version 5 can close stdin, version 4 (servers before Kubernetes 1.30) cannot. With both, commands learn the size of
# their stdin instead. They have to read all of it: between API server and kubelet the streams share one connection
# without flow control (moby/spdystream), where unread data holds back the status of an ended command.
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS = range(4)

# kubectl's (client-go/tools/remotecommand/websocket.go, pingPeriod): a command may be silent for long, the server not.
_PING_SECONDS = 5.0
_TLS_RECORD = 16_384  # bytes; what fits is written without waiting
_MAX_STDERR = 4_096  # bytes
_MAX_STATUS = 65_536


@dataclass(frozen=True)
class ExecResult:
    """How a command ended. ``stderr`` is the end of what it wrote there."""

    exit_code: int
    stderr: str


class CommandNotStarted(KubeError):
    """The container runtime could not run the command; most often, the container does not have it."""


class NoWebSocket(ConnectionProblem):
    """The answer to the handshake is not from an API server."""

    def __init__(self, url: str, answer: str, *, is_transient: bool = False) -> None:
        super().__init__(
            f"no WebSocket to the API server at {url.partition('?')[0]}: {as_sentence(cut(answer))} A proxy or load "
            f"balancer in between has to pass WebSockets on."
        )
        self.is_transient = is_transient


class ConnectionLost(ConnectionProblem):
    """The connection broke before the command's end. ``may_be_written``: it had received all of its stdin."""

    is_transient = False

    def __init__(self, message: str, *, may_be_written: bool) -> None:
        super().__init__(message)
        self.may_be_written = may_be_written


def exec_path(path: str, container: str, command: Sequence[str]) -> str:
    """Path and query for a command (core/v1 PodExecOptions)."""
    streams = [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    query = [("container", container), *streams, *(("command", word) for word in command)]
    return f"{quote(path)}?{urlencode(query)}"


def run_command(
    client: Client,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    stdin: Iterable[bytes] = (),
    output: Callable[[bytes], object] = lambda data: None,
) -> ExecResult:
    """Run a command in a container to its end; ``output`` is called with what it writes to stdout.

    Raises ConnectionLost if the connection breaks or the server gives no sign of life for the request timeout, and
    CommandNotStarted if the command cannot be run.
    """
    websocket = client.transport.connect(exec_path(f"{POD.path(namespace, pod)}/exec", container, command), _handshake)
    try:
        return _Conversation(websocket, client.request_timeout, iter(stdin), output).run()
    finally:
        websocket.shutdown()


def _handshake(connection: Any, url: str, headers: Any) -> Any:
    """The open WebSocket. Raises ApiError for a refusal, and ConnectionProblem for an answer of another server."""
    from websocket import (
        WebSocket,
        WebSocketBadStatusException,
        WebSocketConnectionClosedException,
        WebSocketException,
        WebSocketTimeoutException,
    )

    from .metered import MeteredSocket

    websocket: Any = WebSocket(skip_utf8_validation=True)
    websocket.settimeout(connection.gettimeout())
    try:
        websocket.connect(
            url.replace("http", "ws", 1),
            socket=MeteredSocket(connection, HANDSHAKE),
            header=[f"{name}: {value}" for name, value in headers.iteritems()],
            subprotocols=list(_PROTOCOLS),
            suppress_origin=True,
            redirect_limit=0,  # The credentials are for this server alone.
        )
    except WebSocketBadStatusException as problem:
        connection.close()
        status = read_json(getattr(problem, "resp_body", None) or b"") or {}
        if status.get("kind") != "Status":
            raise NoWebSocket(url, f"HTTP {problem.status_code}", is_transient=problem.status_code >= 500) from None
        raise ApiError("GET", urlsplit(url).path, problem.status_code, status) from None
    except (WebSocketTimeoutException, TimeoutError):
        connection.close()
        raise TimeoutError("timed out") from None
    except TooMuchData as problem:
        connection.close()
        raise NoWebSocket(url, f"more than {problem} of headers") from None
    except WebSocketConnectionClosedException as problem:
        connection.close()
        raise ConnectionError(str(problem)) from None
    except WebSocketException as problem:
        connection.close()
        raise NoWebSocket(url, str(problem)) from None
    return websocket


class _Conversation:
    """The messages of one command, until its status arrives."""

    def __init__(
        self, websocket: Any, timeout: float, stdin: Iterator[bytes], output: Callable[[bytes], object]
    ) -> None:
        self._websocket = websocket
        self._socket = websocket.sock  # a MeteredSocket
        self._timeout = timeout
        self._stdin = stdin
        self._output = output
        self._outgoing = memoryview(b"")
        self._pong = memoryview(b"")
        self._stdin_ended = False
        self._channel = _STDOUT
        self._stderr = b""
        self._status = b""
        self._last_sign = self._began = time.monotonic()
        self._transferred = self._messages = 0

    def run(self) -> ExecResult:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                if not self._outgoing:
                    self._outgoing, self._pong = self._pong or self._next_message(), memoryview(b"")
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
                selector.modify(self._socket, events)
                ready = _buffered(self._socket) or sum(mask for _key, mask in selector.select(_PING_SECONDS))
                if time.monotonic() > self._began + COMMAND_SECONDS + self._transferred / SLOWEST:
                    raise self._lost(f"the command has not ended within {COMMAND_SECONDS:g} s")
                if ready:
                    self._last_sign = time.monotonic()
                elif time.monotonic() - self._last_sign > self._timeout:
                    raise self._lost(f"no sign of life for {self._timeout:g} s")
                elif not self._outgoing:
                    self._outgoing = self._message(_opcodes().OPCODE_PING, b"")
                if ready & selectors.EVENT_READ:
                    self._receive()
                elif ready & selectors.EVENT_WRITE:
                    self._send()
                if (result := self._result()) is not None:
                    return result

    # -- sending

    def _next_message(self) -> memoryview:
        data = b"" if self._stdin_ended else next((data for data in self._stdin if data), b"")
        if not data:
            self._stdin_ended = True
            return memoryview(b"")
        return self._message(_opcodes().OPCODE_BINARY, bytes([_STDIN]) + data)

    def _message(self, opcode: int, data: bytes) -> memoryview:
        return memoryview(_opcodes().create_frame(data, opcode).format())

    def _send(self) -> None:
        try:
            sent = self._socket.send(self._outgoing[:_TLS_RECORD])
        except OSError as problem:
            # The server hangs up on stdin that the command does not read: what it said before that explains why.
            with suppress(ConnectionLost):
                while self._result() is None:
                    self._receive()
            self._outgoing = memoryview(b"")
            self._stdin = iter(())
            if self._result() is None:
                raise self._lost(str(problem)) from None
        else:
            self._outgoing = self._outgoing[sent:]
            self._transferred += sent

    # -- receiving

    def _receive(self) -> None:
        from websocket import WebSocketException

        codes = _opcodes()
        try:
            self._socket.meter.allow(Allowance(FRAME_BYTES, self._timeout))
            frame = self._websocket.recv_frame()
        except (WebSocketException, OSError) as problem:
            raise self._lost(cut(str(problem))) from None
        except TooMuchData as problem:
            raise self._lost(f"a message of more than {problem}") from None
        data: bytes = frame.data
        self._messages += 1
        if self._messages > MESSAGES + self._transferred:
            raise self._lost(f"more than {MESSAGES} messages without output")
        if frame.opcode == codes.OPCODE_CLOSE:
            raise self._lost("closed by the server")
        if frame.opcode in (codes.OPCODE_BINARY, codes.OPCODE_TEXT):
            if not data:
                return
            self._channel, data = data[0], data[1:]
        elif frame.opcode == codes.OPCODE_PING:
            # Of a proxy in between, which may hang up without an answer. The latest is enough (RFC 6455, 5.5.3).
            self._pong = self._message(codes.OPCODE_PONG, data)
            return
        elif frame.opcode != codes.OPCODE_CONT:
            return  # a pong
        if self._channel == _STDOUT and data:
            self._transferred += len(data)
            self._output(data)
        elif self._channel == _STDERR:
            self._stderr = (self._stderr + data)[-_MAX_STDERR:]
        elif self._channel == _STATUS:
            self._status = (self._status + data)[:_MAX_STATUS]

    def _result(self) -> ExecResult | None:
        """The status of the command once it has arrived (kubelet, remotecommand/exec.go, ``ServeExec``)."""
        if not self._status:
            return None
        try:
            status = json.loads(self._status)
            if status["status"] == "Success":
                return ExecResult(0, self._error_text())
            causes = (status.get("details") or {}).get("causes") or ()
            codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._lost("the status of the command cannot be read") from None
        if codes:
            return ExecResult(codes[0], self._error_text())
        raise CommandNotStarted(cut(str(status.get("message") or "no explanation given")))

    def _error_text(self) -> str:
        return self._stderr.decode("utf-8", "replace").strip()

    def _lost(self, why: str) -> ConnectionLost:
        said = f" The container reported: {self._error_text()}" if self._stderr else ""
        text = f"lost the connection to the container: {as_sentence(why)}{said}"
        # Its end is only noticed once all of it was sent; what is outgoing then is a ping.
        return ConnectionLost(text, may_be_written=self._stdin_ended)


def _buffered(connection: Any) -> int:
    """EVENT_READ if TLS has received data that the operating system no longer knows of."""
    # A connection through a proxy that speaks TLS itself has several buffers (urllib3.util.ssltransport).
    layers = (connection, *(getattr(connection, name, None) for name in ("incoming", "sslobj", "socket")))
    held = (getattr(layer, "pending", 0) for layer in layers)
    return selectors.EVENT_READ if any(pending() if callable(pending) else pending for pending in held) else 0


def _opcodes() -> Any:
    from websocket import ABNF

    return ABNF
