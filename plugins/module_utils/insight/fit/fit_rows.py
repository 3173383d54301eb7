# SPDX-License-Identifier: BSD-2-Clause
"""The answers of fit.py as rows and sentences. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ...accelerators.catalog import whole_devices
from ...cluster.nodes import Node
from ...cluster.pod_facts import PODS
from ...cluster.quota_fit import COUNTED, QuotaLack
from ...cluster.read_jobs import JobId
from ...cluster.reason import by_resource, missing_claim, used_up_budget
from ...cluster.shortage import Place, Shortage, place_of, shortage_at
from ...kube.times import time_as_text
from ...manifest.problems import abridged, enumerated, number_of
from ..history.job_ends import AT_LIMIT, DEADLINE, LAST_RUNS, SWEEP_RUNS, JobEnd
from .device_fit import NO_DEVICES
from .fit import Fit, FitChange, Rollout
from .verdicts import (
    AFTER_JOBS,
    AFTER_NODES,
    AFTER_PREEMPTION,
    AFTER_QUOTA,
    GRANT_PODS,
    NEVER,
    NOW,
    PODS_UNREADABLE,
    UNKNOWN,
)
from .volume_fit import CLAIM, NO_VOLUME, NOT_FOUND, OTHER_NODES, TOO_MANY_VOLUMES
from .world import CORDONED, NOT_SELECTED, PORTS, TAINTED, TOO_MANY_PODS

_NAMED, _PREEMPTED = 3, 10
_RESULTS = {
    NOW: "it runs now",
    AFTER_PREEMPTION: "it runs by preempting others",
    AFTER_JOBS: "it runs after others have ended",
    UNKNOWN: "it may run now or by preempting others, and runs after they have ended",
}
_WORDS = {
    CORDONED: "{is} cordoned",
    TAINTED: "{has} a taint that it does not tolerate",
    NOT_SELECTED: "{is} outside its pool or without its labels",
    TOO_MANY_PODS: "{has} no place for another pod",
    PORTS: "{has} its host port in use",
    NO_DEVICES: "{has} too few devices for its claim",
    OTHER_NODES: "{is} not where its volume is",
    NO_VOLUME: "{has} no free volume for its claim, and its storage class makes none there",
    TOO_MANY_VOLUMES: "{has} as many volumes as can be attached",
}
_BASES = {
    SWEEP_RUNS: "going by its sweep",
    LAST_RUNS: "going by its earlier runs",
    AT_LIMIT: "at its time limit",
}


class Places:
    """All nodes, with their usage: what a pod does not find there, in the words of cluster/shortage.py.

    Many jobs select the same nodes, and a row asks for its cause twice: both are looked up once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._known: dict[str, Shortage | Place] = {}
        self._last: tuple[Fit, Shortage | None] | None = None

    def shortage(self, fit: Fit) -> Shortage | None:
        if self._last is None or self._last[0] is not fit:
            self._last = fit, self._shortage_of(fit)
        return self._last[1]

    def _shortage_of(self, fit: Fit) -> Shortage | None:
        pod = fit.job.pod
        if pod.selection not in self._known:
            self._known[pod.selection] = place_of(pod.as_pod, self._nodes)
        place = self._known[pod.selection]
        if set(fit.refusals) & {"pod affinity", "pod anti-affinity", "topology spread", "host port in use", "devices"}:
            return place if isinstance(place, Shortage) else None
        return shortage_at(pod.as_pod, place)


