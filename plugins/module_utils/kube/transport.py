# SPDX-License-Identifier: BSD-2-Clause
"""Requests to one API server over a pool of kept-alive connections: headers, timeouts, retries and rate limiting."""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from ..labels import FIELD_MANAGER
from .connection import Connection
from .errors import ApiError, ConnectionProblem, Unauthorized

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
CHUNK_SIZE = 65_536  # bytes of a streamed response

_RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
_FIRST_DELAY = 0.2  # seconds; doubles with each retry
_MAX_DELAY = 30.0

T = TypeVar("T")


class Transport:
    """Every request may be sent more than once. Raises ApiError and ConnectionProblem once the retries are used up."""

    def __init__(self, connection: Connection, sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._connection = connection
        self._sleep = sleep
        self._pool, self._url_prefix = _open_pool(connection)
        self._rate_limiter = RateLimiter(sleep, clock)
        self._aborted = False

    def abort(self) -> None:
        self._aborted = True

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> dict[str, Any]:
        """Send a request and return the decoded response. Query parameters without a value are left out."""
        return self.send(
            method, path, lambda response: decode(response.data), query, body, content_type=content_type, accept=accept
        )

    def send(
        self,
        method: str,
        path: str,
        consume: Callable[[Any], T],
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        streamed: bool = False,
        read_timeout: float | None = None,
    ) -> T:
        """The result of ``consume`` for the response (urllib3's) to a request.

        ``streamed`` leaves reading the body to ``consume``, which is called again if the connection breaks meanwhile.
        ``read_timeout`` is in seconds without data, by default the connection's ``request_timeout``.
        """
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        connect_timeout = self._connection.request_timeout
        timeout = Timeout(connect=connect_timeout, read=connect_timeout if read_timeout is None else read_timeout)
        parameters = urlencode({name: value for name, value in (query or {}).items() if value})
        url = self._url_prefix + quote(path) + (f"?{parameters}" if parameters else "")
        payload = None if body is None else json.dumps(body).encode()
        for attempt in range(self._connection.retries + 1):
            is_last = attempt == self._connection.retries
            self._rate_limiter.wait()
            if self._aborted:
                raise ConnectionProblem(f"request not sent: {method} {path}. The task had been aborted.")
            try:
                response = self._pool.request(
                    method,
                    url,
                    body=payload,
                    headers=self._headers(accept, content_type if payload else None),
                    redirect=False,
                    preload_content=not streamed,
                    timeout=timeout,
                )
                if response.status < 400:
                    return consume(response)
                status = decode(response.data)
            except HTTPError as problem:
                if is_last or _is_certificate_problem(problem):
                    raise ConnectionProblem(_cannot_reach(self._connection, problem)) from None
                self._sleep(_delay(attempt))
                continue
            if response.status == 401:
                raise Unauthorized(
                    f"credentials rejected by the API server (HTTP 401): {self._connection.server}. Check that the "
                    f"token of api_key, or of the kubeconfig's context, is still valid."
                )
            error = ApiError(method, path, response.status, status)
            if is_last or not _is_retryable(error, content_type):
                raise error
            delay = _delay(attempt, response.headers.get("Retry-After"))
            if response.status == 429:
                self._rate_limiter.hold(delay)
            else:
                self._sleep(delay)
        raise AssertionError("unreachable")  # pragma: no cover

    def _headers(self, accept: str, content_type: str | None) -> Any:
        from urllib3 import HTTPHeaderDict  # keeps several headers of one name

        headers = HTTPHeaderDict({"Accept": accept, "User-Agent": FIELD_MANAGER, **self._connection.authorization()})
        if content_type:
            headers["Content-Type"] = content_type
        for name, value in self._connection.impersonation:
            headers.add(name, value)
        return headers

    def connect(self, path: str, handshake: Callable[[Any, str, Any], T]) -> T:
        """The result of ``handshake`` for a new connection: of its socket, the URL of ``path``, and headers for it.

        For another protocol than HTTP. A server that does not respond in time is not asked again.
        """
        from urllib3.exceptions import HTTPError
        from urllib3.exceptions import TimeoutError as Urllib3Timeout

        for attempt in range(self._connection.retries + 1):
            is_last = attempt == self._connection.retries
            self._rate_limiter.wait()
            if self._aborted:
                raise ConnectionProblem(f"request not sent: GET {path}. The task had been aborted.")
            try:
                opened = _open_socket(self._pool, self._connection)
                return handshake(opened, self._connection.server + path, self._headers("*/*", None))
            except (HTTPError, OSError) as problem:
                is_timeout = isinstance(problem, (TimeoutError, Urllib3Timeout))
                if is_last or is_timeout or _is_certificate_problem(problem):
                    raise ConnectionProblem(_cannot_reach(self._connection, problem)) from None
            except ApiError as error:
                if is_last or not _is_retryable(error, JSON):
                    raise
            self._sleep(_delay(attempt))
        raise AssertionError("unreachable")  # pragma: no cover


def decode(data: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(data) if data else {}
    except ValueError:
        decoded = None
    # A proxy or load balancer in between answers in HTML or text: keep the beginning as the message.
    return decoded if isinstance(decoded, dict) else {"message": data[:200].decode("utf-8", "replace").strip()}


# -- retries -----------------------------------------------------------------------------------------------------------


class RateLimiter:
    """Holds back all requests of a client after a 429 (Too Many Requests).

    If only the rejected request waited, the others would keep the server as busy as it is.
    """

    def __init__(self, sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._sleep = sleep
        self._clock = clock
        self._until = 0.0
        self._lock = Lock()

    def hold(self, seconds: float) -> None:
        with self._lock:
            self._until = max(self._until, self._clock() + seconds)

    def wait(self) -> None:
        """Return once no hold is left, including those that start while this waits."""
        while (left := self._until - self._clock()) > 0:
            self._sleep(left)


def _is_retryable(error: ApiError, content_type: str) -> bool:
    """The server is overloaded or failing, or an apply lost a race; a field conflict needs the caller's decision."""
    lost_race = error.status == 409 and error.reason == "Conflict" and content_type == APPLY_PATCH
    return error.status in _RETRIED_STATUS or (lost_race and not error.is_field_conflict)


def _delay(attempt: int, retry_after: str | None = None) -> float:
    """Seconds until the next attempt: the server's Retry-After, else doubling with jitter so that clients spread."""
    if retry_after and retry_after.isdigit():
        return min(float(retry_after), _MAX_DELAY)
    return min(_FIRST_DELAY * 2.0**attempt, _MAX_DELAY) * random.uniform(0.5, 1.0)


def _is_certificate_problem(problem: Exception) -> bool:
    return "CERTIFICATE_VERIFY_FAILED" in str(problem) or "doesn't match" in str(problem)


def _cannot_reach(connection: Connection, problem: Exception) -> str:
    if _is_certificate_problem(problem):
        return (
            f"cannot verify the certificate of {connection.server}: {problem}. Set ca_cert to the certificate of its "
            f"authority, or, for a test cluster, validate_certs to false."
        )
    via = f" through the proxy {connection.proxy}" if connection.proxy else ""
    # urllib3 wraps the message of the operating system ("Connection refused") in the names of its own objects.
    text = str(problem)
    cause = text.rpartition("]: ")[2] if "]: " in text else text.rpartition(">: ")[2] or text
    return (
        f"cannot reach the API server {connection.server}{via}: {cause}. Check that the cluster is up and that host or "
        f"context is right."
    )


# -- connections -------------------------------------------------------------------------------------------------------


def _open_pool(connection: Connection) -> tuple[Any, str]:
    """A urllib3 pool or manager for the server, and the prefix of each URL that is requested from it."""
    import urllib3

    from .tls import tls_context

    options: dict[str, Any] = {"maxsize": connection.concurrency, "retries": False}  # Transport retries.
    if connection.server.startswith("https"):
        if not connection.validate_certs:
            # The user has disabled verification, and Ansible would show the warning as an error of its worker process.
            host = re.escape(urlsplit(connection.server).hostname or "")
            warnings.filterwarnings("ignore", f"Unverified HTTPS request is being made to host '{host}'")
        options["ssl_context"] = tls_context(connection)
        if connection.tls_server_name:
            options["server_hostname"] = options["assert_hostname"] = connection.tls_server_name
    if connection.proxy and not _is_direct(connection):
        # The proxy is verified like the server, but the client certificate is for the server alone.
        proxy_tls = tls_context(connection, with_client_cert=False) if connection.proxy.startswith("https") else None
        headers = dict(connection.proxy_headers)
        manager = urllib3.ProxyManager(connection.proxy, proxy_headers=headers, proxy_ssl_context=proxy_tls, **options)
        return manager, connection.server
    # Not a PoolManager, which spends a tenth of a request's time on finding its only pool.
    return urllib3.connection_from_url(connection.server, **options), urlsplit(connection.server).path


def _open_socket(pool: Any, connection: Connection) -> Any:
    """A socket to the server, behind proxy and TLS: that of a connection as the pool opens them for its requests."""
    server = urlsplit(connection.server)
    hosts = pool.connection_from_url(connection.server) if hasattr(pool, "connection_from_url") else pool
    opened = hosts._new_conn()
    opened.timeout = connection.request_timeout
    if hosts.proxy is not None and server.scheme == "https":
        hosts._prepare_proxy(opened)
    elif hosts.proxy is not None:  # Requests go to the proxy itself; anything else needs a tunnel here as well.
        opened.set_tunnel(server.hostname, server.port or 80, headers=dict(connection.proxy_headers))
    if opened.sock is None:
        opened.connect()
    return opened.sock


def _is_direct(connection: Connection) -> bool:
    """Whether ``no_proxy`` lists the server."""
    # Imported here because few connections have a proxy. Public, but not in typeshed.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    host = urlsplit(connection.server).hostname or ""
    return bool(proxy_bypass_environment(host, {"no": connection.no_proxy or ""}))
