# SPDX-License-Identifier: BSD-2-Clause
"""Which source declares an object: recorded in an annotation, and compared before another one changes or deletes it.

As Argo CD's tracking annotation, and the ``part-of`` label of kubectl's apply sets (KEP-3659): what is not declared any
more is only known of objects that carry the name of what declared them. An annotation, because the URL of a repository
is no label value. It is on the objects themselves, never in a pod template: recording it must not restart pods. Pure.

Who may write an object can forge its annotations. So it only counts where a run of gpuctl holds the field, it is never
enough to delete anything (the label of managed objects, the kind and the name have to fit too), and it speaks for no
other object.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .engine.paths import ABSENT, Change, Path, value_at, with_value_at
from .engine.plan import Action, Plan, Step
from .labels import FIELD_MANAGER, SOURCE
from .options import DeclaringOptions
from .task import TaskFailed

Object = dict[str, Any]

PATH: Path = ("metadata", "annotations", SOURCE)
_ELSEWHERE = "declared by"
_NAME = re.compile(r"\w[\w./:@~+-]{0,252}")


def unusable_source(name: str | None) -> str | None:
    """What is wrong with the name of a source; None for one that can be used."""
    if not name or _NAME.fullmatch(name):
        return None
    return f"O(source): invalid name: {name!r}. Use letters, digits and ./:@~+-_, at most 253 characters."


def require_usable(options: DeclaringOptions) -> None:
    """Raises TaskFailed."""
    for name in (options.source, *(options.adopt or ())):
        if problem := unusable_source(name):
            raise TaskFailed(problem)


def limited_problem(source: str | None) -> str:
    """Why an account whose namespaces are limited may not change what belongs to the whole cluster."""
    own = f"it is not declared by {source}" if source else "it may be declared by others"
    return f"{own}, and O(allowed_namespaces) limits this task to its own. Nothing was changed of it."


def recorded_source(obj: Mapping[str, Any]) -> str:
    """The source that a run of gpuctl has recorded on an object; empty if there is none, or others have written it."""
    name = value_at(obj, PATH)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return ""
    return name if any(_holds_source(entry) for entry in obj["metadata"].get("managedFields") or ()) else ""


def _holds_source(entry: Mapping[str, Any]) -> bool:
    fields: Any = entry.get("fieldsV1")
    for step in PATH:
        fields = fields.get(f"f:{step}") if isinstance(fields, Mapping) else None
    return entry.get("manager") == FIELD_MANAGER and fields is not None


def with_source(obj: Mapping[str, Any], source: str) -> Object:
    return dict(with_value_at(obj, PATH, source))


def keep_source(desired: Object, live: Mapping[str, Any] | None) -> Object:
    """The desired object with what is recorded on the live one: a task without a source leaves it as it is."""
    source = recorded_source(live) if live else ""
    return with_source(desired, source) if source else desired


def own_sources(options: DeclaringOptions) -> set[str]:
    """The source of a task, and those that it takes over."""
    return {options.source or "", *(options.adopt or ())}


def source_problem(live: Iterable[Mapping[str, Any]], options: DeclaringOptions) -> str | None:
    """Why the source of a task may not declare what these live objects are."""
    return declared_elsewhere((recorded_source(obj) for obj in live), options)


def declared_elsewhere(sources: Iterable[str], options: DeclaringOptions) -> str | None:
    """The same for the sources that are recorded."""
    if not options.source:
        return None
    own = {"", *own_sources(options)}
    for other in sources:
        if other not in own:
            return (
                f"{_ELSEWHERE} {other}, and this is {options.source}. To declare it here from now on, add "
                f"O(adopt={other}). Otherwise remove it from {options.source}."
            )
    return None


def once_each(blockers: Iterable[str]) -> list[str]:
    """The blockers, with what another source declares together: it is often all of a directory."""
    groups: dict[str, list[str]] = {}
    for text in blockers:
        what, found, rest = text.partition(f": {_ELSEWHERE}")
        groups.setdefault(f"{found}{rest}" if found else text, []).append(what)
    return [f"{', '.join(names)}{rest}" if rest.startswith(": ") else rest for rest, names in groups.items()]


_IN_PLACE = (Action.UPDATE, Action.UNCHANGED)


def record_source(plan: Plan, source: str | None) -> Plan:
    """The plan that also records the source on the objects that it declares."""
    return plan.with_steps(record_source_in(step, source) for step in plan.steps)


def record_source_in(step: Step, source: str | None) -> Step:
    if not source or not step.desired or step.action not in (Action.CREATE, Action.RECREATE, *_IN_PLACE):
        return step
    before = value_at(step.live, PATH)
    replacement = with_source(step.replacement, source) if step.replacement else {}
    step = replace(step, desired=with_source(step.desired, source), replacement=replacement)
    if before == source or step.action not in _IN_PLACE:
        return step
    others = (change for change in step.changes if change.path != PATH)
    found = (*others, Change(PATH, before, source))
    return replace(step, action=Action.ANNOTATE if only_marks(found) else Action.UPDATE, changes=found)


def only_marks(changes: Collection[Change]) -> bool:
    """Whether the changes only record a source where there was none. That is no difference from a manifest."""
    return len(changes) == 1 and all(change.path == PATH and change.before is ABSENT for change in changes)


def of_source(objects: Iterable[Object], source: str) -> list[Object]:
    """Those of the objects that the source declares."""
    return [obj for obj in objects if source and recorded_source(obj) == source]
