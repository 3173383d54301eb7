# SPDX-License-Identifier: BSD-2-Clause
"""The stream of events that the API server sends for a watch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from .answer import estimated_memory, is_object, read_json
from .errors import ApiError
from .limits import EVENT_BYTES
from .open_stream import OpenStream


class Watch(OpenStream):
    """An open watch: iterate over its events, ``{"type": …, "object": …}``, until the connection ends.

    Raises ApiError for an error event in the stream (status 410: the resourceVersion is too old). ``memory``: what the
    last event takes, in bytes.
    """

    def __init__(self, response: Any, path: str) -> None:
        super().__init__(response)
        self._path = path
        self.memory = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with closing(self.pieces()) as pieces:
            for line in _lines(pieces):
                event = _event(line)
                if event is None:
                    return  # The page of a proxy that has lost the server.
                self.memory = estimated_memory(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError("GET", self._path, status["code"], status)
                yield event


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    incomplete = bytearray()
    for piece in pieces:
        *lines, rest = piece.split(b"\n")
        for line in lines:
            yield bytes(incomplete + line)
            incomplete.clear()
        incomplete += rest
        if len(incomplete) > EVENT_BYTES:
            return


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
