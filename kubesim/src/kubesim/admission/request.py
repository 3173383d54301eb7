# SPDX-License-Identifier: BSD-2-Clause
"""What an admission plugin is asked about.

Source: staging/src/k8s.io/apiserver/pkg/admission/{attributes,errors}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubesim import errors
from kubesim.auth import User
from kubesim.errors import ApiError
from kubesim.resources import Resource

Object = dict[str, Any]


@dataclass
class AdmissionRequest:
    """`obj` is None on DELETE, `old` on CREATE; mutating plugins change `obj` in place."""

    operation: str  # CREATE, UPDATE, DELETE
    resource: Resource
    subresource: str
    namespace: str
    name: str
    obj: Object | None
    old: Object | None
    user: User
    dry_run: bool
    registry: Any
    warnings: list[str] = field(default_factory=list)

    def concerns(self, kind: str, *operations: str, subresource: str = "") -> bool:
        wanted = not operations or self.operation in operations
        return self.resource.kind == kind and self.subresource == subresource and wanted

    def forbidden(self, why: str) -> ApiError:
        """admission.NewForbidden: about the object, by its name or what its name will begin with."""
        meta = (self.obj or {}).get("metadata") or {}
        name = self.name or meta.get("name") or meta.get("generateName") or "Unknown"
        return errors.forbidden(self.resource.group, self.resource.plural, name, why)
