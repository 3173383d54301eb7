# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which placed jobs move to another cluster, which one that is, and how far a move has come. Pure.

A move writes in this order: the record names both clusters; the job is paused in the one that it leaves, and deleted
there; it is submitted in the other one; the record names only that one. So no two clusters run it, wherever a run is
interrupted, and the next run goes on from what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..module_utils.cluster.status import ENDED
from ..module_utils.insight.fit.verdicts import NOW
from ..module_utils.jobs.rollback import masked_places
from ..module_utils.kube.errors import as_sentence
from ..module_utils.kube.times import read_time
from ..module_utils.manifest.problems import abridged
from ..module_utils.printable import one_line
from .placing import Answers, Inventory, Result, Wish, cluster_row, message_of, rank_of

_SAME = ("unchanged", "annotate")  # the actions for a job whose manifest is what the cluster has
_RUNNING = ("Running", "Partially Running")
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class MoveWish:
    """Which jobs are to move: one by its ``name``, all of a cluster, or those that wait for some seconds.

    ``to`` says where they may go; ``running``: also those that run, which are stopped.
    """

    to: Wish
    name: str = ""
    source: str = ""
    waiting: float | None = None
    running: bool = False


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A job that may move. ``target`` is where it goes already, ``status`` that in ``source``, if it has the job.

    ``error``: why it cannot be moved. ``stays``: why it is not. ``placement`` and ``image`` are those of its manifest.
    """

    name: str
    namespace: str
    source: str
    target: str | None = None
    status: str | None = None
    created_at: str = ""
    error: str | None = None
    stays: str | None = None
    placement: Mapping[str, Any] | None = None
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What the tasks have returned of one job so far, by cluster."""

    looked: Mapping[str, Result] = field(default_factory=dict)
    recorded: Mapping[str, Result] = field(default_factory=dict)
    judged: Mapping[str, Result] = field(default_factory=dict)
    claimed: Mapping[str, Result] = field(default_factory=dict)
    stopped: Mapping[str, Result] = field(default_factory=dict)
    checked: Mapping[str, Result] = field(default_factory=dict)
    deleted: Mapping[str, Result] = field(default_factory=dict)
    due: Mapping[str, Result] = field(default_factory=dict)
    submitted: Mapping[str, Result] = field(default_factory=dict)
    confirmed: Mapping[str, Result] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Move:
    """What follows for a job. Without ``error``, ``stays`` and ``target``, more is to be asked.

    ``back``: the job has ended, or runs, in the cluster that it was to leave, so its placement goes back there.
    """

    error: str | None = None
    stays: str | None = None
    target: str | None = None
    reason: str = ""
    back: bool = False
    manifest: Any = None


# -- which jobs


def select_moves(
    wish: MoveWish, inventory: Inventory, placements: Sequence[Result], looked: Mapping[str, Result], now: datetime
) -> list[Candidate]:
    """The jobs, those that have waited longest first."""
    live: dict[tuple[str, str], dict[str, Result]] = {}
    for cluster, result in looked.items():
        for row in result.get("results") or ():
            live.setdefault((row["namespace"], row["name"]), {})[cluster] = row
    found = (_candidate(wish, inventory, each, live.get(_id(each), {}), looked, now) for each in placements)
    return sorted(filter(None, found), key=lambda each: (each.created_at, each.namespace, each.name))


def _id(row: Result) -> tuple[str, str]:
    return row["namespace"], row["name"]


def _candidate(
    wish: MoveWish,
    inventory: Inventory,
    placed: Result,
    live: Mapping[str, Result],
    looked: Mapping[str, Result],
    now: datetime,
) -> Candidate | None:
    """The job of a placement, if it is asked for."""
    cluster, leaving = placed["cluster"], placed["leaving"]
    source = str(leaving or cluster or "")
    row = live.get(source, {})
    status = row.get("status")
    candidate = Candidate(
        name=placed["name"],
        namespace=placed["namespace"],
        source=source,
        target=cluster if leaving else None,
        status=status,
        created_at=str(row.get("created_at") or ""),
        placement=placed.get("placement"),
        image=row.get("image"),
    )
    wish = replace(wish, to=wish.to.with_manifest(candidate.placement))
    if error := _why_not(wish, inventory, candidate, live, looked):
        wanted = wish.name or source == wish.source or wish.waiting is not None
        return replace(candidate, error=error) if wanted else None
    if wish.source and source != wish.source:
        return None
    if candidate.target:
        return candidate
    if not wish.name and (status is None or status in ENDED):
        return None  # Nothing of it is there.
    if wish.waiting is not None and (status != "Pending" or _waited(row, now) < wish.waiting):
        return None
    here = one_line(source)
    if status is None:
        return replace(candidate, error=f"it is placed in {here}, which does not have it. Submit or delete it.")
    if not row.get("managed"):
        return replace(candidate, stays=f"It exists in {here}, but gpuctl does not manage it.")
    if status in ENDED:
        return replace(candidate, stays=f"It has ended in {here}: {status}.")
    if status == "Paused" and not wish.name:
        return replace(candidate, stays="It is paused, and would run elsewhere. Move it by its name.")
    if status in _RUNNING and wish.name and source in inventory.chosen(wish.to.chosen):
        return replace(candidate, stays=f"It runs in {here}.")
    if status in _RUNNING and not wish.running:
        ask = "it runs. gpuctl_running=true stops it, and starts it elsewhere."
        return replace(candidate, error=ask) if wish.name else replace(candidate, stays=ask.capitalize())
    return candidate


