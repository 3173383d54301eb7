# SPDX-License-Identifier: BSD-2-Clause
"""The manifest of a quota as types."""

from __future__ import annotations

from typing import Annotated, Literal

from ..accelerators.hardware import DEFAULT_ACCELERATOR
from . import rules
from ._pydantic import Field, model_validator
from .manifest_blocks import Block, Section, VersionedManifest


class GpuHours(Block):
    """A budget of GPU-hours."""

    limit: rules.PositiveCount = Field(description="GPU-hours of a period.", examples=[5000])
    per: Literal["day", "week", "month"] = Field(
        default="month", description="The period, by the calendar in UTC. Weeks begin on Monday."
    )
    warn_at: rules.Percentage = Field(default="80%", description="From which part on the use is warned of.")
    then: Literal["refuse", "low_priority"] = Field(
        default="refuse",
        description="What is done once it is used up, until the next period: no new pod gets GPUs (refuse), or only "
        "those of jobs with priority low (low_priority). What runs goes on.",
    )


class Limits(Block):
    """The resource limits of a namespace. Omitted resources are unlimited."""

    cpu: rules.CpuLimit | None = Field(default=None, description="CPU cores.", examples=[10])
    memory: rules.AmountLimit | None = Field(default=None, description="Memory.", examples=["20Gi"])
    gpu: rules.Count | None = Field(default=None, description="Whole GPUs.", examples=[4])
    gpu_share: rules.AmountLimit | None = Field(
        default=None,
        serialization_alias="gpu-share",
        description="Memory of shared GPUs in whole GiB.",
        examples=["40Gi"],
    )
    gpu_memory: rules.AmountLimit | None = Field(
        default=None,
        serialization_alias="gpu-memory",
        description="Memory of GPUs that HAMi or Volcano share.",
        examples=["80Gi"],
    )
    accelerators: dict[rules.LimitedAccelerator, rules.AmountLimit] = Field(
        default_factory=dict,
        description="Numbers of other accelerators, of their partitions (name/partition), and memory of shared ones "
        "(name/share).",
        examples=[{"ascend": 16, "nvidia/1g.10gb": 7, "ascend/share": "64Gi"}],
    )
    device_classes: dict[rules.DnsSubdomain, rules.Count] = Field(
        default_factory=dict,
        description="Numbers of devices that are claimed, by DeviceClass.",
        examples=[{"gpu.nvidia.com": 8}],
    )
    shares: dict[rules.DnsLabel, rules.Count] = Field(
        default_factory=dict,
        description="GPUs of pools with a queue that are the team's own, by pool. The rest of a pool is everybody's.",
        examples=[{"training-pool": 8}],
    )
    pods: rules.Count | None = Field(default=None, description="Number of pods.", examples=[20])
    gpu_hours: GpuHours | None = Field(
        default=None,
        description="Budget of GPU-hours, which M(gpuctl_budget) counts and enforces.",
        examples=[{"limit": 5000, "per": "month", "warn_at": "80%", "then": "refuse"}],
    )

    @model_validator(mode="after")
    def _each_limit_once(self) -> Limits:
        for name, amount in self.accelerators.items():
            if name == DEFAULT_ACCELERATOR and self.gpu is not None:
                raise rules.section_error("gpu limits the same", "Keep one of them", "accelerators", name)
            # Extended resources are counted in whole numbers (pkg/apis/core/validation, ValidateResourceQuantityValue).
            if not name.endswith("/share") and not rules.is_whole_number(amount):
                problem = f"not a whole number: {amount}"
                raise rules.section_error(problem, "Use a number of devices, such as 4", "accelerators", name)
        return self


class Quota(VersionedManifest):
    """Limits per namespace."""

    kind: Literal["quota"]
    quota: Annotated[Section, rules.Aliases("metadata")] = Field(description="Name and description.")
    pod_security: Literal["privileged", "baseline", "restricted"] | None = Field(
        default=None,
        description="Pod Security Standard that the namespaces enforce. Other than privileged, it forbids host paths, "
        "and with them workdirs without a claim. By default, the namespaces keep theirs.",
        examples=["baseline"],
    )
    namespaces: Annotated[
        dict[rules.QuotaNamespace, Limits], rules.Aliases("users", "namespace"), rules.DefaultEntry("default")
    ] = Field(
        default_factory=dict,
        serialization_alias="users",
        description="Limits per user or namespace. Each user gets a namespace with the same name.",
        examples=[{"team-a": {"cpu": 10, "memory": "20Gi", "gpu": 4}}],
    )
