# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes in its versions: what older servers do not serve, and which fields they drop.

A field is dropped where its feature gate is off by default (pkg/features/kube_features.go, dropDisabledFields). Fields
that a version does not know at all are kept: the types are those of the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Minor = tuple[int, int]
#: The patch releases that were recorded, or the newest ones.
RELEASES: dict[str, str] = {
    "1.29": "v1.29.14",
    "1.30": "v1.30.14",
    "1.31": "v1.31.14",
    "1.32": "v1.32.13",
    "1.33": "v1.33.13",
    "1.34": "v1.34.9",
    "1.35": "v1.35.6",
    "1.36": "v1.36.2",
}
NEWEST = "1.36"
#: API groups and resources (PLURAL.GROUP), and the version that first serves them in v1.
_SERVED_SINCE: dict[str, Minor] = {
    "resource.k8s.io": (1, 34),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (1, 30),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (1, 30),
}
SLEEP_SINCE: Minor = (1, 30)  # PodLifecycleSleepAction
SUCCESS_POLICY_SINCE: Minor = (1, 31)  # JobSuccessPolicy
CLOSED_STREAMS_SINCE: Minor = (1, 30)  # TranslateStreamCloseWebsocketRequests
MANAGED_BY_SINCE: Minor = (1, 32)  # JobManagedBy
POD_GENERATION_SINCE: Minor = (1, 33)  # kubelets and pods have observed generations: PodObservedGenerationTracking
TERMINATING_REPLICAS_SINCE: Minor = (1, 35)  # DeploymentReplicaSetTerminatingReplicas
MUTABLE_JOBS_SINCE: Minor = (1, 36)  # MutablePodResourcesForSuspendedJobs, MutableSchedulingDirectivesForSuspendedJobs
ENDPOINTS_DEPRECATED_SINCE: Minor = (1, 33)
EMULATION_SINCE: Minor = (1, 34)  # in /version


@dataclass(frozen=True)
class Release:
    """One version. `gates_off`: feature gates that are switched off although the version has them."""

    name: str = NEWEST
    gates_off: frozenset[str] = frozenset()

    @property
    def git_version(self) -> str:
        return RELEASES[self.name]

    @property
    def minor(self) -> Minor:
        major, minor = self.name.split(".")
        return int(major), int(minor)

    @property
    def without(self) -> frozenset[str]:
        """What it does not serve."""
        return frozenset(name for name, since in _SERVED_SINCE.items() if self.minor < since)

    def drop_fields(self, obj: Object) -> None:
        """Remove the fields whose gates are off."""
        if obj["kind"] == "Job" and self._lacks(SUCCESS_POLICY_SINCE, "JobSuccessPolicy"):
            obj["spec"].pop("successPolicy", None)
        if obj["kind"] == "Job" and self._lacks(MANAGED_BY_SINCE, "JobManagedBy"):
            obj["spec"].pop("managedBy", None)
        if obj["kind"] in ("Deployment", "ReplicaSet") and self.minor < TERMINATING_REPLICAS_SINCE:
            (obj.get("status") or {}).pop("terminatingReplicas", None)
        if self._lacks(SLEEP_SINCE, "PodLifecycleSleepAction"):
            for container in _containers(obj):
                for hook in (container.get("lifecycle") or {}).values():
                    hook.pop("sleep", None)

    def _lacks(self, since: Minor, gate: str) -> bool:
        return self.minor < since or gate in self.gates_off


def release(name: str, gates_off: frozenset[str] = frozenset()) -> Release:
    """The release by its minor version; ValueError for one that is not known."""
    if name not in RELEASES:
        raise ValueError(f"unknown version of Kubernetes: {name}. Known: {', '.join(RELEASES)}")
    return Release(name, gates_off)


def _containers(obj: Object) -> Iterator[Object]:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    for pod in (spec, (spec.get("template") or {}).get("spec") or {}):
        for name in ("containers", "initContainers"):
            yield from (each for each in pod.get(name) or () if isinstance(each, dict))
