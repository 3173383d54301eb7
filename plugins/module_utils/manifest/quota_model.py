# SPDX-License-Identifier: BSD-2-Clause
"""The manifest of a quota as types."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from ..accelerators.hardware import DEFAULT_ACCELERATOR
from ..quantity import parse
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
    then: Literal["refuse", "low_priority", "stop_idle"] = Field(
        default="refuse",
        description="Once used up, until the next period: no new pod gets GPUs (refuse, and stop_idle, which pauses "
        "idle jobs too), or only those of jobs with priority low or opportunistic (low_priority). What runs goes on.",
    )
    accelerators: dict[rules.ProfileName, rules.PositiveCount] = Field(
        default_factory=dict,
        description="Of these GPU-hours, how many may be of an accelerator. Others have no limit of their own.",
        examples=[{"nvidia": 4000, "amd": 2000}],
    )

    @model_validator(mode="after")
    def _parts_of_the_limit(self) -> GpuHours:
        for name, limit in self.accelerators.items():
            if limit > self.limit:
                hint = "Reduce it, or raise limit"
                raise rules.section_error(f"more than limit: {limit}", hint, "accelerators", name)
        return self


class ClusterLimits(Block):
    """The resource limits of a namespace in one cluster. Omitted resources are unlimited."""

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

    @model_validator(mode="after")
    def _each_limit_once(self) -> ClusterLimits:
        for name, amount in self.accelerators.items():
            if name == DEFAULT_ACCELERATOR and self.gpu is not None:
                raise rules.section_error("gpu limits the same", "Keep one of them", "accelerators", name)
            # Extended resources are counted in whole numbers (pkg/apis/core/validation, ValidateResourceQuantityValue).
            if not name.endswith("/share") and not rules.is_whole_number(amount):
                problem = f"not a whole number: {amount}"
                raise rules.section_error(problem, "Use a number of devices, such as 4", "accelerators", name)
        return self

    def amounts(self) -> dict[tuple[str, ...], Fraction]:
        """What is limited, by its place in the manifest."""
        found: dict[tuple[str, ...], Any] = {}
        for name in ClusterLimits.model_fields:
            value = getattr(self, name)
            found |= {(name, key): each for key, each in value.items()} if isinstance(value, dict) else {(name,): value}
        return {place: parse(str(value)).value for place, value in found.items() if value is not None}


class Limits(ClusterLimits):
    """The resource limits of a namespace. Omitted resources are unlimited."""

    gpu_hours: GpuHours | None = Field(
        default=None,
        description="Budget of GPU-hours, which gpuctl_budget counts and enforces.",
        examples=[{"limit": 5000, "per": "month", "warn_at": "80%", "then": "refuse"}],
    )
    opportunistic: rules.Boolean = Field(
        default=False, description="Whether the limits do not count opportunistic jobs.", examples=[True]
    )
    clusters: dict[rules.ClusterName, ClusterLimits] = Field(
        default_factory=dict,
        description="Shares of the limits, by cluster: the name of its host in the inventory. The limits are then "
        "those of all clusters together. Clusters without a share have 0 of what is limited.",
        examples=[{"frankfurt": {"gpu": 32}, "lyon": {"gpu": 32}}],
    )

    @model_validator(mode="after")
    def _clusters_share_the_limits(self) -> Limits:
        # With a scope, a quota counts no claims (MatchesNoScopeFunc).
        if self.opportunistic and any(each.device_classes for each in (self, *self.clusters.values())):
            problem = "not counted by a quota with opportunistic: true"
            raise rules.section_error(problem, "Remove one of them", "device_classes")
        if self.clusters and self.gpu_hours:
            raise rules.section_error("a budget is for one cluster", "Leave out gpu_hours or clusters", "gpu_hours")
        for (name, *key), total in self.amounts().items() if self.clusters else ():
            left = total
            for cluster, share in self.clusters.items():
                amount = share.amounts().get((name, *key))
                if amount is None:
                    problem = f"no share of {'.'.join([name, *key])}, which is limited in all clusters together"
                    raise rules.section_error(problem, "Add it, or 0 for none", "clusters", cluster)
                left -= amount
                if left < 0:
                    limit = getattr(self, name)[key[0]] if key else getattr(self, name)
                    problem = f"the shares of the clusters add up to more than {limit}, the limit of all together"
                    hint = f"Reduce them, or raise {'.'.join([name, *key])}"
                    raise rules.section_error(problem, hint, "clusters", cluster, name, *key)
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
