# SPDX-License-Identifier: BSD-2-Clause
"""What holds of every run, whatever went wrong. Pure: from what was there, was said and was sent to verdicts.

Each rule has a name, by which violations are counted, and a sentence in PROMISES, which
docs/reliability.md prints.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .faults import Case, Group
from .proxy import Request
from .runner import Outcome
from .scenarios import COMMON, COPY, LEDGER, Scenario
from .snapshot import LEDGER as LEDGER_NAME
from .snapshot import WORKLOADS, Snapshot, differences

PROMISES = {
    "exit": "A run that succeeds has done all of its work.",
    "changed": "`changed` is false only if nothing was written, or if the message says that this is not known.",
    "message": "A failure is explained in a few lines, without HTML, tracebacks or false claims.",
    "deletion": "If a failed run has deleted a job and not created it again, its message says so.",
    "survives": "A single transient fault (busy server, reset, lost answer, broken watch) does not fail a run.",
    "prompt": "A silent server delays a run by its `request_timeout`, and by a few seconds more at most.",
    "heals": "Running the same task again succeeds and completes the work.",
    "stable": "After that, the task changes nothing and writes nothing.",
    "keeps": "What can be changed in place is not replaced.",
    "unmanaged": "Objects and labels of others are not touched.",
    "orphans": "Nothing is left behind without its owner: no pod, Service or ConfigMap. No Lease stays held, except by "
    "a run that was killed or lost the server for good, until the next one that changes pools.",
    "mixture": "If two concurrent runs both succeed, each job is as one of them wants it, not a mixture.",
    "stands": "A run that fails does not undo the work of one that succeeded.",
    "rival": "A run that fails because of a concurrent one says so, and not that a field is immutable.",
    "lease": "A run that takes over the Lease of a killed one names it.",
}


@dataclass(frozen=True)
class Violation:
    oracle: str
    text: str


@dataclass(frozen=True)
class Observation:
    """One case from its beginning to its end. ``rivals`` are the outcomes of the other writers.

    ``expected`` are the states of which one is right at the end of the action (one, unless there are rivals);
    ``healed_to`` those after the second run.
    """

    case: Case
    scenario: Scenario
    before: Snapshot
    after: Snapshot
    healed: Snapshot
    final: Snapshot
    first: Outcome
    second: Outcome
    third: Outcome
    requests: Sequence[Request] = ()
    third_requests: Sequence[Request] = ()
    rivals: Sequence[Outcome] = ()
    expected: Sequence[Mapping[str, str]] = ()
    rival_alone: Sequence[Mapping[str, str]] = ()
    healed_to: Sequence[Mapping[str, str]] = ()
    usual_seconds: float = 1.0
    unmanaged: frozenset[str] = field(default_factory=frozenset)


Rule = Callable[[Observation], Iterator[str]]


def judge(seen: Observation) -> list[Violation]:
    return [Violation(name, text) for name, rule in _RULES.items() for text in rule(seen)]


def _exit(seen: Observation) -> Iterator[str]:
    if seen.first.hung:
        yield "the run hangs"
    if not seen.first.ok or seen.rivals:
        return
    # A ledger that cannot be written fails no run; a warning says what follows from that.
    spared = {LEDGER} if LEDGER_NAME in seen.first.text else set()
    if "was not deleted after its restart" in seen.first.text:  # The ledger stays open until the copy is deleted.
        spared |= {LEDGER, *(key for key in seen.after.contents if key.startswith(COPY))}
    state = _without(seen.after.contents, spared)
    if state not in [_without(each, spared) for each in seen.expected]:
        yield f"it ended well, but: {_gap(seen.expected, seen.after)}"


def _changed(seen: Observation) -> Iterator[str]:
    if seen.first.killed or seen.rivals:
        return
    written = _work(seen.before, seen.after)
    if written and not seen.first.changed and not _NOT_KNOWN.search(seen.first.text):
        yield f"changed is false, but: {'; '.join(written[:3])} ({_first_line(seen.first)})"
    if seen.first.ok and seen.first.changed and not written and not any(request.written for request in seen.requests):
        yield "changed is true, but nothing was written"


def _message(seen: Observation) -> Iterator[str]:
    for outcome in (seen.first, *seen.rivals, seen.second):
        if outcome.killed:
            continue
        text = outcome.text
        if outcome.failed and not outcome.message.strip():
            yield "a failure without a message"
        if _NOT_FOR_PEOPLE.search(text) or "exception" in (outcome.result or {}):
            yield f"not for people: {_first_line(outcome)}"
        if len(outcome.message) > _LONGEST_MESSAGE:
            yield f"{len(outcome.message)} characters: {_first_line(outcome)}"
    first = seen.first
    if first.failed and _NOTHING_CHANGED.search(first.text) and not seen.rivals:
        written = _work(seen.before, seen.after)
        if written:
            yield f"it says that nothing was changed, but: {'; '.join(written[:3])}"
    if first.failed and "was restored" in first.text and not seen.rivals:
        gone = [key for key in _workloads(seen.before) if key not in seen.after.contents]
        if gone:
            yield f"it says that the job was restored, but {gone[0]} is not there"


def _deletion(seen: Observation) -> Iterator[str]:
    if not seen.first.failed or seen.scenario.deletes or seen.rivals:
        return
    there = {_job_of(key) for key in _workloads(seen.after)}
    gone = [key for key in _workloads(seen.before) if _job_of(key) not in there]
    if gone and not re.search(r"delet|is gone|no longer", seen.first.text):
        yield f"{gone[0]} was deleted, and the message does not say so: {_first_line(seen.first)}"


def _survives(seen: Observation) -> Iterator[str]:
    fault = seen.case.kind
    survivable = fault.watch or (fault.transient and not seen.case.always)
    if survivable and seen.first.failed:
        yield f"it failed: {_first_line(seen.first)}"


def _prompt(seen: Observation) -> Iterator[str]:
    if not seen.case.fault.startswith("silent"):
        return
    silence = sum(request.silence for request in seen.requests)
    limit = f"with a request_timeout of {COMMON['request_timeout']} s"
    if silence > COMMON["request_timeout"] + _SLACK_SECONDS:
        yield f"it waited for {silence:.0f} s {limit}"
        return
    # What the machine takes is not the run's: the processors were others', or the server worked for so long.
    own = seen.first.seconds - seen.first.starved - sum(request.served for request in seen.requests)
    if own > seen.usual_seconds + COMMON["request_timeout"] + _BUSY_SECONDS:
        yield f"it took {own:.0f} s of its own, of which it waited for {silence:.0f} s, {limit}"


def _heals(seen: Observation) -> Iterator[str]:
    if not seen.second.ok:
        yield f"the second run fails: {_first_line(seen.second)}"
    elif seen.healed.contents not in seen.healed_to:
        yield f"after the second run: {_gap(seen.healed_to, seen.healed)}"


def _stable(seen: Observation) -> Iterator[str]:
    # After a restart it is the manifest that changes nothing, unless another writer had another one.
    if not seen.second.ok or (seen.rivals and seen.scenario.again):
        return
    if not seen.third.ok:
        yield f"the third run fails: {_first_line(seen.third)}"
    elif seen.third.changed:
        found = differences(seen.healed.contents, seen.final.contents)
        yield f"the third run changes something: {'; '.join(found[:3])}"
    writes = [str(request) for request in seen.third_requests if request.writes]
    if seen.third.ok and writes:
        yield f"the third run writes: {', '.join(writes[:3])}"


def _keeps(seen: Observation) -> Iterator[str]:
    if seen.rivals:
        return
    for key in sorted(seen.scenario.keeps):
        before, now = seen.before.uids.get(key), seen.final.uids.get(key)
        if before and before != now:
            yield f"{key} is {'another one' if now else 'gone'}"


def _unmanaged(seen: Observation) -> Iterator[str]:
    for moment, state in (("the first", seen.after), ("the second", seen.healed), ("the third", seen.final)):
        touched = [key for key in sorted(seen.unmanaged) if state.versions.get(key) != seen.before.versions.get(key)]
        if touched:
            yield f"{', '.join(touched)} is another one after {moment} run"
            return
    for key, obj in seen.before.objects.items():
        if obj["kind"] == "Node":
            before, now = (_unmanaged_labels(each.objects.get(key)) for each in (seen.before, seen.final))
            if before != now:
                yield f"labels of others on {key} have changed"


def _orphans(seen: Observation) -> Iterator[str]:
    live = seen.final.live_uids
    for key, obj in seen.final.objects.items():
        owners = obj["metadata"].get("ownerReferences") or ()
        if owners and not any(owner["uid"] in live for owner in owners):
            yield f"{key} has an owner that is gone"
        if obj["kind"] == "Pod" and not owners and key not in seen.unmanaged:
            yield f"{key} has no owner"
    holder = seen.final.lease_holder
    if holder and (seen.second.changed or seen.third.changed or not _could_not_release(seen)):
        yield f"the Lease is still held by {holder}"


def _could_not_release(seen: Observation) -> bool:
    """Whether the first run was killed, or a fault that lasts has struck the last thing that it did with the Lease."""
    if not (seen.case.always or seen.case.kind.name in ("down", "outage")):
        return seen.first.killed
    writes = [
        request for request in seen.requests if request.path.endswith("/leases/pools") and request.method != "GET"
    ]
    return seen.first.killed or bool(writes and writes[-1].fault)


def _mixture(seen: Observation) -> Iterator[str]:
    all_well = seen.first.ok and all(rival.ok for rival in seen.rivals)
    if not seen.rivals or not all_well:
        return
    # Jobs are independent of each other: of some, the last run may be another one.
    right, found = [_by_job(state) for state in seen.expected], _by_job(seen.after.contents)
    names = {name for state in (found, *right) for name in state}
    if any(found.get(name) not in [state.get(name) for state in right] for name in names):
        yield f"all ended well, but: {_gap(seen.expected, seen.after)}"


def _stands(seen: Observation) -> Iterator[str]:
    if not seen.rivals or not seen.first.failed or not all(rival.ok for rival in seen.rivals):
        return
    if seen.scenario.atomic and seen.after.contents not in (*seen.rival_alone, *seen.expected):
        yield f"it failed and left: {_gap(seen.rival_alone, seen.after)} ({_first_line(seen.first)})"


def _rival(seen: Observation) -> Iterator[str]:
    if not seen.rivals:
        return
    for outcome in (seen.first, *seen.rivals):
        if outcome.failed and (found := _MISLEADING.search(outcome.text)):
            yield f"it says {found.group(0)!r}: {_first_line(outcome)}"


def _lease(seen: Observation) -> Iterator[str]:
    took_over = seen.after.lease_holder and seen.second.ok and seen.second.changed
    if took_over and "process" not in seen.second.text:
        yield f"the second run took over from {seen.after.lease_holder} without a word"


_RULES: Mapping[str, Rule] = {
    "exit": _exit,
    "changed": _changed,
    "message": _message,
    "deletion": _deletion,
    "survives": _survives,
    "prompt": _prompt,
    "heals": _heals,
    "stable": _stable,
    "keeps": _keeps,
    "unmanaged": _unmanaged,
    "orphans": _orphans,
    "mixture": _mixture,
    "stands": _stands,
    "rival": _rival,
    "lease": _lease,
}

_NOT_KNOWN = re.compile(r"not known whether|unknown whether|may have been (applied|written|changed|created|sent)")
_NOTHING_CHANGED = re.compile(r"[Nn]othing was (changed|written|sent)|without\s+changing anything")
_NOT_FOR_PEOPLE = re.compile(
    r"<html|<!DOCTYPE|Traceback|KeyError|TypeError|AttributeError|IndexError|This is a bug in|the runner has failed"
)
_MISLEADING = re.compile(r"field is immutable|could not be restored|Kubernetes cannot change")
_LONGEST_MESSAGE = 2500
_SLACK_SECONDS = 4.0  # until the proxy notices that the client has gone
# A run of a second has taken 18 beside others: the proxy between it and the server gets no processor either.
_BUSY_SECONDS = 20.0


def is_race(case: Case) -> bool:
    return case.kind.group is Group.RACE


def _workloads(state: Snapshot) -> list[str]:
    return [key for key in state.contents if key.partition(" ")[0] in WORKLOADS]


def _job_of(key: str) -> str:
    """The namespace and name of a workload, whose kind may have changed."""
    return key.partition(" ")[2]


def _work(before: Snapshot, after: Snapshot) -> list[str]:
    """What a run has done, without its bookkeeping: ledger, copies, and PriorityClasses, which all namespaces share."""
    one, other = ({key: text for key, text in each.contents.items() if _is_work(key)} for each in (before, after))
    lines = differences(one, other)
    replaced = [
        f"{key} is another one"
        for key in sorted(before.contents.keys() & after.contents.keys())
        if _is_work(key) and before.uids[key] != after.uids[key]
    ]
    return [*lines, *replaced]


def _without(state: Mapping[str, str], keys: set[str]) -> dict[str, str]:
    return {key: text for key, text in state.items() if key not in keys}


def _is_work(key: str) -> bool:
    return key not in (LEDGER, "Namespace gpuctl-system") and not key.startswith((COPY, "PriorityClass "))


def _gap(expected: Sequence[Mapping[str, str]], state: Snapshot) -> str:
    """What differs from the nearest of the states that would be right."""
    gaps = [differences(each, state.contents) for each in expected]
    return "; ".join(min(gaps, key=len)[:4]) if gaps else "nothing was expected"


def _by_job(state: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What belongs to each job, the entries of the ledger included; "" for the rest."""
    parts: dict[str, dict[str, str]] = defaultdict(dict)
    for key, text in state.items():
        content = json.loads(text)
        if key == LEDGER:
            for name, entry in content.items():
                parts[name][key] = json.dumps(entry)
        else:
            parts[(content.get("metadata", {}).get("labels") or {}).get("app", "")][key] = text
    return parts


def _unmanaged_labels(node: Mapping[str, object] | None) -> dict[str, str]:
    metadata = (node or {}).get("metadata") or {}
    labels = metadata.get("labels") or {} if isinstance(metadata, dict) else {}
    return {key: value for key, value in labels.items() if not key.startswith("runwhere.ai/")}


def _first_line(outcome: Outcome) -> str:
    text = outcome.message.strip().splitlines()[0] if outcome.message.strip() else "(no message)"
    return text if len(text) <= 300 else f"{text[:297]}..."
