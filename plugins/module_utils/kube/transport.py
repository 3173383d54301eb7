# SPDX-License-Identifier: BSD-2-Clause
"""Requests to one API server over a pool of kept-alive connections: headers, timeouts, retries and rate limiting."""

from __future__ import annotations

import json
import math
import random
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from ..labels import FIELD_MANAGER
from ..redaction import forms_of, live_secret_values, redact, redact_messages
from .answer import (
    Answer,
    Expected,
    described,
    encoding_of,
    estimated_memory,
    group_versions_in,
    is_page,
    read_answer,
    read_status,
    received,
)
from .connection import Connection, header_secrets
from .errors import (
    NOT_SERVED,
    AnswerTooLarge,
    ApiError,
    ConnectionProblem,
    InvalidResponse,
    KubeError,
    Unauthorized,
    cut,
)
from .limits import Allowance, TooMuchData
from .warning_header import warnings_of

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"
CHUNK_SIZE = 65_536  # bytes of a streamed response

# 500: what etcd answers while it elects a leader.
_RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
_FIRST_DELAY = 0.2  # seconds; doubles with each retry
_MAX_DELAY = 5.0
_LONGEST_HOLD = 30.0  # seconds of a Retry-After
_SHORTEST_ATTEMPT = 1.0  # seconds
_PROBES = 2
_REFUSED_PER_RETRY = 0.8  # seconds, 4 by default, in which an address may refuse connections at first

# What OpenSSL says to an answer that is not TLS; the second one since 3.2.
_NO_TLS = re.compile("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE")
_WRAPPER = re.compile(r"^(?:<[^>]*>|\w+\(host=.*?, port=\d+\)): ")
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^()]+)")

T = TypeVar("T")


