# SPDX-License-Identifier: BSD-2-Clause
"""The manifests of jobs as types."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from . import rules
from ._pydantic import AfterValidator, Field, model_validator
from .job_blocks import JobManifest, JobSection, Placement, Resources, Service
from .manifest_blocks import Block, optional


class TrainingJobSection(JobSection):
    """Identifies the training."""

    sweep: rules.Name | None = Field(
        default=None,
        description="Label to select related trainings by. A matrix sets it to the job name by default.",
        examples=["lr-search"],
    )


class TrainingResources(Resources):
    """The resources of each node of a training, and the number of nodes."""

    node_count: rules.NodeCount = Field(
        default=1, description="Number of nodes. If above 1, the training is distributed."
    )

    @model_validator(mode="after")
    def _whole_devices_over_nodes(self) -> TrainingResources:
        if self.node_count == 1:
            return self
        if self.gpu_share is not None and not self.gpu:
            hint = "Use gpu, or one node: shared GPUs do not communicate"
            raise rules.section_error("a shared GPU on several nodes", hint, "gpu_share")
        # No peer-to-peer transfers between MIG instances (NVIDIA, "MIG User Guide").
        if self.partition is not None:
            hint = "Use whole GPUs, or one node: partitions do not communicate"
            raise rules.section_error("partitions on several nodes", hint, "partition")
        return self


class Distributed(Block):
    """The settings of a distributed training."""

    backend: Literal["torchrun", "deepspeed"] = Field(
        default="torchrun", description="Launcher of a Python script with several GPUs or nodes if launcher names none."
    )
    launcher: Literal["torchrun", "deepspeed", "accelerate", "mpi", "msrun", "jax", "ray", "none"] | None = Field(
        default=None,
        description="Program that starts the command as a group of processes, one for each GPU. By default, backend "
        "or the launcher of the framework starts a Python script with several GPUs or nodes. Commands that begin with "
        "a launcher keep theirs. With none, the command runs once on each node.",
        examples=["torchrun"],
    )
    master_port: rules.Port = Field(default=29500, description="Port on the first node for the rendezvous.")
    socket_ifname: rules.InterfaceName = Field(
        default="eth0", description="Network interface for NCCL.", examples=["eth0", "ib0"]
    )
    deepspeed: Literal["zero2", "zero3"] | None = Field(default=None, description="DeepSpeed configuration to mount.")
    placement: Annotated[Placement, rules.ShortForm("machines")] = optional(
        Placement, "Where the nodes are placed.", examples=["pack", {"within": "rack", "required": True}]
    )
    rank_table: rules.Boolean = Field(
        default=False,
        description="Whether to wait for the rank table of HCCL, which the operator of Ascend writes, and to mount it.",
    )


class ReplicatedService(Service):
    """The Service of the job, and its number of replicas."""

    replicas: rules.Count = Field(default=1, description="Number of replicas.")


class InferenceService(ReplicatedService):
    """The Service of the inference job. Models load slowly, so the startup timeout is half an hour."""

    startup_timeout: rules.StartupTimeout | None = Field(
        default=1800,
        description="Seconds from the start of the container until the health check must succeed: the time to load the "
        "model. The time to pull the image does not count.",
    )


class NotebookService(Service):
    """The Service of the notebook."""

    port: rules.Port = Field(default=8888, description="Port that the notebook server listens on.")
    health_check: rules.HttpPath | None = Field(
        default=None,
        description="HTTP path for the probes. Without it, the notebook is ready once its port accepts connections.",
        examples=["/api"],
    )


DEFAULT_TARGETS = {"cpu": "80", "gpu_utilization": "80"}
ParameterValues: TypeAlias = Annotated[list[str], AfterValidator(rules.non_empty), AfterValidator(rules.unique())]


class Autoscaling(Block):
    """Scaling by load instead of a fixed number of replicas."""

    # Not 0: that needs the feature gate HPAScaleToZero (pkg/apis/autoscaling/validation).
    min_replicas: rules.PositiveCount = Field(default=1, description="Minimum number of replicas.")
    max_replicas: rules.PositiveCount = Field(description="Maximum number of replicas.", examples=[8])
    metric: rules.MetricName = Field(
        default="cpu",
        description="Metric: cpu (percent), gpu_utilization (percent), or the name of a Pods metric.",
        examples=["cpu", "gpu_utilization", "vllm:num_requests_waiting"],
    )
    target: rules.Target = Field(
        default="",
        description="Target average per replica. The default for cpu and gpu_utilization is 80.",
        examples=[80, "10"],
    )

    @model_validator(mode="before")
    @classmethod
    def _default_target(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("target") is None:
            default = DEFAULT_TARGETS.get(values.get("metric") or "cpu")
            return values if default is None else {**values, "target": default}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Autoscaling:
        if self.min_replicas > self.max_replicas:
            problem = f"min_replicas is greater than max_replicas: {self.min_replicas} > {self.max_replicas}"
            raise rules.section_error(problem, "Use at most max_replicas", "min_replicas")
        if not self.target:
            problem = f"metric without a default target: {self.metric}"
            raise rules.section_error(problem, "Add the average per replica as target", "target")
        if self.metric == "cpu" and not (self.target.isdecimal() and int(self.target) <= rules.MAX_INTEGER):
            raise rules.section_error(f"not a whole percentage: {self.target}", "Use a number such as 80", "target")
        return self


class Training(JobManifest):
    """A job that runs to completion on one or more nodes."""

    kind: Literal["training"]
    job: TrainingJobSection
    resources: TrainingResources
    distributed: Distributed = optional(Distributed, "Settings of distributed training.")
    matrix: Annotated[dict[rules.ParameterName, ParameterValues], AfterValidator(rules.limited_combinations)] = Field(
        default_factory=dict,
        description="Parameters of a sweep: one training per combination. $(matrix.<name>) stands for a value.",
        examples=[{"lr": ["1e-4", "3e-5"], "seed": [1, 2]}],
    )


class Inference(JobManifest):
    """A service that serves a model."""

    kind: Literal["inference"]
    service: InferenceService = optional(InferenceService, "Service of the model.")
    autoscaling: Autoscaling | None = Field(default=None, description="Scaling by load. Replaces service.replicas.")


class Notebook(JobManifest):
    """An interactive environment."""

    kind: Literal["notebook"]
    service: NotebookService = optional(NotebookService, "Service of the notebook.")


class Compute(JobManifest):
    """A general service, such as nginx or redis."""

    kind: Literal["compute"]
    service: ReplicatedService = optional(ReplicatedService, "Service of the job.")
