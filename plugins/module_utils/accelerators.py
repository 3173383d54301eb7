# SPDX-License-Identifier: BSD-2-Clause
"""What accelerators are: the profiles of vendors, and how their extended resources are requested and counted. Pure.

A profile is data (accelerators/*.yml; manifest/models.py has its fields). Everything that requests, counts, limits or
names accelerators asks the catalog of the task: the built-in profiles, with those of administrators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .accelerator_profiles import PROFILES
from .quantity import parse, uniform

DEFAULT_ACCELERATOR = "nvidia"

# What the amounts of a resource are.
DEVICES, PARTITIONS, SHARES, MEMORY, CORES = "devices", "partitions", "shares", "memory", "cores"
BROKEN = "broken"  # what a node's devices are while their configuration is invalid

_FIELDS = {MEMORY: "gpu-share", CORES: "gpu-cores"}


@dataclass(frozen=True)
class DeviceResource:
    """An extended resource of a profile. Its amounts are numbers of devices, of partitions or of shares, or percent.

    Those of memory are whole numbers of ``unit``. ``listed``: nodes list it; what a scheduler extender counts itself,
    none does. ``devices`` is the resource of the shares that its amounts are of.
    """

    resource: str
    profile: str
    kind: str
    noun: str  # plural
    singular: str = ""
    unit: str = ""
    listed: bool = True
    partition: str = ""
    devices: str = ""

    @property
    def is_whole_device(self) -> bool:
        """Whether it counts as a GPU in sums, and gets a process of its own."""
        return self.kind == DEVICES

    @property
    def documented(self) -> str:
        """The field of ``resources`` that asks for it, as manifests spell it."""
        return _FIELDS.get(self.kind, "gpu")

    @property
    def quota_key(self) -> str:
        """The key of a ResourceQuota.

        Of extended resources Kubernetes only counts ``requests.``; it accepts the bare name and ignores it
        (pkg/quota/v1/evaluator/core/pods.go, podComputeUsageHelper).
        """
        return f"requests.{self.resource}"

    def text(self, amount: int) -> str:
        """``1 GPU``, ``4 GPUs``, ``5Gi of shared GPU memory``."""
        if self.kind == MEMORY:
            return f"{self.quantity(amount)} of {self.noun}"
        if self.kind == CORES:
            return f"{amount}% of {self.noun}"
        return f"{amount} {self.singular if amount == 1 else self.noun}"

    def quantity(self, amount: int) -> str:
        """An amount of memory as manifests have it: 5 of Gi is 5Gi, 20 of 256Mi as well."""
        return f"{amount}Gi" if self.unit == "Gi" else uniform(amount * self._bytes, of_bytes=True)

    def ceil(self, quantity: str) -> int:
        """The amount that holds a quantity of memory."""
        return math.ceil(parse(quantity).value / self._bytes)

    def floor(self, quantity: str) -> int:
        """The amount that a quantity of memory holds."""
        return math.floor(parse(quantity).value / self._bytes)

    @property
    def _bytes(self) -> int:
        return bytes_in(self.unit)


def bytes_in(unit: str) -> int:
    """The bytes in a unit: Gi, Mi, 256Mi."""
    return int(parse(unit if unit[0].isdigit() else f"1{unit}").value)


@dataclass(frozen=True)
class ShareBackend:
    """How devices of a profile are shared: what the container of a share requests.

    ``quota`` are further keys, which only the scheduler of the backend enforces.
    """

    name: str
    memory: DeviceResource
    devices: DeviceResource | None = None
    cores: DeviceResource | None = None
    quota: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    scheduler: str | None = None

    @property
    def resources(self) -> tuple[DeviceResource, ...]:
        return tuple(filter(None, (self.devices, self.memory, self.cores)))


@dataclass(frozen=True)
class NodeMark:
    """A label or annotation of a node that says what the devices it lists are."""

    key: str
    annotation: bool
    pattern: str
    counts_as: str

    def marks(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        value = (annotations if self.annotation else labels).get(self.key)
        return value is not None and re.fullmatch(self.pattern, value, re.DOTALL) is not None


@dataclass(frozen=True)
class Profile:
    """An accelerator. ``data`` has the fields of its manifest, those of the profile that it is like included."""

    name: str
    data: Mapping[str, Any]

    @property
    def noun(self) -> str:
        return str(self.data["noun"])

    @property
    def singular(self) -> str:
        return str(self.data["singular"])

    @property
    def taints(self) -> tuple[str, ...]:
        """The keys of the taints that keep other pods off its nodes."""
        return tuple(self.data.get("taints", ()))

    @property
    def counts(self) -> tuple[int, ...]:
        """How many devices a pod can have; any number if empty."""
        return tuple(self.data.get("counts", ()))

    def part(self, name: str) -> Mapping[str, Any]:
        """A block of the profile; empty if it has none: labels, pod, library, metrics, images."""
        found: Mapping[str, Any] = self.data.get(name) or {}
        return found

    @cached_property
    def device(self) -> DeviceResource:
        return DeviceResource(self.data["resource"], self.name, DEVICES, self.noun, self.singular)

    @cached_property
    def slices(self) -> DeviceResource | None:
        """The resource of time-sliced devices, where that has a name of its own."""
        if not self.data.get("slices"):
            return None
        nouns = f"shared {self.noun}", f"shared {self.singular}"
        return DeviceResource(self.data["slices"], self.name, SHARES, *nouns)

    @cached_property
    def backends(self) -> Mapping[str, ShareBackend]:
        """By name; the first is the one of pools that name none."""
        return {name: self._backend(name, data) for name, data in (self.data.get("shares") or {}).items()}

    @cached_property
    def marks(self) -> tuple[NodeMark, ...]:
        """What the devices of a node are; the first that applies counts."""
        return tuple(
            NodeMark(
                mark.get("label") or mark["annotation"],
                "annotation" in mark,
                mark.get("pattern", ".*"),
                mark["counts_as"],
            )
            for mark in self.data.get("nodes", ())
        )

    def partition(self, name: str) -> DeviceResource | None:
        """The resource of a partition; None if the hardware has no such partitions."""
        block = self.part("partitions")
        # A profile of MIG may have a +, which resource names may not (NVIDIA/k8s-device-plugin, internal/rm).
        written = name.replace("+", ".")
        if not block or re.fullmatch(block["names"], written) is None:
            return None
        resource = block["resource"].replace("{partition}", written)
        nouns = f"{block['noun']} {written}", f"{block['singular']} {written}"
        return DeviceResource(resource, self.name, PARTITIONS, *nouns, partition=written)

    def partition_of(self, resource: str) -> DeviceResource | None:
        """The partition that a resource is; None for others."""
        block = self.part("partitions")
        if not block:
            return None
        before, _name, after = block["resource"].partition("{partition}")
        if not (resource.startswith(before) and resource.endswith(after)):
            return None
        return self.partition(resource[len(before) : len(resource) - len(after)])

    def resources(self) -> Iterator[DeviceResource]:
        """All but the partitions, whose names are not listed; the device first."""
        yield self.device
        yield from filter(None, (self.slices,))
        for backend in self.backends.values():
            yield from backend.resources

    def _backend(self, name: str, data: Mapping[str, Any]) -> ShareBackend:
        def resource(part: str, kind: str, noun: str, singular: str = "") -> DeviceResource | None:
            block = data.get(part)
            if not block:
                return None
            block = {"resource": block} if isinstance(block, str) else block
            return DeviceResource(
                block["resource"],
                self.name,
                kind,
                noun,
                singular,
                unit=block.get("unit", ""),
                listed=block.get("listed", True),
                devices="" if kind == SHARES else data.get("devices") or "",
            )

        shared = f"shared {self.singular}"
        memory = resource("memory", MEMORY, f"{shared} memory")
        assert memory is not None, f"shares.{name} of {self.name} has no memory"
        return ShareBackend(
            name,
            memory,
            resource("devices", SHARES, f"shared {self.noun}", shared),
            resource("cores", CORES, f"{shared} cores"),
            tuple(data.get("quota", ())),
            tuple(data["memory"].get("sizes", ())),
            data.get("scheduler"),
        )


class Catalog:
    """Profiles by name. Of two that have the same resource, the first counts."""

    def __init__(self, profiles: Mapping[str, Mapping[str, Any]]) -> None:
        """``profiles`` are the fields of their manifests, by name, each without those of the one that it is like."""
        self._own = profiles
        self.profiles = {name: Profile(name, _complete(name, profiles)) for name in profiles}
        self._rows: dict[str, DeviceResource | None] = {}
        for profile in self.profiles.values():
            for row in profile.resources():
                self._rows.setdefault(row.resource, row)

    def with_profiles(self, profiles: Mapping[str, Mapping[str, Any]]) -> Catalog:
        """The catalog with further profiles; one of a name that is known changes what it says of it, no more."""
        changed = {name: _merged(self._own.get(name, {}), data) for name, data in profiles.items()}
        return Catalog({**self._own, **changed}) if changed else self

    def row(self, resource: str) -> DeviceResource | None:
        """What an extended resource is; None for what is no accelerator."""
        if resource not in self._rows:
            found = (profile.partition_of(resource) for profile in self.profiles.values()) if "/" in resource else ()
            self._rows[resource] = next(filter(None, found), None)
        return self._rows[resource]

    def rows_in(self, amounts: Mapping[str, int]) -> list[tuple[DeviceResource, int]]:
        """What amounts of resources are, without those that are no accelerators.

        A device of which there is only a share of the memory or of the cores is a share.
        """
        found = [(row, amount) for resource, amount in amounts.items() if (row := self.row(resource))]
        shared = {row.devices for row, amount in found if row.devices and amount}
        return [
            (replace(row, kind=SHARES) if row.is_whole_device and row.resource in shared else row, amount)
            for row, amount in found
        ]

    def taints(self) -> frozenset[str]:
        """The keys of the taints of all profiles."""
        return frozenset(taint for profile in self.profiles.values() for taint in profile.taints)


def _complete(name: str, profiles: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of a profile, with those of the one that it is like, but for what it is ``without``.

    Raises ProfileError.
    """
    seen: list[str] = []
    chain: list[Mapping[str, Any]] = []
    following: str | None = name
    while following:
        if following not in profiles:
            raise ProfileError(name, f"like a profile that there is not: {following}")
        if following in seen:
            raise ProfileError(name, f"profiles that are like each other: {', '.join(seen)}")
        seen.append(following)
        chain.append(profiles[following])
        following = profiles[following].get("like")
    data: dict[str, Any] = {}
    for own in reversed(chain):
        data = _merged({key: value for key, value in data.items() if key not in own.get("without", ())}, own)
    if missing := [key for key in ("resource", "noun", "singular") if not data.get(key)]:
        raise ProfileError(name, f"required key is missing: {', '.join(missing)}")
    return data


