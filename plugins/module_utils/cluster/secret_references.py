# SPDX-License-Identifier: BSD-2-Clause
"""The values of Kubernetes Secrets that the variables of containers refer to, to mask them in what these print."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import if_allowed
from ..kube.resources import SECRET
from ..redaction import live_secret_values

_SHORTEST = 6  # characters: shorter ones are parts of other words
_SHORTEST_LINE = 24
_MOST = 50  # Secrets: a pod can name thousands


def referenced_secret_values(client: Client, namespace: str, pod_specs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Those that the account may read, at one request for each Secret. Raises KubeError."""
    keys: dict[str, set[str]] = {}
    for spec in pod_specs:
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            for variable in container.get("env") or ():
                if reference := (variable.get("valueFrom") or {}).get("secretKeyRef"):
                    keys.setdefault(reference["name"], set()).add(reference["key"])
    names = sorted(keys)[:_MOST]
    found = (
        run_concurrently(lambda name: _secret_data(client, namespace, name), names, client.concurrency) if names else ()
    )
    texts = (_decoded(data[key]) for name, data in zip(names, found, strict=True) for key in keys[name] if key in data)
    return {text for value in texts for text in _maskable(value)}


def log_secrets(client: Client, workload: Mapping[str, Any]) -> set[str]:
    """What to mask in the logs of a workload: the secrets in it, and those that it refers to. Raises KubeError."""
    spec = (workload.get("spec") or {}).get("template", {}).get("spec")
    referenced = referenced_secret_values(client, workload["metadata"]["namespace"], [spec]) if spec else set()
    return live_secret_values(workload) | referenced


def _secret_data(client: Client, namespace: str, name: str) -> Mapping[str, str]:
    secret = if_allowed(lambda: client.get(SECRET, namespace, name, leaves_out=True), None)
    return (secret or {}).get("data") or {}


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except ValueError:
        return ""


def _maskable(value: str) -> set[str]:
    """The value; of several lines, those that are as long as the lines of keys."""
    lines = [line.strip() for line in value.strip().splitlines()]
    shortest = _SHORTEST if len(lines) == 1 else _SHORTEST_LINE
    return {line for line in lines if len(line) >= shortest}
