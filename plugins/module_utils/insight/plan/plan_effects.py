# SPDX-License-Identifier: BSD-2-Clause
"""What a plan does to the pods of jobs: which end, what of their work is lost, which GPUs they give and take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...accelerators.catalog import whole_devices
from ...cluster.nodes import devices_of
from ...cluster.pod_times import Hold, hold_of
from ...cluster.read_jobs import JobId
from ...cluster.related import is_unfinished, own_pods
from ...cluster.status import ENDED, is_paused, pods_wanted, status_of
from ...engine.changes import resource_result
from ...engine.plan import WORKLOAD_KINDS, Action, Plan, Step
from ...kube.resources import Object
from ...manifest.problems import enumerated
from ...quantity import parse
from ..directory.directory_plan import PlannedManifest
from ..fit.fit_rows import CREATED_FIRST
from ..fit.verdicts import AFTER_PREEMPTION, AFTER_QUOTA, NOW, UNKNOWN

# What these have in memory is gone with their pods. A service has none, and its pods are replaced one after the other.
_LOSE_WORK = ("training", "notebook")


@dataclass(frozen=True)
class PlanEffect:
    """What is done to one manifest's objects, and to the pods of a job.

    ``ending`` are the uids of the pods that end. ``placed`` is where the new ones fit, by node; ``unplaced`` are GPUs
    of new pods whose node is not known. ``gpus_after`` is what the pods hold then, where it is known that they run;
    ``gpus_requested`` and ``gpus_wanted`` are what they request before and after, also without a node.
    ``gpus_counted`` is that without the pods that a quota or the server refuses.
    """

    manifest: PlannedManifest
    pods_before: int = 0
    pods_after: int = 0
    gpus_before: int = 0
    gpus_after: int = 0
    gpus_requested: int = 0
    gpus_wanted: int = 0
    gpus_counted: int = 0
    ending: frozenset[str] = frozenset()
    hours_lost: float = 0.0
    gpu_hours_lost: float = 0.0
    stops: str = ""
    placed: Mapping[str, int] = field(default_factory=dict)
    unplaced: int = 0

    @property
    def restarts(self) -> bool:
        """Whether pods end and others take their place."""
        return bool(self.ending) and self.pods_after > self.pods_before - len(self.ending)

    @property
    def row(self) -> dict[str, Any]:
        manifest, plan = self.manifest, self.manifest.plan
        fit = manifest.fit or {}
        reason = fit.get("reason") or ""
        steps = [step for step in (*plan.prerequisites, *plan.steps) if step.action is not Action.UNCHANGED]
        return {
            "kind": manifest.kind,
            "namespace": (manifest.namespace or None) if manifest.kind != "pool" else None,
            "name": manifest.name,
            "action": str(plan.action),
            "restarts": self.restarts,
            "pods_before": self.pods_before,
            "pods_after": self.pods_after,
            "pods_ending": len(self.ending),
            "hours_lost": round(self.hours_lost, 2),
            "gpu_hours_lost": round(self.gpu_hours_lost, 2),
            "gpus_before": self.gpus_before,
            "gpus_after": self.gpus_after,
            "gpus_wanted": self.gpus_wanted,
            "stops": self.stops or None,
            "resources": [resource_result(step) for step in steps],
            "verdict": fit.get("verdict"),
            "reason": reason if fit.get("verdict") not in (None, NOW) or CREATED_FIRST in reason else None,
            "hint": fit.get("hint"),
            "preempts": [f"{one['namespace']}/{one['name']}" for one in fit.get("preempts") or ()],
            "note": plan.kept or (plan.ended.reason if plan.ended else "") or None,
            "problem": manifest.problem or None,
        }


def plan_effect(manifest: PlannedManifest, pods: Iterable[Object], now: float) -> PlanEffect:
    """What a plan does to the pods of its job; ``pods`` are none for a pool, a quota or a priority."""
    step = _step_of_workload(manifest)
    if step is None:
        return PlanEffect(manifest)
    live = own_pods(step.live, pods) if step.live else []
    holding = {str(pod["metadata"]["uid"]): hold_of(pod) for pod in live if is_unfinished(pod)}
    requested = {uid: whole_devices(hold.amounts) for uid, hold in holding.items()}
    held = {uid: gpus for uid, gpus in requested.items() if holding[uid].node}
    number, gpus, asked = len(holding), sum(held.values()), sum(requested.values())
    wanted = asked_for = _wanted(manifest.plan, step, len(holding))
    each = _gpus_of_pod(step.desired or step.live)
    if step.action in (Action.UNCHANGED, Action.ANNOTATE) or manifest.problem:
        return PlanEffect(manifest, number, number, gpus, gpus, asked, asked, asked)
    fit = manifest.fit or {}
    ending = _ending_pods(step, list(holding), wanted)
    room = {one["node"]: one["pods"] for one in fit.get("nodes") or ()}
    rollout = fit.get("rollout")
    if rollout:  # It does not get through: some of the old pods serve on, and some wait.
        ended = max(0, len(held) - rollout["old"]) + max(0, number - len(held) - rollout["old_waiting"])
        ending = sorted(holding, key=held.__contains__)[:ended]
        wanted = sum(rollout.values()) + sum(room.values())
    lost = [holding[uid] for uid in ending if manifest.kind in _LOSE_WORK]
    if fit.get("quotas") or fit.get("verdict") == AFTER_QUOTA:
        wanted = min(wanted, max(len(holding) - len(ending), _admitted_pods(fit)))
    starting = wanted - (len(holding) - len(ending))
    if rollout:
        starting = min(starting, sum(room.values()))
    elif fit.get("verdict") not in (None, NOW, AFTER_PREEMPTION, UNKNOWN):  # Some may find room all the same.
        starting = min(starting, max(0, sum(room.values()) - (len(holding) - len(ending))))
    taken = max(0, starting) * each
    # Those that stay have their nodes.
    placed = {node: number * each for node, number in room.items()} if len(ending) == len(holding) and taken else {}
    stays = sum(amount for uid, amount in held.items() if uid not in ending)
    kept = sum(amount for uid, amount in requested.items() if uid not in ending)
    return PlanEffect(
        manifest,
        pods_before=number,
        pods_after=wanted,
        gpus_before=gpus,
        gpus_after=stays + taken,
        gpus_requested=asked,
        gpus_wanted=asked_for * each,
        gpus_counted=kept + max(0, wanted - (len(holding) - len(ending))) * each,
        ending=frozenset(ending),
        hours_lost=max((_held_hours(hold, now) for hold in lost), default=0.0),
        gpu_hours_lost=sum(_held_hours(hold, now) * whole_devices(hold.amounts) for hold in lost),
        stops=manifest.plan.stops,
        placed=placed,
        unplaced=max(0, taken - sum(placed.values())),
    )


def with_preemptions(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, where one says so of a job that another one preempts: its numbers are those of its own change."""
    rows = list(rows)
    by: dict[str, list[str]] = {}
    for row in rows:
        for name in row["preempts"]:
            by.setdefault(name, []).append(f"{row['namespace']}/{row['name']}")

    def note(row: Mapping[str, Any]) -> str | None:
        others = by.get(f"{row['namespace']}/{row['name']}")
        preempted = f"It is preempted by {enumerated(others, 'and')}, which this plan starts." if others else None
        return " ".join(filter(None, (row["note"], preempted))) or None

    return [{**row, "note": note(row)} for row in rows]


