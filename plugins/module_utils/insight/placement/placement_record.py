# SPDX-License-Identifier: BSD-2-Clause
"""The record of a placement: a ConfigMap for each job, in the namespace of the job in the home cluster.

Of two runs that claim a job at once, one creates the ConfigMap, and the other one reads which cluster that is. A record
never changes by itself: it is replaced only if its cluster was given up by name, and only as it was read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...jobs.runs.config_maps import new_config_map
from ...kube.client import Client
from ...kube.errors import ApiError, ConcurrentChange, KubeError
from ...kube.resources import CONFIG_MAP
from ...labels import is_managed

_ATTEMPTS = 5  # Each one that fails is a write of another run.
_LONGEST = 1_000  # characters of a text that others may have written


@dataclass(frozen=True)
class PlacementRecord:
    """Where a job is placed, and why, by whom and when (RFC 3339). ``lost``: who gave up clusters, and when."""

    cluster: str
    reason: str = ""
    claimed_by: str = ""
    claimed_at: str = ""
    lost: tuple[Mapping[str, str], ...] = ()

    @property
    def data(self) -> dict[str, str]:
        """What the ConfigMap has."""
        return {
            "cluster": self.cluster,
            "reason": self.reason,
            "claimed-by": self.claimed_by,
            "claimed-at": self.claimed_at,
            "assumed-lost": json.dumps(self.lost),
        }

    def giving_up(self, cluster: str) -> PlacementRecord:
        """This placement, by which the job is not looked for in a cluster any more."""
        lost = {"cluster": cluster, "by": self.claimed_by, "at": self.claimed_at}
        return replace(self, lost=(*self.lost, lost))


class UnusableRecord(KubeError):
    """The name of the record is taken by another object, or what is in it is not a placement."""


def record_name(job: str) -> str:
    """``gpuctl-placement-sft``. Names of jobs are short enough for that."""
    return f"gpuctl-placement-{job}"


def read_record(client: Client, namespace: str, job: str) -> tuple[PlacementRecord | None, Mapping[str, Any]]:
    """The placement of a job, if it has one, and the metadata of its record. Raises UnusableRecord."""
    name = record_name(job)
    found = client.get(CONFIG_MAP, namespace, name)
    if found is None:
        return None, {}
    place = f"ConfigMap {name} in namespace {namespace}"
    if not is_managed(found):
        raise UnusableRecord(f"{place} is not managed by gpuctl; it was not changed. Rename or delete it.")
    data = found.get("data") or {}
    if not data.get("cluster"):
        raise UnusableRecord(f"{place} does not say in which cluster job {job} is placed. Correct or delete it.")
    keys = ("cluster", "reason", "claimed-by", "claimed-at")
    cluster, reason, who, when = (str(data.get(key) or "")[:_LONGEST] for key in keys)
    return PlacementRecord(cluster, reason, who, when, _lost(data.get("assumed-lost"))), found["metadata"]


def _lost(text: Any) -> tuple[Mapping[str, str], ...]:
    try:
        rows = json.loads(str(text or "[]")[: 10 * _LONGEST])
    except (RecursionError, ValueError):
        return ()
    keys = ("cluster", "by", "at")
    known = (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
    return tuple({key: str(row.get(key)) for key in keys} for row in known)


def claim(
    client: Client,
    namespace: str,
    job: str,
    wanted: Callable[[], PlacementRecord],
    given_up: Collection[str] = (),
    *,
    dry_run: bool = False,
) -> tuple[PlacementRecord, bool]:
    """The placement of the job by now, and whether this call has written it.

    That is ``wanted`` unless the job is placed already; then it stays where it is, unless that cluster is given up.
    Raises KubeError, with which the placement is not known.
    """
    new: PlacementRecord | None = None
    for _attempt in range(_ATTEMPTS):
        found, metadata = read_record(client, namespace, job)
        if found is not None and found.cluster not in given_up:
            return found, found == new  # Ours, if the answer to the write was lost.
        new = new or wanted()
        for cluster in given_up:
            new = new if any(row["cluster"] == cluster for row in new.lost) else new.giving_up(cluster)
        if found is not None:
            earlier = tuple(row for row in found.lost if row not in new.lost)
            new = replace(new, lost=(*earlier, *new.lost))
        if _write(client, new_config_map(record_name(job), namespace, new.data), metadata, dry_run=dry_run):
            return new, True
    raise ConcurrentChange(f"other runs keep changing the placement of job {job}. Run the task again.")


def _write(client: Client, obj: dict[str, Any], metadata: Mapping[str, Any], *, dry_run: bool) -> bool:
    """Whether the record is written; not if it is another one than was read, perhaps by this very request."""
    if dry_run:
        return True
    try:
        if not metadata:
            return client.create(obj) is not None
        client.merge_patch(CONFIG_MAP, metadata, {"data": obj["data"]})
    except ApiError as error:
        if error.status in (404, 409) and not error.is_missing_namespace:
            return False
        raise
    return True


def release(
    client: Client, namespace: str, job: str, clusters: Collection[str] | None, *, dry_run: bool = False
) -> tuple[PlacementRecord | None, bool]:
    """The placement that the job had, and whether it has none any more; one in another of the ``clusters`` stays."""
    for _attempt in range(_ATTEMPTS):
        found, metadata = read_record(client, namespace, job)
        if found is None or (clusters is not None and found.cluster not in clusters):
            return found, False
        try:
            if not dry_run:
                client.delete(CONFIG_MAP, metadata, propagation="Background", same_version=True)
            return found, True
        except ApiError as error:
            if error.status != 409:
                raise
    raise ConcurrentChange(f"other runs keep changing the placement of job {job}. Run the task again.")
