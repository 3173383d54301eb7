# SPDX-License-Identifier: BSD-2-Clause
"""What a notebook server says of itself: Jupyter's /api/status and /api/kernels, through the API server's proxy.

https://jupyter-server.readthedocs.io/en/latest/developers/rest-api.html. Whatever cannot be read counts as activity.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ...cluster.endpoints import SecretKey, notebook_token
from ...cluster.related import is_pod_ready, main_container
from ...kube.answer import Answer, read_json, read_status
from ...kube.client import Client
from ...kube.errors import KubeError
from ...kube.resources import POD
from ...kube.times import read_time
from ..read_secret import secret_value
from .idle_rules import span

_TIMEOUT = 10.0  # seconds
_KERNELS = b'{"kernels":'  # makes an object of a list


class Activity(NamedTuple):
    """Whether a notebook is in use, and how that is known. ``last``: when it was used last, if it is not in use."""

    active: bool
    reason: str
    last: datetime | None = None


class _NoJupyter(Exception):
    """What answers is no Jupyter, or not for us; the text says why."""


def notebook_activity(
    client: Client, workload: Mapping[str, Any], pods: list[Mapping[str, Any]], idle_for: float, now: datetime
) -> Activity:
    """Two requests, to the pod of the notebook."""
    pod = next((pod for pod in pods if is_pod_ready(pod)), None)
    if pod is None:
        return Activity(True, "its notebook server cannot be asked: no pod is ready")
    try:
        token = _token(client, workload)
        port = main_container(pod["spec"]["containers"]).get("ports", [{}])[0].get("containerPort", 8888)
        ask = _Asker(client, pod["metadata"]["namespace"], f"{pod['metadata']['name']}:{port}", token)
        return judged(ask("/api/status"), ask("/api/kernels").get("kernels"), idle_for, now)
    except _NoJupyter as problem:
        return Activity(True, f"its notebook server cannot be asked: {problem}")
    except KubeError:
        return Activity(True, "its notebook server cannot be asked: it does not answer")


def judged(status: Mapping[str, Any], kernels: Any, idle_for: float, now: datetime) -> Activity:
    """What the answers mean: a kernel that computes, an open page, or something done since. Raises _NoJupyter."""
    try:
        last = read_time(str(status["last_activity"]))
        connections = int(status.get("connections") or 0)
    except (KeyError, TypeError, ValueError):
        raise _NoJupyter("its answer is not that of Jupyter") from None
    if not isinstance(kernels, list):
        raise _NoJupyter("its answer is not that of Jupyter")
    if any(isinstance(kernel, dict) and kernel.get("execution_state") == "busy" for kernel in kernels):
        return Activity(True, "a kernel of the notebook is busy")
    if connections:
        return Activity(True, "the notebook is open in a browser")
    idle = (now - last).total_seconds()
    if idle < idle_for:
        return Activity(True, f"the notebook was used {span(max(idle, 0))} ago")
    return Activity(False, f"the notebook has not been used for {span(idle)}", last)


class _Asker:
    """Sends the token in the query: the API server removes the header Authorization once it has authenticated a request
    (apiserver/pkg/endpoints/filters/authentication.go), and Jupyter reads a token from nowhere else. Without
    no_track_activity, Jupyter counts the question as use (jupyter_server/base/handlers.py, update_api_activity)."""

    def __init__(self, client: Client, namespace: str, place: str, token: str | None) -> None:
        self._transport, self._proxy = client.transport, f"{POD.path(namespace, place)}/proxy"
        self._query = {"no_track_activity": "1", **({"token": token} if token else {})}

    def __call__(self, path: str) -> dict[str, Any]:
        return self._transport.exchange(self._proxy + path, _read_answer, self._query, read_timeout=_TIMEOUT)


def _read_answer(answer: Answer) -> dict[str, Any]:
    """The object in an answer; a list of kernels as one. Raises _NoJupyter."""
    if answer.status >= 400 and read_status(answer) is not None:
        if answer.status == 403:
            raise _NoJupyter("the account lacks the permission to get pods/proxy")
        raise _NoJupyter(f"the API server does not reach it (HTTP {answer.status})")
    if answer.status in (401, 403):
        raise _NoJupyter("it does not accept the token of the notebook")
    body = bytes(answer.body)
    is_list = body.lstrip().startswith(b"[")
    found = read_json(_KERNELS + body + b"}" if is_list else body) if answer.status == 200 else None
    if found is None:
        raise _NoJupyter(f"its answer is not that of Jupyter (HTTP {answer.status})")
    return found


def _token(client: Client, workload: Mapping[str, Any]) -> str | None:
    found = notebook_token(workload)
    if not isinstance(found, SecretKey):
        return found
    value, problem = secret_value(client, workload["metadata"]["namespace"], found)
    if value is None:
        raise _NoJupyter(problem)
    return value
