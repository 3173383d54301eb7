# SPDX-License-Identifier: BSD-2-Clause
"""The Pod Security levels that policies give, which a quota without one leaves as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..engine.fields import is_owned
from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.resources import CONFIG_MAP
from ..labels import FIELD_MANAGER, MANAGED, POD_SECURITY_ENFORCED, POLICY, SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from ..policies.policy_rules import PolicyRules

Object = dict[str, Any]


def levels_of_policies(client: Client, namespaces: Iterable[Object]) -> dict[str, str]:
    """By namespace. Policies are read only if gpuctl has set one of the levels."""
    if not any(map(has_level_of_ours, namespaces)):
        return {}
    policies = if_allowed(lambda: read_policies(client), list["PolicyRules"]())
    return {name: level for rules in policies for name, level in rules.levels.items()}


def has_level_of_ours(namespace: Object) -> bool:
    return is_owned(namespace, ("metadata", "labels", POD_SECURITY_ENFORCED), FIELD_MANAGER)


def read_policies(client: Client) -> list[PolicyRules]:
    from ..policies.policy_rules import read_rules

    found = client.list_objects(CONFIG_MAP, SYSTEM_NAMESPACE, labels=f"{MANAGED},{POLICY}")
    return [rules for obj in found if (rules := read_rules(obj))]
