# SPDX-License-Identifier: BSD-2-Clause
"""Responses of which only so much is read: a limit of bytes, and of seconds.

A socket's own timeout starts again with each byte that comes. Imported where a connection is opened, like urllib3.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Callable
from typing import Any

from .limits import ANSWER, HEAD, SLOWEST, Allowance, TooMuchData, size_text

_BUFFER = 65_536


class Meter:
    """What has come over a connection, and what may still come: what ``allow`` was called with last."""

    def __init__(self, connection: Any, allowance: Allowance) -> None:
        self._connection = connection
        self._patience = connection.gettimeout() or 3600.0  # seconds that the request may wait for its answer
        self.allow(allowance)

    def allow(self, allowance: Allowance) -> None:
        self._bytes = allowance.bytes
        self._seconds = self._patience if allowance.seconds is None else allowance.seconds
        self._silence = self._patience if allowance.silence is None else allowance.silence
        self._received, self._began = 0, time.monotonic()

    def read(self, receive: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """The result of ``receive``, of that size in bytes. Raises TimeoutError and TooMuchData."""
        left = self._began + self._seconds + self._received / SLOWEST - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(min(self._silence, left))
        received = receive()
        self._received += size(received)
        if self._received > self._bytes:
            raise TooMuchData(size_text(self._bytes))
        return received


class MeteredResponse(http.client.HTTPResponse):
    """A response whose status line, headers, chunk sizes and trailers are metered like its body."""

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.meter = Meter(sock, HEAD)
        self.fp = io.BufferedReader(_MeteredStream(self.fp.detach(), self.meter), _BUFFER)

    def begin(self) -> None:
        super().begin()
        self.meter.allow(ANSWER)


class _MeteredStream(io.RawIOBase):
    """A socket's stream. It is closed with this one, or else the socket would stay open."""

    def __init__(self, stream: Any, meter: Meter) -> None:
        super().__init__()
        self._stream = stream
        self._meter = meter

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def readinto(self, buffer: Any) -> Any:
        return self._meter.read(lambda: self._stream.readinto(buffer), lambda count: count or 0)

    def close(self) -> None:
        self._stream.close()
        super().close()


class MeteredSocket:
    """A socket of which the WebSocket library reads; what it needs to know of one, it asks the socket itself."""

    def __init__(self, connection: Any, allowance: Allowance) -> None:
        self._connection = connection
        self.meter = Meter(connection, allowance)

    def recv(self, size: int) -> Any:
        return self.meter.read(lambda: self._connection.recv(size), len)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def metered(connection: type) -> type:
    """The class of a urllib3 connection that gives such responses."""
    return type("MeteredConnection", (connection,), {"response_class": MeteredResponse})


def metered_pools(pools: dict[str, type]) -> dict[str, type]:
    """The classes of urllib3 pools, by scheme, whose connections give such responses."""
    return {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": metered(pool.ConnectionCls)})  # type: ignore[attr-defined]
        for scheme, pool in pools.items()
    }
