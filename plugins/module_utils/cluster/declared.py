# SPDX-License-Identifier: BSD-2-Clause
"""What administrators declare in gpuctl-system: pools and policies, each in a ConfigMap, and profiles in another.

The scheduler uses the labels of the nodes; a pool's ConfigMap records what the labels should be, and what hardware the
nodes have. Read one with ``kubectl get configmap pool-<name> -n gpuctl-system -o yaml``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..accelerators import Catalog, PoolHardware, ProfileError, catalog, use_catalog
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP
from ..labels import (
    ACCELERATORS_CONFIG_MAP,
    DESCRIPTION,
    DNS_LABEL,
    FIELD_MANAGER,
    LABEL_VALUE,
    MANAGED_BY,
    POOL,
    SYSTEM_NAMESPACE,
    is_managed,
    pool_config_map_name,
)
from ..manifest.load import ManifestErrors, load_profiles
from ..manifest.problems import abridged, number_of
from ..policies.policy_rules import PolicyRules, policy_name, read_rules


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


def pool_config_map(declaration: Declaration) -> dict[str, Any]:
    """The ConfigMap of a pool: ``nodes`` are YAML, one line ``<node>: <gpu type>`` each, the others are JSON."""
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
        "data": {
            "nodes": _format_nodes(declaration.nodes),
            **_format_hardware(declaration.hardware),
            **_format_queue(declaration.queue),
        },
    }


def declarations_in(config_maps: Iterable[Mapping[str, Any]]) -> dict[str, Declaration]:
    """The declarations by pool. Skips unmanaged ConfigMaps and those that are not named as a pool's."""
    found = {}
    for config_map in config_maps:
        metadata = config_map["metadata"]
        pool = (metadata.get("labels") or {}).get(POOL)
        if pool and is_managed(config_map) and metadata["name"] == pool_config_map_name(pool):
            description = (metadata.get("annotations") or {}).get(DESCRIPTION) or ""
            data = config_map.get("data") or {}
            nodes, odd = _parse_nodes(data.get("nodes") or "")
            hardware = _parse_hardware(data.get(HARDWARE) or "{}")
            queue, is_odd = _parse_queue(data.get(QUEUE))
            problem = _problem(pool, odd) if odd else None
            if hardware is None or is_odd:
                problem = problem or _unread_problem(pool, HARDWARE if hardware is None else QUEUE)
            found[pool] = Declaration(pool, description, nodes, problem, hardware or PoolHardware(), queue)
    return found


def _format_nodes(nodes: Mapping[str, str | None]) -> str:
    # Neither node names nor label values contain a colon, a space or a line break: no YAML library needed.
    return "".join(f"{node}: {nodes[node]}\n" if nodes[node] else f"{node}:\n" for node in sorted(nodes))


_NODE_LINE = re.compile(rf"(?P<node>{DNS_LABEL}(?:\.{DNS_LABEL})*):\s*(?P<type>{LABEL_VALUE})?")


def _parse_nodes(text: str) -> tuple[dict[str, str | None], list[int]]:
    """The nodes with their GPU types, and the numbers of the lines that are none: a person may have edited them."""
    nodes: dict[str, str | None] = {}
    odd = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := _NODE_LINE.fullmatch(line.strip()):
            nodes[found["node"]] = found["type"]
        elif line.strip():
            odd.append(number)
    return nodes, odd


def _problem(pool: str, odd: list[int]) -> str:
    name = pool_config_map_name(pool)
    return (
        f"ConfigMap {name} in namespace {SYSTEM_NAMESPACE}: {number_of(len(odd), 'line')} of nodes cannot be read: "
        f"{abridged([str(number) for number in odd], 5)}. Correct them to NODE: GPU-TYPE with kubectl edit configmap "
        f"{name} --namespace {SYSTEM_NAMESPACE}, or declare the pool again with M(gpuctl_pool)."
    )


HARDWARE = "hardware"
_TEXTS = ("accelerator", "share_backend", "device_class", "mig", "rdma_resource")
_MAPS = ("sharing", "type_aliases", "rdma_env", "topology")


def hardware_fields(hardware: PoolHardware) -> dict[str, Any]:
    """What a pool declares of its hardware, by the keys of its manifest; without what it does not declare."""
    found = {name: value for name, value in asdict(hardware).items() if name != "types"}
    return {name: dict(value) if name in _MAPS else value for name, value in found.items() if value}


def _format_hardware(hardware: PoolHardware) -> dict[str, str]:
    fields = hardware_fields(hardware)
    return {HARDWARE: json.dumps(fields, indent=2)} if fields else {}


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
QUEUE_BACKENDS = ("kueue", "volcano")
_LIMITS = ("borrowing_limit", "lending_limit")


