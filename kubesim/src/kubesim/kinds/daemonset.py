# SPDX-License-Identifier: BSD-2-Clause
"""apps/v1 DaemonSet, without a controller.

Sources: pkg/apis/apps/v1/defaults.go (SetDefaults_DaemonSet), pkg/apis/apps/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.field import FieldError
from kubesim.kinds.metadata import immutable
from kubesim.kinds.podspec import default_template
from kubesim.kinds.strategy import Object, Strategy
from kubesim.kinds.workload_validation import validate_replica_template, validate_selector


class DaemonSetStrategy(Strategy):
    kind = "DaemonSet"
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        update = spec.setdefault("updateStrategy", {})
        update["type"] = update.get("type") or "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from validate_selector(obj["spec"], "empty selector is invalid for daemonset")
        yield from validate_replica_template(obj["spec"], "DaemonSet")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from super().validate_changes(obj, old)
        yield from immutable(obj["spec"], old["spec"], "selector", "spec")
