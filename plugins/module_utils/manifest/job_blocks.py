# SPDX-License-Identifier: BSD-2-Clause
"""The blocks that manifests of all kinds of jobs have, as types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from ..labels import DEFAULT_POOL
from ..redaction import redact_arguments
from . import rules
from ._pydantic import AfterValidator, Field, model_validator
from .host_paths import normal_path
from .manifest_blocks import Block, VersionedManifest, optional


class JobSection(Block):
    """Identifies the job."""

    name: Annotated[rules.Name, rules.NoPlaceholder()] = Field(
        description="Name of the job and of its Kubernetes objects.", examples=["qwen2-7b-sft"]
    )
    priority: Literal["high", "medium", "low", "opportunistic"] = Field(
        default="medium",
        description="Scheduling priority when GPUs are scarce. Opportunistic jobs are preempted first.",
    )
    description: rules.Description | None = Field(
        default=None, description="Purpose of the job, stored as an annotation."
    )
    namespace: rules.DnsLabel | None = Field(
        default=None, description="Namespace of the job. Overrides the module's namespace option.", examples=["team-a"]
    )
    time_limit: rules.TimeLimit | None = Field(
        default=None,
        description="How long the job may run, from 15m to 366d. Kubernetes ends a training, with SIGTERM five minutes "
        "before. The playbook expire pauses other jobs. By default, what the pool says, or no limit.",
        examples=["12h"],
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
        # pkg/apis/core/validation, validateEnvVarValueFrom, for this and for value beside valueFrom.
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


# accelerators/ says what the container requests for those of accelerators, and how everything counts and names it.
# Equal, because extended resources cannot be overcommitted (pkg/apis/core/v1/helper, IsOvercommitAllowed), and pods
# whose CPU and memory are equal are evicted last (docs, "Pod Quality of Service Classes").
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
        # Two mounts at one path are invalid (pkg/apis/core/validation, ValidateVolumeMounts).
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
        default=None,
        description="Seconds from the start of the container until the health check must succeed. The time to pull "
        "the image does not count.",
    )


class ProgramMetrics(Block):
    """Where the program of the job serves metrics of its own, such as its throughput, for Prometheus."""

    port: rules.Port = Field(description="Port that the program serves its metrics on.", examples=[8000])
    path: rules.HttpPath = Field(default="/metrics", description="HTTP path of the metrics.")


ClusterNames: TypeAlias = Annotated[list[rules.ClusterName], rules.OneOrMany(), AfterValidator(rules.unique())]


class ClusterPlacement(Block):
    """In which of several clusters the job may be placed."""

    clusters: ClusterNames = Field(
        default=[],
        description="Clusters that the job may run in: names of hosts in the inventory. By default, all of them.",
        examples=[["frankfurt", "lyon"]],
    )
    groups: ClusterNames = Field(
        default=[], description="Groups of the inventory whose clusters it may run in as well.", examples=["region_eu"]
    )
    order: Literal["free", "cheapest", "listed"] = Field(
        default="free",
        description="Which cluster comes first where the job runs equally soon in several: the first one of the "
        "inventory (free) or of this list, or the one with the lowest tag price.",
    )
    spread: rules.Boolean = Field(
        default=False, description="Whether jobs of one submit that run equally soon in several are spread over these."
    )


class JobManifest(VersionedManifest):
    """The fields that all kinds of jobs have in common."""

    job: JobSection
    environment: Environment
    resources: Resources
    storage: Storage = optional(Storage, "Volumes of the container.")
    queue: Queue = optional(Queue, "Queue of the job.")
    placement: ClusterPlacement | None = Field(
        default=None, description="The clusters of an inventory that the job may be placed in."
    )
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
