# SPDX-License-Identifier: BSD-2-Clause
"""The manifest of an accelerator as types."""

from __future__ import annotations

from typing import Literal

from . import rules
from ._pydantic import Field, model_validator
from .manifest_blocks import Block, VersionedManifest, optional


class AcceleratorSection(Block):
    """The name and description of an accelerator."""

    name: rules.ProfileName = Field(description="Name of the accelerator.", examples=["nvidia"])
    description: rules.Description | None = Field(default=None, description="What it is.")


class MeasuredSeries(Block):
    """A metric of an exporter."""

    name: rules.SeriesName = Field(description="Name of the metric.", examples=["DCGM_FI_DEV_GPU_UTIL"])
    where: dict[rules.SeriesLabel, rules.ShortText] = Field(
        default_factory=dict, description="Labels of the series that count.", examples=[{"type": "vram"}]
    )


class UtilizationSeries(MeasuredSeries):
    """A metric of how much of a device is used."""

    unit: Literal["percent", "ratio"] = Field(description="Unit.", examples=["percent"])


class MemorySeries(MeasuredSeries):
    """A metric of memory."""

    unit: Literal["bytes", "KiB", "MiB", "GiB", "KB", "MB", "GB"] = Field(description="Unit.", examples=["MiB"])


class TemperatureSeries(MeasuredSeries):
    """A metric of the temperature."""

    unit: Literal["celsius"] = Field(default="celsius", description="Unit.")


class PowerSeries(MeasuredSeries):
    """A metric of the power."""

    unit: Literal["watts", "milliwatts"] = Field(default="watts", description="Unit.")


class EnergySeries(MeasuredSeries):
    """A counter of the energy."""

    unit: Literal["joules", "millijoules", "microjoules"] = Field(default="joules", description="Unit.")


class DurationSeries(MeasuredSeries):
    """A metric of a time span."""

    unit: Literal["seconds"] = Field(default="seconds", description="Unit.")


class ErrorSeries(MeasuredSeries):
    """A metric of errors of a device."""

    means: Literal["count", "code", "healthy"] = Field(
        description="What its value is: a count that grows with each error, the code of the last error (0 is "
        "none), or 1 while the device is healthy.",
        examples=["code"],
    )


class SeriesLabels(Block):
    """The labels of an exporter's series. Of several, the first that a series has counts."""

    device: list[rules.SeriesLabel] = Field(default=[], description="Identity of the device.", examples=[["UUID"]])
    partition: list[rules.SeriesLabel] = Field(
        default=[], description="Partition of the device.", examples=[["GPU_I_ID"]]
    )
    index: list[rules.SeriesLabel] = Field(
        default=[], description="Number of the device on its node.", examples=[["gpu"]]
    )
    model: list[rules.SeriesLabel] = Field(default=[], description="Type of the device.", examples=[["modelName"]])
    node: list[rules.SeriesLabel] = Field(default=[], description="Node.", examples=[["Hostname", "hostname"]])
    namespace: list[rules.SeriesLabel] = Field(
        default=[], description="Namespace of the pod that has the device.", examples=[["namespace"]]
    )
    pod: list[rules.SeriesLabel] = Field(
        default=[], description="Pod that has the device.", examples=[["pod", "pod_name"]]
    )
    container: list[rules.SeriesLabel] = Field(
        default=[], description="Container that has the device.", examples=[["container", "container_name"]]
    )


class OwnerSeries(Block):
    """The metric that says which pod has a device, where the others do not. It names devices as they do."""

    name: rules.SeriesName = Field(description="Name of the metric.", examples=["mlu_container"])


class ExporterMetrics(Block):
    """The metrics of an exporter for Prometheus. Of several for a quantity, the first that a device has counts."""

    port: rules.Port | None = Field(default=None, description="Port of the exporter.", examples=[9400])
    prefix: rules.SeriesName | None = Field(
        default=None, description="What the names of all metrics start with, where it is configured.", examples=["amd_"]
    )
    labels: SeriesLabels = optional(SeriesLabels, "Labels of the series.")
    owner: OwnerSeries | None = Field(
        default=None, description="Metric with the pod of a device. By default, each series has it."
    )
    utilization: list[UtilizationSeries] = Field(default=[], description="How much of a device is used.")
    efficiency: list[UtilizationSeries] = Field(default=[], description="How much of a device's matrix units is used.")
    memory_used: list[MemorySeries] = Field(default=[], description="Memory in use.")
    memory_free: list[MemorySeries] = Field(default=[], description="Free memory.")
    memory_total: list[MemorySeries] = Field(
        default=[], description="Memory of the device. By default, what is in use and what is free."
    )
    temperature: list[TemperatureSeries] = Field(default=[], description="Temperature.")
    power: list[PowerSeries] = Field(default=[], description="Power.")
    energy: list[EnergySeries] = Field(default=[], description="Energy since some moment.")
    idle: list[DurationSeries] = Field(default=[], description="Time since the device was last used.")
    errors: list[ErrorSeries] = Field(default=[], description="Errors of the device.")


