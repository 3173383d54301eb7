# SPDX-License-Identifier: BSD-2-Clause
"""The Service of a serving job, and the headless Service of a distributed training."""

from __future__ import annotations

from ... import labels
from ...kube.api_objects import Object
from ...manifest.job_models import Compute, Inference, Notebook, Training
from . import metadata

PORT_NAME = "http"


def access_service(manifest: Inference | Notebook | Compute, namespace: str) -> Object:
    """The Service for users and other jobs. The cluster allocates its node port, and keeps it for its lifetime."""
    port = manifest.service.port
    return _service(
        manifest,
        namespace,
        {
            "type": manifest.service.type,
            "ports": [{"name": PORT_NAME, "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    )


def rendezvous_service(manifest: Training, namespace: str) -> Object:
    """The headless Service that gives the pods of a training DNS names, ``<job>-<index>.svc-<job>``, before they are
    ready."""
    port = manifest.distributed.master_port
    return _service(
        manifest,
        namespace,
        {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # Ranks meet while they start: none is ready before.
            "ports": [{"name": "rdzv", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    )


def _service(manifest: Inference | Notebook | Compute | Training, namespace: str, spec: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.dependent_metadata(manifest, namespace, labels.service_name(manifest.job.name)),
        "spec": {**spec, "selector": labels.pod_selector(manifest.job.name)},
    }
