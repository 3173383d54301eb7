# SPDX-License-Identifier: BSD-2-Clause
"""What policies do not allow of the jobs of a task, before anything of them is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..cluster.declared import read_declared
from ..engine.dry_run import Blocker
from ..engine.plan import Plan
from ..policies.guards import broken_rules
from ..task import Task
from .select import SelectedJob

if TYPE_CHECKING:
    from .job import JobOptions


def policy_blockers(task: Task[JobOptions], starting: Iterable[tuple[SelectedJob, Plan]]) -> list[Blocker]:
    """What the policies of the cluster, and that of the host, do not allow of jobs that start pods.

    A policy that only warns is a warning here as well. What the account may not read, the API server still enforces.
    """
    starting = list(starting)
    if not starting:
        return []
    rules = [(policy, *each) for policy in read_declared(task.client(), task.warn).policies for each in starting]
    rules += [(job.host_policy, job, plan) for job, plan in starting if job.host_policy]
    blockers = []
    for policy, job, plan in rules:
        if policy.action == "audit":
            continue
        for place, sentence in broken_rules(policy, job.namespace, job.objects):
            text = f"{job.place(place)}: {sentence}"
            if policy.action == "deny":
                blockers.append((plan, text))
            else:
                task.warn(text)
    return blockers
