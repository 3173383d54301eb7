# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that run or hold something and get nowhere, by the evidence of their own objects, and what follows by the policy
of their pool. Pure.

What the objects do not show is no finding. What annotations say is the tenant's: a time that is none or in the future
does not count, and an exemption lasts for as long as the administrator allows at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ...cluster.pod_facts import claim_names
from ...cluster.related import is_pod_ready, is_unfinished
from ...cluster.status import is_admitted_by_kueue, is_terminating, pods_ready, pods_wanted, status_of
from ...cluster.time_limits import noted_time
from ...given_times import seconds_of
from ...kube.errors import cut
from ...kube.times import read_time, time_as_text
from ...labels import EXPIRED_AT, IDLE_EXEMPT_UNTIL, RECLAIM_WARNED, pool_of_workload
from ...manifest.problems import enumerated, number_of
from .idle_rules import CLEAR, NOTHING, PAUSE, WARN, measured_devices

STUCK, CRASH_LOOP, HALF_GANG, WAITING, PAUSED = "stuck", "crash_loop", "half_gang", "waiting", "paused"
NOTIFY, STOP = "notify", "stop"
EVERY_POOL = "all"
_ACTIONS = dict.fromkeys((STUCK, CRASH_LOOP, HALF_GANG, WAITING), (NOTIFY, PAUSE, STOP)) | {PAUSED: (NOTIFY,)}
_SHORTEST, _LONGEST = 300, 31 * 86_400
_FEWEST_RESTARTS = 5  # With the back-off of kubelets (10 s, doubled each time), these take more than five minutes.
_WELL_AFTER = timedelta(minutes=10)  # Kubelets begin their back-off anew for a container that has run for so long.


@dataclass(frozen=True)
class ReclaimRule:
    """What is done about a kind of finding in a pool, and after how many seconds."""

    after: int
    action: str
    pool: str


Rules = Mapping[tuple[str, str], ReclaimRule]  # by pool and kind


@dataclass(frozen=True)
class Stall:
    """What is wrong with a job. ``since``: None where its objects do not say it."""

    kind: str
    reason: str
    since: datetime | None
    gpus: int = 0
    claims: tuple[str, ...] = ()


def reclaim_rules_in(policies: Mapping[str, Any]) -> Rules:
    """The option ``policies``. Raises ValueError with a message for the user."""
    found: dict[tuple[str, str], ReclaimRule] = {}
    for pool, kinds in policies.items():
        if not isinstance(kinds, Mapping):
            raise ValueError(f"O(policies): {pool}: not a map. Use {', '.join(_ACTIONS)} as its keys.")
        for kind, given in kinds.items():
            place = f"O(policies): {pool}.{kind}"
            if kind not in _ACTIONS:
                raise ValueError(f"{place}: unknown key. Valid keys: {', '.join(_ACTIONS)}.")
            if not isinstance(given, Mapping) or {*given} != {"after", "action"}:
                raise ValueError(f"{place}: needs after and action, such as {{after: 4h, action: notify}}.")
            seconds = seconds_of(str(given["after"]).strip())
            if seconds is None or not _SHORTEST <= seconds <= _LONGEST:
                raise ValueError(f"{place}.after: invalid: {given['after']}. Use 5m to 31d, such as 4h.")
            if given["action"] not in _ACTIONS[kind]:
                actions = enumerated(_ACTIONS[kind], "or")
                raise ValueError(f"{place}.action: unsupported value: {given['action']}. Use {actions}.")
            found[str(pool), str(kind)] = ReclaimRule(seconds, str(given["action"]), str(pool))
    return found


def rule_for(rules: Rules, workload: Mapping[str, Any], kind: str) -> ReclaimRule | None:
    """That of its pool, or else that of every pool."""
    return rules.get((pool_of_workload(workload), kind)) or rules.get((EVERY_POOL, kind))


# -- findings ----------------------------------------------------------------------------------------------------------


def finding_of(workload: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], now: datetime) -> Stall | None:
    """What is wrong with a job that neither runs as it should nor has ended."""
    status = status_of(workload)
    if status == "Paused":
        return _paused(workload)
    living = [pod for pod in pods if is_unfinished(pod) and not is_terminating(pod)]
    if status not in ("Pending", "Partially Running", "Running") or is_admitted_by_kueue(workload) or not living:
        return None
    placed = [pod for pod in living if pod["spec"].get("nodeName")]
    gpus = sum(measured_devices(pod) for pod in placed)
    refused = [(time, text) for pod in living if pod not in placed for time, text in _refusals(pod)]
    # The counts of its controller: pods that only look like its own are no evidence against it.
    if placed and refused and workload["kind"] == "Job" and pods_ready(workload) < pods_wanted(workload):
        since, text = min(refused)
        reason = (
            f"holds {_gpus(gpus)} with {len(placed)} of its {len(living)} pods, and there is no node for the others"
        )
        return Stall(HALF_GANG, f"{reason}: {text}", since, gpus) if gpus else None
    if not placed and len(refused) == len(living):
        since, text = min(refused)
        return Stall(WAITING, f"waits, for there is no node for any of its pods: {text}", since)
    return _crash_loop(living, gpus, now) if workload["kind"] != "Job" else None


