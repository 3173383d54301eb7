# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_pool with concurrent writes: by another host, by a person with kubectl, or after a killed run."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .ansible import Ansible, TaskResult
from .api import Api
from .pools import GPU_TYPE, LEASE, POOL, Field, manifest
from .recorder import Recorder, Request

Wanted = dict[str, tuple[str, ...]]


@pytest.fixture(autouse=True)
def _three_nodes(field: Field) -> None:
    if len(field.nodes) < 3:
        pytest.skip("needs three nodes without managed labels")


def at_the_same_time(ansible: Ansible, field: Field, both: Iterable[Wanted]) -> list[TaskResult]:
    """Two ansible-playbook processes, each with pools of its own."""

    def provision(number: int, wanted: Wanted) -> TaskResult:
        directory = ansible.directory / f"host-{number}"
        directory.mkdir(exist_ok=True)
        definition = [manifest(field.pool(name), list(nodes)) for name, nodes in wanted.items()]
        return Ansible(directory, ansible.environment).module("gpuctl_pool", definition=definition)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(provision, (1, 2), both))


def start_writes_together(recorder: Recorder) -> None:
    """Each process has read everything before either writes: the worst case."""
    both = threading.Barrier(2)
    writes = itertools.count()

    def before(request: Request) -> None:
        if request.method != "GET" and next(writes) < both.parties:
            both.wait(60)

    recorder.before = before


def state(field: Field, names: Iterable[str]) -> Wanted:
    """The pools by the labels of their nodes; what the ConfigMaps declare must be the same."""
    found = {}
    for name in names:
        members = tuple(sorted(field.members(name)))
        declared = field.declared(name)
        assert (declared is not None, members) == (
            bool(members),
            tuple(sorted((declared or "").replace(":", "").split())),
        )
        if members:
            found[name] = members
    return found


def overlapping(field: Field) -> dict[str, tuple[Wanted, Wanted]]:
    one, two, three = sorted(field.nodes[:3])
    return {
        "the same pools with other nodes": (
            {"train": (one, two), "infer": (three,)},
            {"train": (three,), "infer": (one, two)},
        ),
        "other pools with a node in common": ({"p": (one, two)}, {"q": (two, three)}),
        "in another order": ({"z": (one, three), "a": (two,)}, {"a": (one, three), "z": (two,)}),
    }


@pytest.mark.parametrize("lease", ["the very first run", "the Lease is there"])
@pytest.mark.parametrize(
    "case", ["the same pools with other nodes", "other pools with a node in common", "in another order"]
)
def test_one_of_two_conflicting_hosts_wins_and_the_other_fails(
    ansible: Ansible, api: Api, field: Field, recorder: Recorder, case: str, lease: str
):
    if lease == "the very first run":
        api.call("DELETE", LEASE)
    else:
        ansible.module("gpuctl_pool", name=field.pool("first"), nodes=[])
    both = overlapping(field)[case]
    start_writes_together(recorder)
    results = at_the_same_time(ansible, field, both)

    assert [result.failed for result in results].count(True) == 1, [result.message for result in results]
    (winner,) = [wanted for wanted, result in zip(both, results, strict=True) if not result.failed]
    (loser,) = [result for result in results if result.failed]
    assert state(field, {name for wanted in both for name in wanted}) == winner
    assert "another run changed the pools at the same time: process " in loser.message
    assert "Nothing was changed" in loser.message


def test_a_conflict_right_after_the_lease_was_created_names_the_other_run(
    ansible: Ansible, api: Api, field: Field, recorder: Recorder
):
    """The very first run creates the Lease and reads everything again; the other run writes just before that."""
    one, two, three = field.nodes[:3]
    api.call("DELETE", LEASE)
    readings = itertools.count(1)
    others: list[TaskResult] = []

    def interfere(request: Request) -> None:
        if (request.method, request.path) == ("GET", "/api/v1/nodes") and next(readings) == 2:
            others.extend(at_the_same_time(ansible, field, [{"q": (two, three)}]))

    recorder.before = interfere
    result = ansible.module("gpuctl_pool", name=field.pool("p"), nodes=[one, two])
    assert [(other.failed, other.changed) for other in others] == [(False, True)]
    assert result.failed
    assert "another run changed the pools at the same time: process " in result.message
    assert "Nothing was changed" in result.message
    assert state(field, ("p", "q")) == {"q": (two, three)}


def test_two_hosts_with_the_same_pools_both_succeed(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]
    ansible.module("gpuctl_pool", name=field.pool("first"), nodes=[])
    wanted = {"train": (one, two), "infer": (three,)}
    start_writes_together(recorder)
    results = at_the_same_time(ansible, field, (wanted, wanted))
    assert [result.message for result in results if result.failed] == []
    assert sorted(result.changed for result in results) == [False, True]


