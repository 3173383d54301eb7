# SPDX-License-Identifier: BSD-2-Clause
"""An API server takes the objects as they are: no refusal, no warning, and no difference to what was sent."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.fields import changes
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import priority_class
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import resource_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER
from kubesim import Cluster

VARIANTS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "variants.yaml").read_text("utf-8"))
COMMON = VARIANTS.pop("every_kind")
CASES = [
    pytest.param({"kind": kind, "job": {"name": f"{kind}-{name.replace('_', '-')}"}}, changed, id=f"{kind}-{name}")
    for kind, own in VARIANTS.items()
    for name, changed in {**COMMON, **own}.items()
]


GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.yaml"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0, controllers=False).running() as running:
        send(running, "POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}}, "application/json")
        for priority in ("high", "medium", "low"):
            assert_taken(running, priority_class(priority))
        yield running


@pytest.mark.parametrize(("job", "changed"), CASES)
def test_the_server_takes_it(job: dict[str, Any], changed: dict[str, Any], cluster: Cluster, build_job: Any) -> None:
    for obj in build_job(job, changed).objects:
        assert_taken(cluster, obj)


@pytest.mark.parametrize("golden", [pytest.param(path, id=path.stem) for path in GOLDEN])
def test_the_server_takes_the_examples(golden: Path, cluster: Cluster) -> None:
    for obj in yaml.safe_load_all(golden.read_text(encoding="utf-8")):
        assert_taken(cluster, obj)


def assert_taken(cluster: Cluster, obj: dict[str, Any]) -> None:
    live, warnings = apply(cluster, obj)
    assert warnings is None
    assert changes(obj, live, FIELD_MANAGER) == ()
    again, _ = apply(cluster, obj)
    assert again["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


def apply(cluster: Cluster, obj: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    path = resource_of(obj).path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
    query = f"?fieldManager={FIELD_MANAGER}&fieldValidation=Strict"
    return send(cluster, "PATCH", path + query, obj, "application/apply-patch+yaml")


def send(
    cluster: Cluster, method: str, path: str, body: dict[str, Any], kind: str
) -> tuple[dict[str, Any], str | None]:
    """The answer's body and its Warning header. Raises AssertionError with the server's message when it refuses."""
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": kind}
    request = urllib.request.Request(cluster.url + path, json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response), response.headers["Warning"]
    except urllib.error.HTTPError as refusal:
        raise AssertionError(json.load(refusal)["message"]) from refusal
