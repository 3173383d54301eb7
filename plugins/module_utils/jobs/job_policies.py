# SPDX-License-Identifier: BSD-2-Clause
"""What policies and Pod Security levels do not allow of the jobs of a task, before anything of them is sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..cluster.declared import Declared, read_declared
from ..cluster.read_jobs import JobId, enforced_levels
from ..engine.dry_run import Blocker
from ..engine.plan import Plan
from ..task import Task
from .objects.pod_levels import violations
from .select import SelectedJob

if TYPE_CHECKING:
    from ..policies.policy_rules import PolicyRules
    from .job_options import JobOptions


def policy_blockers(task: Task[JobOptions], starting: Iterable[tuple[SelectedJob, Plan]]) -> list[Blocker]:
    """What the policies of the cluster, and that of the host, do not allow of jobs that start pods.

    A policy that only warns is a warning here as well. What the account may not read, the API server still enforces.
    """
    starting = list(starting)
    if not starting:
        return []
    blockers = []
    declared = read_declared(task.client(), task.warn)
    for job, plan in starting:
        for policy in _applicable_policies(declared, job):
            for text in _broken_rules(policy, job):
                if policy.action == "deny":
                    blockers.append((plan, text))
                else:
                    task.warn(text)
            for text in _unreachable(policy, job) if task.check_mode else ():
                task.warn(text)
    return blockers


def level_problems(job: SelectedJob, level: str | None) -> Iterator[str]:
    """What the Pod Security level of its namespace forbids of a job."""
    for place, problem, hint in violations(job.objects[0], level) if level else ():
        text = f"the namespace enforces the Pod Security level {level}, which forbids {problem}. {hint}."
        yield f"{job.place(place)}: {text}"


def forbidden(task: Task[Any], jobs: Sequence[SelectedJob], declared: Declared) -> Mapping[JobId, list[str]]:
    """What the API server would refuse of built jobs, by policies and by Pod Security levels."""
    found: dict[JobId, list[str]] = defaultdict(list)
    levels = enforced_levels(task.client(), (job.namespace for job in jobs))
    for job in jobs:
        found[job.id] += level_problems(job, levels.get(job.namespace))
        denying = (policy for policy in _applicable_policies(declared, job) if policy.action == "deny")
        found[job.id] += (text for policy in denying for text in _broken_rules(policy, job))
    return found


def _broken_rules(policy: PolicyRules, job: SelectedJob) -> Iterator[str]:
    from ..policies.guards import broken_rules  # Here: many clusters have no policy.

    for place, sentence in broken_rules(policy, job.namespace, job.objects):
        yield f"{job.place(place)}: {sentence}"


def _unreachable(policy: PolicyRules, job: SelectedJob) -> Iterator[str]:
    """A Service for clients outside, whose connections the NetworkPolicy of the team does not allow."""
    rules = policy.namespaces.get(job.namespace)
    if rules is None or rules.network is None:
        return
    types = {obj["spec"].get("type") for obj in job.objects if obj["kind"] == "Service"}
    for type_ in sorted(types & {"NodePort", "LoadBalancer"}):
        others = "".join(f" and {name}" for name in rules.network.namespaces)
        yield (
            f"{job.place('service.type')}: {policy.source}: pods of team {rules.team} accept connections from "
            f"namespace {job.namespace}{others} only, so this Service of type {type_} is unreachable from elsewhere."
        )


def _applicable_policies(declared: Declared, job: SelectedJob) -> Iterator[PolicyRules]:
    """Those of the cluster and of the host that say something before a job is sent: not what only the audit log has."""
    own = (job.host_policy,) if job.host_policy else ()
    yield from (policy for policy in (*declared.policies, *own) if policy.action != "audit")
