# SPDX-License-Identifier: BSD-2-Clause
"""What policies say, by namespace, and the ConfigMap in which the modules find it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..labels import FIELD_MANAGER, MANAGED_BY, POLICY, SYSTEM_NAMESPACE, is_managed, policy_config_map_name

if TYPE_CHECKING:
    from ..manifest.models import Policy

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Network:
    """With whom the pods of a namespace may connect, besides each other."""

    namespaces: tuple[str, ...] = ()
    cidrs: tuple[str, ...] = ()
    internet: bool = False


@dataclass(frozen=True)
class NamespaceRules:
    """What the jobs of one namespace may use; None is not limited."""

    team: str
    pools: tuple[str, ...] | None = None
    gpu_types: tuple[str, ...] | None = None
    priorities: tuple[str, ...] | None = None
    max_gpus_per_job: int | None = None
    max_gpus: int | None = None
    service_accounts: tuple[str, ...] | None = None
    image_pull_secrets: tuple[str, ...] | None = None
    service_types: tuple[str, ...] | None = None
    pod_security: str | None = None
    network: Network | None = None


@dataclass(frozen=True)
class PolicyRules:
    """A policy, with what applies to each namespace. ``roots`` is None where only system paths are refused."""

    name: str
    description: str = ""
    contact: str = ""
    action: str = "deny"
    roots: tuple[str, ...] | None = None
    registries: tuple[str, ...] | None = None
    host_network: bool = False
    labels_of_pods: bool = False
    labels_of_nodes: bool = False
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Who says so, as sentences about what is not allowed begin."""
        return f"policy {self.name} ({self.contact})" if self.contact else f"policy {self.name}"


def rules_of(model: Policy) -> PolicyRules:
    """The rules of a manifest."""
    namespaces = {}
    for team, own in model.teams.items():
        given = {**_given(model.defaults), **_given(own)}
        given.pop("namespaces", None)
        for namespace in own.namespaces or [team]:
            namespaces[namespace] = _namespace_rules({**given, "team": team})
    return PolicyRules(
        name=model.policy.name,
        description=model.policy.description or "",
        contact=model.policy.contact or "",
        action=model.action,
        roots=None if model.host_paths is None else tuple(model.host_paths.roots),
        registries=None if model.images is None else tuple(model.images.registries),
        host_network=model.host_network,
        labels_of_pods=model.labels.pods,
        labels_of_nodes=model.labels.nodes,
        namespaces=namespaces,
    )


def _given(rules: Any) -> dict[str, Any]:
    return {name: value for name, value in rules.model_dump().items() if value is not None}


def _frozen(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def _namespace_rules(given: Mapping[str, Any]) -> NamespaceRules:
    values = _frozen(given)
    if network := values.get("network"):
        values["network"] = Network(tuple(network["namespaces"]), tuple(network["cidrs"]), bool(network["internet"]))
    return NamespaceRules(**values)


# -- where they are kept ----------------------------------------------------------------------------------------------

RULES = "rules"


def policy_config_map(rules: PolicyRules) -> dict[str, Any]:
    """The ConfigMap in gpuctl-system by which modules know a policy."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": policy_config_map_name(rules.name),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {MANAGED_BY: FIELD_MANAGER, POLICY: rules.name},
        },
        "data": {RULES: json.dumps(asdict(rules), indent=2, sort_keys=True)},
    }


def policy_name(config_map: Object) -> str | None:
    """The policy that a ConfigMap has; None for others."""
    metadata = config_map["metadata"]
    name: str | None = (metadata.get("labels") or {}).get(POLICY)
    return name if name and is_managed(config_map) and metadata["name"] == policy_config_map_name(name) else None


def read_rules(config_map: Object) -> PolicyRules | None:
    """The rules in a ConfigMap; None if they cannot be read: a person may have edited it."""
    try:
        data = json.loads((config_map.get("data") or {})[RULES])
        namespaces = {name: _namespace_rules(given) for name, given in data.pop("namespaces").items()}
        known = {each.name for each in fields(PolicyRules)}
        values = _frozen(data)
        return PolicyRules(namespaces=namespaces, **{name: values[name] for name in known & values.keys()})
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
