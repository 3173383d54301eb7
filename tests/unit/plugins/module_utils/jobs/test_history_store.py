# SPDX-License-Identifier: BSD-2-Clause
"""Histories in ConfigMaps: what is full is handed on, what is old goes, and nothing is lost to other writers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.past_runs import read_histories
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs import run_store
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import RunResult
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_history import (
    ROLL_AT,
    HistoryLimits,
    gone_keys,
    read_history,
    size_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_store import (
    NotTheHistory,
    outdated_keys,
    prune,
    set_limits,
    write_history,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from kubesim import Cluster

MIB = 1024 * 1024


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0, controllers=False).running() as running:
        yield running


def client(cluster: Cluster) -> Client:
    return Client(resolve_connection({"host": cluster.url, "api_key": cluster.token, "validate_certs": False}, {}))


def run_of(number: int, size: int = 2000) -> dict[str, str]:
    return {f"run-{number}.job": f'{{"name":"train-{number}","manifest":"{"x" * size}"}}'}


def kept(found: dict[str, list[dict[str, Any]]]) -> set[str]:
    return {key for maps in found.values() for each in maps for key in each.get("data") or {}}


def test_the_first_write_makes_the_history(cluster: Cluster) -> None:
    own = client(cluster)
    write_history(own, "default", run_of(1))
    (config_map,) = own.list_objects(run_store.CONFIG_MAP, "default", labels=run_store.HISTORIES)
    assert config_map["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/history": "runs",
    }
    assert config_map["data"] == run_of(1)


def test_a_full_one_hands_its_older_half_on(cluster: Cluster) -> None:
    own = client(cluster)
    wanted: set[str] = set()
    for number in range(600):
        wanted |= set(run_of(number))
        if number % 50 == 49:
            write_history(
                own, "default", {key: text for n in range(number - 49, number + 1) for key, text in run_of(n).items()}
            )
    found = read_histories(own, ["default"])
    assert kept(found) == wanted
    assert len(found["default"]) > 2
    assert all(size_of(each["data"]) < MIB for each in found["default"])
    (head,) = (each for each in found["default"] if each["metadata"]["name"] == "gpuctl-history")
    assert size_of(head["data"]) <= ROLL_AT


def test_concurrent_writers_lose_nothing(cluster: Cluster) -> None:
    """Eight write 100 runs each at once, which fills several ConfigMaps while they do."""

    def write(writer: int) -> set[str]:
        own, keys = client(cluster), set()
        for number in range(20):
            part = {key: text for n in range(5) for key, text in run_of(writer * 1000 + number * 5 + n, 3000).items()}
            write_history(own, "default", part)
            keys |= set(part)
        return keys

    with ThreadPoolExecutor(8) as pool:
        wanted = set().union(*pool.map(write, range(8)))
    assert len(wanted) == 800
    found = read_histories(client(cluster), None)
    assert kept(found) == wanted
    assert all(size_of(each["data"]) < MIB for each in found["default"])


def test_what_is_written_while_it_is_handed_on_stays(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = client(cluster), client(cluster)
    newer = {"run-0.job": '{"name":"train-0","manifest":"newer"}'}
    create = Client.create

    def create_and_be_overtaken(self: Client, obj: dict[str, Any], **options: Any) -> Any:
        created = create(self, obj, **options)
        if obj["metadata"]["name"] != "gpuctl-history":
            monkeypatch.setattr(Client, "create", create)
            write_history(other, "default", newer)
        return created

    write_history(own, "default", {key: text for n in range(140) for key, text in run_of(n).items()})
    monkeypatch.setattr(Client, "create", create_and_be_overtaken)
    write_history(own, "default", {key: text for n in range(140, 280) for key, text in run_of(n).items()})
    monkeypatch.setattr(Client, "create", create)
    texts = [each["data"].get("run-0.job") for each in read_histories(own, None)["default"]]
    assert newer["run-0.job"] in texts  # The other one may have handed it on in turn.


def test_one_that_others_have_filled_is_rolled_before_the_write(cluster: Cluster) -> None:
    own = client(cluster)
    write_history(own, "default", run_of(0))
    patch = {"data": {key: text for n in range(1, 490) for key, text in run_of(n).items()}}
    own.merge_patch(run_store.CONFIG_MAP, {"name": "gpuctl-history", "namespace": "default"}, patch)
    more = {key: text for n in range(1000, 1100) for key, text in run_of(n).items()}
    write_history(own, "default", more)
    assert set(more) | set(patch["data"]) <= kept(read_histories(own, None))


def test_a_namespace_that_is_missing_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="not found"):
        write_history(client(cluster), "nowhere", run_of(1))


def test_what_others_call_the_same_is_left_as_it_is(cluster: Cluster) -> None:
    own = client(cluster)
    theirs = {
        "metadata": {"name": "gpuctl-history", "namespace": "default", "labels": {"app": "x"}},
        "data": {"a": "b"},
    }
    created = own.create({"apiVersion": "v1", "kind": "ConfigMap", **theirs})
    with pytest.raises(NotTheHistory, match=r"Rename or delete it\.$"):
        write_history(own, "default", run_of(1))
    assert own.get(run_store.CONFIG_MAP, "default", "gpuctl-history") == created


def test_a_rejection_that_lasts_makes_no_config_maps(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    own = client(cluster)
    write_history(own, "default", {key: text for n in range(100) for key, text in run_of(n).items()})

    def reject(*_args: Any) -> Any:
        raise ApiError("PATCH", "/", 422, {"reason": "Invalid", "message": "a webhook says no"})

    monkeypatch.setattr(Client, "json_patch", reject)
    with pytest.raises(ApiError, match="a webhook says no"):
        write_history(own, "default", run_of(1000))
    assert len(read_histories(own, None)["default"]) == 1


def test_one_that_has_become_empty_is_written(cluster: Cluster) -> None:
    own = client(cluster)
    write_history(own, "default", run_of(0))
    write_history(own, "default", dict.fromkeys(run_of(0)))
    write_history(own, "default", run_of(1))
    assert kept(read_histories(own, None)) == {"run-1.job"}


def test_keys_that_another_one_has_removed_are_removed(cluster: Cluster) -> None:
    own = client(cluster)
    write_history(own, "default", {**run_of(0), **run_of(1)})
    for _again in range(2):
        write_history(own, "default", {**dict.fromkeys(run_of(0)), **run_of(2)})
    assert kept(read_histories(own, None)) == {"run-1.job", "run-2.job"}


def older(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}}


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        (HistoryLimits(30, 16), ["gpuctl-history-20260401000000-aaaaaa"]),
        (HistoryLimits(365, 16), []),
        (
            HistoryLimits(365, 1),  # two are as much as may be kept beside the newest one
            ["gpuctl-history-20260601000000-aaaaaa", "gpuctl-history-20260401000000-aaaaaa"],
        ),
    ],
)
def test_what_is_too_old_or_too_much_goes(limits: HistoryLimits, names: list[str]) -> None:
    maps = [
        older("gpuctl-history"),
        *(older(f"gpuctl-history-2026{month:02d}01000000-aaaaaa") for month in (4, 6, 7, 8)),
    ]
    now = datetime(2026, 6, 30 if limits.days == 30 else 1, tzinfo=timezone.utc)

    class Deleting:
        deleted: list[str] = []  # noqa: RUF012

        def delete(self, resource: Any, metadata: dict[str, Any], *, propagation: str) -> None:
            self.deleted.append(metadata["name"])

    fake: Any = Deleting()
    fake.deleted = []
    assert prune(fake, "default", maps, limits, now) == len(names)
    assert fake.deleted == names


def outdated(maps: list[dict[str, Any]], now: datetime, live: Collection[str] = ()) -> dict[str, None]:
    return outdated_keys(maps, read_history(maps), HistoryLimits(), now, live)


def test_old_runs_of_the_newest_one_are_named() -> None:
    def run(uid: str, finished: str | None) -> dict[str, str]:
        end = {f"{uid}.end": f'{{"result":"Failed","finished_at":"{finished}"}}'} if finished else {}
        return {f"{uid}.job": '{"name":"t","submitted_at":"2026-01-01T00:00:00Z"}', **end, f"{uid}.log": "{}"}

    data = {**run("old", "2026-01-02T00:00:00Z"), **run("new", "2026-07-30T00:00:00Z"), **run("live", None)}
    config_map = {"metadata": {"name": "gpuctl-history", "namespace": "a"}, "data": data}
    now = datetime(2026, 8, 1, tzinfo=timezone.utc)
    assert set(outdated([config_map], now)) == {
        "old.job",
        "old.end",
        "old.log",
    }


def test_what_older_ones_have_of_a_run_counts() -> None:
    """Its first half was handed on; what has come since goes when the run is old."""
    metadata = {"namespace": "a"}
    older = {"old.job": '{"name":"t"}', "old.end": '{"result":"Failed","finished_at":"2026-01-02T00:00:00Z"}'}
    maps = [
        {"metadata": {**metadata, "name": "gpuctl-history"}, "data": {"old.log": '{"lines":["x"]}'}},
        {"metadata": {**metadata, "name": "gpuctl-history-20260103000000-aaaaaa"}, "data": older},
    ]
    now = datetime(2026, 8, 1, tzinfo=timezone.utc)
    assert set(outdated(maps, now)) == {"old.log"}


def test_a_run_whose_workload_is_still_there_stays() -> None:
    data = {
        "old.job": '{"name":"t","submitted_at":"2026-01-01T00:00:00Z"}',
        "old.end": '{"result":"Failed","finished_at":"2026-01-02T00:00:00Z"}',
    }
    config_map = {"metadata": {"name": "gpuctl-history", "namespace": "a"}, "data": data}
    now = datetime(2026, 8, 1, tzinfo=timezone.utc)
    assert outdated([config_map], now, {"old"}) == {}


@pytest.mark.parametrize(("after", "is_outdated"), [(timedelta(days=89), False), (timedelta(days=91), True)])
def test_a_long_run_whose_end_was_not_observed_is_kept_from_when_that_was_noticed(
    after: timedelta, is_outdated: bool
) -> None:
    noticed = datetime(2026, 8, 1, tzinfo=timezone.utc)
    data = {
        "old.job": '{"name":"t","kind":"inference","submitted_at":"2026-01-01T00:00:00Z"}',
        **gone_keys("old", RunResult("Deleted"), noticed),
    }
    config_map = {"metadata": {"name": "gpuctl-history", "namespace": "a"}, "data": data}
    assert bool(outdated([config_map], noticed + after)) == is_outdated


def test_the_limits_are_kept_with_the_history(cluster: Cluster) -> None:
    own = client(cluster)
    write_history(own, "default", run_of(1))
    set_limits(own, "default", HistoryLimits(7, 2))
    ((config_map,),) = read_histories(own, None).values()
    assert run_store.read_limits(config_map) == HistoryLimits(7, 2)
