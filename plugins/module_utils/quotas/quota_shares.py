# SPDX-License-Identifier: BSD-2-Clause
"""Quotas of teams in several clusters: what of them the cluster of a task has. Pure.

Kubernetes enforces a ResourceQuota in its cluster only. A total over clusters holds because each has a share of its
own, none of which is lent, and because their sum is validated with the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..manifest.problems import abridged
from ..manifest.quota_model import ClusterLimits, Limits, Quota
from ..manifest.validation import Document
from ..task import TaskFailed


def quotas_of_cluster(
    documents: Iterable[Document], cluster: str | None, *, required: bool
) -> tuple[list[Quota], list[str]]:
    """The quotas among the manifests with the shares of the cluster, and what is probably wrong in them.

    Without a cluster, quotas with shares are as they are, or raise TaskFailed if it is ``required``.
    """
    quotas: list[Quota] = []
    mistakes: list[str] = []
    for document in documents:
        if not isinstance(document.model, Quota):
            continue
        quota, shared = document.model, [name for name, limits in document.model.namespaces.items() if limits.clusters]
        if cluster:
            mistakes += _without_share(quota, cluster)
            shares = {name: _share(limits, cluster) for name, limits in quota.namespaces.items()}
            quota = quota.model_copy(update={"namespaces": shares})
        elif shared and required:
            raise TaskFailed.before_any_write(
                [
                    f"{document.origin}: users.{shared[0]}.clusters: not known which of these clusters this one is. "
                    f"Use an inventory in which it is a host of the group gpuctl_clusters, or set O(cluster)."
                ]
            )
        quotas.append(quota)
        mistakes += document.warnings
    return quotas, mistakes


def _share(limits: Limits, cluster: str) -> Limits:
    """What one cluster has of the limits: its share, or nothing of what is limited."""
    if not limits.clusters:
        return limits
    share = limits.clusters.get(cluster)
    if share is None:
        nothing: dict[str, Any] = {}
        for name, *key in limits.amounts():
            nothing[name] = {**nothing.get(name, {}), key[0]: "0"} if key else "0"
        share = ClusterLimits.model_validate(nothing)
    fields = {name: getattr(share, name) for name in ClusterLimits.model_fields}
    # A cluster without a share of a pool need not have that pool.
    pools = {pool: gpus for pool, gpus in share.shares.items() if gpus}
    return limits.model_copy(update={**fields, "shares": pools, "clusters": {}})


def _without_share(quota: Quota, cluster: str) -> Iterable[str]:
    for name, limits in quota.namespaces.items():
        if limits.clusters and cluster not in limits.clusters:
            others, none = abridged(list(limits.clusters), 3), ", ".join(map(".".join, limits.amounts()))
            yield (
                f"quota {quota.quota.name}: {name} has no share in cluster {cluster}, only in {others}, and so 0 of "
                f"what its quota limits: {none or 'nothing'}."
            )