def _paused(workload: Mapping[str, Any]) -> Stall | None:
    claims = claim_names(workload["spec"]["template"]["spec"])
    if not claims:
        return None
    suspended = [
        read_time(one["lastTransitionTime"])
        for one in (workload.get("status") or {}).get("conditions") or ()
        if one["type"] == "Suspended" and one["status"] == "True" and one.get("lastTransitionTime")
    ]
    since = max(suspended, default=None) if workload["kind"] == "Job" else noted_time(workload, EXPIRED_AT)
    return Stall(PAUSED, f"is paused, and keeps {_claims(claims)}", since, claims=claims)


def _refusals(pod: Mapping[str, Any]) -> Iterator[tuple[datetime, str]]:
    """Since when the scheduler finds no node for a pod, and what it says."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        is_refused = one["type"] == "PodScheduled" and one["status"] == "False"
        if is_refused and one.get("reason") == "Unschedulable" and one.get("lastTransitionTime"):
            yield read_time(one["lastTransitionTime"]), cut(one.get("message") or "unschedulable").rstrip(".")


def _crash_loop(pods: Iterable[Mapping[str, Any]], gpus: int, now: datetime) -> Stall | None:
    """A service of which each pod crashes again and again. Nothing says since when."""
    counts = []
    for pod in pods:
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        crashes = [one.get("restartCount") or 0 for one in statuses if _crashes(one, is_pod_ready(pod), now)]
        if max(crashes, default=0) < _FEWEST_RESTARTS:
            return None
        counts.append(max(crashes))
    holds = f" and holds {_gpus(gpus)}" if gpus else ""
    return Stall(CRASH_LOOP, f"crashes again and again, {max(counts)} times so far{holds}", None, gpus)


def _crashes(container: Mapping[str, Any], is_ready: bool, now: datetime) -> bool:
    """Whether it waits to be started again, or has failed and is not well yet: it may fail each time it loads."""
    state = container.get("state") or {}
    started = (state.get("running") or {}).get("startedAt")
    if is_ready and (not started or now - read_time(started) >= _WELL_AFTER):
        return False
    last = (container.get("lastState") or {}).get("terminated") or {}
    return (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff" or bool(last.get("exitCode"))


def unused_claims(
    claims: Iterable[Mapping[str, Any]],
    workloads: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
) -> list[tuple[str, str]]:
    """Our claims, by namespace and name, that neither a workload nor a pod of ours mounts."""
    specs = [(obj["metadata"]["namespace"], obj["spec"]["template"]["spec"]) for obj in workloads]
    specs += [(pod["metadata"]["namespace"], pod["spec"]) for pod in pods]
    used = {(namespace, name) for namespace, spec in specs for name in claim_names(spec)}
    places = ((obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in claims if not is_terminating(obj))
    return sorted(place for place in places if place not in used)


def _gpus(number: int) -> str:
    return number_of(number, "accelerator")


def _claims(names: Sequence[str]) -> str:
    return f"{'claim' if len(names) == 1 else 'claims'} {enumerated(names, 'and')}"


# -- what follows ------------------------------------------------------------------------------------------------------


def warned_of(workload: Mapping[str, Any], kind: str, now: datetime) -> datetime | None:
    """When the job was warned of this finding; None for another one, and for a time that is still to come."""
    text = (workload["metadata"].get("annotations") or {}).get(RECLAIM_WARNED) or ""
    recorded, _space, time = text.partition(" ")
    found = noted_time({"metadata": {"annotations": {RECLAIM_WARNED: time}}}, RECLAIM_WARNED)
    return found if found and recorded == kind and found <= now else None


def exemption(workload: Mapping[str, Any], longest: float, now: datetime) -> str | None:
    """Why a job is left alone for some time; None if it is not."""
    until = noted_time(workload, IDLE_EXEMPT_UNTIL)
    if until and now < until <= now + timedelta(seconds=longest):
        return f"it is exempt until {time_as_text(until)}"
    return None


def next_step(
    workload: Mapping[str, Any], finding: Stall | None, rule: ReclaimRule | None, grace: float, now: datetime
) -> str:
    """What is done about a job now: its owner is warned ``grace`` seconds before more than that."""
    if finding is None or rule is None or (finding.since and (now - finding.since).total_seconds() < rule.after):
        return CLEAR if RECLAIM_WARNED in (workload["metadata"].get("annotations") or {}) else NOTHING
    warned = warned_of(workload, finding.kind, now)
    if warned is None or (finding.since and warned < finding.since):  # of an earlier time that it got nowhere
        return WARN
    # Where nothing says since when it is so, that was seen first when the job was warned of.
    wait = grace if finding.since else max(grace, rule.after)
    return rule.action if rule.action != NOTIFY and (now - warned).total_seconds() >= wait else NOTHING
