# SPDX-License-Identifier: BSD-2-Clause
"""Which connection options, variables and kubeconfigs give, in which order of precedence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import cached_client, discard_client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import (
    connection_secrets,
    resolve_connection,
    shown_params,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.discovery import preferred_versions
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
        {"K8S_AUTH_REQUEST_TIMEOUT": "7", "K8S_AUTH_RETRIES": "0", "K8S_AUTH_CONNECT_TIMEOUT": "3"},
        {"request_timeout": 7.0, "retries": 0, "connect_timeout": 3},
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
    "a user and password in the URLs": (
        {"host": "https://me:p%40ss@h:6443/x", "username": "me", "proxy": "http://u:p@proxy:1"},
        {"KUBECONFIG": "/nowhere"},
        {
            "server": "https://h:6443/x",
            "authorization": "Basic bWU6cEBzcw==",
            "proxy": "http://proxy:1",
            "proxy_headers": {"proxy-authorization": "Basic dTpw"},
        },
    ),
    "a token before the URL's password": (
        {**HOST, "host": "https://me:p@h"},
        {},
        {"server": "https://h", "authorization": "Bearer k"},
    ),
    "a line break at the end of a token": ({**HOST, "api_key": " k\r\n"}, {}, {"authorization": "Bearer k"}),
    "credentials without encryption, on this machine": (
        {"host": "http://[::1]:8001", "api_key": "k"},
        {},
        {"authorization": "Bearer k", "warning": None},
    ),
    "credentials without encryption, on request": (
        {**HOST, "host": "http://h"},
        {"K8S_AUTH_ALLOW_PLAINTEXT_CREDENTIALS": "true"},
        {"server": "http://h", "authorization": "Bearer k"},
    ),
    "no credentials, without encryption": (
        {"host": "http://h"},
        {"KUBECONFIG": "/nowhere"},
        {"server": "http://h"},
    ),
    "the kubeconfig's credentials for another host": (
        {"kubeconfig": KUBECONFIG, "host": "https://h"},
        {},
        {
            "authorization": "Bearer from-file",
            "warning": "the credentials of the kubeconfig or service account are for https://a:6443, and host sends "
            "them to https://h. Set context, or api_key for that host.",
        },
    ),
    "the kubeconfig's credentials for its own host": (
        {"kubeconfig": KUBECONFIG, "host": "https://a:6443/"},
        {},
        {"warning": None},
    ),
    "the kubeconfig's credentials through a tunnel": (
        {"kubeconfig": KUBECONFIG, "host": "https://localhost:6443"},
        {},
        {"warning": None},
    ),
    "own credentials for another host": ({**HOST, "kubeconfig": KUBECONFIG}, {}, {"warning": None}),
    "a server that needs no credentials": (
        {"host": "http://127.0.0.1:8001"},
        {"KUBECONFIG": "/nowhere"},
        {"authorization": None},
    ),
}

REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "nothing": (
        {},
        {"KUBECONFIG": "/nowhere"},
        r"kubeconfig not found: /nowhere\. Set kubeconfig \(or K8S_AUTH_KUBECONFIG\) to the file by which kubectl "
        r"reaches the cluster, or set host and api_key\.$",
    ),
    "a missing file": (
        {"kubeconfig": "/nowhere", "host": "https://h"},
        {},
        "kubeconfig not found: /nowhere",
    ),
    "several missing files": ({"kubeconfig": "/nowhere:/neither"}, {}, "kubeconfig not found: /nowhere:/neither"),
    "a missing context": (
        {"kubeconfig": KUBECONFIG, "context": "bb"},
        {},
        r"context not found in the kubeconfig dictionary: bb\. Set context to one of: b, a\.$",
    ),
    "a current context that is missing": (
        {"kubeconfig": {**KUBECONFIG, "current-context": "gone"}},
        {},
        "context not found in the kubeconfig dictionary: gone. Set context to one of: ",
    ),
    "no current context": (
        {"kubeconfig": {**KUBECONFIG, "current-context": None}},
        {},
        r"no current context in the kubeconfig dictionary\. Set context to one of: a, b\.$",
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
    "too much concurrency": (
        {**HOST, "concurrency": 2147483648},
        {},
        "concurrency is too large: 2147483648. Use 200 or less",
    ),
    "a timeout beyond what a socket takes": (
        HOST,
        {"K8S_AUTH_REQUEST_TIMEOUT": "9" * 30},
        "request_timeout is too large: 9+. Use 86400 or less",
    ),
    "retries without end": ({**HOST, "retries": 10**9}, {}, "retries is too large: 1000000000. Use 100 or less"),
    "no timeout": ({**HOST, "request_timeout": 0}, {}, "request_timeout is too small: 0. Use 1 or more"),
    "a line break in a token": (
        {**HOST, "api_key": "ab\ncd"},
        {},
        "^the token is not valid: it contains a space, a line",
    ),
    "a token that is none": ({**HOST, "api_key": "tökén"}, {}, "^the token is not valid"),
    "a line break in a header": ({**HOST, "impersonate_user": "a\nb"}, {}, "^impersonate_user has a line break"),
    "a line break in a group": (
        {**HOST, "impersonate_groups": ["a", "b\n"]},
        {},
        "^impersonate_groups has a line break",
    ),
    "a token for everyone on the network": (
        {**HOST, "host": "http://h"},
        {},
        "sent without encryption: http://h. Use https",
    ),
    "a local token through a proxy": (
        {**HOST, "host": "http://127.0.0.1", "proxy": "http://p:1"},
        {},
        "sent without encryption: http://127.0.0.1. Use https",
    ),
    "a kubeconfig's token for everyone": (
        {"kubeconfig": KUBECONFIG, "host": "http://h"},
        {},
        "sent without encryption: http://h. Use https",
    ),
    "the content of a file": ({"kubeconfig": "a: b\nc: d"}, {}, "^kubeconfig is the content of a file, not a path"),
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


BROKEN_FILES = {
    "no YAML": ("{\n", r"while parsing .* line 2, column 1\. Set kubeconfig"),
    "a list": ("- a\n", r"not the form of a kubeconfig\. Set kubeconfig"),
    "a word": ("kubeconfig\n", r"not the form of a kubeconfig\. Set kubeconfig"),
}


@pytest.mark.parametrize(("content", "words"), BROKEN_FILES.values(), ids=BROKEN_FILES)
def test_a_file_that_is_no_kubeconfig_is_named(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConnectionProblem, match=f"^cannot load kubeconfig {path}: {words}"):
        resolve_connection({"kubeconfig": str(path)}, {})


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
        preferred_versions(first)


def test_the_secrets_of_a_kubeconfig_are_learned_before_anything_can_fail(tmp_path: Path) -> None:
    fields = {
        "args": ["--token", "in-the-args"],
        "env": [{"name": "CLIENT_SECRET", "value": "in-the-env"}, {"name": "AWS_PROFILE", "value": "team-b"}],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "/nowhere/plugin",
    }
    clusters = [{"name": "a", "cluster": {"server": "https://a", "proxy-url": "http://u:in-the%2Furl@proxy"}}]
    path = tmp_path / "config"
    path.write_text(
        json.dumps({**KUBECONFIG, "clusters": clusters, "users": [{"name": "u", "user": {"exec": fields}}]})
    )
    learned: set[str] = set()
    with pytest.raises(ConnectionProblem):
        resolve_connection({"kubeconfig": str(path)}, {}, learned.update)
    assert learned == {"in-the-args", "in-the-env", "in-the%2Furl", "in-the/url"}


def test_the_secrets_of_options_and_variables() -> None:
    params = {"api_key": "a-key", "host": "https://u:in-host@h", "proxy_headers": {"basic_auth": "u:in-header"}}
    environ = {
        "K8S_AUTH_PASSWORD": "in-environ",
        "K8S_AUTH_PROXY": "http://u:in-proxy@p",
        "K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH": "u:in-variable",
        "K8S_AUTH_HOST": "https://h",
    }
    assert connection_secrets(params, environ) == {
        "a-key", "in-host", "u:in-header", "in-header", "in-environ", "in-proxy", "u:in-variable", "in-variable",
    }  # fmt: skip


def test_a_kubeconfig_as_a_result_returns_it() -> None:
    shown = {
        "server": "https://a",
        "proxy-url": "http://u:********@p",
        "token": "********",
        "exec": {"command": "c", "args": "********", "env": "********"},
        "auth-provider": {"name": "oidc", "config": "********"},
    }
    given = {
        **shown,
        "proxy-url": "http://u:pass@p",
        "token": "t",
        "auth-provider": {"name": "oidc", "config": {"a": "b"}},
    }
    given["exec"] = {"command": "c", "args": ["a"], "env": [{"name": "A", "value": "b"}]}
    assert shown_params({"kubeconfig": {"users": [given]}, "host": "https://u:pass@h"}) == {
        "kubeconfig": {"users": [shown]},
        "host": "https://u:********@h",
    }
    assert shown_params({"kubeconfig": "a: b\n"}) == {"kubeconfig": "********"}


def test_no_credential_of_a_connection_within_an_option_is_returned() -> None:
    """Ansible masks those of a module's own connection only, and none at all if it refuses an option."""
    connection = {
        "host": "https://u:pass@w1",
        "api_key": "t",
        "api_kei": "t",
        "password": "p",
        "proxy_headers": {"a": "b"},
    }
    workers = [{"name": "w1", "servr": "x", "connection": connection}, {"name": "w2", "connection": "t"}, "w3"]
    hidden = dict.fromkeys(("api_key", "api_kei", "password", "proxy_headers"), "********")
    shown = {"host": "https://u:********@w1", **hidden}
    assert shown_params({"workers": workers, "names": ["a"]}) == {
        "workers": [{"name": "w1", "servr": "x", "connection": shown}, {"name": "w2", "connection": "********"}, "w3"],
        "names": ["a"],
    }
