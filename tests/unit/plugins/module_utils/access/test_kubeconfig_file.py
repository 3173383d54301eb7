# SPDX-License-Identifier: BSD-2-Clause
"""The kubeconfig that a colleague gets."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.kubeconfig_file import (
    is_ours,
    kubeconfig_text,
    written_credentials,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.kubeconfig import read_kubeconfig

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
    (cluster,) = yaml.safe_load(kubeconfig_text(connection, server, "u", None, {}))["clusters"]
    assert cluster["cluster"] == expected


def test_none_of_the_credentials_of_the_connection_are_passed_on():
    connection = Connection(server=SERVER, client_cert="cert-1", client_key="key-1", authorization=lambda: {"A": "tok"})
    text = kubeconfig_text(connection, None, "alice", "team-a", {"token": "own"})
    assert not any(secret in text for secret in ("cert-1", "key-1", "tok\n"))
    read = read_kubeconfig(yaml.safe_load(text), None)
    assert read is not None
    assert (read.server, read.authorization()) == (SERVER, {"Authorization": "Bearer own"})


def test_what_was_written_is_read_back():
    text = kubeconfig_text(Connection(server=SERVER), None, "oidc:王@example.com", None, {"exec": {"command": "login"}})
    assert is_ours(text)
    assert written_credentials(text, "oidc:王@example.com") == {"exec": {"command": "login"}}


def test_credentials_of_one_user_are_not_those_of_another():
    text = kubeconfig_text(Connection(server=SERVER), None, "alice", None, {"token": "hers"})
    assert written_credentials(text, "bob") == {}


@pytest.mark.parametrize("text", ["", "a: [", "users: 3", "users: [{user: null}]", "[]", "users: []"])
def test_a_damaged_file_has_no_credentials(text: str):
    assert written_credentials(text, "alice") == {}
    assert not is_ours(text)
