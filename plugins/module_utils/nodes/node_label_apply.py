# SPDX-License-Identifier: BSD-2-Clause
"""Write the labels of a plan and the declarations of pools, roll back after a failure, and report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..engine.node_writer import LabelChange, NodeFailure, label_diff
from ..engine.plan import Plan
from ..engine.results import diffs_of
from ..kube.errors import KubeError
from ..pools.lease import Fence, LeaseLost
from ..pools.pool_writer import PoolWriter
from ..task import Task, TaskFailed
from .node_label_plan import NodeLabelPlan, node_lists

if TYPE_CHECKING:
    from .node_label import NodeLabelOptions


def apply_node_labels(task: Task[NodeLabelOptions], plan: NodeLabelPlan, fence: Fence) -> dict[str, Any]:
    """In check mode, all writes are dry runs. Raises TaskFailed with the result if a node fails."""
    writer = PoolWriter(task.client(), fence, task.check_mode)
    written = writer.label(plan.changes, keep_going=task.options.continue_on_error)
    done, failures = written.done, (*plan.failures, *written.failures)
    if task.check_mode and any(failure.error == "Forbidden" for failure in written.failures):
        # A dry run requires permission to write, the plan only to read.
        task.warn(f"labels were not validated by the server, {written.failures[0].message}")
        done, failures = plan.changes, plan.failures
    if failures and not task.options.continue_on_error:
        messages = "\n".join(failure.message for failure in failures)
        raise writer.roll_back(TaskFailed(messages, **node_lists([], failures)))
    try:
        declared = _declare(task, plan, done, writer)
        writer.require_lease()
    except LeaseLost as lost:
        raise writer.roll_back(lost) from lost
    return _report(task, plan, done, failures, declared)


def _declare(
    task: Task[NodeLabelOptions], plan: NodeLabelPlan, done: Sequence[LabelChange], writer: PoolWriter
) -> list[Plan]:
    """Bring the declarations of pools in line with the labels; returns those that were written."""
    declared = []
    try:
        for declaration in plan.declarations([*(change.node for change in done), *plan.unchanged]):
            writer.declare(declaration)
            declared.append(declaration)
    except LeaseLost:
        raise
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
        "changed": bool(done or declared or any(failure.unknown for failure in failures)),
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
