# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What a manifest says, as a short text to compare: two that ask for the same run have the same digest. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ..quantity import canonical
from .models import Training

_LENGTH = 32  # hexadecimal digits: 128 bits, which no two manifests of a cluster share by chance
_QUANTITIES = {"resources": ("cpu", "memory", "gpu_share"), "storage": ("shm",)}


def digest_of(manifest: Training) -> str:
    """The digest of what a training runs: of its manifest, not of the objects that a version of this collection builds.

    How something is spelled and whether a default is written out makes no difference, nor do the version of the
    manifest language and the block ``job``: its name says whose digest it is, and priority, description and sweep
    change nothing of the run.
    """
    # Without defaults, so that a field that a later version adds leaves the digests of today's manifests as they are.
    written = manifest.model_dump(mode="json", exclude_defaults=True, exclude={"version", "job"})
    for block, fields in _QUANTITIES.items():
        for field in fields:
            if field in written.get(block, {}):
                written[block][field] = canonical(written[block][field])
    text = json.dumps(_without_empty_blocks(written), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _without_empty_blocks(block: dict[str, Any]) -> dict[str, Any]:
    """Blocks that hold nothing but defaults are the same as none."""
    inner = {key: _without_empty_blocks(value) if isinstance(value, dict) else value for key, value in block.items()}
    return {key: value for key, value in inner.items() if value != {}}
