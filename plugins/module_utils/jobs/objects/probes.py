# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""How Kubernetes finds out that a service has started, can take requests, and hangs."""

from __future__ import annotations

import math

from ...manifest.models import Service
from .job_objects import Object

# Kinds that name no startup_timeout of their own start within minutes.
_STARTUP_TIMEOUT = 300
_STARTUP_PERIOD = 10


def probes(service: Service) -> Object:
    """The container's probes; none without a health check.

    Liveness is patient: a model server under full load answers late, and a restart costs it the time to load again.
    """
    if service.health_check is None:
        return {}
    check = {"httpGet": {"path": service.health_check, "port": service.port}}
    return {
        "startupProbe": {
            **check,
            "periodSeconds": _STARTUP_PERIOD,
            "timeoutSeconds": 5,
            "failureThreshold": math.ceil(startup_seconds(service) / _STARTUP_PERIOD),
        },
        "readinessProbe": {**check, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**check, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6},
    }


def startup_seconds(service: Service) -> int:
    """How long the service may take from the start of its container until it answers."""
    return service.startup_timeout or _STARTUP_TIMEOUT
