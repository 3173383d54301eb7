# SPDX-License-Identifier: BSD-2-Clause
"""What administrators declare in gpuctl-system: pools and policies, each in a ConfigMap, and profiles in another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..accelerators.catalog import Catalog, ProfileError, catalog
from ..accelerators.current import use_catalog
from ..accelerators.hardware import PoolHardware
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP
from ..labels import ACCELERATORS_CONFIG_MAP, SYSTEM_NAMESPACE, policy_name
from ..manifest.problems import ManifestErrors
from .pool_declarations import Declaration, declarations_in

if TYPE_CHECKING:
    from ..policies.policy_rules import PolicyRules


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

    @property
    def growing(self) -> dict[str, PoolHardware]:
        """The hardware of the pools to which an autoscaler adds nodes while pods wait, by pool."""
        return {name: pool.hardware for name, pool in self.pools.items() if pool.hardware.new_nodes}

    def hardware(self, pool: str) -> PoolHardware:
        """What a pool declares of its hardware, with the GPU types of its nodes."""
        found = self.pools.get(pool) or Declaration(pool)
        device_class = found.hardware.device_class or self.found_classes.get(pool)
        types = frozenset(filter(None, (*found.nodes.values(), found.hardware.new_nodes.get("gpu_type"))))
        return replace(found.hardware, types=types, device_class=device_class)


_WHERE = f"ConfigMap {ACCELERATORS_CONFIG_MAP} in namespace {SYSTEM_NAMESPACE}"


def declared_in(config_maps: Iterable[Mapping[str, Any]]) -> Declared:
    """What the ConfigMaps of gpuctl-system declare. A profile that cannot be used is left out, with a problem."""
    config_maps = list(config_maps)
    profiles, policies = catalog(), []
    problems: list[str] = []
    for config_map in config_maps:
        if policy_name(config_map):
            policies += _read_policy(config_map, problems)
        if config_map["metadata"]["name"] == ACCELERATORS_CONFIG_MAP:
            profiles = _with_profiles(profiles, config_map.get("data") or {}, problems)
    return Declared(declarations_in(config_maps), profiles, tuple(problems), tuple(policies))


def _read_policy(config_map: Mapping[str, Any], problems: list[str]) -> list[PolicyRules]:
    from ..policies.policy_rules import read_rules  # Here: many clusters have no policy.

    if rules := read_rules(config_map):
        return [rules]
    problems.append(
        f"ConfigMap {config_map['metadata']['name']} in namespace {SYSTEM_NAMESPACE} cannot be read. Apply policy "
        f"{policy_name(config_map)} again with M(gpuctl_policy). The API server enforces it, but this task does not "
        f"know it."
    )
    return []


def _with_profiles(profiles: Catalog, texts: Mapping[str, str], problems: list[str]) -> Catalog:
    from ..manifest.load import load_profiles  # Here: few clusters have accelerators of their own.

    for key, text in sorted(texts.items()):
        try:
            profiles = profiles.with_profiles(load_profiles([(key, text)]))
        except ManifestErrors as problem:
            error = replace(problem.errors[0], snippet=())  # A warning is one line.
            problems.append(f"{_WHERE}, {error} The accelerator is left out.")
        except ProfileError as problem:
            what = f"accelerator {problem.name}: {problem}. Correct it. It is left out."
            problems.append(f"{_WHERE}, {key}: {what}")
    return profiles


def read_declared(client: Client, warn: Callable[[str], None], *, again: bool = False) -> Declared:
    """What administrators declare, for the task to go on with. One list of requests for each connection, or ``again``.

    Without permission to read it, the task goes on with the built-in profiles.
    """
    found: Declared | None = None if again else client.remembered.get(ACCELERATORS_CONFIG_MAP)
    if found is None:
        found = client.remembered[ACCELERATORS_CONFIG_MAP] = _read_config_maps(client)
        for problem in found.problems:
            warn(problem)
    use_catalog(found.profiles)
    return found


def _read_config_maps(client: Client) -> Declared:
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
