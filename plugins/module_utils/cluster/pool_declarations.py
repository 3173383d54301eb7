# SPDX-License-Identifier: BSD-2-Clause
"""The pools that administrators declare in gpuctl-system, each in a ConfigMap. Pure.

The scheduler uses the labels of the nodes; a pool's ConfigMap records what the labels should be, and what hardware the
nodes have. Read one with ``kubectl get configmap pool-<name> -n gpuctl-system -o yaml``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..accelerators.hardware import PoolHardware
from ..labels import (
    DESCRIPTION,
    DNS_LABEL,
    FIELD_MANAGER,
    LABEL_VALUE,
    MANAGED_BY,
    POOL,
    SOURCE,
    SYSTEM_NAMESPACE,
    is_managed,
    pool_config_map_name,
)
from ..manifest.problems import abridged, number_of


@dataclass(frozen=True)
class PoolQueue:
    """How the jobs of a pool wait for it; see the manifest of a pool."""

    backend: str
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    preemption: str = "reclaim"


@dataclass(frozen=True)
class Declaration:
    """A declared pool: node name -> GPU type, None if undeclared. Nodes that cannot be read are missing."""

    name: str
    description: str = ""
    nodes: Mapping[str, str | None] = field(default_factory=dict)
    problem: str | None = None  # what of the ConfigMap cannot be read
    hardware: PoolHardware = field(default_factory=PoolHardware)  # without the types, which are those of the nodes
    queue: PoolQueue | None = None
    has_unread_queue: bool = False
    source: str = ""  # what declares it, see declared_source.py


def pool_config_map(declaration: Declaration) -> dict[str, Any]:
    """The ConfigMap of a pool: ``nodes`` are YAML, one line ``<node>: <gpu type>`` each, the others are JSON."""
    texts = {DESCRIPTION: declaration.description, SOURCE: declaration.source}
    annotated = {key: text for key, text in texts.items() if text}
    annotations = {"annotations": annotated} if annotated else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": pool_config_map_name(declaration.name),
            "namespace": SYSTEM_NAMESPACE,
            "labels": {MANAGED_BY: FIELD_MANAGER, POOL: declaration.name},
            **annotations,
        },
        "data": {
            "nodes": _format_nodes(declaration.nodes),
            **_format(HARDWARE, hardware_fields(declaration.hardware)),
            **_format(QUEUE, queue_fields(declaration.queue)),
        },
    }


def declarations_in(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, Declaration]:
    """The declarations by pool. Skips unmanaged ConfigMaps and those that are not named as a pool's."""
    found = {}
    for config_map in config_maps:
        metadata = config_map["metadata"]
        pool = (metadata.get("labels") or {}).get(POOL)
        if pool and is_managed(config_map) and metadata["name"] == pool_config_map_name(pool):
            annotations = metadata.get("annotations") or {}
            description, source = (annotations.get(key) or "" for key in (DESCRIPTION, SOURCE))
            data = config_map.get("data") or {}
            nodes, malformed = _parse_nodes(data.get("nodes") or "")
            hardware = _parse_hardware(data.get(HARDWARE) or "{}")
            queue, has_unread_queue = _parse_queue(data.get(QUEUE))
            problem = _declaration_problem(pool, malformed) if malformed else None
            if hardware is None or has_unread_queue:
                problem = problem or _unread_problem(pool, HARDWARE if hardware is None else QUEUE)
            found[pool] = Declaration(
                pool, description, nodes, problem, hardware or PoolHardware(), queue, has_unread_queue, source
            )
    return found


def _format_nodes(nodes: Mapping[str, str | None]) -> str:
    # Neither node names nor label values contain a colon, a space or a line break: no YAML library needed.
    return "".join(f"{node}: {nodes[node]}\n" if nodes[node] else f"{node}:\n" for node in sorted(nodes))


def _format(name: str, fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(fields, indent=2)} if fields else {}


_NODE_LINE = re.compile(rf"(?P<node>{DNS_LABEL}(?:\.{DNS_LABEL})*):\s*(?P<type>{LABEL_VALUE})?")


