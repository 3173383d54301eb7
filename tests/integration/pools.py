# SPDX-License-Identifier: BSD-2-Clause
"""Node labels and the ConfigMaps that declare pools, read and written by direct requests."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .api import Api

PREFIX = "runwhere.ai/"
POOL, GPU_TYPE, GPU_TYPE_INTERNAL = f"{PREFIX}pool", f"{PREFIX}gpu-type", f"{PREFIX}gpuType"
SYSTEM = "gpuctl-system"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/pools"


@dataclass
class Field:
    """Nodes that a test may label, and a unique prefix for its pools."""

    api: Api
    nodes: tuple[str, ...]
    prefix: str = field(default_factory=lambda: f"t{secrets.token_hex(3)}")

    def pool(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def labels(self, node: str) -> dict[str, str]:
        """Our labels of a node."""
        labels = self.api.get("node", node)["metadata"].get("labels") or {}
        return {key: value for key, value in labels.items() if key.startswith(PREFIX)}

    def pool_of(self, node: str) -> str | None:
        return self.labels(node).get(POOL)

    def members(self, name: str) -> set[str]:
        return {node for node in self.nodes if self.pool_of(node) == self.pool(name)}

    def declared(self, name: str) -> str | None:
        """The nodes in a pool's ConfigMap."""
        found = self.api.get("configmap", f"pool-{self.pool(name)}", SYSTEM)
        return found["data"]["nodes"] if found else None

    def set_labels(self, node: str, labels: Mapping[str, Any]) -> None:
        """Like kubectl label; None removes."""
        self.api.patch("node", node, {"metadata": {"labels": dict(labels)}})

    def clean(self) -> None:
        """Remove all labels and pools of the test."""
        for node in self.nodes:
            if labels := self.labels(node):
                self.set_labels(node, dict.fromkeys(labels))
        for obj in self.api.list("configmap", SYSTEM):
            if obj["metadata"]["name"].startswith(f"pool-{self.prefix}-"):
                self.api.delete("configmap", obj["metadata"]["name"], SYSTEM)


def manifest(name: str, nodes: Any, **section: Any) -> dict[str, Any]:
    return {"kind": "pool", "pool": {"name": name, **section}, "nodes": nodes}
