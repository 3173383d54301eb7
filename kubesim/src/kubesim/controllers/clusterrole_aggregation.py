# SPDX-License-Identifier: BSD-2-Clause
"""Gives a ClusterRole with an aggregationRule the rules of the roles it selects.

Source: pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from kubesim import resources, schema
from kubesim.apply import server_side
from kubesim.clock import rfc3339
from kubesim.registry import Write
from kubesim.selectors import matches_label_selector

from .base import Controller, Key, Object, key_of


class ClusterRoleAggregationController(Controller):
    name = "clusterrole-aggregation-controller"
    watches = ("ClusterRole",)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        for role in self.registry.list("ClusterRole"):
            if role.get("aggregationRule") is not None:
                self.enqueue(key_of(role))

    def reconcile(self, key: Key) -> None:
        role = self.registry.get("ClusterRole", *key)
        if role is None or role.get("aggregationRule") is None:
            return
        rules = self._rules(role)
        if rules == (role.get("rules") or []):
            return
        config = {name: role[name] for name in ("apiVersion", "kind")}
        config |= {"metadata": {"name": role["metadata"]["name"]}, "rules": rules}
        new = server_side.apply(role, config, self.name, True, rfc3339(self.clock.now()), "")
        write = Write(resources.by_kind("ClusterRole"), manager=self.name)
        self.registry.admit_change(schema.read(new), role, write, tracked=True)

    def _rules(self, role: Object) -> list[Object]:
        """The rules of the selected roles, by selector and name, each of them once."""
        found: list[Object] = []
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
            for other in self.registry.list("ClusterRole"):
                if other is role or not matches_label_selector(selector, other["metadata"].get("labels") or {}):
                    continue
                found += [rule for rule in other.get("rules") or () if rule not in found]
        return found
