# SPDX-License-Identifier: BSD-2-Clause
"""What a job gets of the accelerators in its pool: what it requests, and the nodes that have it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..labels import GPU_TYPE
from ..quantity import parse
from .catalog import PARTITIONS, DeviceResource, Profile, ShareBackend, bytes_in, catalog
from .device_selectors import AT_LEAST, EQUALS, PRODUCT, Condition, DeviceRequest
from .hardware import DEFAULT_ACCELERATOR, PoolHardware, UnfitHardware


@dataclass(frozen=True)
class Equipment:
    """The accelerators of each pod of a job, ``requests`` empty without any, and what its nodes must have for them.

    ``others`` are further resources of the container. ``node_labels`` are labels with their values, ``expressions``
    those of a node selector term. Where ``devices`` are claimed, the container requests no resource for them. ``pool``
    is what the pool declares.
    """

    profile: Profile
    requests: tuple[tuple[DeviceResource, int], ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    node_labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[Mapping[str, Any], ...] = ()
    scheduler: str | None = None
    devices: DeviceRequest | None = None
    pool: PoolHardware = field(default_factory=PoolHardware)

    @property
    def amounts(self) -> dict[str, int]:
        """What the container requests."""
        return {**({} if self.devices else self.accelerators), **self.others}

    @property
    def accelerators(self) -> dict[str, int]:
        """The accelerators, as amounts of the resources that they are or would be."""
        return {row.resource: amount for row, amount in self.requests}

    @property
    def whole_devices(self) -> int:
        return sum(amount for row, amount in self.requests if row.is_whole_device)

    def needs(self, field: str) -> Any:
        """What pods with these accelerators have of a field of the profile's block ``pod``; None for nothing."""
        return self.profile.part("pod").get(field) if self.requests else None


def equipment(resources: Any, pool: PoolHardware | None = None) -> Equipment:
    """What the block ``resources`` of a job gets in a pool, of which this is declared. Raises UnfitHardware."""
    pool = pool or PoolHardware()
    profile = _profile_for(resources, pool)
    requests = _requested_devices(resources, profile, pool)
    if requests and pool.device_class:
        return _claimed_devices(resources, profile, pool, requests)
    backend = _backend_of(profile, pool) if requests and pool.share_backend else None
    return Equipment(
        profile,
        requests,
        _other_resources(resources, pool),
        _type_labels(resources, profile, pool),
        tuple(_expressions(resources, profile)) if requests else (),
        scheduler=backend.scheduler if backend else None,
        pool=pool,
    )


def _claimed_devices(
    resources: Any, profile: Profile, pool: PoolHardware, requests: tuple[tuple[DeviceResource, int], ...]
) -> Equipment:
    """Devices of the pool's DeviceClass: what else labels of nodes would say is a condition on the devices."""
    block = profile.part("dra")
    if not block:
        problem = f"a pool with a device_class, but nothing says what devices {profile.noun} are"
        raise UnfitHardware("resources.pool", problem, f"Add the block dra to the accelerator {profile.name}")
    if resources.gpu_share is not None and not resources.gpu:
        problem = "a share in a pool whose devices are claimed as a whole or as partitions"
        raise UnfitHardware("resources.gpu-share", problem, "Use gpu, with partition for a part")
    driver, parts = block["driver"], block.get("partitions") or {}
    of_partition = resources.partition is not None
    if of_partition and not parts:
        problem = f"{profile.noun} have no partitions as devices of {driver}"
        raise UnfitHardware("resources.partition", problem, "Remove it")
    values = dict(parts.get("values") or {}) if of_partition else dict(block.get("values") or {})
    if of_partition:
        values[parts["attribute"]] = resources.partition
    conditions = [Condition(EQUALS, name, value, driver) for name, value in values.items()]
    labels = _type_labels(resources, profile, pool) if resources.gpu_type else {}
    if labels and not pool.types & set(labels.values()) and block.get("product"):
        conditions.append(Condition(PRODUCT, block["product"], next(iter(labels.values())), driver))
        labels = {}
    if resources.gpu_memory is not None:
        if not block.get("memory"):
            problem = f"devices of {driver} do not say how much memory they have"
            raise UnfitHardware("resources.gpu-memory", problem, "Use gpu-type instead")
        conditions.append(Condition(AT_LEAST, block["memory"], str(resources.gpu_memory), driver))
    device_class = (parts.get("device_class") if of_partition else None) or pool.device_class or ""
    return Equipment(
        profile,
        requests,
        _other_resources(resources, pool),
        labels,
        tuple(_domain_expressions(resources, profile)),
        devices=DeviceRequest(device_class, sum(amount for _row, amount in requests), tuple(conditions)),
        pool=pool,
    )


