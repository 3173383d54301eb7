# SPDX-License-Identifier: BSD-2-Clause
"""A digest of a manifest, the same for two manifests that ask for the same run. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..quantity import canonical, uniform

if TYPE_CHECKING:
    from .job_blocks import JobManifest
    from .job_models import Training

_LENGTH = 32  # hexadecimal digits: 128 bits, which no two manifests of a cluster share by chance

Spelling = Callable[[str], str]


def digest_of(manifest: JobManifest) -> str:
    """The digest of what a job runs, from its manifest and not from the objects of a version of the collection.

    Spelling, explicit defaults, the version of the format and the blocks ``job`` and ``placement`` make no difference.
    """
    data = _data_of(manifest)
    _respell(data, cpu=uniform, of_bytes=partial(uniform, of_bytes=True))
    for variable in data.get("environment", {}).get("env", ()):
        divided = (variable.get("value_from") or {}).get("resourceFieldRef", {})
        if "divisor" in divided:
            divided["divisor"] = uniform(divided["divisor"], of_bytes=True)
    return _data_digest(data)


def former_digests_of(manifest: Training) -> tuple[str, ...]:
    """The digests by which earlier versions of the collection have recorded the same manifest in the ledger.

    Until 1.0, quantities kept their form: 1Gi and 1073741824 were two manifests. A training that has ended stays ended.
    """
    data = _data_of(manifest)
    _respell(data, cpu=canonical, of_bytes=canonical)
    return (_data_digest(data),)


def _data_of(manifest: JobManifest) -> dict[str, Any]:
    # Without defaults, so that a field that a later version adds leaves the digests of today's manifests as they are.
    # Without warnings, as valueFrom is kept as the dict that Kubernetes gets, and not as its model.
    # Without the marks of secrets, which only say what to show.
    secret = {"env": {"__all__": {"secret"}}}
    left_out: dict[str, Any] = {"version": True, "job": True, "placement": True, "environment": secret}
    data: dict[str, Any] = manifest.model_dump(mode="json", exclude_defaults=True, exclude=left_out, warnings=False)
    return data


def _respell(data: dict[str, Any], *, cpu: Spelling, of_bytes: Spelling) -> None:
    sizes = dict.fromkeys(("memory", "gpu_share", "gpu_memory"), of_bytes)
    spellings = {"resources": {"cpu": cpu, **sizes}, "storage": {"shm": of_bytes}}
    for block, fields in spellings.items():
        for field, spelling in fields.items():
            if field in data.get(block, {}):
                data[block][field] = spelling(data[block][field])


def _data_digest(data: dict[str, Any]) -> str:
    text = json.dumps(_without_empty_blocks(data), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _without_empty_blocks(block: dict[str, Any]) -> dict[str, Any]:
    inner = {key: _without_empty_blocks(value) if isinstance(value, dict) else value for key, value in block.items()}
    return {key: value for key, value in inner.items() if value != {}}