def _merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Blocks key by key; lists and values as a whole."""
    both = {key: _merged(before[key], value) for key, value in after.items() if _are_blocks(before.get(key), value)}
    return {**before, **after, **both}


def _are_blocks(before: object, after: object) -> bool:
    return isinstance(before, Mapping) and isinstance(after, Mapping)


class ProfileError(Exception):
    """A profile that cannot be used; the text says why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


_built_in: Catalog | None = None
_in_use: Catalog | None = None


def built_in_catalog() -> Catalog:
    """The profiles of the collection."""
    global _built_in
    if _built_in is None:
        _built_in = Catalog(PROFILES)
    return _built_in


def catalog() -> Catalog:
    """The profiles of the task."""
    return _in_use or built_in_catalog()


def use_catalog(found: Catalog | None) -> None:
    """Let the task go on with these profiles; None for the built-in ones. A process performs one task at a time."""
    global _in_use
    _in_use = found


@dataclass(frozen=True)
class PoolHardware:
    """What a pool declares of its hardware, beside its nodes.

    ``type_aliases`` are names of GPU types -> the types that they stand for, ``topology`` names of levels (rack) -> the
    labels of nodes that have them. ``types`` are the GPU types of its nodes.
    """

    accelerator: str | None = None
    share_backend: str | None = None
    type_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rdma_resource: str | None = None
    topology: Mapping[str, str] = field(default_factory=dict)
    types: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Equipment:
    """The accelerators of each pod of a job. Without any, ``requests`` is empty."""

    profile: Profile
    requests: tuple[tuple[DeviceResource, int], ...] = ()
    types: tuple[str, ...] = ()
    scheduler: str | None = None

    @property
    def amounts(self) -> dict[str, int]:
        """What the container requests."""
        return {row.resource: amount for row, amount in self.requests}

    @property
    def whole_devices(self) -> int:
        return sum(amount for row, amount in self.requests if row.is_whole_device)


