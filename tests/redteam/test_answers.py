# SPDX-License-Identifier: BSD-2-Clause
"""A server whose answers are right but for one value, and what the modules that read much of a cluster make of it."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from integration.ansible import ROOT
from integration.manifests import compute, inference, notebook, training
from kubesim import Cluster

from .hostile import Visitor, forward, hostile, run

SEEDS = int(os.environ.get("GPUCTL_TEST_ANSWERS", "25"))
NAMESPACE = "default"
MODULES = sorted((ROOT / "plugins" / "modules").glob("gpuctl_*.py"))

NEW = compute("new", resources={"gpu": 64})
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "access": ("access.access_info", {"namespaces": [NAMESPACE]}),
    "fit": (
        "insight.fit.fit_info",
        {"definition": [training(), compute("new", resources={"gpu": 64})], "namespace": NAMESPACE},
    ),
    "usage": ("insight.usage.usage_info", {"use_prometheus": "never", "group_by": ["job", "pool", "gpu_type"]}),
    "history": ("insight.history.job_history_info", {"manifests": True}),
}
VALUES: list[Any] = [
    None, True, -1, 2**63, 1e308, "", "x", "\x1b[2J", "9" * 500, "1e99999", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", "{}", [], [None], [[]], {}, {"": None}, {"a": {"b": []}},
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With jobs that run, one that has ended, quotas, a policy of priorities and a volume."""
    with Cluster(nodes=2, addons={"kueue"}).running() as cluster:
        amounts = {"requests.nvidia.com/gpu": "4", "limits.cpu": "100"}
        for body in (
            {"kind": "ResourceQuota", "metadata": {"name": "gpuctl-a"}, "spec": {"hard": amounts}},
            {"kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container"}]}},
        ):
            send(
                cluster, "POST", f"/api/v1/namespaces/{NAMESPACE}/{body['kind'].lower()}s", {"apiVersion": "v1", **body}
            )
        place, manifests = "jobs.job", [training(), compute("web", resources={"gpu": 1})]
        for state in ("present", "restarted"):
            what = {"definition": manifests, "namespace": NAMESPACE, "state": state, "wait_timeout": 20}
            result = run(place, cluster.url, **what, api_key=cluster.token, request_timeout=20).result
            assert not result.get("failed"), result
        yield cluster


