# SPDX-License-Identifier: BSD-2-Clause
"""Queries to Prometheus, or to what has its API, by URL or through the API server's proxy for services."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeVar

from ...kube.answer import Answer
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.connection_options import resolve_options
from ...kube.errors import AnswerTooLarge, ApiError, ConnectionProblem, if_allowed
from ...kube.resources import NAMESPACE, ROLE_BINDING, SERVICE
from ...kube.transport import Transport
from ...labels import DEFAULT_NAMESPACE
from ...labels import NAMESPACE as NAMESPACE_OF_USERS
from ...task import Task
from .prometheus_answer import (
    PrometheusAnswer,
    Sample,
    Series,
    TooManySamples,
    read_matrix,
    read_prometheus_answer,
    read_vector,
    too_many,
)
from .prometheus_options import (
    PrometheusOptions,
    PrometheusSettings,
    prometheus_connection,
    prometheus_secrets,
    prometheus_settings,
)
from .prometheus_service import PrometheusService, candidates_in, given_service, is_for_users, only_service

MOST_POINTS = 11_000
"""Of one series in one answer (web/api/v1/api.go of Prometheus). VictoriaMetrics allows 30,000."""

_MOST_SAMPLES = 1_000_000  # of one query, in memory
_SMALLEST_PART = 100  # points
_LONG_QUERY = 1_500  # characters: ten times as many may be too much for a proxy, and a log of one
# Thanos, then VictoriaMetrics: an error in place of an answer with a part of the data. The others ignore them.
_WHOLE = {"partial_response": "false", "deny_partial_response": "1"}

T = TypeVar("T")


class _Send(Protocol):
    def __call__(
        self, path: str, read: Callable[[Answer], T], query: Mapping[str, str], *, as_form: bool
    ) -> T: ...  # pragma: no cover


class Prometheus:
    """One server. Every method raises PrometheusError for a query without an answer, ConnectionProblem for none at all.

    ``where`` is what messages call it. ``warnings`` are those of all answers so far, each once.
    """

    def __init__(self, where: str, send: _Send, timeout: int, mask: Callable[[str], str] = str) -> None:
        self.where = where
        self._send = send
        self._timeout = timeout
        self._mask = mask
        self._notes: dict[str, None] = {}
        self._lock = Lock()
        self.is_partial = False

    @property
    def warnings(self) -> list[str]:
        return list(self._notes)

    def query(self, expression: str, at: float | None = None) -> list[Sample]:
        """The samples of an expression at a time, in seconds since 1970; by default now."""
        parameters = {"query": expression, **({} if at is None else {"time": _seconds_text(at)})}
        return read_vector(self._send_query("/api/v1/query", parameters), self.where)

    def query_all(self, expressions: Mapping[str, str], at: float | None = None) -> dict[str, list[Sample]]:
        """The samples of several expressions, asked for at once, by their names."""
        found = run_concurrently(partial(self.query, at=at), expressions.values(), _AT_ONCE)
        return dict(zip(expressions, found, strict=True))

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """The series of an expression, a value each ``step`` seconds from ``start`` to ``end`` at most.

        A range with more points than one answer may have is asked for in parts.
        """
        if step <= 0 or end < start:
            return []
        count = math.floor((end - start) / step + 1e-9) + 1
        if count > _MOST_SAMPLES:
            raise TooManySamples(too_many(self.where))
        parts = [(start + first * step, min(MOST_POINTS, count - first)) for first in range(0, count, MOST_POINTS)]
        read = partial(self._read_part, expression, step)
        return _joined([found for part in run_concurrently(read, parts, _AT_ONCE) for found in part], self.where)

    def query_ranges(
        self, expressions: Mapping[str, str], start: float, end: float, step: float
    ) -> dict[str, list[Series]]:
        """The series of several expressions, asked for at once, by their names."""
        found = run_concurrently(lambda each: self.query_range(each, start, end, step), expressions.values(), _AT_ONCE)
        return dict(zip(expressions, found, strict=True))

    def _read_part(self, expression: str, step: float, part: tuple[float, int]) -> list[Series]:
        """The series in so many points from a time; in halves if they are too many for one answer."""
        start, count = part
        parameters = {
            "query": expression,
            "start": _seconds_text(start),
            "end": _seconds_text(start + (count - 1) * step),
            "step": _seconds_text(step),
        }
        try:
            return read_matrix(self._send_query("/api/v1/query_range", parameters), self.where)
        except TooManySamples:
            if count < 2 * _SMALLEST_PART:
                raise
        half = count // 2
        halves = [(start, half), (start + half * step, count - half)]
        return [found for each in halves for found in self._read_part(expression, step, each)]

    def _send_query(self, path: str, parameters: Mapping[str, str]) -> Any:
        everything = {**parameters, **_WHOLE}
        if "query" in parameters:
            everything["timeout"] = f"{self._timeout}s"
        try:
            answer: PrometheusAnswer = self._send(
                path,
                lambda received: read_prometheus_answer(received, self.where, self._mask),
                everything,
                as_form=sum(map(len, parameters.values())) > _LONG_QUERY,
            )
        except AnswerTooLarge:
            raise TooManySamples(too_many(self.where)) from None
        with self._lock:
            self._notes.update(dict.fromkeys(answer.warnings))
            self.is_partial = self.is_partial or answer.is_partial
            if answer.is_partial:
                self._notes[f"the answer of {self.where} lacks the data of some of its stores"] = None
        return answer.data


_AT_ONCE = 4


def open_prometheus(task: Task[Any], options: PrometheusOptions) -> Prometheus:
    """The server that the options, their variables or the services of the cluster name.

    Raises ConnectionProblem if there is none, and what reading the services of the cluster raises.
    """
    task.mask(prometheus_secrets(options, task.environ))
    settings = prometheus_settings(options, task.environ)
    if settings.url:
        allow_plaintext = bool(resolve_options(task.params, task.environ)["allow_plaintext_credentials"])
        connection = prometheus_connection(settings, allow_plaintext=allow_plaintext)
        transport = Transport(connection, time.sleep, time.monotonic)
        transport.report_secrets(task.mask)
        send = partial(transport.exchange, headers=settings.headers, read_timeout=float(settings.timeout))
        return Prometheus(connection.server, send, settings.timeout, transport.masked)
    client = task.client()
    service = given_service(settings.service) if settings.service else _find_service(client)
    return _prometheus_of_service(client, service, settings)


def _prometheus_of_service(client: Client, service: PrometheusService, settings: PrometheusSettings) -> Prometheus:
    if settings.token or settings.user or settings.client_cert:
        raise ConnectionProblem(
            "O(prometheus_token), O(prometheus_user) or O(prometheus_client_cert) without O(prometheus_url): the API "
            "server passes no credentials on to a service. Set O(prometheus_url)."
        )

    def send(path: str, read: Callable[[Answer], T], query: Mapping[str, str], *, as_form: bool) -> T:
        return client.transport.exchange(
            f"{SERVICE.path(service.namespace, service.proxied)}/proxy{service.path}{path}",
            read,
            query,
            as_form=as_form,
            headers=settings.headers,
            read_timeout=float(settings.timeout),
        )

    return Prometheus(f"service {service.namespace}/{service.proxied}{service.path}", send, settings.timeout)


def _find_service(client: Client) -> PrometheusService:
    try:
        services = client.list_slim(SERVICE, lambda service: {name: service.get(name) for name in ("metadata", "spec")})
    except ApiError as error:
        if not error.is_forbidden:
            raise
        raise ConnectionProblem(
            "the services of the cluster may not be listed to find Prometheus. Set O(prometheus_url), or "
            "O(prometheus_service) to namespace/name:port."
        ) from None
    candidates = candidates_in(services)
    return only_service(candidates, _namespaces_of_users(client, {service.namespace for service in candidates}))


def _namespaces_of_users(client: Client, names: Collection[str]) -> set[str]:
    """Those of the namespaces in which others than administrators write: the default one, those that quotas and
    workspaces have made or marked, and those in which an account of elsewhere has a role."""
    if not names:
        return set()
    marked = {
        obj["metadata"]["name"] for obj in client.list_objects(NAMESPACE, labels=NAMESPACE_OF_USERS, metadata_only=True)
    }
    bound = {
        name
        for name in sorted({*names} - marked)
        for binding in if_allowed(partial(client.list_objects, ROLE_BINDING, name), list[dict[str, Any]]())
        if is_for_users(binding)
    }
    return {DEFAULT_NAMESPACE, *marked, *bound}


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def _joined(parts: Iterable[Series], where: str) -> list[Series]:
    """Each series once, with the points of all parts, which come in the order of time."""
    found: dict[frozenset[tuple[str, str]], Series] = {}
    count = 0
    for part in parts:
        count += len(part.points)
        if count > _MOST_SAMPLES:
            raise TooManySamples(too_many(where))
        found.setdefault(frozenset(part.labels.items()), Series(part.labels)).points.extend(part.points)
    return list(found.values())
