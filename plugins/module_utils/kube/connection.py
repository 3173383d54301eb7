# SPDX-License-Identifier: BSD-2-Clause
"""How to reach one API server, and as whom."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .errors import ConnectionProblem


@dataclass(frozen=True)
class Peer:
    """What messages call a server, and the options that describe the connection to it."""

    name: str = "the API server"
    unreachable: str = "cannot reach the API server "  # before its address
    check: str = "that the cluster is up and that host or context is right"
    timeout: str = "request_timeout"
    authority: str = "ca_cert"  # the option for its certificate, and whatever else may have set it
    authority_source: str = "ca_cert, or the kubeconfig's certificate-authority,"
    validate: str = "validate_certs"
    key: str = "client_key"
    certificate_source: str = "client_cert and client_key, or those of the kubeconfig's user,"


@dataclass(frozen=True)
class Connection:
    """Certificates and keys are PEM text rather than paths, because a kubeconfig may hold them inline.

    ``authorization`` returns the Authorization header. It is called for each request, from several threads, since exec
    plugins renew their tokens. ``request_timeout`` is in seconds, for all requests of a task that are not answered;
    ``connect_timeout`` is for the first connection of all, and None where only the former limits that.
    ``concurrency`` is the number of requests to send at once, and of connections to keep for them. ``warning`` is a
    sentence for the user.
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
    connect_timeout: float | None = None
    retries: int = 5
    concurrency: int = 10
    warning: str | None = None
    namespace: str | None = None  # of the kubeconfig's context
    peer: Peer = Peer()


def bearer(token: object) -> dict[str, str]:
    """Raises ConnectionProblem for a token that no header can have; a line break at its end is none of it."""
    return authorization_header(f"Bearer {str(token).strip()}")


def authorization_header(value: str) -> dict[str, str]:
    """Raises ConnectionProblem. RFC 9110, section 11.4: a scheme, a space, and visible characters."""
    value = value.strip()
    if not _CREDENTIALS.fullmatch(value):
        raise ConnectionProblem(
            "the token is not valid: it contains a space, a line break, or another character that no token has. Check "
            "api_key, or the user of the kubeconfig's context."
        )
    return {"Authorization": value}


_CREDENTIALS = re.compile(r"[A-Za-z]+ [!-~]+")


def basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"}


def header_secrets(value: str) -> set[str]:
    """The secrets in an Authorization header: the token; the password and its pair with the user."""
    scheme, _space, credentials = value.partition(" ")
    if scheme != "Basic":
        return {credentials}
    pair = base64.b64decode(credentials).decode("utf-8", "replace")
    return {credentials, pair, pair.partition(":")[2]} - {""}


def read_pem_option(name: str, path: str | None) -> str | None:
    """Raises ConnectionProblem for a file that cannot be read."""
    try:
        return read_pem(path) if path else None
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise ConnectionProblem(f"cannot read {name} {path}: {reason}. Set it to the path of a PEM file.") from None


def read_pem(path: str) -> str:
    """Raises OSError. Characters other than ASCII are dropped: bundles have them in comments, PEM blocks do not."""
    with open(path, encoding="ascii", errors="ignore") as file:
        return file.read()
