# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_idle finds beside idle accelerators, and what it does about that by the policies of pools.

Each job is judged again by what is read before it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from ...cluster.read_jobs import JobId, job_id_of, read_pods
from ...cluster.related import main_container, own_pods
from ...cluster.status import ENDED, status_of
from ...engine.paths import ABSENT, Change, value_at
from ...engine.plan import WORKLOAD_KINDS, Action, Plan, Step
from ...jobs.job import STATES, State
from ...jobs.job_options import JobOptions
from ...jobs.job_plans import plan_absent, plan_transition
from ...jobs.select import SelectedJob
from ...jobs.transitions import LiveJob, keep, patch_plan, pause
from ...kube.answer import Answer
from ...kube.client import Client
from ...kube.errors import KubeError
from ...kube.resources import POD
from ...kube.times import now_as_text, read_time, time_as_text
from ...labels import RECLAIM_WARNED, owner_of_reserved, pool_of_workload
from ...task import Task
from ..change_jobs import ChangingJob, change_jobs, job_kind
from ..job_events import write_events
from .given_back import record_given_back
from .idle_rules import CLEAR, NOTHING, PAUSE, WARN, HeldDevices, IdlePolicy, is_exempt, span
from .reclaim_rules import (
    NOTIFY,
    STOP,
    STUCK,
    ReclaimRule,
    Rules,
    Stall,
    exemption,
    finding_of,
    next_step,
    rule_for,
    unused_claims,
    warned_of,
)

_WARNED = ("metadata", "annotations", RECLAIM_WARNED)
_TIMEOUT = 10.0  # seconds, to read the end of a log
_RESUME = "Resume it with gpuctl_job (state=resumed) or the playbook resume."


@dataclass(frozen=True)
class ReclaimJudge:
    """Says what is wrong with jobs, and what follows, at one moment."""

    rules: Rules
    policy: IdlePolicy
    longest_exemption: float
    now: datetime
    exempt_uids: frozenset[str] = frozenset()

    @property
    def acts_on_use(self) -> bool:
        """Whether a job may be stopped for what Prometheus says."""
        return any(kind == STUCK and rule.action != NOTIFY for (_pool, kind), rule in self.rules.items())

    def exempt(self, workload: Mapping[str, Any]) -> str | None:
        metadata = workload["metadata"]
        why = is_exempt(metadata["name"], job_kind(workload), metadata["uid"], self.policy, self.exempt_uids)
        return why or exemption(workload, self.longest_exemption, self.now)

    def rule(self, workload: Mapping[str, Any], finding: Stall | None) -> ReclaimRule | None:
        return rule_for(self.rules, workload, finding.kind) if finding else None

    def step(self, workload: Mapping[str, Any], finding: Stall | None) -> str:
        rule = None if self.exempt(workload) else self.rule(workload, finding)
        return next_step(workload, finding, rule, self.policy.grace, self.now)


@dataclass
class FoundJob(ChangingJob):
    """A job with what is wrong with it; without a finding, one that was warned of and is well again."""

    finding: Stall | None
    rule: ReclaimRule | None
    exempt: str | None
    action: str
    pods: Sequence[Mapping[str, Any]]


def find_jobs(
    workloads: Iterable[dict[str, Any]],
    pods: Mapping[JobId, Sequence[Mapping[str, Any]]],
    stuck: Mapping[JobId, Stall],
    judge: ReclaimJudge,
) -> list[FoundJob]:
    found = []
    for workload in workloads:
        job = job_id_of(workload)
        if status_of(workload) in ENDED or owner_of_reserved(job[0]) or workload["metadata"]["name"] != job[1]:
            continue
        own = list(own_pods(workload, pods.get(job, ())))
        finding = stuck.get(job) or finding_of(workload, own, judge.now)
        action = judge.step(workload, finding)
        if finding or action != NOTHING:
            rule, exempt = judge.rule(workload, finding), judge.exempt(workload)
            found.append(FoundJob(workload, finding, rule, exempt, action, own))
    return sorted(found, key=lambda job: (job.finding is None, job.id))


def stuck_finding(
    client: Client, pods: Iterable[Mapping[str, Any]], held: HeldDevices, idle: str, now: datetime
) -> Stall | None:
    """The finding for a training with idle accelerators whose logs are silent too; None where a log cannot be read."""
    since = held.since
    for pod in pods:
        last = _last_line(client, pod, held.since) if pod["metadata"]["name"] in held.pods else since
        if last is None:
            return None
        since = max(since, last)
    reason = f"does nothing: {idle}, and no line in its logs for {span((now - since).total_seconds())}"
    return Stall(STUCK, reason, since, held.devices)


