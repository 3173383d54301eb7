# SPDX-License-Identifier: BSD-2-Clause
"""The options of gpuctl_quota."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..namespaces import NamespaceOptions
from ..options import ConcurrencyOptions, DeclaringOptions, option


@dataclass(frozen=True, kw_only=True)
class QuotaOptions(ConcurrencyOptions, NamespaceOptions, DeclaringOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    src: list[str] | None = option("list", elements="path")
    definition: Any = option("raw")
    allow_empty: bool = option("bool", default=False)
    cluster: str | None = option("str")
    name: str | None = option("str")
    namespaces: list[str] | None = option("list", elements="str")
    delete_namespaces: bool = option("bool", default=False)
    force: bool = option("bool", default=False)
    ignore_jobs: list[str] | None = option("list", elements="str")
    force_conflicts: bool = option("bool", default=False)
    wait: bool = option("bool", default=False)
    wait_timeout: int = option("int", default=600)

    @property
    def from_manifests(self) -> bool:
        return bool(self.src) or self.definition is not None


QUOTA_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name"), ("src", "definition", "namespaces")],
    "required_one_of": [("src", "definition", "name", "namespaces")],
    "required_if": [("state", "present", ("src", "definition"), True)],
}
