# SPDX-License-Identifier: BSD-2-Clause
"""The hosts of the inventory plugin, and the identity of connections in its cache."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.inventory.gpuctl import can_be_host, host_variables
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import slim_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import connection_identity

NODE = {
    "metadata": {
        "name": "n1",
        "labels": {"runwhere.ai/pool": "a", "topology.kubernetes.io/zone": "z1"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def addresses(**by_type: str) -> dict[str, Any]:
    listed = [{"type": kind, "address": address} for kind, address in by_type.items()]
    return {**NODE, "status": {**NODE["status"], "addresses": listed}}


@pytest.mark.parametrize(
    ("node", "ansible_host", "address"),
    [
        (addresses(InternalIP="10.0.0.1"), "10.0.0.1", "10.0.0.1"),
        (addresses(InternalIP="10.0.0.1", ExternalIP="1.2.3.4"), "10.0.0.1", "1.2.3.4"),
        (addresses(Hostname="n1"), None, None),
        (addresses(InternalIP="-oProxyCommand=x", ExternalIP="{{ x }}"), None, None),
        (addresses(InternalIP="127.0.0.1", ExternalIP="1.2.3.4"), None, "1.2.3.4"),
        (addresses(InternalDNS="n1.example.com"), None, None),
        (NODE, None, None),
    ],
)
def test_a_host_has_the_internal_address(node: dict[str, Any], ansible_host: str | None, address: str | None) -> None:
    variables = host_variables(slim_node(node))
    assert (variables.get("ansible_host"), variables["gpuctl_address"]) == (ansible_host, address)
    assert "ansible_host" not in variables or ansible_host, "an empty address would hide the host's name"


def test_of_two_addresses_of_a_type_the_first_usable_is_the_primary_one() -> None:
    listed = [{"type": "InternalIP", "address": address} for address in ("-v", "10.0.0.1", "fd00::1")]
    node = slim_node({**NODE, "status": {**NODE["status"], "addresses": listed}})
    assert (node.internal_address, node.address, node.refused_addresses) == ("10.0.0.1", "10.0.0.1", ("-v",))


NAMES = {
    "a name": ("n1", {}, True),
    "a name that ends in a number, with an address": ("rack.1", {"InternalIP": "10.0.0.1"}, True),
    "the same without one": ("rack.1", {}, False),
    "a refused address": ("n1", {"InternalIP": "-v"}, True),
    "localhost": ("localhost", {"InternalIP": "10.0.0.1"}, False),
    "the address of localhost": ("127.0.0.1", {"InternalIP": "10.0.0.1"}, False),
    "no name": ("-oProxyCommand=x", {"InternalIP": "10.0.0.1"}, False),
}


@pytest.mark.parametrize(("name", "by_type", "expected"), NAMES.values(), ids=NAMES)
def test_which_nodes_can_be_hosts(name: str, by_type: dict[str, str], expected: bool) -> None:
    node = addresses(**by_type)
    assert can_be_host(slim_node({**node, "metadata": {**node["metadata"], "name": name}})) is expected


def test_a_host_has_all_labels_and_one_pool() -> None:
    variables = host_variables(slim_node(NODE))
    assert variables["gpuctl_labels"] == NODE["metadata"]["labels"]
    assert (variables["gpuctl_pool"], variables["gpuctl_gpu_type"]) == ("a", None)


KUBECONFIG = {"clusters": [{"name": "c", "cluster": {"server": "https://one"}}], "users": [{"token": "s3cret"}]}
# Options and environment of two connections, and whether they may share a cache entry.
PAIRS: dict[str, tuple[tuple[dict[str, Any], dict[str, str]], tuple[dict[str, Any], dict[str, str]], bool]] = {
    "the defaults": (({}, {}), ({}, {}), True),
    "another kubeconfig": (({"kubeconfig": "/a"}, {}), ({"kubeconfig": "/b"}, {}), False),
    "option and variable say the same": (({"kubeconfig": "/a"}, {}), ({}, {"K8S_AUTH_KUBECONFIG": "/a"}), True),
    "another default kubeconfig": (({}, {"KUBECONFIG": "/a"}), ({}, {"KUBECONFIG": "/b"}), False),
    "another context by its variable": (({}, {"K8S_AUTH_CONTEXT": "a"}), ({}, {"K8S_AUTH_CONTEXT": "b"}), False),
    "another host": (({"host": "https://a"}, {}), ({"host": "https://b"}, {}), False),
    "a new token": (({"api_key": "a"}, {}), ({"api_key": "b"}, {}), True),
    "another user": (({}, {}), ({"impersonate_user": "jane"}, {}), False),
    "another group": (({"impersonate_groups": ["a"]}, {}), ({}, {"K8S_AUTH_IMPERSONATE_GROUPS": "b"}), False),
    "a dictionary with other clusters": (
        ({"kubeconfig": KUBECONFIG}, {}),
        ({"kubeconfig": {**KUBECONFIG, "clusters": []}}, {}),
        False,
    ),
    "a dictionary with other credentials": (
        ({"kubeconfig": KUBECONFIG}, {}),
        ({"kubeconfig": {**KUBECONFIG, "users": []}}, {}),
        True,
    ),
}


@pytest.mark.parametrize(("one", "other", "same"), PAIRS.values(), ids=PAIRS)
def test_connections_that_share_a_cache_entry(one: Any, other: Any, same: bool) -> None:
    assert (connection_identity(*one) == connection_identity(*other)) is same


def test_credentials_are_not_in_the_identity() -> None:
    options = {"api_key": "s3cret", "password": "s3cret", "kubeconfig": KUBECONFIG}
    assert "s3cret" not in str(connection_identity(options, {"K8S_AUTH_API_KEY": "s3cret"}))
