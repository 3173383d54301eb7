# SPDX-License-Identifier: BSD-2-Clause
"""Build the Kubernetes objects of a job from its validated manifest. Pure: nothing is read, nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...accelerators import Equipment, PoolHardware, equipment, software_warnings

if TYPE_CHECKING:
    from ...manifest.models import Compute, Inference, Notebook, Training

Object = dict[str, Any]


class Built(NamedTuple):
    """The Kubernetes objects of one job, as they are applied.

    ``dependents`` are in the order in which they are applied after the workload. ``priority_class`` is cluster-wide
    and shared by jobs: created when absent, never replaced. ``warnings`` are sentences for the user.
    ``former_command`` is what versions before 1.1 ran instead of the workload's command, if that alone differs.
    """

    workload: Object
    dependents: list[Object]
    priority_class: Object
    warnings: list[str]
    former_command: list[str] | None = None

    @property
    def objects(self) -> list[Object]:
        """The job's own objects, the workload first."""
        return [self.workload, *self.dependents]


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


def sparse(fields: Mapping[str, Any]) -> Object:
    """The fields that are not empty; 0 is not.

    Kubernetes drops empty values when it decodes an object (Go's omitempty): if sent, they would differ at every run.
    """
    return {name: value for name, value in fields.items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {}, ())
