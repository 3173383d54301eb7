# SPDX-License-Identifier: BSD-2-Clause
"""The requests of a watch cache, and what may go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic, sleep
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import client as kube_client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import CONFIG_MAP, EVENT, NODE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.watch_cache import WatchCache, WatchQuery
from chaos.faults import FAULTS
from chaos.proxy import Plan, Proxy
from kubesim import Cluster, Fault

HERE = WatchQuery(CONFIG_MAP, "default", labels="follow=yes")
LIST, WATCH = "list configmaps", "watch configmaps"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0, controllers=False).running() as cluster:
        yield cluster


def client(cluster: Cluster, token: str = "", url: str = "", request_timeout: float = 30) -> Client:
    def authorization() -> dict[str, str]:
        return {"Authorization": f"Bearer {token or cluster.token}"}

    connection = Connection(url or cluster.url, authorization=authorization, retries=0, request_timeout=request_timeout)
    return Client(connection)


def put(cluster: Cluster, name: str, *, follow: str = "yes", **data: str) -> None:
    obj = {"metadata": {"name": name, "namespace": "default", "labels": {"follow": follow}}, "data": data}

    def write() -> None:
        if cluster.registry.get("ConfigMap", "default", name) is None:
            cluster.registry.create("ConfigMap", {"apiVersion": "v1", "kind": "ConfigMap", **obj})
        else:
            cluster.registry.modify("ConfigMap", "default", name, lambda live: merge(live, obj))

    cluster.call(write)


def merge(live: dict[str, Any], obj: dict[str, Any]) -> None:
    live["data"] = obj["data"]
    live["metadata"]["labels"] = obj["metadata"]["labels"]


def names(cache: WatchCache) -> set[str]:
    return {obj["metadata"]["name"] for obj in cache.objects(CONFIG_MAP)}


def until(cache: WatchCache, what: Callable[[], bool], seconds: float = 10) -> None:
    deadline = monotonic() + seconds
    while not what():
        assert monotonic() < deadline
        cache.wait_for_change(deadline - monotonic())


def test_it_lists_once_and_then_watches(cluster: Cluster) -> None:
    put(cluster, "a")
    put(cluster, "unasked", follow="no")
    cluster.requests.reset()
    with WatchCache(client(cluster), pytest.fail) as cache:
        cache.add([HERE])
        assert names(cache) == {"a"}
        put(cluster, "between")
        cache.watch()
        until(cache, lambda: names(cache) == {"a", "between"})
        put(cluster, "a", k="v")
        until(cache, lambda: next(iter(cache.objects(CONFIG_MAP))).get("data") == {"k": "v"})
        put(cluster, "a", follow="no")
        cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "between"))
        until(cache, lambda: not names(cache))
    assert cluster.requests.counts() == {LIST: 1, WATCH: 1}


def test_no_thread_is_left_when_it_ends(cluster: Cluster) -> None:
    with WatchCache(client(cluster), pytest.fail) as cache:
        cache.add([HERE, WatchQuery(EVENT, "default")])
        cache.watch()
        assert len(followers()) == 2
        put(cluster, "a")
        until(cache, lambda: names(cache) == {"a"})  # it is watched by now, and silent from here on
        began = monotonic()
    assert followers() == []
    assert monotonic() - began < 1, "silent watches are ended, not waited for"


def followers() -> list[str]:
    """Threads of this and of no other test's doing."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("watch ")]


def test_an_interrupted_watch_continues_from_its_version(cluster: Cluster) -> None:
    with WatchCache(client(cluster), pytest.fail) as cache:
        cache.add([HERE])
        cache.watch()
        put(cluster, "a")
        until(cache, lambda: names(cache) == {"a"})
        cluster.break_watches()
        put(cluster, "b")
        until(cache, lambda: names(cache) == {"a", "b"})
    assert cluster.requests.counts() == {LIST: 1, WATCH: 2}


def test_an_expired_version_is_listed_again(cluster: Cluster) -> None:
    put(cluster, "a")
    with WatchCache(client(cluster), pytest.fail) as cache:
        cache.add([HERE])
        put(cluster, "b")
        cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "a"))
        cluster.faults.add(Fault("expired", verb="watch"))
        cache.watch()
        until(cache, lambda: names(cache) == {"b"})
        put(cluster, "c")
        until(cache, lambda: names(cache) == {"b", "c"})
    assert cluster.requests.counts() == {LIST: 2, WATCH: 2}


BROKEN = [fault.name for fault in FAULTS.values() if fault.watch]


