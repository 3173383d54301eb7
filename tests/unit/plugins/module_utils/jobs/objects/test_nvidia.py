# SPDX-License-Identifier: BSD-2-Clause
"""What jobs with NVIDIA GPUs become, byte for byte as versions before accelerator profiles made it.

``tests/unit/fixtures/nvidia/objects.json`` was written by the code before them, and stays as it is.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.digest import digest_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load

RECORDED = Path(__file__).parents[4] / "fixtures" / "nvidia" / "objects.json"
KINDS = ("training", "inference", "notebook", "compute")
RESOURCES: dict[str, dict[str, Any]] = {
    "none": {},
    "one": {"gpu": 1},
    "eight": {"gpu": 8},
    "typed": {"gpu": 2, "gpu-type": "A100-100G"},
    "share": {"gpu-share": "2500Mi"},
    "typed-share": {"gpu-share": "10Gi", "gpu-type": "L40s"},
    "both": {"gpu": 1, "gpu-share": "4Gi"},
    "only-a-type": {"gpu-type": "H100"},
}
POOLS = ("default", "training-pool")


def cases() -> dict[str, dict[str, Any]]:
    """A manifest for each combination of kind, pool, resources, and number of nodes."""
    found = {}
    for kind, pool, (name, resources) in itertools.product(KINDS, POOLS, RESOURCES.items()):
        for nodes in (1, 3) if kind == "training" and "share" not in name else (1,):
            several = {"node_count": nodes} if nodes > 1 else {}
            found[f"{kind}/{pool}/{name}/{nodes}"] = {
                "kind": kind,
                "job": {"name": f"{kind}-job"},
                "environment": {"image": "registry.example.com/job:1", "command": ["llamafactory-cli", "train"]},
                "resources": {"pool": pool, "cpu": 8, "memory": "32Gi", **resources, **several},
            }
    return found


def objects_of(manifest: dict[str, Any]) -> str:
    """The objects with everything that is said about them, as text: the order of fields counts."""
    (document,) = load(definition=manifest)
    built = build(document.model, "ml")
    digest = digest_of(document.model) if isinstance(document.model, Training) else None
    return json.dumps([built.objects, [*document.warnings, *built.warnings], digest])


@pytest.mark.parametrize("name", cases())
def test_the_objects_are_the_same(name: str) -> None:
    assert objects_of(cases()[name]) == json.loads(RECORDED.read_text())[name]


def test_every_recorded_case_is_compared() -> None:
    assert json.loads(RECORDED.read_text()).keys() == cases().keys()
