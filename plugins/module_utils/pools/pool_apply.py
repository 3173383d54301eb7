# SPDX-License-Identifier: BSD-2-Clause
"""Write ConfigMaps and labels as one change: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..engine.apply import ApplyResult, Executor
from ..engine.fields import applied_by
from ..engine.node_writer import LabelChange, NodeWriter
from ..engine.plan import Action, Step
from ..kube.client import Client
from ..kube.errors import ApiError, KubeError
from ..kube.resources import NAMESPACE
from ..labels import FIELD_MANAGER, SYSTEM_NAMESPACE
from ..task import TaskFailed
from .pool_plan import PoolPlans


def validate_pools(client: Client, plans: PoolPlans, warn: Callable[[str], None]) -> None:
    """Send the writes as dry runs. Raises TaskFailed for what the server rejects; a missing permission only warns."""
    if _system_namespace_exists(client):
        executor = _executor(client, warn, check_mode=True)
        for plan in plans.config_maps:
            executor.apply_plan(plan)
    failures = NodeWriter(client, check_mode=True).write(plans.label_changes).failures
    forbidden = [failure for failure in failures if failure.error == "Forbidden"]
    if forbidden:
        warn(f"labels of nodes were not validated by the server, {forbidden[0].message}")
    elif failures:
        raise TaskFailed("\n".join([*(failure.message for failure in failures), "Nothing was changed."]))


def apply_pools(
    client: Client, plans: PoolPlans, check_lease: Callable[[], None], warn: Callable[[str], None]
) -> PoolPlans:
    """Declare, then label the nodes, then delete declarations. Rolls back and raises TaskFailed after a failure.

    A run that is killed in between leaves its declarations, from which the next run completes the labels.
    """
    executor = _executor(client, warn, check_mode=False)
    writer = NodeWriter(client, before_each=check_lease)
    applied: list[ApplyResult] = []
    labelled: tuple[LabelChange, ...] = ()
    try:
        for plan in plans.config_maps:
            if plan.action is not Action.DELETE:
                applied.append(executor.apply_plan(plan))
        written = writer.write(plans.label_changes)
        labelled = written.done
        if written.failures:
            raise TaskFailed("\n".join(dict.fromkeys(failure.message for failure in written.failures)))
        check_lease()
        for plan in plans.config_maps:
            if plan.action is Action.DELETE:
                applied.append(executor.apply_plan(plan))
    except (KubeError, TaskFailed) as problem:
        left = [f"{failure.node} ({failure.message})" for failure in writer.roll_back(labelled)]
        left += _roll_back_config_maps(executor, applied)
        result = f"Not rolled back: {'; '.join(left)}" if left else "Nothing was changed."
        raise TaskFailed(f"{problem}\n{result}") from problem
    return plans


def _executor(client: Client, warn: Callable[[str], None], *, check_mode: bool) -> Executor:
    # Nobody else owns the fields of a declaration: manual changes are overwritten.
    return Executor(client, check_mode=check_mode, gone_timeout=60, warn=warn, force_conflicts=True)


def _system_namespace_exists(client: Client) -> bool:
    """Without permission to read it, assume that it exists: the dry runs reveal if it does not."""
    try:
        return client.get(NAMESPACE, None, SYSTEM_NAMESPACE) is not None
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return True


def _roll_back_config_maps(executor: Executor, applied: Iterable[ApplyResult]) -> list[str]:
    """Restore the ConfigMaps; the errors of those that could not be restored."""
    errors = []
    for result in applied:
        (step,) = result.plan.steps
        if step.action is Action.CREATE:
            (created,) = result.objects.values()
            restore = Step(Action.DELETE, {}, created)
        else:
            restore = Step(Action.UPDATE, applied_by(FIELD_MANAGER, step.live), {})
        try:
            executor.apply_plan(result.plan.with_steps((restore,)))
        except KubeError as error:
            errors.append(str(error))
    return errors