@pytest.fixture
def broken(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a proxy that does to every watch what the parameter names."""
    proxy = Proxy(cluster.url)
    lane = proxy.lane()
    lane.begin(Plan(FAULTS[request.param], k=1, always=True))
    yield lane.url
    proxy.close()


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_a_watch_that_brings_nothing_is_followed_by_a_list(
    cluster: Cluster, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_client, "WATCH", replace(kube_client.WATCH, silence=0.3))
    warned: list[str] = []
    with WatchCache(client(cluster, url=broken), warned.append) as cache:
        cache.add([HERE])
        cache.watch()
        for name in ("a", "b", "c"):
            put(cluster, name)
            until(cache, lambda name=name: name in names(cache))
    assert not [text for text in warned if "HTML page" not in text]


@pytest.fixture
def unanswered(cluster: Cluster) -> Iterator[str]:
    """The address of a proxy that passes on the first list, and the answer to no watch."""
    proxy = Proxy(cluster.url)
    lane = proxy.lane()
    lane.begin(Plan(FAULTS["silent-after"], k=2))
    yield lane.url
    proxy.close()


def test_a_watch_without_an_answer_is_given_up_after_request_timeout(cluster: Cluster, unanswered: str) -> None:
    """Silence of another length ends it only once the server has begun to answer."""
    warned: list[str] = []
    with WatchCache(client(cluster, url=unanswered, request_timeout=0.5), warned.append) as cache:
        cache.add([HERE])
        cache.watch()
        put(cluster, "a")
        until(cache, lambda: names(cache) == {"a"}, seconds=5)
    assert [text.partition(",")[0] for text in warned] == ["still waiting"]


def test_a_quiet_watch_outlasts_request_timeout(cluster: Cluster) -> None:
    with WatchCache(client(cluster, request_timeout=0.3), pytest.fail) as cache:
        cache.add([HERE])
        cache.watch()
        sleep(1)
        put(cluster, "a")
        until(cache, lambda: names(cache) == {"a"})
    assert cluster.requests.counts() == {LIST: 1, WATCH: 1}


@pytest.mark.parametrize("broken", ["watch-end", "watch-html"], indirect=True)
def test_watches_that_end_at_once_cause_no_storm(cluster: Cluster, broken: str) -> None:
    with WatchCache(client(cluster, url=broken), lambda text: None) as cache:
        cache.add([HERE])
        cache.watch()
        until(cache, lambda: cluster.requests.counts()[LIST] == 3)
        began = monotonic()
        until(cache, lambda: cluster.requests.counts()[LIST] == 5)
        assert monotonic() - began > 0.9, "the delays grow"


@pytest.mark.parametrize("broken", ["watch-silent"], indirect=True)
def test_a_refresh_lists_what_the_watches_have_not_brought(cluster: Cluster, broken: str) -> None:
    put(cluster, "a")
    with WatchCache(client(cluster, url=broken), pytest.fail) as cache:
        cache.add([HERE])
        cache.watch()
        put(cluster, "b")
        cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "a"))
        cache.refresh()
        assert names(cache) == {"b"}


@pytest.mark.parametrize("fault", ["unavailable", "busy", "reset"])
def test_transient_errors_are_retried(cluster: Cluster, fault: str) -> None:
    warned: list[str] = []
    with WatchCache(client(cluster), warned.append) as cache:
        cache.add([HERE])
        cluster.faults.add(Fault(fault, verb="watch", count=2))
        cache.watch()
        put(cluster, "a")
        until(cache, lambda: names(cache) == {"a"})
    assert len(warned) == (1 if fault == "reset" else 0), "one warning that the server cannot be reached"


def allow(cluster: Cluster, *verbs: str) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}
    rbac = "rbac.authorization.k8s.io"
    subject = {"apiGroup": rbac, "kind": "User", "name": "lab-user"}
    role = {"apiGroup": rbac, "kind": "Role", "name": "r"}
    metadata = {"name": "r", "namespace": "default"}

    def write() -> None:
        base = {"apiVersion": f"{rbac}/v1", "metadata": metadata}
        cluster.registry.create("Role", {**base, "kind": "Role", "rules": [rule]})
        cluster.registry.create("RoleBinding", {**base, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})

    cluster.call(write)


def test_without_permission_to_watch_it_polls_and_warns_once(cluster: Cluster) -> None:
    allow(cluster, "list")
    warned: list[str] = []
    with WatchCache(client(cluster, "lab-user-token"), warned.append) as cache:
        cache.add([HERE, replace(HERE, labels="another=one")])
        cache.watch()
        put(cluster, "a")
        until(cache, lambda: names(cache) == {"a"})
        cache.wait_for_change(1.5)
        until(cache, lambda: cluster.requests.counts().get(WATCH) == 2)
    counts = cluster.requests.counts()
    assert counts[WATCH] == 2
    assert counts[LIST] <= 12
    (warning,) = warned
    assert "configmaps in namespace default cannot be watched and are polled instead" in warning
    assert "Grant the verb watch" in warning


def test_a_forbidden_list_fails_unless_it_is_optional(cluster: Cluster) -> None:
    with WatchCache(client(cluster, "lab-user-token"), pytest.fail) as cache:
        cache.add([WatchQuery(EVENT, "default", optional=True)])
        assert list(cache.objects(EVENT)) == []
        with pytest.raises(ApiError, match="forbidden"):
            cache.add([HERE])


def test_revoked_permissions_end_it(cluster: Cluster) -> None:
    allow(cluster, "list", "watch")
    with WatchCache(client(cluster, "lab-user-token"), pytest.fail) as cache:
        cache.add([HERE])
        cluster.faults.add(Fault("expired", verb="watch"))
        cluster.call(lambda: cluster.registry.delete("RoleBinding", "default", "r"))
        cache.watch()
        with pytest.raises(ApiError, match="cannot list"):
            cache.wait_for_change(5)


def test_an_error_in_a_thread_is_raised_in_the_waiting_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*query: object, **selectors: object) -> None:
        raise RuntimeError("a defect")

    with WatchCache(client(cluster), pytest.fail) as cache:
        cache.add([HERE])
        monkeypatch.setattr(Client, "watch", defect)
        cache.watch()
        with pytest.raises(RuntimeError, match="a defect"):
            cache.wait_for_change(5)


def test_queries_beyond_the_limit_are_polled(cluster: Cluster) -> None:
    queries = [WatchQuery(CONFIG_MAP, f"ns-{number}") for number in range(66)]
    with WatchCache(client(cluster), pytest.fail) as cache:
        cache.add([*queries, WatchQuery(NODE, "")])
        cache.watch()
        until(cache, lambda: cluster.requests.counts()[LIST] > len(queries))
    assert cluster.requests.counts()[WATCH] <= 64
