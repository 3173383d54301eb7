# SPDX-License-Identifier: BSD-2-Clause
"""Which DeviceClass stands behind an extended resource.

Source: staging dynamic-resource-allocation/deviceclass/extendedresourcecache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubesim.kinds.resources import is_extended

#: Before the name of any class: an extended resource without a name of its own.
IMPLICIT = "deviceclass.resource.kubernetes.io/"
#: A claim that the scheduler made for the extended resources of a pod.
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True)
class ExtendedResources:
    classes: dict[str, str]  # by the name of the resource
    names: dict[str, str]  # by the name of the class, only those that have a name of their own

    @classmethod
    def of(cls, registry: Any) -> ExtendedResources:
        """Of two classes with one name the newer counts, then the one that comes first."""
        found = sorted(registry.list("DeviceClass"), key=lambda one: one["metadata"]["name"], reverse=True)
        found.sort(key=lambda one: one["metadata"]["creationTimestamp"])
        names = {one["metadata"]["name"]: one["spec"].get("extendedResourceName", "") for one in found}
        classes = {IMPLICIT + name: name for name in names} | {own: name for name, own in names.items() if own}
        return cls(classes, {name: own for name, own in names.items() if own})


def may_be_devices(resource: str) -> bool:
    """IsDRAExtendedResourceName."""
    return is_extended(resource) or resource.startswith(IMPLICIT)
