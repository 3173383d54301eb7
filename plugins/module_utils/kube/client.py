# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The only place that talks to the API server: JSON in and out over one pool of kept-alive connections.

Every write that this client offers can be sent twice without harm, so that each may be retried: server-side apply is
idempotent by nature, deletions name the uid of what they delete, and a creation that finds its object there says so.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from ..labels import FIELD_MANAGER
from .connection import Connection
from .errors import ApiError, ConnectionProblem, Unauthorized
from .resources import POD, Resource, resource_of

PAGE_SIZE = 500

_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_OWN_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"  # of one object
_APPLY_PATCH = "application/apply-patch+yaml"
_MERGE_PATCH = "application/merge-patch+json"
_RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
_FIRST_DELAY = 0.2  # seconds; doubles with each retry
_LONGEST_DELAY = 30.0
_PIECE = 65_536  # bytes of a streamed answer
# Seconds. Servers send a bookmark every minute (apiserver/pkg/storage/cacher, defaultBookmarkFrequency): a watch that
# hears less has probably lost its connection without being told.
_WATCH_SILENCE = 90.0


T = TypeVar("T")


class Client:
    """One API server. Raises ApiError for what the server refuses and ConnectionProblem when it cannot be reached."""

    def __init__(
        self,
        connection: Connection,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._sleep = sleep
        self._pool, self._root = _open_pool(connection)
        self._brake = _RateLimiter(sleep, clock)
        self._given_up = False

    @property
    def concurrency(self) -> int:
        """How many requests the server is given at once."""
        return self._connection.concurrency

    def abort(self) -> None:
        """Send nothing more, from no thread: nobody waits for the answers."""
        self._given_up = True

    def list_objects(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> list[dict[str, Any]]:
        """All objects of a kind that the label and field selectors choose, read in pages.

        With ``metadata_only`` each has ``metadata`` and nothing else, which is all that asking for existence needs.
        """
        return self.list_slim(resource, _whole, namespace, labels=labels, fields=fields, metadata_only=metadata_only)

    def list_slim(
        self,
        resource: Resource,
        slim: Callable[[dict[str, Any]], T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> list[T]:
        """The same, keeping of each object only what ``shrink`` makes of it: one page is in memory at a time."""

        def read() -> list[T]:
            return [slim(obj) for obj in self._pages(resource, namespace, labels, fields, metadata_only)]

        return _twice_if_expired(read)

    def list_with_version(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[dict[str, Any]], str]:
        """What ``select`` finds, and the resourceVersion from which a watch goes on without missing anything."""

        def read() -> tuple[list[dict[str, Any]], str]:
            answers = list(self._answers(resource, namespace, labels, fields, "application/json"))
            objects = [obj for page in answers for obj in _items(resource, page)]
            return objects, answers[-1]["metadata"]["resourceVersion"]

        return _twice_if_expired(read)

    def watch(
        self,
        resource: Resource,
        namespace: str | None,
        version: str,
        *,
        labels: str = "",
        fields: str = "",
        seconds: float,
    ) -> Watch:
        """Open a watch of what changes after a resourceVersion; the server ends it after so many seconds."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(math.ceil(seconds)),
        }
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        path = resource.path(namespace)
        return self._send(
            "GET", path, lambda response: Watch(response, path), query, streamed=True, patience=_WATCH_SILENCE
        )

    def list_first(self, resource: Resource, *, labels: str = "", limit: int = 1) -> list[dict[str, Any]]:
        """At most ``limit`` objects, in one request: for questions that any of them answers."""
        query = {"limit": str(limit), **({"labelSelector": labels} if labels else {})}
        return _items(resource, self._request("GET", resource.path(), query))

    def preferred_version(self, group: str) -> str | None:
        """The version of an API group that the server prefers, as ``group/version``; None where the group is unknown.

        For groups of controllers that a cluster may lack; those of Kubernetes itself are at fixed paths.
        """
        try:
            return str(self._request("GET", f"/apis/{group}")["preferredVersion"]["groupVersion"])
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def get(self, resource: Resource, namespace: str | None, name: str) -> dict[str, Any] | None:
        """One object, or None. For waiting on a single object; everything else reads lists."""
        try:
            return self._request("GET", resource.path(namespace, name))
        except ApiError as error:
            if error.status == 404 and error.reason == "NotFound":
                return None
            raise

    def read_log(self, namespace: str, pod: str, query: Mapping[str, str], into: Callable[[Iterator[bytes]], T]) -> T:
        """What ``into`` makes of a container's log (``query``: PodLogOptions), which it gets in pieces of up to 64 KiB.

        After a connection that broke, it is called again with the log from its start.
        """

        def consume(response: Any) -> T:
            try:
                return into(response.stream(_PIECE))
            finally:
                response.close()  # What was not read to its end cannot serve another request.

        path = f"{POD.path(namespace, pod)}/log"
        return self._send("GET", path, consume, query, accept="application/json, */*", streamed=True)

    def apply(
        self, obj: dict[str, Any], *, dry_run: bool = False, force: bool = False, manager: str = FIELD_MANAGER
    ) -> dict[str, Any]:
        """Server-side apply: create the object or bring the fields that it names to the values that it gives."""
        query = {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}
        path = _path_of(obj)
        return self._request("PATCH", path, _dry(query, dry_run), obj, _APPLY_PATCH)

    def merge_patch(
        self,
        resource: Resource,
        metadata: Mapping[str, Any],
        patch: Mapping[str, Any],
        *,
        dry_run: bool = False,
        metadata_only: bool = False,
    ) -> dict[str, Any]:
        """Change the very version of an object that ``metadata`` was read from, by a JSON merge patch.

        The resourceVersion guards it: 409 (ApiError, reason Conflict) when somebody wrote in between, and also when an
        answer was lost and the patch sent again. The caller reads anew and decides. Where ``metadata`` has none, the
        patch is for whatever version there is. With ``metadata_only`` the answer has ``metadata`` and nothing else.
        """
        guard = {key: metadata[key] for key in ("resourceVersion",) if key in metadata}
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), **guard}}
        query = _dry({"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}, dry_run)
        path = resource.path(metadata.get("namespace"), metadata["name"])
        accept = _OWN_METADATA_ONLY if metadata_only else "application/json"
        return self._request("PATCH", path, query, guarded, _MERGE_PATCH, accept)

    def try_create(self, obj: dict[str, Any]) -> dict[str, Any] | None:
        """Prove by a dry run that the server would create the object. None: valid, but one of that name exists.

        The API server validates and admits an object before its storage looks for one of the same name
        (apiserver/pkg/registry/generic/registry/store.go, ``Store.create``), so AlreadyExists says "valid".
        """
        metadata = obj["metadata"]
        query = _dry({"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}, True)
        try:
            return self._request("POST", resource_of(obj).path(metadata.get("namespace")), query, obj)
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return None
            raise

    def create(self, obj: dict[str, Any]) -> bool:
        """Create an object. False: one of that name exists, perhaps our own, when an answer was lost."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        try:
            self._request("POST", resource_of(obj).path(obj["metadata"].get("namespace")), query, obj)
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
            return False
        return True

    def delete(
        self,
        resource: Resource,
        metadata: Mapping[str, Any],
        *,
        propagation: str,
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> bool:
        """Delete the very object that ``metadata`` was read from. False: it had gone already.

        ``propagation`` has no default: a batch/v1 Job that is deleted without it leaves its pods behind.
        """
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {"uid": metadata["uid"]},
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            # Not in the query: the server reads that only where there is no body (apiserver handlers/delete.go).
            options["dryRun"] = ["All"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        try:
            self._request("DELETE", path, None, options)
        except ApiError as error:
            gone = error.status == 404 or (error.status == 409 and "UID in the precondition" in error.message)
            if not gone:
                raise
            return False
        return True

    def delete_collection(self, resource: Resource, namespace: str, *, labels: str, grace_seconds: int) -> None:
        """Delete every object of a kind that the label selector chooses."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_seconds}
        self._request("DELETE", resource.path(namespace), {"labelSelector": labels}, options)

    def _pages(
        self, resource: Resource, namespace: str | None, labels: str, fields: str, metadata_only: bool
    ) -> Iterator[dict[str, Any]]:
        accept = _METADATA_ONLY if metadata_only else "application/json"
        for page in self._answers(resource, namespace, labels, fields, accept):
            yield from _items(resource, page)

    def _answers(
        self, resource: Resource, namespace: str | None, labels: str, fields: str, accept: str
    ) -> Iterator[dict[str, Any]]:
        """The pages of a list, as the server sends them; while one is looked at, the next one is on its way."""
        query = {"limit": str(PAGE_SIZE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields

        def ask(token: str | None = None) -> dict[str, Any]:
            whole = {**query, "continue": token} if token else query
            return self._request("GET", resource.path(namespace), whole, accept=accept)

        page = ask()
        ahead = ThreadPoolExecutor(max_workers=1)
        try:
            while token := page.get("metadata", {}).get("continue"):
                cache = ahead.submit(ask, token)
                yield page
                page = cache.result()
        finally:
            ahead.shutdown(wait=False, cancel_futures=True)  # Nobody waits for a page that is not wanted any more.
        yield page

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> dict[str, Any]:
        """Send one request and return the decoded answer."""
        return self._send(method, path, lambda response: _decode(response.data), query, body, content_type, accept)

    def _send(
        self,
        method: str,
        path: str,
        consume: Callable[[Any], T],
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        *,
        streamed: bool = False,
        patience: float | None = None,
    ) -> T:
        """What ``consume`` makes of the answer to a request, sent again while the server is busy or connections break.

        With ``streamed`` the body is left to ``consume``. ``patience`` is the number of seconds that the server may be
        silent; by default the connection's.
        """
        import urllib3

        silence = self._connection.request_timeout if patience is None else patience
        url = self._root + quote(path) + (f"?{urlencode(query)}" if query else "")
        payload = None if body is None else json.dumps(body).encode()
        for attempt in range(self._connection.retries + 1):
            last = attempt == self._connection.retries
            self._brake.wait()
            if self._given_up:
                raise ConnectionProblem(f"{method} {path} was not sent: the task was ended before")
            try:
                response = self._pool.request(
                    method,
                    url,
                    body=payload,
                    headers=self._headers(accept, content_type if payload else None),
                    redirect=False,
                    preload_content=not streamed,
                    timeout=urllib3.Timeout(connect=self._connection.request_timeout, read=silence),
                )
                if response.status < 400:
                    return consume(response)
                answer = _decode(response.data)
            except self._broken as problem:
                if last or _is_certificate_problem(problem):
                    raise ConnectionProblem(_cannot_reach(self._connection, problem)) from None
                self._sleep(_delay(attempt))
                continue
            if response.status == 401:
                raise Unauthorized(
                    f"the API server {self._connection.server} does not accept the credentials (HTTP 401). Is the "
                    f"token of api_key, or of the kubeconfig's context, still valid?"
                )
            error = ApiError(method, path, response.status, answer)
            if last or not _worth_retrying(error, content_type):
                raise error
            delay = _delay(attempt, response.headers.get("Retry-After"))
            if response.status == 429:
                self._brake.hold(delay)
            else:
                self._sleep(delay)
        raise AssertionError("unreachable")  # pragma: no cover

    @property
    def _broken(self) -> type[Exception]:
        from urllib3.exceptions import HTTPError

        broken: type[Exception] = HTTPError
        return broken

    def _headers(self, accept: str, content_type: str | None) -> Any:
        headers = {"Accept": accept, "User-Agent": FIELD_MANAGER, **self._connection.authorization()}
        if content_type:
            headers["Content-Type"] = content_type
        if not self._connection.impersonation:
            return headers
        from urllib3 import HTTPHeaderDict  # in which a name may stand several times

        impersonating = HTTPHeaderDict(headers)
        for name, value in self._connection.impersonation:
            impersonating.add(name, value)
        return impersonating


class Watch:
    """An open watch: iterate over its events, ``{"type": …, "object": …}``; the end comes when the connection ends.

    Raises ApiError for an error that the server tells within the stream (status 410: the version is too old).
    ``stop`` may be called from another thread than the one that iterates.
    """

    def __init__(self, response: Any, path: str) -> None:
        self._response = response
        self._path = path
        self._lock = Lock()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            for line in self._lines():
                event = _decode(line)
                if "object" not in event:
                    return  # Not the server speaks, but a proxy that has lost it.
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError("GET", self._path, status.get("code", 500), status)
                yield event
        finally:
            with self._lock:
                self._response.close()  # What was not read to its end cannot serve another request.

    def stop(self) -> None:
        """End the iteration, also while it waits: closing a socket does not wake its reader, shutting it down does."""
        # AttributeError, ValueError: of urllib3 and http.client, when the stream ended by itself a moment ago.
        with self._lock, suppress(OSError, AttributeError, ValueError):
            if not self._response.closed:
                with socket.socket(fileno=os.dup(self._response.fileno())) as connection:
                    connection.shutdown(socket.SHUT_RDWR)

    def _lines(self) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        begun = b""
        try:
            for piece in self._response.stream(_PIECE):
                *lines, begun = (begun + piece).split(b"\n")
                yield from lines
        except (HTTPError, OSError):
            return  # Cut, stopped or silent for too long: what was seen so far is true, and a new watch goes on.


class _RateLimiter:
    """Keeps all requests of a client back when the server says that it has too many (429, Too Many Requests).

    Were it only the refused request that waits, the others would keep the server as busy as it is.
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
        """Return at once, or when every hold is over, also those that come meanwhile."""
        while (left := self._until - self._clock()) > 0:
            self._sleep(left)


def _open_pool(connection: Connection) -> tuple[Any, str]:
    """The connections to the server, and what the URLs of requests over them begin with."""
    import urllib3

    from .tls import tls_context

    tls: dict[str, Any] = {}
    if connection.server.startswith("https"):
        if not connection.validate_certs:
            # Who asks for that knows; Ansible would show the warning as an error of its worker process.
            host = re.escape(urlsplit(connection.server).hostname or "")
            warnings.filterwarnings("ignore", f"Unverified HTTPS request is being made to host '{host}'")
        tls["ssl_context"] = tls_context(connection)
        if connection.tls_server_name:
            tls["server_hostname"] = connection.tls_server_name
            tls["assert_hostname"] = connection.tls_server_name
    options = {
        "maxsize": connection.concurrency,
        "retries": False,  # This module decides what may be sent again.
        **tls,
    }
    if connection.proxy and not _is_direct(connection):
        # Trusted like the server, but the client certificate is for the server alone.
        trust = tls_context(connection, with_client_cert=False) if connection.proxy.startswith("https") else None
        headers = dict(connection.proxy_headers)
        manager = urllib3.ProxyManager(connection.proxy, proxy_headers=headers, proxy_ssl_context=trust, **options)
        return manager, connection.server
    # Not a PoolManager, which takes a tenth of the time of a request to find the one pool that it has.
    return urllib3.connection_from_url(connection.server, **options), urlsplit(connection.server).path


def _is_direct(connection: Connection) -> bool:
    """Whether ``no_proxy`` names the server."""
    # Here: most connections have no proxy. Public, but not in typeshed.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    host = urlsplit(connection.server).hostname or ""
    return bool(proxy_bypass_environment(host, {"no": connection.no_proxy or ""}))


def _twice_if_expired(read: Callable[[], T]) -> T:
    """A continue token may outlive its snapshot: then start over (API concepts, "Retrieving large results sets")."""
    try:
        return read()
    except ApiError as error:
        if error.status != 410:
            raise
        return read()


def _whole(obj: dict[str, Any]) -> dict[str, Any]:
    return obj


def _path_of(obj: Mapping[str, Any]) -> str:
    return resource_of(dict(obj)).path(obj["metadata"].get("namespace"), obj["metadata"]["name"])


def _dry(query: dict[str, str], dry_run: bool) -> dict[str, str]:
    return {**query, "dryRun": "All"} if dry_run else query


def _items(resource: Resource, page: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects of a list; the server leaves out of each what the list says for all."""
    return [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in page.get("items") or ()]


def _decode(data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data) if data else {}
    except ValueError:
        answer = None
    # A proxy or load balancer in between answers in HTML or text: keep the beginning of what it says.
    return answer if isinstance(answer, dict) else {"message": data[:200].decode("utf-8", "replace").strip()}


def _worth_retrying(error: ApiError, content_type: str) -> bool:
    """Busy or broken for the moment; or an apply that lost a race (no field conflict: those need a decision)."""
    if error.status in _RETRIED_STATUS:
        return True
    lost_race = error.status == 409 and error.reason == "Conflict" and content_type == _APPLY_PATCH
    return lost_race and not error.is_field_conflict


def _delay(attempt: int, retry_after: str | None = None) -> float:
    """Seconds until the next try: what the server asks for, else doubling with jitter so that clients spread out."""
    if retry_after and retry_after.isdigit():
        return min(float(retry_after), _LONGEST_DELAY)
    return min(_FIRST_DELAY * 2.0**attempt, _LONGEST_DELAY) * random.uniform(0.5, 1.0)


def _is_certificate_problem(problem: Exception) -> bool:
    return "CERTIFICATE_VERIFY_FAILED" in str(problem) or "doesn't match" in str(problem)


def _cannot_reach(connection: Connection, problem: Exception) -> str:
    server = connection.server
    if _is_certificate_problem(problem):
        return (
            f"the certificate of {server} cannot be verified: {problem}. Give its authority's certificate as ca_cert, "
            f"or set validate_certs to false for a test cluster."
        )
    via = f" through the proxy {connection.proxy}" if connection.proxy else ""
    cause = _innermost(problem)
    return f"cannot reach the API server {server}{via}: {cause}. Is the cluster up, and host or context right?"


def _innermost(problem: BaseException) -> str:
    """urllib3 wraps the operating system's words ("Connection refused") in its own object names."""
    text = str(problem)
    return text.rpartition("]: ")[2] if "]: " in text else text.rpartition(">: ")[2] or text