def fit_row(
    fit: Fit,
    kind: str | None,
    places: Places,
    ends: Mapping[JobId, JobEnd],
    now: datetime,
    endless: frozenset[JobId] = frozenset(),
) -> dict[str, Any]:
    """A job as gpuctl_fit_info returns it."""
    job = fit.job
    runs_at = expected_start(fit, ends, now)
    changes = [_change(change) for change in (*fit.changes, *_higher_quotas(fit))]
    return {
        "name": job.name,
        "namespace": job.namespace,
        "kind": kind,
        "verdict": fit.verdict,
        "reason": f"{_reason(fit, places, ends, now, endless)}{_joint_start(fit)}{_aftermath(fit)}",
        "hint": _hint(fit, changes, places),
        "pods_wanted": job.number,
        "gpu": whole_devices(job.pod.requests),
        "nodes": [{"node": node, "pods": number} for node, number in sorted(Counter(fit.nodes).items())],
        "possible_nodes": fit.possible,
        "preempts": [_name(name) for name in fit.evicted],
        "after": [_end_row(name, ends.get(name)) for name in fit.after],
        "runs_at": time_as_text(runs_at) if runs_at else None,
        "delays": [],
        "backfill_limit": None,
        "quotas": [lack.row for lack in fit.lacks],
        "refusals": dict(fit.refusals),
        "changes": changes,
        "unknown": list(_unknown(fit)),
        **({"rollout": rollout._asdict()} if (rollout := _stopped_rollout(fit)) else {}),
    }


def expected_start(fit: Fit, ends: Mapping[JobId, JobEnd], now: datetime) -> datetime | None:
    """When all that it waits for has ended; None if the end of one is not known, or overdue."""
    known = [ends[name].at for name in fit.after if name in ends]
    return max(known) if known and len(known) == len(fit.after) and min(known) >= now else None


def with_refusals(row: dict[str, Any], refusals: Sequence[str]) -> dict[str, Any]:
    """The row of a job with what policies and Pod Security levels forbid of it. Then it never runs as it is."""
    if not refusals:
        return {**row, "forbidden": []}
    reason = f"The server refuses it: {' '.join(refusals)}"
    none: dict[str, Any] = {"hint": None, "preempts": [], "delays": [], "backfill_limit": None}
    return {**row, **none, "verdict": NEVER, "reason": reason, "forbidden": list(refusals)}


def as_dispatched(row: dict[str, Any], pool: str) -> dict[str, Any]:
    """The row of a job that Kueue hands to another cluster: the nodes of this one do not matter."""
    reason = f"Kueue chooses one of its worker clusters: pool {pool} has queue: multikueue"
    none: dict[str, Any] = {name: [] for name in ("nodes", "preempts", "after", "changes")}
    return {**row, **none, "verdict": UNKNOWN, "reason": reason, "hint": None, "runs_at": None, "dispatched": True}


def preempts_in_vain(row: Mapping[str, Any]) -> bool:
    """Whether a job preempts others, and does not run for all that."""
    return bool(row["preempts"]) and row["verdict"] not in (AFTER_PREEMPTION, UNKNOWN)


def _name(name: JobId) -> dict[str, str]:
    return {"namespace": name[0], "name": name[1]}


def _end_row(name: JobId, end: JobEnd | None) -> dict[str, Any]:
    return {**_name(name), "ends_at": time_as_text(end.at) if end else None, "basis": end.basis if end else None}


# -- why ---------------------------------------------------------------------------------------------------------------


def _reason(fit: Fit, places: Places, ends: Mapping[JobId, JobEnd], now: datetime, endless: frozenset[JobId]) -> str:
    if fit.verdict == NOW and not fit.job.number:
        return "It starts no pods: its number of replicas is 0."
    if fit.verdict == NOW:
        return f"It runs now: {_place_text(fit)}."
    if fit.verdict == AFTER_PREEMPTION:
        return f"It runs once it has preempted {_jobs(fit.evicted)}: {_place_text(fit)}."
    if fit.verdict == UNKNOWN:
        return _why_unknown(fit)
    if fit.refused:
        return f"The server refuses it: {enumerated(list(fit.refused), 'and')}."
    if fit.lacks:
        lacking = " ".join(_lacks(fit))
        if fit.fits_nowhere:
            return f"{shortage_text(fit, places)} {lacking}"
        return f"{lacking} It runs after {_ends_text(fit.after, ends, now, endless)}." if fit.after else lacking
    why = shortage_text(fit, places)
    if fit.verdict == AFTER_JOBS:
        return f"{why} It runs after {_ends_text(fit.after, ends, now, endless)}."
    if fit.verdict == AFTER_NODES:
        names = abridged(list(fit.away), _NAMED)
        return f"{why} It runs once these accept pods again: {names}."
    return why


