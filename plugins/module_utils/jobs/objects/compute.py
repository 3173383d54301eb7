# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""compute -> Deployment and Service."""

from __future__ import annotations

from ...manifest.models import Compute
from .deployment import deployment
from .job_objects import Built
from .priority import priority_class
from .service import access_service

_LONGEST_REQUEST = 50


def build_compute(manifest: Compute, namespace: str) -> Built:
    """The objects of a compute service."""
    replicas = manifest.service.replicas
    workload, warnings = deployment(manifest, namespace, replicas=replicas, longest_request=_LONGEST_REQUEST)
    return Built(workload, [access_service(manifest, namespace)], priority_class(manifest.job.priority), warnings)