def _profile_for(resources: Any, pool: PoolHardware) -> Profile:
    profiles = catalog().profiles
    for place, name in (("resources.accelerator", resources.accelerator), ("resources.pool", pool.accelerator)):
        if name is not None and name not in profiles:
            problem = f"{'' if place.endswith('accelerator') else 'a pool with an '}unknown accelerator: {name}"
            raise UnfitHardware(place, problem, f"Known are {', '.join(sorted(profiles))}")
    name = resources.accelerator or pool.accelerator or DEFAULT_ACCELERATOR
    if resources.accelerator and pool.accelerator and not _share_devices(resources.accelerator, pool.accelerator):
        problem = f"{resources.accelerator} in a pool with {profiles[pool.accelerator].noun} ({pool.accelerator})"
        raise UnfitHardware("resources.accelerator", problem, "Correct it or resources.pool, or remove it")
    return profiles[name]


def _share_devices(wanted: str, present: str) -> bool:
    """Whether one is the profile of the other's devices too, such as a profile for a generation of them."""
    profiles = catalog().profiles
    return profiles[wanted].device.resource == profiles[present].device.resource


def _requested_devices(resources: Any, profile: Profile, pool: PoolHardware) -> tuple[tuple[DeviceResource, int], ...]:
    if resources.partition is not None:
        return ((_partition(resources, profile), resources.gpu),)
    if resources.gpu:
        if profile.counts and resources.gpu not in profile.counts:
            problem = f"not a number of {profile.noun} that a pod can have: {resources.gpu}"
            raise UnfitHardware("resources.gpu", problem, f"Use {_one_of(profile.counts)}")
        return ((_whole_device(profile, pool), resources.gpu),)
    if resources.gpu_share is None:
        return ()
    return tuple(_requested_share(resources, _backend_of(profile, pool)))


def _partition(resources: Any, profile: Profile) -> DeviceResource:
    row = profile.partition(resources.partition)
    if row is None:
        block = profile.part("partitions")
        hint = f"Write it as its resource does: {block['resource']}" if block else "Remove it"
        problem = f"{profile.noun} have no such partition: {resources.partition}"
        raise UnfitHardware("resources.partition", problem, hint)
    most = profile.part("partitions").get("most")
    if row.kind == PARTITIONS and most and resources.gpu > most:
        problem = f"too many {row.noun} for a pod: {resources.gpu}"
        raise UnfitHardware("resources.gpu", problem, f"Use at most {most}")
    return row


def _whole_device(profile: Profile, pool: PoolHardware) -> DeviceResource:
    """What a whole device is called where a backend shares them: it has the device to itself if it names no memory."""
    backend = _backend_of(profile, pool) if pool.share_backend else None
    return replace(profile.device, resource=backend.devices.resource) if backend and backend.devices else profile.device


def _requested_share(resources: Any, backend: ShareBackend) -> Iterator[tuple[DeviceResource, int]]:
    if backend.devices:
        yield backend.devices, 1
    amount = backend.memory.ceil(resources.gpu_share)
    sizes = [size for size in sorted(backend.sizes) if size >= amount]
    if backend.sizes and not sizes:
        problem = f"more than {backend.memory.noun} that there is: {resources.gpu_share}"
        raise UnfitHardware(
            "resources.gpu-share", problem, f"Use at most {backend.memory.quantity(max(backend.sizes))}"
        )
    yield backend.memory, sizes[0] if sizes else amount
    if resources.gpu_cores is None:
        return
    if backend.cores is None:
        problem = f"{backend.name} does not limit the compute of a share"
        raise UnfitHardware("resources.gpu-cores", problem, "Remove it")
    yield backend.cores, resources.gpu_cores


def _backend_of(profile: Profile, pool: PoolHardware) -> ShareBackend:
    if not profile.backends:
        raise UnfitHardware("resources.gpu-share", f"{profile.noun} cannot be shared", "Use gpu instead")
    name = pool.share_backend or next(iter(profile.backends))
    if name not in profile.backends:
        problem = f"a pool whose share_backend {profile.name} does not have: {name}"
        raise UnfitHardware("resources.pool", problem, f"Declare the pool with {_one_of(tuple(profile.backends))}")
    return profile.backends[name]