def _joint_start(fit: Fit) -> str:
    if not fit.job.together or fit.refused or fit.verdict in (NOW, AFTER_PREEMPTION, UNKNOWN):
        return ""
    return f" Its {fit.job.number} pods are only started together."


def _aftermath(fit: Fit) -> str:
    """What follows for others, and for its own former pods."""
    return f"{_half_way(fit)}{_in_vain(fit)}{competition_text(fit)}"


def _stopped_rollout(fit: Fit) -> Rollout | None:
    return None if fit.verdict in (NOW, AFTER_PREEMPTION, UNKNOWN) else fit.rollout


def _half_way(fit: Fit) -> str:
    rollout = _stopped_rollout(fit)
    if not rollout or not rollout.old:
        return ""
    text = "one of its former pods serves" if rollout.old == 1 else f"{rollout.old} of its former pods serve"
    return f" {text.capitalize()} on." if fit.verdict == NEVER else f" Until then, {text} on."


def _in_vain(fit: Fit) -> str:
    """Some of its pods may preempt others although not all find room; then these wait for the rest."""
    if fit.verdict in (NOW, AFTER_PREEMPTION) or not fit.evicted:
        return ""
    return f" {'It may preempt' if fit.verdict == UNKNOWN else 'Once submitted, it preempts'} {_jobs(fit.evicted)}."


CREATED_FIRST = "whichever is created first gets it"


def competition_text(fit: Fit) -> str:
    """Few names, so that jobs that compete for the same quota, such as those of a sweep, have the same reason."""
    if fit.verdict == NEVER:
        return ""
    quota = "it" if fit.lacks else "its quota"
    return f"{_contest(fit.rivals, fit.replaced, quota)}{_contest(fit.room_rivals, (), 'its room')}"


def _contest(rivals: Sequence[JobId], replaced: Sequence[JobId], needed: str) -> str:
    parts = [f"{_jobs(rivals, _NAMED)} of this task"] if rivals else []
    if replaced:
        parts.append(f"{_jobs(replaced)}, which {'is' if len(replaced) == 1 else 'are'} preempted,")
    if not parts:
        return ""
    text, number = " and ".join(parts), len(rivals) + len(replaced)
    return f" {text[0].upper()}{text[1:]} {'needs' if number == 1 else 'need'} {needed} too, and {CREATED_FIRST}."


def _place_text(fit: Fit) -> str:
    counts = Counter(fit.nodes)
    if fit.job.number == 1:
        node = fit.nodes[0] if fit.nodes else "?"
        return f"on {node}" if fit.possible <= 1 else f"on one of {fit.possible} nodes, such as {node}"
    placed = [f"{node} ({number})" if number > 1 else node for node, number in sorted(counts.items())]
    others = f", of {fit.possible} nodes that would take one" if fit.possible > len(counts) else ""
    return f"its {fit.job.number} pods on {abridged(placed, _NAMED + 1)}{others}"


def _jobs(names: Sequence[JobId], most: int = _PREEMPTED) -> str:
    texts = [f"{namespace}/{name}" for namespace, name in names]
    return f"{'job' if len(texts) == 1 else 'jobs'} {abridged(texts, most)}"


def _ends_text(names: Sequence[JobId], ends: Mapping[JobId, JobEnd], now: datetime, endless: frozenset[JobId]) -> str:
    texts = []
    for name in names[:_NAMED]:
        end = ends.get(name)
        when = (
            _end_of(end, now) if end else "which only ends when it is deleted" if name in endless else "end not known"
        )
        texts.append(f"{name[0]}/{name[1]} ({when})")
    if len(names) > _NAMED:
        texts.append(f"{len(names) - _NAMED} more")
    noun = "job" if len(names) == 1 else "jobs"
    return f"{noun} {enumerated(texts, 'and')} {'ends' if len(names) == 1 else 'end'}"


