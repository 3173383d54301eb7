# SPDX-License-Identifier: BSD-2-Clause
"""Write the ConfigMaps of pools and the labels of nodes, and undo that after a failure.

Every write passes the fence, and is guarded by the version of the object that was planned on. What a run has written
before another one took over its Lease, that one has read, and has built upon: it stays. What arrived later is undone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..cluster.pool_declarations import HARDWARE, QUEUE, Declaration, declarations_in
from ..engine.node_writer import LabelChange, NodeWriter, WriteResult
from ..engine.plan import Action, Plan, Step
from ..kube.client import Client
from ..kube.errors import ApiError, ConcurrentChange, KubeError
from ..kube.resources import CONFIG_MAP, NODE
from ..labels import DESCRIPTION, SOURCE, SYSTEM_NAMESPACE, pool_config_map_name
from ..manifest.problems import abridged
from ..reporter import Report, silent
from ..task import TaskFailed
from .declaration import plan_config_maps
from .guarded import apply_under_lease
from .lease import Fence, LeaseLost, PoolLease, Versions, version_of

_ATTEMPTS = 3
_MOST_NAMES = 10

_ConfigMap = dict[str, Any]


@dataclass
class PoolWriter:
    """Writes, and remembers what it has written or may have written."""

    client: Client
    fence: Fence = field(default_factory=Fence)
    check_mode: bool = False
    progress: Report = silent
    _declared: list[_Declared] = field(default_factory=list)
    _labelled: list[LabelChange] = field(default_factory=list)

    @property
    def has_written(self) -> bool:
        """Whether anything was written, or may have been."""
        return bool(self._declared or self._labelled)

    def declare(self, plan: Plan) -> None:
        """Write the ConfigMap of a pool. Raises KubeError."""
        (step,) = plan.steps
        try:
            version = _ConfigMapWriter(self.client, self.fence, self.check_mode).write(step)
        except KubeError as error:
            if error.may_be_written:
                self._declared.append(_Declared(plan))
            raise
        self._declared.append(_Declared(plan, version))

    def label(self, changes: Iterable[LabelChange], *, keep_going: bool = False) -> WriteResult:
        result = self._node_writer(self.fence).write(changes, keep_going=keep_going)
        self._labelled += [*result.done, *(failure.unknown for failure in result.failures if failure.unknown)]
        return result

    def require_lease(self) -> None:
        """Raise LeaseLost if the Lease was lost: another run may not have seen the last writes."""
        if lost := self.fence.loss():
            raise lost  # pylint: disable=raising-bad-type

    def roll_back(self, problem: KubeError | TaskFailed) -> TaskFailed:
        """Undo what was written, and return the error to raise, which says what is left."""
        result = problem.result if isinstance(problem, TaskFailed) else {}
        lost = problem if isinstance(problem, LeaseLost) else self.fence.loss()
        if lost:
            return self._after_loss(lost, result)
        left = self._undo(self.fence, self._declared, self._labelled)
        end = f"Not rolled back: {'; '.join(left)}" if left else "Nothing was changed."
        return TaskFailed(f"{problem}\n{end}", **{**result, "changed": bool(left)})

    def _after_loss(self, lost: LeaseLost, result: Mapping[str, Any]) -> TaskFailed:
        unseen: list[_Unseen] = []

        def find(lease: PoolLease) -> _Unseen:
            unseen.append(self._unseen(lease.planned_on))
            return unseen[-1]

        written = _written_text(self._declared, self._labelled)
        lines = [str(lost), f"This run had written {written or 'nothing'}."]
        try:
            lease = PoolLease(self.client)
            left = apply_under_lease(
                lease,
                lambda: find(lease),
                lambda plan, fence: self._undo(fence, plan.declarations, plan.label_changes),
                create_lease=False,
                warn=lines.append,
            )
        except (KubeError, TaskFailed) as error:
            left = [str(error)]
        undone = _written_text(unseen[-1].declarations, unseen[-1].label_changes) if unseen else ""
        if left:
            lines.append(f"Not rolled back: {'; '.join(left)}")
        elif undone:
            lines.append(f"Rolled back, because it came too late for the other run: {undone}.")
        rest = bool(left) or written != undone
        check = "Check the pools with M(gpuctl_pool_info), and run" if rest else "Run"
        lines.append(f"{check} the task again.")
        return TaskFailed("\n".join(lines), **{**result, "changed": rest})

    def _unseen(self, seen: Versions) -> _Unseen:
        """What the last holder of the Lease cannot have read, because it was written later."""
        return _Unseen(
            tuple(each for each in self._declared if each.version > seen.get(CONFIG_MAP.plural, math.inf)),
            tuple(
                change
                for change in self._labelled
                if not change.found and version_of(change.metadata) > seen.get(NODE.plural, math.inf)
            ),
        )

    def _undo(self, fence: Fence, declared: Sequence[_Declared], changes: Sequence[LabelChange]) -> list[str]:
        """The errors of what could not be undone."""
        if self.check_mode:
            return []
        left = [f"{failure.node} ({failure.message})" for failure in self._node_writer(fence).roll_back(changes)]
        for each in declared:
            try:
                self._undo_declaration(fence, each.plan)
            except KubeError as error:
                left.append(f"the declaration of pool {each.plan.name} ({error})")
        return left if len(left) <= _MOST_NAMES else [*left[:_MOST_NAMES], f"and {len(left) - _MOST_NAMES} more"]

    def _undo_declaration(self, fence: Fence, plan: Plan) -> None:
        live = self.client.get(CONFIG_MAP, SYSTEM_NAMESPACE, pool_config_map_name(plan.name))
        (step,) = plan.steps
        found, before = _declared_in(live), _declared_in(step.live)
        if found == before:  # It was not written.
            return
        if found != _declared_in(step.desired):
            raise _changed_by_others(step.name)
        for undoing in plan_config_maps({plan.name: before}, [live] if live else []):
            _ConfigMapWriter(self.client, fence).write(*undoing.steps)

    def _node_writer(self, fence: Fence) -> NodeWriter:
        return NodeWriter(self.client, self.check_mode, fence.check, self.progress)


@dataclass(frozen=True)
class _Declared:
    """A written ConfigMap, and its version; 0 if that is not known, or if the ConfigMap was deleted."""

    plan: Plan
    version: int = 0


@dataclass(frozen=True)
class _Unseen:
    """A GuardedPlan: what to undo."""

    declarations: tuple[_Declared, ...]
    label_changes: tuple[LabelChange, ...]

    @property
    def changed(self) -> bool:
        return bool(self.declarations or self.label_changes)

    @property
    def decisions(self) -> object:
        return [each.plan.name for each in self.declarations], [change.node for change in self.label_changes]

    @property
    def planned_on(self) -> Versions:
        return {}  # It builds upon nothing that it has read.


@dataclass(frozen=True)
class _ConfigMapWriter:
    client: Client
    fence: Fence
    check_mode: bool = False

    def write(self, step: Step) -> int:
        """The version of the ConfigMap, 0 for none. Raises ConcurrentChange if the ConfigMap is not as planned on."""
        name = step.name
        for _attempt in range(_ATTEMPTS):
            self.fence.check()
            try:
                if (written := self._send_step(step)) is not None:
                    return written
                problem: KubeError = _changed_by_others(name)
            except KubeError as error:
                if not error.may_be_written and not (isinstance(error, ApiError) and error.status == 409):
                    raise
                problem = error
            live = self._read_again(name, problem)
            found = _declared_in(live)
            if found == _declared_in(step.desired):  # The response was lost, or others made the same change.
                return 0
            if found != _declared_in(step.live):
                raise _changed_by_others(name)
            if problem.may_be_written:
                raise KubeError(f"ConfigMap {name} was not written: {problem}")
            step = Step(step.action, step.desired, live or {}, step.changes)
        raise problem

    def _send_step(self, step: Step) -> int | None:
        """The version; None if a ConfigMap to create exists."""
        if step.action is Action.CREATE:
            created = self.client.create(step.desired, dry_run=self.check_mode)
            return None if created is None else version_of(created["metadata"])
        metadata = step.live["metadata"]
        if step.action is Action.DELETE:
            self.client.delete(
                CONFIG_MAP, metadata, propagation="Background", same_version=True, dry_run=self.check_mode
            )
            return 0
        wanted = step.desired["metadata"]
        annotations = {DESCRIPTION: None, SOURCE: None, **wanted.get("annotations", {})}
        data = {HARDWARE: None, QUEUE: None, **step.desired["data"]}  # A merge patch removes what is null.
        patch = {"metadata": {"labels": wanted["labels"], "annotations": annotations}, "data": data}
        written = self.client.merge_patch(CONFIG_MAP, metadata, patch, dry_run=self.check_mode)
        return version_of(written["metadata"])

    def _read_again(self, name: str, problem: KubeError) -> _ConfigMap | None:
        try:
            return self.client.get(CONFIG_MAP, SYSTEM_NAMESPACE, name)
        except KubeError as error:
            if not problem.may_be_written:
                raise
            unknown = KubeError(f"{problem} It is not known whether ConfigMap {name} was written.")
            unknown.may_be_written = True
            raise unknown from error


def _declared_in(config_map: Mapping[str, Any] | None) -> Declaration | None:
    return next(iter(declarations_in([config_map] if config_map else []).values()), None)


def _changed_by_others(name: str) -> ConcurrentChange:
    return ConcurrentChange(f"ConfigMap {name} was changed by another run or person since this task read it.")


def _written_text(declared: Sequence[_Declared], changes: Sequence[LabelChange]) -> str:
    """``the declarations of the pools a, b; the labels of the nodes n1, n2``."""
    parts = [("the declarations of the pools", [each.plan.name for each in declared])]
    parts.append(("the labels of the nodes", [change.node for change in changes]))
    return "; ".join(f"{what} {abridged(names, _MOST_NAMES)}" for what, names in parts if names)
