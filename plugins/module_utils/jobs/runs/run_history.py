# SPDX-License-Identifier: BSD-2-Clause
"""The history: what is kept of each run of a job after its objects are gone. Pure.

ConfigMaps of the namespace have it. A run is several keys that begin with the uid of its workload: what was submitted,
each of its pods, how it ended, and the end of the log of a failure. Each key is written whole by a task that has seen
that, and says the same whichever task writes it, so concurrent runs of Ansible need not read what they do not change,
and none loses what another one wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ...cluster.pod_times import Hold
from ...cluster.status import ENDED, status_of
from ...kube.times import read_time, time_as_text
from ...labels import (
    DEFAULT_POOL,
    GPU_TYPE,
    HISTORY,
    HISTORY_LIMITS,
    HISTORY_OF,
    JOB_TYPE,
    MANAGED,
    POOL,
    PRIORITY,
    SUBMITTED_BY,
    SWEEP,
    job_name_of,
)
from ...manifest.tree import MAX_DEPTH
from .config_maps import read_object
from .ledger import Entry, RunResult, run_result

Object = Mapping[str, Any]
Keys = dict[str, str]
KeyChanges = dict[str, "str | None"]
"""None removes a key."""

DELETED, REPLACED, UNKNOWN = "Deleted", "Replaced", "Unknown"
RESULTS = (*ENDED, DELETED, REPLACED, UNKNOWN)
"""How runs end. Replaced: by a new run of the same job. Unknown: its end was not observed.

Deleted and Replaced are written before a task deletes the workload, so they count once that is gone.
"""

HISTORIES = f"{MANAGED},{HISTORY_OF}"
"""The selector of all ConfigMaps of histories."""
VISITED = "visited"
"""The key with the time until which all pods of the namespace were seen."""

# A ConfigMap holds 1 MiB (pkg/apis/core/validation, MaxSecretSize). It is rolled at half of that, and a write is a
# quarter at most: two runs that write at the same time cannot fill it.
ROLL_AT, LARGEST_WRITE = 512 * 1024, 256 * 1024

# The most characters of a key's value.
_LONGEST = {"job": 48 * 1024, "good": 48 * 1024, "was": 4096, "end": 4096, "log": 24 * 1024, "pod": 2048, "back": 2048}
_LONGEST_MANIFEST = 32 * 1024
MOST_KEPT = 36_500  # days or MiB: dates end with the year 1
_KEY = re.compile(
    r"(?P<uid>[0-9a-zA-Z-]{1,64})\.(?P<part>job|good|was|end|log|pod|back)(?:\.(?P<pod>[0-9a-zA-Z-]{1,64}))?"
)


class HistoryLimits(NamedTuple):
    """How much of a namespace's history is kept: days since a run has ended, and MiB of all."""

    days: int = 90
    mebibytes: int = 16

    def __str__(self) -> str:
        """The value of the annotation."""
        return json.dumps(self._asdict())


@dataclass
class PastRun:
    """A run as the history has it. What it does not have is None."""

    namespace: str
    uid: str
    name: str = ""
    kind: str | None = None
    submitted_at: str | None = None
    submitter: str | None = None
    pool: str | None = None
    priority: str | None = None
    sweep: str | None = None
    gpu_type: str | None = None
    image: str | None = None
    digest: str | None = None
    manifest: Any = None
    manifest_note: str | None = None
    good: Mapping[str, Any] = field(default_factory=dict)  # the digest and the manifest of before, see good_keys
    started_at: str | None = None
    finished_at: str | None = None
    result: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    log: list[str] = field(default_factory=list)
    holds: dict[str, Hold] = field(default_factory=dict)  # by uid of the pod
    given_back: dict[str, Hold] = field(default_factory=dict)  # what gpuctl_idle gave back, since when, by its time
    seen: float = 0.0  # when its pods were last read, or found to be gone

    @property
    def has_ended(self) -> bool:
        return self.result is not None

    @property
    def may_go_on(self) -> bool:
        """Whether its end was written before it, or not observed: one that is still there has not ended so."""
        return self.result in (DELETED, REPLACED, UNKNOWN)

    def reopen(self) -> None:
        self.result = self.finished_at = self.exit_code = None

    @property
    def last_known(self) -> float:
        """When it ended; if its end was not observed, the last time at which it is known to have run."""
        if self.finished_at:
            return _known_time(self.finished_at) or 0.0
        ends = (hold.end or hold.start or hold.created for hold in self.holds.values())
        return max(self.seen, _known_time(self.submitted_at or "") or 0.0, *ends)

    def known_holds(self, visited: float) -> list[Hold]:
        """What its pods have held; those whose end was not observed, until the pods of the namespace or of the run were
        last read."""
        last = max(visited, self.seen)
        if self.has_ended:  # Later visits did not see its pods.
            last = min(last, self.last_known)
        return [
            hold if hold.end is not None else hold._replace(end=max(last, hold.start or hold.created), exact=False)
            for hold in self.holds.values()
        ]


