# SPDX-License-Identifier: BSD-2-Clause
"""One run at a time changes pools, and none with an outdated plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ConcurrentChange
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import LEASE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import lease as lease_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.lease import (
    AbandonedLease,
    LeaseLost,
    LeaseTimeout,
    PoolLease,
)
from kubesim import Cluster, Fault


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0, controllers=False).running() as running:
        yield running


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    api = Client(Connection(cluster.url, authorization=lambda: {"Authorization": f"Bearer {cluster.token}"}))
    PoolLease(api).create()
    yield api
    cluster.faults.clear()
    lease = api.get(LEASE, "gpuctl-system", "pools")
    if lease:
        api.delete(LEASE, lease["metadata"], propagation="Background")


def observed(client: Client) -> PoolLease:
    lease = PoolLease(client)
    assert lease.observe()
    return lease


def holder(client: Client) -> str | None:
    lease = client.get(LEASE, "gpuctl-system", "pools") or {}
    return (lease.get("spec") or {}).get("holderIdentity")


def version(client: Client) -> str:
    lease = client.get(LEASE, "gpuctl-system", "pools")
    assert lease
    return str(lease["metadata"]["resourceVersion"])


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_lease_is_held_during_the_block_and_released_after_it(client: Client) -> None:
    with observed(client).held({}):
        assert holder(client)
    assert holder(client) is None


def test_the_lease_is_released_when_the_block_fails(client: Client) -> None:
    with pytest.raises(ZeroDivisionError), observed(client).held({}):
        raise ZeroDivisionError
    assert holder(client) is None


def test_an_outdated_observation_is_a_concurrent_change(client: Client) -> None:
    outdated = observed(client)
    with observed(client).held({}):
        pass
    with (
        pytest.raises(ConcurrentChange, match=r"changed the pools at the same time: process \d+ on "),
        outdated.held({}),
    ):
        pytest.fail("its plan is outdated")


def test_a_second_run_waits_for_the_holder(client: Client) -> None:
    released: list[str] = []
    first, holding, waiting = observed(client), threading.Event(), threading.Event()

    def hold() -> None:
        with first.held({}):
            holding.set()
            waiting.wait(10)
            released.append("released")

    def sleep(seconds: float) -> None:
        waiting.set()
        time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    second = PoolLease(client, sleep)
    second.observe()
    with pytest.raises(ConcurrentChange), second.held({}):
        pytest.fail("another run holds it")
    assert waiting.is_set()
    assert released, "the second run waited until then"
    thread.join()


def test_exactly_one_of_many_runs_acquires_the_lease(client: Client) -> None:
    leases = [observed(client) for dummy in range(8)]
    acquired: list[int] = []

    def take(number: int) -> None:
        try:
            with leases[number].held({}):
                acquired.append(number)
        except ConcurrentChange:
            return

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(acquired) == 1


def test_a_lost_answer_is_not_a_lost_lease(cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patch arrives, the connection breaks, the client sends it again and is rejected."""
    lease = observed(client)
    send, calls = client.merge_patch, []

    def twice(*args: object, **options: object) -> object:
        calls.append(send(*args, **options))  # type: ignore[arg-type]
        return send(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(client, "merge_patch", twice)
    with lease.held({}):
        monkeypatch.undo()
        assert len(calls) == 1
        assert holder(client)
    assert holder(client) is None


def test_the_lease_of_a_killed_run_is_released(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "ABANDONED_AFTER", 0.6)
    monkeypatch.setattr(lease_module, "_RENEWED_EVERY", 60)
    never_left = observed(client).held({})
    never_left.__enter__()
    lease = observed(client)
    with pytest.raises(AbandonedLease), lease.held({}):
        pytest.fail("it has to observe again first")
    lease.observe()
    with lease.held({}):
        assert holder(client)


def test_a_renewed_lease_is_not_released_by_others(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting run sees a renewal at each poll, however slow the machine is."""
    monkeypatch.setattr(lease_module, "ABANDONED_AFTER", 1.0)
    monkeypatch.setattr(lease_module, "_RENEWED_EVERY", 0.2)
    monkeypatch.setattr(lease_module, "_PATIENCE", 2.5)

    def until_renewed(seconds: float) -> None:
        before = version(client)
        until(lambda: version(client) != before)

    with observed(client).held({}):
        second = PoolLease(client, until_renewed)
        second.observe()
        with pytest.raises(LeaseTimeout, match="is changing the pools"), second.held({}):
            pytest.fail("its holder is alive")


def test_a_run_that_lost_the_lease_stops_writing(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "_RENEWED_EVERY", 0.2)
    lease = observed(client)

    def hand_over(obj: dict[str, Any]) -> None:
        obj["spec"]["holderIdentity"] = "elsewhere/1/x"

    def is_lost() -> bool:
        try:
            lease.check()
        except LeaseLost:
            return True
        return False

    with lease.held({}):
        assert not is_lost()
        cluster.call(lambda: cluster.registry.modify("Lease", "gpuctl-system", "pools", hand_over))
        until(is_lost)
    assert holder(client) == "elsewhere/1/x", "another run's lease is not released"


def test_a_lease_whose_renewal_had_no_answer_is_released(cluster: Cluster, client: Client) -> None:
    def renew(obj: dict[str, Any]) -> None:
        obj["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"

    with observed(client).held({}):
        cluster.call(lambda: cluster.registry.modify("Lease", "gpuctl-system", "pools", renew))
    assert holder(client) is None


@pytest.mark.parametrize("kind", ["conflict", "expired", "timeout"])
def test_a_release_that_is_refused_once_is_repeated(cluster: Cluster, client: Client, kind: str) -> None:
    with observed(client).held({}):
        cluster.faults.add(Fault(kind, verb="patch", path="*/leases/*"))
    assert holder(client) is None


def test_a_failed_release_is_not_an_error(cluster: Cluster, client: Client) -> None:
    with observed(client).held({}):
        cluster.faults.add(Fault("conflict", verb="patch", path="*/leases/*", count=None))
    assert holder(client)
