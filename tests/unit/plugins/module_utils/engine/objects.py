# SPDX-License-Identifier: BSD-2-Clause
"""Small live objects, as if we had applied them, for the tests of the pure parts."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER

API_VERSIONS = {
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "Service": "v1",
    "ConfigMap": "v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}


def wanted(kind: str, name: str = "train", **fields: Any) -> dict[str, Any]:
    """A desired object of the job ``train`` in the namespace ``ml``."""
    metadata = {"name": name, "namespace": "ml", "labels": {"app": "train"}}
    return {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata, **fields}


def live(kind: str, name: str = "train", *, leaving: bool = False, status: Any = None, **fields: Any) -> dict[str, Any]:
    """The same object as it lives after we applied it."""
    applied = wanted(kind, name, **fields)
    fieldset = {
        f"f:{key}": _tree(value) for key, value in applied.items() if key not in ("apiVersion", "kind", "metadata")
    }
    fieldset["f:metadata"] = {"f:labels": {"f:app": {}}}
    metadata = {
        **applied["metadata"],
        "uid": f"uid-of-{name}",
        "resourceVersion": "7",
        "managedFields": [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fieldset}],
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}),
    }
    return {**applied, "metadata": metadata, **({"status": status} if status is not None else {})}


def at(obj: dict[str, Any], version: str, uid: str = "") -> dict[str, Any]:
    """An object as it is sent to replace a version of the live one, or, with version 1, to create one."""
    return {**obj, "metadata": {**obj["metadata"], **({"uid": uid} if uid else {}), "resourceVersion": version}}


def _tree(value: Any) -> dict[str, Any]:
    """The fieldsV1 tree of everything in a value; lists of named entries merge by their name."""
    if isinstance(value, dict):
        return {f"f:{key}": _tree(child) for key, child in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        return {f"k:{json.dumps({'name': item['name']})}": {".": {}, **_tree(item)} for item in value}
    return {}
