# SPDX-License-Identifier: BSD-2-Clause
"""What has happened to nodes and quotas since they were last looked at. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...kube.resources import Object
from ...quotas.usage import usage

# A limit counts as nearly used again once it was this many percent below the threshold in between.
_HYSTERESIS = 5.0


class KnownNode(NamedTuple):
    """Whether a node was ready, and since when it is not."""

    name: str
    ready: bool
    since: str = ""
    pool: str = ""


class KnownQuota(NamedTuple):
    """A limit of a quota: whether it was reported as nearly used."""

    namespace: str
    name: str
    reported: bool = False


class QuotaUse(NamedTuple):
    """A limit of a ResourceQuota and how much of it is used, in percent."""

    resource: str
    used: Any
    hard: Any
    percent: float


def node_change(node: Object, known: KnownNode | None) -> tuple[KnownNode, bool]:
    """What is known of a slim node now, and whether it was lost in between.

    A node that has never been ready is not lost, but new. One whose kubelet fell silent (Unknown) has been ready.
    """
    metadata = node["metadata"]
    if node["ready"] == "True":
        return KnownNode(metadata["name"], True, pool=node["pool"]), False
    now = KnownNode(metadata["name"], False, str(node["since"] or ""), node["pool"])
    if known is None:
        return now, node["ready"] == "Unknown"
    return now, known.ready or known.since != now.since


def quota_uses(quota: Object) -> Iterator[QuotaUse]:
    """The limits of a ResourceQuota and their use, once Kubernetes has counted it; 0 is a ban and never used up."""
    uses = usage(quota)
    groups: dict[str, Any] = {name: uses.pop(name) or {} for name in ("accelerators", "device_classes")}
    flat = {**uses, **{f"{group}.{name}": use for group, found in groups.items() for name, use in found.items()}}
    for resource, use in flat.items():
        if use and use["percent"] is not None and str(use["hard"]) not in ("0", "0Gi"):
            yield QuotaUse(resource, use["used"], use["hard"], use["percent"])


def quota_change(use: QuotaUse, known: KnownQuota, threshold: float) -> tuple[KnownQuota, bool]:
    """What is known of a limit now, and whether it became nearly used."""
    if use.percent >= threshold:
        return known._replace(reported=True), not known.reported
    return known._replace(reported=known.reported and use.percent > threshold - _HYSTERESIS), False
