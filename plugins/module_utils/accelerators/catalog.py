# SPDX-License-Identifier: BSD-2-Clause
"""What accelerators are: the profiles of vendors, and how their extended resources are requested and counted. Pure.

A profile is data (accelerators/*.yml; manifest/accelerator_model.py has its fields). Everything that requests, counts,
limits or names accelerators asks the catalog of the task: the built-in profiles, with those of administrators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from ..quantity import parse, uniform
from .current import in_use
from .hardware import DEFAULT_ACCELERATOR, PoolHardware, UnfitHardware
from .profiles import PROFILES

# What the amounts of a resource are.
DEVICES, PARTITIONS, SHARES, MEMORY, CORES = "devices", "partitions", "shares", "memory", "cores"
SHARED = "shared"  # the name of time-sliced devices among partitions, where they have a resource of their own
BROKEN = "broken"  # what a node's devices are while their configuration is invalid

QUOTA_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
_FIELDS = {MEMORY: "gpu-share", CORES: "gpu-cores"}


@dataclass(frozen=True)
class DeviceResource:
    """An extended resource of a profile. Its amounts are numbers of devices, of partitions or of shares, or percent.

    Those of memory are whole numbers of ``unit``. ``listed``: nodes list it; what a scheduler extender counts itself,
    none does.
    """

    resource: str
    profile: str
    kind: str
    noun: str  # plural
    singular: str = ""
    unit: str = ""
    listed: bool = True
    partition: str = ""

    @property
    def is_whole_device(self) -> bool:
        """Whether it counts as a GPU in sums, and gets a process of its own."""
        return self.kind == DEVICES

    @property
    def documented(self) -> str:
        """The field of ``resources`` that asks for it, as manifests spell it."""
        return _FIELDS.get(self.kind, "gpu")

    @property
    def columns(self) -> dict[str, str | None]:
        """What results say of it, beside an amount."""
        return {
            "accelerator": self.profile,
            "resource": self.resource,
            "counts": self.kind,
            "partition": self.partition or None,
            "unit": self.unit or None,
        }

    @property
    def quota_key(self) -> str:
        """The key of a ResourceQuota.

        Of extended resources Kubernetes only counts ``requests.``; it accepts the bare name and ignores it
        (pkg/quota/v1/evaluator/core/pods.go, podComputeUsageHelper).
        """
        return f"requests.{self.resource}"

    @property
    def limit_name(self) -> str:
        """Its name among the ``accelerators`` of a quota: ``ascend``, ``nvidia/1g.10gb``, ``nvidia/share``."""
        part = {DEVICES: "", PARTITIONS: self.partition, MEMORY: "share"}.get(self.kind, self.resource)
        return f"{self.profile}/{part}" if part else self.profile

    def text(self, amount: int) -> str:
        """``1 GPU``, ``4 GPUs``, ``5Gi of shared GPU memory``."""
        if self.kind == MEMORY:
            return f"{self.quantity(amount)} of {self.noun}"
        if self.kind == CORES:
            return f"{amount}% of {self.noun}"
        return f"{amount} {self.singular if amount == 1 else self.noun}"

    def quantity(self, amount: int) -> str:
        """An amount of memory as manifests have it: 5 of Gi is 5Gi, 20 of 256Mi as well."""
        return f"{amount}Gi" if self.unit == "Gi" else uniform(self.bytes(amount), of_bytes=True)

    def ceil(self, quantity: str) -> int:
        """The amount that holds a quantity of memory."""
        return math.ceil(parse(quantity).value / bytes_in(self.unit))

    def floor(self, quantity: str) -> int:
        """The amount that a quantity of memory holds."""
        return math.floor(parse(quantity).value / bytes_in(self.unit))

    def bytes(self, amount: int) -> int:
        """The bytes of an amount of memory."""
        return amount * bytes_in(self.unit)


def device_class_key(name: str) -> str:
    """The key of a ResourceQuota that limits the devices claimed of a DeviceClass."""
    return f"{name}{QUOTA_OF_CLASS}"


def names_registry(image: str) -> bool:
    """Whether an image names its registry. Without one, it is from Docker Hub (distribution/reference,
    splitDockerDomain)."""
    host, slash, _path = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def bytes_in(unit: str) -> int:
    """The bytes in a unit: Gi, Mi, 256Mi."""
    return int(parse(unit if unit[0].isdigit() else f"1{unit}").value)


# What one of a unit is in base units, which are not listed: a ratio of 0 to 1, bytes, watts, joules.
_FACTORS = {
    "percent": 0.01,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "milliwatts": 1e-3,
    "millijoules": 1e-3,
    "microjoules": 1e-6,
}


@dataclass(frozen=True)
class ExportedSeries:
    """A metric of an exporter. ``where`` are labels of the series that count.

    A sample times ``factor`` is in base units. ``means`` is what the value of a metric of errors is.
    """

    name: str
    where: Mapping[str, str]
    factor: float
    means: str = ""

    @property
    def is_percent(self) -> bool:
        return self.factor == _FACTORS["percent"]


@dataclass(frozen=True)
class Exporter:
    """An exporter of metrics for Prometheus, as a profile or a way to share devices describes it.

    ``labels`` are names of labels by what they say: device, partition, index, model, node, namespace, pod, container.
    Of several, the first that a series has counts. Where series do not say whose a device is, ``owner`` is the metric
    that does.
    """

    profile: str
    backend: str  # of shares; empty for whole devices and partitions
    port: int | None
    labels: Mapping[str, tuple[str, ...]]
    owner: str | None
    quantities: Mapping[str, tuple[ExportedSeries, ...]]

    def series(self, quantity: str) -> tuple[ExportedSeries, ...]:
        """The metrics of a quantity, such as utilization. Of several, the first that a device has counts."""
        return self.quantities.get(quantity, ())


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
class NodeDivision:
    """The label that makes the vendor's software divide the devices of a node, and what nodes show once it has.

    ``kind`` is the field of a pool that declares it, ``sharing`` or ``mig``.
    """

    kind: str
    label: str
    value: str
    shows: Mapping[str, str]

    def state(self, labels: Mapping[str, str]) -> str:
        """``done``, ``unknown`` if the node shows nothing of it, or what differs."""
        if labels.get(self.label) != self.value:
            return f"{self.label} is {labels.get(self.label) or 'not set'}"
        found = {key: labels[key] for key in self.shows if key in labels}
        if not found:
            return "unknown"
        return ", ".join(f"{key} is {value}" for key, value in found.items() if value != self.shows[key]) or "done"


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

    @property
    def product_label(self) -> str | None:
        """The label of nodes with the type of the devices."""
        label: str | None = self.part("labels").get("product")
        return label

    def part(self, name: str) -> Mapping[str, Any]:
        """A block of the profile; empty if it has none: labels, pod, library, metrics, images."""
        found: Mapping[str, Any] = self.data.get(name) or {}
        return found

    def has_repository(self, image: str) -> bool:
        """Whether an image is from a repository that only has images for this accelerator."""
        name = (image if names_registry(image) else f"docker.io/{image}").partition("@")[0]
        path, colon, tag = name.rpartition(":")
        name = path if colon and "/" not in tag else name
        return any(fnmatchcase(name, pattern) for pattern in self.part("images").get("repositories", ()))

    def device_memory(self, labels: Mapping[str, str]) -> int | None:
        """The bytes of a device by the labels of its node; None if they do not say."""
        block = self.part("labels").get("memory") or {}
        value = labels.get(block.get("label", ""), "").removesuffix(block.get("suffix", ""))
        return int(value) * bytes_in(block["unit"]) if value.isdecimal() and value.isascii() else None

    @cached_property
    def device(self) -> DeviceResource:
        return DeviceResource(self.data["resource"], self.name, DEVICES, self.noun, self.singular)

    @cached_property
    def slices(self) -> DeviceResource | None:
        """The resource of time-sliced devices, where that has a name of its own."""
        if not self.data.get("slices"):
            return None
        nouns = f"shared {self.noun}", f"shared {self.singular}"
        return DeviceResource(self.data["slices"], self.name, SHARES, *nouns, partition=SHARED)

    @cached_property
    def backends(self) -> Mapping[str, ShareBackend]:
        """By name; the first is the one of pools that name none."""
        return {name: self._share_backend(name, data) for name, data in (self.data.get("shares") or {}).items()}

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

    @cached_property
    def exporters(self) -> tuple[Exporter, ...]:
        """What measures its devices. That of whole devices comes first, if the profile has its metrics."""
        shares = ((name, data.get("metrics")) for name, data in (self.data.get("shares") or {}).items())
        blocks = [("", self.part("metrics")), *shares]
        return tuple(_exporter(self.name, backend, data) for backend, data in blocks if data)

    def divisions(self, pool: PoolHardware) -> Iterator[NodeDivision]:
        """How the nodes of a pool are divided. Raises UnfitHardware for a way that the vendor does not have."""
        ways = [("sharing", way, str(number)) for way, number in pool.sharing.items()]
        ways += [("mig", "mig", pool.mig)] if pool.mig else []
        for kind, way, value in ways:
            block = self.part("divisions").get(way)
            if not block:
                place = f"{kind}.{way}" if kind != way else kind
                raise UnfitHardware(place, f"{self.noun} are not divided so", "Remove it")
            filled = {key: text.replace("{value}", value) for key, text in block.get("shows", {}).items()}
            yield NodeDivision(kind, block["label"], block.get("value", "{value}").replace("{value}", value), filled)

    def division_labels(self) -> Iterator[tuple[str, str]]:
        """The labels by which its devices are divided, each with its kind (see NodeDivision)."""
        for way, block in self.part("divisions").items():
            yield ("mig" if way == "mig" else "sharing"), block["label"]

    def partition(self, name: str) -> DeviceResource | None:
        """The resource of a partition; None if the hardware has no such partitions. Time-sliced ones are ``shared``."""
        if name == SHARED and self.slices:
            return self.slices
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

    def _share_backend(self, name: str, data: Mapping[str, Any]) -> ShareBackend:
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
            )

        shared = f"shared {self.singular}"
        memory = resource("memory", MEMORY, f"{shared} memory")
        if memory is None:
            raise AssertionError(f"shares.{name} of {self.name} has no memory")
        return ShareBackend(
            name,
            memory,
            resource("devices", SHARES, f"shared {self.noun}", shared),
            resource("cores", CORES, f"{shared} cores"),
            tuple(data.get("quota", ())),
            tuple(data["memory"].get("sizes", ())),
            data.get("scheduler"),
        )


def _exporter(profile: str, backend: str, data: Mapping[str, Any]) -> Exporter:
    owner = data.get("owner") or {}
    prefix = data.get("prefix") or ""
    return Exporter(
        profile,
        backend,
        data.get("port"),
        {said: tuple(names) for said, names in (data.get("labels") or {}).items()},
        f"{prefix}{owner['name']}" if owner else None,
        {
            quantity: tuple(
                ExportedSeries(
                    f"{prefix}{each['name']}",
                    each.get("where", {}),
                    _FACTORS.get(each.get("unit", ""), 1.0),
                    each.get("means", ""),
                )
                for each in found
            )
            for quantity, found in data.items()
            if quantity not in ("port", "prefix", "labels", "owner")
        },
    )


class Catalog:
    """Profiles by name. Of two that have the same resource, the first counts."""

    def __init__(self, profiles: Mapping[str, Mapping[str, Any]]) -> None:
        """``profiles`` are the fields of their manifests, by name, each without those of the one that it is like."""
        self._own = profiles
        self.profiles = {name: Profile(name, _complete(name, profiles)) for name in profiles}
        self._rows: dict[str, DeviceResource | None] = {}
        self._images: dict[str, tuple[list[Profile], bool]] = {}
        self._devices: dict[str, set[str]] = {}  # memory or cores -> the devices that have them
        for profile in self.profiles.values():
            for row in profile.resources():
                self._rows.setdefault(row.resource, row)
            for backend in profile.backends.values():
                devices = {backend.devices.resource} if backend.devices else set()
                for part in filter(None, (backend.memory, backend.cores)):
                    self._devices.setdefault(part.resource, set()).update(devices)

    def with_profiles(self, profiles: Mapping[str, Mapping[str, Any]]) -> Catalog:
        """The catalog with further profiles; one of a name that is known changes what it says of it, no more."""
        changed = {name: _merge_blocks(self._own.get(name, {}), data) for name, data in profiles.items()}
        return Catalog({**self._own, **changed}) if changed else self

    def row(self, resource: str) -> DeviceResource | None:
        """What an extended resource is; None for what is no accelerator."""
        if resource not in self._rows:
            # Extended resources have a domain; cpu, memory and hugepages have none (pkg/apis/core/v1/helper).
            found = (profile.partition_of(resource) for profile in self.profiles.values()) if "/" in resource else ()
            self._rows[resource] = next(filter(None, found), None)
        return self._rows[resource]

    def rows_in(self, amounts: Mapping[str, int]) -> list[tuple[DeviceResource, int]]:
        """What amounts of resources are, without those that are no accelerators.

        Where a backend shares devices, a pod that names neither memory nor cores has the device to itself.
        """
        found = [(row, amount) for resource, amount in amounts.items() if (row := self.row(resource))]
        shared = set().union(*(self._devices.get(row.resource, ()) for row, amount in found if amount))
        return [(_as_requested(row, row.resource in shared), amount) for row, amount in found]

    def limited(self, name: str) -> DeviceResource:
        """What a quota limits under a name of ``limit_name``. Raises UnfitHardware."""
        accelerator, _slash, part = name.partition("/")
        profile = self.profiles.get(accelerator)
        if profile is None:
            known = ", ".join(sorted(self.profiles))
            raise UnfitHardware(f"accelerators.{name}", f"unknown accelerator: {accelerator}", f"Known are {known}")
        if part == "share":
            row = next((backend.memory for backend in profile.backends.values()), None)
        else:
            row = profile.partition(part) if part else profile.device
        if row is None:
            raise UnfitHardware(f"accelerators.{name}", f"{profile.noun} have no such part: {part}", "Correct it")
        return row

    def made_for(self, image: str) -> tuple[list[Profile], bool]:
        """The accelerators that the name of an image tells of, and whether its repository does, which is certain."""
        if image not in self._images:  # The jobs of a task mostly have the same.
            profiles = self.profiles.values()
            certain = [each for each in profiles if each.has_repository(image)]
            words = [each for each in profiles if has_word(image, each.part("images").get("words", ()))]
            self._images[image] = (certain or words, bool(certain))
        return self._images[image]

    @cached_property
    def marked(self) -> tuple[Profile, ...]:
        """The profiles whose devices can be partitions or shares."""
        return tuple(profile for profile in self.profiles.values() if profile.marks)

    @cached_property
    def product_labels(self) -> frozenset[str]:
        """The labels with the types of devices, of all profiles."""
        return frozenset(label for profile in self.profiles.values() if (label := profile.product_label))

    def taints(self) -> frozenset[str]:
        """The keys of the taints of all profiles."""
        return frozenset(taint for profile in self.profiles.values() for taint in profile.taints)


def _as_requested(row: DeviceResource, is_shared: bool) -> DeviceResource:
    if row.is_whole_device and is_shared:
        return replace(row, kind=SHARES)
    return replace(row, kind=DEVICES) if row.kind == SHARES and not row.partition and not is_shared else row


def _complete(name: str, profiles: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of a profile, with those of the one that it is ``like``, except what it is ``without``.

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
        data = _merge_blocks({key: value for key, value in data.items() if key not in own.get("without", ())}, own)
    if missing := [key for key in ("resource", "noun", "singular") if not data.get(key)]:
        raise ProfileError(name, f"required key is missing: {', '.join(missing)}")
    return data


def _merge_blocks(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Blocks key by key; lists and values as a whole."""
    both = {
        key: _merge_blocks(former, value)
        for key, value in after.items()
        if isinstance(former := before.get(key), Mapping) and isinstance(value, Mapping)
    }
    return {**before, **after, **both}


class ProfileError(Exception):
    """A profile that cannot be used; the text says why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


_built_in: Catalog | None = None


def built_in_catalog() -> Catalog:
    """The profiles of the collection."""
    global _built_in
    if _built_in is None:
        _built_in = Catalog(PROFILES)
    return _built_in


def catalog() -> Catalog:
    """The profiles of the task."""
    found: Catalog | None = in_use()
    return found or built_in_catalog()


def has_word(text: str, words: Iterable[str]) -> bool:
    """Whether one of the words is in the text on its own: cuda12 contains cuda, barracuda does not."""
    return any(re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", text.lower()) for word in words)


def whole_devices(amounts: Mapping[str, int]) -> int:
    """The number of whole devices, of any profile, in amounts of resources of a pod."""
    return sum(amount for row, amount in catalog().rows_in(amounts) if row.is_whole_device)


def divisions_of(profiles: Mapping[str, Profile], hardware: PoolHardware) -> list[NodeDivision]:
    """How the nodes of a pool are divided."""
    profile = profiles.get(hardware.accelerator or DEFAULT_ACCELERATOR)
    return list(profile.divisions(hardware)) if profile else []
