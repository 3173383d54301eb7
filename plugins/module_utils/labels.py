# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The words that we share with the cluster: label keys, annotations, names of objects, resources and namespaces.

Everything that is written into Kubernetes objects by one part and read back by another has its one home here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Server-side apply records who set which field under this name; it is also what we mark our objects with.
FIELD_MANAGER = "runwhere.gpuctl"

DEFAULT_NAMESPACE = "default"
SYSTEM_NAMESPACE = "gpuctl-system"  # where pools are declared
DEFAULT_POOL = "default"

PREFIX = "runwhere.ai/"
JOB_TYPE = f"{PREFIX}job-type"
PRIORITY = f"{PREFIX}priority"
POOL = f"{PREFIX}pool"
NAMESPACE = f"{PREFIX}namespace"
# The type of a node's GPUs: what users set, what a pool sets beside it, what NVIDIA's feature discovery finds.
GPU_TYPE = f"{PREFIX}gpu-type"
GPU_TYPE_INTERNAL = f"{PREFIX}gpuType"
GPU_PRODUCT = "nvidia.com/gpu.product"
DESCRIPTION = f"{PREFIX}description"  # an annotation: free text is no label value
APP = "app"
MANAGED_BY = "app.kubernetes.io/managed-by"

# Set by Kubernetes on the pods of an Indexed Job (since 1.28).
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
HOSTNAME = "kubernetes.io/hostname"

GPU = "nvidia.com/gpu"
GPU_MEMORY = "aliyun.com/gpu-mem"  # whole GiB of a shared GPU, by the gpushare device plugin

MAIN_CONTAINER = "main"


def job_labels(name: str, *, kind: str, priority: str, pool: str, namespace: str) -> dict[str, str]:
    """The labels of every object that is made for a job, and of its pods."""
    return {
        **pod_selector(name),
        JOB_TYPE: kind,
        PRIORITY: priority,
        POOL: pool,
        NAMESPACE: namespace,
    }


def pod_selector(name: str) -> dict[str, str]:
    """What tells a job's pods from all others in its namespace: ``app`` alone is a label that anybody may use."""
    return {APP: name, MANAGED_BY: FIELD_MANAGER}


def pods_of(name: str) -> str:
    """``pod_selector`` as the API takes it in a query."""
    return selector_text(pod_selector(name))


def selector_text(labels: Mapping[str, str]) -> str:
    """Labels as an equality-based selector: ``a=b,c=d``."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def service_name(job: str) -> str:
    """The Service of a job."""
    return f"svc-{job}"


def priority_class_name(priority: str) -> str:
    """The PriorityClass behind a job's priority: ``high`` -> ``gpuctl-high``."""
    return f"gpuctl-{priority}"


def job_name_of(obj: Mapping[str, Any]) -> str | None:
    """The job that an object was made for: its label ``app``, else (on pods of other tools' Jobs) ``job-name``."""
    labels = obj["metadata"].get("labels") or {}
    return labels.get(APP) or labels.get("job-name")


OURS = selector_text({MANAGED_BY: FIELD_MANAGER})
"""The selector of everything that this collection made."""
