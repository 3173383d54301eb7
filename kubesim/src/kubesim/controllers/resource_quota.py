# SPDX-License-Identifier: BSD-2-Clause
"""Keeps status.hard and status.used of quotas true: after changes of the quota, and when something is given back.

Admission charges what is created; the arithmetic is the same (admission/quota_evaluator.py).
Source: pkg/controller/resourcequota/resource_quota_controller.go (syncResourceQuota).
"""

from __future__ import annotations

from kubesim import resources
from kubesim.admission.quota_evaluator import matches, matching_resources, usage
from kubesim.quantity import ZERO, format_list

from .base import Controller, Key, Object, key_of
from .pods import is_terminal

KINDS = tuple(kind for kind in resources.stored_kinds() if resources.by_kind(kind).namespaced and kind != "Event")


class ResourceQuotaController(Controller):
    name = "resourcequota-controller"
    watches = KINDS

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "ResourceQuota" and event != "DELETED" and (old is None or old["spec"] != obj["spec"]):
            self.enqueue(key_of(obj))
        ended = kind == "Pod" and old is not None and is_terminal(obj) and not is_terminal(old)
        if event == "DELETED" or ended or kind in ("Service", "PersistentVolumeClaim"):
            for quota in self.registry.list("ResourceQuota", obj["metadata"]["namespace"]):
                if matching_resources(kind, quota["spec"].get("hard") or {}, self.registry):
                    self.enqueue(key_of(quota))

    def reconcile(self, key: Key) -> None:
        quota = self.registry.get("ResourceQuota", *key)
        if quota is None or "deletionTimestamp" in quota["metadata"]:
            return
        hard = quota["spec"].get("hard") or {}
        total = dict.fromkeys(hard, ZERO)
        judged = {**quota, "status": {"hard": hard}}
        now = self.clock.now()
        for kind in KINDS:
            counted_names = matching_resources(kind, hard, self.registry)
            if not counted_names:
                continue
            for obj in self.registry.list(kind, key[0]):
                if matches(judged, kind, obj, self.registry):
                    for name, amount in usage(kind, obj, now, self.registry).items():
                        if name in counted_names:
                            total[name] = total[name] + amount

        def write(copied: Object) -> None:
            copied["status"] = {"hard": dict(hard), "used": format_list(total)}

        self.registry.modify("ResourceQuota", *key, write, subresource="status")
