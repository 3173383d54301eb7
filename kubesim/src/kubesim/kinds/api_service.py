# SPDX-License-Identifier: BSD-2-Clause
"""apiregistration.k8s.io/v1 APIService: stored, and as available as its status says.

Source: kube-aggregator pkg/registry/apiservice/strategy.go (PrepareForCreate).
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds.strategy import Object, Strategy


class APIServiceStrategy(Strategy):
    kind = "APIService"
    namespaced = False
    has_status = True

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        """ValidateAPIService: what of it names the version."""
        spec = obj.get("spec") or {}
        expected = f"{spec.get('version', '')}.{spec.get('group', '')}"
        if obj["metadata"]["name"] != expected:
            text = f'must be `spec.version+"."+spec.group`: {expected!r}'
            yield field.invalid("metadata.name", obj["metadata"]["name"], text)
