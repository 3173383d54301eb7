# SPDX-License-Identifier: BSD-2-Clause
"""Write the labels of a plan and the declarations of pools, roll back after a failure, and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..engine.apply import Executor
from ..engine.node_writer import LabelChange, NodeFailure, NodeWriter, label_diff
from ..engine.plan import Plan
from ..engine.results import diffs_of
from ..kube.errors import KubeError
from ..task import Task, TaskFailed
from .node_label_plan import NodeLabelPlan, node_lists

if TYPE_CHECKING:
    from .node_label import NodeLabelOptions


def apply_node_labels(
    task: Task[NodeLabelOptions], plan: NodeLabelPlan, check_lease: Callable[[], None]
) -> dict[str, Any]:
    """In check mode, all writes are dry runs. Raises TaskFailed with the result if a node fails."""
    writer = NodeWriter(task.client(), task.check_mode, check_lease)
    written = writer.write(plan.changes, keep_going=task.options.continue_on_error)
    done, failures = written.done, (*plan.failures, *written.failures)
    if task.check_mode and any(failure.error == "Forbidden" for failure in written.failures):
        # A dry run requires permission to write, the plan only to read.
        task.warn(f"labels were not validated by the server, {written.failures[0].message}")
        done, failures = plan.changes, plan.failures
    if failures and not task.options.continue_on_error:
        left = "; ".join(failure.message for failure in writer.roll_back(done))
        messages = [failure.message for failure in failures]
        end = f"Not rolled back: {left}" if left else "Nothing was changed."
        raise TaskFailed("\n".join([*messages, end]), **node_lists([], failures))
    declared = _declare(task, plan, done)
    return _report(task, plan, done, failures, declared)


def _declare(task: Task[NodeLabelOptions], plan: NodeLabelPlan, done: Sequence[LabelChange]) -> list[Plan]:
    """Bring the declarations of pools in line with the labels; returns those that were written."""
    executor = Executor(task.client(), task.check_mode, gone_timeout=0, warn=task.warn, force_conflicts=True)
    declared = []
    try:
        for declaration in plan.declarations([*(change.node for change in done), *plan.unchanged]):
            executor.apply_plan(declaration)
            declared.append(declaration)
    except KubeError as error:
        task.warn(f"the labels were set, but the declaration of a pool was not updated: {error}")
    return declared


def _report(
    task: Task[NodeLabelOptions],
    plan: NodeLabelPlan,
    done: Sequence[LabelChange],
    failures: Sequence[NodeFailure],
    declared: Sequence[Plan],
) -> dict[str, Any]:
    results = [
        *({"node_name": change.node, "action": "update", "labels": dict(change.labels)} for change in done),
        *({"node_name": node, "action": "unchanged", "labels": {}} for node in plan.unchanged),
    ]
    results.sort(key=lambda result: str(result["node_name"]))
    names = {change.node for change in done}
    total = len(results) + len(failures)
    failed = f", {len(failures)} failed" if failures else ""
    summary = (
        f"{total} {'node' if total == 1 else 'nodes'}: {len(done)} update, {len(plan.unchanged)} unchanged{failed}"
    )
    result = {
        "changed": bool(done or declared),
        "results": results,
        "diff": task.diff(
            lambda: [
                *(label_diff(change) for change in plan.changes if change.node in names),
                *(diff for declaration in declared for diff in diffs_of(declaration, ())),
            ]
        ),
        **node_lists([str(result["node_name"]) for result in results], failures),
    }
    if failures:
        raise TaskFailed("\n".join([*(failure.message for failure in failures), summary]), **result)
    return {**result, "msg": summary}
