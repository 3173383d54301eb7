# SPDX-License-Identifier: BSD-2-Clause
"""training -> batch/v1 Job, Indexed with a headless Service and a hostfile when it runs on several nodes."""

from __future__ import annotations

from pathlib import PurePosixPath

from ... import labels
from ...accelerators.equipment import Equipment
from ...kube.api_objects import Object
from ...manifest.job_models import Training
from . import deepspeed, distributed, metadata, service, volumes
from .built import Built
from .launchers import launch
from .pod import Additions, Provided, pod_template
from .priority import OPPORTUNISTIC, priority_class
from .time_limit import TimeLimit, time_limit_of

_RETRIES_PER_NODE = 3  # backoffLimit counts the pods of all indexes, and a crash of one rank fails them all.
_RETRIES_OF_OPPORTUNISTIC = 20  # of each rank: as often as another one of them may be preempted
_KEEP_FINISHED_SECONDS = 86_400
_CHECKPOINT_SECONDS = 300  # From SIGTERM (pause, preemption, drain) until the training is killed.
# The others wait for what the first one tells them, and are deleted once it has succeeded.
_SUCCESS_OF_THE_FIRST = {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
# Not the retries of all for a rank that waits for peers which have succeeded, and never run again (docs/decisions.md).
_PEERS_FAIL_TOGETHER = {"backoffLimitPerIndex": _RETRIES_PER_NODE, "maxFailedIndexes": 0}
_LLAMA_FACTORY = {"llamafactory-cli", "llama-factory-cli"}


def build_training(manifest: Training, namespace: str, equipment: Equipment) -> Built:
    """The Job of a training, and what its pods need to find each other and their configuration."""
    nodes = manifest.resources.node_count
    several = distributed.is_distributed(manifest)
    started = launch(manifest, equipment)
    command = started.command
    config = deepspeed.use_templates(manifest, [*command, *manifest.environment.args])

    template, overrides = pod_template(
        manifest,
        namespace,
        equipment,
        Additions(
            pod=_pod_fields(manifest, several),
            env={
                **(distributed.rendezvous(manifest, equipment) if several else {}),
                **started.env,
                **_launcher_env(manifest, equipment),
                **config.provided,
            },
            volumes=(
                *_default_shared_memory(manifest, equipment),
                *([distributed.hostfile_volume(manifest)] if several else []),
                *([distributed.rank_table_volume(manifest)] if manifest.distributed.rank_table else []),
                *([deepspeed.volume(manifest)] if config.names else []),
            ),
            command=config.words[: len(command)],
            args=config.words[len(command) :],
        ),
    )
    limit = time_limit_of(manifest, equipment.pool)
    dependents = []
    if several:
        hosts = distributed.hostfile(manifest, namespace, equipment)
        dependents += [service.rendezvous_service(manifest, namespace), hosts]
    if config.names:
        dependents.append(deepspeed.deepspeed_config_map(manifest, config.names, namespace))
    return Built(
        workload={
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata.workload_metadata(
                manifest, namespace, pods_together=nodes, noted=limit.annotations if limit else {}
            ),
            "spec": {
                **_indexed(nodes, manifest.job.priority),
                **(_SUCCESS_OF_THE_FIRST if several and started.is_by_first_node else {}),
                **_failure_handling(nodes),
                **_active_deadline(limit),
                "template": template,
            },
        },
        dependents=dependents,
        priority_class=priority_class(manifest.job.priority),
        former_commands=tuple((v, deepspeed.use_templates(manifest, former).words) for v, former in started.former),
        warnings=[*started.warnings, *config.warnings, *overrides],
    )


def _indexed(nodes: int, priority: str) -> Object:
    """Each pod gets an index, which is its rank, and a stable host name, ``<job>-<index>`` (job_controller.go)."""
    if nodes == 1:
        return {}
    # A preempted rank is no failure of its own, but its peers then crash, and those crashes count.
    more = {"backoffLimitPerIndex": _RETRIES_OF_OPPORTUNISTIC} if priority == OPPORTUNISTIC else {}
    return {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes, **_PEERS_FAIL_TOGETHER, **more}


def _failure_handling(nodes: int) -> Object:
    """Retry crashes, but not commands that cannot work. Preemption and drains do not count as retries.

    A podFailurePolicy needs restartPolicy Never and podReplacementPolicy Failed (pkg/apis/batch/validation).
    Preemption, evictions, taints and the kubelet set DisruptionTarget (core/v1/types.go, PodReason*).
    """
    return {
        "backoffLimit": _RETRIES_PER_NODE * nodes,
        # The Job goes with its pods and all that it owns. The ledger remembers that it has run.
        "ttlSecondsAfterFinished": _KEEP_FINISHED_SECONDS,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {
                    # Wrong usage (argparse and shells), not executable, not found; never begun (containerd).
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": labels.MAIN_CONTAINER,
                        "operator": "In",
                        "values": [2, 126, 127, 128],
                    },
                },
            ]
        },
    }


def _active_deadline(limit: TimeLimit | None) -> Object:
    """The controller then deletes the pods, which have their grace period for a last checkpoint: it ends at the limit.

    The time counts from ``startTime``, so also while pods wait for nodes, but not while the Job is suspended, by a
    pause or by Kueue: it starts again (job_controller.go, pastActiveDeadline and JobResumed).
    """
    return {"activeDeadlineSeconds": limit.seconds - _CHECKPOINT_SECONDS} if limit else {}


def _pod_fields(manifest: Training, several: bool) -> Object:
    fields: Object = {"restartPolicy": "Never", "terminationGracePeriodSeconds": _CHECKPOINT_SECONDS}
    if several:
        fields["subdomain"] = labels.service_name(manifest.job.name)  # for DNS names (core/v1/types.go)
    return fields


def _launcher_env(manifest: Training, equipment: Equipment) -> Provided:
    """LLaMA-Factory starts torchrun for several visible GPUs; for several nodes it needs this variable."""
    command = manifest.environment.command
    program = PurePosixPath(command[0]).name if command else ""
    parallel = equipment.whole_devices > 1 or distributed.is_distributed(manifest)
    return {"FORCE_TORCHRUN": "1"} if program in _LLAMA_FACTORY and parallel else {}


def _default_shared_memory(manifest: Training, equipment: Equipment) -> list[volumes.Volume]:
    """Data loader workers and NCCL exchange data through /dev/shm; the runtime's 64 MiB kills them with a bus error."""
    if manifest.storage.shm or (equipment.whole_devices == 0 and manifest.resources.interconnect != "rdma"):
        return []
    return [volumes.shared_memory(volumes.half_the_memory(manifest.resources))]
