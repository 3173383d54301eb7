# SPDX-License-Identifier: BSD-2-Clause
"""How the nodes of a distributed training (node_count > 1) find each other."""

from __future__ import annotations

from pathlib import PurePosixPath

from ...accelerators.equipment import Equipment
from ...kube.api_objects import Object
from ...manifest.job_models import Training
from . import metadata
from .launchers import HOSTFILE, RANK, host_of, processes_per_node, rank_table_directory
from .pod import Provided
from .volumes import Volume, config_map_files


def is_distributed(manifest: Training) -> bool:
    """Whether the training runs on more than one node."""
    return manifest.resources.node_count > 1


def rendezvous(manifest: Training, equipment: Equipment) -> Provided:
    """Environment variables that tell each node its rank and the address of the first node.

    torchrun reads ``PET_*`` as its options; scripts and LLaMA-Factory read the plain names. WORLD_SIZE and RANK are not
    set, as they are per process and not per node: a script that finds them believes that a launcher has started it, and
    hangs.
    """
    block: dict[str, str | Object] = {
        "MASTER_ADDR": host_of(manifest, 0),
        "MASTER_PORT": str(manifest.distributed.master_port),
        "NNODES": str(manifest.resources.node_count),
        "NODE_RANK": RANK,
        "NPROC_PER_NODE": str(processes_per_node(equipment)),
    }
    return {
        **block,
        **{f"PET_{name}": value for name, value in block.items()},
        **_interface(manifest, equipment),
    }


def _interface(manifest: Training, equipment: Equipment) -> Provided:
    """The network interface of the communication library: the manifest's, or the one of the pool's RDMA devices."""
    library = equipment.profile.part("library") if equipment.requests else {}
    variable = library.get("socket_variable") or "NCCL_SOCKET_IFNAME"
    default = manifest.distributed.socket_ifname
    if manifest.resources.interconnect != "rdma" or "socket_ifname" in manifest.distributed.model_fields_set:
        return {variable: default}
    return {variable: equipment.pool.rdma_env.get(variable, default)}


def hostfile(manifest: Training, namespace: str, equipment: Equipment) -> Object:
    """DeepSpeed's hostfile: a line per node, with a slot per GPU."""
    slots = processes_per_node(equipment)
    lines = [f"{host_of(manifest, index)} slots={slots}\n" for index in range(manifest.resources.node_count)]
    path = PurePosixPath(HOSTFILE)
    return metadata.config_map(manifest, namespace, _hostfile_name(manifest), {path.name: "".join(lines)})


def hostfile_volume(manifest: Training) -> Volume:
    """The mount of the hostfile where DeepSpeed looks for it."""
    return config_map_files("hostfile", _hostfile_name(manifest), str(PurePosixPath(HOSTFILE).parent))


def rank_table_volume(manifest: Training) -> Volume:
    """The mount of the ConfigMap into which Ascend's operator writes the rank table, maybe after the pods' start."""
    config_map = {"name": f"rings-config-{manifest.job.name}", "optional": True}
    return Volume("rank-table", {"configMap": config_map}, rank_table_directory(), read_only=True)


def _hostfile_name(manifest: Training) -> str:
    return f"{manifest.job.name}-hostfile"