def _end_of(end: JobEnd, now: datetime) -> str:
    if end.at < now and end.basis != DEADLINE:
        return f"overdue, {_BASES[end.basis]}"
    if end.basis == DEADLINE:
        return f"in {time_until(end.at, now, math.ceil)} at the latest"
    return f"in about {time_until(end.at, now, round)}, {_BASES[end.basis]}"


def time_until(at: datetime, now: datetime, whole: Callable[[float], int] = math.floor) -> str:
    minutes = max(0, round((at - now).total_seconds() / 60))
    if minutes < 120:
        return f"{minutes} min"
    return f"{whole(minutes / 60)} h" if minutes < 2880 else f"{whole(minutes / 1440)} d"


def _lacks(fit: Fit) -> Iterator[str]:
    def numbers(row: Mapping[str, str]) -> str:
        return f"it needs {row['requested']}, {row['used']} of {row['hard']} are used, {row['short']} short."

    for quota, texts in _of_quotas(fit, lambda lack: numbers(lack.row)):
        budget = used_up_budget(quota)
        if budget:
            yield " ".join(f"{text[0].upper()}{text[1:]}." for text in budget)
        for name, text in () if budget else texts:
            is_count = name.startswith("count/") or name.partition(".")[0] in (*COUNTED, PODS)
            yield f"Quota {quota} has too {'few' if is_count else 'little'} {name.removeprefix('count/')}: {text}"


