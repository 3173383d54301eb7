# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From a validated manifest to the Kubernetes objects of its job. Pure: nothing is read, nothing is sent."""

from __future__ import annotations

from ..manifest.models import Compute, Inference, JobManifest, Notebook, Training
from .built import Built
from .compute import build_compute
from .inference import build_inference
from .notebook import build_notebook
from .training import build_training


def build(manifest: JobManifest, namespace: str) -> Built:
    """The objects of a job. ``namespace`` is where it goes unless the manifest names one itself (job.namespace).

    Raises TypeError for a manifest that is no job (a pool, a quota).
    """
    namespace = manifest.job.namespace or namespace
    match manifest:
        case Training():
            return build_training(manifest, namespace)
        case Inference():
            return build_inference(manifest, namespace)
        case Notebook():
            return build_notebook(manifest, namespace)
        case Compute():
            return build_compute(manifest, namespace)
    raise TypeError(f"{type(manifest).__name__} is not a job")