def test_two_hosts_with_nothing_in_common_both_succeed(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]
    ansible.module("gpuctl_pool", name=field.pool("first"), nodes=[])
    both: tuple[Wanted, Wanted] = ({"train": (one, two)}, {"infer": (three,)})
    start_writes_together(recorder)
    results = at_the_same_time(ansible, field, both)
    assert [(result.failed, result.changed) for result in results] == [(False, True)] * 2
    assert (field.members("train"), field.members("infer")) == ({one, two}, {three})


def test_two_hosts_that_label_other_nodes_with_a_pool_both_succeed(ansible: Ansible, field: Field, recorder: Recorder):
    ansible.module("gpuctl_pool", name=field.pool("first"), nodes=[])
    start_writes_together(recorder)

    def label(node: str) -> TaskResult:
        directory = ansible.directory / node
        directory.mkdir()
        host = Ansible(directory, ansible.environment)
        return host.module("gpuctl_node_label", nodes=[node], labels={"pool": field.pool("first")})

    both = field.nodes[:2]
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(label, both))
    assert [result.message for result in results if result.failed] == []
    assert field.members("first") == set(both)
    assert field.declared("first") == "".join(f"{node}:\n" for node in sorted(both))


def test_unsynchronized_hosts_never_mix(ansible: Ansible, field: Field):
    both = overlapping(field)["the same pools with other nodes"]
    for _round in range(3):
        results = at_the_same_time(ansible, field, both)
        found = state(field, ("train", "infer"))
        assert found in both
        assert not results[both.index(found)].failed


def test_a_manual_change_is_kept_and_everything_else_rolled_back(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]
    ansible.module("gpuctl_pool", name=field.pool("a"), nodes={one: {"gpu-type": "T4"}})
    before = {node: field.labels(node) for node in (one, three)}

    def interfere(request: Request) -> None:
        if request.method == "PATCH" and request.path == f"/api/v1/nodes/{two}":
            recorder.before = lambda request: None
            field.set_labels(two, {POOL: "by-hand"})

    recorder.before = interfere
    result = ansible.module(
        "gpuctl_pool", name=field.pool("a"), nodes={node: {"gpu-type": "L4"} for node in (one, two, three)}
    )
    assert result.failed
    assert f"{two}: someone else changed its labels: {POOL} is now by-hand and was not set when" in result.message
    assert result.message.endswith("Nothing was changed.")
    assert {node: field.labels(node) for node in (one, three)} == before
    assert field.labels(two) == {POOL: "by-hand"}
    assert field.declared("a") == f"{one}: T4\n"


def test_other_writes_to_a_node_are_not_a_conflict(ansible: Ansible, field: Field, recorder: Recorder):
    one = field.nodes[0]

    def heartbeat(request: Request) -> None:
        if request.method == "PATCH" and request.path == f"/api/v1/nodes/{one}":
            recorder.before = lambda request: None
            field.set_labels(one, {GPU_TYPE: None, "gpuctl-test.example.com/beat": "1"})

    recorder.before = heartbeat
    result = ansible.module("gpuctl_pool", name=field.pool("a"), nodes=[one])
    field.set_labels(one, {"gpuctl-test.example.com/beat": None})
    assert not result.failed, result.message
    assert field.members("a") == {one}


def test_the_next_run_completes_a_killed_one(ansible: Ansible, api: Api, field: Field, recorder: Recorder):
    """It is killed while it holds the Lease, with one of two nodes labelled."""
    one, two = field.nodes[:2]
    definition: list[dict[str, Any]] = [manifest(field.pool("a"), [one, two])]
    pids: list[int] = []

    def kill(request: Request) -> None:
        if request.method == "PATCH" and request.path == f"/api/v1/nodes/{two}" and not pids:
            pids.append(_pid_of_holder(api))
            os.kill(pids[0], signal.SIGKILL)

    ansible.module("gpuctl_pool", name=field.pool("first"), nodes=[])
    recorder.before = kill
    # On the fast path, a worker of Ansible is killed, which leaves no result.
    killed = ansible.play([{"runwhere.gpuctl.gpuctl_pool": {"definition": definition, "concurrency": 1}}])
    assert pids
    assert all(task.failed for task in killed.tasks)
    recorder.clear()

    field.set_labels(two, {POOL: None})  # the request that it died with may have arrived
    finished = ansible.module("gpuctl_pool", definition=definition)
    assert not finished.failed, finished.message
    assert field.members("a") == {one, two}
    assert "stopped renewing the Lease for pools" in " ".join(finished.screen.split())


def _pid_of_holder(api: Api) -> int:
    """The process of this machine that holds the Lease, as it says itself."""
    host, pid = api.call("GET", LEASE)[1]["spec"]["holderIdentity"].split("/")[:2]
    assert host == socket.gethostname()
    return int(pid)
