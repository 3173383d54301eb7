# SPDX-License-Identifier: BSD-2-Clause
"""Which text from the cluster may become the address of a host. Pure.

A node reports its own addresses, and the API server takes any text. Ansible puts an address on the command line of ssh,
where ``-oProxyCommand=…`` is an option, and people click on URLs made of it.
"""

from __future__ import annotations

import ipaddress
import re

# RFC 1123, section 2.1. A name whose last label is a number would be taken for an IP address (inet_aton, and
# https://url.spec.whatwg.org/#ends-in-a-number-checker).
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DNS_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_ENDS_IN_A_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_LONGEST = 253


def is_dns_name(text: str) -> bool:
    return len(text) <= _LONGEST and _DNS_NAME.fullmatch(text) is not None


def is_host_address(text: object) -> bool:
    """Whether it is an IP address, or a DNS name that cannot be taken for one."""
    if not isinstance(text, str):
        return False
    return _ip(text) is not None or (is_dns_name(text) and not _ENDS_IN_A_NUMBER.fullmatch(text))


def is_node_address(text: object) -> bool:
    """Whether it is one that can be a node's, and not one of the machine that connects to it.

    A kubelet takes no loopback, link-local, multicast or unspecified address either (validateNodeIP in
    pkg/kubelet/kubelet_node_status.go).
    """
    if not isinstance(text, str) or not is_host_address(text):
        return False
    address = _ip(text)
    if address is None:
        return f".{text.lower()}".rpartition(".")[2] != "localhost"
    address = getattr(address, "ipv4_mapped", None) or address
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None also for one with a zone, which Python takes any text for."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None
