# SPDX-License-Identifier: BSD-2-Clause
"""The devices that the pods of a job claim, where a DeviceClass offers them (Dynamic Resource Allocation). Pure.

A ResourceClaimTemplate cannot change, and pods with a claim of one name would not be replaced if it did. So its name
has a digest of what it asks for: other devices are another template, and with that another pod template. The number of
devices is in it for policies, which see no more of claims in a pod than their names (policies/guards.py).
"""

from __future__ import annotations

import hashlib
import json

from ... import labels
from ...accelerators.device_selectors import DeviceRequest
from ...kube.api_objects import Object, sparse
from ...manifest.job_blocks import JobManifest
from . import metadata

_CLAIM = "accelerators"  # in the pod, whose containers name it
_REQUEST = "accelerator"  # in the claim


def claim_template(manifest: JobManifest, namespace: str, devices: DeviceRequest) -> Object:
    """The template of the claims of the job's pods."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata.dependent_metadata(manifest, namespace, _template_name(manifest, devices)),
        "spec": {
            "metadata": {"labels": labels.pod_selector(manifest.job.name)},
            "spec": _claim_spec(devices),
        },
    }


def pod_claims(manifest: JobManifest, devices: DeviceRequest) -> list[Object]:
    """``resourceClaims`` of the pod."""
    return [{"name": _CLAIM, "resourceClaimTemplateName": _template_name(manifest, devices)}]


def _claim_spec(devices: DeviceRequest) -> Object:
    exactly = {
        "deviceClassName": devices.device_class,
        "selectors": [{"cel": {"expression": condition.cel}} for condition in devices.conditions],
        "allocationMode": "ExactCount",
        "count": devices.count,
    }
    return {"devices": {"requests": [{"name": _REQUEST, "exactly": sparse(exactly)}]}}


def _template_name(manifest: JobManifest, devices: DeviceRequest) -> str:
    digest = hashlib.sha256(json.dumps(_claim_spec(devices), sort_keys=True).encode()).hexdigest()
    return f"{manifest.job.name}-{digest[:8]}-x{devices.count}"
