# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_drift: give single fields the values that the directory declares, and no other field."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from ...engine.changes import map_diff
from ...engine.fields import applied_by
from ...engine.guarded_write import guarded_apply, guarded_patch
from ...engine.node_writer import LabelChange
from ...engine.paths import ABSENT, Change, Path, value_at, with_value_at
from ...engine.plan import Action, Step
from ...kube.errors import ApiError, KubeError
from ...labels import FIELD_MANAGER
from ...manifest.problems import number_of
from ...options import option
from ...pools.guarded import apply_under_lease, permission_hint
from ...pools.lease import Fence, PoolLease, Versions
from ...pools.pool import select_pools
from ...pools.pool_options import PoolOptions
from ...pools.pool_plan import plan_pools
from ...pools.pool_writer import PoolWriter
from ...task import ModuleSpec, Task, TaskFailed
from .drift import Drift, DriftOptions, find_drift
from .drift_rows import Row, field_id

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RestoreOptions(DriftOptions):
    restore: list[str] = option("list", elements="str", required=True)


def run(task: Task[RestoreOptions]) -> dict[str, Any]:
    """Restore all fields that can be restored. Raises TaskFailed with the result if one cannot."""
    wanted = list(dict.fromkeys(task.options.restore))
    if unfit := [text for text in wanted if ":" not in text]:
        raise TaskFailed.before_any_write(
            f"O(restore): {text} names no field. Use what M(gpuctl_drift_info) lists, such as "
            f"Deployment/team-a/chat:spec.replicas."
            for text in unfit
        )
    drift = find_drift(task)
    rows = {row["id"]: row for row in drift.rows if row["field"] is not None and row["id"] in wanted}
    for each in wanted:
        if each not in rows:
            task.warn(f"{each} is as declared, or no field of an object of the directory. It stays as it is.")
    errors = _restore(task, drift, rows.keys())
    results = [
        {**rows[each], "action": "unchanged" if error else "update", "error": error or None}
        for each in rows
        for error in [errors.get(each, "")]
    ]
    done = [row for row in results if not row["error"]]
    result = {
        "changed": bool(done),
        "results": results,
        "diff": task.diff(lambda: map(_diff, done)),
    }
    if errors:
        raise TaskFailed("\n".join(dict.fromkeys(errors.values())), **result)
    return {**result, "msg": f"{number_of(len(done), 'field')} restored"}


MODULE = ModuleSpec(RestoreOptions, run)


def _diff(row: Row) -> dict[str, str]:
    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    return map_diff(row["id"], {row["field"]: text(row["live"])}, {row["field"]: text(row["declared"])})


def _restore(task: Task[RestoreOptions], drift: Drift, rows: Set[str]) -> dict[str, str]:
    """The errors, by the id of the field."""
    errors: dict[str, str] = {}
    of_pools = _PoolFields.of(drift, rows)
    if of_pools.changed:
        try:
            _write_pool_fields(task, of_pools)
        except (KubeError, TaskFailed) as problem:
            errors |= dict.fromkeys(of_pools.ids, str(problem))
    left = rows - of_pools.ids
    for place in dict.fromkeys((*drift.steps, *drift.added)):
        step = drift.steps.get(place)
        live, paths = drift.added.get(place, ({}, []))
        declared = list(_changes_of_paths(step, left)) if step else []
        added = [path for path in paths if field_id(live, path) in left]
        try:
            if step and declared:
                live = _declare(task, step, declared)
            _remove(task, live, added)
        except KubeError as problem:
            message = f"{place}: {_restore_error(problem)}"
            for path in (*added, *(change.path for change in declared)):
                errors[f"{place}:{Change(path, None, None)}"] = message
    return errors


def _restore_error(problem: KubeError) -> str:
    if isinstance(problem, ApiError) and problem.status == 422:
        return f"{problem}. The field is immutable. Apply the directory to restore it."
    return str(problem)


