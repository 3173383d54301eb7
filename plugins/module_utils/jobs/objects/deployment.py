# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The Deployment behind inference and compute: copies of a service, replaced one after the other."""

from __future__ import annotations

from ... import labels
from ...manifest.models import Compute, Inference
from . import metadata, scheduling
from .job_objects import Object, sparse
from .pod import Additions, pod_template
from .probes import probes, startup_seconds
from .service import PORT_NAME

# A stopping pod still gets requests until every node has heard of it.
_DRAIN_SECONDS = 10
# Time for the image to arrive before the container starts; Kubernetes' own default for the whole deadline.
_PULL_SECONDS = 600


def deployment(
    manifest: Inference | Compute, namespace: str, *, replicas: int | None, longest_request: int
) -> tuple[Object, list[str]]:
    """The Deployment and warnings. ``replicas`` is None when an autoscaler owns them; ``longest_request``: seconds."""
    served = manifest.service
    template, warnings = pod_template(
        manifest,
        namespace,
        Additions(
            container={
                "ports": [{"name": PORT_NAME, "containerPort": served.port, "protocol": "TCP"}],
                "lifecycle": {"preStop": {"sleep": {"seconds": _DRAIN_SECONDS}}},
                **probes(served),
            },
            pod={
                "terminationGracePeriodSeconds": _DRAIN_SECONDS + longest_request,
                "topologySpreadConstraints": scheduling.spread_over_nodes(manifest.job.name),
            },
        ),
    )
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels.pod_selector(manifest.job.name)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(manifest)},
        "progressDeadlineSeconds": startup_seconds(served) + _PULL_SECONDS,
        "template": template,
    }
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata.workload_metadata(manifest, namespace, pods_together=1),
        "spec": sparse(spec),
    }
    return workload, warnings


def _rolling_update(manifest: Inference | Compute) -> Object:
    """In a pool whose GPUs are all taken a surplus pod would wait for ever: there, old pods go first."""
    if scheduling.uses_gpu(manifest.resources):
        return {"maxSurge": 0, "maxUnavailable": 1}
    return {"maxSurge": 1, "maxUnavailable": 0}
