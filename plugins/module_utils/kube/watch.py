# SPDX-License-Identifier: BSD-2-Clause
"""The stream of events that the API server sends for a watch."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Any

from .answer import estimated_memory, is_object, read_json
from .errors import ApiError
from .limits import EVENT_BYTES, TooMuchData
from .transport import CHUNK_SIZE

# Seconds without an event that end a watch. Servers send a bookmark every minute (apiserver/pkg/storage/cacher,
# defaultBookmarkFrequency), but nobody wants to wait that long for what a proxy holds back.
READ_TIMEOUT = 30.0


class Watch:
    """An open watch: iterate over its events, ``{"type": …, "object": …}``, until the connection ends.

    Raises ApiError for an error event in the stream (status 410: the resourceVersion is too old). ``stop`` may be
    called from another thread than the iterating one. ``silent``: it has ended because no event came any more.
    ``memory``: what the last event takes, in bytes.
    """

    def __init__(self, response: Any, path: str) -> None:
        self._response = response
        self._path = path
        self._lock = Lock()
        self.silent = False
        self.memory = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            for line in self._lines():
                event = _event(line)
                if event is None:
                    return  # The page of a proxy that has lost the server.
                self.memory = estimated_memory(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError("GET", self._path, status["code"], status)
                yield event
        finally:
            with self._lock:
                self._response.close()  # A connection with unread data cannot serve another request.

    def stop(self) -> None:
        """End the iteration even while it waits: shutting a socket down wakes its reader, closing it does not."""
        # AttributeError, ValueError: from urllib3 and http.client if the stream has just ended by itself.
        with self._lock, suppress(OSError, AttributeError, ValueError):
            if not self._response.closed:
                with socket.socket(fileno=os.dup(self._response.fileno())) as connection:
                    connection.shutdown(socket.SHUT_RDWR)

    def _lines(self) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        incomplete = bytearray()
        try:
            for chunk in self._response.stream(CHUNK_SIZE):
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    yield bytes(incomplete + line)
                    incomplete.clear()
                incomplete += rest
                if len(incomplete) > EVENT_BYTES:
                    return
        except ReadTimeoutError:
            self.silent = True
        except (HTTPError, OSError, TooMuchData):
            return  # Cut or stopped: the events so far are valid, and a new watch continues.


def _event(line: bytes) -> dict[str, Any] | None:
    """None for anything else than an event of a watch."""
    event = read_json(line) or {}
    try:
        obj = event["object"]
        if event["type"] == "ERROR":
            return event if isinstance(obj["code"], int) else None
        version = obj["metadata"]["resourceVersion"]
        is_event = isinstance(version, str) and (event["type"] == "BOOKMARK" or is_object(obj))
    except (TypeError, KeyError):
        return None
    return event if is_event and version else None
