# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The manifests as types: one class per kind and per block, snake_case attributes, frozen.

These classes are the one home of fields, defaults and rules. `serialization_alias` is the spelling a manifest is
documented in; every other spelling is brought to the attribute's name before a model sees it (spelling.py), unknown
keys are found there too. Values arrive as the text the user wrote. The JSON Schemas are generated from here.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from ..labels import DEFAULT_POOL, RESERVED_POOLS
from ._pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from .rules import (
    AbsolutePath,
    Aliases,
    Amount,
    AmountLimit,
    Boolean,
    Count,
    CpuLimit,
    CpuQuantity,
    DefaultEntry,
    DnsLabel,
    DnsSubdomain,
    EnvName,
    GpuType,
    HttpPath,
    Image,
    InterfaceName,
    LabelValue,
    MapForm,
    MetricName,
    MountPath,
    Name,
    NamesForm,
    NoPlaceholder,
    OneOrMany,
    ParameterName,
    Port,
    PositiveCount,
    QuotaNamespace,
    Target,
    Version,
    limited_combinations,
    non_empty,
    section_error,
    unique,
)
from .secrets import redact_arguments


class Block(BaseModel):
    """A part of a manifest. Unknown keys are refused here as well, for models built without load()."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class JobSection(Block):
    """Which job this is."""

    name: Annotated[Name, NoPlaceholder()] = Field(
        description="Name of the job and of the objects made for it.", examples=["qwen2-7b-sft"]
    )
    priority: Literal["high", "medium", "low"] = Field(
        default="medium", description="Which jobs go first when GPUs are short."
    )
    description: str | None = Field(default=None, description="What the job is for; kept as an annotation.")
    namespace: DnsLabel | None = Field(
        default=None, description="Namespace of the job; wins over the module's namespace option.", examples=["team-a"]
    )


class TrainingJobSection(JobSection):
    """Which training this is."""

    sweep: Name | None = Field(
        default=None,
        description="Trainings that belong together, a label to select them by; a matrix sets its own name.",
        examples=["lr-search"],
    )


class KeyRef(Block):
    """A key of a Secret or ConfigMap."""

    name: DnsSubdomain = Field(description="Name of the Secret or ConfigMap.", examples=["hub"])
    key: str = Field(description="Key in it.", examples=["token"])
    optional: Boolean | None = Field(default=None, description="Start without the variable where the key is missing.")


class FieldRef(Block):
    """A field of the pod itself."""

    field_path: str = Field(serialization_alias="fieldPath", description="Field of the pod.", examples=["status.podIP"])
    api_version: str | None = Field(default=None, serialization_alias="apiVersion", description="Version of the path.")


class ResourceFieldRef(Block):
    """A resource of a container."""

    resource: str = Field(description="Resource, such as limits.cpu.", examples=["limits.memory"])
    container_name: str | None = Field(
        default=None, serialization_alias="containerName", description="Container; ours is main."
    )
    divisor: Amount | None = Field(default=None, description="Unit to count in.", examples=["1Mi"])


class ValueFrom(Block):
    """Where Kubernetes finds a variable's value; exactly one."""

    secret_key_ref: KeyRef | None = Field(
        default=None, serialization_alias="secretKeyRef", description="Key of a Secret."
    )
    config_map_key_ref: KeyRef | None = Field(
        default=None, serialization_alias="configMapKeyRef", description="Key of a ConfigMap."
    )
    field_ref: FieldRef | None = Field(default=None, serialization_alias="fieldRef", description="Field of the pod.")
    resource_field_ref: ResourceFieldRef | None = Field(
        default=None, serialization_alias="resourceFieldRef", description="Resource of a container."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> ValueFrom:
        if len(self.model_fields_set) != 1:
            raise section_error(
                "needs exactly one source", "Use one of secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef"
            )
        return self


if TYPE_CHECKING:
    KubernetesValueFrom = dict[str, Any]
else:
    # Validated as a block, handed on as the EnvVarSource it is in Kubernetes.
    KubernetesValueFrom = Annotated[
        ValueFrom, AfterValidator(lambda source: source.model_dump(by_alias=True, exclude_none=True))
    ]


class EnvVar(Block):
    """An environment variable: a value, or a reference to where Kubernetes finds it. Never shows its value."""

    name: EnvName = Field(description="Name of the variable.", examples=["HF_HOME"])
    value: str | None = Field(default=None, description="Value; numbers and booleans become text.", repr=False)
    value_from: KubernetesValueFrom | None = Field(
        default=None,
        serialization_alias="valueFrom",
        description="Where the value comes from instead: a Secret, a ConfigMap, the pod.",
        examples=[{"secretKeyRef": {"name": "hub", "key": "token"}}],
    )

    @model_validator(mode="after")
    def _one_source(self) -> EnvVar:
        if self.value is not None and self.value_from is not None:
            raise section_error("value and valueFrom are mutually exclusive", "Keep one of them", "value_from")
        return self


class Environment(Block):
    """What runs, and in which image."""

    image: Image = Field(description="Container image.", examples=["registry.example.com/llama-factory:v0.8.0"])
    image_pull_secrets: Annotated[
        list[DnsSubdomain], OneOrMany(), Aliases(("image_pull_secret",)), AfterValidator(unique())
    ] = Field(
        default=[],
        serialization_alias="imagePullSecret",
        description="Secret, or secrets, with the registry's credentials.",
        examples=["my-secret", ["my-secret", "mirror"]],
    )
    command: list[str] = Field(
        default=[],
        description="Program to start with its arguments, one list item each; none: the image's entrypoint.",
        examples=[["python", "train.py", "--learning_rate", "2e-5"]],
    )
    args: list[str] = Field(default=[], description="Arguments for the command, one list item each.")
    env: Annotated[list[EnvVar], MapForm("name", "value"), AfterValidator(unique("name"))] = Field(
        default=[],
        description="Environment variables: a list of name and value (or valueFrom), or a map from name to value.",
        examples=[[{"name": "HF_HOME", "value": "/cache/hf"}], {"HF_HOME": "/cache/hf"}],
    )
    workdir: AbsolutePath | None = Field(
        default=None, description="Directory the command starts in.", examples=["/workspace"]
    )

    def __repr_args__(self) -> Any:
        # One line of both: a flag may end the command and its value begin the args.
        line = redact_arguments([*self.command, *self.args])
        shown = {"command": line[: len(self.command)], "args": line[len(self.command) :]}
        for name, value in super().__repr_args__():
            yield name, shown.get(name or "", value)


class Resources(Block):
    """What a pod of the job gets; requests and limits are the same."""

    pool: LabelValue = Field(
        default=DEFAULT_POOL, description="Pool of nodes to run in; default: nodes without a pool."
    )
    gpu: Count = Field(default=0, description="Whole GPUs per node.", examples=[4])
    gpu_type: GpuType = Field(
        default=None, serialization_alias="gpu-type", description="GPU type the node must have.", examples=["A100-100G"]
    )
    gpu_share: Amount | None = Field(
        default=None,
        serialization_alias="gpu-share",
        description="GPU memory of a shared GPU, rounded up to whole GiB. Not used beside gpu > 0.",
        examples=["2Gi"],
    )
    cpu: CpuQuantity = Field(description="CPU cores.", examples=[8, "500m"])
    memory: Amount = Field(description="Memory.", examples=["32Gi"])


class TrainingResources(Resources):
    """What each node of a training gets, and how many nodes there are."""

    node_count: PositiveCount = Field(default=1, description="Number of nodes; more than one is distributed training.")


class Workdir(Block):
    """A directory (or file) of the node, or a volume claim, mounted at the same path in the container."""

    path: MountPath = Field(description="Path on the node and in the container.", examples=["/models/qwen2-7b"])
    type: (
        Literal["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"] | None
    ) = Field(default=None, description="What the path must be on the node; normally found from the path itself.")
    read_only: Boolean = Field(default=False, description="Mount without the right to write.")
    claim: DnsSubdomain | None = Field(
        default=None,
        description="PersistentVolumeClaim to mount there instead of the node's directory.",
        examples=["models"],
    )

    @model_validator(mode="after")
    def _claim_has_no_type(self) -> Workdir:
        if self.claim is not None and self.type is not None:
            raise section_error("type does not apply to a claim", "Remove it", "type")
        return self


class Storage(Block):
    """What is mounted into the container."""

    workdirs: Annotated[list[Workdir], AfterValidator(unique("path", posixpath.normpath))] = Field(
        default=[], description="Directories, files and claims to mount."
    )
    shm: Amount | None = Field(
        default=None, description="Size of /dev/shm; half the memory for trainings with GPUs.", examples=["16Gi"]
    )

    @model_validator(mode="after")
    def _one_shared_memory(self) -> Storage:
        if self.shm is not None and any(posixpath.normpath(entry.path) == "/dev/shm" for entry in self.workdirs):
            raise section_error("/dev/shm is also one of the workdirs", "Keep one of them", "shm")
        return self


class Distributed(Block):
    """How the nodes of a distributed training find each other."""

    backend: Literal["torchrun", "deepspeed"] = Field(default="torchrun", description="Launcher the command uses.")
    master_port: Port = Field(default=29500, description="Port of the first node on which the others meet it.")
    socket_ifname: InterfaceName = Field(
        default="eth0", description="Network interface for NCCL.", examples=["eth0", "ib0"]
    )
    deepspeed: Literal["zero2", "zero3"] | None = Field(default=None, description="DeepSpeed configuration to provide.")


class Queue(Block):
    """The queue that admits the job."""

    backend: Literal["none", "kueue", "volcano", "kai"] = Field(
        default="none", description="Queueing system of the cluster."
    )
    name: DnsLabel | None = Field(default=None, description="Name of the queue.", examples=["team-a"])

    @model_validator(mode="after")
    def _backend_needs_queue(self) -> Queue:
        if self.backend == "none" and self.name is not None:
            raise section_error("a queue name needs a backend", "Use kueue, volcano or kai", "backend")
        if self.backend in {"kueue", "kai"} and self.name is None:
            raise section_error(f"{self.backend} needs a queue name", "Add one", "name")
        return self


class Service(Block):
    """How the job is reached."""

    port: Port = Field(default=8000, description="Port the container listens on.")
    health_check: HttpPath | None = Field(
        default=None, description="HTTP path that answers when the job is ready.", examples=["/health"]
    )
    type: Literal["NodePort", "ClusterIP", "LoadBalancer"] = Field(
        default="NodePort", description="Type of the Service."
    )
    startup_timeout: PositiveCount | None = Field(
        default=None, description="Seconds the job may take until its health check answers."
    )


class ReplicatedService(Service):
    """How the job is reached, and how many copies of it run."""

    replicas: Count = Field(default=1, description="Number of copies.")


class InferenceService(ReplicatedService):
    """How the inference is reached; models load slowly, so it has half an hour to start."""

    startup_timeout: PositiveCount | None = Field(
        default=1800, description="Seconds the model may take to load until the health check answers."
    )


class NotebookService(Service):
    """How the notebook is reached."""

    port: Port = Field(default=8888, description="Port the notebook server listens on.")


ParameterValues: TypeAlias = Annotated[list[str], AfterValidator(non_empty), AfterValidator(unique())]

DEFAULT_TARGETS = {"cpu": "80", "gpu_utilization": "80"}


class Autoscaling(Block):
    """Copies by load, instead of a fixed number."""

    min_replicas: PositiveCount = Field(default=1, description="Fewest copies.")
    max_replicas: PositiveCount = Field(description="Most copies.", examples=[8])
    metric: MetricName = Field(
        default="cpu",
        description="What is measured: cpu (per cent), gpu_utilization (per cent), or the name of a Pods metric.",
        examples=["cpu", "gpu_utilization", "vllm:num_requests_waiting"],
    )
    target: Target = Field(
        default="",
        description="Average per copy that is aimed at; 80 for cpu and gpu_utilization.",
        examples=[80, "10"],
    )

    @model_validator(mode="before")
    @classmethod
    def _default_target(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("target") is None:
            default = DEFAULT_TARGETS.get(values.get("metric") or "cpu")
            if default is not None:
                return {**values, "target": default}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Autoscaling:
        if self.min_replicas > self.max_replicas:
            raise section_error(
                f"min_replicas is greater than max_replicas: {self.min_replicas} > {self.max_replicas}",
                "Use at most max_replicas",
                "min_replicas",
            )
        if not self.target:
            raise section_error(
                f"metric without a default target: {self.metric}", "Add the average per replica as target", "target"
            )
        if self.metric == "cpu" and not self.target.isdecimal():
            raise section_error(f"not a whole percentage: {self.target}", "Use a number such as 80", "target")
        return self


class JobManifest(Block):
    """What the four kinds of job have in common."""

    kind: str
    version: Version | None = Field(
        default=None, description="Version of the manifest language.", examples=["v0.1", "v1"]
    )
    job: JobSection
    environment: Environment
    resources: Resources
    storage: Storage = Field(default_factory=Storage, description="What is mounted.")
    queue: Queue = Field(default_factory=Queue, description="The queue that admits the job.")


class Training(JobManifest):
    """A job that runs to its end, on one node or several."""

    kind: Literal["training"]
    job: TrainingJobSection
    resources: TrainingResources
    distributed: Distributed = Field(default_factory=Distributed, description="How the nodes find each other.")
    matrix: Annotated[dict[ParameterName, ParameterValues], AfterValidator(limited_combinations)] = Field(
        default_factory=dict,
        description="Values to try: one training for each combination, with $(matrix.<name>) for a value.",
        examples=[{"lr": ["1e-4", "3e-5"], "seed": [1, 2]}],
    )


class Inference(JobManifest):
    """A model that answers requests."""

    kind: Literal["inference"]
    service: InferenceService = Field(default_factory=InferenceService, description="How the model is reached.")
    autoscaling: Autoscaling | None = Field(
        default=None, description="Copies by load; service.replicas is then not used."
    )


class Notebook(JobManifest):
    """An interactive environment with a disk of its own."""

    kind: Literal["notebook"]
    service: NotebookService = Field(default_factory=NotebookService, description="How the notebook is reached.")


class Compute(JobManifest):
    """A service without GPUs, such as nginx or redis."""

    kind: Literal["compute"]
    service: ReplicatedService = Field(default_factory=ReplicatedService, description="How the service is reached.")


class Section(Block):
    """Name and purpose of a pool or quota."""

    name: DnsLabel = Field(description="Name.", examples=["training-pool"])
    description: str | None = Field(default=None, description="What it is for.")


class PoolNode(Block):
    """What is declared of a node of a pool."""

    gpu_type: GpuType = Field(
        default=None, serialization_alias="gpu-type", description="Type of the node's GPUs.", examples=["A100-100G"]
    )


class Pool(Block):
    """Nodes that belong together."""

    kind: Literal["pool"]
    version: Version | None = Field(
        default=None, description="Version of the manifest language.", examples=["v0.1", "v1"]
    )
    pool: Annotated[Section, Aliases(("metadata",))] = Field(description="Name and purpose.")
    nodes: Annotated[dict[DnsSubdomain, PoolNode], NamesForm()] = Field(
        default_factory=dict,
        description="The nodes: a map from host name to gpu-type, or a list of host names.",
        examples=[{"gpu-node-1": {"gpu-type": "A100-100G"}}, ["gpu-node-1", "gpu-node-2"]],
    )

    @model_validator(mode="after")
    def _not_reserved(self) -> Pool:
        name = self.pool.name
        if name in RESERVED_POOLS:
            raise section_error(
                f"reserved name: {name}", f"It {RESERVED_POOLS[name]}. Use another name", "pool", "name"
            )
        return self


class Limits(Block):
    """What the jobs of one namespace may use together; what is not given is unlimited."""

    cpu: CpuLimit | None = Field(default=None, description="CPU cores.", examples=[10])
    memory: AmountLimit | None = Field(default=None, description="Memory.", examples=["20Gi"])
    gpu: Count | None = Field(default=None, description="Whole GPUs.", examples=[4])
    gpu_share: AmountLimit | None = Field(
        default=None,
        serialization_alias="gpu-share",
        description="Memory of shared GPUs, whole GiB.",
        examples=["40Gi"],
    )
    pods: Count | None = Field(default=None, description="Number of pods.", examples=[20])


class Quota(Block):
    """Limits per namespace."""

    kind: Literal["quota"]
    version: Version | None = Field(
        default=None, description="Version of the manifest language.", examples=["v0.1", "v1"]
    )
    quota: Annotated[Section, Aliases(("metadata",))] = Field(description="Name and purpose.")
    namespaces: Annotated[dict[QuotaNamespace, Limits], Aliases(("users", "namespace")), DefaultEntry("default")] = (
        Field(
            default_factory=dict,
            serialization_alias="users",
            description="Limits per user or namespace; each gets a namespace of its name.",
            examples=[{"team-a": {"cpu": 10, "memory": "20Gi", "gpu": 4}}],
        )
    )


Manifest: TypeAlias = "Training | Inference | Notebook | Compute | Pool | Quota"
KINDS: dict[str, type[Manifest]] = {
    "training": Training,
    "inference": Inference,
    "notebook": Notebook,
    "compute": Compute,
    "pool": Pool,
    "quota": Quota,
}
