# SPDX-License-Identifier: BSD-2-Clause
"""What is in a cluster, in a form in which two runs can be compared: without uids, versions, times and status. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Object = dict[str, Any]

LEDGER = "gpuctl-ledger"
HISTORY = "gpuctl-history"  # what has happened, not what should be
WORKLOADS = ("Job", "Deployment", "StatefulSet")
# What controllers make of other objects, and what every namespace has by itself.
DERIVED = frozenset(
    {"ControllerRevision", "Endpoints", "EndpointSlice", "Event", "Lease", "Pod", "PodDisruptionBudget", "ReplicaSet"}
)
_FURNITURE = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})
_SERVER_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_SERVER_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_SERVER_ANNOTATIONS = ("deployment.kubernetes.io/revision", "batch.kubernetes.io/job-tracking")
_TIMES = ("kubectl.kubernetes.io/restartedAt",)
_SERVICE_FIELDS = ("clusterIP", "clusterIPs", "healthCheckNodePort", "ipFamilies", "ipFamilyPolicy")


def key_of(obj: Mapping[str, Any]) -> str:
    """``Job team-a/train``; without a namespace ``Node node-1``."""
    metadata = obj["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj['kind']} {place}{metadata['name']}"


def _is_derived(obj: Mapping[str, Any]) -> bool:
    """What controllers have made; a revision with this label is the copy that a restart keeps."""
    return obj["kind"] in DERIVED and "runwhere.ai/restart-of" not in (obj["metadata"].get("labels") or {})


@dataclass(frozen=True)
class Snapshot:
    """The objects of a cluster by their key. ``names`` maps what differs from case to case (namespaces) to one word."""

    objects: Mapping[str, Object]
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, objects: Iterable[Object], names: Mapping[str, str] | None = None) -> Snapshot:
        return cls({key_of(obj): obj for obj in objects}, names or {})

    @cached_property
    def contents(self) -> dict[str, str]:
        """What people and the collection have said, as text to compare."""
        return {
            self._renamed(key): self._renamed(json.dumps(self._content(obj), sort_keys=True))
            for key, obj in self.objects.items()
            if not _is_derived(obj)
            and not obj["metadata"]["name"].startswith(HISTORY)
            and (obj["kind"], obj["metadata"]["name"]) not in _FURNITURE
        }

    @cached_property
    def uids(self) -> dict[str, str]:
        return {self._renamed(key): str(obj["metadata"].get("uid")) for key, obj in self.objects.items()}

    @cached_property
    def versions(self) -> dict[str, tuple[str, str]]:
        """uid and resourceVersion: the same ones mean that the object was not written."""
        return {
            self._renamed(key): (str(obj["metadata"].get("uid")), str(obj["metadata"].get("resourceVersion")))
            for key, obj in self.objects.items()
        }

    @cached_property
    def live_uids(self) -> set[str]:
        return {str(obj["metadata"].get("uid")) for obj in self.objects.values()}

    @property
    def lease_holder(self) -> str:
        """Who changes pools at this moment."""
        lease = self.objects.get("Lease gpuctl-system/pools") or {}
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def get(self, key: str) -> Object | None:
        return next((obj for name, obj in self.objects.items() if self._renamed(name) == key), None)

    def _renamed(self, text: str) -> str:
        for name, word in self.names.items():
            text = text.replace(name, word)
        return text

    def _content(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        if obj["kind"] == "Node":
            return {"labels": metadata.get("labels") or {}}
        if obj["kind"] == "ConfigMap" and metadata["name"] == LEDGER:
            return {name: self._ledger_entry(text, metadata, name) for name, text in (obj.get("data") or {}).items()}
        content = {name: value for name, value in obj.items() if name not in ("status", "apiVersion")}
        content["metadata"] = self._metadata(metadata)
        spec = content.get("spec")
        if isinstance(spec, dict):
            content["spec"] = self._spec(obj, spec)
        return content

    def _metadata(self, metadata: Object) -> Object:
        kept = {name: value for name, value in metadata.items() if name not in _SERVER_METADATA}
        if "deletionTimestamp" in kept:
            kept["deletionTimestamp"] = "terminating"
        if "ownerReferences" in kept:
            kept["ownerReferences"] = [
                f"{owner['kind']} {owner['name']}{'' if owner['uid'] in self.live_uids else ', which is dead'}"
                for owner in kept["ownerReferences"]
            ]
        for group, own in (("labels", _SERVER_LABELS), ("annotations", _SERVER_ANNOTATIONS)):
            values = {name: value for name, value in (kept.pop(group, None) or {}).items() if name not in own}
            values |= {name: "a time" for name in _TIMES if name in values}
            if values:
                kept[group] = values
        return kept

    def _spec(self, obj: Object, spec: Object) -> Object:
        kind, metadata = obj["kind"], obj["metadata"]
        spec = dict(spec)
        if kind == "Namespace":
            return {}
        if kind == "Service":
            for name in _SERVICE_FIELDS:
                if spec.get(name) != "None" and spec.get(name) != ["None"]:
                    spec.pop(name, None)
            spec["ports"] = [
                {name: value for name, value in port.items() if name != "nodePort"} for port in spec.get("ports") or ()
            ]
        if kind == "Job":
            spec.pop("selector", None)
        if kind in WORKLOADS:
            template = spec.get("template") or {}
            spec["template"] = {**template, "metadata": self._metadata(template.get("metadata") or {})}
        # An autoscaler decides about them.
        if (
            kind == "Deployment"
            and f"HorizontalPodAutoscaler {metadata['namespace']}/{metadata['name']}" in self.objects
        ):
            spec.pop("replicas", None)
        return spec

    def _ledger_entry(self, text: str, metadata: Object, name: str) -> Any:
        try:
            entry = json.loads(text)
        except ValueError:
            return text
        job = self.objects.get(f"Job {metadata['namespace']}/{name}")
        uid = entry.pop("uid", None)
        entry["of"] = "the live Job" if job and job["metadata"]["uid"] == uid else "a former Job"
        return {name: value for name, value in entry.items() if not name.endswith("_at")}


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """What has come, gone and changed from one state to another, a line for each object."""
    lines = [f"- {key}" for key in sorted(one.keys() - other.keys())]
    lines += [f"+ {key}" for key in sorted(other.keys() - one.keys())]
    for key in sorted(one.keys() & other.keys()):
        if one[key] != other[key]:
            lines.append(f"~ {key}: {_first_difference(json.loads(one[key]), json.loads(other[key]))}")
    return lines


def _first_difference(one: Any, other: Any, path: str = "") -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            if one.get(name) != other.get(name):
                return _first_difference(one.get(name), other.get(name), f"{path}.{name}")
    return f"{path or '.'}: {_short(one)} -> {_short(other)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
