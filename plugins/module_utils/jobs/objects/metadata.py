# SPDX-License-Identifier: BSD-2-Clause
"""Names, labels and annotations of the objects made for a job."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ... import labels
from ...accelerators.equipment import Equipment
from ...kube.api_objects import Object, sparse
from ...manifest.job_blocks import JobManifest, ProgramMetrics
from ...manifest.job_models import Training
from ...manifest.secrets import marked_in
from . import queue, scheduling


def object_labels(manifest: JobManifest, namespace: str) -> dict[str, str]:
    """The labels that every object of the job carries, and its pods."""
    return labels.job_labels(
        manifest.job.name,
        kind=manifest.kind,
        priority=manifest.job.priority,
        pool=manifest.resources.pool,
        namespace=namespace,
    )


def workload_metadata(
    manifest: JobManifest, namespace: str, pods_together: int, noted: Mapping[str, str] | None = None
) -> Object:
    """``metadata`` of the workload. ``pods_together`` is the number of pods that only work together, ``noted`` are
    further annotations.

    Description and marks are not in the pod template: changing them must not restart pods, and a Job would not accept
    it.
    """
    annotated = {labels.DESCRIPTION: manifest.job.description} if manifest.job.description else {}
    if marked := marked_in(manifest.environment.env):
        annotated[labels.SECRET_ENV] = json.dumps(sorted(marked))
    swept = {labels.SWEEP: manifest.job.sweep} if isinstance(manifest, Training) and manifest.job.sweep else {}
    queued = queue.on_workload(manifest.queue, pods_together)
    return sparse(
        {
            "name": manifest.job.name,
            "namespace": namespace,
            "labels": {**object_labels(manifest, namespace), **swept, **queued.labels},
            "annotations": {**annotated, **(noted or {}), **queued.annotations},
        }
    )


def template_metadata(manifest: JobManifest, namespace: str, equipment: Equipment) -> Object:
    """``metadata`` of the pod template."""
    queued = queue.on_pods(manifest.queue, scheduling.topology_level(manifest, equipment.pool))
    needed = equipment.needs("labels") or {}
    return sparse(
        {
            "labels": {**needed, **object_labels(manifest, namespace), **queued.labels},
            "annotations": {
                **(equipment.needs("annotations") or {}),
                **queued.annotations,
                **_claimed(equipment),
                **_scraped(manifest.metrics),
            },
        }
    )


def _scraped(metrics: ProgramMetrics | None) -> dict[str, str]:
    if metrics is None:
        return {}
    return {labels.SCRAPE: "true", labels.SCRAPE_PORT: str(metrics.port), labels.SCRAPE_PATH: metrics.path}


def _claimed(equipment: Equipment) -> dict[str, str]:
    """What the pod claims, for those who count: its claim is another object."""
    if equipment.devices is None:
        return {}
    amounts = sorted(equipment.accelerators.items())
    return {labels.CLAIMED_DEVICES: ",".join(f"{resource}={amount}" for resource, amount in amounts)}


def dependent_metadata(manifest: JobManifest, namespace: str, name: str) -> Object:
    """``metadata`` of the other objects of the job."""
    return {"name": name, "namespace": namespace, "labels": object_labels(manifest, namespace)}


def config_map(manifest: JobManifest, namespace: str, name: str, files: Mapping[str, str]) -> Object:
    """A ConfigMap with files for the job's container."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": dependent_metadata(manifest, namespace, name),
        "data": dict(files),
    }
