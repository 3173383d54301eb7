# SPDX-License-Identifier: BSD-2-Clause
"""Load a manifest as a module does; of an accepted one, let API servers judge its objects by dry runs."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils import labels
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import UnfitHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import (
    Declaration,
    pool_config_map,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import NAMESPACE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.digest import digest_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import Manifest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.pool_model import Pool
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.quota_model import Quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import quota_objects

MOST_CHARACTERS = 25_000


def outcome(text: Any) -> tuple[list[Manifest], str]:
    """The manifests of an accepted text, or the problem of the first error. Any other exception is a defect."""
    try:
        return [document.model for document in load(definition=text)], ""
    except ManifestErrors as problem:
        _check(problem)
        return [], problem.errors[0].problem


def _check(problem: ManifestErrors) -> None:
    message = str(problem)
    assert problem.errors, "no error"
    assert len(message) <= MOST_CHARACTERS, f"a message of {len(message)} characters"
    for error in problem.errors[:5]:
        first = str(error).split("\n")[0]
        assert first.endswith((".", "?")), f"not a sentence: {first}"


def objects_of(manifest: Manifest, namespace: str) -> Iterator[dict[str, Any]]:
    """What is applied for a manifest, in one namespace; Nodes and Namespaces for the names that it uses."""
    if isinstance(manifest, Pool):
        nodes = {name: node.gpu_type for name, node in manifest.nodes.items()}
        config_map = pool_config_map(Declaration(manifest.pool.name, manifest.pool.description or "", nodes))
        yield _moved(config_map, namespace)
        for name, gpu_type in nodes.items():
            marks = {labels.POOL: manifest.pool.name, **({labels.GPU_TYPE: gpu_type} if gpu_type else {})}
            yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": marks}}
    elif isinstance(manifest, Quota):
        for name in manifest.namespaces:
            yield quota_objects.namespace(name, managed=True)
            yield _moved(quota_objects.resource_quota(manifest, name), namespace)
            limits = quota_objects.limit_range(manifest, name)
            if limits is not None:
                yield _moved(limits, namespace)
    else:
        if isinstance(manifest, Training):
            digest_of(manifest)
        try:
            built = build(manifest, namespace)
        except UnfitHardware:  # Refused before anything is sent, because the pool's hardware cannot do it.
            return
        yield built.priority_class
        for obj in built.objects:
            yield _moved(obj, namespace)
        if manifest.job.namespace:
            yield quota_objects.namespace(manifest.job.namespace, managed=True)


def _moved(obj: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


@dataclass
class Server:
    """An API server that validates objects, each once. ``refused`` has its answers."""

    name: str
    client: Client
    namespace: str = field(default_factory=lambda: f"gpuctl-fuzz-{os.getpid()}")
    judged: set[bytes] = field(default_factory=set)

    def refusal(self, obj: dict[str, Any]) -> str | None:
        """Why the server does not take the object; None if it does, or has it already."""
        digest = hashlib.sha256(json.dumps(obj, sort_keys=True).encode("utf-8", "surrogatepass")).digest()
        if digest in self.judged:
            return None
        self.judged.add(digest)
        try:
            self.client.begin_task()
            self.client.apply(copy.deepcopy(obj), dry_run=True, force=True, manager="gpuctl-fuzz")
        except ApiError as error:
            return str(error)
        return None


@contextmanager
def server(kubeconfig: str, name: str) -> Iterator[Server]:
    """A server by its kubeconfig, with a namespace of our own while it is in use."""
    client = Client(resolve_connection({"kubeconfig": kubeconfig}, {}))
    client.begin_task()
    found = Server(name, client)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": found.namespace}}
    live = client.apply(space, force=True, manager="gpuctl-fuzz")
    try:
        yield found
    finally:
        client.begin_task()
        client.delete(NAMESPACE, live["metadata"], propagation="Background")
