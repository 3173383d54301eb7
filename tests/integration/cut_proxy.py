# SPDX-License-Identifier: BSD-2-Clause
"""A TCP proxy that breaks or silences connections after so many bytes, and one that understands CONNECT."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

PIECE = 65_536


@dataclass
class TcpProxy:
    """Limits hold for each connection, in bytes; ``silent``: nothing more is forwarded then, but they stay open.

    Once the file ``until`` exists, nothing comes back any more.
    """

    target: tuple[str, int]
    port: int = 0
    scheme: str = "http"
    up: float = float("inf")
    down: float = float("inf")
    silent: bool = False
    until: Path | None = None
    tunnels: list[str] = field(default_factory=list)
    cuts: int = 0
    refuses: bool = False
    _open: set[socket.socket] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break all connections that are open now."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.cuts += 1

    def serve(self, client: socket.socket, context: ssl.SSLContext | None) -> None:
        target = self.target
        if self.refuses:
            client.close()
            return
        if context:
            client = context.wrap_socket(client, server_side=True)
        if not target[0]:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            place = head.split()[1].decode()
            self.tunnels.append(head.decode())
            target = (place.rpartition(":")[0], int(place.rpartition(":")[2]))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with suppress(OSError), socket.create_connection(target) as server:
            self._open |= {client, server}
            back = threading.Thread(target=self._pump, args=(server, client, self.down), daemon=True)
            back.start()
            self._pump(client, server, self.up)
            back.join()
            self._open -= {client, server}
        client.close()

    def _pump(self, source: socket.socket, sink: socket.socket, left: float) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                if sink.getpeername()[1] != self.target[1] and self.until and self.until.exists():
                    break
                passed = data[: int(min(left, len(data)))]
                left -= len(passed)
                sink.sendall(passed)
                if left <= 0 and not self.silent:
                    break
            for end in (source, sink):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def tcp_proxy(url: str = "", context: ssl.SSLContext | None = None) -> Iterator[TcpProxy]:
    """In front of a server; without one, a proxy for CONNECT, which speaks TLS with a context."""
    listener = socket.create_server(("127.0.0.1", 0))
    place = urlsplit(url)
    scheme = "https" if context else "http"
    proxy = TcpProxy((place.hostname or "", place.port or 0), listener.getsockname()[1], scheme)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                threading.Thread(target=proxy.serve, args=(client, context), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield proxy
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