def _admitted_pods(fit: Mapping[str, Any]) -> int:
    """How many pods the quotas of the job admit, running ones included: each pod is judged when it is created."""
    number = int(fit.get("pods_wanted") or 0)
    amounts = ([parse(lack[name]).value for name in ("requested", "used", "hard")] for lack in fit.get("quotas") or ())
    return max(0, min((int(number * (hard - used) / requested) for requested, used, hard in amounts), default=0))


def jobs_with_pods(manifests: Iterable[PlannedManifest]) -> list[JobId]:
    """The jobs whose workloads exist, and whose pods matter."""
    return [
        (each.namespace, each.name) for each in manifests if (step := _step_of_workload(each)) is not None and step.live
    ]


def _step_of_workload(manifest: PlannedManifest) -> Step | None:
    steps = manifest.plan.steps
    return steps[0] if steps and steps[0].kind in WORKLOAD_KINDS else None


def _wanted(plan: Plan, step: Step, present: int) -> int:
    """The pods after the plan."""
    if step.action is Action.DELETE:
        return 0
    workload = step.desired or step.live
    if step.action is Action.UNCHANGED or (step.live and status_of(step.live) in ENDED and not step.replaces):
        return present
    if is_paused({"status": {}, **workload}):
        return 0
    autoscalers = (each.desired for each in plan.steps if each.kind == "HorizontalPodAutoscaler" and each.desired)
    least = next((int(obj["spec"].get("minReplicas", 1)) for obj in autoscalers), None)
    if least is not None:  # The server gives one replica to a workload that says nothing.
        return max(least, pods_wanted(step.live) if step.live and not step.replaces else 1)
    return pods_wanted(workload)


def _ending_pods(step: Step, present: list[str], wanted: int) -> list[str]:
    """The pods that end. Where only some do, the controller chooses which: only their number is certain."""
    if step.action is Action.DELETE or step.replaces:
        return present
    if step.kind != "Job" and step.changes_pods:  # A new template replaces each; that of a running Job is immutable.
        return present
    return present[max(0, wanted) :] if wanted < len(present) else []


def _gpus_of_pod(workload: Object) -> int:
    template = workload["spec"]["template"]
    return whole_devices(devices_of({"metadata": template.get("metadata") or {}, "spec": template["spec"]}))


def _held_hours(hold: Hold, now: float) -> float:
    return hold.seconds(0.0, now) / 3600
