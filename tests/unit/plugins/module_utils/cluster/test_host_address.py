# SPDX-License-Identifier: BSD-2-Clause
"""Which text from the cluster may become the address of a host."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.host_address import (
    is_dns_name,
    is_host_address,
    is_node_address,
)

OF_NODES = ["10.0.0.1", "fd00::1", "2001:db8::1", "node-1", "1node", "gpu-1.example.com", "N1", "a" * 63]
OF_THIS_MACHINE = [
    "127.0.0.1",
    "::1",
    "0.0.0.0",
    "169.254.1.1",
    "fe80::1",
    "224.0.0.1",
    "::ffff:127.0.0.1",
    "localhost",
]
OF_THIS_MACHINE += ["LOCALHOST", "x.localhost"]
OF_NOTHING = [
    "", "-oProxyCommand=x", "-v", "{{ x }}", "a b", "a\n", "10.0.0.1\n", "10.0.0.1 ", "user@host", "host:22", "host/x",
    "$(id)", "fe80::1%eth0", "fd00::1%;id", "127.1", "1", "0x7f000001", "a.0x7f", "node.", ".node", "node..x", "node-",
    "host_1", "a" * 64, "ab." * 85 + "c", "\u0661\u0660.0.0.1", "nöde", None, 1, ["10.0.0.1"],
]  # fmt: skip


@pytest.mark.parametrize("text", OF_NODES)
def test_addresses_of_nodes(text: str):
    assert is_host_address(text)
    assert is_node_address(text)


@pytest.mark.parametrize("text", OF_THIS_MACHINE)
def test_addresses_that_a_node_cannot_have(text: str):
    assert is_host_address(text)
    assert not is_node_address(text)


@pytest.mark.parametrize("text", OF_NOTHING, ids=repr)
def test_what_is_no_address(text: object):
    assert not is_host_address(text)
    assert not is_node_address(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("rack.1", True), ("10.0.0.5", True), ("-a", False), ("a b", False), ("", False)]
)
def test_names(text: str, expected: bool):
    assert is_dns_name(text) is expected
