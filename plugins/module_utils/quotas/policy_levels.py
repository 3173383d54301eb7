# SPDX-License-Identifier: BSD-2-Clause
"""The Pod Security levels that policies give, which a quota without one leaves as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine.fields import is_owned
from ..kube.client import Client
from ..kube.errors import if_allowed
from ..kube.resources import CONFIG_MAP
from ..labels import FIELD_MANAGER, MANAGED, POD_SECURITY_ENFORCED, POLICY, SYSTEM_NAMESPACE

Object = dict[str, Any]


def levels_of_policies(client: Client, namespaces: Iterable[Object]) -> dict[str, str]:
    """By namespace. Policies are read only if gpuctl has set one of the levels."""
    if not any(is_owned(each, ("metadata", "labels", POD_SECURITY_ENFORCED), FIELD_MANAGER) for each in namespaces):
        return {}
    from ..policies.policy_rules import read_rules

    selector = f"{MANAGED},{POLICY}"
    found = if_allowed(lambda: client.list_objects(CONFIG_MAP, SYSTEM_NAMESPACE, labels=selector), list[Object]())
    return {
        name: own.pod_security
        for rules in filter(None, map(read_rules, found))
        for name, own in rules.namespaces.items()
        if own.pod_security
    }