class Partitions(Block):
    """The partitions of a device, such as those of MIG."""

    resource: rules.PartitionResource = Field(
        description="Extended resource of a partition, with {partition} for its name.",
        examples=["nvidia.com/mig-{partition}"],
    )
    names: rules.Pattern = Field(description="What the names of partitions are.", examples=[r"[1-9]g\.[0-9]+gb"])
    most: rules.PositiveCount | None = Field(default=None, description="How many a pod can have.", examples=[1])
    noun: rules.ShortText = Field(description="Plural, as messages name them.", examples=["MIG partitions"])
    singular: rules.ShortText = Field(description="One of them.", examples=["MIG partition"])


class ShareCores(Block):
    """The compute of a share, in percent of a device."""

    resource: rules.ExtendedResource = Field(description="Extended resource.", examples=["nvidia.com/gpucores"])
    listed: rules.Boolean = Field(default=True, description="Whether nodes list it among their resources.")


class ShareMemory(Block):
    """The memory of a share."""

    resource: rules.ExtendedResource = Field(description="Extended resource.", examples=["nvidia.com/gpumem"])
    unit: rules.MemoryUnit = Field(description="Memory that one of its amounts is.", examples=["Mi"])
    sizes: list[rules.PositiveCount] = Field(
        default=[], description="The only amounts that the hardware has.", examples=[[24576, 49152]]
    )
    listed: rules.Boolean = Field(default=True, description="Whether nodes list it among their resources.")


class ShareMeans(Block):
    """What a container requests for a share of a device."""

    devices: rules.ExtendedResource | None = Field(
        default=None, description="Resource of the number of shares.", examples=["nvidia.com/gpu"]
    )
    memory: ShareMemory = Field(description="Memory of the share.")
    cores: ShareCores | None = Field(default=None, description="Compute of the share.")
    quota: list[rules.QuotaKey] = Field(
        default=[],
        description="Further keys of quotas for the memory, which only the scheduler of the backend enforces.",
        examples=[["limits.nvidia.com/gpumem"]],
    )
    scheduler: rules.DnsSubdomain | None = Field(
        default=None, description="Scheduler that pods with a share need.", examples=["volcano"]
    )
    metrics: ExporterMetrics = optional(ExporterMetrics, "Metrics of the exporter that measures shares.")


class MemoryLabel(Block):
    """The label of nodes with the memory of their devices."""

    label: rules.LabelKey = Field(description="Label of nodes.", examples=["nvidia.com/gpu.memory"])
    unit: rules.MemoryUnit = Field(description="Unit of its number.", examples=["Mi"])
    suffix: str = Field(default="", description="Text after the number.", examples=["G"])
    sizes: list[rules.PositiveCount] = Field(
        default=[],
        description="Numbers that occur. Needed with a suffix, as Kubernetes only compares whole numbers.",
        examples=[[32, 64]],
    )

    @model_validator(mode="after")
    def _comparable(self) -> MemoryLabel:
        if self.suffix and not self.sizes:
            raise rules.section_error("a suffix needs sizes", "Add the numbers that occur as sizes", "sizes")
        return self


