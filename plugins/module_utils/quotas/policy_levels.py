# SPDX-License-Identifier: BSD-2-Clause
"""The Pod Security levels that policies give, which a quota without one leaves as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.resources import CONFIG_MAP
from ..labels import MANAGED, POLICY, SYSTEM_NAMESPACE
from .quota_objects import has_level_of_ours

if TYPE_CHECKING:
    from ..policies.policy_rules import PolicyRules

Object = dict[str, Any]


def levels_of_policies(client: Client, namespaces: Iterable[Object]) -> dict[str, str]:
    """By namespace. Policies are read only if gpuctl has set one of the levels."""
    if not any(map(has_level_of_ours, namespaces)):
        return {}
    policies = if_allowed(lambda: read_policies(client), list["PolicyRules"]())
    return {name: level for rules in policies for name, level in rules.levels.items()}


def read_policies(client: Client) -> list[PolicyRules]:
    """Those that can be read. Not remembered: what is read before a write does not say what is declared after it."""
    from ..policies.policy_rules import read_rules

    found = client.list_objects(CONFIG_MAP, SYSTEM_NAMESPACE, labels=f"{MANAGED},{POLICY}")
    return [rules for obj in found if (rules := read_rules(obj))]
