# SPDX-License-Identifier: BSD-2-Clause
"""Write ConfigMaps and labels as one change: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable

from ..engine.node_writer import NodeWriter
from ..engine.plan import Action, describe
from ..kube.client import Client
from ..kube.errors import ApiError, KubeError, if_allowed
from ..kube.resources import NAMESPACE
from ..labels import SYSTEM_NAMESPACE
from ..reporter import Report, silent
from ..task import TaskFailed
from .lease import Fence
from .pool_plan import PoolPlans
from .pool_writer import PoolWriter


def validate_pools(client: Client, plans: PoolPlans, warn: Callable[[str], None]) -> None:
    """Send the writes as dry runs. Raises TaskFailed for what the server rejects; a missing permission only warns."""
    # Without permission to read it, assume that it exists: the dry runs reveal if it does not.
    if if_allowed(lambda: client.get(NAMESPACE, None, SYSTEM_NAMESPACE) is not None, True):
        writer = PoolWriter(client, check_mode=True)
        for plan in plans.config_maps:
            try:
                writer.declare(plan)
            except ApiError as error:
                if not error.is_forbidden:
                    raise
                warn(f"{describe(plan)}: not validated by the server: {error.message}")
    failures = NodeWriter(client, check_mode=True).write(plans.label_changes).failures
    forbidden = [failure for failure in failures if failure.error == "Forbidden"]
    if forbidden:
        warn(f"labels of nodes were not validated by the server, {forbidden[0].message}")
    elif failures:
        raise TaskFailed.before_any_write(failure.message for failure in failures)


def apply_pools(client: Client, plans: PoolPlans, fence: Fence, progress: Report = silent) -> PoolPlans:
    """Declare, then label the nodes, then delete declarations. Rolls back and raises TaskFailed after a failure.

    A run that is killed in between leaves its declarations, from which the next run completes the labels.
    """
    writer = PoolWriter(client, fence, progress=progress)
    try:
        for plan in plans.config_maps:
            if plan.action is not Action.DELETE:
                writer.declare(plan)
        if failures := writer.label(plans.label_changes).failures:
            raise TaskFailed("\n".join(dict.fromkeys(failure.message for failure in failures)))
        for plan in plans.config_maps:
            if plan.action is Action.DELETE:
                writer.declare(plan)
        writer.require_lease()
    except (KubeError, TaskFailed) as problem:
        raise writer.roll_back(problem) from problem
    return plans
