# SPDX-License-Identifier: BSD-2-Clause
"""A server that refuses one write of a task, or all requests for an hour: what the task says is done and left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from integration.manifests import inference
from kubesim import Cluster

from .hostile import JSON, Visitor, forward, hostile, run

NAMESPACE = "default"
POLICY = {"kind": "policy", "policy": {"name": "p"}, "teams": {"a": {"namespaces": [NAMESPACE], "max_gpus": 4}}}
QUOTA = {"kind": "quota", "quota": {"name": "q"}, "users": {"new": {"gpu": 4}}}
CLAIM = {"name": "data", "size": "1Gi"}
ACCOUNT = {"name": "alice", "level": "submit", "namespaces": [NAMESPACE]}

# The task, a part of the path of the write that is refused, and what the message says.
CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "job": (
        "jobs.job",
        {"definition": inference("web"), "namespace": NAMESPACE},
        "/services/",
        "Done: Deployment web created. Left: Service svc-web.",
    ),
    "account": (
        "rbac.rbac",
        ACCOUNT,
        "/namespaces/default/rolebindings",
        " and 6 more. Left: RoleBinding gpuctl-submit:gpuctl-system:alice in namespace default.",
    ),
    "account, first write": ("rbac.rbac", ACCOUNT, "/", "Nothing was changed."),
    "workspace": (
        "access.workspace",
        {"namespace": "alice", "claim": CLAIM, "tokens": {"HF_TOKEN": "hf-0123456789"}},
        "/secrets",
        "Done: Namespace alice created, PersistentVolumeClaim data created. Left: Secret ",
    ),
    "workspace, first write": ("access.workspace", {"namespace": "bob", "claim": CLAIM}, "/", "Nothing was changed."),
    "policy": (
        "access.policy",
        {"definition": POLICY},
        "bindings",
        " created. Left: ValidatingAdmissionPolicyBinding ",
    ),
    "policy, first write": ("access.policy", {"definition": POLICY}, "/", "Nothing was changed."),
    "quota": (
        "quotas.quota",
        {"definition": QUOTA},
        "/resourcequotas",
        "Done: Namespace new created. Left: ResourceQuota q-new.",
    ),
    "quota, first write": ("quotas.quota", {"definition": QUOTA}, "/", "Nothing was changed."),
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1).running() as cluster:
        yield cluster


def is_write(visitor: Visitor) -> bool:
    dry = "dryRun" in visitor.path or b'"dryRun"' in visitor.body
    return visitor.method != "GET" and not dry and "reviews" not in visitor.path


def refusing(cluster: Cluster, part: str) -> Callable[[Visitor], None]:
    """All that the cluster answers, but for one write."""
    refused: list[str] = []
    text = 'admission webhook "guard.example.com" denied the request: not today'

    def answer(visitor: Visitor) -> None:
        if is_write(visitor) and part in visitor.path and refused in ([], [visitor.path]):
            refused[:] = [visitor.path]
            status = {"kind": "Status", "status": "Failure", "code": 400, "reason": "BadRequest", "message": text}
            visitor.answer(json.dumps(status).encode(), "400 Bad Request")
            return
        code, body = forward(visitor, cluster.url, cluster.token)
        visitor.answer(body, f"{code} Status")

    return answer


@pytest.mark.parametrize(("place", "options", "part", "expected"), CASES.values(), ids=CASES)
def test_what_is_done_and_what_is_left(
    cluster: Cluster, place: str, options: dict[str, Any], part: str, expected: str
) -> None:
    with hostile(refusing(cluster, part)) as server:
        done = run(place, server.url, **options, request_timeout=20)
    assert done.result["failed"]
    assert "not today" in done.message
    assert expected in done.message
    assert ("Nothing was changed" in done.message) is not done.result.get("changed", False)
    again = run(place, cluster.url, **options, api_key=cluster.token, request_timeout=20)
    assert not again.result.get("failed"), again.message


PATIENCE: dict[str, tuple[str, dict[str, Any]]] = {
    "job": ("jobs.job", {"definition": inference("web"), "namespace": NAMESPACE}),
    "account": ("rbac.rbac", ACCOUNT),
    "quota": ("quotas.quota", {"definition": QUOTA}),
    "pools": ("pools.pool_info", {}),
}


@pytest.mark.parametrize("task", PATIENCE)
def test_an_hour_of_patience_is_named(task: str) -> None:
    def answer(visitor: Visitor) -> None:
        status = {"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "busy"}
        visitor.answer(json.dumps(status).encode(), "429 Too Many Requests", f"{JSON}Retry-After: 3600\r\n")

    place, options = PATIENCE[task]
    with hostile(answer) as server:
        done = run(place, server.url, **options)
    assert "The server asks to wait 60 min. Run the task again then. Nothing was changed." in done.message
    assert done.seconds < 5
