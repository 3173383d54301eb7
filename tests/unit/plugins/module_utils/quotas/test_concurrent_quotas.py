# SPDX-License-Identifier: BSD-2-Clause
"""Two tasks that change one quota at the same time, and tasks that fail after they have written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine import rounds
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import (
    LIMIT_RANGE,
    NAMESPACE,
    RESOURCE_QUOTA,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_options import QuotaOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed
from kubesim import Cluster

from ..kube.breaking_client import BreakingClient

BOTH = {"one": {"cpu": 9}, "two": {"memory": "9Gi"}}


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_DELAYS", (0.0, 1.0))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0).running() as running:
        yield running


def run(client: Client, warnings: list[str] | None = None, **options: Any) -> dict[str, Any]:
    said: list[str] = [] if warnings is None else warnings
    task = Task(QuotaOptions(**options), {}, False, said.append, lambda values: None, opened_client=client)
    return MODULE.run(task)


def limit(client: Client, users: dict[str, Any], warnings: list[str] | None = None, name: str = "q") -> dict[str, Any]:
    return run(client, warnings, definition={"kind": "quota", "quota": {"name": name}, "users": users})


def state(cluster: Cluster) -> dict[str, list[str]]:
    """The kinds and CPU limits of the quota's objects by namespace."""
    client = BreakingClient(cluster)
    found: dict[str, list[str]] = {}
    for kind in (LIMIT_RANGE, RESOURCE_QUOTA):
        for obj in client.list_objects(kind):
            hard = obj["spec"].get("hard") or {}
            found.setdefault(obj["metadata"]["namespace"], []).append(hard.get("limits.cpu") or obj["kind"])
    return found


def failure(run: Callable[[], object]) -> TaskFailed:
    with pytest.raises(TaskFailed) as raised:
        run()
    return raised.value


@pytest.mark.parametrize("moment", ["q-one", "one", "two", "q-two"])
@pytest.mark.parametrize("rival", [{"one": {"cpu": 7}}, {"two": {"cpu": 7}}], ids=["one", "two"])
def test_two_quotas_are_never_mixed(cluster: Cluster, moment: str, rival: dict[str, Any]) -> None:
    client = BreakingClient(cluster)
    client.before[moment] = lambda: limit(BreakingClient(cluster), rival)
    assert limit(client, BOTH)["changed"]
    assert state(cluster) == {"one": ["LimitRange", "9"], "two": ["LimitRange", "ResourceQuota"]}


def test_a_removal_beside_another_task_is_complete(cluster: Cluster) -> None:
    limit(BreakingClient(cluster), BOTH)
    client, warnings = BreakingClient(cluster), list[str]()
    client.before["q-two"] = lambda: limit(BreakingClient(cluster), BOTH)
    assert run(client, warnings, name="q", state="absent")["changed"]
    assert state(cluster) == {}


def test_two_quotas_of_other_names_are_both_reported(cluster: Cluster) -> None:
    client = BreakingClient(cluster)
    client.before["q-one"] = lambda: limit(BreakingClient(cluster), {"one": {"cpu": 7}}, name="other")
    failed = failure(lambda: limit(client, BOTH))
    assert "another task added the namespace one to the quota other at the same time" in str(failed)
    assert failed.result["changed"]


@pytest.mark.parametrize("fatal", ["two", "q-two"])
def test_what_was_done_before_a_failure_is_reported(cluster: Cluster, fatal: str) -> None:
    client = BreakingClient(cluster)
    client.concurrency = 1
    client.fatal = {fatal}
    failed = failure(lambda: limit(client, BOTH))
    assert "It is not known whether" in str(failed)
    assert "1 other namespaces done, 0 not started." in str(failed)
    assert failed.result["changed"]
    assert [each["namespace"] for each in failed.result["results"]] == ["one", "two"]


def test_an_unmanaged_namespace_that_was_not_listed_is_not_taken_for_a_new_one(cluster: Cluster) -> None:
    """It appears in the meantime, or the answer to the list was wrong."""
    other = BreakingClient(cluster)
    client = BreakingClient(cluster)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}}
    client.before["one"] = lambda: other.create(namespace)
    assert limit(client, {"one": {"cpu": 9}})["changed"]
    found = other.get(NAMESPACE, None, "one")
    assert "app.kubernetes.io/managed-by" not in found["metadata"]["labels"]
    kept = run(other, state="absent", name="q", delete_namespaces=True)
    assert kept["results"][0]["reason"] == "not created by gpuctl"


def test_an_unchanged_quota_costs_no_further_look(cluster: Cluster) -> None:
    limit(BreakingClient(cluster), BOTH)
    cluster.requests.reset()
    assert not limit(BreakingClient(cluster), BOTH)["changed"]
    assert [entry.verb for entry in cluster.requests] == ["list"] * 3


def test_usage_that_cannot_be_read_is_a_warning(cluster: Cluster) -> None:
    class Deaf(BreakingClient):
        lists_of_quotas = 0

        def list_objects(self, *what: Any, **options: Any) -> Any:
            self.lists_of_quotas += what[0] == RESOURCE_QUOTA
            self.is_gone = self.lists_of_quotas > 2
            return super().list_objects(*what, **options)

    limit(BreakingClient(cluster), BOTH)
    warnings: list[str] = []
    assert limit(Deaf(cluster), {"one": {"cpu": 8}}, warnings)["changed"]
    assert warnings == [
        "the quotas were written, but their usage is not known: cannot reach the API server.",
        "the quotas were written, but queues of pools may not be up to date: cannot reach the API server.",
    ]