def _parse_nodes(text: str) -> tuple[dict[str, str | None], list[int]]:
    """The nodes with their GPU types, and the numbers of malformed lines: the data may have been edited by hand."""
    nodes: dict[str, str | None] = {}
    malformed = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := _NODE_LINE.fullmatch(line.strip()):
            nodes[found["node"]] = found["type"]
        elif line.strip():
            malformed.append(number)
    return nodes, malformed


def _declaration_problem(pool: str, lines: list[int]) -> str:
    name = pool_config_map_name(pool)
    return (
        f"ConfigMap {name} in namespace {SYSTEM_NAMESPACE}: {number_of(len(lines), 'line')} of nodes cannot be read: "
        f"{abridged([str(number) for number in lines], 5)}. Correct them to NODE: GPU-TYPE with kubectl edit configmap "
        f"{name} --namespace {SYSTEM_NAMESPACE}, or declare the pool again with M(gpuctl_pool)."
    )


HARDWARE = "hardware"
_TEXTS = ("accelerator", "share_backend", "device_class", "mig", "rdma_resource")
_MAPS = ("sharing", "type_aliases", "rdma_env", "topology", "new_nodes", "time_limit")


def hardware_fields(hardware: PoolHardware) -> dict[str, Any]:
    """What a pool declares of its hardware, by the keys of its manifest; without what it does not declare."""
    found = {name: value for name, value in asdict(hardware).items() if name != "types"}
    return {name: dict(value) if name in _MAPS else value for name, value in found.items() if value}


def _parse_hardware(text: str) -> PoolHardware | None:
    """What the text declares; None if it cannot be read: a person may have edited it."""
    fields = _fields_in(text)
    if fields is None:
        return None
    known = {name: fields[name] for name in (*_TEXTS, *_MAPS) if name in fields}
    texts = [value for name in _TEXTS if (value := known.get(name)) is not None]
    maps = [known[name] for name in _MAPS if name in known]
    if not all(isinstance(value, dict) for value in maps):
        return None
    if not all(isinstance(number, int) for number in known.get("sharing", {}).values()):
        return None
    texts += [part for name in _MAPS if name != "sharing" for pair in known.get(name, {}).items() for part in pair]
    return PoolHardware(**known) if all(isinstance(value, str) for value in texts) else None


QUEUE = "queue"
NATIVE, MULTIKUEUE = "native", "multikueue"  # Kubernetes itself, which knows no teams; other clusters, which know them
QUEUE_BACKENDS = ("kueue", "volcano", NATIVE, MULTIKUEUE)
_LIMITS = ("borrowing_limit", "lending_limit")
_PREEMPTIONS = ("never", "reclaim", "priority")


def queue_fields(queue: PoolQueue | None) -> dict[str, Any]:
    """How the jobs of a pool wait for it, by the keys of its manifest; without what it does not declare."""
    if queue and queue.backend in (NATIVE, MULTIKUEUE):  # The other fields are about teams.
        return {"backend": queue.backend}
    return {name: value for name, value in asdict(queue).items() if value is not None} if queue else {}


def _parse_queue(text: str | None) -> tuple[PoolQueue | None, bool]:
    """What the text declares, and whether it cannot be read: a person may have edited it."""
    if text is None:
        return None, False
    fields = _fields_in(text)
    backend = (fields or {}).get("backend")
    if fields is None or backend not in QUEUE_BACKENDS:
        return None, True
    limits = {name: fields[name] for name in _LIMITS if name in fields}
    preemption = fields.get("preemption", PoolQueue.preemption)
    if not all(isinstance(limit, int) for limit in limits.values()) or preemption not in _PREEMPTIONS:
        return None, True
    return PoolQueue(backend, preemption=preemption, **limits), False


def _fields_in(text: str) -> dict[str, Any] | None:
    """A JSON object; None for any other text."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _unread_problem(pool: str, what: str) -> str:
    where = f"ConfigMap {pool_config_map_name(pool)} in namespace {SYSTEM_NAMESPACE}"
    return f"{where}: {what} cannot be read. Declare the pool again with M(gpuctl_pool)."
