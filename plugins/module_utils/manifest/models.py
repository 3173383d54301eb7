# SPDX-License-Identifier: BSD-2-Clause
"""The manifests as types: one frozen class per kind and per block, with snake_case attributes.

`serialization_alias` is the documented spelling of a key; the reader converts the others and reports unknown keys.
Values arrive as the text that the user wrote. The JSON Schemas and the manifest guide are generated from this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from ..accelerators import DEFAULT_ACCELERATOR
from ..given_times import seconds_of
from ..labels import DEFAULT_POOL, RESERVED_POOLS
from ..redaction import redact_arguments
from . import rules
from ._pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from .host_paths import normal_path
from .problems import enumerated


class Block(BaseModel):
    """A part of a manifest. Rejects unknown keys too, for models built without load()."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    IGNORED: ClassVar[dict[str, str]] = {}
    """Keys without effect that load with a warning, and what to do instead, as sentences."""


class JobSection(Block):
    """Identifies the job."""

    name: Annotated[rules.Name, rules.NoPlaceholder()] = Field(
        description="Name of the job and of its Kubernetes objects.", examples=["qwen2-7b-sft"]
    )
    priority: Literal["high", "medium", "low"] = Field(
        default="medium", description="Scheduling priority when GPUs are scarce."
    )
    description: rules.Description | None = Field(
        default=None, description="Purpose of the job, stored as an annotation."
    )
    namespace: rules.DnsLabel | None = Field(
        default=None, description="Namespace of the job. Overrides the module's namespace option.", examples=["team-a"]
    )


class TrainingJobSection(JobSection):
    """Identifies the training."""

    sweep: rules.Name | None = Field(
        default=None,
        description="Label to select related trainings by. A matrix sets it to the job name by default.",
        examples=["lr-search"],
    )


class KeyRef(Block):
    """A key of a Secret or ConfigMap."""

    name: rules.DnsSubdomain = Field(description="Name of the Secret or ConfigMap.", examples=["hub"])
    key: rules.ConfigKey = Field(description="Key in the Secret or ConfigMap.", examples=["token"])
    optional: rules.Boolean | None = Field(
        default=None, description="Whether the container can start if the key is missing."
    )


class FieldRef(Block):
    """A field of the pod."""

    field_path: rules.FieldPath = Field(
        serialization_alias="fieldPath", description="Field of the pod.", examples=["status.podIP"]
    )
    api_version: Literal["v1"] | None = Field(
        default=None, serialization_alias="apiVersion", description="API version of the field."
    )


class ResourceFieldRef(Block):
    """A resource of a container."""

    resource: rules.ContainerResource = Field(
        description="Resource, for example limits.cpu.", examples=["limits.memory"]
    )
    container_name: str | None = Field(
        default=None, serialization_alias="containerName", description="Name of the container. The job runs in main."
    )
    divisor: rules.Amount | None = Field(default=None, description="Unit of the value.", examples=["1Mi"])

    @model_validator(mode="after")
    def _supported_divisor(self) -> ResourceFieldRef:
        rules.check_divisor(self.resource, self.divisor)
        return self


class ValueFrom(Block):
    """The source of a variable's value. Exactly one is required."""

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
            hint = "Use one of secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef"
            raise rules.section_error("needs exactly one source", hint)
        return self


if TYPE_CHECKING:
    KubernetesValueFrom = dict[str, Any]
else:
    # Validated as a block, and passed on as a Kubernetes EnvVarSource.
    KubernetesValueFrom = Annotated[
        ValueFrom, AfterValidator(lambda source: source.model_dump(by_alias=True, exclude_none=True))
    ]


