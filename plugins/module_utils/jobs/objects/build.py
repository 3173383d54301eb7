# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From a validated manifest to the Kubernetes objects of its job. Pure: nothing is read, nothing is sent."""

from __future__ import annotations

from ...manifest.models import Compute, Inference, Notebook, Training
from .job_objects import Built


def build(manifest: Training | Inference | Notebook | Compute, namespace: str) -> Built:
    """The objects of a job. ``namespace`` is where it goes unless the manifest names one itself (job.namespace)."""
    namespace = manifest.job.namespace or namespace
    # Only what is built is imported: a module's process compiles anew what it imports, and mostly for one job.
    if isinstance(manifest, Training):
        from .training import build_training

        return build_training(manifest, namespace)
    if isinstance(manifest, Inference):
        from .inference import build_inference

        return build_inference(manifest, namespace)
    if isinstance(manifest, Notebook):
        from .notebook import build_notebook

        return build_notebook(manifest, namespace)
    from .compute import build_compute

    return build_compute(manifest, namespace)
