# SPDX-License-Identifier: BSD-2-Clause
"""Only one run at a time changes pools, and none on what is not there any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import LEASE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools import lease as lease_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.lease import (
    Abandoned,
    Busy,
    LeaseLost,
    Overtaken,
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
    PoolLease(api).establish()
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


def test_it_is_held_during_the_block_and_returned_after_it(client: Client) -> None:
    with observed(client).held():
        assert holder(client)
    assert holder(client) is None


def test_it_is_returned_when_the_block_fails(client: Client) -> None:
    with pytest.raises(ZeroDivisionError), observed(client).held():
        raise ZeroDivisionError
    assert holder(client) is None


def test_who_read_before_another_one_wrote_does_not_get_it(client: Client) -> None:
    late = observed(client)
    with observed(client).held():
        pass
    with pytest.raises(Overtaken, match=r"changed the pools at the same time: process \d+ on "), late.held():
        pytest.fail("what was planned on is not there any more")


def test_who_comes_while_it_is_held_waits_and_is_told(client: Client) -> None:
    released: list[str] = []
    first, holding, waiting = observed(client), threading.Event(), threading.Event()

    def hold() -> None:
        with first.held():
            holding.set()
            waiting.wait(10)
            released.append("by now")

    def sleep(seconds: float) -> None:
        waiting.set()
        time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    second = PoolLease(client, sleep)
    second.observe()
    with pytest.raises(Overtaken), second.held():
        pytest.fail("somebody else holds it")
    assert waiting.is_set()
    assert released, "until it was returned"
    thread.join()


def test_of_many_that_read_the_same_exactly_one_gets_it(client: Client) -> None:
    leases = [observed(client) for dummy in range(8)]
    got: list[int] = []

    def take(number: int) -> None:
        try:
            with leases[number].held():
                got.append(number)
        except Overtaken:
            return

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_a_lost_answer_is_no_lost_lease(cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patch arrives, the connection breaks, the client sends it again and is refused."""
    lease = observed(client)
    send, calls = client.merge_patch, []

    def twice(*args: object, **options: object) -> object:
        calls.append(send(*args, **options))  # type: ignore[arg-type]
        return send(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(client, "merge_patch", twice)
    with lease.held():
        monkeypatch.undo()
        assert len(calls) == 1
        assert holder(client)
    assert holder(client) is None


def test_it_is_taken_from_a_run_that_does_not_live(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "ABANDONED_AFTER", 0.6)
    monkeypatch.setattr(lease_module, "_RENEWED_EVERY", 60)
    never_left = observed(client).held()
    never_left.__enter__()
    lease = observed(client)
    with pytest.raises(Abandoned), lease.held():
        pytest.fail("everything has to be read again first")
    lease.observe()
    with lease.held():
        assert holder(client)


def test_it_is_renewed_so_that_nobody_takes_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits sees it renewed at each look, however long this machine takes for that."""
    monkeypatch.setattr(lease_module, "ABANDONED_AFTER", 1.0)
    monkeypatch.setattr(lease_module, "_RENEWED_EVERY", 0.2)
    monkeypatch.setattr(lease_module, "_PATIENCE", 2.5)

    def until_renewed(seconds: float) -> None:
        before = version(client)
        until(lambda: version(client) != before)

    with observed(client).held():
        second = PoolLease(client, until_renewed)
        second.observe()
        with pytest.raises(Busy, match="is changing the pools"), second.held():
            pytest.fail("its holder lives")


def test_who_lost_it_does_not_write_on(cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
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

    with lease.held():
        assert not is_lost()
        cluster.call(lambda: cluster.registry.modify("Lease", "gpuctl-system", "pools", hand_over))
        until(is_lost)
    assert holder(client) == "elsewhere/1/x", "what is somebody else's is not returned"


def test_a_lease_that_cannot_be_returned_is_no_failure(cluster: Cluster, client: Client) -> None:
    with observed(client).held():
        cluster.faults.add(Fault("conflict", verb="patch", path="*/leases/*"))
    assert holder(client)
