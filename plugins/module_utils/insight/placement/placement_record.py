# SPDX-License-Identifier: BSD-2-Clause
"""The record of a placement: a ConfigMap for each job, in the namespace of the job in the home cluster.

Of two runs that claim a job at once, one creates the ConfigMap, and the other one reads which cluster that is. A record
never changes by itself: it is replaced only if its cluster was given up by name or is left, and only as it was read.

While a job moves, the record names both clusters: the one that it is for, and the one that it leaves. The job is
submitted in the first one once the second one does not have it any more, and then the second one is no longer named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...jobs.runs.config_maps import new_config_map
from ...kube.client import Client
from ...kube.errors import ApiError, ConcurrentChange, KubeError
from ...kube.resources import CONFIG_MAP
from ...labels import MANAGED, PREFIX, is_managed

RECORD_OF = f"{PREFIX}placement"  # the label of a record: the name of its job

_ATTEMPTS = 5  # Each one that fails is a write of another run.
_LONGEST = 1_000  # characters of a text that others may have written
_MOVES = 10  # that are kept of a job


@dataclass(frozen=True)
class PlacementRecord:
    """Where a job is placed, and why, by whom and when (RFC 3339). ``lost``: who gave up clusters, and when.

    ``leaving``: the cluster that may still have a job that moves. ``moved``: those that it has left, who moved it and
    when. ``placement``: that of the manifest, if it has one.
    """

    cluster: str
    reason: str = ""
    claimed_by: str = ""
    claimed_at: str = ""
    lost: tuple[Mapping[str, str], ...] = ()
    leaving: str = ""
    moved: tuple[Mapping[str, str], ...] = ()
    placement: Mapping[str, Any] | None = None

    @property
    def data(self) -> dict[str, str]:
        """What the ConfigMap has."""
        return {
            "cluster": self.cluster,
            "reason": self.reason,
            "claimed-by": self.claimed_by,
            "claimed-at": self.claimed_at,
            "assumed-lost": json.dumps(self.lost),
            "leaving": self.leaving,
            "moved-from": json.dumps(self.moved),
            "placement": json.dumps(self.placement) if self.placement else "",
        }

    def giving_up(self, cluster: str) -> PlacementRecord:
        """This placement, by which the job is not looked for in a cluster any more."""
        return replace(self, lost=(*self.lost, self._signed(cluster)))

    @property
    def arrived(self) -> PlacementRecord:
        """This placement of a job that the cluster which it was leaving does not have any more."""
        moved = (*self.moved, self._signed(self.leaving))
        return replace(self, leaving="", moved=moved[-_MOVES:])

    def _signed(self, cluster: str) -> Mapping[str, str]:
        return {"cluster": cluster, "by": self.claimed_by, "at": self.claimed_at}


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
    return _record_of(found, namespace, job), found["metadata"]


def list_records(
    client: Client, namespaces: Sequence[str] | None
) -> Iterator[tuple[str, str, PlacementRecord | UnusableRecord]]:
    """Namespace, name and placement of each job that is placed; with None as namespaces, of the whole cluster."""
    for place in namespaces if namespaces is not None else (None,):
        for found in client.list_objects(CONFIG_MAP, place, labels=f"{MANAGED},{RECORD_OF}"):
            metadata = found["metadata"]
            job = metadata["name"][len(record_name("")) :]
            if metadata["name"] != record_name(job) or not job:
                continue  # Others may set the label.
            try:
                yield metadata["namespace"], job, _record_of(found, metadata["namespace"], job)
            except UnusableRecord as problem:
                yield metadata["namespace"], job, problem


def usable(record: PlacementRecord | UnusableRecord) -> PlacementRecord:
    """The record, if it can be read. Raises UnusableRecord."""
    if isinstance(record, UnusableRecord):
        raise record
    return record


def _record_of(found: Mapping[str, Any], namespace: str, job: str) -> PlacementRecord:
    place = f"ConfigMap {record_name(job)} in namespace {namespace}"
    if not is_managed(found):
        raise UnusableRecord(f"{place} is not managed by gpuctl; it was not changed. Rename or delete it.")
    data = found.get("data") or {}
    if not data.get("cluster"):
        raise UnusableRecord(f"{place} does not say in which cluster job {job} is placed. Correct or delete it.")
    keys = ("cluster", "reason", "claimed-by", "claimed-at", "leaving")
    cluster, reason, who, when, leaving = (str(data.get(key) or "")[:_LONGEST] for key in keys)
    lost, moved = (_rows(data.get(key)) for key in ("assumed-lost", "moved-from"))
    return PlacementRecord(
        cluster, reason, who, when, lost, leaving, moved, placement_of(_parsed(data.get("placement")))
    )


def placement_of(given: Any) -> dict[str, Any] | None:
    """What the placement of a manifest says, in one form; None if that is nothing."""
    if not isinstance(given, dict) or not given:
        return None
    names = {key: given.get(key) for key in ("clusters", "groups")}
    found: dict[str, Any] = {key: [*map(str, each)] if isinstance(each, list) else [] for key, each in names.items()}
    spread = {"spread": True} if given.get("spread") else {}
    return {**found, "order": str(given.get("order") or "free"), **spread}


def _rows(text: Any) -> tuple[Mapping[str, str], ...]:
    rows, keys = _parsed(text), ("cluster", "by", "at")
    known = (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
    return tuple({key: str(row.get(key)) for key in keys} for row in known)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(str(text or "[]")[: 100 * _LONGEST])
    except (RecursionError, ValueError):
        return None


def claim(
    client: Client,
    namespace: str,
    job: str,
    cluster: str,
    wanted: Callable[[], PlacementRecord],
    given_up: Collection[str] = (),
    *,
    move_from: str | None = None,
    placement: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> tuple[PlacementRecord | None, bool]:
    """The placement of the job by now, and whether this call has written it.

    That is ``wanted``, in ``cluster``, unless the job is placed already; then it stays where it is, unless that cluster
    is given up, or is the one to move it from. ``placement`` is that of its manifest, {} if it has none; without it,
    what is recorded of that stays. Raises KubeError, with which the placement is not known.
    """
    wanted, written = lru_cache(maxsize=None)(wanted), None
    for _attempt in range(_ATTEMPTS):
        found, metadata = read_record(client, namespace, job)
        if found is not None and found == written:
            return found, True  # The answer to the write was lost.
        new = _moving(found, wanted, move_from) if move_from else _claimed(found, cluster, wanted, given_up)
        known = new or found
        if known and placement is not None and (said := placement_of(placement)) != known.placement:
            new = replace(known, placement=said)
        if new is None:
            return found, False
        written = new
        obj = new_config_map(record_name(job), namespace, new.data, **{RECORD_OF: job})
        if _write(client, obj, metadata, dry_run=dry_run):
            return new, True
    raise ConcurrentChange(f"other runs keep changing the placement of job {job}. Run the task again.")


def _claimed(
    found: PlacementRecord | None, cluster: str, wanted: Callable[[], PlacementRecord], given_up: Collection[str]
) -> PlacementRecord | None:
    """What a claim makes of a placement; None if that stays as it is."""
    if found is not None and not {found.cluster, found.leaving} & {*given_up}:
        # Who claims the cluster that a job moves to knows that the other one does not have it any more.
        return found.arrived if found.leaving and found.cluster == cluster else None
    new = wanted()
    for each in given_up:
        new = new.giving_up(each)
    if found is None:
        return new
    earlier = tuple(row for row in found.lost if row not in new.lost)
    return replace(new, lost=(*earlier, *new.lost), moved=found.moved, placement=found.placement)


def _moving(
    found: PlacementRecord | None, wanted: Callable[[], PlacementRecord], source: str
) -> PlacementRecord | None:
    """What the beginning of a move makes of a placement: none of one that is in another cluster than ``source``.

    A job that goes back to the cluster that it was leaving has left none.
    """
    if found is None or found.cluster != source:
        return None
    new = wanted()
    leaving = "" if found.leaving == new.cluster else source
    return replace(new, lost=found.lost, moved=found.moved, leaving=leaving, placement=found.placement)


def _write(client: Client, obj: dict[str, Any], metadata: Mapping[str, Any], *, dry_run: bool) -> bool:
    """Whether the record is written; not if it is another one than was read, perhaps by this very request."""
    try:
        if not metadata:
            return client.create(obj, dry_run=dry_run) is not None
        client.merge_patch(CONFIG_MAP, metadata, {"data": obj["data"]}, dry_run=dry_run)
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
