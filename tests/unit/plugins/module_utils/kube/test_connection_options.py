# SPDX-License-Identifier: BSD-2-Clause
"""Which connection options, variables and kubeconfigs give, in which order of precedence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import cached_client, discard_client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ConnectionProblem

KUBECONFIG = {
    "current-context": "a",
    "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}} for name in ("a", "b")],
    "users": [{"name": "u", "user": {"token": "from-file"}}],
    "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("a", "b")],
}
HOST = {"host": "https://h", "api_key": "k"}

# Name -> (options, environment, expected fields of the connection).
CASES: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, Any]]] = {
    "host and token": (HOST, {}, {"server": "https://h", "authorization": "Bearer k"}),
    "host and token from the environment": (
        {},
        {"K8S_AUTH_HOST": "https://e/", "K8S_AUTH_API_KEY": "e"},
        {"server": "https://e", "authorization": "Bearer e"},
    ),
    "an option before its variable": (HOST, {"K8S_AUTH_HOST": "https://e"}, {"server": "https://h"}),
    "an empty option is unset": ({**HOST, "host": ""}, {"K8S_AUTH_HOST": "https://e"}, {"server": "https://e"}),
    "an empty variable is unset": (
        {"kubeconfig": KUBECONFIG},
        {"K8S_AUTH_HOST": "", "K8S_AUTH_API_KEY": ""},
        {"server": "https://a:6443", "authorization": "Bearer from-file"},
    ),
    "the context": ({"kubeconfig": KUBECONFIG, "context": "b"}, {}, {"server": "https://b:6443"}),
    "options before the kubeconfig": (
        {"kubeconfig": KUBECONFIG, "host": "https://h", "username": "ä", "password": "p"},
        {},
        {"server": "https://h", "authorization": "Basic w6Q6cA=="},
    ),
    "a token before a password": (
        {**HOST, "username": "u", "password": "p"},
        {},
        {"authorization": "Bearer k"},
    ),
    "spellings of false": (HOST, {"K8S_AUTH_VERIFY_SSL": "False"}, {"validate_certs": False}),
    "the newer name first": (
        HOST,
        {"K8S_AUTH_VERIFY_SSL": "no", "K8S_AUTH_VALIDATE_CERTS": "yes"},
        {"validate_certs": True},
    ),
    "numbers": (
        HOST,
        {"K8S_AUTH_REQUEST_TIMEOUT": "7", "K8S_AUTH_RETRIES": "0"},
        {"request_timeout": 7.0, "retries": 0},
    ),
    "groups": (
        {**HOST, "impersonate_user": "u"},
        {"K8S_AUTH_IMPERSONATE_GROUPS": "a,b"},
        {"impersonation": (("Impersonate-User", "u"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))},
    ),
    "a proxy": (
        {**HOST, "proxy": "http://p:1", "proxy_headers": {"user_agent": "x"}},
        {"K8S_AUTH_NO_PROXY": "a,b", "K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH": "u:p", "HTTPS_PROXY": "http://no"},
        {
            "proxy": "http://p:1",
            "no_proxy": "a,b",
            "proxy_headers": {"user-agent": "x", "proxy-authorization": "Basic dTpw"},
        },
    ),
    "a server that needs no credentials": (
        {"host": "http://127.0.0.1:8001"},
        {"KUBECONFIG": "/nowhere"},
        {"authorization": None},
    ),
}

REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "nothing": ({}, {"KUBECONFIG": "/nowhere"}, "cannot load kubeconfig /nowhere: .*set host and api_key"),
    "a missing file": (
        {"kubeconfig": "/nowhere", "host": "https://h"},
        {},
        "cannot load kubeconfig /nowhere",
    ),
    "a missing context": (
        {"kubeconfig": KUBECONFIG, "context": "c"},
        {},
        "cannot load the kubeconfig dictionary, context c",
    ),
    "no URL": (
        {**HOST, "host": "10.0.0.1:6443"},
        {},
        "not the URL of an API server: 10.0.0.1:6443. Use one such as https://",
    ),
    "no host in the URL": ({**HOST, "host": "https://:6443"}, {}, "not the URL"),
    "no address in the URL": ({**HOST, "host": "http://["}, {}, "not the URL"),
    "no port in the URL": ({**HOST, "host": "https://h:port"}, {}, "not the URL"),
    "another scheme": ({**HOST, "host": "ssh://h"}, {}, "not the URL"),
    "no URL of a proxy": ({**HOST, "proxy": "3"}, {}, "not the URL of a proxy: 3. Use one such as http://"),
    "a proxy with a password": ({**HOST, "proxy": "me:hunter2@proxy:1"}, {}, "not the URL of a proxy: proxy:1. Use"),
    "not a number": (
        HOST,
        {"K8S_AUTH_RETRIES": "many"},
        "K8S_AUTH_RETRIES is not a number: 'many'. Use a whole number",
    ),
    "no concurrency": ({**HOST, "concurrency": 0}, {}, "concurrency is too small: 0. Use 1 or more"),
    "no timeout": ({**HOST, "request_timeout": 0}, {}, "request_timeout is too small: 0. Use 1 or more"),
    "negative retries": (HOST, {"K8S_AUTH_RETRIES": "-1"}, "retries is too small: -1. Use 0 or more"),
}


@pytest.mark.parametrize(("options", "environ", "expected"), CASES.values(), ids=CASES)
def test_options_describe_a_connection(
    options: dict[str, Any], environ: dict[str, str], expected: dict[str, Any]
) -> None:
    connection = resolve_connection(options, environ)
    found = {**vars(connection), "authorization": connection.authorization().get("Authorization")}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(("options", "environ", "words"), REFUSED.values(), ids=REFUSED)
def test_wrong_options_are_explained(options: dict[str, Any], environ: dict[str, str], words: str) -> None:
    with pytest.raises(ConnectionProblem, match=words):
        resolve_connection(options, environ)


def test_the_same_connection_gives_the_same_client() -> None:
    first = cached_client(HOST, {})
    assert cached_client({**HOST, "name": "of another task"}, {"PATH": "/"}) is first
    assert cached_client({}, {"K8S_AUTH_HOST": "https://h", "K8S_AUTH_API_KEY": "k"}) is first
    assert cached_client({**HOST, "api_key": "other"}, {}) is not first


def test_a_changed_kubeconfig_gives_another_client(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    options = {"kubeconfig": str(path), "context": "a"}
    path.write_text(str(KUBECONFIG))
    first = cached_client(options, {})
    assert cached_client(options, {}) is first
    path.write_text(str(KUBECONFIG).replace("from-file", "renewed-token"))
    assert cached_client(options, {}) is not first


def test_a_forked_process_gets_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cached_client(HOST, {})
    monkeypatch.setattr("os.getpid", lambda: -1)  # as after a fork, which changes nothing else
    assert cached_client(HOST, {}) is not first


def test_a_discarded_client_sends_nothing_and_leaves_the_cache() -> None:
    first = cached_client(HOST, {})
    discard_client(first)
    assert cached_client(HOST, {}) is not first
    with pytest.raises(ConnectionProblem, match="request not sent"):
        first.preferred_version("kueue.x-k8s.io")
