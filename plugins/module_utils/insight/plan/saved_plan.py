# SPDX-License-Identifier: BSD-2-Clause
"""A plan that was saved, to be applied later: what it was made from, and whether that still holds.

A step is known by what it does, to which object, and from which values. What others write meanwhile that no step
depends on, such as a status, leaves the plan as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...engine.paths import ABSENT, Change
from ...engine.plan import Action, Step
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
                found.setdefault(_title(step), []).append(_digest(_decision(step)))
        if effect.hours_lost:
            found.setdefault(_job_title(effect), []).append("loses work")
    return {title: _digest(digests) for title, digests in sorted(found.items())}


def _title(step: Step) -> str:
    metadata = step.identity["metadata"]
    place = f"{metadata['namespace']}/{step.name}" if metadata.get("namespace") else step.name
    return f"{step.kind} {place}"


def _job_title(effect: PlanEffect) -> str:
    return f"{effect.manifest.kind} {effect.manifest.namespace}/{effect.manifest.name}"


def _is_of_job(title: str) -> bool:
    """Whether this is about a job that loses work: kinds of manifests are in lower case, those of objects are not."""
    return title[:1].islower()


def _decision(step: Step) -> dict[str, Any]:
    changes = [
        (str(change), _value(change.before), _value(change.after)) for change in step.changes if not _is_of_run(change)
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


def _value(value: Any) -> Any:
    return {"absent": True} if value is ABSENT else {"value": value}


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Why a saved plan is not the one that would be made now, as sentences."""
    for name in sorted({*saved["options"], *now["options"]}):
        then, given = saved["options"].get(name), now["options"].get(name)
        if then != given and name not in _PATHS:
            yield f"The plan was made with O({name}) {_shown(then)}, and this task has {_shown(given)}."
    if saved["cluster"] and now["cluster"] and saved["cluster"] != now["cluster"]:
        yield "The plan is for another cluster."
        return
    if saved["manifests"] != now["manifests"]:
        yield "The manifests are no longer those that the plan was made from."
    steps, planned = now["steps"], saved["steps"]
    gone = [title for title in planned if title not in steps]
    more = [title for title in steps if title not in planned]
    for groups, text in (
        ([title for title in gone if not _is_of_job(title)], "no change is needed any more"),
        ([title for title in gone if _is_of_job(title)], "no running work would be stopped any more"),
        ([title for title in more if not _is_of_job(title)], "a change is needed now as well"),
        ([title for title in more if _is_of_job(title)], "running work would be stopped now"),
        (
            [title for title in planned if title in steps and planned[title] != steps[title]],
            "missing, another one, or with other values than the plan was made for",
        ),
    ):
        if groups:
            yield f"{abridged(groups, _SHOWN)}: {text}."


# A checkout may lie elsewhere, and the digest of the manifests is about what is in it.
_PATHS = ("src", "policies")
_SHOWN = 5


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return json.dumps(value) if not isinstance(value, str) else value or "nothing"


def problem_of(saved: Any) -> str | None:
    """Why data is no saved plan, as a message; None if it is one."""
    if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
        return "O(plan): no plan that this version of the collection can apply. Make it again with M(gpuctl_plan_info)."
    shapes = {"options": Mapping, "steps": Mapping, "manifests": str, "cluster": str, "made_at": str}
    for name, shape in shapes.items():
        if not isinstance(saved.get(name), shape):
            return f"O(plan): {name} is missing or damaged. Make the plan again with M(gpuctl_plan_info)."
    return None
