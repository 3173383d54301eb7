# SPDX-License-Identifier: BSD-2-Clause
"""A copy that follows the cluster: what is asked of a server for it, and what may go wrong in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.following import Following, Question
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import CONFIG_MAP, EVENT, NODE
from kubesim import Cluster, Fault

HERE = Question(CONFIG_MAP, "default", labels="follow=yes")
LIST, WATCH = "list configmaps", "watch configmaps"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=0, controllers=False).running() as cluster:
        yield cluster


def client(cluster: Cluster, token: str = "") -> Client:
    def authorization() -> dict[str, str]:
        return {"Authorization": f"Bearer {token or cluster.token}"}

    return Client(Connection(cluster.url, authorization=authorization, retries=0))


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


def names(following: Following) -> set[str]:
    return {obj["metadata"]["name"] for obj in following.objects(CONFIG_MAP)}


def until(following: Following, what: Callable[[], bool], seconds: float = 10) -> None:
    deadline = monotonic() + seconds
    while not what():
        assert monotonic() < deadline
        following.changed(deadline - monotonic())


def test_it_lists_once_and_then_watches(cluster: Cluster) -> None:
    put(cluster, "a")
    put(cluster, "unasked", follow="no")
    cluster.requests.reset()
    with Following(client(cluster), pytest.fail) as following:
        following.ask([HERE])
        assert names(following) == {"a"}
        put(cluster, "between")
        following.follow()
        until(following, lambda: names(following) == {"a", "between"})
        put(cluster, "a", k="v")
        until(following, lambda: next(iter(following.objects(CONFIG_MAP))).get("data") == {"k": "v"})
        put(cluster, "a", follow="no")
        cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "between"))
        until(following, lambda: not names(following))
    assert cluster.requests.counts() == {LIST: 1, WATCH: 1}


def test_nothing_is_left_of_it_when_it_ends(cluster: Cluster) -> None:
    with Following(client(cluster), pytest.fail) as following:
        following.ask([HERE, Question(EVENT, "default")])
        following.follow()
        assert len(followers()) == 2
        put(cluster, "a")
        until(following, lambda: names(following) == {"a"})  # it is watched by now, and silent from here on
        began = monotonic()
    assert followers() == []
    assert monotonic() - began < 1, "silent watches are ended, not waited for"


def followers() -> list[str]:
    """Threads of this and of no other test's doing."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("follow ")]


def test_a_watch_that_was_cut_goes_on_where_it_was(cluster: Cluster) -> None:
    with Following(client(cluster), pytest.fail) as following:
        following.ask([HERE])
        following.follow()
        put(cluster, "a")
        until(following, lambda: names(following) == {"a"})
        cluster.call(lambda: [watch.break_off() for watch in cluster._server.watches])
        put(cluster, "b")
        until(following, lambda: names(following) == {"a", "b"})
    assert cluster.requests.counts() == {LIST: 1, WATCH: 2}


def test_a_version_that_was_forgotten_is_listed_anew(cluster: Cluster) -> None:
    put(cluster, "a")
    with Following(client(cluster), pytest.fail) as following:
        following.ask([HERE])
        put(cluster, "b")
        cluster.call(lambda: cluster.registry.delete("ConfigMap", "default", "a"))
        cluster.faults.add(Fault("expired", verb="watch"))
        following.follow()
        until(following, lambda: names(following) == {"b"})
        put(cluster, "c")
        until(following, lambda: names(following) == {"b", "c"})
    assert cluster.requests.counts() == {LIST: 2, WATCH: 2}


@pytest.mark.parametrize("fault", ["unavailable", "busy", "reset"])
def test_a_server_in_trouble_is_waited_for(cluster: Cluster, fault: str) -> None:
    warned: list[str] = []
    with Following(client(cluster), warned.append) as following:
        following.ask([HERE])
        cluster.faults.add(Fault(fault, verb="watch", count=2))
        following.follow()
        put(cluster, "a")
        until(following, lambda: names(following) == {"a"})
    assert len(warned) == (1 if fault == "reset" else 0), "told once that the server cannot be reached"


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


def test_who_may_not_watch_lists_more_and_more_rarely_and_is_told_once(cluster: Cluster) -> None:
    allow(cluster, "list")
    warned: list[str] = []
    with Following(client(cluster, "lab-user-token"), warned.append) as following:
        following.ask([HERE, replace(HERE, labels="another=one")])
        following.follow()
        put(cluster, "a")
        until(following, lambda: names(following) == {"a"})
        following.changed(1.5)
        until(following, lambda: cluster.requests.counts().get(WATCH) == 2)
    counts = cluster.requests.counts()
    assert counts[WATCH] == 2
    assert counts[LIST] <= 12
    (warning,) = warned
    assert "configmaps in namespace default cannot be watched, so the cluster is asked every few seconds" in warning
    assert "grant the verb watch" in warning


def test_who_may_not_list_fails_but_does_without_what_is_optional(cluster: Cluster) -> None:
    with Following(client(cluster, "lab-user-token"), pytest.fail) as following:
        following.ask([Question(EVENT, "default", optional=True)])
        assert list(following.objects(EVENT)) == []
        with pytest.raises(ApiError, match="forbidden"):
            following.ask([HERE])


def test_rights_that_are_lost_end_it(cluster: Cluster) -> None:
    allow(cluster, "list", "watch")
    with Following(client(cluster, "lab-user-token"), pytest.fail) as following:
        following.ask([HERE])
        cluster.faults.add(Fault("expired", verb="watch"))
        cluster.call(lambda: cluster.registry.delete("RoleBinding", "default", "r"))
        following.follow()
        with pytest.raises(ApiError, match="cannot list"):
            following.changed(5)


def test_what_goes_wrong_in_a_thread_is_raised_where_somebody_waits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*question: object, **selectors: object) -> None:
        raise RuntimeError("a defect")

    with Following(client(cluster), pytest.fail) as following:
        following.ask([HERE])
        monkeypatch.setattr(Client, "watch", defect)
        following.follow()
        with pytest.raises(RuntimeError, match="a defect"):
            following.changed(5)


def test_too_many_questions_are_looked_at_in_turn(cluster: Cluster) -> None:
    questions = [Question(CONFIG_MAP, f"ns-{number}") for number in range(66)]
    with Following(client(cluster), pytest.fail) as following:
        following.ask([*questions, Question(NODE, "")])
        following.follow()
        until(following, lambda: cluster.requests.counts()[LIST] > len(questions))
    assert cluster.requests.counts()[WATCH] <= 64