class ProfileLabels(Block):
    """The labels that the vendor's software sets on nodes."""

    present: list[rules.LabelKey] = Field(
        default=[],
        description="Labels that are true on nodes with such devices, also where the device plugin is missing.",
        examples=[["nvidia.com/gpu.present"]],
    )
    product: rules.LabelKey | None = Field(
        default=None, description="Type of the devices.", examples=["nvidia.com/gpu.product"]
    )
    memory: MemoryLabel | None = Field(default=None, description="Memory of a device.")
    count: rules.LabelKey | None = Field(
        default=None, description="Number of devices.", examples=["nvidia.com/gpu.count"]
    )
    driver: rules.LabelKey | None = Field(
        default=None, description="Version of the driver.", examples=["nvidia.com/cuda.driver-version.full"]
    )
    runtime: rules.LabelKey | None = Field(
        default=None, description="Version of the runtime.", examples=["nvidia.com/cuda.runtime-version.full"]
    )
    domain: rules.LabelKey | None = Field(
        default=None, description="Domain of fast links between nodes.", examples=["nvidia.com/gpu.clique"]
    )


class DeviceMark(Block):
    """A label or annotation of nodes that says what the devices that they list are."""

    label: rules.LabelKey | None = Field(
        default=None, description="Label of nodes.", examples=["nvidia.com/gpu.sharing-strategy"]
    )
    annotation: rules.LabelKey | None = Field(
        default=None, description="Annotation of nodes.", examples=["hami.io/node-nvidia-register"]
    )
    pattern: rules.Pattern | None = Field(
        default=None, description="What its value is. By default, anything.", examples=["time-slicing|mps"]
    )
    counts_as: Literal["partitions", "shares", "broken"] = Field(description="What the devices are then.")

    @model_validator(mode="after")
    def _one_key(self) -> DeviceMark:
        if (self.label is None) == (self.annotation is None):
            raise rules.section_error("needs a label or an annotation", "Add one of them")
        return self


class Division(Block):
    """How the vendor's software learns to divide the devices of a node."""

    label: rules.LabelKey = Field(description="Label of nodes that it reads.", examples=["nvidia.com/mig.config"])
    value: rules.ShortText = Field(
        default="{value}",
        description="Value of the label, with {value} for what the pool declares.",
        examples=["time-slicing-{value}"],
    )
    shows: dict[rules.LabelKey, rules.ShortText] = Field(
        default_factory=dict,
        description="Labels that it sets on nodes once they are divided so.",
        examples=[{"nvidia.com/mig.config.state": "success"}],
    )


class Divisions(Block):
    """The ways in which pools divide devices."""

    time_slicing: Division | None = Field(default=None, description="Several pods take turns on a device.")
    mps: Division | None = Field(default=None, description="Several pods compute on a device at the same time.")
    mig: Division | None = Field(default=None, description="Partitions by the name of a configuration.")


class NodeFault(Block):
    """A label of nodes by which the vendor's software says that something is wrong."""

    label: rules.LabelKey = Field(description="Label of nodes.", examples=["nvidia.com/mig.config.state"])
    pattern: rules.Pattern = Field(description="What its value is then.", examples=["failed"])
    problem: rules.ShortText = Field(description="What is wrong.", examples=["the MIG configuration failed"])
    hint: rules.ShortText = Field(
        description="What an administrator does about it.", examples=["See the logs of nvidia-mig-manager."]
    )


class PodNeeds(Block):
    """What pods with the accelerator have."""

    runtime_class: rules.DnsSubdomain | None = Field(default=None, description="RuntimeClass.", examples=["nvidia"])
    env: dict[rules.EnvName, str] = Field(default_factory=dict, description="Environment variables.")
    annotations: dict[rules.LabelKey, str] = Field(default_factory=dict, description="Annotations.")
    labels: dict[rules.LabelKey, str] = Field(default_factory=dict, description="Labels.")


class CommunicationLibrary(Block):
    """The library by which the processes of a training communicate."""

    name: rules.ShortText = Field(description="Name of the library.", examples=["NCCL"])
    torch_backend: rules.ShortText | None = Field(
        default=None, description="Backend of torch.distributed.", examples=["nccl"]
    )
    socket_variable: rules.EnvName | None = Field(
        default=None,
        description="Environment variable with the network interface. By default, NCCL_SOCKET_IFNAME.",
        examples=["HCCL_SOCKET_IFNAME"],
    )


class ImageMarks(Block):
    """How images for the accelerator are known."""

    repositories: list[rules.ShortText] = Field(
        default=[], description="Repositories, with * for any text.", examples=[["nvcr.io/*"]]
    )
    words: list[rules.ShortText] = Field(
        default=[], description="Words in the name or tag of an image.", examples=[["cuda"]]
    )


