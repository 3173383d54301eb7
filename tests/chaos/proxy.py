# SPDX-License-Identifier: BSD-2-Clause
"""A proxy in front of an API server that numbers the requests of a run and breaks the one that it is asked to.

It speaks HTTP/1.1 over bare streams, because half an answer or a reset connection is nothing that a library sends. Each
run has a lane, a port of its own, to distinguish the requests of several writers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from integration.recorder import Request as RecordedRequest

from .faults import Fault

PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Service unavailable</h1></body></html>\n"
SLOW_SECONDS = 0.7
OUTAGE_SECONDS = 20.0
_REASONS = {
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", 'admission webhook "policy.example.com" denied the request: no room'),
    409: ("Conflict", "the object has been modified; please apply your changes to the latest version and try again"),
    410: ("Expired", "The provided continue parameter is too old"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "etcdserver: leader changed"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "Timeout: request did not complete within the requested timeout"),
}
_HOP_BY_HOP = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
_SIGNALS = {
    "kill": signal.SIGKILL,
    "kill-after": signal.SIGKILL,
    "interrupt": signal.SIGINT,
    "interrupt-after": signal.SIGINT,
}
_HOLDING = frozenset({"race", "race3", "freeze", "skew"})


@dataclass
class Request(RecordedRequest):
    """``fault`` is the one that has struck it. ``reached``: the server has got it. ``silence``: the seconds in which
    the client waited in vain; ``served``: those in which the server worked. ``unread``: the client had gone before
    the answer came."""

    number: int = 0
    fault: str = ""
    reached: bool = False
    silence: float = 0.0
    served: float = 0.0
    unread: bool = False

    @property
    def writes(self) -> bool:
        return self.method != "GET" and not self.dry_run

    @property
    def written(self) -> bool:
        """The server has processed it, whatever the client has learned of that."""
        return self.writes and self.reached and self.status < 300


@dataclass
class Plan:
    """Which request of a run is struck, and by what. ``always``: its repetitions as well.

    A fault that lets others act calls ``meanwhile`` in a thread of its own, while the request is held.
    """

    fault: Fault | None = None
    k: int = 0
    always: bool = False
    meanwhile: Callable[[], object] = lambda: None
    struck: tuple[str, str] | None = None
    since: float = 0.0

    def strikes(self, request: Request) -> bool:
        if self.fault is None or (self.fault.watch and not request.watch) or (self.fault.write and not request.writes):
            return False
        same = (request.method, f"{request.path} {request.dry_run} {request.watch}")
        if self.struck is not None:
            if self.fault.name == "outage":
                return time.monotonic() - self.since < OUTAGE_SECONDS
            return self.fault.name == "down" or (self.always and self.struck == same)
        # Watches have no place among the other requests that would be the same in each run.
        is_next = (self.fault.watch or self.fault.write) and request.number >= self.k
        if request.number != self.k and not is_next:
            return False
        self.struck, self.since = same, time.monotonic()
        return True


@dataclass
class Lane:
    """One writer's way to the server. ``pid`` is the process that sends, for faults that strike it."""

    url: str = ""
    plan: Plan = field(default_factory=Plan)
    requests: list[Request] = field(default_factory=list)
    pid: int = 0

    def begin(self, plan: Plan | None = None) -> None:
        """Number from 1 again."""
        self.plan, self.requests, self.pid = plan or Plan(), [], 0

    @property
    def fired(self) -> bool:
        return self.plan.struck is not None


@dataclass
class _Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Gone(Exception):
    """The client or the server has closed its connection."""


