# SPDX-License-Identifier: BSD-2-Clause
"""Predict for random jobs whether they run, let the scheduler of a cluster answer, and compare."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import with_use
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit import (
    Fit,
    FitChange,
    FitJob,
    IsWanted,
    fit_jobs,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_changes import (
    PoolRoom,
    changed_jobs,
    room_of_pools,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_snapshot import (
    FitSnapshot,
    read_fit_snapshot,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.verdicts import (
    AFTER_JOBS,
    AFTER_PREEMPTION,
    AFTER_QUOTA,
    UNKNOWN,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.verdicts import NOW as RUNS_NOW
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.guards import broken_rules

from .manifests import DECLARED, alone, pods_of
from .observed import ATTACHED, CLASSES_OF_STORAGE, NOW, PREEMPTS, QUOTA, STUCK, VOLUMES, Stage
from .worlds import Job, RandomWorld, random_world


@dataclass
class Tally:
    """Pairs of a state and a job: how many, what was predicted, and what was wrong."""

    pairs: int = 0
    waits: int = 0  # jobs that were tried again after those that they were said to wait for
    evictions: Counter[str] = field(default_factory=Counter)  # jobs that preempted others: whether these were named
    changes: int = 0  # jobs of manifests that were tried again with the change that was said to help
    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = self.pairs - sum(self.unknown.values())
        lines = [
            f"{self.pairs} pairs: {told} predicted, {len(self.wrong)} of them wrong, {self.pairs - told} not known"
        ]
        lines.append(f"{self.waits} tried again without the jobs that they were said to wait for")
        lines.append(f"{self.changes} tried again with the change that was said to help")
        lines.append(f"preempted others: {', '.join(f'{number} {text}' for text, number in self.evictions.items())}")
        lines.append(", ".join(f"{number} {kind}" for kind, number in self.kinds.most_common()))
        lines.append(", ".join(f"{number} {verdict}" for verdict, number in self.verdicts.most_common()))
        lines += [f"  not known ({number}): {reason}" for reason, number in self.unknown.most_common()]
        return "\n".join(lines)


def compare(stage: Stage, client: Client, seed: int, batches: int, tally: Tally) -> None:
    """One world and its batches. Pods are created one after the other, the most important first."""
    world = random_world(
        seed, stage.nodes, batches, volumes=[*VOLUMES, *ATTACHED, *CLASSES_OF_STORAGE] if stage.real else None
    )
    if not stage.real:
        world.slices = []
    stage.set_up(world)
    for number, batch in enumerate(world.batches):
        fits, pools = predict(client, world, batch)
        for job, fit in zip(batch, fits, strict=True):
            observed, pods = stage.try_job(job)
            _count(tally, world, number, job, fit, observed, pods)
            _count_victims(tally, world, number, job, fit, stage.victims)
        stage.clean()
        if len(batch) == 1 and fits[0].after and fits[0].verdict in (AFTER_JOBS, AFTER_QUOTA):
            _check_what_it_waits_for(stage, batch[0], fits[0], tally, f"seed {seed}, batch {number}")
        if len(batch) == 1 and fits[0].changes:
            _check_change(stage, batch[0], fits[0].changes[0], pools, tally, f"seed {seed}, batch {number}")


def _check_what_it_waits_for(stage: Stage, job: Job, fit: Fit, tally: Tally, where: str) -> None:
    """Without the jobs that are said to be in the way, it runs; or its quota lets it in at least."""
    stage.end_jobs(fit.after)
    observed, pods = stage.try_job(job)
    stage.clean()
    if stage.world and stage.world.preempting:
        stage.set_up(stage.world)
    tally.waits += 1
    if observed == QUOTA or (observed != NOW and fit.verdict == AFTER_JOBS):
        found = f"does not run after {fit.after}: {observed} {_messages(pods)}"
        tally.wrong.append(f"{where}, {job.name}: {found}\n  {job.template['spec']}")


def _check_change(
    stage: Stage, job: Job, change: FitChange, pools: Mapping[str, PoolRoom], tally: Tally, where: str
) -> None:
    """With other values in its manifest, it comes out as said."""
    assert job.selected is not None
    other = next(other for one, other in changed_jobs(job.selected, DECLARED, pools) if one.fields == change.fields)
    changed = Job(job.name, job.namespace, other.objects[0]["spec"]["template"], pods_of(other), selected=alone(other))
    observed, pods = stage.try_job(changed)
    stage.clean()
    tally.changes += 1
    one_of = {RUNS_NOW: [NOW], AFTER_PREEMPTION: [PREEMPTS], AFTER_JOBS: [STUCK], UNKNOWN: [NOW, PREEMPTS, STUCK]}
    if observed not in one_of[change.verdict]:
        found = f"with {change.fields}, predicted {change.verdict}, observed {observed} {_messages(pods)}"
        tally.wrong.append(f"{where}, {job.name}: {found}\n  {changed.template['spec']} x{changed.number}")


def predict(client: Client, world: RandomWorld, batch: list[Job]) -> tuple[list[Fit], Mapping[str, PoolRoom]]:
    """The answers, and the pools that changes were made for: those that would make one job of a manifest run."""
    made = [job.selected for job in batch if job.selected]
    classes = {one.priority_class["metadata"]["name"]: one.priority_class for one in made if one.priority_class}
    snapshot = read_fit_snapshot(client, [job.objects for job in batch], classes, may_claim=True)
    pools = room_of_pools(
        with_use([one.node for one in snapshot.nodes or ()], [one.use for one in snapshot.pods or ()])
    )

    def variants(job: FitJob, is_wanted: IsWanted) -> Iterator[tuple[FitChange, FitJob]]:
        for change, other in changed_jobs(made[0], DECLARED, pools, is_wanted):
            changed = Job(other.name, job.namespace, {}, 0, selected=other)
            yield change, _fitted(snapshot, world, changed)

    fitted = [_fitted(snapshot, world, job) for job in batch]
    return fit_jobs(snapshot.cluster({}), fitted, variants if made and len(batch) == 1 else None), pools


def _fitted(snapshot: FitSnapshot, world: RandomWorld, job: Job) -> FitJob:
    """The job with what the policy of the world refuses of it. Pods of plain jobs are created without a workload."""
    fitted = snapshot.job_of(job.objects)
    if job.selected is None:
        return replace(fitted, made={})
    refused = [text for _place, text in broken_rules(world.policy, job.namespace, job.objects)] if world.policy else []
    return replace(fitted, refusals=(*fitted.refusals, *refused))


def _count_victims(
    tally: Tally, world: RandomWorld, number: int, job: Job, fit: Fit, victims: set[tuple[str, str]]
) -> None:
    """Whoever is preempted is named. Of those that are as good, the scheduler may choose others."""
    if fit.verdict == UNKNOWN or not (victims or fit.evicted):
        return
    named = set(fit.evicted)
    if bool(named) != bool(victims):
        tally.wrong.append(f"seed {world.seed}, batch {number}, {job.name}: preempts {victims}, predicted {named}")
    tally.evictions["just those" if named == victims else "others that are as good"] += 1


def _count(
    tally: Tally, world: RandomWorld, number: int, job: Job, fit: Fit, observed: str, pods: list[dict[str, object]]
) -> None:
    tally.pairs += 1
    tally.kinds[(job.selected.kind if job.selected else None) or "pods"] += 1
    tally.verdicts[fit.verdict] += 1
    if fit.verdict == UNKNOWN:
        tally.unknown[
            "; ".join(fit.undecided) or ("where the first pod goes" if fit.depends_on_place else "the batch")
        ] += 1
        return
    if expected(fit) != observed:
        nodes = [pod["spec"].get("nodeName") for pod in pods]  # type: ignore[attr-defined]
        tally.wrong.append(
            f"seed {world.seed}, batch {number}, {job.name}: predicted {fit.verdict} "
            f"(nodes {list(fit.nodes)}, {dict(fit.refusals)}, {[lack.row for lack in fit.lacks]}), "
            f"observed {observed}: nodes {nodes}, {_messages(pods)}\n  {json.dumps(job.template['spec'])} x{job.number}"
        )


def _messages(pods: list[dict[str, object]]) -> set[object]:
    """What the scheduler says of them."""
    return {
        condition.get("message")
        for pod in pods
        for condition in (pod.get("status") or {}).get("conditions", ())  # type: ignore[attr-defined]
        if condition["type"] == "PodScheduled"
    }


def expected(fit: Fit) -> str:
    if fit.verdict == RUNS_NOW:
        return NOW
    if fit.verdict == AFTER_PREEMPTION:
        return PREEMPTS
    return QUOTA if fit.verdict == AFTER_QUOTA or fit.lacks or fit.refused else STUCK
