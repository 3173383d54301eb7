# SPDX-License-Identifier: BSD-2-Clause
"""The manifest of a policy as types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from ..given_times import seconds_of
from . import rules
from ._pydantic import Field, model_validator
from .manifest_blocks import Block, Section, VersionedManifest, optional
from .problems import enumerated


class HostPathRules(Block):
    """The paths of nodes that jobs may mount."""

    roots: list[rules.AbsolutePath] = Field(
        description="Paths that may be mounted, with all below them. An empty list allows none.",
        examples=[["/data", "/models"]],
    )


class PolicySection(Section):
    """The name and description of a policy, and who answers for it."""

    contact: rules.ShortText | None = Field(
        default=None,
        description="Whom people ask about it. Refusals name it.",
        examples=["gpu-admins@example.com"],
    )


class ImageRules(Block):
    """Where images come from."""

    registries: list[rules.ImagePrefix] = Field(
        description="Registries, or repositories in them. Images of Docker Hub are below docker.io.",
        examples=[["registry.example.com", "docker.io/pytorch"]],
    )


class NetworkRules(Block):
    """With whom the pods of a team may connect. Pods of one namespace always may."""

    namespaces: list[rules.DnsLabel] = Field(
        default=[],
        description="Further namespaces, for connections in both directions.",
        examples=[["monitoring"]],
    )
    cidrs: list[rules.Cidr] = Field(
        default=[], description="Addresses that pods may connect to.", examples=[["10.20.0.0/16"]]
    )
    internet: rules.Boolean = Field(
        default=False, description="Whether pods may connect to every address outside of the private ranges."
    )


class NotebookRules(Block):
    """From when on a notebook counts as idle for gpuctl_idle. The API server does not know what a notebook does."""

    idle_for: rules.IdleTime = Field(
        description="For how long neither its accelerators nor itself must have been used. 5 minutes at "
        "least, and 31 days at most.",
        examples=["8h"],
    )
    below: rules.Ratio = Field(default="0.05", description="The utilization from which on an accelerator is in use.")

    @model_validator(mode="after")
    def _long_enough(self) -> NotebookRules:
        if not 5 * 60 <= (seconds_of(self.idle_for) or 0) <= 31 * 86_400:
            raise rules.section_error(f"idle time out of range: {self.idle_for}", "Use 5m to 31d", "idle_for")
        return self


class TeamRules(Block):
    """What the jobs of a team may use. What is not given is not limited."""

    pools: list[rules.LabelValue] | None = Field(
        default=None,
        description="Pools whose nodes may be used. Pods with accelerators then have to name one.",
        examples=[["training-pool"]],
    )
    gpu_types: list[rules.LabelValue] | None = Field(
        default=None,
        serialization_alias="gpu-types",
        description="GPU types that may be used. Pods with accelerators then have to name one.",
        examples=[["A100-100G"]],
    )
    priorities: list[Literal["high", "medium", "low", "opportunistic"]] | None = Field(
        default=None, description="Priorities that jobs may have.", examples=[["medium", "low"]]
    )
    max_gpus_per_job: rules.Count | None = Field(
        default=None, description="Number of accelerators that all pods of a job may have together.", examples=[16]
    )
    max_gpus: rules.Count | None = Field(
        default=None,
        description="Number of accelerators of each kind that all jobs may have together, in all pools. Needs a team "
        "with one namespace, because Kubernetes counts by namespace.",
        examples=[32],
    )
    max_gpus_in_namespaces: dict[rules.DnsLabel, rules.Count] | None = Field(
        default=None,
        description="The same for a team with several namespaces: the number of each of them.",
        examples=[{"vision": 24, "vision-dev": 8}],
    )
    max_gpus_in_pools: dict[rules.LabelValue, rules.Count] | None = Field(
        default=None,
        description="The same by pool, for a team with one namespace. Kubernetes counts by resource, so no two of the "
        "pools of the team may have the same kind of accelerators.",
        examples=[{"training-pool": 24, "ascend-pool": 8}],
    )
    service_accounts: list[rules.DnsSubdomain] | None = Field(
        default=None, description="Service accounts that pods may run as.", examples=[["default"]]
    )
    image_pull_secrets: list[rules.DnsSubdomain] | None = Field(
        default=None, description="Secrets with registry credentials that pods may use.", examples=[["gpuctl-registry"]]
    )
    service_types: list[Literal["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]] | None = Field(
        default=None, description="Types that Services may have.", examples=[["ClusterIP"]]
    )
    pod_security: Literal["privileged", "baseline", "restricted"] | None = Field(
        default=None, description="Pod Security Standard that the namespaces enforce.", examples=["baseline"]
    )
    network: NetworkRules | None = Field(
        default=None, description="Limits connections by a NetworkPolicy, for network plugins that enforce them."
    )
    notebooks: NotebookRules | None = Field(
        default=None,
        description="When notebooks count as idle. Nothing enforces it but gpuctl_idle, which warns of idle notebooks "
        "and pauses them.",
        examples=[{"idle_for": "8h", "below": 0.05}],
    )


class PolicyTeam(TeamRules):
    """The namespaces of a team, and what differs from the defaults."""

    namespaces: list[rules.DnsLabel] = Field(
        default=[],
        description="Namespaces of the team. By default, the one with the name of the team.",
        examples=[["vision", "vision-dev"]],
    )


class LabelRules(Block):
    """Who may set the labels by which gpuctl knows its objects, runwhere.ai/...: accounts with a level."""

    pods: rules.Boolean = Field(
        default=False, description="Limits those of pods and workloads to accounts that submit jobs."
    )
    nodes: rules.Boolean = Field(
        default=False,
        description="Limits those of nodes to administrators. A kubelet cannot set them on its node then.",
    )


class Policy(VersionedManifest):
    """What an administrator allows the authors of jobs.

    gpuctl_policy makes the API server enforce it. gpuctl_job obeys it in any case, also one that is only in a file.
    """

    kind: Literal["policy"]
    policy: Annotated[PolicySection, rules.Aliases("metadata")] = Field(description="Name, description and contact.")
    action: Literal["deny", "warn", "audit"] = Field(
        default="deny", description="What the API server does with objects that break a rule."
    )
    host_paths: HostPathRules | None = Field(
        default=None, description="Paths of nodes that pods may mount. By default, all but system paths."
    )
    images: ImageRules | None = Field(default=None, description="Images that may run. By default, all.")
    host_network: rules.Boolean = Field(
        default=False, description="Whether pods may use the network of the node, its ports, processes and IPC."
    )
    privileged: rules.Boolean = Field(
        default=False,
        description="Whether containers may be privileged, or have capabilities beyond those of the Pod Security "
        "Standard baseline and IPC_LOCK, which RDMA needs.",
    )
    labels: LabelRules = optional(LabelRules, "Who may set the labels of gpuctl.")
    defaults: TeamRules = optional(TeamRules, "What applies to all teams.")
    teams: dict[rules.DnsLabel, PolicyTeam] = Field(
        default_factory=dict,
        description="The teams whose namespaces the policy is for. All others are left alone.",
        examples=[{"vision": {"pools": ["training-pool"], "max_gpus_per_job": 16}}],
    )

    @model_validator(mode="after")
    def _one_team_for_a_namespace(self) -> Policy:
        owners: dict[str, str] = {}
        for name, team in self.teams.items():
            for namespace in team.namespaces or [name]:
                if other := owners.get(namespace):
                    hint = f"It belongs to team {other} already. Remove it from one of them"
                    raise rules.section_error(f"duplicate namespace: {namespace}", hint, "teams", name)
                owners[namespace] = name
        return self

    @model_validator(mode="after")
    def _countable(self) -> Policy:
        for name, team in self.teams.items():
            for problem, hint in _uncountable(name, team, self.defaults):
                raise rules.section_error(problem, hint, "teams", name)
        return self


def _uncountable(name: str, team: PolicyTeam, defaults: TeamRules) -> Iterator[tuple[str, str]]:
    """The limits of a team that the API server could not enforce: what is wrong, and what to do."""
    namespaces = team.namespaces or [name]
    limits = ("max_gpus", "max_gpus_in_namespaces", "max_gpus_in_pools")
    given = [each for each in limits if getattr(team, each) is not None]
    if len(given) > 1:
        yield f"{enumerated(given, 'and')} of one team", "Keep one of them"
        return
    source = team if given else defaults
    if source.max_gpus is not None and len(namespaces) > 1:
        hint = "Kubernetes counts by namespace: divide the number, with max_gpus_in_namespaces"
        yield f"max_gpus for {len(namespaces)} namespaces: {enumerated(namespaces, 'and')}", hint
    if (by_namespace := source.max_gpus_in_namespaces) is not None and set(by_namespace) != set(namespaces):
        wrong = sorted(set(by_namespace) ^ set(namespaces))
        yield f"max_gpus_in_namespaces for others than those of the team: {wrong[0]}", "Give each namespace its number"
    if (by_pool := source.max_gpus_in_pools) is not None:
        pools = defaults.pools if team.pools is None else team.pools
        if len(namespaces) > 1:
            hint = "Kubernetes counts by namespace: give the team one namespace, or the pools a queue"
            yield f"max_gpus_in_pools for {len(namespaces)} namespaces: {enumerated(namespaces, 'and')}", hint
        elif set(by_pool) != set(pools or ()):
            wrong = sorted(set(by_pool) ^ set(pools or ()))
            yield f"max_gpus_in_pools for others than the pools of the team: {wrong[0]}", "Give each pool its number"
