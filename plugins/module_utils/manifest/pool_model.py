# SPDX-License-Identifier: BSD-2-Clause
"""The manifest of a pool as types."""

from __future__ import annotations

from typing import Annotated, Literal

from ..given_times import seconds_of
from ..labels import RESERVED_POOLS
from . import rules
from ._pydantic import Field, model_validator
from .manifest_blocks import Block, Section, VersionedManifest


class PoolNode(Block):
    """The properties of a node in a pool."""

    gpu_type: rules.GpuType = Field(
        default=None, serialization_alias="gpu-type", description="GPU type of the node.", examples=["A100-100G"]
    )


class QueueSettings(Block):
    """How the jobs of a pool wait for it. Amounts are numbers of GPUs."""

    backend: Literal["kueue", "volcano", "native", "multikueue"] = Field(
        description="Queueing system, which is installed in the cluster; or Kubernetes itself (native), which places "
        "all pods of a training together, without shares of teams. In a pool of the same name in the manager of "
        "several clusters, Kueue hands trainings to one of them (multikueue)."
    )
    borrowing_limit: rules.Count | None = Field(
        default=None,
        description="What a team may use at most beyond its share. By default, all that is free.",
        examples=[8],
    )
    lending_limit: rules.Count | None = Field(
        default=None,
        description="How much of its share others may use at most while a team does not. By default, all of it.",
        examples=[4],
    )
    preemption: Literal["never", "reclaim", "priority"] = Field(
        default="reclaim",
        description="What may stop a running job: nothing (never), a team that needs its share back (reclaim), or also "
        "a job of the same team with a higher priority (priority).",
    )

    @model_validator(mode="after")
    def _without_teams(self) -> QueueSettings:
        extra = sorted(self.model_fields_set - {"backend"})
        if self.backend in ("native", "multikueue") and extra:
            hint = "Remove it, or use kueue or volcano"
            if self.backend == "multikueue":
                hint = "Remove it: the pools of the worker clusters declare it"
            raise rules.section_error(f"{self.backend} has no {extra[0]}", hint, extra[0])
        return self


class Sharing(Block):
    """How many pods share each device of a pool: by turns, or at the same time."""

    time_slicing: rules.SharedBy | None = Field(
        default=None, description="Pods that take turns on a device. Their memory is not limited.", examples=[4]
    )
    mps: rules.SharedBy | None = Field(
        default=None,
        description="Pods that compute on a device at the same time, each with an equal part of its memory.",
        examples=[4],
    )

    @model_validator(mode="after")
    def _one_way(self) -> Sharing:
        if (self.time_slicing is None) == (self.mps is None):
            raise rules.section_error("needs either time_slicing or mps", "Add one of them")
        return self


class TimeLimits(Block):
    """How long the jobs of a pool may run: trainings, and notebooks and services where it says so."""

    default: rules.TimeLimit | None = Field(
        default=None,
        description="Time limit of trainings whose manifest has none. By default, max.",
        examples=["12h"],
    )
    max: rules.TimeLimit | None = Field(
        default=None, description="The longest time limit of trainings.", examples=["3d"]
    )
    notebook_default: rules.TimeLimit | None = Field(
        default=None, description="The same as default, for notebooks.", examples=["8h"]
    )
    notebook_max: rules.TimeLimit | None = Field(
        default=None, description="The same as max, for notebooks.", examples=["1d"]
    )
    service_default: rules.TimeLimit | None = Field(
        default=None, description="The same as default, for inference and compute.", examples=["30d"]
    )
    service_max: rules.TimeLimit | None = Field(
        default=None, description="The same as max, for inference and compute.", examples=["90d"]
    )

    @model_validator(mode="after")
    def _defaults_within_max(self) -> TimeLimits:
        for prefix in ("", "notebook_", "service_"):
            default, most = getattr(self, f"{prefix}default"), getattr(self, f"{prefix}max")
            if default and most and (seconds_of(default) or 0) > (seconds_of(most) or 0):
                problem = f"{prefix}default is longer than {prefix}max: {default} > {most}"
                raise rules.section_error(problem, f"Use at most {prefix}max", f"{prefix}default")
        return self