class Transport:
    """Every request may be sent more than once. Raises ApiError and ConnectionProblem once it gives up.

    The error of a write says whether the write may have been made all the same (``may_be_written``): a lost response,
    or one that is not from the API server, does not tell.
    """

    def __init__(self, connection: Connection, sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._connection = connection
        self._sleep = sleep
        self._clock = clock
        self._pool, self._url_prefix = _open_pool(connection)
        self._rate_limiter = RateLimiter(sleep, clock)
        self._outages = OutageBudget(connection.request_timeout, clock)
        self._large_answers = Lock()
        self._group_versions: frozenset[str] | None = None  # read when an answer leaves it open what the server serves
        self._aborted = False
        self.has_written = False  # or tried to, since the task began
        self.level = "read"  # of gpuctl_rbac, that the task needs
        self._secrets: set[str] = set()
        self._secret_forms: set[str] = set()
        self._report_secrets: Callable[[set[str]], object] = set
        self._learn(connection.proxy_headers.values())

    def abort(self) -> None:
        self._aborted = True

    def begin_task(self) -> None:
        """Give the next task the whole ``request_timeout`` again."""
        self._outages.reset()
        self.has_written = False

    def report_secrets(self, report: Callable[[set[str]], object]) -> None:
        """Call ``report`` with the credentials sent so far, and with each new one, such as a renewed token."""
        self._report_secrets = report
        report(self._secrets)

    def request(
        self,
        method: str,
        path: str,
        expected: Expected,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[dict[str, Any]] | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        on_warning: Callable[[str], None] | None = None,
        weigh: Callable[[int], object] | None = None,
    ) -> dict[str, Any]:
        """Send a request and return the decoded response. Query parameters without a value are left out.

        ``on_warning`` is called with each warning that the server sends with its answer, ``weigh`` with an estimate of
        the memory that the response takes.
        """

        def consume(response: Any) -> dict[str, Any]:
            if on_warning:
                for text in warnings_of(response):
                    on_warning(text)
            with received(response, self._large_answers) as answer:
                found = read_answer(self._request_title(method, path), answer, expected, self.masked)
                if weigh:
                    weigh(estimated_memory(answer.body))
                return found

        return self.send(method, path, consume, query, body, content_type=content_type, accept=accept)

    def exchange(
        self,
        path: str,
        read: Callable[[Answer], T],
        query: Mapping[str, str],
        *,
        as_form: bool = False,
        headers: Mapping[str, str] | None = None,
        read_timeout: float | None = None,
    ) -> T:
        """The result of ``read`` for the answer of a program that is no API server, whatever its status.

        The request only reads, also if the parameters are sent as a form. ``read`` raises a KubeError for an answer
        that it does not accept; one that ``is_transient`` is followed by another attempt.
        """

        def consume(response: Any) -> T:
            with received(response, self._large_answers) as answer:
                return read(answer)

        return self.send(
            "POST" if as_form else "GET",
            path,
            consume,
            None if as_form else query,
            urlencode(query).encode() if as_form else None,
            content_type="application/x-www-form-urlencoded" if as_form else JSON,
            headers=headers,
            read_timeout=read_timeout,
            any_status=True,
        )

    def send(
        self,
        method: str,
        path: str,
        consume: Callable[[Any], T],
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[dict[str, Any]] | bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        headers: Mapping[str, str] | None = None,
        stream: Allowance | None = None,
        read_timeout: float | None = None,
        any_status: bool = False,
    ) -> T:
        """The result of ``consume`` for the response (urllib3's) to a request.

        ``body``: an object, the operations of a JSON patch, or the bytes of a request that writes nothing. ``stream``:
        the answer may be that large, is not compressed, and if the connection breaks while it is read, ``consume`` is
        called again. ``read_timeout``: seconds without data, by default what is left of ``request_timeout``; a
        ``stream`` may allow others once it has begun. ``any_status``: it is ``consume`` that rejects an answer.
        """
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        parameters = urlencode({name: value for name, value in (query or {}).items() if value})
        url = self._url_prefix + quote(path) + (f"?{parameters}" if parameters else "")
        sent = body if isinstance(body, Mapping) else {}
        payload = body if body is None or isinstance(body, bytes) else _encoded(body)
        only_reads = method == "GET" or isinstance(body, bytes)
        writes = not only_reads and not (query or {}).get("dryRun") and not sent.get("dryRun")
        self.has_written |= writes and not path.endswith("reviews")  # Those only ask.
        # An apply that names a version would fail again.
        repeats_conflict = content_type == APPLY_PATCH and "resourceVersion" not in sent.get("metadata", {})
        all_headers = self._headers(accept, content_type if payload else None, headers or {})

        def once(timeout: float) -> T:
            response, began = None, self._clock()
            read = timeout if read_timeout is None else read_timeout
            try:
                response = self._pool.request(
                    method,
                    url,
                    body=payload,
                    headers=all_headers,
                    # The credentials are for this server alone.
                    redirect=False,
                    preload_content=False,
                    # A compressed answer can be a thousand times as large: answer.py unpacks it, up to a limit.
                    decode_content=False,
                    timeout=Timeout(connect=min(timeout, self._time_to_connect), read=read),
                )
                accepted = 200 <= response.status < 300 and not is_page(response)
                if any_status or (accepted and not (stream and encoding_of(response))):
                    if stream:
                        response._fp.meter.allow(stream)  # the MeteredResponse
                    return consume(response)
                with received(response, self._large_answers) as answer:
                    raise self._rejection(method, path, answer, live_secret_values(sent))
            except HTTPError as error:
                # urllib3 calls a handshake of TLS that takes too long a timeout of reading.
                is_early = self._clock() - began < read
                broke_off = bool(stream) and response is not None
                raise self._connection_problem(error, broke_off=broke_off, is_early=is_early) from None
            except (KubeError, TooMuchData) as problem:
                if response is not None:
                    response.close()  # unless all of it was read and its connection serves the next request
                if isinstance(problem, TooMuchData):
                    raise AnswerTooLarge(self._request_title(method, path), str(problem)) from None
                raise

        return self._retried(method, path, once, writes=writes, repeats_conflict=repeats_conflict)

    def connect(self, path: str, handshake: Callable[[Any, str, Any], T]) -> T:
        """The result of ``handshake`` for a new connection: of its socket, the URL of ``path``, and headers for it.

        For another protocol than HTTP.
        """
        from urllib3.exceptions import HTTPError

        def once(timeout: float) -> T:
            try:
                opened = _open_socket(self._pool, self._connection, min(timeout, self._time_to_connect))
                return handshake(opened, self._connection.server + path, self._headers("*/*", None, {}))
            except (HTTPError, OSError) as error:
                raise self._connection_problem(error) from None

        return self._retried("GET", path, once)

    def _retried(
        self,
        method: str,
        path: str,
        once: Callable[[float], T],
        *,
        writes: bool = False,
        repeats_conflict: bool = False,
    ) -> T:
        """The result of ``once``, which gets the seconds that it may take, and is called again after some errors."""
        may_be_written = False
        self._rate_limiter.wait()
        started = self._clock()
        self._require_time(method, path)
        is_probe = self._outages.left <= 0
        for attempt in count():
            if self._aborted:
                raise ConnectionProblem(f"request not sent: {method} {path}. The task had been aborted.")
            try:
                result = once(self._outages.attempt_timeout(started))
            except KubeError as problem:
                may_be_written |= writes and problem.may_be_written
                delay = problem.retry_after or _delay(attempt)
                if not self._tries_again(problem, repeats_conflict, attempt, self._clock() + delay - started):
                    if _is_outage(problem):
                        self._outages.gave_up(started, is_probe=is_probe, is_refused=problem.is_refused)
                    problem.may_be_written = may_be_written
                    raise
                if not isinstance(problem, ApiError) or problem.status != 429:
                    self._sleep(delay)
                    continue
            else:
                self._outages.answered()
                return result
            self._rate_limiter.hold(delay)
            self._rate_limiter.wait()
        raise AssertionError("unreachable")  # pragma: no cover

    def _tries_again(self, problem: KubeError, repeats_conflict: bool, attempt: int, seconds: float) -> bool:
        """``seconds``: when the next attempt would start, counted from the first.

        A server that has answered before is being restarted or upgraded: only the time limits the attempts then. One
        that never has is probably the wrong one, and where its address refuses connections, that is soon reported.
        """
        if problem.broke_off:  # However late: the server had answered.
            return attempt < self._connection.retries
        if seconds >= self._outages.left:
            return False
        if problem.is_refused and not self._outages.has_answered:
            return seconds <= min(_REFUSED_PER_RETRY * self._connection.retries, self._time_to_connect)
        if attempt < self._connection.retries:
            return _is_retryable(problem, repeats_conflict)
        return bool(self._connection.retries) and self._outages.has_answered and _is_outage(problem)

    @property
    def _time_to_connect(self) -> float:
        """The seconds in which a server that has never answered accepts a connection, TLS included."""
        limit = self._connection.connect_timeout
        return math.inf if limit is None or self._outages.has_answered else limit

    def _require_time(self, method: str, path: str) -> None:
        """Raises ConnectionProblem if earlier requests waited for ``request_timeout`` without an answer."""
        if self._outages.is_over:
            peer, server = self._connection.peer, self._connection.server
            if self._outages.was_refused:
                cause = "connection refused" if self._connection.connect_timeout is None else "no connection"
                raise ConnectionProblem(f"{peer.unreachable}{server}: {cause}. Check {peer.check}.")
            silent = f"has not answered for {self._connection.request_timeout:.0f} s ({peer.timeout})"
            raise ConnectionProblem(f"request not sent: {method} {path}: {peer.name} {server} {silent}.")

    def _connection_problem(
        self, error: Exception, *, broke_off: bool = False, is_early: bool = True
    ) -> ConnectionProblem:
        """The problem of an error of urllib3 or the system; ``is_early``: before the time to read was over."""
        from urllib3.exceptions import ConnectTimeoutError, NewConnectionError  # The first is the base of the second.
        from urllib3.exceptions import TimeoutError as Urllib3Timeout

        # With a time of its own, no connection within it is the end, as a refused one is.
        too_late = is_early and self._time_to_connect < math.inf and isinstance(error, (TimeoutError, Urllib3Timeout))
        problem = ConnectionProblem(_cannot_reach(self._connection, error, unconnected=too_late))
        problem.is_refused, problem.broke_off = too_late or isinstance(error, NewConnectionError), broke_off
        problem.may_be_written = not isinstance(error, ConnectTimeoutError)
        problem.is_transient = not _is_certificate_problem(error)
        return problem

    def _request_title(self, method: str, path: str) -> str:
        return f"{method} {self._connection.server}{path}"

    def _rejection(self, method: str, path: str, response: Answer, secrets: set[str]) -> KubeError:
        """The error of a response that is not an answer, or of one that rejects the request.

        It quotes neither the credentials nor the ``secrets`` of the object that was sent.
        """
        if response.status == 401:
            return Unauthorized(
                f"credentials rejected by the API server (HTTP 401): {self._connection.server}. Check that the token "
                f"of api_key, or of the kubeconfig's context, is still valid."
            )
        status = read_status(response) if response.status >= 400 else None
        if status is not None:
            self._outages.answered()
        elif response.status in _RETRIED_STATUS:
            # The server itself answers some in plain text (apiserver, filters/maxinflight.go).
            status = {"message": described(response, self.masked)}
        if status is not None:
            status = redact_messages(status, secrets | self._secret_forms)
            error = ApiError(method, path, response.status, status, self.level)
            if (asked := _retry_after(response)) is not None:
                error.retry_after = min(asked, _LONGEST_HOLD)
                if asked > _LONGEST_HOLD:
                    error.note_wait(asked)
            return error
        if response.status == 404 and response.body == _GO_NOT_FOUND and not self._is_served(path):
            found = f"{NOT_SERVED}: {'/'.join(path.split('/')[2:4])}"
            return ApiError(method, path, 404, {"reason": "NotFound", "message": found})
        return InvalidResponse(self._request_title(method, path), response.status, described(response, self.masked))

    def _is_served(self, path: str) -> bool:
        """Whether the server lists the group version of a path, or does not say.

        An API server answers the paths of an unknown group in plain text, as a proxy that is written in Go answers any
        path. Versions of Kubernetes differ in the groups that they serve, and clusters in what is installed.
        """
        parts = path.split("/")
        if parts[1] != "apis" or len(parts) < 4:
            return True
        if self._group_versions is None:
            try:
                groups = self.request("GET", "/apis", Expected("APIGroupList"))["groups"] or ()
            except KubeError:
                return True
            self._group_versions = group_versions_in(groups)
        return "/".join(parts[2:4]) in self._group_versions

    def masked(self, text: str) -> str:
        return str(redact(text, self._secret_forms))

    def _learn(self, headers: Iterable[str]) -> None:
        """Remember the credentials in headers, to mask them where a server returns them."""
        if new := {part for value in headers for part in header_secrets(value)} - self._secrets:
            self._secrets = self._secrets | new
            self._secret_forms = self._secret_forms.union(*map(forms_of, new))
            self._report_secrets(new)

    def _headers(self, accept: str, content_type: str | None, more: Mapping[str, str]) -> Any:
        from urllib3 import HTTPHeaderDict  # keeps several headers of one name

        authorization = self._connection.authorization()
        self._learn(authorization.values())
        headers = HTTPHeaderDict({"Accept": accept, "User-Agent": FIELD_MANAGER, **authorization, **more})
        if content_type:
            headers["Content-Type"] = content_type
        for name, value in self._connection.impersonation:
            # A header for each group (docs, "Authenticating", user impersonation).
            headers.add(name, value)
        return headers


_GO_NOT_FOUND = b"404 page not found\n"  # net/http, NotFound

# The server parses apply patches as YAML (readerc.go and scannerc.go of go-yaml): "control characters are not allowed",
# and U+0085, a line break there, becomes a blank.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\ufffe\uffff]")


def _encoded(body: Mapping[str, Any] | list[dict[str, Any]]) -> bytes:
    """UTF-8: the server's parser for apply patches rejects the surrogate pairs by which JSON escapes emoji."""
    text = json.dumps(body, ensure_ascii=False)
    if not text.isprintable():
        text = _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        broken = ascii(error.object[error.start : error.end])
        raise KubeError(f"not valid Unicode: {broken} is half of a surrogate pair. Write the character.") from None


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


class OutageBudget:
    """The seconds that a task may spend on requests that are never answered: ``request_timeout`` for all together.

    Otherwise each request to a silent server would wait that long. Requests that are answered in the end cost nothing.
    A single one may wait for a webhook. So once the time of a server that has answered before is over, others are sent
    all the same, once and briefly: the first answer gives half of the time again, half of that the next time, and
    _PROBES requests without one are the last.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._whole = seconds
        self._clock = clock
        self._lock = Lock()
        self.has_answered = False
        self.reset()

    def reset(self) -> None:
        self._seconds, self._lost, self._lost_until = self._whole, 0.0, -math.inf
        self._failed_probes, self.was_refused = 0, False

    def answered(self) -> None:
        self.has_answered = True
        if self.left <= 0:
            with self._lock:
                self._seconds, self._lost, self._failed_probes = max(self._seconds / 2, _SHORTEST_ATTEMPT), 0.0, 0

    @property
    def left(self) -> float:
        return self._seconds - self._lost

    @property
    def is_over(self) -> bool:
        """Whether no more requests are sent."""
        return self.left <= 0 and (not self.has_answered or self._failed_probes >= _PROBES)

    def attempt_timeout(self, started: float) -> float:
        """The seconds for the next attempt of a request that was started at that time: half of what is left, so that a
        lost answer can be asked for again."""
        return max((self.left - (self._clock() - started)) / 2, _SHORTEST_ATTEMPT)

    def gave_up(self, started: float, *, is_probe: bool, is_refused: bool) -> None:
        """Count the time of a request that was never answered; that of concurrent ones only once. All of it is lost
        where the address has refused connections from the beginning."""
        with self._lock:
            now = self._clock()
            self._failed_probes += is_probe
            self._lost += now - max(started, self._lost_until)
            self._lost_until = now
            if is_refused and not self.has_answered:
                self.was_refused, self._lost = True, self._seconds


def _is_retryable(problem: KubeError, repeats_conflict: bool) -> bool:
    """The server is overloaded, failing or unreachable, or an apply lost a race; a field conflict needs the caller's
    decision."""
    if not isinstance(problem, ApiError):
        return problem.is_transient
    lost_race = problem.status == 409 and problem.reason == "Conflict" and repeats_conflict
    return problem.status in _RETRIED_STATUS or (lost_race and not problem.is_field_conflict)


def _is_outage(problem: KubeError) -> bool:
    """There is no API server: no connection, no answer, or a load balancer says so (without a Status)."""
    if isinstance(problem, ApiError):
        return problem.status in (502, 503, 504) and not problem.reason
    return isinstance(problem, ConnectionProblem) and not isinstance(problem, InvalidResponse) and problem.is_transient


def _retry_after(response: Answer) -> float | None:
    text = response.headers.get("Retry-After") or ""
    return min(float(text), 1e9) if text.isdecimal() else None


def _delay(attempt: int) -> float:
    """Seconds until the next attempt, doubling with jitter so that clients spread."""
    return min(_FIRST_DELAY * 2.0**attempt, _MAX_DELAY) * random.uniform(0.5, 1.0)


def _is_certificate_problem(problem: Exception) -> bool:
    return "CERTIFICATE_VERIFY_FAILED" in str(problem) or "doesn't match" in str(problem)


def _cannot_reach(connection: Connection, problem: Exception, *, unconnected: bool = False) -> str:
    from urllib3.exceptions import NewConnectionError
    from urllib3.exceptions import TimeoutError as Urllib3Timeout  # no connection counts as a timeout there

    peer = connection.peer
    if _is_certificate_problem(problem):
        return (
            f"cannot verify the certificate of {connection.server}: {cut(str(problem))}. Set {peer.authority} to the "
            f"certificate of its authority, or, for a test cluster, {peer.validate} to false."
        )
    via = f" through the proxy {connection.proxy}" if connection.proxy else ""
    if isinstance(problem, (TimeoutError, Urllib3Timeout)) and not isinstance(problem, NewConnectionError):
        cause = (
            f"no connection within {connection.connect_timeout} s (connect_timeout)"
            if unconnected
            else (f"no answer within {connection.request_timeout:.0f} s ({peer.timeout})")
        )
    elif _NO_TLS.search(str(problem)):
        return (
            f"{peer.unreachable}{connection.server}{via}: no TLS on this port. Check the port, and whether "
            f"the URL must start with http://."
        )
    else:
        cause = cut(_system_message(problem))
    return f"{peer.unreachable}{connection.server}{via}: {cause}. Check {peer.check}."


def _system_message(problem: Exception) -> str:
    """``Connection refused``: urllib3 wraps the message of the operating system in the names of its own objects."""
    wrapped = problem.args[-1] if problem.args else None
    if isinstance(wrapped, Exception):
        step = problem.args[0]
        return f"{step.rstrip('.')}: {_system_message(wrapped)}" if isinstance(step, str) else _system_message(wrapped)
    text = _WRAPPER.sub("", str(problem))
    system = _ERRNO.search(text)
    return system[1] if system else text


# -- connections -------------------------------------------------------------------------------------------------------


def _open_pool(connection: Connection) -> tuple[Any, str]:
    """A urllib3 pool or manager for the server, and the prefix of each URL that is requested from it."""
    import urllib3

    from .metered import metered, metered_pools
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
        manager.pool_classes_by_scheme = metered_pools(manager.pool_classes_by_scheme)
        return manager, connection.server
    # Not a PoolManager, which spends a tenth of a request's time on finding its only pool.
    pool = urllib3.connection_from_url(connection.server, **options)
    pool.ConnectionCls = metered(pool.ConnectionCls)
    return pool, urlsplit(connection.server).path


def _open_socket(pool: Any, connection: Connection, timeout: float) -> Any:
    """A socket to the server, behind proxy and TLS: that of a connection as the pool opens them for its requests."""
    server = urlsplit(connection.server)
    hosts = pool.connection_from_url(connection.server) if hasattr(pool, "connection_from_url") else pool
    opened = hosts._new_conn()
    opened.timeout = timeout
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
