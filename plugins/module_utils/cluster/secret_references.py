# SPDX-License-Identifier: BSD-2-Clause
"""The values of Kubernetes Secrets that the containers of a pod get, to mask them in what these print."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import if_allowed
from ..kube.resources import SECRET
from ..redaction import live_secret_values

_SHORTEST = 6  # characters: shorter ones are parts of other words
_SHORTEST_LINE = 24
_MOST = 50  # Secrets: a pod can name thousands
_MOST_LINES = 1_000  # of all values: each line of a log is searched for all of them


def referenced_secret_values(client: Client, namespace: str, pod_specs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Those that the account may read, at one request for each Secret. Raises KubeError."""
    keys: dict[str, set[str] | None] = {}
    for name, key in dict.fromkeys(chain.from_iterable(map(_references, pod_specs))):
        known = keys.setdefault(name, set())
        if key is None:
            keys[name] = None
        elif known is not None:
            known.add(key)
    names = sorted(name for name in keys if name)[:_MOST]
    found = (
        run_concurrently(lambda name: _secret_data(client, namespace, name), names, client.concurrency) if names else ()
    )
    values = [
        _maskable_lines(_decode(value))
        for name, data in zip(names, found, strict=True)
        for key, value in data.items()
        if (wanted := keys[name]) is None or key in wanted
    ]
    # A file of certificates with thousands of lines does not keep the others from being masked.
    values.sort(key=len)
    return set(islice(chain.from_iterable(values), _MOST_LINES))


def log_secrets(
    client: Client, namespace: str, workload: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]
) -> set[str]:
    """What to mask in the logs of pods: the secrets in them and their workload, and those that these refer to.

    An admission webhook for pods changes them alone. Raises KubeError.
    """
    template = (workload.get("spec") or {}).get("template") or {}
    found = [{"metadata": {}, "spec": {"template": pod}} for pod in pods]
    specs = [spec for each in (template, *(one["spec"]["template"] for one in found)) if (spec := each.get("spec"))]
    written = {text for each in (workload, *found) for text in live_secret_values(each)}
    return written | referenced_secret_values(client, namespace, specs)


def _references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The Secrets that variables and volumes take values from, with the key, or None for all keys.

    The manifests of the collection have variables only; admission webhooks and other clients write the rest.
    """
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for variable in container.get("env") or ():
            if reference := (variable.get("valueFrom") or {}).get("secretKeyRef"):
                yield reference["name"], reference["key"]
        for source in container.get("envFrom") or ():
            yield (source.get("secretRef") or {}).get("name") or "", None
    for volume in spec.get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            secret = source.get("secret") or {}
            name = secret.get("secretName") or secret.get("name") or ""  # the latter in a projected volume
            keys = [item["key"] for item in secret.get("items") or ()] or [None]
            yield from ((name, key) for key in keys)


def _secret_data(client: Client, namespace: str, name: str) -> Mapping[str, str]:
    secret = if_allowed(lambda: client.get(SECRET, namespace, name, leaves_out=True), None)
    return (secret or {}).get("data") or {}


def _decode(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except ValueError:
        return ""


def _maskable_lines(value: str) -> list[str]:
    """The value; of several lines, those that are as long as the lines of keys."""
    lines = [line.strip() for line in value.strip().splitlines()]
    shortest = _SHORTEST if len(lines) == 1 else _SHORTEST_LINE
    return [line for line in lines if len(line) >= shortest]
