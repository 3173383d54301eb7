# SPDX-License-Identifier: BSD-2-Clause
"""Jobs whose workload another run has replaced while this one wrote the objects around it.

Those of a training cannot outlive it, because it owns them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..cluster.status import is_terminating
from ..kube.client import Client
from ..kube.errors import ConcurrentChange, KubeError
from ..kube.resources import Resource, resource_of
from ..labels import selector_of
from .guarded_write import concurrent_change, is_as_applied
from .plan import Action, Plan

Object = dict[str, Any]
Objects = dict[str, Object]
"""By name."""


def find_mixtures(
    client: Client, applied: Iterable[tuple[Plan, Object | None]], warn: Callable[[str], None]
) -> dict[tuple[str, str], ConcurrentChange]:
    """The errors of such jobs, by namespace and name, among plans that were applied, with their workloads."""
    written: dict[tuple[Resource, str], dict[str, Object | None]] = defaultdict(dict)
    for plan, workload in applied:
        first, *others = plan.steps or (None,)
        if first is None:
            continue
        if first.live and first.live["kind"] != first.kind:  # Another run may have created the former kind again.
            written[resource_of(first.live), plan.namespace][plan.name] = workload
        around = any(step.action is not Action.UNCHANGED and not step.owned for step in others)
        if first.kind in ("Deployment", "StatefulSet") and around:
            written[resource_of(dict(first.identity)), plan.namespace][plan.name] = workload
    found = {}
    for (resource, namespace), workloads in written.items():
        known = {name: each for name, each in workloads.items() if each and each["kind"] == resource.kind}
        try:
            now = _read_again(client, resource, namespace, workloads.keys(), known)
        except KubeError as error:
            names = ", ".join(workloads)
            warn(f"it is not known whether another run changed {names} at the same time: {error}")
            continue
        for name in workloads:
            if not is_as_applied(known[name], now.get(name)) if name in known else name in now:
                found[namespace, name] = concurrent_change(known.get(name) or now[name], now.get(name))
    return found


def _read_again(client: Client, resource: Resource, namespace: str, names: Iterable[str], applied: Objects) -> Objects:
    """The workloads as they are now. Their metadata say which have the spec that they were applied with: another one
    has another generation (pkg/registry/apps, strategy.go, PrepareForUpdate). Only of these others, all is read."""

    def read(names: Iterable[str], *, metadata_only: bool) -> Objects:
        labels = selector_of(set(names))
        found = client.list_objects(resource, namespace, labels=labels, metadata_only=metadata_only)
        return {obj["metadata"]["name"]: obj for obj in found if not is_terminating(obj)}

    now = read(names, metadata_only=True)
    others = set()
    for name in now.keys() & applied.keys():
        if _has_same_spec(applied[name]["metadata"], now[name]["metadata"]):
            now[name] = {**applied[name], "metadata": now[name]["metadata"]}
        else:
            others.add(name)
            del now[name]
    return now | read(others, metadata_only=False) if others else now


def _has_same_spec(metadata: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    generation = metadata.get("generation")
    return generation is not None and (metadata["uid"], generation) == (now.get("uid"), now.get("generation"))