class UnfitHardware(Exception):
    """A job asks for what the hardware does not have; the text says what is wrong, ``hint`` what to do."""

    def __init__(self, field: str, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.field, self.hint = field, hint


def equipment(resources: Any, pool: PoolHardware | None = None) -> Equipment:
    """What the block ``resources`` of a job gets in a pool. Raises UnfitHardware."""
    pool = pool or PoolHardware()
    profile = _profile_for(resources, pool)
    if resources.gpu:
        return Equipment(profile, ((profile.device, resources.gpu),))
    if resources.gpu_share is None:
        return Equipment(profile)
    backend = _backend_for(profile, pool)
    amounts = (
        *(((backend.devices, 1),) if backend.devices else ()),
        (backend.memory, backend.memory.ceil(resources.gpu_share)),
    )
    return Equipment(profile, amounts, scheduler=backend.scheduler)


def _profile_for(resources: Any, pool: PoolHardware) -> Profile:
    name = pool.accelerator or DEFAULT_ACCELERATOR
    return catalog().profiles[name]


def _backend_for(profile: Profile, pool: PoolHardware) -> ShareBackend:
    if not profile.backends:
        raise UnfitHardware("gpu_share", f"{profile.noun} cannot be shared", "Use gpu instead of gpu-share")
    if pool.share_backend is None:
        return next(iter(profile.backends.values()))
    return profile.backends[pool.share_backend]


def whole_devices(amounts: Mapping[str, int]) -> int:
    """The number of whole devices, of any profile, in amounts of resources."""
    return sum(amount for row, amount in catalog().rows_in(amounts) if row.is_whole_device)
