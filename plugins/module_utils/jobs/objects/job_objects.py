# SPDX-License-Identifier: BSD-2-Clause
"""Build the Kubernetes objects of a job from its validated manifest. Pure: nothing is read, nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...accelerators.equipment import Equipment, equipment, software_warnings
from ...accelerators.hardware import PoolHardware
from .built import Built

if TYPE_CHECKING:
    from ...manifest.job_models import Compute, Inference, Notebook, Training


def build(
    manifest: Training | Inference | Notebook | Compute, namespace: str, pool: PoolHardware | None = None
) -> Built:
    """The objects of a job. ``namespace`` is the one for manifests without job.namespace.

    ``pool`` is what its pool declares. Raises UnfitHardware.
    """
    namespace = manifest.job.namespace or namespace
    gets = equipment(manifest.resources, pool)
    unknown = list(software_warnings(manifest.environment, gets))
    built = _build(manifest, namespace, gets)
    built = built._replace(warnings=[*unknown, *built.warnings])
    if gets.devices is None:
        return built
    from .claims import claim_template

    return built._replace(dependents=[claim_template(manifest, namespace, gets.devices), *built.dependents])


def _build(manifest: Training | Inference | Notebook | Compute, namespace: str, gets: Equipment) -> Built:
    # Only the module of the kind is imported: a module process compiles what it imports, and mostly for one job.
    if manifest.kind == "training":
        from .training import build_training

        return build_training(manifest, namespace, gets)
    if manifest.kind == "inference":
        from .deployments import build_inference

        return build_inference(manifest, namespace, gets)
    if manifest.kind == "notebook":
        from .notebook import build_notebook

        return build_notebook(manifest, namespace, gets)
    from .deployments import build_compute

    return build_compute(manifest, namespace, gets)
