# SPDX-License-Identifier: BSD-2-Clause
"""Manifests written as users write them, and the objects built from them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.built import Built
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load

NAMESPACE = "team-a"
SMALLEST: dict[str, Any] = {
    "kind": "training",
    "job": {"name": "bert"},
    "environment": {"image": "registry.example.com/bert:1.0"},
    "resources": {"cpu": "8", "memory": "32Gi"},
}


@pytest.fixture
def build_job() -> Callable[..., Built]:
    """Build the smallest training, changed by the given sections one after the other, in a pool."""

    def built(*changes: Mapping[str, Any], pool: PoolHardware | None = None) -> Built:
        manifest: Any = SMALLEST
        for change in changes:
            manifest = _merged(manifest, change)
        (document,) = load(definition=manifest)
        return build(document.model, NAMESPACE, pool)

    return built


def _merged(base: Any, changes: Any) -> Any:
    if not isinstance(base, Mapping) or not isinstance(changes, Mapping):
        return copy.deepcopy(changes)
    return {**base, **{key: _merged(base.get(key), value) for key, value in changes.items()}}
