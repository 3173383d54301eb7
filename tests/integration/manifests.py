# SPDX-License-Identifier: BSD-2-Clause
"""Small manifests for the tests: no pool, so that any cluster with GPUs runs them."""

from __future__ import annotations

from typing import Any

IMAGE = "registry.example.com/ml:v1"


def manifest(kind: str, name: str, **blocks: dict[str, Any]) -> dict[str, Any]:
    """A manifest of the kind, with whole blocks or fields of blocks replaced: ``resources={"gpu": 2}``."""
    base: dict[str, dict[str, Any]] = {
        "job": {"name": name},
        "environment": {"image": IMAGE, "command": ["run"]},
        "resources": {"gpu": 1, "cpu": 1, "memory": "1Gi"},
    }
    for block, fields in blocks.items():
        base[block] = {**base.get(block, {}), **fields}
    return {"kind": kind, **base}


def training(name: str = "train", **blocks: dict[str, Any]) -> dict[str, Any]:
    return manifest("training", name, **blocks)


def inference(name: str = "serve", **blocks: dict[str, Any]) -> dict[str, Any]:
    return manifest("inference", name, **blocks)


def notebook(name: str = "lab", **blocks: dict[str, Any]) -> dict[str, Any]:
    return manifest("notebook", name, **blocks)


def compute(name: str = "web", **blocks: dict[str, Any]) -> dict[str, Any]:
    return manifest("compute", name, **{"resources": {"gpu": 0}, **blocks})
