# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_node_label: check the labels, read the nodes, plan, and write the labels that differ."""

from __future__ import annotations

from typing import Any

from ..labels import POOL
from ..pools.guarded import apply_under_lease, permission_hint
from ..pools.lease import Fence, PoolLease
from ..task import ModuleSpec, Task
from .label_options import desired_labels
from .node_label_apply import apply_node_labels
from .node_label_options import NODE_LABEL_CONSTRAINTS, NodeLabelOptions
from .node_label_plan import NodeLabelPlan, plan_node_labels


def run(task: Task[NodeLabelOptions]) -> dict[str, Any]:
    """Bring the labels of the selected nodes to the desired state.

    Returns ``changed``, ``success``, ``failed_nodes``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with the
    same if a node fails; without ``continue_on_error`` nothing was changed then.
    """
    labels = desired_labels(task.options)

    def plan() -> NodeLabelPlan:
        return plan_node_labels(task, labels)

    def apply(plan: NodeLabelPlan, fence: Fence) -> dict[str, Any]:
        return apply_node_labels(task, plan, fence)

    if POOL not in labels or task.check_mode:
        return apply(plan(), Fence())
    lease = PoolLease(task.client(), progress=task.progress)
    with permission_hint():
        return apply_under_lease(lease, plan, apply, create_lease=False, warn=task.warn)


MODULE = ModuleSpec(NodeLabelOptions, run, NODE_LABEL_CONSTRAINTS, level="administer")
