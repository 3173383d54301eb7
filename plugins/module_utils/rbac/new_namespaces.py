# SPDX-License-Identifier: BSD-2-Clause
"""Access to namespaces that did not exist when gpuctl_rbac granted a level for the whole cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine.apply import Executor
from ..engine.changes import diffs_of
from ..engine.plan import Plan
from ..engine.planning import step_for
from ..kube.errors import KubeError, as_sentence, if_allowed
from ..kube.resources import CLUSTER_ROLE_BINDING
from ..labels import MANAGED
from ..task import Task
from .levels import bindings_in_new_namespace


def grant_in_new_namespaces(task: Task[Any], namespaces: Iterable[str]) -> list[dict[str, str]]:
    """Bind the accounts whose level is for the whole cluster; the entries of ``diff``. Warns if that fails.

    Roles that read logs or write workloads are bound in each namespace, never in the whole cluster.
    """
    plans = plans_for_new_namespaces(task, namespaces)
    if not task.check_mode:
        executor = Executor(task.client(), check_mode=False, gone_timeout=0, warn=task.warn)
        for result in executor.apply_plans(plans, keep_going=True):
            if result and result.error:
                task.warn(
                    f"accounts with a level for the whole cluster have no access to jobs in the new namespace "
                    f"{result.plan.namespace}: {as_sentence(result.error)} Run gpuctl_rbac for them again."
                )
    return task.diff(lambda: (entry for plan in plans for entry in diffs_of(plan)))


def plans_for_new_namespaces(task: Task[Any], namespaces: Iterable[str]) -> list[Plan]:
    """The bindings for each of the namespaces. Warns if it is not known who has a level."""
    namespaces = list(namespaces)
    if not namespaces:
        return []
    client = task.client()
    try:
        found = if_allowed(lambda: client.list_objects(CLUSTER_ROLE_BINDING, labels=MANAGED), list[dict[str, Any]]())
    except KubeError as error:
        task.warn(f"it is not known which accounts have a level for the whole cluster: {error}")
        return []
    plans = []
    for namespace in namespaces:
        bindings = [obj for binding in found for obj in bindings_in_new_namespace(binding, namespace)]
        plans.append(Plan("all accounts", namespace, "access of", tuple(step_for(obj, None) for obj in bindings)))
    return [plan for plan in plans if plan.steps]