def _other_resources(resources: Any, pool: PoolHardware) -> dict[str, int]:
    if resources.interconnect != "rdma":
        return {}
    if pool.rdma_resource is None:
        hint = "Declare rdma_resource of the pool with M(gpuctl_pool), or remove it"
        raise UnfitHardware("resources.interconnect", "rdma in a pool that declares no RDMA resource", hint)
    return {pool.rdma_resource: 1}


def _type_labels(resources: Any, profile: Profile, pool: PoolHardware) -> dict[str, str]:
    """The label of nodes with the GPU type: ours, or the vendor's for what an alias stands for in no node's type."""
    wanted = resources.gpu_type
    if wanted is None:
        return {}
    meant = pool.type_of(wanted)
    product = profile.product_label
    if product and meant not in pool.types and meant.lower() != wanted.lower():
        return {product: meant}
    return {GPU_TYPE: meant}


def _expressions(resources: Any, profile: Profile) -> Iterator[dict[str, Any]]:
    """What the labels of nodes must be, beyond single values."""
    if resources.gpu_memory is not None:
        yield _memory_expression(resources.gpu_memory, profile)
    yield from _domain_expressions(resources, profile)


def _domain_expressions(resources: Any, profile: Profile) -> Iterator[dict[str, Any]]:
    if resources.interconnect == "nvlink-domain":
        label = profile.part("labels").get("domain")
        if not label:
            problem = f"{profile.noun} have no domains of NVLink"
            raise UnfitHardware("resources.interconnect", problem, "Remove it")
        yield {"key": label, "operator": "Exists"}


def _memory_expression(least: str, profile: Profile) -> dict[str, Any]:
    block = profile.part("labels").get("memory")
    if not block:
        problem = f"no label of nodes says how much memory {profile.noun} have"
        raise UnfitHardware("resources.gpu-memory", problem, "Use gpu-type instead")
    number = math.ceil(parse(least).value / bytes_in(block["unit"]))
    sizes = block.get("sizes")
    if not sizes:
        # Node affinity has Gt and Lt alone, and compares integers (docs, "Assigning Pods to Nodes", operators). Gt is
        # strict, so one less is written.
        return {"key": block["label"], "operator": "Gt", "values": [str(number - 1)]}
    enough = [f"{size}{block.get('suffix', '')}" for size in sorted(sizes) if size >= number]
    if not enough:
        problem = f"more memory than any {profile.singular} has: {least}"
        raise UnfitHardware("resources.gpu-memory", problem, f"Use at most {max(sizes)}{block['unit']}")
    return {"key": block["label"], "operator": "In", "values": enough}


def software_warnings(environment: Any, gets: Equipment) -> Iterator[str]:
    """What nothing tells of the image of a job with accelerators. Raises UnfitHardware for one of other accelerators.

    A declared framework counts more than the name of the image.
    """
    if not gets.requests:
        return
    if environment.framework:
        _require_framework(environment.framework, gets.profile)
    else:
        yield from _image_warnings(environment.image, gets.profile)


def _require_framework(framework: str, profile: Profile) -> None:
    known = profile.data.get("frameworks") or (framework,)
    if framework not in known:
        problem = f"{framework} does not run on {profile.noun} ({profile.name})"
        hint = f"There run {', '.join(known)}. Correct it, or set resources.pool to another pool"
        raise UnfitHardware("environment.framework", problem, hint)


def _image_warnings(image: str, profile: Profile) -> Iterator[str]:
    found, is_certain = catalog().made_for(image)
    is_default = profile.name == DEFAULT_ACCELERATOR
    if not found and not is_default:
        yield (
            f"nothing tells whether the image is for {profile.noun}: {image}. Set environment.framework to say what "
            f"it is built for."
        )
    if not found or any(each.device == profile.device or each.name == profile.name for each in found):
        return
    problem = f"an image for {found[0].noun} ({found[0].name}) on {profile.noun} ({profile.name}): {image}"
    hint = "Use another image or pool, or set environment.framework if the image runs there"
    if is_certain or not is_default:
        raise UnfitHardware("environment.image", problem, hint)
    yield f"{problem}. {hint}."


def _one_of(values: tuple[Any, ...]) -> str:
    """``1``, ``1 or 2``, ``1, 2 or 4``."""
    words = [str(value) for value in values]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
