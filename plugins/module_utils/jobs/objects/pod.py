# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The pod template: one container, ``main``, and everything around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import labels
from ...manifest.models import JobManifest
from . import metadata, scheduling, volumes
from .container_resources import container_resources
from .environment import Provided, environment
from .job_objects import Object, sparse
from .volumes import Volume


@dataclass(frozen=True)
class Additions:
    """What a kind adds to the pod that the manifest describes.

    ``volumes`` and ``env`` give way to what the user mounts at the same path or sets under the same name. ``command``
    and ``args`` are the manifest's unless given.
    """

    container: Mapping[str, object] = field(default_factory=dict)
    pod: Mapping[str, object] = field(default_factory=dict)
    env: Provided = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    command: list[str] | None = None
    args: list[str] | None = None


def pod_template(manifest: JobManifest, namespace: str, additions: Additions) -> tuple[Object, list[str]]:
    """The template of the job's pods, and warnings about what the user has overridden."""
    mounted, mount_warnings = volumes.without_collisions(
        [*_shared_memory(manifest), *additions.volumes], volumes.workdirs(manifest.storage)
    )
    env, env_warnings = environment(additions.env, manifest.environment.env)
    container = _container(manifest, additions, env, mounted)
    spec = {
        "containers": [container],
        "volumes": [volume.as_volume for volume in mounted],
        "imagePullSecrets": [{"name": name} for name in manifest.environment.image_pull_secrets],
        **scheduling.placement(manifest),
        **additions.pod,
    }
    template = {
        "metadata": metadata.template_metadata(manifest, namespace),
        # Without enableServiceLinks=false every Service of the namespace adds variables to every container: hundreds of
        # jobs make thousands, up to the kernel's limit, and some collide with a program's own (VLLM_PORT).
        "spec": {**sparse(spec), "enableServiceLinks": False},
    }
    return template, [*mount_warnings, *env_warnings]


def _container(manifest: JobManifest, additions: Additions, env: list[Object], mounted: list[Volume]) -> Object:
    described = manifest.environment
    return sparse(
        {
            "name": labels.MAIN_CONTAINER,
            "image": described.image,
            "imagePullPolicy": "IfNotPresent",
            "command": described.command if additions.command is None else additions.command,
            "args": described.args if additions.args is None else additions.args,
            "workingDir": described.workdir,
            "env": env,
            "resources": container_resources(manifest.resources),
            "volumeMounts": [volume.as_mount for volume in mounted],
            **additions.container,
        }
    )


def _shared_memory(manifest: JobManifest) -> list[Volume]:
    return [volumes.shared_memory(manifest.storage.shm)] if manifest.storage.shm else []
