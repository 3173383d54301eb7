# SPDX-License-Identifier: BSD-2-Clause
"""A run that was suspended, or does not learn what became of its writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import CONFIG_MAP, LEASE, NODE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_label import MODULE as NODE_LABEL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import lease as lease_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.lease import PoolLease
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, TaskFailed
from kubesim import Cluster

from ..kube.breaking_client import BreakingClient

Step = Callable[[], object]
Pools = dict[str, tuple[str, ...]]


@dataclass
class Field:
    """Tasks on one cluster. ``elapsed``: the seconds by which the clock of all runs is ahead."""

    cluster: Cluster
    elapsed: float = 0.0

    def client(self) -> BreakingClient:
        return BreakingClient(self.cluster)

    def run(self, spec: ModuleSpec[Any], client: Client, **options: Any) -> dict[str, Any]:
        self.warnings: list[str] = []
        task = Task(spec.options(**options), {}, False, self.warnings.append, lambda values: None, opened_client=client)
        return spec.run(task)

    def declare(self, pools: Pools, client: Client | None = None, **options: Any) -> dict[str, Any]:
        definition = [{"kind": "pool", "pool": {"name": name}, "nodes": list(nodes)} for name, nodes in pools.items()]
        return self.run(POOL, client or self.client(), definition=definition, **options)

    def labels(self) -> dict[str, str]:
        found = {}
        for node in self.client().list_objects(NODE):
            if pool := (node["metadata"].get("labels") or {}).get("runwhere.ai/pool"):
                found[node["metadata"]["name"]] = pool
        return found

    def declared(self) -> dict[str, str]:
        config_maps = self.client().list_objects(CONFIG_MAP, "gpuctl-system", labels="runwhere.ai/pool")
        return {obj["metadata"]["name"]: obj["data"]["nodes"].replace(":\n", " ").strip() for obj in config_maps}

    def lease(self) -> dict[str, Any]:
        lease = self.client().get(LEASE, "gpuctl-system", "pools")
        assert isinstance(lease, dict)
        return lease


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> Iterator[Field]:
    with Cluster(nodes=4, controllers=False).running() as cluster:
        found = Field(cluster)
        monkeypatch.setattr(lease_module, "_boot_seconds", lambda: found.elapsed)
        monkeypatch.setattr(lease_module, "_RENEWED_EVERY", 3600.0)  # as if suspended
        found.declare({"first": ()})
        yield found


def suspend(field: Field, *meanwhile: Step) -> Step:
    """Longer than the Lease lasts."""

    def act() -> None:
        field.elapsed += 3600
        for step in meanwhile:
            step()

    return act


def release(field: Field) -> None:
    """What a run does that waits for the Lease of another one for too long."""
    PoolLease(field.client())._release_abandoned(field.lease())


def take_over(field: Field, pools: Pools, **options: Any) -> Step:
    def act() -> None:
        release(field)
        field.declare(pools, **options)

    return act


def failure(run: Callable[[], object]) -> TaskFailed:
    with pytest.raises(TaskFailed) as raised:
        run()
    return raised.value


A = {"a": ("node-1", "node-2")}
TAKEN_OVER = "has taken over the Lease for pools; this run was suspended, or could not renew it, for 3600 s."


def test_a_suspended_run_that_still_holds_the_lease_continues(field: Field) -> None:
    client = field.client()
    client.before["node-2"] = suspend(field)
    assert field.declare(A, client)["changed"]
    assert field.labels() == {"node-1": "a", "node-2": "a"}


def test_a_suspended_run_acquires_a_lease_again_that_no_run_has_acquired_since(field: Field) -> None:
    client = field.client()
    client.before["node-2"] = suspend(field, lambda: release(field))
    before = field.lease()["spec"]["leaseTransitions"]
    assert field.declare(A, client)["changed"]
    assert field.labels() == {"node-1": "a", "node-2": "a"}
    assert field.lease()["spec"]["leaseTransitions"] == before + 2
    assert not field.lease()["spec"].get("holderIdentity")


def test_what_arrives_after_the_successor_is_undone_and_what_it_has_read_stays(field: Field) -> None:
    client = field.client()
    client.before["node-2"] = suspend(field, take_over(field, {"b": ("node-3",)}))
    failed = failure(lambda: field.declare(A, client))
    assert field.labels() == {"node-1": "a", "node-3": "b"}
    assert field.declared() == {"pool-first": "", "pool-a": "node-1 node-2", "pool-b": "node-3"}
    first, *rest = str(failed).splitlines()
    assert first.startswith("process ")
    assert first.endswith(TAKEN_OVER)
    assert rest == [
        "This run had written the declarations of the pools a; the labels of the nodes node-1, node-2.",
        "Rolled back, because it came too late for the other run: the labels of the nodes node-2.",
        "Check the pools with M(gpuctl_pool_info), and run the task again.",
    ]
    assert failed.result["changed"]
    assert field.declare(A)["changed"]


def test_a_declaration_that_arrives_after_the_successor_is_undone(field: Field) -> None:
    client = field.client()
    client.before["pool-a"] = suspend(field, take_over(field, {"b": ("node-1",)}))
    failed = failure(lambda: field.declare(A, client))
    assert field.labels() == {"node-1": "b"}
    assert field.declared() == {"pool-first": "", "pool-b": "node-1"}
    assert str(failed).endswith("\nRun the task again.")
    assert not failed.result["changed"]


SUCCESSORS: dict[str, tuple[Pools, dict[str, str]]] = {
    "with the same pools": (A, {"node-1": "a", "node-2": "a"}),
    "with the same nodes in another pool": ({"b": ("node-1", "node-2")}, {"node-1": "b", "node-2": "b"}),
    "with fewer nodes": ({"a": ("node-1",)}, {"node-1": "a"}),
}


@pytest.mark.parametrize("moment", ["pool-a", "node-1", "node-2"])
@pytest.mark.parametrize(("pools", "labels"), SUCCESSORS.values(), ids=SUCCESSORS)
def test_the_work_of_a_successor_stays(field: Field, moment: str, pools: Pools, labels: dict[str, str]) -> None:
    client = field.client()
    client.before[moment] = suspend(field, take_over(field, pools, force=True))
    assert TAKEN_OVER in str(failure(lambda: field.declare(A, client)))
    assert field.labels() == labels
    for name, nodes in pools.items():
        assert field.declared()[f"pool-{name}"] == " ".join(nodes)


def test_a_deletion_that_arrives_after_the_successor_deletes_nothing(field: Field) -> None:
    field.declare(A)
    client = field.client()
    client.before["pool-a"] = suspend(field, take_over(field, {"a": ("node-3",)}))
    assert TAKEN_OVER in str(failure(lambda: field.run(POOL, client, name="a", state="absent")))
    assert field.declared()["pool-a"] == "node-3"


def test_a_run_whose_lease_was_deleted_stops(field: Field) -> None:
    def delete_lease() -> None:
        field.client().delete(LEASE, field.lease()["metadata"], propagation="Background")

    client = field.client()
    client.before["node-2"] = suspend(field, delete_lease)
    assert "the Lease for pools was deleted while this run held it" in str(failure(lambda: field.declare(A, client)))


def test_suspended_node_labels_stop_before_they_declare(field: Field) -> None:
    field.declare({"a": ("node-1",)})
    client = field.client()
    client.before["node-3"] = suspend(field, take_over(field, {"a": ("node-1",)}))
    failed = failure(
        lambda: field.run(NODE_LABEL, client, nodes=["node-2", "node-3"], labels={"pool": "a"}, overwrite=True)
    )
    assert TAKEN_OVER in str(failed)
    assert field.labels() == {"node-1": "a"}
    assert field.declared()["pool-a"] == "node-1"


# ---- Responses that are lost


@pytest.mark.parametrize("lost", ["pool-a", "node-2"])
def test_a_write_without_a_response_is_found_out(field: Field, lost: str) -> None:
    client = field.client()
    client.lost = {lost}
    for pools, labels in ((A, {"node-1": "a", "node-2": "a"}), ({"a": ("node-3",)}, {"node-3": "a"})):
        assert field.declare(pools, client)["changed"]
        assert field.labels() == labels
    assert field.run(POOL, client, name="a", state="absent")["changed"]
    assert field.declared() == {"pool-first": ""}


@pytest.mark.parametrize(
    ("fatal", "unknown"),
    [("pool-a", "whether ConfigMap pool-a was written"), ("node-2", "whether the labels of node-2 were changed")],
)
def test_what_is_not_known_is_said_to_be_not_known(field: Field, fatal: str, unknown: str) -> None:
    client = field.client()
    client.fatal = {fatal}
    failed = failure(lambda: field.declare(A, client))
    assert failed.result["changed"]
    assert f"It is not known {unknown}." in str(failed)
    assert "Nothing was changed" not in str(failed)
    assert "Not rolled back: " in str(failed)


def test_node_labels_that_may_be_set_are_a_change(field: Field) -> None:
    client = field.client()
    client.fatal = {"node-2"}
    failed = failure(
        lambda: field.run(NODE_LABEL, client, nodes=["node-2", "node-3"], labels={"zone": "z"}, continue_on_error=True)
    )
    assert failed.result["changed"]
    assert "It is not known whether the labels of node-2 were changed." in str(failed)


def test_labels_without_their_declaration_are_rolled_back(field: Field) -> None:
    field.declare({"a": ("node-1",)})
    client = field.client()
    client.before["pool-a"] = lambda: field.client().merge_patch(
        CONFIG_MAP, {"name": "pool-a", "namespace": "gpuctl-system"}, {"data": {"nodes": "node-9:\n"}}
    )
    failed = failure(lambda: field.run(NODE_LABEL, client, nodes=["node-2"], labels={"pool": "a"}))
    assert str(failed) == (
        "ConfigMap pool-a was changed by another run or person since this task read it.\nNothing was changed."
    )
    assert field.labels() == {"node-1": "a"}
    kept = field.client()
    kept.fatal = {"pool-a"}
    options: dict[str, Any] = {"nodes": ["node-2"], "labels": {"pool": "a"}, "continue_on_error": True}
    failed = failure(lambda: field.run(NODE_LABEL, kept, **options))
    assert "the labels were set, but the declaration of a pool was not updated: cannot reach" in str(failed)
    assert field.labels() == {"node-1": "a", "node-2": "a"}


def test_an_acquisition_without_a_response_is_found_out(field: Field) -> None:
    client = field.client()
    client.lost = {"pools"}
    client.before["pool-a"] = client.lost.clear
    assert field.declare(A, client)["changed"]
    assert not field.lease()["spec"].get("holderIdentity")
