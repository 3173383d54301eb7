# SPDX-License-Identifier: BSD-2-Clause
"""What is mounted into the container: the user's paths and claims, shared memory, provided files."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from ...kube.api_objects import Object, sparse
from ...manifest.host_paths import normal_path
from ...manifest.job_blocks import Resources, Storage, Workdir
from ...quantity import canonical, parse

SHM_PATH = "/dev/shm"

# A hostPath of type Directory cannot be a file and vice versa, and a manifest names only a path. Not every dot makes a
# file (/models/qwen2.5, /etc/nginx/conf.d), so only these endings do; ``type`` overrides them.
_FILE_ENDINGS = frozenset(
    {
        *("json", "jsonl", "ndjson", "yaml", "yml", "toml", "ini", "cfg", "conf", "env", "xml", "html", "md", "txt"),
        *("log", "csv", "tsv", "parquet", "arrow", "feather", "tfrecord", "h5", "hdf5", "npy", "npz", "pkl", "pickle"),
        *("pt", "pth", "ckpt", "bin", "safetensors", "onnx", "gguf", "ggml", "model", "db", "sqlite"),
        *("zip", "tar", "gz", "tgz", "bz2", "xz", "zst", "py", "sh", "ipynb", "so", "pem", "crt", "key"),
    }
)


class Volume(NamedTuple):
    """A volume and its only mount."""

    name: str
    source: Object
    path: str
    read_only: bool = False

    @property
    def as_volume(self) -> Object:
        return {"name": self.name, **self.source}

    @property
    def as_mount(self) -> Object:
        return sparse({"name": self.name, "mountPath": self.path, "readOnly": self.read_only})


def workdirs(storage: Storage) -> list[Volume]:
    """The user's directories, files and claims, mounted at the same path as on the node."""
    return [
        Volume(f"workdir-{index}", _source(workdir), workdir.path, workdir.read_only)
        for index, workdir in enumerate(storage.workdirs)
    ]


def shared_memory(size: str) -> Volume:
    """/dev/shm of that size instead of the runtime's 64 MiB. It counts towards the memory limit."""
    # Without sizeLimit, it could take all of that (pkg/volume/emptydir, calculateEmptyDirMemorySize).
    return Volume("dshm", {"emptyDir": {"medium": "Memory", "sizeLimit": size}}, SHM_PATH)


def half_the_memory(resources: Resources) -> str:
    """The size of /dev/shm for data loaders and NCCL where the manifest names none."""
    return canonical(f"{math.ceil(parse(resources.memory).value / 2 / 1024)}Ki")


def config_map_files(name: str, config_map: str, path: str) -> Volume:
    """A mount of the files of a ConfigMap."""
    return Volume(name, {"configMap": {"name": config_map}}, path, read_only=True)


def without_collisions(provided: Iterable[Volume], given: list[Volume]) -> tuple[list[Volume], list[str]]:
    """The user's volumes, then the provided ones at other paths, with a warning for each that is left out.

    Two mounts at one path are invalid (pkg/apis/core/validation: mountPath "must be unique").
    """
    taken = {normal_path(volume.path) for volume in given}
    mounted, warnings = list(given), []
    for volume in provided:
        if normal_path(volume.path) in taken:
            warnings.append(f"storage.workdirs mounts {volume.path}; the {volume.name} volume is not mounted there.")
        else:
            mounted.append(volume)
    return mounted, warnings


def _source(workdir: Workdir) -> Object:
    if workdir.claim is not None:
        return {"persistentVolumeClaim": {"claimName": workdir.claim}}
    return {"hostPath": {"path": workdir.path, "type": workdir.type or _host_path_type(workdir.path)}}


def _host_path_type(path: str) -> str:
    """A file must exist: an empty one in its place would only hide that the dataset is missing."""
    ending = posixpath.splitext(path)[1].lstrip(".").lower()
    return "File" if ending in _FILE_ENDINGS else "DirectoryOrCreate"
