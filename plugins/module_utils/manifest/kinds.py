# SPDX-License-Identifier: BSD-2-Clause
"""The kinds of manifests, each with its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from .accelerator_model import AcceleratorManifest
    from .job_blocks import JobManifest
    from .job_models import Compute, Inference, Notebook, Training
    from .policy_model import Policy
    from .pool_model import Pool
    from .quota_model import Quota

Manifest: TypeAlias = "Training | Inference | Notebook | Compute | Pool | Quota | Policy | AcceleratorManifest"

_JOBS = ("training", "inference", "notebook", "compute")
ADMINISTRATORS = ("policy", "accelerator")
"""The kinds that have no effect among other manifests: an administrator names the file, or puts them elsewhere."""


class _Models(Mapping[str, "type[Manifest]"]):
    """By kind. Each is imported with the first manifest of its kind: pydantic takes a third of a second for all."""

    _kinds = (*_JOBS, "pool", "quota", *ADMINISTRATORS)

    def __getitem__(self, kind: str) -> type[Manifest]:
        if kind in _JOBS:
            from .job_models import Compute, Inference, Notebook, Training

            jobs: tuple[type[Manifest], ...] = (Training, Inference, Notebook, Compute)
            return jobs[_JOBS.index(kind)]
        if kind == "pool":
            from .pool_model import Pool

            return Pool
        if kind == "quota":
            from .quota_model import Quota

            return Quota
        if kind == "policy":
            from .policy_model import Policy

            return Policy
        if kind == "accelerator":
            from .accelerator_model import AcceleratorManifest

            return AcceleratorManifest
        raise KeyError(kind)

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


KINDS = _Models()


def is_job(manifest: Manifest) -> TypeGuard[JobManifest]:
    return manifest.kind in _JOBS


def is_service(manifest: Manifest) -> TypeGuard[Inference | Notebook | Compute]:
    return manifest.kind in _JOBS[1:]


def is_pool(manifest: Manifest) -> TypeGuard[Pool]:
    return manifest.kind == "pool"


def is_quota(manifest: Manifest) -> TypeGuard[Quota]:
    return manifest.kind == "quota"


def is_inference(manifest: Manifest) -> TypeGuard[Inference]:
    return manifest.kind == "inference"


def is_training(manifest: Manifest) -> TypeGuard[Training]:
    return manifest.kind == "training"
