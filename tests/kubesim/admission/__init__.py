# SPDX-License-Identifier: BSD-2-Clause
"""Admission: plugins in Kubernetes' order, those that change objects before validation, those that judge after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kubesim.auth import User
from kubesim.resources import Resource


@dataclass
class AdmissionRequest:
    operation: str  # CREATE, UPDATE, DELETE
    resource: Resource
    subresource: str
    namespace: str
    name: str
    obj: dict[str, Any] | None
    old: dict[str, Any] | None
    user: User
    dry_run: bool
    registry: Any
    warnings: list[str] = field(default_factory=list)


MUTATING: list[Callable[[AdmissionRequest], None]] = []
VALIDATING: list[Callable[[AdmissionRequest], None]] = []
