# SPDX-License-Identifier: BSD-2-Clause
"""What options, variables and kubeconfigs lead to, in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import client_cache
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import connect
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ConnectionProblem

KUBECONFIG = {
    "current-context": "a",
    "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}} for name in ("a", "b")],
    "users": [{"name": "u", "user": {"token": "from-file"}}],
    "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("a", "b")],
}
HOST = {"host": "https://h", "api_key": "k"}

# Name -> (options, environment, what the connection has).
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
    "words for false": (HOST, {"K8S_AUTH_VERIFY_SSL": "False"}, {"validate_certs": False}),
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
    "a server that asks nobody": (
        {"host": "http://127.0.0.1:8001"},
        {"KUBECONFIG": "/nowhere"},
        {"authorization": None},
    ),
}

REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "nothing": ({}, {"KUBECONFIG": "/nowhere"}, "cannot load kubeconfig /nowhere: .*give host and api_key"),
    "a file that is not there": (
        {"kubeconfig": "/nowhere", "host": "https://h"},
        {},
        "cannot load kubeconfig /nowhere",
    ),
    "a context that is not there": ({"kubeconfig": KUBECONFIG, "context": "c"}, {}, "as a dictionary, context c"),
    "no URL": ({**HOST, "host": "10.0.0.1:6443"}, {}, "10.0.0.1:6443 is no URL; give host such as https://"),
    "no host in the URL": ({**HOST, "host": "https://:6443"}, {}, "is no URL"),
    "no address in the URL": ({**HOST, "host": "http://["}, {}, "is no URL"),
    "no port in the URL": ({**HOST, "host": "https://h:port"}, {}, "is no URL"),
    "another scheme": ({**HOST, "host": "ssh://h"}, {}, "is no URL"),
    "no number": (HOST, {"K8S_AUTH_RETRIES": "many"}, "K8S_AUTH_RETRIES is 'many'; it must be a whole number"),
    "no requests at all": ({**HOST, "concurrency": 0}, {}, "concurrency is 0; give 1 or more"),
    "no time to answer": ({**HOST, "request_timeout": 0}, {}, "request_timeout is 0; give 1 or more"),
    "less than no retries": (HOST, {"K8S_AUTH_RETRIES": "-1"}, "retries is -1; give 0 or more"),
}


@pytest.mark.parametrize(("options", "environ", "expected"), CASES.values(), ids=CASES)
def test_options_lead_to_a_connection(
    options: dict[str, Any], environ: dict[str, str], expected: dict[str, Any]
) -> None:
    connection = connect(options, environ)
    found = {**vars(connection), "authorization": connection.authorization().get("Authorization")}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(("options", "environ", "words"), REFUSED.values(), ids=REFUSED)
def test_options_that_lead_nowhere(options: dict[str, Any], environ: dict[str, str], words: str) -> None:
    with pytest.raises(ConnectionProblem, match=words):
        connect(options, environ)


def test_a_client_is_opened_once_for_the_same_connection(tmp_path: Path) -> None:
    first = client_cache.cached_client(HOST, {})
    assert client_cache.cached_client({**HOST, "name": "of another task"}, {"PATH": "/"}) is first
    assert client_cache.cached_client({}, {"K8S_AUTH_HOST": "https://h", "K8S_AUTH_API_KEY": "k"}) is first
    assert client_cache.cached_client({**HOST, "api_key": "other"}, {}) is not first


def test_a_client_is_opened_anew_when_its_kubeconfig_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    options = {"kubeconfig": str(path), "context": "a"}
    path.write_text(str(KUBECONFIG))
    first = client_cache.cached_client(options, {})
    assert client_cache.cached_client(options, {}) is first
    path.write_text(str(KUBECONFIG).replace("from-file", "renewed-token"))
    assert client_cache.cached_client(options, {}) is not first


def test_a_forked_process_opens_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = client_cache.cached_client(HOST, {})
    monkeypatch.setattr("os.getpid", lambda: -1)  # as after a fork, which leaves all else as it is
    assert client_cache.cached_client(HOST, {}) is not first


def test_a_client_that_was_given_up_sends_nothing_and_is_not_given_out_again() -> None:
    first = client_cache.cached_client(HOST, {})
    client_cache.abort(first)
    assert client_cache.cached_client(HOST, {}) is not first
    with pytest.raises(ConnectionProblem, match="request not sent"):
        first.preferred_version("kueue.x-k8s.io")
