# SPDX-License-Identifier: BSD-2-Clause
"""The log of a container, from the API server. ``query`` is PodLogOptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .client import Client
from .limits import FOLLOWED_LOG, LOG, Allowance
from .resources import POD
from .transport import CHUNK_SIZE

if TYPE_CHECKING:
    from .open_stream import OpenStream

T = TypeVar("T")

_SILENCE = 120.0  # seconds without a line, after which a log is asked for again; one request for each pod


def read_log(
    client: Client, namespace: str, pod: str, query: Mapping[str, str], consume: Callable[[Iterator[bytes]], T]
) -> T:
    """The result of ``consume`` for a log, passed in chunks up to 64 KiB.

    If the connection breaks, ``consume`` is called again with the log from its start.
    """

    def read(response: Any) -> T:
        try:
            return consume(response.stream(CHUNK_SIZE))
        finally:
            response.close()  # A connection with unread data cannot serve another request.

    return _request_log(client, namespace, pod, query, read, LOG)


def open_log(client: Client, namespace: str, pod: str, query: Mapping[str, str], *, follow: bool) -> OpenStream:
    """A log as it is, or as it grows.

    The one that grows ends with the container, or when it is silent: so is a connection that a router on the way has
    forgotten, and the caller asks again.
    """
    from .open_stream import OpenStream  # Here: a wait reads the ends of logs alone.

    if not follow:
        return _request_log(client, namespace, pod, query, OpenStream, LOG)
    return _request_log(client, namespace, pod, {**query, "follow": "true"}, OpenStream, FOLLOWED_LOG, _SILENCE)


def _request_log(
    client: Client,
    namespace: str,
    pod: str,
    query: Mapping[str, str],
    read: Callable[[Any], T],
    stream: Allowance,
    silence: float | None = None,
) -> T:
    # Accepting anything, since the server sends text but errors as JSON (kubectl's client-go asks so, too).
    path, accept = f"{POD.path(namespace, pod)}/log", "application/json, */*"
    return client.transport.send("GET", path, read, query, accept=accept, stream=stream, read_timeout=silence)
