# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""inference -> Deployment and Service, and an autoscaler when asked for."""

from __future__ import annotations

from ...manifest.models import Inference
from .autoscaling import autoscaler
from .deployment import deployment
from .job_objects import Built
from .priority import priority_class
from .service import access_service

_LONGEST_REQUEST = 110  # A long answer of a language model may be streamed to its end.


def build_inference(manifest: Inference, namespace: str) -> Built:
    """The objects of an inference. With ``autoscaling`` the replicas belong to the autoscaler and are not sent."""
    scaling = manifest.autoscaling
    replicas = manifest.service.replicas if scaling is None else None
    workload, warnings = deployment(manifest, namespace, replicas=replicas, longest_request=_LONGEST_REQUEST)
    dependents = [access_service(manifest, namespace)]
    if scaling is not None:
        dependents.append(autoscaler(manifest, scaling, namespace))
        if "replicas" in manifest.service.model_fields_set:
            warnings.append(
                f"service.replicas is not used beside autoscaling, which keeps {scaling.min_replicas} to "
                f"{scaling.max_replicas} copies."
            )
    return Built(workload, dependents, priority_class(manifest.job.priority), warnings)