def _waited(row: Result, now: datetime) -> float:
    """Seconds since a pending job was submitted or last resumed."""
    since = max(filter(None, (row.get("created_at"), row.get("started_at"))))
    return (now - read_time(since)).total_seconds()


def _why_not(
    wish: MoveWish,
    inventory: Inventory,
    candidate: Candidate,
    live: Mapping[str, Result],
    looked: Mapping[str, Result],
) -> str | None:
    """What keeps the job from being moved, whatever is asked for."""
    if not candidate.source:
        return "it is not placed in a cluster. Submit it with gpuctl_clusters, which records where it is."
    own = [each for each in (candidate.source, candidate.target) if each]
    for cluster in own:
        lost = f"If it is lost, submit the job with gpuctl_assume_lost={one_line(cluster)}."
        if cluster not in inventory.clusters:
            return f"it is placed in {one_line(cluster)}, which the inventory does not have. {lost}"
        if not looked.get(cluster, {}).keys() & {"results", "not_found"}:
            return (
                f"cluster {cluster} could not be asked, and may have it: {message_of(looked.get(cluster, {}))} {lost}"
            )
    if others := [each for each in live if each not in own]:
        copies = f"it exists in {others[0]} as well, and is placed in {own[-1]}."
        return f"{copies} {wish.to.deleting(one_line(candidate.name), others[0])}"
    return None


# -- where to, and how far


def decide_move(
    wish: MoveWish, inventory: Inventory, candidate: Candidate, steps: Steps, *, has_manifest: bool = False
) -> Move:
    """What follows from what the tasks have returned so far. ``has_manifest``: the user gives it."""
    if candidate.error or candidate.stays:
        return Move(error=candidate.error, stays=candidate.stays)
    recorded = steps.recorded.get(candidate.source)
    if recorded is None:
        return Move()
    run: Result = next(
        (row for row in recorded.get("results") or () if _id(row) == (candidate.namespace, candidate.name)), {}
    )
    manifest = None
    if not has_manifest:
        if problem := _manifest_problem(run, recorded):
            return Move(error=problem)
        given = run["manifest"]
        manifest = {**given, "job": {**given["job"], "namespace": candidate.namespace, "name": candidate.name}}
    if candidate.source not in steps.judged:
        return Move(manifest=manifest)
    if has_manifest and any(_id(row) != (candidate.namespace, candidate.name) for row in _rows(steps, candidate)):
        return Move(error="gpuctl_src has other jobs. Give the manifest of this one alone.")
    move = replace(_where(wish, inventory, candidate, run, steps), manifest=manifest)
    return move if move.error or move.stays or move.back else replace(move, **_progress(candidate, move, steps))


def _manifest_problem(run: Result, recorded: Result) -> str | None:
    """Why the manifest of a run cannot be submitted as it is recorded."""
    give = "Give its manifest as gpuctl_src."
    if "results" not in recorded:
        return f"its manifest could not be read: {message_of(recorded)} {give}"
    manifest = run.get("manifest")
    if not isinstance(manifest, Mapping) or not isinstance(manifest.get("job"), Mapping):
        return f"its manifest is {one_line(str(run.get('manifest_note') or 'not recorded'))}. {give}"
    if hidden := abridged(list(dict.fromkeys(masked_places(manifest))), _NAMED):
        return f"its manifest has secret values, which are not recorded: {one_line(hidden)}. {give}"
    return None


