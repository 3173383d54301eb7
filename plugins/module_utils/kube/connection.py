# SPDX-License-Identifier: BSD-2-Clause
"""How to reach one API server, and as whom."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Connection:
    """Certificates and keys are PEM text rather than paths, because a kubeconfig may hold them inline.

    ``authorization`` returns the Authorization header. It is called for each request, from several threads, since exec
    plugins renew their tokens. ``request_timeout`` is in seconds, for all requests of a task that are not answered.
    ``concurrency`` is the number of requests to send at once, and of connections to keep for them.
    """

    server: str = ""
    authorization: Callable[[], dict[str, str]] = dict
    ca_cert: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    validate_certs: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    no_proxy: str | None = None
    proxy_headers: Mapping[str, str] = field(default_factory=dict)
    impersonation: tuple[tuple[str, str], ...] = ()
    request_timeout: float = 60.0
    retries: int = 5
    concurrency: int = 10


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"}


def read_pem(path: str) -> str:
    """Raises OSError. Characters other than ASCII are dropped: bundles have them in comments, PEM blocks do not."""
    with open(path, encoding="ascii", errors="ignore") as file:
        return file.read()
