# SPDX-License-Identifier: BSD-2-Clause
"""The kubeconfig that a colleague gets."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.kubeconfig_file import (
    is_of_user,
    is_ours,
    kubeconfig_text,
    new_context,
    read_contexts,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.kubeconfig import read_kubeconfig

CONTEXTS = "contexts: [{name: a, context: {cluster: a, user: a}}]"
SERVER = "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("connection", "server", "expected"),
    [
        (Connection(server=SERVER, ca_cert="PEM"), None, {"server": SERVER, "certificate-authority-data": "UEVN"}),
        (Connection(server=SERVER, validate_certs=False), None, {"server": SERVER, "insecure-skip-tls-verify": True}),
        (Connection(server=SERVER), "https://gpu.example", {"server": "https://gpu.example"}),
        (
            Connection(server=SERVER, tls_server_name="api", proxy="http://proxy:3128"),
            None,
            {"server": SERVER, "tls-server-name": "api", "proxy-url": "http://proxy:3128"},
        ),
    ],
)
def test_the_cluster_is_that_of_the_connection(connection: Connection, server: str | None, expected: dict[str, Any]):
    (cluster,) = yaml.safe_load(kubeconfig_text("u", [new_context(connection, server, "u", None, {})]))["clusters"]
    assert cluster["cluster"] == expected


def test_none_of_the_credentials_of_the_connection_are_passed_on():
    connection = Connection(server=SERVER, client_cert="cert-1", client_key="key-1", authorization=lambda: {"A": "tok"})
    text = kubeconfig_text("alice", [new_context(connection, None, "alice", "team-a", {"token": "own"})])
    assert not any(secret in text for secret in ("cert-1", "key-1", "tok\n"))
    read = read_kubeconfig(yaml.safe_load(text), None)
    assert read is not None
    assert (read.server, read.authorization()) == (SERVER, {"Authorization": "Bearer own"})


def test_what_was_written_is_read_back():
    user, added = "oidc:王@example.com", {"exec": {"command": "login"}}
    written = new_context(Connection(server=SERVER), None, user, None, added)
    text = kubeconfig_text(user, [written])
    assert is_ours(text)
    assert is_of_user(text, user)
    assert not is_of_user(text, "oidc:王@example.co")
    assert read_contexts(text) == ([written], "gpu")


def test_each_cluster_has_its_context_and_its_token():
    made = [new_context(Connection(server=f"https://{name}"), None, "a", "a", {"token": name}, name) for name in "xyz"]
    text = kubeconfig_text("a", made)
    assert read_contexts(text) == (made, "x")
    for name in "xyz":
        read = read_kubeconfig(yaml.safe_load(text), name)
        assert read is not None
        assert (read.server, read.authorization()) == (f"https://{name}", {"Authorization": f"Bearer {name}"})
    for current, expected in (("z", "z"), ("x", "y"), ("", "y")):
        assert yaml.safe_load(kubeconfig_text("a", made[1:], current))["current-context"] == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "users: 3",
        "users: [{user: null}]",
        "[]",
        "users: []",
        f"clusters: []\nusers: []\n{CONTEXTS}",
        f"clusters: [{{name: a, cluster: {{}}}}]\nusers: [{{name: a, user: {{}}}}]\n{CONTEXTS}",
        f"clusters: [{{name: a, cluster: 3}}]\nusers: [{{name: a, user: 3}}]\n{CONTEXTS}",
    ],
)
def test_a_damaged_file_cannot_be_read(text: str):
    assert read_contexts(text) is None
    assert not is_ours(text)
