# SPDX-License-Identifier: BSD-2-Clause
"""Who holds a field of an object, since when, and what others have added to it: by ``managedFields``. Pure.

https://kubernetes.io/docs/reference/using-api/server-side-apply: the manager that sets a field owns it, and its entry
has the time of its last write. A field that was removed has no owner, so who removed it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...engine.paths import ABSENT, Path, key_of_entry, name_of_step, value_at
from ...labels import FIELD_MANAGER, RESTARTED_AT

OTHERS, GPUCTL, CONTROLLER, UNKNOWN = "others", "gpuctl", "controller", "unknown"

# The field managers of what runs in clusters by itself: the first word of a user agent, or the name that it sets.
# What they write follows from what a user has declared elsewhere.
_CONTROLLERS = re.compile(
    r"kube-(apiserver|controller-manager|scheduler|proxy)|kubelet|cloud-controller-manager|k3s|rke2|k0s|manager|"
    r".*[-_]controller(-manager)?|.*[-_](operator|scheduler|autoscaler|admission|webhook|agent|daemon)|"
    r"kueue.*|vc-.*|volcano.*|keda.*|cluster-autoscaler|karpenter|vpa-.*|nfd-.*|node-feature-discovery.*|"
    r"gpu-feature-discovery|gpu-operator|nvidia-.*|calico.*|cilium.*|flanneld|hami.*|descheduler|kyverno.*|gatekeeper"
)
# Of managers like those above that bring what a person has declared elsewhere.
_DEPLOYERS = re.compile(r"argocd-.*|kustomize-controller|helm-controller|flux.*|fleet.*|rancher.*")


class FieldHolder(NamedTuple):
    """An entry of ``managedFields``. ``time`` is RFC 3339, or None: writes of the scale subresource may have none."""

    manager: str
    operation: str
    time: str | None
    subresource: str | None
    fields: Mapping[str, Any]

    @property
    def cause(self) -> str:
        if self.manager.startswith(FIELD_MANAGER):
            return GPUCTL
        is_controller = _CONTROLLERS.fullmatch(self.manager) and not _DEPLOYERS.fullmatch(self.manager)
        return CONTROLLER if is_controller else OTHERS


def holders_of(obj: Mapping[str, Any]) -> list[FieldHolder]:
    """All entries, the last writer first. Writes of the status may set annotations too."""
    found = [
        FieldHolder(
            str(entry.get("manager") or "unknown"),
            str(entry.get("operation") or ""),
            entry.get("time"),
            entry.get("subresource"),
            entry.get("fieldsV1") or {},
        )
        for entry in obj.get("metadata", {}).get("managedFields") or ()
    ]
    return sorted(found, key=lambda each: each.time or "", reverse=True)


class Blame(NamedTuple):
    """Who set a field to its live value: another client, our own run, a controller, or not known."""

    cause: str = UNKNOWN
    holder: FieldHolder | None = None


def blame(obj: Mapping[str, Any], path: Path) -> Blame:
    """Who set the live value at the path.

    A field that we own by an apply has not changed since: an update by another manager takes the ownership from us.
    """
    holders = [each for each in holders_of(obj) if holds(each.fields, path)]
    ours = [each for each in holders if each.cause == GPUCTL]
    for found in (
        [each for each in ours if each.operation == "Apply"],
        [each for each in holders if each.cause == OTHERS],
        ours,
        holders,
    ):
        if found:
            return Blame(found[0].cause, found[0])
    return Blame()


def last_run(obj: Mapping[str, Any]) -> str | None:
    """When our own run last wrote the object; None if that is not known."""
    return next((each.time for each in holders_of(obj) if each.cause == GPUCTL and each.time), None)


def last_of_others(obj: Mapping[str, Any]) -> FieldHolder | None:
    """The other client that wrote the object last and still owns fields of it, not counting its status."""
    return next((each for each in holders_of(obj) if each.cause == OTHERS and each.subresource != "status"), None)


def holds(fields: Mapping[str, Any], path: Path) -> bool:
    """Whether a ``fieldsV1`` tree has the path, something below it, or all of what it is part of as one value."""
    below = fields
    for step in path:
        if not below:
            return below is not fields
        name = name_of_step(below, step)
        if name not in below:
            return False
        below = below[name]
    return bool(fields)


class Addition(NamedTuple):
    """A field that another client owns, and that we have never set."""

    path: Path
    value: Any
    blame: Blame


# Set by what people may do with a workload, or written beside what they meant to write.
_INCIDENTAL: tuple[Path, ...] = (
    ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
    ("metadata", "annotations", "deployment.kubernetes.io/revision"),
    ("metadata", "annotations", "kubernetes.io/change-cause"),
    ("metadata", "finalizers"),
    ("metadata", "ownerReferences"),
    ("spec", "template", "metadata", "annotations", RESTARTED_AT),
    ("spec", "sessionAffinityConfig"),  # filled in with sessionAffinity
    ("spec", "template", "spec", "serviceAccount"),  # filled in with serviceAccountName
    ("spec", "replicas"),  # without a declared number, it is the autoscaler's
    ("status",),
)


def additions(obj: Mapping[str, Any], declared: Mapping[str, Any], ignored: Sequence[Path] = ()) -> list[Addition]:
    """What others have added to a live object, the last first; ``declared`` is how we would write it."""
    found: dict[Path, Addition] = {}
    ours = [each.fields for each in holders_of(obj) if each.cause == GPUCTL]
    for holder in holders_of(obj):
        if holder.cause != OTHERS or holder.subresource == "status":
            continue
        for path, value in _leaf_paths(holder.fields, obj, ()):
            hidden = any(path[: len(each)] == each for each in (*_INCIDENTAL, *ignored, *found))
            if not hidden and value_at(declared, path) is ABSENT and not any(holds(each, path) for each in ours):
                found[path] = Addition(path, value, Blame(OTHERS, holder))
    return list(found.values())


def _leaf_paths(fields: Mapping[str, Any], live: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The fields of a tree with their values; an entry of a list that its holder has added is one."""
    for name, below in fields.items():
        step: Any = None
        if name.startswith("f:"):
            step = name[2:]
        elif name.startswith("k:"):
            step = tuple(key_of_entry(name).items())
        if step is None:  # "." is the thing itself, "v:" an element of a set, which is reported with its list
            continue
        value = value_at(live, (step,))
        if value is ABSENT:
            continue
        if not below.keys() - {"."} or (isinstance(step, tuple) and "." in below):
            yield (*path, step), value
        else:
            yield from _leaf_paths(below, value, (*path, step))
