# SPDX-License-Identifier: BSD-2-Clause
"""The kinds of Volcano, as far as other programs than Volcano look at them: see controllers/volcano.py.

Source: volcano-sh/volcano config/crd/volcano/bases. The status of a PodGroup is no subresource.
"""

from __future__ import annotations

from kubesim.kinds.strategy import Object, Strategy


class PodGroupStrategy(Strategy):
    kind = "PodGroup"
    generation_of = "spec"

    def default(self, obj: Object) -> None:
        if obj.get("apiVersion") != "scheduling.k8s.io/v1alpha2":  # Kubernetes' own have the same name
            obj.setdefault("spec", {}).setdefault("queue", "default")


class QueueStrategy(Strategy):
    kind = "Queue"
    namespaced = False
    generation_of = "spec"
    has_status = True


class HyperNodeStrategy(Strategy):
    kind = "HyperNode"
    namespaced = False
    generation_of = "spec"
    has_status = True