def _where(wish: MoveWish, inventory: Inventory, candidate: Candidate, run: Result, steps: Steps) -> Move:
    """The cluster that the job goes to, or back to."""
    source, status = candidate.source, candidate.status
    to = wish.to.with_manifest(candidate.placement, candidate.image)
    judged = {cluster: _only(candidate, result) for cluster, result in steps.judged.items()}
    own = next(iter(judged[source]["results"]), None)
    answer = message_of(steps.judged[source]) if own is None else own.get("error")
    if status is None and (run.get("result") in ENDED or (own and not answer and own["action"] != "create")):
        return Move(back=True, stays=f"It has ended in {source} before it was moved.")
    if status is not None and answer:
        return Move(error=f"its manifest could not be compared with the job in {source}: {answer}")
    if status in ENDED:
        return Move(back=True, stays=f"It has ended in {source} before it was moved: {status}.")
    if candidate.target and status in _RUNNING and not wish.running:
        return Move(back=True, stays=f"It runs in {source} by now.")
    if status is not None and own and own["action"] not in _SAME:
        return Move(error=f"its manifest is another one than that of the job in {source}. Submit it there first.")
    if candidate.target:
        return Move(target=candidate.target, reason=f"goes from {source} to {candidate.target}, as was begun before")
    silent = {each: steps.looked.get(each, {}) for each in inventory.clusters if each not in judged}
    answers = Answers(judged={**silent, **judged})
    others = [each for each in inventory.chosen(to.chosen) if each != source]
    asked = [cluster_row(each, to, inventory, answers) for each in others]
    rows = list(_reachable(asked, inventory, candidate, run))
    possible = sorted((row for row in rows if row["verdict"] == NOW), key=rank_of(to, inventory, others))
    if possible:
        target = possible[0]["cluster"]
        return Move(target=target, reason=f"moves from {source} to {target}, where it runs now")
    reasons = [f"{row['cluster']} ({row['runs']}): {row['reason']}" for row in rows] or [f"{to.by} has no other."]
    stays = f"It would run now in no other cluster. {' '.join(reasons)}"
    return Move(error=stays) if wish.name else Move(stays=stays)


def _rows(steps: Steps, candidate: Candidate) -> Sequence[Result]:
    return steps.judged[candidate.source].get("results") or ()


def _only(candidate: Candidate, result: Result) -> Result:
    """The answer for this job alone: others may be judged with it, which go to the same cluster."""
    own = [row for row in result.get("results") or () if _id(row) == (candidate.namespace, candidate.name)]
    return {**result, "results": own}


def _reachable(rows: Sequence[Result], inventory: Inventory, candidate: Candidate, run: Result) -> Iterator[Result]:
    """The rows; a job that has run may go on only where what it has stored can be seen."""
    has_run = candidate.status != "Pending" or (run.get("gpu_hours") or 0) > 0
    storage = inventory.storage.get(candidate.source)
    for row in rows:
        if row["verdict"] is None or not has_run or (storage and storage == inventory.storage.get(row["cluster"])):
            yield row
        else:
            reason = (
                f"It has run, and it is not known whether {row['cluster']} sees what it has stored in "
                f"{candidate.source}. If so, give both the same tag storage in the inventory."
            )
            yield {**row, "verdict": None, "reason": reason}


def _progress(candidate: Candidate, move: Move, steps: Steps) -> dict[str, Any]:
    """What has gone wrong in the steps that were taken, and what has come in between."""
    source, target = candidate.source, str(move.target)
    again = "The same command goes on from there."
    if claimed := steps.claimed.get(target):
        if "name" not in claimed:
            return {"error": f"its move could not be recorded, so nothing was changed: {message_of(claimed)}"}
        if (claimed["cluster"], claimed["leaving"]) != (target, source):
            return {"error": f"another run has placed it in {one_line(str(claimed['cluster']))} meanwhile."}
    if problem := _failure(steps.stopped.get(source)):
        return {"error": f"it could not be stopped in {source}: {problem} {again}"}
    if checked := steps.checked.get(source):
        row: Result = next(iter(_only(candidate, checked)["results"]), {})
        status = row.get("status")
        if status in ENDED:
            return {"back": True, "stays": f"It has ended in {source} before it was moved: {status}."}
        if status != "Paused" or row["action"] not in _SAME:
            now = "changed" if status == "Paused" else status or "not found"
            return {"error": f"it was stopped in {source}, and is {now} there now. {again}"}
    if problem := _failure(steps.deleted.get(source)):
        return {"error": f"it is paused, and could not be deleted in {source}: {problem} {again}"}
    due = steps.due.get(target)
    if due and (due.get("cluster"), due.get("leaving")) != (target, source):
        return {"error": f"its placement was changed meanwhile, so it was not submitted in {target}: {message_of(due)}"}
    if problem := _failure(steps.submitted.get(target)):
        return {"error": f"it is no longer in {source}, and could not be submitted in {target}: {problem} {again}"}
    confirmed = steps.confirmed.get(target)
    if confirmed and confirmed.get("cluster") != target:
        where = one_line(str(confirmed.get("cluster") or message_of(confirmed)))
        return {"error": f"it is not known to be placed in {target}: {where}"}
    return {}


def _failure(result: Result | None) -> str | None:
    if not result or not (result.get("failed") or any(row.get("error") for row in result.get("results") or ())):
        return None
    return message_of(result)


# -- the report


def move_row(candidate: Candidate, move: Move, *, done: bool) -> dict[str, Any]:
    """A row of the report."""
    goes = move.target and not move.error and not move.stays
    said = f"it {move.reason}" if goes else move.stays or move.error or "it is not known whether it can move"
    return {
        "name": candidate.name,
        "namespace": candidate.namespace,
        "status": candidate.status,
        "from": candidate.source,
        "to": move.target if goes else None,
        "action": ("moved" if done else "would move") if goes else "stays",
        "reason": as_sentence(f"{said[:1].upper()}{said[1:]}"),
        "error": move.error,
    }
