# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that are clusters: which connection a task on one has, and which variables it does not hear."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.cluster_hosts import (
    cluster_environment,
    cluster_options,
    clusters_of_play,
    registered_by_clusters,
    with_last_answer,
)

FILE = {"gpuctl_cluster_kubeconfig": "/k", "gpuctl_cluster_context": "a"}
URL = {"gpuctl_cluster_host": "https://a:6443", "gpuctl_cluster_api_key": "<vault>"}

OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "no cluster": ({}, {"gpuctl_cluster_tags": {"region": "eu"}}, {}),
    "a context of a kubeconfig": ({}, FILE, {"kubeconfig": "/k", "context": "a"}),
    "a URL with a token, whose variables are templates": ({}, URL, {"host": "https://a:6443", "api_key": "vault"}),
    "credentials alone name no cluster": ({}, {"gpuctl_cluster_api_key": "t"}, {}),
    "an empty value is none": ({}, {**FILE, "gpuctl_cluster_proxy": ""}, {"kubeconfig": "/k", "context": "a"}),
    "a task that names another cluster": ({"host": "https://b"}, URL, {}),
    "a task with other options": ({"retries": 1}, FILE, {"kubeconfig": "/k", "context": "a"}),
}


@pytest.mark.parametrize(("given", "variables", "expected"), OPTIONS.values(), ids=OPTIONS)
def test_the_connection_of_a_host(given: dict[str, Any], variables: dict[str, Any], expected: dict[str, Any]) -> None:
    assert cluster_options(given, variables, lambda value: str(value).strip("<>")) == expected


def test_variables_of_another_cluster_are_not_heard() -> None:
    environ = cluster_environment({"kubeconfig": "/k", "context": "a"}, {"K8S_AUTH_HOST": "https://b"})
    assert environ.pop("K8S_AUTH_CONNECT_TIMEOUT") == "4"
    assert {*environ.values()} == {""}
    credentials = {"K8S_AUTH_API_KEY", "K8S_AUTH_PASSWORD", "K8S_AUTH_KEY_FILE", "K8S_AUTH_SSL_CA_CERT"}
    assert environ.keys() >= {"K8S_AUTH_HOST", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_VERIFY_SSL"} | credentials
    assert not environ.keys() & {"K8S_AUTH_PROXY", "K8S_AUTH_RETRIES", "K8S_AUTH_IMPERSONATE_USER"}


def test_a_context_alone_is_one_of_the_given_kubeconfig() -> None:
    environ = cluster_environment({"context": "a"}, {"K8S_AUTH_CONNECT_TIMEOUT": "30"})
    assert "K8S_AUTH_KUBECONFIG" not in environ
    assert environ["K8S_AUTH_CONNECT_TIMEOUT"] == "30"


def test_a_task_on_another_host_keeps_its_environment() -> None:
    assert cluster_environment({}, {"K8S_AUTH_HOST": "https://b"}) == {}


def test_the_clusters_of_a_play_are_in_its_order() -> None:
    groups = {"gpuctl_clusters": ["a", "b", "c"]}
    assert clusters_of_play({"groups": groups, "ansible_play_hosts_all": ["c", "localhost", "a"]}) == ["c", "a"]
    assert clusters_of_play({"groups": {}, "ansible_play_hosts_all": ["localhost"]}) == []


NOW = datetime(2026, 7, 30, 12, tzinfo=timezone.utc)
UNREACHABLE = "cannot reach the API server https://a: no route to host. Check that the cluster is up."
ANSWERED = {"runwhere_answered_at": "2026-07-29T08:00:00Z"}
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "it has answered before": (
        {"failed": True, "msg": UNREACHABLE},
        ANSWERED,
        f"{UNREACHABLE} It last answered at 2026-07-29T08:00:00Z.",
    ),
    "it has not": ({"failed": True, "msg": UNREACHABLE}, {}, UNREACHABLE),
    "the cache has something else": ({"failed": True, "msg": UNREACHABLE}, {"runwhere_answered_at": [1]}, UNREACHABLE),
    "it answers that it refuses": ({"failed": True, "msg": "forbidden"}, ANSWERED, "forbidden"),
}


@pytest.mark.parametrize(("result", "facts", "message"), ANSWERS.values(), ids=ANSWERS)
def test_when_a_cluster_last_answered(result: dict[str, Any], facts: dict[str, Any], message: str) -> None:
    assert with_last_answer(result, facts, NOW) == {"failed": True, "msg": message}


def test_an_answer_is_remembered_as_a_fact() -> None:
    facts = {"runwhere_answered_at": "2026-07-30T12:00:00Z"}
    assert with_last_answer({"changed": False}, ANSWERED, NOW) == {"changed": False, "ansible_facts": facts}


def test_what_the_clusters_of_a_play_have_registered() -> None:
    own = {"a": {"found": {"msg": "no", "exception": object()}}, "b": {}, "other": {"found": 2}}
    variables: dict[str, Any] = {
        "hostvars": SimpleNamespace(raw_get=own.__getitem__),
        "groups": {"gpuctl_clusters": ["a", "b"]},
        "ansible_play_hosts_all": ["a", "b", "other"],
        "inventory_hostname": "other",
    }
    assert registered_by_clusters("found", variables) == {"a": {"msg": "no"}, "b": None}
    assert registered_by_clusters("found", {**variables, "groups": {}}) == {"other": 2}