def _last_line(client: Client, pod: Mapping[str, Any], started: datetime) -> datetime | None:
    """When a pod has written the last line of its log; its start if there is none, None if that is not known."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    query = {"container": main_container(pod["spec"]["containers"])["name"], "timestamps": "true", "tailLines": "1"}
    try:
        answer = client.transport.exchange(
            f"{POD.path(namespace, name)}/log", _text, {**query, "limitBytes": "64"}, read_timeout=_TIMEOUT
        )
        return read_time(answer.split()[0]) if answer.strip() else started
    except (KubeError, ValueError):
        return None


def _text(answer: Answer) -> str:
    if answer.status != 200:
        raise ValueError("no log")
    return bytes(answer.body).decode("utf-8", "replace")


# -- acting ------------------------------------------------------------------------------------------------------------


def act_on(task: Task[Any], jobs: Sequence[FoundJob], judge: ReclaimJudge) -> list[Any]:
    """The entries of the diff."""
    diff: list[Any] = []
    for action in (WARN, CLEAR, PAUSE, STOP):
        chosen = {job.id: job for job in jobs if job.action == action}
        unchanged, changes = change_jobs(task, _state(action, chosen, judge), list(chosen.values()))
        diff += changes
        for job in unchanged:
            job.action = NOTHING
    announced = [job for job in jobs if job.action in (WARN, PAUSE, STOP) and job.error is None]
    record_given_back(task, [(job.workload, job.pods) for job in announced if job.action != WARN])
    write_events(task, [(job.workload, *_event_of(job, judge)) for job in announced], "jobs that get nowhere")
    return diff


def _state(action: str, jobs: Mapping[JobId, FoundJob], judge: ReclaimJudge) -> State:
    def still(workload: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> bool:
        """Whether the job is as it was found."""
        before = jobs[job_id_of(workload)].finding
        is_stuck = before is not None and before.kind == STUCK
        finding = before if is_stuck else finding_of(workload, own_pods(workload, pods), judge.now)
        is_same = (finding and finding.kind) == (before and before.kind)
        return is_same and judge.step(workload, finding) == action

    def transition(job: LiveJob, options: JobOptions) -> Plan:
        if not still(job.workload, job.pods):
            return keep(job)
        if action == PAUSE:
            return _paused(job)
        kind = (found.kind if (found := jobs[job.namespace, job.name].finding) else "") if action == WARN else ""
        return patch_plan(job, Action.ANNOTATE, [(_WARNED, f"{kind} {now_as_text()}" if kind else ABSENT)])

    def stopped(task: Task[JobOptions], selected: list[SelectedJob], ledger: Any) -> list[Plan]:
        """As state=absent, for those that are still as they were found."""
        pods = read_pods(task.client(), jobs)

        def checked(plan: Plan) -> Plan:
            live = [step.live for step in plan.steps if step.kind in WORKLOAD_KINDS]
            if all(still(workload, pods.get((plan.namespace, plan.name), ())) for workload in live):
                return plan
            return plan.with_steps(Step(Action.UNCHANGED, {}, step.live) for step in plan.steps)

        return [checked(plan) for plan in plan_absent(task, selected, ledger)]

    if action == STOP:
        return replace(STATES["absent"], plan=stopped)
    return State(partial(plan_transition, transition=transition, reads_pods=True))


def _paused(job: LiveJob) -> Plan:
    """A pause that ends the warning in the same write: a resumed job is judged from the beginning."""
    plan, forget = pause(job), Change(_WARNED, value_at(job.workload, _WARNED), ABSENT)
    return plan.with_steps(
        [
            replace(step, changes=(*step.changes, forget)) if step.live is job.workload and step.changes else step
            for step in plan.steps
        ]
    )


def _event_of(job: FoundJob, judge: ReclaimJudge) -> tuple[str, str]:
    """The reason and the message."""
    what = f"It {job.finding.reason if job.finding else ''}."
    if job.action == PAUSE:
        return "Reclaimed", f"{what} It was paused, and its volumes are kept. {_RESUME}"
    if job.action == STOP:
        return "Reclaimed", f"{what} It was deleted, and its claims are kept. Submit it again once that is corrected."
    if job.rule is None or job.rule.action == NOTIFY:
        return "DoesNothing", f"{what} Correct it, or delete it if it is not needed."
    wait = judge.policy.grace if job.finding and job.finding.since else max(judge.policy.grace, job.rule.after)
    verb = "paused" if job.rule.action == PAUSE else "deleted"
    how = "ansible-playbook runwhere.gpuctl.extend"
    namespace, name = job.id
    return "DoesNothing", (
        f"{what} It may be {verb} in {span(wait)}, by the policy of its pool. To keep it: {how} "
        f"-e gpuctl_namespace={namespace} -e gpuctl_name={name} -e gpuctl_exempt_until=TIME"
    )


# -- reporting ---------------------------------------------------------------------------------------------------------


def finding_row(job: FoundJob, judge: ReclaimJudge) -> dict[str, Any]:
    finding, rule = job.finding, job.rule
    warned = warned_of(job.workload, finding.kind, judge.now) if finding else None
    return {
        "name": job.id[1],
        "namespace": job.id[0],
        "kind": job.kind,
        "pool": pool_of_workload(job.workload),
        "finding": finding.kind if finding else None,
        "reason": "; ".join(filter(None, (finding.reason if finding else "is well again", job.exempt))),
        "since": time_as_text(finding.since) if finding and finding.since else None,
        "gpus": finding.gpus if finding else 0,
        "claims": list(finding.claims) if finding else [],
        "then": rule.action if rule else None,
        "after": span(rule.after) if rule else None,
        "warned_at": time_as_text(warned) if warned and job.action != CLEAR else None,
        "action": job.action,
        "error": job.error,
    }


def claim_rows(
    claims: Iterable[Mapping[str, Any]],
    workloads: Iterable[Mapping[str, Any]],
    pods: Mapping[JobId, Sequence[Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """Rows of claims that no job uses. They hold data, so nothing is ever done about them."""
    nothing = dict.fromkeys(("kind", "pool", "since", "then", "after", "warned_at", "error"))
    every_pod = (pod for own in pods.values() for pod in own)
    return [
        {
            **nothing,
            "name": name,
            "namespace": namespace,
            "finding": "unused_claim",
            "reason": "is mounted by no job or pod of this collection",
            "gpus": 0,
            "claims": [name],
            "action": NOTHING,
        }
        for namespace, name in unused_claims(claims, workloads, every_pod)
    ]