def _of_quotas(fit: Fit, text: Callable[[QuotaLack], str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What ``text`` says of each quota's resources."""
    for quota in dict.fromkeys(lack.quota for lack in fit.lacks):
        yield quota, by_resource({lack.resource: text(lack) for lack in fit.lacks if lack.quota == quota})


def shortage_text(fit: Fit, places: Places) -> str:
    """Why its next pod finds no node: in the words of cluster/shortage.py where that knows a cause."""
    found = places.shortage(fit)
    number, wanted = len(fit.nodes), fit.job.number
    if fit.places and wanted > 1:
        return _no_place(fit)
    some = f"{number} of its {wanted} pods {'finds' if number == 1 else 'find'} room. " if number and wanted > 1 else ""
    if found is not None and not (fit.nodes and fit.verdict == NEVER):
        return f"{some}{_sentence(f'for the next one, {found.text}' if some else found.text)}"
    others = "" if some or not fit.is_one_of_several else ", once the other jobs of the task have theirs"
    return f"{some}No node takes {'the next pod' if some else 'its pod'}{others}: {_refused_by(fit)}."


def _no_place(fit: Fit) -> str:
    """``Its 4 pods have to share fit.example/rack; r0 has room for 2 of them, r1 for 1``"""
    keys = enumerated(list(dict.fromkeys(term["topologyKey"] for term in fit.job.pod.near)), "and")
    rooms = sorted(fit.places, key=lambda place: -place[1])
    text = f"Its {fit.job.number} pods have to share {keys}, but {rooms[0][0]} has room for {rooms[0][1]} of them"
    others = [f"{place} for {number}" for place, number in rooms[1:_NAMED]]
    return f"{', '.join([text, *others])}{' at most' if len(rooms) > _NAMED else ''}."


def _refused_by(fit: Fit) -> str:
    """``3 nodes have too little nvidia.com/gpu and 1 node has a taint``: of its own nodes, if one of these is wrong."""
    rows = list(fit.refusals.items())
    for kind in (
        [row for row in rows if row[0].startswith(CLAIM)],
        [row for row in rows if row[0] != NOT_SELECTED],
        rows,
    ):
        if kind:
            return enumerated([_refusal(reason, number, fit.job.pod.requests) for reason, number in kind], "and")
    return "there are no nodes"


def _refusal(reason: str, number: int, requests: Mapping[str, int]) -> str:
    if reason.startswith(CLAIM):
        return reason
    words = f"{{has}} too little {reason}" if set(reason.split(", ")) <= set(requests) else _WORDS.get(reason)
    verbs = {"has": "has", "is": "is"} if number == 1 else {"has": "have", "is": "are"}
    return f"{number_of(number, 'node')} {(words or f'{{is}} ruled out by {reason}').format(**verbs)}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _unknown(fit: Fit) -> list[str]:
    found = list(fit.undecided)
    if fit.depends_on_place:
        rooms = [f"{place or 'anywhere'} has room for {number} of {fit.job.number}" for place, number in fit.places[:4]]
        found.append(f"it depends on where the scheduler puts the first pod: {'; '.join(rooms)}")
    if fit.depends_on_batch:
        found.append("it depends on where the scheduler puts the other jobs of the task")
    return found


def _why_unknown(fit: Fit) -> str:
    otherwise = {
        NOW: " Apart from that, it would run now.",
        AFTER_PREEMPTION: " Apart from that, it would run once it has preempted others.",
        AFTER_QUOTA: " Apart from that, it would wait for its quota.",
    }.get(fit.otherwise, " Apart from that, it would wait." if fit.otherwise else "")
    return f"Not known: {'; '.join(_unknown(fit))}.{otherwise}"


# -- what helps --------------------------------------------------------------------------------------------------------


def _change(change: FitChange) -> dict[str, Any]:
    fields = [{"field": field, "before": before, "after": after} for field, before, after in change.fields]
    return {"fields": fields, "verdict": change.verdict}


def _higher_quotas(fit: Fit) -> Iterator[FitChange]:
    """All limits that are too low, where nodes would take the job then."""
    # A used-up budget is not raised in what enforces it.
    if fit.with_quota and not any(used_up_budget(one.quota) for one in fit.lacks):
        limits = ((f"limit {one.resource} of quota {one.quota}", one.row["hard"], one.raised_to) for one in fit.lacks)
        yield FitChange(tuple(limits), fit.with_quota)


def _changed(fields: Sequence[Mapping[str, Any]]) -> str:
    left_out = [f"{one['field']} {one['before']}" for one in fields if one["after"] is None]
    given = [f"{one['field']} {one['after']} instead of {one['before']}" for one in fields if one["after"] is not None]
    return f"out {enumerated(left_out, 'and')}" if left_out else f" {enumerated(given, 'and')}"


def _higher_limits(fit: Fit) -> str:
    """`` cpu 160 instead of 64 and nvidia.com/gpu 20 instead of 8 in quota team``"""
    quotas = [
        f"{enumerated([f'{name} {text}' for name, text in texts], 'and')} in quota {quota}"
        for quota, texts in _of_quotas(fit, lambda lack: f"{lack.raised_to} instead of {lack.row['hard']}")
    ]
    return f" {enumerated(quotas, 'and')}"


def _hint(fit: Fit, changes: Sequence[Mapping[str, Any]], places: Places) -> str | None:
    """The cheapest change, if the job names what there is; nothing for a job that runs anyway."""
    if fit.verdict == NOW or (fit.verdict == UNKNOWN and not changes):
        return GRANT_PODS if PODS_UNREADABLE in fit.undecided else None
    is_for_nodes = fit.verdict == NEVER and not fit.refused and (fit.fits_nowhere or not fit.lacks)
    found = places.shortage(fit) if is_for_nodes else None
    if found and found.unknown:
        return _sentence(found.hint)
    if changes:
        change = _changed(changes[0]["fields"]) if fit.changes else _higher_limits(fit)
        return f"With{change}, {_RESULTS[changes[0]['verdict']]}."
    if claims := [reason.split()[1] for reason in fit.refusals if reason.endswith(NOT_FOUND)]:
        return _sentence(missing_claim("pods", claims[0], fit.job.namespace).hint)
    return _sentence(found.hint) if found and found.hint else None