class ClaimedPartitions(Block):
    """The partitions of a device, as a driver of Dynamic Resource Allocation offers them."""

    device_class: rules.DnsSubdomain | None = Field(
        default=None,
        description="DeviceClass of partitions. By default, that of the pool.",
        examples=["mig.nvidia.com"],
    )
    values: dict[rules.DeviceAttribute, str | int | bool] = Field(
        default_factory=dict, description="Attributes of all partitions.", examples=[{"type": "mig"}]
    )
    attribute: rules.DeviceAttribute = Field(
        description="Attribute with the name of the partition.", examples=["profile"]
    )


class ClaimedDevices(Block):
    """The devices, as a driver of Dynamic Resource Allocation offers them."""

    driver: rules.DnsSubdomain = Field(description="Name of the driver.", examples=["gpu.nvidia.com"])
    values: dict[rules.DeviceAttribute, str | int | bool] = Field(
        default_factory=dict, description="Attributes of all whole devices.", examples=[{"type": "gpu"}]
    )
    product: rules.DeviceAttribute | None = Field(
        default=None, description="Attribute with the type.", examples=["productName"]
    )
    memory: rules.DeviceAttribute | None = Field(
        default=None, description="Capacity that is the memory.", examples=["memory"]
    )
    partitions: ClaimedPartitions | None = Field(default=None, description="Their partitions.")


class AcceleratorManifest(VersionedManifest):
    """An accelerator: what Kubernetes calls its devices, and what jobs with them need. For administrators."""

    kind: Literal["accelerator"]
    accelerator: AcceleratorSection = Field(description="Name and description.")
    like: rules.ProfileName | None = Field(
        default=None,
        description="Accelerator whose fields hold where this manifest has none. A built-in one of the same name does "
        "by itself.",
        examples=["nvidia"],
    )
    without: list[rules.ShortText] = Field(
        default=[], description="Fields of the other one that do not hold.", examples=[["partitions"]]
    )
    vendor: rules.ShortText | None = Field(default=None, description="Vendor.", examples=["NVIDIA"])
    noun: rules.ShortText | None = Field(default=None, description="Plural, as messages name them.", examples=["GPUs"])
    singular: rules.ShortText | None = Field(default=None, description="One of them.", examples=["GPU"])
    resource: rules.ExtendedResource | None = Field(
        default=None, description="Extended resource of a whole device.", examples=["nvidia.com/gpu"]
    )
    counts: list[rules.PositiveCount] = Field(
        default=[], description="Numbers of devices that a pod can have. By default, any.", examples=[[1, 2, 4, 8]]
    )
    partitions: Partitions | None = Field(default=None, description="Partitions of a device.")
    shares: dict[rules.DnsLabel, ShareMeans] = Field(
        default_factory=dict, description="Ways to share a device, by name. Pools that name none use the first."
    )
    dra: ClaimedDevices | None = Field(
        default=None, description="The devices in pools with a device_class (Dynamic Resource Allocation)."
    )
    slices: rules.ExtendedResource | None = Field(
        default=None, description="Resource of time-sliced devices.", examples=["nvidia.com/gpu.shared"]
    )
    labels: ProfileLabels = optional(ProfileLabels, "Labels of nodes.")
    nodes: list[DeviceMark] = Field(
        default=[],
        description="When the devices of a node are partitions or shares. The first mark that applies counts.",
    )
    divisions: Divisions = optional(Divisions, "How pools divide the devices of their nodes.")
    faults: list[NodeFault] = Field(default=[], description="Labels of nodes that say that something is wrong.")
    taints: list[rules.LabelKey] = Field(
        default=[], description="Keys of taints that keep other pods off the nodes.", examples=[["nvidia.com/gpu"]]
    )
    pod: PodNeeds = optional(PodNeeds, "What pods with the accelerator have.")
    library: CommunicationLibrary | None = Field(default=None, description="Communication library.")
    metrics: ExporterMetrics = optional(ExporterMetrics, "Metrics of the exporter.")
    frameworks: list[rules.ShortText] = Field(
        default=[], description="Frameworks that run on it. By default, any.", examples=[["pytorch", "vllm"]]
    )
    images: ImageMarks = optional(ImageMarks, "Images for the accelerator.")
    unconfirmed: list[rules.ShortText] = Field(
        default=[], description="Fields that no source of the vendor confirms.", examples=[["metrics"]]
    )
