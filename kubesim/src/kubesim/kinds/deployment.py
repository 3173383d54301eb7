# SPDX-License-Identifier: BSD-2-Clause
"""apps/v1 Deployment.

Sources: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go, pkg/registry/apps/deployment/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds.metadata import immutable, not_negative
from kubesim.kinds.pod_warnings import name_warnings, template_warnings
from kubesim.kinds.podspec import default_template
from kubesim.kinds.strategy import Context, Object, Strategy
from kubesim.kinds.workload_validation import (
    at_most_100_percent,
    int_or_percent,
    is_zero,
    validate_replica_template,
    validate_selector,
)


class DeploymentStrategy(Strategy):
    kind = "Deployment"
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def generation_changes(self, obj: Object, old: Object) -> bool:
        """Annotations count too: the deployment controller copies them to ReplicaSets."""
        annotations = obj["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
        return super().generation_changes(obj, old) or annotations[0] != annotations[1]

    def prepare_status_update(self, obj: Object, old: Object, ctx: Context) -> None:
        super().prepare_status_update(obj, old, ctx)
        obj["metadata"]["labels"] = old["metadata"].get("labels") or {}

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from not_negative(spec, "replicas", "spec")
        yield from validate_selector(spec, "empty selector is invalid for deployment")
        yield from validate_replica_template(spec, "ReplicaSet")
        yield from _rollout_strategy(spec["strategy"], "spec.strategy")
        for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
            yield from not_negative(spec, key, "spec")
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            yield field.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from super().validate_changes(obj, old)
        yield from immutable(obj["spec"], old["spec"], "selector", "spec")

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        old_template = old["spec"]["template"] if old else None
        named = name_warnings(obj) if old is None else []
        return named + template_warnings(obj["spec"]["template"], "spec.template", old_template)


def _rollout_strategy(strategy: Object, path: str) -> Iterator[FieldError]:
    rolling: Object | None = strategy.get("rollingUpdate")
    if strategy["type"] == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield field.forbidden(f"{path}.rollingUpdate", text)
    elif strategy["type"] == "RollingUpdate" and rolling is not None:
        unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
        yield from int_or_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")
        yield from int_or_percent(surge, f"{path}.rollingUpdate.maxSurge")
        if is_zero(unavailable) and is_zero(surge):
            here = f"{path}.rollingUpdate.maxUnavailable"
            yield field.invalid(here, unavailable, "may not be 0 when `maxSurge` is 0")
        yield from at_most_100_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")
    else:
        shown = field.Struct(Type=strategy["type"], RollingUpdate=rolling)
        yield field.not_supported(path, shown, ("Recreate", "RollingUpdate"))
