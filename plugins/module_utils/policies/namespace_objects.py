# SPDX-License-Identifier: BSD-2-Clause
"""What a policy puts into the namespaces of its teams: a NetworkPolicy, and a ResourceQuota. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..accelerators.hardware import PoolHardware
from ..labels import FIELD_MANAGER, MANAGED_BY, POLICY
from .counted import limits_of_pools, quota_key
from .policy_rules import NamespaceRules, Network, PolicyRules

Object = dict[str, Any]

_DNS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
# RFC 1918, RFC 6598 and link-local addresses, of which 169.254.169.254 tells the credentials of a machine in a cloud.
_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
_PRIVATE_6 = ("fc00::/7", "fe80::/10")


def namespace_objects(
    policy: PolicyRules, existing: Iterable[str], hardware: Mapping[str, PoolHardware]
) -> Iterator[Object]:
    """The objects in those of the policy's namespaces that exist. ``hardware`` has the pools that have limits."""
    found = set(existing)
    for name, rules in sorted(policy.namespaces.items()):
        if name not in found:
            continue
        if rules.network is not None:
            yield network_policy(policy, name, rules.network)
        if (most := _limits(policy, rules, hardware)) is not None:
            yield accelerator_quota(policy, name, most)


def network_policy(policy: PolicyRules, namespace: str, network: Network) -> Object:
    """Connections within the namespace, to DNS, and to what is named; everything else is refused."""
    selectors = [{"podSelector": {}}, *({"namespaceSelector": _selecting(each)} for each in network.namespaces)]
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
            # Of a pod that is selected, what no rule names is refused (docs, "Network Policies").
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": selectors}],
            "egress": [
                {"to": [*selectors, *addresses]},
                # CoreDNS: without names, nothing of what is allowed would be found.
                {"to": [{"namespaceSelector": _selecting("kube-system")}], "ports": _DNS},
            ],
        },
    }


def _limits(policy: PolicyRules, rules: NamespaceRules, hardware: Mapping[str, PoolHardware]) -> dict[str, int] | None:
    """By what a quota counts. What is in none of the pools of the team is not for it."""
    counted = policy.counted or ()
    if rules.max_gpus_in_pools is not None:
        return {**dict.fromkeys(counted, 0), **limits_of_pools(rules.max_gpus_in_pools, hardware)}
    return None if rules.max_gpus is None else dict.fromkeys(counted, rules.max_gpus)


def accelerator_quota(policy: PolicyRules, namespace: str, most: Mapping[str, int]) -> Object:
    """Kubernetes counts what pods and claims request, however they are created."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _metadata(policy, namespace),
        "spec": {"hard": {quota_key(name): str(number) for name, number in sorted(most.items())}},
    }


def _selecting(namespace: str) -> Object:
    # The API server sets it to the name, so no other namespace can pretend to be this one.
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def _metadata(policy: PolicyRules, namespace: str) -> Object:
    labels = {MANAGED_BY: FIELD_MANAGER, POLICY: policy.name}
    return {"name": f"gpuctl-policy-{policy.name}", "namespace": namespace, "labels": labels}
