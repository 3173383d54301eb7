# SPDX-License-Identifier: BSD-2-Clause
"""What Kubernetes has since a version or only behind a feature gate, and what happens where it is missing. Pure.

The versions are those since which a server has the feature without being asked: GA, or beta and on by default
(pkg/features/kube_features.go). The guide's table is held to this one by tests/unit/test_guide_your_cluster.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

Version = tuple[int, int]

OLDEST: Version = (1, 29)  # below it podReplacementPolicy is dropped, without which trainings differ for ever
COMPLETE: Version = (1, 30)  # the first one without a row that is refused, except claims of devices
NEWEST: Version = (1, 36)  # the last one that it was tried on

LEFT_OUT, OTHER_WAY, REFUSED = "left out", "another way", "refused"


class Feature(NamedTuple):
    """``needed_by`` is what of the collection needs it; ``result`` and ``without`` say what happens if it is missing.

    ``api`` is the group version that has to be served, with ``plurals`` where not all of its kinds came at once.
    ``gate`` is the feature gate that may be off. ``kind`` and ``path`` say where it is in an object that we apply.
    """

    title: str
    since: Version
    needed_by: str
    result: str
    without: str
    api: str = ""
    plurals: tuple[str, ...] = ()
    gate: str = ""
    kind: str = ""
    path: tuple[str, ...] = ()


PRE_STOP_SLEEP = Feature(
    "lifecycle.preStop.sleep of containers",
    (1, 30),
    "kind inference and compute",
    OTHER_WAY,
    "the image's program sleep is run before a pod is stopped; without that program, its last requests may break off",
    gate="PodLifecycleSleepAction",
    kind="Deployment",
    path=("lifecycle", "preStop", "sleep"),
)
SUCCESS_POLICY = Feature(
    "successPolicy of Jobs",
    (1, 31),
    "distributed.launcher mpi and ray on several nodes",
    OTHER_WAY,
    "the first node tells the others when its command has succeeded",
    gate="JobSuccessPolicy",
    kind="Job",
    path=("spec", "successPolicy"),
)
ADMISSION_POLICIES = Feature(
    "ValidatingAdmissionPolicies",
    (1, 30),
    "gpuctl_policy",
    REFUSED,
    "policies are refused; those of the host that runs Ansible (GPUCTL_POLICY) work",
    api="admissionregistration.k8s.io/v1",
    plurals=("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
)
DEVICE_CLAIMS = Feature(
    "Dynamic Resource Allocation",
    (1, 34),
    "device_class of pools",
    REFUSED,
    "such pools and their jobs are refused; devices are requested as extended resources of a device plugin",
    api="resource.k8s.io/v1",
    gate="DynamicResourceAllocation",
)
EXTENDED_CLASSES = Feature(
    "extendedResourceName of DeviceClasses",
    (1, 36),
    "gpu without a device_class, of devices that only a DRA driver offers",
    LEFT_OUT,
    "such a job waits for a node that lists the resource; declare a device_class for the pool",
    gate="DRAExtendedResource",
)
NATIVE_GANGS = Feature(
    "PodGroups of scheduling.k8s.io (alpha)",
    (1, 36),
    "queue: native of pools",
    REFUSED,
    "such pools and their jobs are refused; declare queue: kueue or queue: volcano",
    api="scheduling.k8s.io/v1alpha2",
    gate="GenericWorkload",
)
CLOSED_STREAMS = Feature(
    "version 5 of the protocol of exec",
    (1, 30),
    "gpuctl_copy",
    OTHER_WAY,
    "the command gets the size of what it reads",
    gate="TranslateStreamCloseWebsocketRequests",
)

FEATURES: tuple[Feature, ...] = (
    PRE_STOP_SLEEP,
    SUCCESS_POLICY,
    ADMISSION_POLICIES,
    DEVICE_CLAIMS,
    EXTENDED_CLASSES,
    NATIVE_GANGS,
    CLOSED_STREAMS,
)


def minor_version(text: str) -> Version | None:
    """The version in what a server says of itself, such as ``v1.31.14`` or ``v1.30.5+k3s1``."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})", text)
    return (int(found[1]), int(found[2])) if found else None


def missing_features(version: Version, preferred: Mapping[str, str]) -> tuple[Feature, ...]:
    """The features that a server lacks, in the order of the table: by its version, and by its preferred group versions.

    Without any, they are not known.
    """

    def is_served(feature: Feature) -> bool:
        group = feature.api.partition("/")[0]
        return not preferred or not group or feature.api.startswith(preferred.get(group, "none"))

    return tuple(feature for feature in FEATURES if version < feature.since or not is_served(feature))


def since(feature: Feature) -> str:
    """The sentence for something that is refused without a feature."""
    return f"Kubernetes has {feature.title} ({feature.needed_by}) since {number(feature.since)}"


def unserved(feature: Feature, served: Collection[str]) -> str:
    """Why a server's group versions do not have a feature, as a sentence; empty if they do."""
    if feature.api in served:
        return ""
    early = earlier_versions(feature, served)
    instead = f", but {' and '.join(early)}, which the collection does not use" if early else ""
    return f"this cluster does not serve {feature.api}{instead}. {since(feature)}"


def earlier_versions(feature: Feature, served: Collection[str]) -> list[str]:
    """The alpha and beta versions of a feature's API, where a server has no other."""
    group = feature.api.partition("/")[0]
    return [] if feature.api in served else sorted(each for each in served if each.startswith(f"{group}/"))


def of_api(path: str) -> Feature | None:
    """The feature whose API contains a path, such as ``resource.k8s.io/v1/deviceclasses``."""
    group, version, *rest = [*path.split("/"), "", ""]
    return next(
        (
            each
            for each in FEATURES
            if each.api == f"{group}/{version}" and (not each.plurals or any(name in each.plurals for name in rest))
        ),
        None,
    )


def number(version: Version) -> str:
    return ".".join(map(str, version))
