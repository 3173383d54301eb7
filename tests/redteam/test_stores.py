# SPDX-License-Identifier: BSD-2-Clause
"""All that the collection writes into a cluster and reads again, with any text in it.

Every label and annotation of ours, which labels.py lists, on every object; the data of our ConfigMaps; the Lease.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils import labels
from integration.manifests import training
from kubesim import Cluster

from .hostile import Visitor, forward, hostile, run
from .test_answers import JOBS, NAMESPACE, POLICY, TASKS, WRITERS

SEEDS = int(os.environ.get("GPUCTL_TEST_STORES", "3"))
KEYS = sorted(
    value
    for name, value in vars(labels).items()
    if name.isupper() and isinstance(value, str) and value.startswith(labels.PREFIX) and value != labels.PREFIX
)
TEXTS = [
    "", "x", "none", "{}", "[]", "null", "true", "1", "-1", "0.5", "NaN", "1e999", "9" * 400, '"a"', "[[]]", "[null]",
    '{"a": {"b": []}}', '{"": null}', '["a", 1]', "[" * 5_000, '{"a":' * 900 + "1" + "}" * 900, "\x1b[2J", "\ud800",
    "{", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "a=1,b", "=", ",", "a: b", "- a\n- b", "&a [*a]",
    "x" * 100_000,
]  # fmt: skip
POOL = {"kind": "pool", "pool": {"name": "p1"}, "nodes": {"node-1": {}}}
WORKSPACE = {"namespace": "w", "object_counts": {"configmaps": 500}, "claim": {"name": "data", "size": "1Gi"}}
LIMITS = {"gpu": 2, "gpu_hours": {"limit": 10}}
PROFILE = "vendor: acme\nresources: {gpu: acme.example.com/gpu}\n"


@pytest.fixture(scope="module")
def stocked() -> Iterator[Cluster]:
    """A cluster with something in every store: jobs, a ledger, histories, a pool, a quota, a policy, a workspace."""
    with Cluster(nodes=2).running() as cluster:
        what: list[tuple[str, dict[str, Any]]] = [
            ("pools.pool", {"definition": POOL}),
            ("quotas.quota", {"definition": {"kind": "quota", "quota": {"name": "q"}, "users": {"new": LIMITS}}}),
            ("insight.budgets.count_budgets", {"all_namespaces": True}),
            ("jobs.job", {"definition": [*JOBS, training("queued")], "namespace": NAMESPACE}),
            ("jobs.job", {"name": "web", "namespace": NAMESPACE, "state": "paused"}),
            ("access.policy", {"definition": POLICY}),
            ("access.workspace", WORKSPACE),
        ]
        for place, options in what:
            result = run(place, cluster.url, **options, api_key=cluster.token, request_timeout=20).result
            assert not result.get("failed"), (place, result["msg"])
        metadata = {"name": labels.ACCELERATORS_CONFIG_MAP, "namespace": labels.SYSTEM_NAMESPACE}
        cluster.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"acme.yaml": PROFILE}}])
        yield cluster


def test_the_cluster_has_something_in_every_store(stocked: Cluster) -> None:
    """Those whose names labels.py has."""
    kinds = ("ConfigMap", "Secret", "Lease", "ResourceQuota")
    names = {
        obj["metadata"]["name"] for kind in kinds for obj in stocked.call(lambda kind=kind: stocked.registry.list(kind))
    }
    assert labels.OBJECT_COUNTS in names
    assert any(name.startswith(labels.GPU_HOURS_UNTIL) for name in names)
    assert {labels.LEDGER, labels.HISTORY, labels.ACCELERATORS_CONFIG_MAP, labels.POOLS_LEASE} <= names
    assert {labels.pool_config_map_name("p1"), labels.policy_config_map_name("p")} <= names


def defacing(cluster: Cluster, seed: str, said: list[str]) -> Callable[[Visitor], object]:
    """Answers as the cluster does, but any of our keys may have any text, on every object."""
    chosen = random.Random(seed)

    def answer(visitor: Visitor) -> None:
        status, body = forward(visitor, cluster.url, cluster.token)
        found = json.loads(body) if body.startswith(b"{") else None
        if found is None or status >= 300:
            visitor.answer(body, f"{status} Status")
            return
        items = found.get("items") if str(found.get("kind", "")).endswith("List") else [found]
        kind = str(found.get("kind", "")).removesuffix("List")
        for obj in items or ():
            if "metadata" in obj:
                said.append(f"{obj.get('kind', kind)} {obj['metadata'].get('name')}: {deface(obj, kind, chosen)}")
        visitor.answer(json.dumps(found).encode(), f"{status} Status")

    return answer


def deface(obj: dict[str, Any], kind: str, chosen: random.Random) -> dict[str, str]:
    """Also the text in ConfigMaps, who holds a Lease, and what a quota allows."""
    wrong = {key: chosen.choice(TEXTS) for key in chosen.sample(KEYS, 3)}
    for place in ("labels", "annotations"):
        own = obj["metadata"].setdefault(place, {})
        own.update({key: text for key, text in wrong.items() if key in own or chosen.random() < 0.3})
    kind = obj.get("kind", kind)
    data = obj.get("data") if kind == "ConfigMap" else None
    if data and chosen.random() < 0.5:
        data[chosen.choice(sorted(data))] = chosen.choice(TEXTS)
    if kind == "Lease" and chosen.random() < 0.5:
        obj["spec"] = {**obj.get("spec", {}), "holderIdentity": chosen.choice(TEXTS)}
    hard = (obj.get("spec") or {}).get("hard") if kind == "ResourceQuota" else None
    if hard and chosen.random() < 0.5:
        hard[chosen.choice(sorted(hard))] = chosen.choice(TEXTS)
    return {key: text[:40] for key, text in wrong.items()}


PLACES = {**TASKS, **WRITERS, "counts": ("access.workspace", WORKSPACE)}


@pytest.mark.parametrize("task", PLACES)
def test_any_text_in_what_is_ours_is_no_bug(stocked: Cluster, tmp_path: Path, task: str) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "jobs.yaml").write_text(yaml.safe_dump_all([*JOBS, POOL, POLICY]))
    place, given = PLACES[task]
    options = json.loads(json.dumps(given).replace("@tmp", str(tmp_path)))
    for seed in range(SEEDS):
        said: list[str] = []
        with hostile(defacing(stocked, f"{task} {seed}", said)) as server:
            result = run(place, server.url, **options, retries=0, request_timeout=20).result
        assert "bug in runwhere.gpuctl" not in str(result.get("msg")), (seed, said[-3:], result.get("exception"))
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
        assert "\x1b" not in text, (seed, said)
        text.encode()
