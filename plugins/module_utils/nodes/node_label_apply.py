# SPDX-License-Identifier: BSD-2-Clause
"""Write the labels of a plan and the declarations of pools, roll back after a failure, and report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..engine.changes import diffs_of
from ..engine.node_writer import LabelChange, NodeFailure, label_diff
from ..engine.plan import Plan
from ..kube.errors import ApiError, KubeError
from ..pools.lease import Fence, LeaseLost
from ..pools.pool_writer import PoolWriter
from ..task import Task, TaskFailed
from .node_label_plan import NodeLabelPlan, node_lists

if TYPE_CHECKING:
    from .node_label_options import NodeLabelOptions


def apply_node_labels(task: Task[NodeLabelOptions], plan: NodeLabelPlan, fence: Fence) -> dict[str, Any]:
    """In check mode, all writes are dry runs. Raises TaskFailed with the result if a node fails."""
    writer = PoolWriter(task.client(), fence, task.check_mode, task.progress)
    written = writer.label(plan.changes, keep_going=task.options.continue_on_error)
    done, failures = written.done, (*plan.failures, *written.failures)
    if task.check_mode and any(failure.error == "Forbidden" for failure in written.failures):
        # A dry run requires permission to write, the plan only to read.
        task.warn(f"labels were not validated by the server, {written.failures[0].message}")
        done, failures = plan.changes, plan.failures
    if failures and not task.options.continue_on_error:
        messages = "\n".join(failure.message for failure in failures)
        raise writer.roll_back(TaskFailed(messages, **node_lists([], failures)))
    problems = [failure.message for failure in failures]
    declared: list[Plan] = []
    try:
        _update_declarations(task, plan, done, writer, declared)
        writer.require_lease()
    except KubeError as problem:
        if isinstance(problem, LeaseLost) or not task.options.continue_on_error:
            raise writer.roll_back(problem) from problem
        problems.append(f"the labels were set, but the declaration of a pool was not updated: {problem}")
    changed = bool(done or declared) or writer.has_written
    return _label_result(task, plan, done, failures, declared, problems, changed=changed)


def _update_declarations(
    task: Task[NodeLabelOptions],
    plan: NodeLabelPlan,
    done: Sequence[LabelChange],
    writer: PoolWriter,
    declared: list[Plan],
) -> None:
    """Bring the declarations of pools in line with the labels; adds those that were written to ``declared``."""
    try:
        for declaration in plan.declarations([*(change.node for change in done), *plan.unchanged]):
            writer.declare(declaration)
            declared.append(declaration)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        task.warn(f"the labels were set, but the declaration of a pool was not updated: {error}")


def _label_result(
    task: Task[NodeLabelOptions],
    plan: NodeLabelPlan,
    done: Sequence[LabelChange],
    failures: Sequence[NodeFailure],
    declared: Sequence[Plan],
    problems: Sequence[str],
    *,
    changed: bool,
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
        "changed": changed,
        "results": results,
        "diff": task.diff(
            lambda: [
                *(label_diff(change) for change in plan.changes if change.node in names),
                *(diff for declaration in declared for diff in diffs_of(declaration)),
            ]
        ),
        **node_lists([str(result["node_name"]) for result in results], failures),
    }
    if problems:
        raise TaskFailed("\n".join([*problems, summary]), **result)
    return {**result, "msg": summary}
