# SPDX-License-Identifier: BSD-2-Clause
"""A digest of a manifest, the same for two manifests that ask for the same run. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ..accelerators import ACCELERATORS
from ..quantity import canonical

if TYPE_CHECKING:
    from .models import Training

_LENGTH = 32  # hexadecimal digits: 128 bits, which no two manifests of a cluster share by chance


def digest_of(manifest: Training) -> str:
    """The digest of what a training runs, from its manifest and not from the objects of a version of the collection.

    Spelling, explicit defaults, the version of the format and the block ``job`` make no difference.
    """
    # Without defaults, so that a field that a later version adds leaves the digests of today's manifests as they are.
    # Without warnings, as valueFrom is kept as the dict that Kubernetes gets, and not as its model.
    # Without the marks of secrets, which only say what to show.
    left_out: dict[str, Any] = {"version": True, "job": True, "environment": {"env": {"__all__": {"secret"}}}}
    data = manifest.model_dump(mode="json", exclude_defaults=True, exclude=left_out, warnings=False)
    shares = (row.field for row in ACCELERATORS.values() if row.unit)
    quantities = {"resources": ("cpu", "memory", *shares), "storage": ("shm",)}
    for block, fields in quantities.items():
        for field in fields:
            if field in data.get(block, {}):
                data[block][field] = canonical(data[block][field])
    text = json.dumps(_without_empty_blocks(data), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _without_empty_blocks(block: dict[str, Any]) -> dict[str, Any]:
    inner = {key: _without_empty_blocks(value) if isinstance(value, dict) else value for key, value in block.items()}
    return {key: value for key, value in inner.items() if value != {}}