class NewNodes(Block):
    """What each node has that an autoscaler adds to the pool. It comes with the label runwhere.ai/pool."""

    max: rules.PositiveCount = Field(description="How many nodes the pool has at most.", examples=[8])
    gpu: rules.Count = Field(default=0, description="Number of accelerators.", examples=[8])
    gpu_type: rules.GpuType = Field(
        default=None, serialization_alias="gpu-type", description="GPU type.", examples=["A100-80G"]
    )
    cpu: rules.CpuLimit | None = Field(default=None, description="CPU cores. By default, no limit.", examples=[96])
    memory: rules.AmountLimit | None = Field(
        default=None, description="Memory. By default, no limit.", examples=["1Ti"]
    )


class Pool(VersionedManifest):
    """A set of nodes."""

    kind: Literal["pool"]
    pool: Annotated[Section, rules.Aliases("metadata")] = Field(description="Name and description.")
    nodes: Annotated[dict[rules.DnsSubdomain, PoolNode], rules.NamesForm()] = Field(
        default_factory=dict,
        description="Nodes as a map from node name to gpu-type, or as a list of node names.",
        examples=[{"gpu-node-1": {"gpu-type": "A100-100G"}}, ["gpu-node-1", "gpu-node-2"]],
    )
    accelerator: rules.ProfileName | None = Field(
        default=None,
        description="Accelerator of the nodes, for jobs that name none. By default, nvidia.",
        examples=["ascend"],
    )
    share_backend: rules.DnsLabel | None = Field(
        default=None,
        description="How the nodes share their accelerators, by its name in the accelerator's profile. By default, the "
        "profile's first.",
        examples=["hami"],
    )
    device_class: rules.DnsSubdomain | None = Field(
        default=None,
        description="DeviceClass whose devices jobs claim by Dynamic Resource Allocation, where a driver offers the "
        "accelerators and no device plugin does.",
        examples=["gpu.nvidia.com"],
    )
    sharing: Sharing | None = Field(
        default=None,
        description="How the vendor's software divides each device among several pods. By default, as configured "
        "otherwise.",
        examples=[{"time_slicing": 4}],
    )
    mig: rules.LabelValue | None = Field(
        default=None,
        description="Configuration of the vendor's MIG manager for the nodes. By default, as configured otherwise.",
        examples=["all-1g.10gb"],
    )
    type_aliases: dict[rules.LabelValue, rules.LabelValue] = Field(
        default_factory=dict,
        description="Other names of GPU types: a type of the pool's nodes, or what the vendor's label says.",
        examples=[{"A100": "NVIDIA-A100-SXM4-80GB"}],
    )
    rdma_resource: rules.ExtendedResource | None = Field(
        default=None,
        description="Resource of the nodes' RDMA devices.",
        examples=["rdma/hca_shared_devices_a"],
    )
    rdma_env: dict[rules.EnvName, rules.ShortText] = Field(
        default_factory=dict,
        description="Environment variables of jobs that use RDMA, such as those of NCCL.",
        examples=[{"NCCL_IB_HCA": "mlx5", "NCCL_IB_GID_INDEX": "3"}],
    )
    queue: Annotated[QueueSettings | None, rules.ShortForm("backend")] = Field(
        default=None,
        description="Queue of the pool, where the jobs of all teams wait until it has room for all of their pods. By "
        "default, pods are scheduled one by one.",
        examples=["kueue", {"backend": "kueue", "preemption": "never"}],
    )
    new_nodes: NewNodes | None = Field(
        default=None,
        description="Nodes that a cluster autoscaler or Karpenter adds while pods wait for them. By default, none.",
        examples=[{"max": 8, "gpu": 8, "gpu-type": "A100-80G"}],
    )
    time_limit: TimeLimits | None = Field(
        default=None,
        description="How long jobs may run. By default, without a limit.",
        examples=[{"default": "12h", "max": "3d", "notebook_default": "8h"}],
    )
    topology: dict[rules.DnsLabel, rules.LabelKey] = Field(
        default_factory=dict,
        description="Levels of the network, the widest first, and the labels of nodes that name their place in each.",
        examples=[{"block": "example.com/block", "rack": "topology.kubernetes.io/rack"}],
    )

    @model_validator(mode="after")
    def _not_reserved(self) -> Pool:
        name = self.pool.name
        if name in RESERVED_POOLS:
            hint = f"It {RESERVED_POOLS[name]}. Use another name"
            raise rules.section_error(f"reserved name: {name}", hint, "pool", "name")
        return self

    @model_validator(mode="after")
    def _divided_in_one_way(self) -> Pool:
        if self.sharing and self.mig:
            raise rules.section_error("sharing and mig exclude each other", "Remove one of them", "sharing")
        return self
