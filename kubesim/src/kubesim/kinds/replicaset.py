# SPDX-License-Identifier: BSD-2-Clause
"""apps/v1 ReplicaSet. Sources: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.field import FieldError
from kubesim.kinds.metadata import immutable, not_negative
from kubesim.kinds.pod_warnings import name_warnings, template_warnings
from kubesim.kinds.podspec import default_template
from kubesim.kinds.strategy import Object, Strategy
from kubesim.kinds.workload_validation import validate_replica_template, validate_selector


class ReplicaSetStrategy(Strategy):
    kind = "ReplicaSet"
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        spec.setdefault("replicas", 1)

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"replicas": 0}

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from not_negative(spec, "replicas", "spec")
        yield from not_negative(spec, "minReadySeconds", "spec")
        yield from validate_selector(spec, "empty selector is invalid for deployment")
        yield from validate_replica_template(spec, "ReplicaSet")

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        # The strategy runs ValidateReplicaSet and then ValidateReplicaSetUpdate.
        yield from self.validate(obj)
        yield from super().validate_changes(obj, old)
        yield from immutable(obj["spec"], old["spec"], "selector", "spec")

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        old_template = old["spec"]["template"] if old else None
        named = name_warnings(obj) if old is None else []
        return named + template_warnings(obj["spec"]["template"], "spec.template", old_template)
