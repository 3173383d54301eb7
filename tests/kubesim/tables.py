# SPDX-License-Identifier: BSD-2-Clause
"""Lists as kubectl prints them: meta.k8s.io/v1 Table."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubesim.resources import Resource

Object = dict[str, Any]


def table(resource: Resource, objects: list[Object], meta: Object, include: str, now: datetime) -> Object:
    columns = [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}]
    rows = [{"cells": [o["metadata"]["name"]], "object": o} for o in objects]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": columns,
        "rows": rows,
    }
