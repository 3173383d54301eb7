# SPDX-License-Identifier: BSD-2-Clause
"""What policies do not allow of the jobs of a task, before anything of them is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..cluster.declared import read_declared
from ..engine.dry_run import Blocker
from ..engine.plan import Plan
from ..policies.guards import broken_rules
from ..policies.policy_rules import PolicyRules, rules_of
from ..task import Task
from .select import SelectedJob, policy_file

if TYPE_CHECKING:
    from .job import JobOptions


def policy_blockers(task: Task[JobOptions], starting: Iterable[tuple[SelectedJob, Plan]]) -> list[Blocker]:
    """What the policies of the cluster, and that of the host, do not allow of jobs that start pods.

    A policy that only warns is a warning here as well. What the account may not read, the API server still enforces.
    """
    starting = list(starting)
    if not starting:
        return []
    blockers = []
    for policy in _policies(task):
        if policy.action == "audit":
            continue
        for job, plan in starting:
            for place, sentence in broken_rules(policy, job.namespace, job.objects):
                text = f"{job.place(place)}: {sentence}"
                if policy.action == "deny":
                    blockers.append((plan, text))
                else:
                    task.warn(text)
    return blockers


def _policies(task: Task[JobOptions]) -> list[PolicyRules]:
    policies = list(read_declared(task.client(), task.warn).policies)
    if file := policy_file(task):
        from ..manifest.load import load_policy

        policies.append(rules_of(load_policy(file)))
    return policies