def queue_fields(queue: PoolQueue | None) -> dict[str, Any]:
    """How the jobs of a pool wait for it, by the keys of its manifest; without what it does not declare."""
    return {name: value for name, value in asdict(queue).items() if value is not None} if queue else {}


def _format_queue(queue: PoolQueue | None) -> dict[str, str]:
    return {QUEUE: json.dumps(queue_fields(queue), indent=2)} if queue else {}


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
    if not all(isinstance(limit, int) for limit in limits.values()) or not isinstance(preemption, str):
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
    name = pool_config_map_name(pool)
    return (
        f"ConfigMap {name} in namespace {SYSTEM_NAMESPACE}: {what} cannot be read. Declare the pool again with "
        f"M(gpuctl_pool)."
    )


@dataclass(frozen=True)
class Declared:
    """What administrators declare. ``refusal`` is the server's if the account may not read it.

    ``found_classes`` are DeviceClasses of pools that declare none, where only a driver offers their devices.
    """

    pools: Mapping[str, Declaration] = field(default_factory=dict)
    profiles: Catalog = field(default_factory=catalog)
    problems: tuple[str, ...] = ()
    policies: tuple[PolicyRules, ...] = ()
    refusal: ApiError | None = None
    found_classes: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        return self.refusal is None

    @property
    def claims_devices(self) -> bool:
        """Whether the jobs of a pool claim their devices because it says so."""
        return any(pool.hardware.device_class for pool in self.pools.values())

    def hardware(self, pool: str) -> PoolHardware:
        """What a pool declares of its hardware, with the GPU types of its nodes."""
        found = self.pools.get(pool) or Declaration(pool)
        device_class = found.hardware.device_class or self.found_classes.get(pool)
        types = frozenset(filter(None, found.nodes.values()))
        return replace(found.hardware, types=types, device_class=device_class)


_WHERE = f"ConfigMap {ACCELERATORS_CONFIG_MAP} in namespace {SYSTEM_NAMESPACE}"


def declared_in(config_maps: Iterable[Mapping[str, Any]]) -> Declared:
    """What the ConfigMaps of gpuctl-system declare. A profile that cannot be used is left out, with a problem."""
    config_maps = list(config_maps)
    profiles, problems, policies = catalog(), [], []
    for config_map in config_maps:
        if policy := policy_name(config_map):
            rules = read_rules(config_map)
            if rules is None:
                problems.append(
                    f"ConfigMap {config_map['metadata']['name']} in namespace {SYSTEM_NAMESPACE} cannot be read. Apply "
                    f"policy {policy} again with M(gpuctl_policy). The API server enforces it, but this task does not "
                    f"know it."
                )
            else:
                policies.append(rules)
        if config_map["metadata"]["name"] == ACCELERATORS_CONFIG_MAP:
            for key, text in sorted((config_map.get("data") or {}).items()):
                try:
                    profiles = profiles.with_profiles(load_profiles([(key, text)]))
                except ManifestErrors as problem:
                    error = replace(problem.errors[0], snippet=())  # A warning is one line.
                    problems.append(f"{_WHERE}, {error} The accelerator is left out.")
                except ProfileError as problem:
                    text = f"accelerator {problem.name}: {problem}. Correct it. It is left out."
                    problems.append(f"{_WHERE}, {key}: {text}")
    return Declared(declarations_in(config_maps), profiles, tuple(problems), tuple(policies))


def read_declared(client: Client, warn: Callable[[str], None], *, again: bool = False) -> Declared:
    """What administrators declare, for the task to go on with. One list of requests for each connection, or ``again``.

    Without permission to read it, the task goes on with the built-in profiles.
    """
    found: Declared | None = None if again else client.remembered.get(ACCELERATORS_CONFIG_MAP)
    if found is None:
        found = client.remembered[ACCELERATORS_CONFIG_MAP] = _read(client)
        for problem in found.problems:
            warn(problem)
    use_catalog(found.profiles)
    return found


def _read(client: Client) -> Declared:
    try:
        return declared_in(client.list_objects(CONFIG_MAP, SYSTEM_NAMESPACE))
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return Declared(refusal=error)


def know_accelerators(client: Client, warn: Callable[[str], None], pods: Iterable[Mapping[str, Any]]) -> None:
    """Let the task know the accelerators of administrators, if specs of pods request an unknown extended resource."""
    known = catalog()
    requested = {
        resource
        for spec in pods
        for container in spec["containers"]
        for resource in (container.get("resources") or {}).get("requests") or ()
    }
    if any("/" in resource and known.row(resource) is None for resource in requested):
        read_declared(client, warn)