def _declare(task: Task[Any], step: Step, declared: Sequence[Change]) -> Object:
    """The live object with these fields as declared; conflicts are forced, and can only be about them.

    Everything else that we hold is applied as it is: it stays ours, with the value that it has.
    """
    held = applied_by(FIELD_MANAGER, step.live)
    if not step.desired or held.keys() == {"apiVersion", "kind", "metadata"}:  # Written by patches: labels of nodes.
        patched = Step(Action.UPDATE, {}, step.live, tuple(declared))
        return guarded_patch(task.client(), patched, dry_run=task.check_mode)
    # Server-side apply removes a field that its manager applied before and now leaves out. So all that we hold is sent.
    desired = reduce(lambda obj, change: with_value_at(obj, change.path, change.after), declared, held)
    return guarded_apply(task.client(), desired, step.live, force=True, dry_run=task.check_mode)


def _remove(task: Task[Any], live: Object, paths: Sequence[Path]) -> None:
    """Remove what others have added. A merge patch has no entries of lists, so it has what is left of a list."""
    if not paths:
        return
    after = reduce(lambda obj, path: with_value_at(obj, path, ABSENT), paths, live)
    # RFC 7386: a merge patch replaces a list as a whole. guarded_patch sends the resourceVersion with it, so that a
    # list that has changed meanwhile is a conflict and loses no entry.
    tops = dict.fromkeys(_above_lists(path) for path in paths)
    changes = tuple(Change(path, value_at(live, path), value_at(after, path)) for path in tops)
    guarded_patch(task.client(), Step(Action.UPDATE, {}, live, changes), dry_run=task.check_mode)


def _above_lists(path: Path) -> Path:
    return next((path[:number] for number, step in enumerate(path) if isinstance(step, tuple)), path)


@dataclass(frozen=True)
class _PoolFields:
    """A GuardedPlan: the labels of nodes that pools declare, and the fields of declarations."""

    label_changes: tuple[LabelChange, ...]
    declarations: tuple[Step, ...]
    planned_on: Versions

    @classmethod
    def of(cls, drift: Drift, wanted: Collection[str]) -> _PoolFields:
        pools = drift.directory.pools
        return cls((), (), {}) if pools is None else _pool_fields(pools, wanted)

    @property
    def changed(self) -> bool:
        return bool(self.label_changes or self.declarations)

    @property
    def decisions(self) -> object:
        return [(each.node, each.labels) for each in self.label_changes], [each.changes for each in self.declarations]

    @property
    def ids(self) -> set[str]:
        labels = (_label_id(each, key) for each in self.label_changes for key in each.labels)
        return {*labels, *(field_id(each.live, change.path) for each in self.declarations for change in each.changes)}


def _label_id(change: LabelChange, key: str) -> str:
    return field_id({"kind": "Node", "metadata": change.metadata}, ("metadata", "labels", key))


def _pool_fields(pools: Any, wanted: Collection[str]) -> _PoolFields:
    labels = (
        replace(each, labels={key: value for key, value in each.labels.items() if _label_id(each, key) in wanted})
        for each in pools.label_changes
    )
    steps = (
        Step(Action.UPDATE, {}, step.live, tuple(_changes_of_paths(step, wanted)))
        for plan in pools.config_maps
        for step in plan.steps
        if step.action is Action.UPDATE
    )
    return _PoolFields(
        tuple(each for each in labels if each.labels), tuple(each for each in steps if each.changes), pools.planned_on
    )


def _changes_of_paths(step: Step, wanted: Collection[str]) -> Iterator[Change]:
    return (change for change in step.changes if field_id(step.live, change.path) in wanted)


def _write_pool_fields(task: Task[RestoreOptions], first: _PoolFields) -> None:
    client = task.client()

    def write(fields: _PoolFields, fence: Fence) -> None:
        writer = PoolWriter(client, fence, task.check_mode, task.progress)
        if failures := writer.label(fields.label_changes).failures:
            messages = dict.fromkeys(failure.message for failure in failures)
            raise writer.roll_back(TaskFailed("\n".join(messages)))
        for step in fields.declarations:
            fence.check()
            guarded_patch(client, step, dry_run=task.check_mode)

    def plan() -> _PoolFields:
        requests = select_pools(PoolOptions(src=list(task.options.src), allow_empty=True))
        return _pool_fields(plan_pools(client, requests, force=True, keep_going=True), first.ids)

    if task.check_mode:
        write(first, Fence())
        return
    with permission_hint():
        apply_under_lease(PoolLease(client, progress=task.progress), plan, write, create_lease=True, warn=task.warn)
