# SPDX-License-Identifier: BSD-2-Clause
"""kueue.x-k8s.io/v1beta2 Workload, as far as other programs than Kueue look at it: see controllers/kueue.py.

Source: kubernetes-sigs/kueue apis/kueue/v1beta2/workload_types.go.
"""

from __future__ import annotations

from kubesim.kinds.strategy import Object, Strategy


class WorkloadStrategy(Strategy):
    kind = "Workload"
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("active", True)
