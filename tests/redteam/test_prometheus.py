# SPDX-License-Identifier: BSD-2-Clause
"""A server in the place of Prometheus that answers as it likes: slowly, without end, with redirects, or with texts.

test_volume.py has what tenants let a true Prometheus measure; tests/fuzz/test_stored.py damages its answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.manifests import compute
from kubesim import Cluster

from .hostile import JSON, Visitor, hostile, run
from .test_server import FLOODS, SLOW
from .trap import ESCAPES, Trap, acts_on_a_terminal

TOKEN = "token-of-prometheus-only"
READERS: dict[str, tuple[str, dict[str, Any]]] = {
    "usage": ("insight.usage.usage_info", {"use_prometheus": "always", "group_by": ["job", "user"]}),
    "advice": ("insight.advice.advice_info", {"namespaces": ["default"]}),
    "metrics": ("insight.metrics.job_metrics", {"name": "web", "namespace": "default"}),
    "idle": ("insight.idle.idle_jobs", {"action": "report"}),
}
MOST_SECONDS = 60.0  # of a task that waits 2 s for a silent Prometheus; most need a few


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1).running() as cluster:
        given = {"definition": compute(resources={"gpu": 1}), "namespace": "default", "wait": True, "wait_timeout": 60}
        result = run("jobs.job", cluster.url, api_key=cluster.token, **{"request_timeout": 20, **given}).result
        assert not result.get("failed"), result["msg"]
        yield cluster


def read(cluster: Cluster, reader: str, answer: Callable[[Visitor], object]) -> tuple[dict[str, Any], list[str]]:
    """What a module makes of such a Prometheus, and the heads of the requests that it got."""
    place, options = READERS[reader]
    with hostile(answer) as server:
        outcome = run(
            place,
            cluster.url,
            api_key=cluster.token,
            request_timeout=20,
            prometheus_url=server.url,
            prometheus_token=TOKEN,
            prometheus_timeout=2,
            allow_plaintext_credentials=True,
            **options,
        )
    text = json.dumps(outcome.result, ensure_ascii=False)
    message = str(outcome.result.get("msg", ""))
    assert server.heads, message
    assert outcome.seconds < MOST_SECONDS
    assert "bug in runwhere.gpuctl" not in message, outcome.result.get("exception")
    assert len(message) < 6_000
    assert not acts_on_a_terminal(text)
    assert TOKEN not in text
    assert cluster.token not in "".join(server.heads)
    return outcome.result, server.heads


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("answer", SLOW.values(), ids=SLOW)
def test_a_prometheus_that_takes_its_time(cluster: Cluster, reader: str, answer: Callable[[Visitor], object]) -> None:
    """A byte from time to time: the deadline is for the whole answer."""
    result, _heads = read(cluster, reader, answer)
    assert result.get("failed"), result
    assert "within 2 s (prometheus_timeout)" in result["msg"], result["msg"]


@pytest.mark.parametrize("name", FLOODS)
def test_a_prometheus_without_end(cluster: Cluster, name: str) -> None:
    first, then, _words = FLOODS[name]
    result, _heads = read(cluster, "usage", lambda request: request.flood(then, first))
    assert result.get("failed"), result


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_redirects_of_prometheus_are_not_followed(cluster: Cluster, reader: str, status: str) -> None:
    """Neither the token nor the query goes to where a proxy points."""
    with hostile(lambda request: request.answer(b"{}")) as elsewhere:
        headers = f"Location: {elsewhere.url}/api/v1/query\r\n"
        result, _heads = read(cluster, reader, lambda request: request.answer(b"", status, headers))
        assert elsewhere.heads == []
    assert result.get("failed"), result


def texts(text: str) -> dict[str, Any]:
    labels = dict.fromkeys(("namespace", "pod", "job_name", "resource", "pool", "user", "exported_pod", text), text)
    names = {"namespace": "default", "pod": "web-0", "job_name": "web"}
    series = [{"metric": each, "value": [1785585600, "0.5"]} for each in (labels, {**labels, **names})]
    data = {"resultType": "vector", "result": series}
    return {"status": "success", "data": data, "warnings": [text] * 50, "infos": [text]}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("is_error", [False, True], ids=["an answer", "an error"])
def test_texts_of_prometheus_are_inert(cluster: Cluster, tmp_path: Path, reader: str, is_error: bool) -> None:
    """In labels, warnings, errors and the reason of the status line."""
    trap = Trap(tmp_path / "sprung")
    text = f"{trap.template} {ESCAPES} " + "x" * 5_000
    failed = {"status": "error", "errorType": text, "error": text}
    body = json.dumps(failed if is_error else texts(text)).encode()
    status = f"500 {ESCAPES}" if is_error else "200 OK"
    read(cluster, reader, lambda request: request.answer(body, status, JSON))
    assert not trap.sprung


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("body", [b"", b"<html>login</html>", b"[]", b'"x"', b'{"status":"success"}', b"\xff" * 99])
def test_what_is_no_prometheus(cluster: Cluster, reader: str, body: bytes) -> None:
    """A login page is no answer without samples: nothing is called idle, and no job's use is 0."""
    result, _heads = read(cluster, reader, lambda request: request.answer(body, headers="Content-Type: text/html\r\n"))
    assert result.get("failed"), result
    assert "Prometheus" in result["msg"]
