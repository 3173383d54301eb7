# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""How the nodes of a distributed training (node_count > 1) find each other."""

from __future__ import annotations

from pathlib import PurePosixPath

from ... import labels
from ...manifest.models import Training
from . import metadata
from .job_objects import Object
from .pod import Provided
from .volumes import Volume, files

# The launcher's own default (deepspeed/launcher/runner.py, DLTS_HOSTFILE).
HOSTFILE = "/job/hostfile"


def is_distributed(manifest: Training) -> bool:
    """Whether the training runs on more than one node."""
    return manifest.resources.node_count > 1


def rendezvous(manifest: Training) -> Provided:
    """Environment by which each node knows the first one and its own place.

    ``PET_*`` is what torchrun reads for its options, the plain names are read by scripts and by LLaMA-Factory.
    WORLD_SIZE and RANK are not set, they are per process and not per node: a script that finds them believes that a
    launcher has started it, and hangs.
    """
    rank: Object = {"fieldRef": {"fieldPath": f"metadata.labels['{labels.COMPLETION_INDEX}']"}}
    block: dict[str, str | Object] = {
        "MASTER_ADDR": _host(manifest, 0),
        "MASTER_PORT": str(manifest.distributed.master_port),
        "NNODES": str(manifest.resources.node_count),
        "NODE_RANK": rank,
        "NPROC_PER_NODE": str(_processes(manifest)),
    }
    return {
        **block,
        **{f"PET_{name}": value for name, value in block.items()},
        "NCCL_SOCKET_IFNAME": manifest.distributed.socket_ifname,
    }


def hostfile(manifest: Training, namespace: str) -> Object:
    """DeepSpeed's hostfile: a line per node, with as many slots as it has GPUs."""
    lines = [
        f"{_host(manifest, index)} slots={_processes(manifest)}\n" for index in range(manifest.resources.node_count)
    ]
    path = PurePosixPath(HOSTFILE)
    return metadata.config_map(manifest, namespace, _hostfile_name(manifest), {path.name: "".join(lines)})


def hostfile_volume(manifest: Training) -> Volume:
    """The hostfile where DeepSpeed looks for it."""
    return files("hostfile", _hostfile_name(manifest), str(PurePosixPath(HOSTFILE).parent))


def launch(manifest: Training, command: list[str]) -> tuple[list[str], list[str]]:
    """The command as each node has to run it, and warnings.

    The ``deepspeed`` launcher wants to reach the other nodes by ssh. Started on every node by Kubernetes it is told not
    to, and which node it is on (DeepSpeed #5510); Kubernetes fills in $(NAME). Options the user gives are kept.
    """
    program = PurePosixPath(command[0]).name if command else ""
    if program != "deepspeed" or "--no_ssh" in command:
        return command, []
    if manifest.distributed.backend != "deepspeed":
        return command, [
            "The deepspeed launcher starts the other nodes by ssh, which the containers do not offer; "
            "with distributed.backend deepspeed it is started on every node instead."
        ]
    options = {
        "--hostfile": HOSTFILE,
        "--node_rank": "$(NODE_RANK)",
        "--master_addr": "$(MASTER_ADDR)",
        "--master_port": "$(MASTER_PORT)",
    }
    missing = [word for name, value in options.items() if not _names(command, name) for word in (name, value)]
    return [command[0], "--no_ssh", *missing, *command[1:]], []


def _names(command: list[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in command)


def _host(manifest: Training, index: int) -> str:
    """The name of a pod of an Indexed Job below its headless Service."""
    return f"{manifest.job.name}-{index}.{labels.service_name(manifest.job.name)}"


def _processes(manifest: Training) -> int:
    """One process per GPU; without whole GPUs one per node."""
    return max(manifest.resources.gpu, 1)


def _hostfile_name(manifest: Training) -> str:
    return f"{manifest.job.name}-hostfile"