def send(
    cluster: Cluster, method: str, path: str, body: Any = None, accept: str = "application/json"
) -> tuple[int, Any]:
    """What the cluster really answers."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {cluster.token}", "Accept": accept, "Content-Type": "application/json"}
    try:
        with urlopen(Request(cluster.url + path, data, headers, method=method), timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def accepted(request: Visitor) -> str:
    """The form that a request asks for, such as metadata alone."""
    line = next(line for line in request.head.splitlines() if line.lower().startswith("accept:"))
    return line.partition(":")[2].strip()


def damaging(cluster: Cluster, seed: int, said: list[str]) -> Callable[[Visitor], object]:
    """Answers as the cluster does, each third one with another value in one place."""
    chosen = random.Random(seed)

    def answer(request: Visitor) -> None:
        body = json.loads(request.body) if request.body else None
        status, found = send(cluster, request.method, request.path, body, accepted(request))
        places = list(places_in(found))
        if places and chosen.random() < 0.34:
            container, key = chosen.choice(places)
            container[key] = chosen.choice(VALUES)
            said.append(f"{request.path} {key}: {container[key]!r}"[:300])
        request.answer(json.dumps(found).encode(), f"{status} Status")

    return answer


def places_in(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Those below the items of a list, and the status: what makes it an answer at all, other tests damage."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        if depth or key in ("items", "status", "groups", "resources"):
            if depth or key == "status":
                yield value, key
            yield from places_in(child, depth + 1)


ACCOUNT = {"name": "alice", "level": "submit", "namespaces": [NAMESPACE]}
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s", "namespace": NAMESPACE}, "data": {}}
POLICY = {"kind": "policy", "policy": {"name": "p"}, "teams": {"a": {"namespaces": [NAMESPACE], "max_gpus": 4}}}
JOBS = [training(), compute("web", resources={"gpu": 1}), notebook("lab"), inference("serve")]
# Those that write, or read single objects, of which every part is damaged.
WRITERS: dict[str, tuple[str, dict[str, Any]]] = {
    "jobs": ("jobs.job", {"definition": JOBS, "namespace": NAMESPACE}),
    "restart": ("jobs.job", {"definition": JOBS, "namespace": NAMESPACE, "state": "restarted"}),
    "pause": ("jobs.job", {"definition": JOBS, "namespace": NAMESPACE, "state": "paused"}),
    "quota": ("quotas.quota", {"definition": {"kind": "quota", "quota": {"name": "q"}, "users": {"new": {"gpu": 2}}}}),
    "quota info": ("quotas.quota_info", {"all_namespaces": True}),
    "multikueue": ("access.multikueue", {"workers": [], "kueue_namespace": NAMESPACE}),
    "account": ("rbac.rbac", ACCOUNT),
    "account gone": ("rbac.rbac", {"name": "alice", "state": "absent"}),
    "workspace": ("access.workspace", {"namespace": "w", "claim": {"name": "data", "size": "1Gi"}}),
    "policy": ("access.policy", {"definition": POLICY}),
    "pool": ("pools.pool", {"definition": {"kind": "pool", "pool": {"name": "p1"}, "nodes": {"node-1": {}}}}),
    "pool info": ("pools.pool_info", {}),
    "node info": ("nodes.node_info", {}),
    "node label": ("nodes.node_label", {"nodes": ["node-1"], "labels": {"a": "b"}}),
    "job info": ("insight.jobs.job_info", {"all_namespaces": True, "details": True, "unmanaged": True, "full": True}),
    "log": ("insight.follow.follow_log", {"name": "web", "namespace": NAMESPACE}),
    "doctor": ("insight.doctor.doctor", {}),
    "overview": ("insight.overview", {}),
    "record": ("insight.history.job_history", {}),
    "idle": ("insight.idle.idle_jobs", {}),
    "expire": ("insight.limits.expire", {"warn_before": "0"}),
    "budget": ("insight.budgets.count_budgets", {}),
    "extend": ("insight.limits.extend", {"name": "lab", "namespace": NAMESPACE, "by": "1h"}),
    "advice": ("insight.advice.advice_info", {}),
    "placement": ("insight.placement.placement", {"name": "sft", "namespace": NAMESPACE, "cluster": "east"}),
    "stack": ("stack.stack", {"name": "s", "objects": [SETTINGS], "node_labels": {"node-1": {"example.com/a": "b"}}}),
    "stack gone": ("stack.stack", {"name": "s", "state": "absent"}),
    "kubeconfig": ("access.account_kubeconfig", {"name": "alice", "dest": "@tmp/kubeconfig"}),
    "metrics": ("insight.metrics.job_metrics", {"name": "web", "namespace": NAMESPACE}),
    "monitoring": ("insight.monitoring.monitoring_info", {"accelerators": ["nvidia"]}),
    "drift": ("insight.drift.drift_info", {"src": ["@tmp/manifests"]}),
    "take back": (
        "insight.drift.restore",
        {"src": ["@tmp/manifests"], "restore": [f"Deployment/{NAMESPACE}/web:spec.replicas"]},
    ),
    "plan": ("insight.plan.plan_info", {"src": ["@tmp/manifests"], "namespace": NAMESPACE}),
    "copy": (
        "insight.copy.copy",
        {"name": "web", "namespace": NAMESPACE, "local_path": "@tmp/copied", "remote_path": "/a", "state": "from_pod"},
    ),
}


def damaging_all(cluster: Cluster, seed: str, said: list[str]) -> Callable[[Visitor], object]:
    """Answers as the cluster does, also to writes, each third one with another value anywhere."""
    chosen = random.Random(seed)

    def answer(visitor: Visitor) -> None:
        status, body = forward(visitor, cluster.url, cluster.token)
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        places = list(places_in({"items": found}))
        if places and status < 300 and chosen.random() < 0.34:
            container, key = chosen.choice(places)
            container[key] = chosen.choice(VALUES)
            said.append(f"{visitor.method} {visitor.path} {key}: {container[key]!r}"[:300])
        visitor.answer(json.dumps(found).encode() if places else body, f"{status} Status")

    return answer


@pytest.mark.parametrize("task", WRITERS)
def test_one_wrong_value_in_any_answer_is_no_bug(cluster: Cluster, tmp_path: Path, task: str) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "jobs.yaml").write_text(yaml.safe_dump_all(JOBS))
    place, given = WRITERS[task]
    options = json.loads(json.dumps(given).replace("@tmp", str(tmp_path)))
    for seed in range(SEEDS // 4 + 1):
        said: list[str] = []
        with hostile(damaging_all(cluster, f"{task} {seed}", said)) as server:
            result = run(place, server.url, **options, retries=0, request_timeout=20).result
        assert server.heads, f"the server was not asked: {result['msg']}"
        assert "bug in runwhere.gpuctl" not in str(result.get("msg")), (seed, said[-1:], result.get("exception"))
        assert "\x1b" not in json.dumps(result, ensure_ascii=False), (seed, said)


def test_every_module_that_asks_a_server_is_attacked() -> None:
    attacked = {place for place, _options in (*TASKS.values(), *WRITERS.values())}
    found = {
        match[1] for path in MODULES for match in re.finditer(r"module_utils\.([\w.]+) import MODULE", path.read_text())
    }
    assert found - attacked == set()


@pytest.mark.parametrize("task", TASKS)
def test_one_wrong_value_is_left_out_or_said(cluster: Cluster, task: str) -> None:
    place, options = TASKS[task]
    for seed in range(SEEDS):
        said: list[str] = []
        with hostile(damaging(cluster, seed, said)) as server:
            result = run(place, server.url, **options, retries=0, request_timeout=20).result
        assert "bug in runwhere.gpuctl" not in str(result.get("msg")), (seed, said, result.get("exception"))
        assert "\x1b" not in json.dumps(result, ensure_ascii=False), (seed, said)
        assert len(str(result.get("msg"))) < 6_000


def test_one_wrong_value_of_what_waits_is_left_out_or_said() -> None:
    """The small job delays the one that waits for the other half of the node."""
    place, options = "insight.fit.fit_info", {"definition": [training("small")], "namespace": NAMESPACE}
    with Cluster(nodes=1).running() as cluster:
        for job in (
            training(job={"name": "half", "time_limit": "5h"}, resources={"gpu": 4}),
            training("big", resources={"gpu": 8}),
        ):
            given = {"definition": job, "namespace": NAMESPACE, "wait": "time_limit" in job["job"], "wait_timeout": 20}
            result = run("jobs.job", cluster.url, **given, api_key=cluster.token, request_timeout=20).result
            assert not result.get("failed"), result
        delaying = 0
        for seed in range(2 * SEEDS):
            said: list[str] = []
            with hostile(damaging(cluster, seed, said)) as server:
                result = run(place, server.url, **options, retries=0, request_timeout=20).result
            assert "bug in runwhere.gpuctl" not in str(result.get("msg")), (seed, said, result.get("exception"))
            delaying += any(row["delays"] for row in result.get("results") or ())
        assert delaying


def test_a_class_of_priority_without_a_number_is_left_out(cluster: Cluster) -> None:
    def answer(request: Visitor) -> None:
        body = json.loads(request.body or b"null")
        status, found = send(cluster, request.method, request.path, body, accepted(request))
        for one in found.get("items", ()) if "priorityclasses" in request.path else ():
            one["value"] = {"a": 1}
        request.answer(json.dumps(found).encode(), f"{status} Status")

    place, options = TASKS["fit"]
    with hostile(answer) as server:
        result = run(place, server.url, **options, request_timeout=20).result
    assert not result.get("failed"), result
    assert "PriorityClass gpuctl-medium cannot be read: value: an object instead of a whole number" in str(
        result["warnings"]
    )


def test_an_amount_that_no_machine_has_is_left_out(cluster: Cluster) -> None:
    """Its share of another one is no number."""

    def answer(request: Visitor) -> None:
        status, found = send(cluster, request.method, request.path, json.loads(request.body or b"null"))
        for quota in found.get("items", ()) if "resourcequotas" in request.path else ():
            quota["status"] = {"used": {"requests.nvidia.com/gpu": "9" * 500}}
        request.answer(json.dumps(found).encode(), f"{status} Status")

    place, options = TASKS["access"]
    with hostile(answer) as server:
        result = run(place, server.url, **options, request_timeout=20).result
    assert not result.get("failed"), result
    assert result["quotas"] == []


def test_quotas_that_may_not_be_read_are_not_called_none(cluster: Cluster) -> None:
    def answer(request: Visitor) -> None:
        status, found = send(cluster, request.method, request.path, json.loads(request.body or b"null"))
        if "resourcequotas" in request.path:
            status, found = 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}
        request.answer(json.dumps(found).encode(), f"{status} Status")

    place, options = TASKS["access"]
    with hostile(answer) as server:
        result = run(place, server.url, **options, request_timeout=20).result
    assert result["quotas"] == []
    assert any("the quotas of namespace default are not known: no (HTTP 403" in text for text in result["warnings"])
