# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""How a wait is told: line by line while it lasts, and in one message when it was in vain. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..cluster.live import JobId
from ..cluster.status import pods_ready, pods_wanted, status_of
from .goals import Goal
from .wait import Standing

_BETWEEN = 2.0  # seconds at least between two lines, and before the first: a quick start needs none
_HEARTBEAT = 30.0  # seconds at most
_NAMED = 3  # jobs that a line of progress names
_LISTED = 10  # jobs that a message lists; the results have all of them
_LONGEST_REASON = 160
_LOG_LINES = 5  # of a failed container, in the message


class Announcer:
    """Tells a line when something has changed, and now and then when nothing has."""

    def __init__(
        self, goal: Goal, timeout: float, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._goal = goal
        self._timeout = timeout
        self._tell = tell
        self._clock = clock
        self._started = self._told_at = clock()
        self._told: object = None

    def __call__(self, standings: Mapping[JobId, Standing]) -> float:
        """Seconds after which it wants to be called again, even if nothing changes."""
        now = self._clock()
        seen = {job: (standing.arrived, _state(standing)) for job, standing in standings.items()}
        due = self._told_at + (_HEARTBEAT if seen == self._told else _BETWEEN)
        if now >= due:
            self._tell(progress_line(self._goal, standings, now - self._started, self._timeout))
            self._told, self._told_at = seen, now
            due = now + _HEARTBEAT
        return due - now


def progress_line(goal: Goal, standings: Mapping[JobId, Standing], elapsed: float, timeout: float) -> str:
    """``3 of 5 ready after 40 s of at most 600 s; waiting for web (Pending: …)``."""
    waiting = {job: standing for job, standing in standings.items() if not standing.arrived}
    arrived = len(standings) - len(waiting)
    several = len({namespace for namespace, name in standings}) > 1
    named = [
        f"{f'{namespace}/' if several else ''}{name} ({_state(standing)})"
        for (namespace, name), standing in list(waiting.items())[:_NAMED]
    ]
    if len(waiting) > _NAMED:
        named.append(f"{len(waiting) - _NAMED} more")
    line = f"{arrived} of {len(standings)} {goal.word} after {elapsed:.0f} s of at most {timeout:.0f} s"
    return f"{line}; waiting for {', '.join(named)}" if named else line


@dataclass(frozen=True)
class Late:
    """A job that did not arrive. ``job`` is how messages name it, ``log`` the end of the log that may tell why."""

    job: str
    standing: Standing
    reason: str | None = None
    log: Sequence[str] = ()


def problem(goal: Goal, late: Sequence[Late], number: int, timeout: float, *, keep_going: bool) -> str:
    """Why a wait for ``number`` jobs was in vain, for a person: first what is hopeless, then what took too long."""
    lost = [one for one in late if one.standing.hopeless]
    slow = [one for one in late if not one.standing.hopeless]
    lines = [f"{one.job} {_hopeless(goal, one)}{_end_of(one)}" for one in lost[:_LISTED]]
    if len(lost) > _LISTED:
        lines.append(f"The same is true of {len(lost) - _LISTED} more; see results.")
    if lost and not keep_going:
        if number > len(lost):
            arrived = number - len(late)
            lines.append(f"Of the other jobs {arrived} were {goal.word} by then, {len(slow)} not yet.")
        return "\n".join(lines)
    if len(slow) == 1:
        lines.append(f"not {goal.word} after {timeout:.0f} s: {slow[0].job} {_last_seen(slow[0])}")
    elif slow:
        lines.append(f"{len(slow)} of {number} jobs are not {goal.word} after {timeout:.0f} s:")
        lines += [f"{one.job} {_last_seen(one)}" for one in slow[:_LISTED]]
        if len(slow) > _LISTED:
            lines.append(f"and {len(slow) - _LISTED} more; see results.")
    return "\n".join(lines)


def errors(goal: Goal, late: Mapping[JobId, Late], timeout: float, *, keep_going: bool) -> dict[JobId, str]:
    """The same for each of the jobs that failed. A wait that one of them has cut short says nothing about the slow."""
    found = {job: _hopeless(goal, one) for job, one in late.items() if one.standing.hopeless}
    if keep_going or not found:
        slow = {job: one for job, one in late.items() if not one.standing.hopeless}
        found |= {job: f"not {goal.word} after {timeout:.0f} s: it {_last_seen(one)}" for job, one in slow.items()}
    return found


def _hopeless(goal: Goal, late: Late) -> str:
    return f"will not become {goal.word}: {late.reason}"


def _state(standing: Standing) -> str:
    """Status and reason, or what is still there of a job that is to go."""
    if standing.workload is None:
        return "1 pod left" if len(standing.pods) == 1 else f"{len(standing.pods)} pods left"
    obstacle = standing.hopeless or standing.obstacle
    if obstacle is None:
        return f"{status_of(standing.workload)}, {_counted(standing)}"
    reason = obstacle.text.rstrip(".")
    short = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
    return f"{status_of(standing.workload)}: {short}"


def _last_seen(late: Late) -> str:
    standing = late.standing
    if standing.workload is None or "deletionTimestamp" in standing.workload["metadata"]:
        left = [obj for obj in (standing.workload, *standing.pods) if obj]
        names = ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in left)
        return f"still has {names}"
    why = f": {late.reason}" if late.reason else ""
    return f"is {status_of(standing.workload)}, {_counted(standing)}{why}"


def _counted(standing: Standing) -> str:
    if standing.workload is None:
        return ""
    return f"{pods_ready(standing.workload)} of {pods_wanted(standing.workload)} pods ready"


def _end_of(late: Late) -> str:
    if not late.log:
        return ""
    return "\n".join(["", "The log ends with:", *(f"  {line}" for line in late.log[-_LOG_LINES:])])
