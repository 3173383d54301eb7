# SPDX-License-Identifier: BSD-2-Clause
"""The accelerators of a node, from what the node lists, and which pod holds which of them.

Source: kubelet pkg/kubelet/cm/devicemanager/manager.go (a container keeps its devices until the pod has ended).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubesim.quantity import Quantity

Object = dict[str, Any]
NVIDIA, AMD, ASCEND, GAUDI, CAMBRICON = "nvidia", "amd", "ascend", "gaudi", "cambricon"
_MIG = re.compile(r"nvidia\.com/mig-(([1-7])g\.[0-9]+gb.*)")
_HAMI, _HAMI_SHARES = "hami.io/node-nvidia-register", 10  # by default it lists each device ten times
_SIZE = re.compile(r"([0-9]+)(G|Gi)?")
#: vendor -> (pattern of the resource, labels of model and memory, model and MiB where there are none)
_VENDORS: Mapping[str, tuple[str, str, str, str, float]] = {
    NVIDIA: (r"nvidia\.com/gpu(\.shared)?", "nvidia.com/gpu.product", "nvidia.com/gpu.memory", "NVIDIA-A10", 24564),
    AMD: (r"amd\.com/gpu", "amd.com/gpu.product-name", "amd.com/gpu.vram", "AMD_Instinct_MI300X_OAM", 196608),
    ASCEND: (
        r"huawei\.com/Ascend[0-9A-Z]+",
        "node.kubernetes.io/npu.chip.name",
        "mind-cluster/npu-chip-memory",
        "910B3",
        65536,
    ),
    GAUDI: (r"habana\.ai/gaudi", "habana.ai/hpu.type", "", "gaudi2", 98304),
    CAMBRICON: (r"cambricon\.com/mlu", "cambricon.com/mlu.product", "", "MLU370-X8", 49152),
}


@dataclass(frozen=True)
class Device:
    """A whole device, or a partition of one (`profile`, `instance`)."""

    vendor: str
    node: str
    resource: str
    index: int
    uuid: str
    model: str
    memory: float  # MiB
    profile: str = ""
    instance: str = ""
    shares: int = 1  # how many containers may hold it at once
    hami: bool = False  # shared by HAMi, whose monitor tells the containers apart

    @property
    def bus(self) -> str:
        return f"00000000:{0x10 + 0x0B * self.index:02X}:00.0"


@dataclass(frozen=True)
class Holder:
    """A container that holds a device."""

    pod: Object
    container: str

    @property
    def uid(self) -> str:
        uid: str = self.pod["metadata"]["uid"]
        return uid


def devices_of(node: Object) -> list[Device]:
    """In the order of their numbers; of one node always the same."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    listed = {key: int(Quantity.parse(text).amount) for key, text in (node["status"].get("capacity") or {}).items()}
    found: list[Device] = []
    for vendor, (pattern, model_label, memory_label, model, memory) in _VENDORS.items():
        own, size = labels.get(model_label, model), _mebibytes(labels.get(memory_label), memory)
        for resource in sorted(key for key in listed if re.fullmatch(pattern, key)):
            hami = vendor == NVIDIA and _HAMI in (node["metadata"].get("annotations") or {})
            shares = _HAMI_SHARES if hami else _replicas(labels)
            found += [
                Device(vendor, name, resource, index, _uuid(vendor, name, index), own, size, "", "", shares, hami)
                for index in range(listed[resource] // shares)
            ]
    return found + _partitions(name, labels, listed)


def _replicas(labels: Mapping[str, str]) -> int:
    """What a device counts for where it is shared by time-slicing or MPS."""
    shared = labels.get("nvidia.com/gpu.sharing-strategy") in ("time-slicing", "mps")
    return max(1, int(labels.get("nvidia.com/gpu.replicas", 1))) if shared else 1


def _partitions(node: str, labels: Mapping[str, str], listed: Mapping[str, int]) -> list[Device]:
    """MIG devices lie on the GPUs behind the whole ones, as many of each profile on one as it has room for."""
    whole = sum(number for key, number in listed.items() if key == "nvidia.com/gpu")
    model = labels.get("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")
    found: list[Device] = []
    gpu = whole
    for resource in sorted(listed):
        match = _MIG.fullmatch(resource)
        if match is None:
            continue
        profile, slices = match[1], int(match[2])
        room = 7 // slices
        memory = 1024.0 * int(re.search(r"\.([0-9]+)gb", profile)[1])  # type: ignore[index]
        for number in range(listed[resource]):
            index = gpu + number // room
            instance = str(number % room + (7 if slices == 1 else 1))
            own = _uuid(NVIDIA, node, index)
            found.append(Device(NVIDIA, node, resource, index, own, model, memory, profile, instance))
        gpu += -(-listed[resource] // room)
    return found


def _mebibytes(text: str | None, default: float) -> float:
    match = _SIZE.fullmatch(text or "")
    return default if match is None else float(match[1]) * (1024 if match[2] else 1)


def _uuid(vendor: str, node: str, index: int) -> str:
    own = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{index}.{node}.{vendor}"))
    return f"GPU-{own}" if vendor == NVIDIA else own


class Assignments:
    """Which container holds which device. A device is given to the pods of a node in the order in which they came."""

    def __init__(self) -> None:
        self._held: dict[Device, list[Holder]] = {}
        self._of_pods: dict[str, list[Device]] = {}

    def give(self, pod: Object, devices: Iterable[Device]) -> list[Device]:
        """What a pod holds that has come to its node; the same devices as before where it holds them already."""
        uid, there = pod["metadata"]["uid"], list(devices)
        if uid not in self._of_pods:
            self._of_pods[uid] = list(self._choose(pod, there))
        else:
            for device in self._of_pods[uid]:
                self._held[device] = [Holder(pod, h.container) if h.uid == uid else h for h in self._held[device]]
        return self._of_pods[uid]

    def _choose(self, pod: Object, devices: Sequence[Device]) -> Iterator[Device]:
        for container, resource, number in requests(pod):
            free = [each for each in devices if each.resource == resource and len(self.holders(each)) < each.shares]
            for device in sorted(free, key=lambda each: len(self.holders(each)))[:number]:
                self._held.setdefault(device, []).append(Holder(pod, container))
                yield device

    def take(self, uid: str) -> list[Device]:
        """What a pod held that has ended, or is gone."""
        devices = self._of_pods.pop(uid, [])
        for device in devices:
            self._held[device] = [holder for holder in self._held[device] if holder.uid != uid]
        return devices

    def holders(self, device: Device) -> list[Holder]:
        return self._held.get(device, [])


def requests(pod: Object) -> Iterator[tuple[str, str, int]]:
    """(container, resource, number) of all extended resources, of containers and of sidecars."""
    spec = pod["spec"]
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*spec.get("containers", ()), *sidecars):
        resources = container.get("resources") or {}
        asked = resources.get("requests") or resources.get("limits") or {}
        for resource, text in asked.items():
            if "/" in resource:
                yield container["name"], resource, int(Quantity.parse(text).amount)
