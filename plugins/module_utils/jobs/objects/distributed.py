# SPDX-License-Identifier: BSD-2-Clause
"""How the nodes of a distributed training (node_count > 1) find each other."""

from __future__ import annotations

from pathlib import PurePosixPath

from ... import labels
from ...accelerators import Equipment
from ...manifest.models import Training
from . import metadata
from .job_objects import Object
from .pod import Provided
from .volumes import Volume, config_map_files

# The launcher's own default (deepspeed/launcher/runner.py, DLTS_HOSTFILE).
HOSTFILE = "/job/hostfile"


def is_distributed(manifest: Training) -> bool:
    """Whether the training runs on more than one node."""
    return manifest.resources.node_count > 1


def rendezvous(manifest: Training, equipment: Equipment) -> Provided:
    """Environment variables that tell each node its rank and the address of the first node.

    torchrun reads ``PET_*`` as its options; scripts and LLaMA-Factory read the plain names. WORLD_SIZE and RANK are not
    set, as they are per process and not per node: a script that finds them believes that a launcher has started it, and
    hangs.
    """
    rank: Object = {"fieldRef": {"fieldPath": f"metadata.labels['{labels.COMPLETION_INDEX}']"}}
    block: dict[str, str | Object] = {
        "MASTER_ADDR": _host(manifest, 0),
        "MASTER_PORT": str(manifest.distributed.master_port),
        "NNODES": str(manifest.resources.node_count),
        "NODE_RANK": rank,
        "NPROC_PER_NODE": str(_processes(equipment)),
    }
    return {
        **block,
        **{f"PET_{name}": value for name, value in block.items()},
        "NCCL_SOCKET_IFNAME": manifest.distributed.socket_ifname,
    }


def hostfile(manifest: Training, namespace: str, equipment: Equipment) -> Object:
    """DeepSpeed's hostfile: a line per node, with a slot per GPU."""
    slots = _processes(equipment)
    lines = [f"{_host(manifest, index)} slots={slots}\n" for index in range(manifest.resources.node_count)]
    path = PurePosixPath(HOSTFILE)
    return metadata.config_map(manifest, namespace, _hostfile_name(manifest), {path.name: "".join(lines)})


def hostfile_volume(manifest: Training) -> Volume:
    """The mount of the hostfile where DeepSpeed looks for it."""
    return config_map_files("hostfile", _hostfile_name(manifest), str(PurePosixPath(HOSTFILE).parent))


def launch(manifest: Training) -> tuple[list[str], list[str]]:
    """The command for each node, and warnings.

    The ``deepspeed`` launcher starts other nodes by ssh. Here Kubernetes starts it on every node, so it gets --no_ssh
    and its node rank (DeepSpeed #5510); Kubernetes fills in $(NAME). The user's options are kept.
    """
    command = manifest.environment.command
    program = PurePosixPath(command[0]).name if command else ""
    if not is_distributed(manifest) or program != "deepspeed" or "--no_ssh" in command:
        return command, []
    if manifest.distributed.backend != "deepspeed":
        return command, [
            "The deepspeed launcher starts the other nodes by ssh, which the containers do not offer. "
            "With distributed.backend deepspeed it is started on every node instead."
        ]
    options = {
        "--hostfile": HOSTFILE,
        "--node_rank": "$(NODE_RANK)",
        "--master_addr": "$(MASTER_ADDR)",
        "--master_port": "$(MASTER_PORT)",
    }
    missing = [word for name, value in options.items() if not _has_option(command, name) for word in (name, value)]
    return [command[0], "--no_ssh", *missing, *command[1:]], []


def _has_option(command: list[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in command)


def _host(manifest: Training, index: int) -> str:
    """The name of a pod of an Indexed Job below its headless Service."""
    return f"{manifest.job.name}-{index}.{labels.service_name(manifest.job.name)}"


def _processes(equipment: Equipment) -> int:
    """One process per GPU; without whole GPUs one per node."""
    return max(equipment.whole_devices, 1)


def _hostfile_name(manifest: Training) -> str:
    return f"{manifest.job.name}-hostfile"
