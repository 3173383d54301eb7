# SPDX-License-Identifier: BSD-2-Clause
"""What a policy puts into the namespaces of its teams: a NetworkPolicy, and a ResourceQuota. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..accelerators import catalog
from ..labels import FIELD_MANAGER, MANAGED_BY, POLICY
from .policy_rules import Network, PolicyRules

Object = dict[str, Any]

_DNS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
# RFC 1918, RFC 6598 and link-local addresses, of which 169.254.169.254 tells the credentials of a machine in a cloud.
_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
_PRIVATE_6 = ("fc00::/7", "fe80::/10")


def namespace_objects(policy: PolicyRules, existing: Iterable[str]) -> Iterator[Object]:
    """The objects in those of the policy's namespaces that exist."""
    found = set(existing)
    for name, rules in sorted(policy.namespaces.items()):
        if name not in found:
            continue
        if rules.network is not None:
            yield network_policy(policy, name, rules.network)
        if rules.max_gpus is not None:
            yield accelerator_quota(policy, name, rules.max_gpus)


def network_policy(policy: PolicyRules, namespace: str, network: Network) -> Object:
    """Connections within the namespace, to DNS, and to what is named; everything else is refused."""
    selectors = [{"podSelector": {}}, *({"namespaceSelector": _named(each)} for each in network.namespaces)]
    addresses: list[Object] = [{"ipBlock": {"cidr": cidr}} for cidr in network.cidrs]
    if network.internet:
        addresses.append({"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_PRIVATE)}})
        addresses.append({"ipBlock": {"cidr": "::/0", "except": list(_PRIVATE_6)}})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(policy, namespace),
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": selectors}],
            "egress": [
                {"to": [*selectors, *addresses]},
                {"to": [{"namespaceSelector": _named("kube-system")}], "ports": _DNS},
            ],
        },
    }


def accelerator_quota(policy: PolicyRules, namespace: str, most: int) -> Object:
    """So many accelerators of any vendor. Kubernetes counts what pods request, however they are created."""
    keys = sorted({profile.device.quota_key for profile in catalog().profiles.values()})
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _metadata(policy, namespace),
        "spec": {"hard": dict.fromkeys(keys, str(most))},
    }


def _named(namespace: str) -> Object:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def _metadata(policy: PolicyRules, namespace: str) -> Object:
    labels = {MANAGED_BY: FIELD_MANAGER, POLICY: policy.name}
    return {"name": f"gpuctl-policy-{policy.name}", "namespace": namespace, "labels": labels}