class Proxy:
    """Serves from a thread of its own. ``target`` may change between runs: a new simulated cluster each time."""

    def __init__(self, target: str = "") -> None:
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._idle: dict[str, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = {}
        self._servers: list[asyncio.AbstractServer] = []
        self._clients: set[asyncio.Task[None] | None] = set()  # the loop itself forgets tasks that wait

    def lane(self) -> Lane:
        lane = Lane()

        async def serve() -> asyncio.AbstractServer:
            async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await self._client(lane, reader, writer)

            return await asyncio.start_server(client, "127.0.0.1", 0, limit=1 << 26, backlog=128)

        server = asyncio.run_coroutine_threadsafe(serve(), self._loop).result(30)
        self._servers.append(server)
        lane.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return lane

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    # -- the client's side

    async def _client(self, lane: Lane, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, headers = _parse_head(head)
                body = await reader.readexactly(int(_value(headers, "content-length") or 0))
                request = _describe(method, path, body)
                lane.requests.append(request)
                request.number = len(lane.requests)
                exchange = _Exchange(self, lane, request, (method, path, headers, body), reader, writer)
                if lane.plan.strikes(request):
                    await exchange.strike()
                else:
                    await exchange.pass_on()
        except (asyncio.IncompleteReadError, ConnectionError, _Gone, TimeoutError, OSError):
            pass
        except asyncio.CancelledError:
            return
        finally:
            self._clients.discard(asyncio.current_task())
            with suppress(Exception):
                writer.close()

    # -- the server's side

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        url = urlsplit(self.target)
        context = None
        if url.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection(url.hostname, url.port, ssl=context, limit=1 << 26)

    async def ask(self, head: bytes, body: bytes) -> _Answer:
        """Send one request and read the whole answer. Raises OSError and IncompleteReadError where that fails."""
        target = self.target
        idle = self._idle.setdefault(target, [])
        while True:
            fresh = not idle
            reader, writer = idle.pop() if idle else await self.open()
            try:
                writer.write(head + body)
                status, headers = _parse_status(await reader.readuntil(b"\r\n\r\n"))
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                if fresh:
                    raise
                continue  # It had been closed while it was idle: nothing has been done.
            answer = _Answer(status, headers, await _read_body(reader, status, headers))
            if (_value(headers, "connection") or "").lower() == "close":
                writer.close()
            else:
                idle.append((reader, writer))
            return answer


@dataclass
class _Exchange:
    """One request and what becomes of it."""

    proxy: Proxy
    lane: Lane
    request: Request
    parts: tuple[str, str, list[tuple[str, str]], bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def pass_on(self) -> None:
        if self.request.watch:
            await self._stream()
        else:
            await self._reply(await self._forward())

    async def strike(self) -> None:
        fault = self.lane.plan.fault
        assert fault is not None
        self.request.fault = fault.name
        if fault.name in _HOLDING:
            await asyncio.get_running_loop().run_in_executor(None, self.lane.plan.meanwhile)
            await self.pass_on()
            return
        if fault.watch:
            await self._break_watch(fault.name)
            return
        answer = None
        if fault.forwarded and not self.request.watch:
            answer = await self._forward()
        if fault.name in _SIGNALS:
            os.kill(self.lane.pid, _SIGNALS[fault.name])
            raise _Gone
        if fault.name in ("reset", "reset-after", "down", "outage"):
            self._reset()
        if fault.name in ("silent", "silent-after"):
            began = time.monotonic()
            await self.reader.read(1)  # until the client goes
            self.request.silence = time.monotonic() - began
            raise _Gone
        if fault.name == "slow":
            await asyncio.sleep(SLOW_SECONDS)
            await self.pass_on()
            return
        if fault.name in ("truncated", "half-json"):
            await self._cut(answer, honest=fault.name == "half-json")
            return
        await self._reply(_instead(fault))

    async def _forward(self) -> _Answer:
        self.request.reached = True
        method, path, headers, body = self.parts
        began = time.monotonic()
        try:
            answer = await self.proxy.ask(_head(method, path, headers, body, self.proxy.target), body)
        except (asyncio.IncompleteReadError, OSError):
            self._reset()
            raise AssertionError("unreachable") from None
        finally:
            self.request.served = time.monotonic() - began
        self.request.status = answer.status
        return answer

    async def _reply(self, answer: _Answer) -> None:
        self.request.status = self.request.status or answer.status
        self.request.unread = self.reader.at_eof()
        self.writer.write(_response(answer, len(answer.body)) + answer.body)
        await self.writer.drain()

    async def _cut(self, answer: _Answer | None, *, honest: bool) -> None:
        """Half of an answer. ``honest``: under a Content-Length that says so."""
        if answer is None:
            self._reset()
        half = answer.body[: len(answer.body) // 2]
        self.writer.write(_response(answer, len(half) if honest else len(answer.body)) + half)
        await self.writer.drain()
        if not honest:
            self.writer.close()
            raise _Gone

    def _reset(self) -> None:
        connection = self.writer.get_extra_info("socket")
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        raise _Gone

    # -- watches: answers without an end

    async def _stream(self, events: int | None = None) -> None:
        """A watch, until either side ends it; ``events``: cut in the middle of the event after so many."""
        method, path, headers, body = self.parts
        self.request.reached = True
        reader, writer = await self.proxy.open()
        pump = asyncio.ensure_future(self._pump(reader, events))
        gone = asyncio.ensure_future(self.reader.read(1))
        try:
            writer.write(_head(method, path, headers, body, self.proxy.target))
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pump, gone):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task
            writer.close()
        raise _Gone

    async def _pump(self, reader: asyncio.StreamReader, events: int | None) -> None:
        status, headers = _parse_status(await reader.readuntil(b"\r\n\r\n"))
        self.request.status = status
        if _value(headers, "content-length") is not None:  # refused
            body = await _read_body(reader, status, headers)
            self.writer.write(_response(_Answer(status, headers, body), len(body)) + body)
            await self.writer.drain()
            return
        self._open_stream(headers)
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            piece = (await reader.readexactly(size + 2))[:-2]
            if events == 0:
                self._chunk(piece[: len(piece) // 2])
                break
            if events is not None:
                events -= 1
            self._chunk(piece)
            await self.writer.drain()
        self._chunk(b"")
        await self.writer.drain()

    def _open_stream(self, headers: list[tuple[str, str]]) -> None:
        kept = "".join(f"{name}: {value}\r\n" for name, value in headers if name.lower() not in _HOP_BY_HOP)
        self.writer.write(f"HTTP/1.1 200 OK\r\n{kept}Transfer-Encoding: chunked\r\n\r\n".encode())

    def _chunk(self, piece: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    async def _break_watch(self, name: str) -> None:
        self.request.status = 200
        if name == "watch-cut":
            await self._stream(events=1)
        if name == "watch-html":
            await self._reply(_Answer(200, [("Content-Type", "text/html")], PAGE))
            return
        self._open_stream([("Content-Type", "application/json")])
        if name == "watch-410":
            self._chunk(json.dumps({"type": "ERROR", "object": _status(410)}).encode() + b"\n")
        if name == "watch-silent":
            await self.writer.drain()
            await self.reader.read(1)
            raise _Gone
        self._chunk(b"")
        await self.writer.drain()
        self.writer.close()
        raise _Gone


def _describe(method: str, path: str, body: bytes) -> Request:
    split = urlsplit(path)
    query = parse_qs(split.query)
    dry_run = "dryRun" in query
    if method == "DELETE" and body:  # then the server reads its options from there alone
        dry_run = bool(json.loads(body).get("dryRun"))
    return Request(method, split.path, dry_run, split.query)


def _instead(fault: Fault) -> _Answer:
    """The answer of another program than the server."""
    if fault.name.startswith("html"):
        return _Answer(fault.status, [("Content-Type", "text/html")], PAGE)
    if fault.name == "redirect":
        return _Answer(302, [("Location", "/login"), ("Content-Type", "text/html")], PAGE)
    if fault.name == "empty":
        return _json(200, b"")
    if fault.name == "other":
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return _json(200, json.dumps(success).encode())
    answer = _json(fault.status, json.dumps(_status(fault.status)).encode())
    if fault.status == 429:
        answer.headers.append(("Retry-After", "1"))
    return answer


def _json(status: int, body: bytes) -> _Answer:
    return _Answer(status, [("Content-Type", "application/json")], body)


def _status(code: int) -> dict[str, Any]:
    reason, message = _REASONS[code]
    failure = {"status": "Failure", "reason": reason, "message": message, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **failure}


# -- HTTP/1.1 as text


def _parse_head(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _version = first.split(" ")
    return method, path, [_header(line) for line in lines if line]


def _parse_status(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split(" ")[1]), [_header(line) for line in lines if line]


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.strip()


def _value(headers: list[tuple[str, str]], name: str) -> str | None:
    return next((value for key, value in headers if key.lower() == name), None)


async def _read_body(reader: asyncio.StreamReader, status: int, headers: list[tuple[str, str]]) -> bytes:
    if (_value(headers, "transfer-encoding") or "").lower() == "chunked":
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return body
    if status in (204, 304):
        return b""
    return await reader.readexactly(int(_value(headers, "content-length") or 0))


def _head(method: str, path: str, headers: list[tuple[str, str]], body: bytes, target: str) -> bytes:
    kept = [(name, value) for name, value in headers if name.lower() not in (*_HOP_BY_HOP, "host", "accept-encoding")]
    lines = [f"{method} {path} HTTP/1.1", f"Host: {urlsplit(target).netloc}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in kept), "", ""]).encode("latin-1")


def _response(answer: _Answer, length: int) -> bytes:
    kept = [(name, value) for name, value in answer.headers if name.lower() not in _HOP_BY_HOP]
    lines = [f"HTTP/1.1 {answer.status} .", f"Content-Length: {length}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in kept), "", ""]).encode("latin-1")
