# SPDX-License-Identifier: BSD-2-Clause
"""A plan that was saved, to be applied later: what it was made from, and whether that still holds.

A step is identified by what it does, to which object, and from which values. What other clients write meanwhile and no
step depends on, such as a status, does not invalidate the plan.

A plan may have been applied before, as a whole or in part. A step that is no longer needed is done: its object is what
the manifests want. Of a job that is recreated, more steps differ: between deletion and creation its workload is gone,
and its dependents then have an owner with another uid. So the plan also records what such steps leave (``targets``).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from ...engine.paths import ABSENT, Change
from ...engine.plan import WORKLOAD_KINDS, Action, Step
from ...labels import BUILT_BY, SUBMITTED_BY
from ...manifest.problems import abridged
from .plan_effects import PlanEffect

FORMAT = 1

# A plan may be applied by another user than the one who made it.
_OF_THE_RUN = (SUBMITTED_BY, BUILT_BY)


def manifests_digest(files: Iterable[tuple[str, str]]) -> str:
    """The digest of files, given by their paths and texts."""
    return _digest(sorted(files))


def step_digests(effects: Iterable[PlanEffect]) -> dict[str, str]:
    """A digest of each change, by what it is done to. Contents only show as digests: they may be secret."""
    found: dict[str, list[str]] = {}
    for effect in effects:
        plan = effect.manifest.plan
        for step in (*plan.prerequisites, *plan.steps):
            if step.action is not Action.UNCHANGED:
                found.setdefault(_object_title(step), []).append(_digest(_decision(step)))
        if effect.hours_lost:
            found.setdefault(_job_title(effect), []).append("loses work")
    return {title: _digest(digests) for title, digests in sorted(found.items())}


def step_targets(effects: Iterable[PlanEffect]) -> dict[str, dict[str, Any]]:
    """What the steps of a job leave, by the title of the workload and of its dependents; and which are bindings."""
    found: dict[str, dict[str, Any]] = {}
    for effect in effects:
        steps = effect.manifest.plan.steps
        if effect.manifest.kind == "access":
            found |= {_object_title(step): {"access": True} for step in steps}
        if not steps or steps[0].kind not in WORKLOAD_KINDS:
            continue
        workload, *others = steps
        found[_object_title(workload)] = {
            "job": _job_title(effect),
            "namespace": effect.manifest.namespace,
            "leaves": _digest(_lasting_part(workload.desired)),
            "replaces": workload.live["metadata"]["uid"] if workload.replaces else None,
            "creates": workload.action is Action.CREATE,
        }
        for step in others:
            if step.owned:
                found[_object_title(step)] = {
                    "workload": _object_title(workload),
                    "leaves": _digest(_lasting_part(step.desired)),
                }
    return found


def _object_title(step: Step) -> str:
    metadata = step.identity["metadata"]
    place = f"{metadata['namespace']}/{step.name}" if metadata.get("namespace") else step.name
    return f"{step.kind} {place}"


def _job_title(effect: PlanEffect) -> str:
    return f"{effect.manifest.kind} {effect.manifest.namespace}/{effect.manifest.name}"


def _is_of_job(title: str) -> bool:
    """Whether this is about a job that loses work: kinds of manifests are in lower case, those of objects are not."""
    return title[:1].islower()


def _decision(step: Step) -> dict[str, Any]:
    """What a step does, and to what: the uid tells an object from one that was recreated under its name."""
    changes = [
        (str(change), _data(change.before), _data(change.after)) for change in step.changes if not _is_of_run(change)
    ]
    return {
        "action": str(step.action),
        "live": step.live.get("metadata", {}).get("uid"),
        "changes": sorted(changes, key=str),
        "desired": _without_run(step.desired) if not step.live or step.replaces else None,
    }


def _is_of_run(change: Change) -> bool:
    return change.path[-1] in _OF_THE_RUN


def _without_run(obj: Any) -> Any:
    if isinstance(obj, Mapping):
        return {key: _without_run(value) for key, value in obj.items() if key not in _OF_THE_RUN}
    return [_without_run(value) for value in obj] if isinstance(obj, (list, tuple)) else obj


def _lasting_part(obj: Mapping[str, Any]) -> Any:
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name != "ownerReferences"}
    return _without_run({**obj, "metadata": metadata})


def _data(value: Any) -> Any:
    return {"absent": True} if value is ABSENT else {"value": value}


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


PLAN_KEY = "GPUCTL_PLAN_KEY"
_SHORTEST_KEY = 16  # characters
_NOT_SIGNED = ("signature", "summary")  # The second one is what a workflow adds.


def key_problem(key: str) -> str | None:
    """Why a key is none to sign with, as a message."""
    if key and len(key) < _SHORTEST_KEY:
        return f"{PLAN_KEY}: too short. Use at least {_SHORTEST_KEY} random characters, such as openssl rand -hex 32."
    return None


def signature(plan: Mapping[str, Any], key: str) -> str:
    """The signature (HMAC-SHA-256) over all that decides what the plan does: only an owner of the key can write it."""
    signed = {name: value for name, value in plan.items() if name not in _NOT_SIGNED}
    text = json.dumps(signed, sort_keys=True, default=str)
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def signature_problem(saved: Mapping[str, Any], key: str) -> str | None:
    """The message if a saved plan was not signed with the key. Without a key, all are accepted."""
    if not key:
        return None
    given = saved.get("signature")
    if not isinstance(given, str):
        return f"O(plan): not signed, although {PLAN_KEY} is set. Make the plan again where the same key is set."
    if not hmac.compare_digest(given.encode(), signature(saved, key).encode()):
        return f"O(plan): changed since it was made, or signed with another {PLAN_KEY}. Make the plan again."
    return None


WasReplaced = Callable[[str, str], bool]
"""Whether a task was about to replace the workload of a namespace with that uid."""


def steps_done(saved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[list[str], int]:
    """The steps of a saved plan that are done, and how many it has."""
    planned = [title for title in saved["steps"] if not _is_of_job(title)]
    return [title for title in planned if title not in now["steps"]], len(planned)


def differences(saved: Mapping[str, Any], now: Mapping[str, Any], was_replaced: WasReplaced) -> Iterator[str]:
    """Why a saved plan is neither the one that would be made now, nor what is left of it, as sentences."""
    for name in sorted({*saved["options"], *now["options"]}):
        then, given = saved["options"].get(name), now["options"].get(name)
        if then != given and name not in _PATHS:
            yield f"The plan was made with O({name}) {_quoted_value(then)}, and this task has {_quoted_value(given)}."
    if saved["cluster"] and now["cluster"] and saved["cluster"] != now["cluster"]:
        yield "The plan is for another cluster."
        return
    if saved["manifests"] != now["manifests"]:
        yield "The manifests are no longer those that the plan was made from."
    steps, planned = now["steps"], saved["steps"]
    more = [title for title in steps if title not in planned]
    changed = [title for title in planned if title in steps and planned[title] != steps[title]]
    begun = {title for title in changed if _is_between(title, saved, now, was_replaced)}
    begun |= {title for title in planned if title not in steps}
    recreated = {target.get("job") for title, target in _targets(saved).items() if title in begun}
    gone = [title for title in planned if _is_of_job(title) and title not in steps and title not in recreated]
    for groups, text in (
        (gone, "no running work would be stopped any more"),
        ([title for title in more if not _is_of_job(title)], "a change is needed now as well"),
        ([title for title in more if _is_of_job(title)], "running work would be stopped now"),
        (
            [title for title in changed if title not in begun and not _has_new_owner(title, saved, now, begun)],
            "missing, another one, or with other values than the plan was made for",
        ),
    ):
        if groups:
            yield f"{abridged(groups, _MOST_NAMED)}: {text}."


def _is_between(title: str, saved: Mapping[str, Any], now: Mapping[str, Any], was_replaced: WasReplaced) -> bool:
    """Whether a workload was deleted by a task that was about to create it again."""
    planned, left = _targets(saved).get(title, {}), _targets(now).get(title, {})
    if not planned.get("replaces") or not left.get("creates") or planned["leaves"] != left["leaves"]:
        return False
    return was_replaced(str(planned.get("namespace")), str(planned["replaces"]))


def _has_new_owner(title: str, saved: Mapping[str, Any], now: Mapping[str, Any], begun: Collection[str]) -> bool:
    """Whether only its owner is another object, which the plan has replaced or created."""
    planned, left = _targets(saved).get(title, {}), _targets(now).get(title, {})
    return planned.get("workload") in begun and planned.get("leaves") == left.get("leaves")


def _targets(plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return plan.get("targets") or {}


# A checkout may lie elsewhere, and the digest of the manifests is about what is in it.
_PATHS = ("src", "policies")
_MOST_NAMED = 5


def _quoted_value(value: Any) -> str:
    if value is None:
        return "nothing"
    return json.dumps(value) if not isinstance(value, str) else value or "nothing"


def problem_of(saved: Any) -> str | None:
    """Why data is no saved plan, as a message; None if it is one."""
    if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
        return "O(plan): no plan that this version of the collection can apply. Make it again with M(gpuctl_plan_info)."
    shapes = {"options": Mapping, "steps": Mapping, "manifests": str, "cluster": str, "made_at": str}
    damaged = [name for name, shape in shapes.items() if not isinstance(saved.get(name), shape)]
    targets = saved.get("targets", {})
    if not isinstance(targets, Mapping) or not all(isinstance(each, Mapping) for each in targets.values()):
        damaged.append("targets")
    if damaged:
        return f"O(plan): {damaged[0]} is missing or damaged. Make the plan again with M(gpuctl_plan_info)."
    return None