# -- write


def job_keys(workload: Object, *, digest: str = "", manifest: Any = None) -> Keys:
    """What is submitted: a workload, with the manifest where a task has it, without its secrets."""
    metadata = workload["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    spec = workload["spec"]["template"]["spec"]
    data: dict[str, Any] = {
        "name": job_name_of(workload) or metadata["name"],
        "kind": labels.get(JOB_TYPE),
        "submitted_at": metadata["creationTimestamp"],
        "submitter": annotations.get(SUBMITTED_BY),
        "pool": labels.get(POOL) or DEFAULT_POOL,
        "priority": labels.get(PRIORITY),
        "sweep": labels.get(SWEEP),
        "gpu_type": (spec.get("nodeSelector") or {}).get(GPU_TYPE),
        "image": next((container.get("image") for container in spec.get("containers") or ()), None),
        "digest": digest or None,
        "manifest": manifest,
    }
    text = _compact_json(data)
    if len(text) > _LONGEST_MANIFEST:
        data |= {"manifest": None, "manifest_note": f"longer than {_LONGEST_MANIFEST // 1024} KiB, so it is not kept"}
        text = _bounded_json(data, _LONGEST_MANIFEST)
    return {f"{metadata['uid']}.job": text}


def good_keys(uid: str, known: Mapping[str, str], digest: str) -> Keys:
    """The manifest of before, of a workload that was ready with it, for a rollback. ``known`` is what is recorded.

    None that is recorded is replaced when it is what is submitted: a second rollback has nothing to do.
    """
    before, kept = (_read_bounded(known.get(f"{uid}.{part}", ""), part) for part in ("job", "good"))
    if not before.get("digest") or digest in (before["digest"], kept.get("digest")):
        return {}
    return {f"{uid}.good": _compact_json({name: before.get(name) for name in ("digest", "manifest", "manifest_note")})}


def live_keys(workload: Object, moment: datetime) -> Keys:
    """What a live workload says of its run, when its pods are read, for a run that an earlier version has submitted."""
    (text,) = job_keys(workload).values()
    data = {**json.loads(text), "seen": int(moment.timestamp())}
    return {f"{workload['metadata']['uid']}.was": _bounded_json(data, _LONGEST["was"])}


def _bounded_json(data: dict[str, Any], longest: int) -> str:
    """What can be read again: an image and an annotation, which accounts write as they like, may have any length."""
    names = sorted((name for name, value in data.items() if isinstance(value, str)), key=lambda name: len(data[name]))
    while len(text := _compact_json(data)) > longest and names:
        data = {**data, names.pop(): None}
    return text


def end_keys(uid: str, end: RunResult, *, started_at: str | None = None, exit_code: int | None = None) -> Keys:
    """How a run ended."""
    data = {"result": end.result, "finished_at": end.finished_at, "started_at": started_at, "exit_code": exit_code}
    return {f"{uid}.end": _compact_json(data)}


def gone_keys(uid: str, end: RunResult, moment: datetime) -> Keys:
    """How a run ended that was found to be gone: ``moment`` is when, since its end may not have been observed."""
    data = {"result": end.result, "finished_at": end.finished_at, "seen": int(moment.timestamp())}
    return {f"{uid}.end": _compact_json(data)}


def log_keys(uid: str, lines: Sequence[str]) -> Keys:
    """The last lines of a failure, from which secrets are masked."""
    kept = list(lines)
    while kept and len(_compact_json({"lines": kept})) > _LONGEST["log"]:
        kept = kept[1:]
    return {f"{uid}.log": _compact_json({"lines": kept})} if kept else {}


def pod_keys(uid: str, hold: Hold, part: str = "pod") -> Keys:
    """What a pod has held; nothing for one without accelerators."""
    if not hold.amounts:
        return {}
    data = {
        "name": hold.name,
        "created": int(hold.created),
        "start": None if hold.start is None else int(hold.start),
        "end": None if hold.end is None else int(hold.end),
        "holds": dict(hold.amounts),
        "node": hold.node,
        "preempted": hold.preempted or None,
        "exact": None if hold.exact else False,
    }
    return {f"{uid}.{part}.{hold.uid}": _compact_json(data)}


def visited_keys(moment: datetime) -> Keys:
    return {VISITED: time_as_text(moment)}


def end_of(workload: Object) -> RunResult | None:
    """How the run of a live workload ended; None while it runs, and always for what runs until it is deleted."""
    if workload["kind"] != "Job":
        return None
    found = run_result(workload)
    if found is None and status_of(workload) in ENDED:  # Its condition follows.
        return None
    return found


def exit_code_of(pods: Iterable[Object]) -> int | None:
    """The code of the container that failed last, else 0 if one has ended; None if no container has."""
    codes: list[tuple[str, int]] = []
    for pod in pods:
        for container in pod.get("status", {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if isinstance(ended.get("exitCode"), int):
                codes.append((str(ended.get("finishedAt") or ""), ended["exitCode"]))
    failed = [code for _moment, code in sorted(codes) if code]
    return failed[-1] if failed else (0 if codes else None)


def written_in_parts(keys: Mapping[str, str | None]) -> list[dict[str, str | None]]:
    """The keys in writes of at most LARGEST_WRITE, those to remove before those to add."""
    parts: list[dict[str, str | None]] = [{}]
    size = 0
    for key, text in sorted(keys.items(), key=lambda each: each[1] is not None):
        if parts[-1] and size + size_of({key: text}) > LARGEST_WRITE:
            parts.append({})
            size = 0
        parts[-1][key] = text
        size += size_of({key: text})
    return [part for part in parts if part]


def size_of(data: Mapping[str, str | None]) -> int:
    """The bytes of a ConfigMap's data, as the API server counts them, and 80 for each key in managedFields."""
    return sum(len(key) + len((text or "").encode(errors="replace")) + 80 for key, text in data.items())


def oldest_half(data: Mapping[str, str]) -> Keys:
    """What a full ConfigMap hands on to an older one: runs that have ended, those that began first, then others.

    A run stays together. The key of the last visit stays.
    """
    runs: dict[str, Keys] = {}
    for key, text in data.items():
        if key != VISITED:
            runs.setdefault(key.partition(".")[0], {})[key] = text
    ended_first = sorted(runs.items(), key=lambda run: (f"{run[0]}.end" not in run[1], _submitted(run[1], run[0])))
    moved: Keys = {}
    half, size = size_of(data) / 2, 0
    for _uid, keys in ended_first:
        size += size_of(keys)
        if moved and size > half:
            break
        moved |= keys
    return moved


def _submitted(keys: Mapping[str, str], uid: str) -> str:
    return str(_read_bounded(keys.get(f"{uid}.job", ""), "job").get("submitted_at") or "")


# -- read


def read_limits(config_map: Object | None) -> HistoryLimits:
    """The limits that an administrator has set for a namespace, else the default ones."""
    text = ((config_map or {}).get("metadata", {}).get("annotations") or {}).get(HISTORY_LIMITS, "")
    found = {name: value for name, value in _read_bounded(text, "end").items() if name in HistoryLimits._fields}
    if all(type_is_number(value) and 0 < value <= MOST_KEPT for value in found.values()):
        return HistoryLimits(**found)
    return HistoryLimits()


def slim_history(config_map: Object, *, texts: bool = True) -> dict[str, Any]:
    """What is read of a ConfigMap of a history. Without ``texts``: not the logs, nor what follows from a manifest on,
    the last field. They are most of it. A value that is longer than any is emptied, so that it counts as malformed.
    """
    metadata = config_map["metadata"]
    limits = (metadata.get("annotations") or {}).get(HISTORY_LIMITS, "")[:100]
    data: Keys = {}
    for key, text in (config_map.get("data") or {}).items():
        if key == VISITED:
            data[key] = text[:100]
        elif found := _KEY.fullmatch(key):
            part = found["part"]
            text = text if len(text) <= _LONGEST[part] else ""
            if not texts and part in ("job", "good") and text.endswith("}"):
                # In JSON, a quote after a comma begins a key: none within a string looks like this.
                head, key_of_manifest, _rest = text.partition(',"manifest":')
                text = f"{head}}}" if key_of_manifest else text
            if part != "log" or texts:
                data[key] = text
    return {
        "kind": config_map["kind"],
        "metadata": {
            **{name: metadata[name] for name in ("name", "namespace", "uid", "creationTimestamp") if name in metadata},
            "annotations": {HISTORY_LIMITS: limits},
        },
        "data": data,
    }


def type_is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read_history(
    config_maps: Iterable[Object], on_malformed: Callable[[Object, str], object] = lambda _config_map, _key: None
) -> dict[str, PastRun]:
    """The runs of a namespace by uid. Any account that may write a ConfigMap there can write anything: what is not like
    a part of a run is left out, and ``on_malformed`` gets its ConfigMap and key."""
    runs: dict[str, PastRun] = {}
    # What the newest one says of an end is what counts.
    for config_map in sorted(config_maps, key=lambda each: each["metadata"].get("name") == HISTORY):
        namespace = config_map["metadata"]["namespace"]
        for key, text in (config_map.get("data") or {}).items():
            found = _KEY.fullmatch(key)
            if found is None:
                continue
            data = _read_bounded(text, found["part"])
            is_hold = found["part"] in ("pod", "back")
            hold = _hold(found["pod"] or "", data) if data and is_hold else None
            lines = data.get("lines")
            if not data or (is_hold and hold is None) or not isinstance(lines, (list, type(None))):
                on_malformed(config_map, key)
                continue
            run = runs.get(found["uid"]) or runs.setdefault(found["uid"], PastRun(namespace, found["uid"]))
            if hold is not None:
                known = run.holds if found["part"] == "pod" else run.given_back
                known[hold.uid] = _better_hold(known.get(hold.uid), hold)
            elif found["part"] == "good":
                run.good = data
            elif found["part"] == "log":
                run.log = [line for line in lines or () if isinstance(line, str)]
            else:
                _fill_run(run, data, only_missing=found["part"] == "was")
    return {uid: run for uid, run in runs.items() if run.name}


def last_visit(config_maps: Iterable[Object]) -> float | None:
    """Until when all pods of the namespace were seen."""
    found = [(each.get("data") or {}).get(VISITED) for each in config_maps]
    moments = [moment for text in found if text and (moment := _known_time(text)) is not None]
    return max(moments, default=None)


def run_of_entry(namespace: str, name: str, entry: Entry) -> PastRun:
    """What the ledger alone knows of the last run of a training: an earlier version has submitted it."""
    return PastRun(
        namespace,
        entry.uid,
        name,
        "training",
        entry.submitted_at,
        digest=entry.manifest or None,
        result=entry.result,
        finished_at=entry.finished_at if entry.result else None,
    )


_TIMES = ("submitted_at", "started_at", "finished_at")
_TEXTS = {
    *("name", "kind", "submitter", "pool", "priority", "sweep", "gpu_type", "image", "digest", "manifest_note"),
    *("result", "reason", *_TIMES),
}


def _fill_run(run: PastRun, data: Mapping[str, Any], *, only_missing: bool) -> None:
    for name in _TEXTS & data.keys():
        value = data[name]
        if only_missing and getattr(run, name):
            continue
        if isinstance(value, str) and not (name in _TIMES and _known_time(value) is None):
            setattr(run, name, value)
    if "seen" in data:
        run.seen = max(run.seen, float(data["seen"]))
    if run.result not in (None, *RESULTS):
        run.result = UNKNOWN
    if data.get("exit_code") is not None:
        run.exit_code = data["exit_code"]
    if data.get("manifest") is not None:
        run.manifest = data["manifest"]


def _hold(uid: str, data: Mapping[str, Any]) -> Hold | None:
    amounts, times = data.get("holds"), [data.get(name) for name in ("created", "start", "end")]
    numbers = all(value is None or (type_is_number(value) and 0 <= value < 2**33) for value in times)
    created, start, end = times
    if not isinstance(amounts, dict) or not numbers or created is None:
        return None
    if not all(
        isinstance(name, str) and type_is_number(value) and 0 < value < 2**31 for name, value in amounts.items()
    ):
        return None
    return Hold(
        uid,
        str(data.get("name") or ""),
        float(created),
        None if start is None else float(start),
        None if end is None else float(end),
        amounts,
        data["node"] if isinstance(data.get("node"), str) else None,
        data.get("preempted") is True,
        data.get("exact") is not False,
    )


def _better_hold(one: Hold | None, other: Hold) -> Hold:
    """The one that knows the end, and knows it exactly; else the later of two ends, each of which is a least one."""
    if one is None:
        return other
    return max(one, other, key=lambda hold: (hold.end is not None, hold.exact, hold.start is not None, hold.end or 0))


def _known_time(text: str) -> float | None:
    try:
        return read_time(text).timestamp()
    except (OverflowError, ValueError):
        return None


def _compact_json(data: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in data.items() if value is not None}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def _read_bounded(text: str, part: str) -> dict[str, Any]:
    found = read_object(text, _LONGEST[part])
    return found if _is_plausible(found, text) else {}


def _is_plausible(data: Mapping[str, Any], text: str) -> bool:
    """Whether the numbers are moments and exit codes, and the manifest is no deeper than a manifest can be."""
    seen, code = data.get("seen", 0), data.get("exit_code")
    numbers = (
        type_is_number(seen) and 0 <= seen < 2**33 and (code is None or (type_is_number(code) and abs(code) < 2**31))
    )
    # Most have too few brackets to be deep.
    is_short = "manifest" not in data or text.count("{") + text.count("[") <= MAX_DEPTH
    return numbers and (is_short or _is_shallow(data["manifest"]))


def _is_shallow(data: Any) -> bool:
    level = [data]
    for _depth in range(MAX_DEPTH):
        nested = [each for each in level if isinstance(each, (dict, list))]
        level = [item for each in nested for item in (each.values() if isinstance(each, dict) else each)]
        if not level:
            return True
    return False
