# SPDX-License-Identifier: BSD-2-Clause
"""What policies say, by namespace, and the ConfigMap in which the modules find it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ..given_times import seconds_of
from ..kube.resources import Object
from ..labels import FIELD_MANAGER, MANAGED_BY, POLICY, SYSTEM_NAMESPACE, policy_config_map_name

if TYPE_CHECKING:
    from ..manifest.policy_model import Policy


@dataclass(frozen=True)
class Network:
    """With whom the pods of a namespace may connect, besides each other."""

    namespaces: tuple[str, ...] = ()
    cidrs: tuple[str, ...] = ()
    internet: bool = False


@dataclass(frozen=True)
class IdleLimit:
    """When notebooks count as idle, as manifests write it."""

    idle_for: str
    below: str = "0.05"
    source: str = ""  # the policy that says so

    @property
    def seconds(self) -> int:
        return seconds_of(self.idle_for) or 0


@dataclass(frozen=True)
class NamespaceRules:
    """What the jobs of one namespace may use; None is not limited."""

    team: str
    pools: tuple[str, ...] | None = None
    gpu_types: tuple[str, ...] | None = None
    priorities: tuple[str, ...] | None = None
    max_gpus_per_job: int | None = None
    max_gpus: int | None = None
    max_gpus_in_pools: Mapping[str, int] | None = None
    service_accounts: tuple[str, ...] | None = None
    image_pull_secrets: tuple[str, ...] | None = None
    service_types: tuple[str, ...] | None = None
    pod_security: str | None = None
    network: Network | None = None
    notebooks: IdleLimit | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the accelerators of all jobs together are counted, which quotas do."""
        return self.max_gpus is not None or self.max_gpus_in_pools is not None

    def most_in(self, pool: str) -> int | None:
        """The number of accelerators of a pool that all jobs may have together."""
        return self.max_gpus if self.max_gpus_in_pools is None else self.max_gpus_in_pools.get(pool, 0)


@dataclass(frozen=True)
class PolicyRules:
    """A policy, with what applies to each namespace. ``roots`` is None where only system paths are refused.

    ``counted`` are the resources and DeviceClasses of accelerators that quotas count, as far as the cluster is known.
    """

    name: str
    description: str = ""
    contact: str = ""
    action: str = "deny"
    roots: tuple[str, ...] | None = None
    registries: tuple[str, ...] | None = None
    host_network: bool = False
    privileged: bool = False
    labels_of_pods: bool = False
    labels_of_nodes: bool = False
    counted: tuple[str, ...] | None = None
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)

    @property
    def levels(self) -> dict[str, str]:
        """The Pod Security levels of the namespaces that have one."""
        return {name: own.pod_security for name, own in self.namespaces.items() if own.pod_security is not None}

    @property
    def source(self) -> str:
        """Who says so, as sentences about what is not allowed begin."""
        return f"policy {self.name} ({self.contact})" if self.contact else f"policy {self.name}"


_NUMBERS = ("max_gpus", "max_gpus_in_namespaces", "max_gpus_in_pools")  # of which a team has one


def rules_of(model: Policy) -> PolicyRules:
    """The rules of a manifest."""
    namespaces = {}
    for team, own in model.teams.items():
        defaults, given = _given_fields(model.defaults), _given_fields(own)
        if any(name in given for name in _NUMBERS):
            defaults = {name: value for name, value in defaults.items() if name not in _NUMBERS}
        given = {**defaults, **given, "team": team}
        given.pop("namespaces", None)
        by_namespace = given.pop("max_gpus_in_namespaces", None)
        for namespace in own.namespaces or [team]:
            most = {"max_gpus": by_namespace[namespace]} if by_namespace else {}
            namespaces[namespace] = _namespace_rules({**given, **most})
    return PolicyRules(
        name=model.policy.name,
        description=model.policy.description or "",
        contact=model.policy.contact or "",
        action=model.action,
        roots=None if model.host_paths is None else tuple(model.host_paths.roots),
        registries=None if model.images is None else tuple(model.images.registries),
        host_network=model.host_network,
        privileged=model.privileged,
        labels_of_pods=model.labels.pods,
        labels_of_nodes=model.labels.nodes,
        namespaces=namespaces,
    )


def _given_fields(rules: Any) -> dict[str, Any]:
    return {name: value for name, value in rules.model_dump().items() if value is not None}


def _frozen(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def _namespace_rules(given: Mapping[str, Any]) -> NamespaceRules:
    values = _frozen(given)
    if network := values.get("network"):
        values["network"] = Network(tuple(network["namespaces"]), tuple(network["cidrs"]), bool(network["internet"]))
    if notebooks := values.get("notebooks"):
        values["notebooks"] = limit = IdleLimit(notebooks["idle_for"], notebooks["below"])
        if not limit.seconds or not 0 < float(limit.below) <= 1:
            raise ValueError("no limit of notebooks")
    return NamespaceRules(**values)


def strictest_limits(policies: Iterable[PolicyRules]) -> dict[str, IdleLimit]:
    """When notebooks count as idle, by namespace: the shortest time. A policy that only audits has no say."""
    found: dict[str, IdleLimit] = {}
    for policy in policies:
        for namespace, own in policy.namespaces.items() if policy.action != "audit" else ():
            limit = own.notebooks and replace(own.notebooks, source=policy.source)
            if limit and (namespace not in found or limit.seconds < found[namespace].seconds):
                found[namespace] = limit
    return found


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