class EnvVar(Block):
    """An environment variable with a value or a reference to its source. The value is never displayed."""

    name: rules.EnvName = Field(description="Name of the variable.", examples=["HF_HOME"])
    value: str | None = Field(default=None, description="Value. Numbers and booleans become text.", repr=False)
    value_from: KubernetesValueFrom | None = Field(
        default=None,
        serialization_alias="valueFrom",
        description="Source of the value: a Secret, a ConfigMap, or the pod.",
        examples=[{"secretKeyRef": {"name": "hub", "key": "token"}}],
    )
    secret: rules.Boolean = Field(
        default=False,
        description="Whether to mask the value. Names such as HF_TOKEN need no mark.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> EnvVar:
        if self.value is not None and self.value_from is not None:
            raise rules.section_error("value and valueFrom are mutually exclusive", "Keep one of them", "value_from")
        return self


class RunAs(Block):
    """The user of the container's processes, by number."""

    user: rules.UserId = Field(description="ID of the user, 0 for root.", examples=[1000])
    group: rules.UserId | None = Field(
        default=None, description="ID of the group. By default, the image's.", examples=[1000]
    )
    fs_group: rules.UserId | None = Field(
        default=None,
        description="ID of a further group, which owns the files of PersistentVolumeClaims.",
        examples=[1000],
    )


class Environment(Block):
    """The container image, the command and its environment."""

    image: rules.Image = Field(description="Container image.", examples=["registry.example.com/llama-factory:v0.8.0"])
    framework: rules.Framework | None = Field(
        default=None,
        description="Framework or platform that the image is built for. A job is refused where it does not run.",
        examples=["pytorch", "mindspore", "cann"],
    )
    image_pull_secrets: Annotated[
        list[rules.DnsSubdomain], rules.OneOrMany(), rules.Aliases("image_pull_secret"), AfterValidator(rules.unique())
    ] = Field(
        default=[],
        serialization_alias="imagePullSecret",
        description="One or more Secrets with registry credentials.",
        examples=["my-secret", ["my-secret", "mirror"]],
    )
    command: list[str] = Field(
        default=[],
        description="Command and its arguments as a list. By default, the entrypoint of the image.",
        examples=[["python", "train.py", "--learning_rate", "2e-5"]],
    )
    args: list[str] = Field(default=[], description="Arguments of the command as a list.")
    env: Annotated[list[EnvVar], rules.MapForm("name", "value"), AfterValidator(rules.unique("name"))] = Field(
        default=[],
        description="Environment variables as a list of name and value (or valueFrom), or as a map.",
        examples=[[{"name": "HF_HOME", "value": "/cache/hf"}], {"HF_HOME": "/cache/hf"}],
    )
    workdir: rules.AbsolutePath | None = Field(
        default=None, description="Working directory of the command.", examples=["/workspace"]
    )
    run_as: Annotated[RunAs | None, rules.ShortForm("user")] = Field(
        default=None, description="User of the container's processes. By default, the image's.", examples=[1000]
    )
    allow_sudo: rules.Boolean = Field(
        default=False, description="Whether processes may gain privileges, as sudo and other setuid programs do."
    )
    service_account: rules.DnsSubdomain | None = Field(
        default=None,
        description="Service account whose token the container gets, to use the Kubernetes API.",
        examples=["pipeline"],
    )

    def __repr_args__(self) -> Any:
        # Join both, because a flag can end the command while its value starts the args.
        line = redact_arguments([*self.command, *self.args])
        shown = {"command": line[: len(self.command)], "args": line[len(self.command) :]}
        for name, value in super().__repr_args__():
            yield name, shown.get(name or "", value)


# accelerators.py says what the container requests for those of accelerators, and how everything counts and names it.
class Resources(Block):
    """The resources of each pod. Requests and limits are equal."""

    pool: rules.LabelValue = Field(
        default=DEFAULT_POOL, description="Pool of nodes. The pool default contains all nodes without a pool."
    )
    accelerator: rules.ProfileName | None = Field(
        default=None,
        description="Accelerator that gpu counts. By default, that of the pool, or nvidia.",
        examples=["ascend"],
    )
    gpu: rules.Count = Field(
        default=0, description="Number of whole GPUs, or other accelerators, per pod.", examples=[4]
    )
    gpu_type: rules.GpuType = Field(
        default=None,
        serialization_alias="gpu-type",
        description="Required GPU type, as the pool declares it, in any case, or one of the pool's aliases.",
        examples=["A100-100G"],
    )
    partition: rules.PartitionName | None = Field(
        default=None,
        description="Partition of the accelerator, such as a MIG profile. gpu then counts partitions.",
        examples=["1g.10gb"],
    )
    gpu_memory: rules.Amount | None = Field(
        default=None,
        serialization_alias="gpu-memory",
        description="Memory that each GPU must have at least.",
        examples=["80G"],
    )
    gpu_share: rules.Amount | None = Field(
        default=None,
        serialization_alias="gpu-share",
        description="Memory of a shared GPU, rounded up to what the pool shares by. Ignored if gpu > 0.",
        examples=["2Gi"],
    )
    gpu_cores: rules.Percent | None = Field(
        default=None,
        serialization_alias="gpu-cores",
        description="Compute of a shared GPU in percent, where the pool limits it.",
        examples=[30],
    )
    interconnect: Literal["none", "rdma", "nvlink-domain"] = Field(
        default="none",
        description="Network between the nodes of a training: RDMA by the pool's resource, or a domain of NVLink.",
    )
    cpu: rules.CpuQuantity = Field(description="CPU cores.", examples=[8, "500m"])
    memory: rules.Amount = Field(description="Memory.", examples=["32Gi"])

    @model_validator(mode="after")
    def _parts_go_together(self) -> Resources:
        if self.partition is not None and not self.gpu:
            if self.gpu_share is not None:
                hint = "Keep partition with gpu, or gpu-share"
                raise rules.section_error("a share of a partition", hint, "gpu_share")
            raise rules.section_error("partition without gpu", "Add the number of partitions as gpu", "partition")
        if self.gpu_memory is not None and not self.gpu:
            hint = "Add gpu. A part of a shared GPU is gpu-share"
            raise rules.section_error("gpu-memory without gpu", hint, "gpu_memory")
        if self.gpu_cores is not None and (self.gpu or self.gpu_share is None):
            hint = "It limits a shared GPU: add gpu-share, without gpu, or remove it"
            raise rules.section_error("gpu-cores without gpu-share", hint, "gpu_cores")
        return self


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
        if self.partition is not None:
            hint = "Use whole GPUs, or one node: partitions do not communicate"
            raise rules.section_error("partitions on several nodes", hint, "partition")
        return self


class Workdir(Block):
    """A directory or file of the node, or a PersistentVolumeClaim, to mount into the container."""

    path: rules.MountPath = Field(description="Path on the node and in the container.", examples=["/models/qwen2-7b"])
    type: (
        Literal["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"] | None
    ) = Field(default=None, description="Type of the hostPath volume. By default, derived from the path.")
    read_only: rules.Boolean = Field(default=False, description="Whether to mount the path read-only.")
    claim: rules.DnsSubdomain | None = Field(
        default=None, description="PersistentVolumeClaim to mount instead of a path on the node.", examples=["models"]
    )

    @model_validator(mode="after")
    def _claim_has_no_type(self) -> Workdir:
        if self.claim is not None and self.type is not None:
            raise rules.section_error("type does not apply to a claim", "Remove it", "type")
        return self


class Storage(Block):
    """The volumes of the container."""

    workdirs: Annotated[list[Workdir], AfterValidator(rules.unique("path", normal_path))] = Field(
        default=[], description="Directories, files and PersistentVolumeClaims to mount."
    )
    shm: rules.Amount | None = Field(
        default=None,
        description="Size of /dev/shm. Trainings with GPUs default to half of the memory.",
        examples=["16Gi"],
    )

    @model_validator(mode="after")
    def _one_shared_memory(self) -> Storage:
        if self.shm is not None and any(normal_path(entry.path) == "/dev/shm" for entry in self.workdirs):
            raise rules.section_error("/dev/shm is also one of the workdirs", "Keep one of them", "shm")
        return self


class Placement(Block):
    """Where the nodes of a training are placed."""

    machines: Literal["spread", "pack", "any"] = Field(
        default="spread",
        description="Whether the nodes of the training should run on different machines (spread), on the same one "
        "(pack), or wherever the scheduler puts them (any). A preference: it delays nothing.",
    )
    within: rules.DnsLabel | None = Field(
        default=None,
        description="Level of the pool's topology, such as rack: the nodes should have the same one.",
        examples=["rack"],
    )
    required: rules.Boolean = Field(
        default=False, description="Whether the training waits until it fits into one place of that level."
    )

    @model_validator(mode="after")
    def _required_level(self) -> Placement:
        if self.required and self.within is None:
            raise rules.section_error("required without a level", "Add the level as within", "required")
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
    placement: Annotated[Placement, rules.ShortForm("machines")] = Field(
        default_factory=Placement,
        description="Where the nodes are placed.",
        examples=["pack", {"within": "rack", "required": True}],
    )
    rank_table: rules.Boolean = Field(
        default=False,
        description="Whether to wait for the rank table of HCCL, which the operator of Ascend writes, and to mount it.",
    )


class Queue(Block):
    """The queue of the job."""

    backend: Literal["none", "kueue", "volcano", "kai"] = Field(
        default="none", description="Queueing system of the cluster."
    )
    name: rules.DnsLabel | None = Field(default=None, description="Name of the queue.", examples=["team-a"])

    @model_validator(mode="after")
    def _backend_needs_queue(self) -> Queue:
        if self.backend == "none" and self.name is not None:
            raise rules.section_error("a queue name needs a backend", "Use kueue, volcano or kai", "backend")
        if self.backend in {"kueue", "kai"} and self.name is None:
            raise rules.section_error(f"{self.backend} needs a queue name", "Add one", "name")
        return self


class Service(Block):
    """The Service of the job."""

    # Manifests of the former command line have it, which ignored it, too.
    IGNORED: ClassVar[dict[str, str]] = {"timeout": "Remove it. Startup takes startup_timeout seconds at most."}

    port: rules.Port = Field(default=8000, description="Port that the container listens on.")
    health_check: rules.HttpPath | None = Field(
        default=None, description="HTTP path for the probes.", examples=["/health"]
    )
    type: Literal["NodePort", "ClusterIP", "LoadBalancer"] = Field(
        default="NodePort", description="Type of the Service."
    )
    startup_timeout: rules.StartupTimeout | None = Field(
        default=None, description="Seconds until the health check must succeed."
    )


class ReplicatedService(Service):
    """The Service of the job, and its number of replicas."""

    replicas: rules.Count = Field(default=1, description="Number of replicas.")


class InferenceService(ReplicatedService):
    """The Service of the inference job. Models load slowly, so the startup timeout is half an hour."""

    startup_timeout: rules.StartupTimeout | None = Field(
        default=1800, description="Seconds until the health check must succeed, including the time to load the model."
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


class ProgramMetrics(Block):
    """Where the program of the job serves metrics of its own, such as its throughput, for Prometheus."""

    port: rules.Port = Field(description="Port that the program serves its metrics on.", examples=[8000])
    path: rules.HttpPath = Field(default="/metrics", description="HTTP path of the metrics.")


class VersionedManifest(Block):
    """What all manifests have in common."""

    kind: str
    version: rules.Version | None = Field(
        default=None, description="Version of the manifest format.", examples=["v0.1", "v1"]
    )


class JobManifest(VersionedManifest):
    """The fields that all kinds of jobs have in common."""

    job: JobSection
    environment: Environment
    resources: Resources
    storage: Storage = Field(default_factory=Storage, description="Volumes of the container.")
    queue: Queue = Field(default_factory=Queue, description="Queue of the job.")
    metrics: ProgramMetrics | None = Field(default=None, description="Metrics that the program itself serves.")

    @model_validator(mode="after")
    def _fits_into_an_object(self) -> JobManifest:
        environment = self.environment
        names = [variable.name for variable in environment.env]
        values = [variable.value or "" for variable in environment.env]
        paths = [entry.path for entry in self.storage.workdirs]
        # Names and mount paths are also in managedFields, and paths in the volume and its mount.
        texts = [*environment.command, *environment.args, *values, *names * 2, *paths * 3]
        rules.check_object_size(texts, volumes=len(paths))
        return self


class Training(JobManifest):
    """A job that runs to completion on one or more nodes."""

    kind: Literal["training"]
    job: TrainingJobSection
    resources: TrainingResources
    distributed: Distributed = Field(default_factory=Distributed, description="Settings of distributed training.")
    matrix: Annotated[dict[rules.ParameterName, ParameterValues], AfterValidator(rules.limited_combinations)] = Field(
        default_factory=dict,
        description="Parameters of a sweep: one training per combination. $(matrix.<name>) stands for a value.",
        examples=[{"lr": ["1e-4", "3e-5"], "seed": [1, 2]}],
    )


class Inference(JobManifest):
    """A service that serves a model."""

    kind: Literal["inference"]
    service: InferenceService = Field(default_factory=InferenceService, description="Service of the model.")
    autoscaling: Autoscaling | None = Field(default=None, description="Scaling by load. Replaces service.replicas.")


class Notebook(JobManifest):
    """An interactive environment."""

    kind: Literal["notebook"]
    service: NotebookService = Field(default_factory=NotebookService, description="Service of the notebook.")


class Compute(JobManifest):
    """A general service, such as nginx or redis."""

    kind: Literal["compute"]
    service: ReplicatedService = Field(default_factory=ReplicatedService, description="Service of the job.")


class Section(Block):
    """The name and description of a pool, quota or policy."""

    name: rules.DnsLabel = Field(description="Name of the pool, quota or policy.", examples=["training-pool"])
    description: rules.Description | None = Field(default=None, description="Purpose of the pool, quota or policy.")


class PoolNode(Block):
    """The properties of a node in a pool."""

    gpu_type: rules.GpuType = Field(
        default=None, serialization_alias="gpu-type", description="GPU type of the node.", examples=["A100-100G"]
    )


class QueueSettings(Block):
    """How the jobs of a pool wait for it. Amounts are numbers of GPUs."""

    backend: Literal["kueue", "volcano"] = Field(description="Queueing system, which is installed in the cluster.")
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
        description="How the vendor's software divides each device among several pods. By default, what it is told "
        "otherwise.",
        examples=[{"time_slicing": 4}],
    )
    mig: rules.LabelValue | None = Field(
        default=None,
        description="Configuration of the vendor's MIG manager for the nodes. By default, what it is told otherwise.",
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

    @model_validator(mode="after")
    def _each_limit_once(self) -> Limits:
        for name, amount in self.accelerators.items():
            if name == DEFAULT_ACCELERATOR and self.gpu is not None:
                raise rules.section_error("gpu limits the same", "Keep one of them", "accelerators", name)
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
        description="For how long its accelerators must not have been used, and nobody have worked in it. 5 minutes at "
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
    priorities: list[Literal["high", "medium", "low"]] | None = Field(
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
    labels: LabelRules = Field(default_factory=LabelRules, description="Who may set the labels of gpuctl.")
    defaults: TeamRules = Field(default_factory=TeamRules, description="What applies to all teams.")
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
        odd = sorted(set(by_namespace) ^ set(namespaces))
        yield f"max_gpus_in_namespaces for others than those of the team: {odd[0]}", "Give each namespace its number"
    if (by_pool := source.max_gpus_in_pools) is not None:
        pools = defaults.pools if team.pools is None else team.pools
        if len(namespaces) > 1:
            hint = "Kubernetes counts by namespace: give the team one namespace, or the pools a queue"
            yield f"max_gpus_in_pools for {len(namespaces)} namespaces: {enumerated(namespaces, 'and')}", hint
        elif set(by_pool) != set(pools or ()):
            odd = sorted(set(by_pool) ^ set(pools or ()))
            yield f"max_gpus_in_pools for others than the pools of the team: {odd[0]}", "Give each pool its number"


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
    """The metric that says which pod has a device, where the others do not."""

    name: rules.SeriesName = Field(description="Name of the metric.", examples=["mlu_container"])
    on: list[rules.SeriesLabel] = Field(
        description="Labels that it has in common with the others.", min_length=1, examples=[["uuid"]]
    )


class ExporterMetrics(Block):
    """The metrics of an exporter for Prometheus. Of several for a quantity, the first that a device has counts."""

    port: rules.Port | None = Field(default=None, description="Port of the exporter.", examples=[9400])
    prefix: rules.SeriesName | None = Field(
        default=None, description="What the names of all metrics start with, where it is configured.", examples=["amd_"]
    )
    labels: SeriesLabels = Field(default_factory=SeriesLabels, description="Labels of the series.")
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
    metrics: ExporterMetrics = Field(
        default_factory=ExporterMetrics, description="Metrics of the exporter that measures shares."
    )


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
    """How the vendor's software is told to divide the devices of a node."""

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
    remedy: rules.ShortText = Field(
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
    labels: ProfileLabels = Field(default_factory=ProfileLabels, description="Labels of nodes.")
    nodes: list[DeviceMark] = Field(
        default=[],
        description="When the devices of a node are partitions or shares. The first mark that applies counts.",
    )
    divisions: Divisions = Field(default_factory=Divisions, description="How pools divide the devices of their nodes.")
    faults: list[NodeFault] = Field(default=[], description="Labels of nodes that say that something is wrong.")
    taints: list[rules.LabelKey] = Field(
        default=[], description="Keys of taints that keep other pods off the nodes.", examples=[["nvidia.com/gpu"]]
    )
    pod: PodNeeds = Field(default_factory=PodNeeds, description="What pods with the accelerator have.")
    library: CommunicationLibrary | None = Field(default=None, description="Communication library.")
    metrics: ExporterMetrics = Field(default_factory=ExporterMetrics, description="Metrics of the exporter.")
    frameworks: list[rules.ShortText] = Field(
        default=[], description="Frameworks that run on it. By default, any.", examples=[["pytorch", "vllm"]]
    )
    images: ImageMarks = Field(default_factory=ImageMarks, description="Images for the accelerator.")
    unconfirmed: list[rules.ShortText] = Field(
        default=[], description="Fields that no source of the vendor confirms.", examples=[["metrics"]]
    )


Manifest: TypeAlias = "Training | Inference | Notebook | Compute | Pool | Quota | Policy | AcceleratorManifest"
KINDS: dict[str, type[Manifest]] = {
    "training": Training,
    "inference": Inference,
    "notebook": Notebook,
    "compute": Compute,
    "pool": Pool,
    "quota": Quota,
    "policy": Policy,
    "accelerator": AcceleratorManifest,
}
ADMINISTRATORS = ("policy", "accelerator")
"""The kinds that have no effect among other manifests: an administrator names the file, or puts them elsewhere."""
