# SPDX-License-Identifier: BSD-2-Clause
"""Two tasks that change one account at the same time, and tasks that fail after they have written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine import rounds
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import CLUSTER_ROLE_BINDING, ROLE_BINDING
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.rbac import MODULE, RbacOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed
from kubesim import Cluster

from ..kube.breaking_client import BreakingClient

SUBMIT = {"level": "submit", "namespaces": ["default"]}
READ = {"level": "read", "namespaces": ["default"]}
ADMINISTER = {"level": "administer"}


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_DELAYS", (0.0, 1.0))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0, controllers=False).running() as running:
        yield running


def grant(client: Client, warnings: list[str] | None = None, **options: Any) -> dict[str, Any]:
    said: list[str] = [] if warnings is None else warnings
    task = Task(RbacOptions(name="ci", **options), {}, False, said.append, lambda values: None, opened_client=client)
    return MODULE.run(task)


def roles(cluster: Cluster) -> set[str]:
    """The roles that the account is bound to."""
    client = BreakingClient(cluster)
    bindings = [obj for kind in (CLUSTER_ROLE_BINDING, ROLE_BINDING) for obj in client.list_objects(kind)]
    return {obj["roleRef"]["name"] for obj in bindings if any(each["name"] == "ci" for each in obj["subjects"])}


def failure(run: Callable[[], object]) -> TaskFailed:
    with pytest.raises(TaskFailed) as raised:
        run()
    return raised.value


@pytest.mark.parametrize("moment", ["ci", "gpuctl-submit", "gpuctl-submit:gpuctl-system:ci"])
@pytest.mark.parametrize("rival", [READ, ADMINISTER], ids=["read", "administer"])
def test_two_levels_are_never_mixed(cluster: Cluster, moment: str, rival: dict[str, Any]) -> None:
    client, warnings = BreakingClient(cluster), list[str]()
    client.before[moment] = lambda: grant(BreakingClient(cluster), **rival)
    assert grant(client, warnings, **SUBMIT)["changed"]
    assert roles(cluster) == {"gpuctl-submit", "gpuctl-submit-cluster", "gpuctl-submit-pools"}


def test_the_other_run_is_mentioned(cluster: Cluster) -> None:
    client, warnings = BreakingClient(cluster), list[str]()
    client.before["gpuctl-submit"] = lambda: grant(BreakingClient(cluster), **READ)
    result = grant(client, warnings, **SUBMIT)
    subject = "the access of account ci in namespace gpuctl-system"
    assert warnings == [f"another run or person changed {subject} at the same time; this run changes it back"]
    bindings = [each for each in result["results"][0]["resources"] if each["kind"] == "RoleBinding"]
    assert {(each["name"].partition(":")[0], each["action"]) for each in bindings} == {
        ("gpuctl-submit", "create"),
        ("gpuctl-submit-pools", "create"),
        ("gpuctl-read", "delete"),
        ("gpuctl-logs", "delete"),
    }


def test_a_run_that_others_do_not_let_finish_fails(cluster: Cluster) -> None:
    class Hindered(BreakingClient):
        def list_objects(self, *what: Any, **options: Any) -> Any:
            if what[0] == CLUSTER_ROLE_BINDING:
                grant(BreakingClient(cluster), **READ)
            return super().list_objects(*what, **options)

    failed = failure(lambda: grant(Hindered(cluster), **SUBMIT))
    assert str(failed).startswith("another run changes the access of account ci in namespace gpuctl-system")
    assert failed.result["changed"]


def test_an_unchanged_account_costs_no_further_look(cluster: Cluster) -> None:
    grant(BreakingClient(cluster), **SUBMIT)
    cluster.requests.reset()
    assert not grant(BreakingClient(cluster), **SUBMIT)["changed"]
    assert sorted(entry.verb for entry in cluster.requests) == ["get"] * 4 + ["list"] * 4


@pytest.mark.parametrize("fatal", ["ci", "gpuctl-submit:gpuctl-system:ci"])
def test_what_was_done_before_a_failure_is_reported(cluster: Cluster, fatal: str) -> None:
    client = BreakingClient(cluster)
    client.fatal = {fatal}
    failed = failure(lambda: grant(client, **SUBMIT))
    assert "It is not known whether" in str(failed)
    assert failed.result["changed"]
    done = [each["name"] for each in failed.result["results"][0]["resources"]]
    assert done[-1] == fatal


def test_a_lost_response_is_found_out(cluster: Cluster) -> None:
    client = BreakingClient(cluster)
    client.lost = {"gpuctl-submit:gpuctl-system:ci", "ci"}
    assert grant(client, **SUBMIT)["changed"]
    assert roles(cluster) == {"gpuctl-submit", "gpuctl-submit-cluster", "gpuctl-submit-pools"}
    client.lost = {"gpuctl-submit:gpuctl-system:ci"}
    assert grant(client, state="absent")["changed"]
    assert roles(cluster) == set()


def test_a_refusal_says_that_nothing_was_changed(cluster: Cluster) -> None:
    failed = failure(lambda: grant(BreakingClient(cluster), level="read", namespaces=["missing"]))
    assert str(failed).endswith("\nNothing was changed.")
