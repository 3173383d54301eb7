# SPDX-License-Identifier: BSD-2-Clause
"""What counts as an answer of Prometheus, or of what has its API: Thanos, Grafana Mimir, VictoriaMetrics.

https://prometheus.io/docs/prometheus/latest/querying/api/. Answers come from outside: whatever does not have this shape
is an error, and a value that is no finite number is no data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...kube.answer import Answer, described, estimated_memory, is_page, read_json, read_status
from ...kube.errors import KubeError, as_sentence, cut
from ...kube.limits import ANSWER_MEMORY, LARGE_ANSWER

_LONGEST_ERROR = 300  # characters
_MOST_NOTES = 10
_GATEWAY = frozenset({429, 502, 503, 504})
_LARGEST = 1e30  # No device has that of anything, and a sum of such values is still a number.


class PrometheusError(KubeError):
    """The query has no answer; ``str()`` is the message for the user."""


class TooManySamples(PrometheusError):
    """The answer is larger than is read, or than Prometheus loads: a part of the range may have one."""


@dataclass(frozen=True)
class Sample:
    """The value of a series at one time."""

    labels: Mapping[str, str]
    time: float
    value: float


@dataclass
class Series:
    """A series in a range: its times, in seconds since 1970, and its values, in their order."""

    labels: Mapping[str, str]
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class PrometheusAnswer:
    """``data`` of an answer, and what the server wants to be known about it."""

    data: Any
    warnings: tuple[str, ...] = ()
    is_partial: bool = False


def read_prometheus_answer(answer: Answer, where: str, mask: Callable[[str], str] = str) -> PrometheusAnswer:
    """The answer in a response of the server ``where``. Raises PrometheusError."""
    if len(answer.body) > LARGE_ANSWER and estimated_memory(answer.body) > ANSWER_MEMORY:
        raise TooManySamples(too_many(where))
    found = None if is_page(answer) else read_json(answer.body)
    if found is not None and found.get("status") == "success" and 200 <= answer.status < 300:
        warnings = [*_note_texts(found.get("warnings")), *_note_texts(found.get("infos"))]
        partial = found.get("isPartial") is True
        return PrometheusAnswer(found.get("data"), tuple(mask(cut(each, _LONGEST_ERROR)) for each in warnings), partial)
    raise _rejected_query(answer, found, where, mask)


def too_many(where: str) -> str:
    return f"too many samples for one query: {where}. Choose a shorter range, a longer step or fewer jobs."


def _rejected_query(
    answer: Answer, found: dict[str, Any] | None, where: str, mask: Callable[[str], str]
) -> PrometheusError:
    status = read_status(answer) if answer.status >= 400 else None
    if status is not None:
        return _api_server_error(answer.status, str(status.get("message") or "no explanation given"), where)
    said = (found or {}).get("error")
    text = mask(cut(said, _LONGEST_ERROR)) if isinstance(said, str) and said else described(answer, mask)
    kind = (found or {}).get("errorType")
    problem: type[PrometheusError] = PrometheusError
    if answer.status == 401:
        message = (
            f"credentials rejected by Prometheus (HTTP 401): {where}, {text}. Check O(prometheus_token), or "
            f"O(prometheus_user) and O(prometheus_password), and O(prometheus_tenant) where it has tenants."
        )
    elif answer.status == 403:
        message = (
            f"access denied by Prometheus (HTTP 403): {where}, {text}. Grant the account of O(prometheus_token) or "
            f"O(prometheus_user) the right to query, or check O(prometheus_tenant)."
        )
    elif 300 <= answer.status < 400:
        message = f"Prometheus is elsewhere: {where} answers with {text}. Set O(prometheus_url) to that address."
    elif kind == "timeout" or (found is not None and answer.status == 503):
        message = (
            f"Prometheus took too long for a query: {where}, {text}. Set O(prometheus_timeout) higher, or choose a "
            f"shorter range or a longer step."
        )
    elif found is not None and "too many samples" in text:
        problem, message = TooManySamples, too_many(where)
    elif isinstance(kind, str) and found is not None:
        message = f"Prometheus rejects a query ({cut(mask(kind), 40)}, HTTP {answer.status}): {as_sentence(text)}"
        message += _HINTS.get(kind, " Look at the log of Prometheus.")
    elif answer.status == 404:
        message = (
            f"no Prometheus API at this address: {where} (HTTP 404). Set O(prometheus_url) to what comes before "
            f"/api/v1, such as https://mimir.example.com/prometheus."
        )
    else:
        message = (
            f"not an answer of Prometheus: {where} returned {text} (HTTP {answer.status}). A proxy or login page may "
            f"answer in its place. Check O(prometheus_url)."
        )
    error = problem(message)
    error.is_transient = answer.status in _GATEWAY and found is None
    return error


_HINTS = {
    "bad_data": " Correct the expression if it is yours, such as O(throughput_query); report it otherwise.",
    "execution": " Two series may have the same labels; the log of Prometheus may say more.",
    "canceled": " Run the task again.",
}


def _api_server_error(status: int, said: str, where: str) -> PrometheusError:
    """The error of the API server, on the way to a service."""
    text = cut(said, _LONGEST_ERROR)
    if status == 403:
        return PrometheusError(
            f"Prometheus cannot be asked through the API server (HTTP 403): {as_sentence(text)} Let an administrator "
            f"grant get and create of services/proxy for {where}, or set O(prometheus_url)."
        )
    if status == 404:
        return PrometheusError(f"service of Prometheus not found: {where}. Check O(prometheus_service).")
    return PrometheusError(
        f"Prometheus cannot be reached through the API server (HTTP {status}): {where}, {as_sentence(text)} Check that "
        f"its pods are ready and that no network policy keeps the control plane out, or set O(prometheus_url)."
    )


# -- shapes ------------------------------------------------------------------------------------------------------------


def read_vector(data: Any, where: str) -> list[Sample]:
    """The samples of an instant query; a scalar is one without labels. Raises PrometheusError."""
    kind, result = _typed_result(data, where)
    if kind == "scalar":
        result = [{"metric": {}, "value": result}]
    elif kind != "vector":
        raise _malformed(where, f"a {cut(str(kind), 40)} instead of a vector")
    samples = []
    for each in _series_blocks(result, where):
        if "value" in each and (point := _point(each["value"], where)):
            samples.append(Sample(_series_labels(each, where), *point))
    return samples


def read_matrix(data: Any, where: str) -> list[Series]:
    """The series of a range query, those with a finite value. Raises PrometheusError."""
    kind, result = _typed_result(data, where)
    if kind != "matrix":
        raise _malformed(where, f"a {cut(str(kind), 40)} instead of a matrix")
    found = []
    for each in _series_blocks(result, where):
        values = each.get("values", [])
        if not isinstance(values, list):
            raise _malformed(where, "a series without values")
        points = [point for value in values if (point := _point(value, where))]
        if points:
            found.append(Series(_series_labels(each, where), points))
    return found


def _typed_result(data: Any, where: str) -> tuple[Any, Any]:
    if not isinstance(data, dict) or "resultType" not in data:
        raise _malformed(where, "a success without a result")
    return data["resultType"], data.get("result")


def _series_blocks(result: Any, where: str) -> list[dict[str, Any]]:
    if result is None:  # Go writes an empty list as null.
        return []
    if not isinstance(result, list) or not all(isinstance(each, dict) for each in result):
        raise _malformed(where, "a result that is no list of series")
    return result


def _series_labels(series: Mapping[str, Any], where: str) -> dict[str, str]:
    labels = series.get("metric")
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise _malformed(where, "a series without labels")
    return labels


def _point(value: Any, where: str) -> tuple[float, float] | None:
    """Time and value; None for one that is absurdly large or no number, which JSON carries as the text ``NaN``."""
    try:
        time, number = float(value[0]), float(value[1])
    except (TypeError, ValueError, LookupError, OverflowError):
        raise _malformed(where, "a sample that is no number") from None
    return (time, number) if abs(number) < _LARGEST and math.isfinite(time) else None


def _malformed(where: str, what: str) -> PrometheusError:
    return PrometheusError(f"not an answer of Prometheus: {where} returned {what}. Check O(prometheus_url).")


def _note_texts(values: Any) -> list[str]:
    return [each for each in values if isinstance(each, str)][:_MOST_NOTES] if isinstance(values, list) else []
