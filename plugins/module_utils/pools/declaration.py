# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What a pool becomes: the ConfigMap that declares it, and the way back. Pure.

The labels of the nodes are what the scheduler goes by. The ConfigMap says what was meant: which nodes, of which GPU
type, and what for. A person reads it with ``kubectl get configmap pool-<name> -n gpuctl-system -o yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..labels import DESCRIPTION, FIELD_MANAGER, MANAGED_BY, POOL, SYSTEM_NAMESPACE, pool_config_map_name


@dataclass(frozen=True)
class Declaration:
    """A pool as it was declared: node name -> GPU type, None where the pool does not say."""

    name: str
    description: str = ""
    nodes: Mapping[str, str | None] = field(default_factory=dict)


def pool_config_map(declaration: Declaration) -> dict[str, Any]:
    """The ConfigMap of a pool; its ``nodes`` are YAML, one line ``<node>: <gpu type>`` each."""
    annotations = {"annotations": {DESCRIPTION: declaration.description}} if declaration.description else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": pool_config_map_name(declaration.name),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {MANAGED_BY: FIELD_MANAGER, POOL: declaration.name},
            **annotations,
        },
        "data": {"nodes": _lines(declaration.nodes)},
    }


def declaration_of(config_map: Mapping[str, Any]) -> Declaration | None:
    """The declaration in a ConfigMap; None for one that is not ours or declares no pool."""
    metadata = config_map["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != FIELD_MANAGER or not labels.get(POOL):
        return None
    description = (metadata.get("annotations") or {}).get(DESCRIPTION) or ""
    return Declaration(labels[POOL], description, _read((config_map.get("data") or {}).get("nodes") or ""))


def _lines(nodes: Mapping[str, str | None]) -> str:
    """Neither node names nor label values have a colon, a blank or a line break, so this needs no YAML library."""
    return "".join(f"{node}: {nodes[node]}\n" if nodes[node] else f"{node}:\n" for node in sorted(nodes))


def _read(text: str) -> dict[str, str | None]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {node.strip(): gpu_type.strip() or None for node, dummy, gpu_type in pairs if node.strip()}
