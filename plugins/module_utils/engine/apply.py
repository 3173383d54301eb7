# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Carry out plans: the steps of one in their order, many plans side by side.

In check mode it is the same road, with every write a dry run of the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently_until
from ..kube.errors import ApiError, ConnectionProblem, KubeError
from ..kube.resources import POD, resource_of
from ..labels import FIELD_MANAGER, pods_of
from ..wait.polling import backoff, poll
from .fields import ABSENT, applied_by
from .hints import describe, with_hint
from .merge_patch import patch
from .pause import stay_paused
from .plan import WORKLOAD_KINDS, Action, Plan, Step, with_owner

HANDOVER_MANAGER = f"{FIELD_MANAGER}-handover"


@dataclass
class ApplyResult:
    """What became of one job: its objects as the server answered, by kind and name.

    With an ``error`` its plan has just the steps that were done until then. ``lost_server``: others would fare alike.
    """

    plan: Plan
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None
    server_unreachable: bool = False
    warnings: list[str] = field(default_factory=list)

    def take(self, prerequisite: ApplyResult) -> None:
        """Count what was made before this plan's steps as part of it."""
        made = prerequisite.plan.prerequisites
        self.plan = replace(self.plan, prerequisites=(*self.plan.prerequisites, *made))
        self.objects = {**prerequisite.objects, **self.objects}
        self.warnings = [*prerequisite.warnings, *self.warnings]

    @property
    def workload(self) -> dict[str, Any] | None:
        """The live workload; None after a deletion, or where check mode could not predict it."""
        return next((obj for obj in self.objects.values() if obj["kind"] in WORKLOAD_KINDS), None)


class ApplyFailed(KubeError):
    """A job could not be brought to its plan; ``outcome`` is what was done until then, and its error."""

    def __init__(self, outcome: ApplyResult) -> None:
        super().__init__(f"{describe(outcome.plan)}: {outcome.error}")
        self.outcome = outcome


class _PartiallyApplied(KubeError):
    """A step has failed and has changed the cluster all the same."""


@dataclass(frozen=True)
class Executor:
    """How plans are carried out. ``gone_timeout`` is the number of seconds that a deletion may take when it must finish
    before the next step; ``grace_seconds`` of 0 kills pods at once."""

    client: Client
    check_mode: bool
    gone_timeout: float
    warn: Callable[[str], None]
    force_conflicts: bool = False
    grace_seconds: int | None = None
    sleep: Callable[[float], None] = time.sleep

    def apply_plan(self, plan: Plan) -> ApplyResult:
        """Do every step of the plan in its order. Raises Failed for what the server refuses."""
        outcome = self._apply_steps(plan)
        self._tell([outcome])
        if outcome.error is not None:
            raise ApplyFailed(outcome)
        return outcome

    def apply_plans(self, plans: Sequence[Plan], *, keep_going: bool) -> list[ApplyResult | None]:
        """Plans that do not depend on each other, side by side; their outcomes in the order of the plans.

        What several of them need is made once, before, and counts as the first one's. Unless told to keep going,
        nothing new is begun after the first failure; a lost server ends it in any case. None stands for plans that
        were not begun.
        """
        shared = self._make_prerequisites(plans)

        def apply_plan(plan: Plan) -> ApplyResult:
            needed = [shared[step.kind, step.name] for step in plan.prerequisites]
            plan = replace(plan, prerequisites=())
            missing = next((made for made in needed if made.error is not None), None)
            if missing:
                return ApplyResult(
                    plan.with_steps(()), error=missing.error, server_unreachable=missing.server_unreachable
                )
            return self._apply_steps(plan)

        def stops(outcome: ApplyResult) -> bool:
            return outcome.server_unreachable or (outcome.error is not None and not keep_going)

        outcomes = run_concurrently_until(stops, apply_plan, plans, self.client.concurrency)
        for plan, outcome in zip(plans, outcomes, strict=True):
            for step in plan.prerequisites if outcome else ():
                made = shared.pop((step.kind, step.name), None)
                if outcome and made:
                    outcome.take(made)
        self._tell(outcome for outcome in outcomes if outcome)
        return outcomes

    def _make_prerequisites(self, plans: Iterable[Plan]) -> dict[tuple[str, str], ApplyResult]:
        """What became of each object that plans need before their steps, by kind and name."""
        made: dict[tuple[str, str], ApplyResult] = {}
        for plan in plans:
            for step in plan.prerequisites:
                if (step.kind, step.name) not in made:
                    alone = replace(plan, prerequisites=(step,), steps=())
                    made[step.kind, step.name] = self._apply_steps(alone)
        return made

    def _tell(self, outcomes: Iterable[ApplyResult]) -> None:
        for outcome in outcomes:
            for warning in outcome.warnings:
                self.warn(warning)

    def _apply_steps(self, plan: Plan) -> ApplyResult:
        """Do the steps of the plan until one of them fails."""
        outcome = ApplyResult(plan, error=plan.blocker)
        started = time.monotonic()
        before, steps = len(plan.prerequisites), (*plan.prerequisites, *plan.steps)
        for number, step in enumerate(steps):
            try:
                result = self._do(step, plan, outcome)
            except KubeError as error:
                done = number + isinstance(error, _PartiallyApplied)
                outcome.plan = replace(plan, prerequisites=steps[: min(done, before)], steps=steps[before:done])
                outcome.error = with_hint(error, plan) if isinstance(error, ApiError) else str(error)
                outcome.server_unreachable = isinstance(error, ConnectionProblem)
                break
            if result is not None:
                outcome.objects[step.kind, step.name] = result
        outcome.seconds = time.monotonic() - started
        return outcome

    def _do(self, step: Step, plan: Plan, outcome: ApplyResult) -> dict[str, Any] | None:
        if step.action is Action.UNCHANGED:
            return step.live
        if step.action is Action.DELETE:
            self._delete(step, plan)
            return None
        if step.patches:
            return self._validated(lambda: patch(self.client, step, dry_run=self.check_mode), plan, outcome)
        step = self._with_owner(step, outcome)
        if step.replaces:
            return self._recreate(step, plan, outcome)
        if step.action is Action.CREATE and step.live:
            if self.check_mode:
                return None  # The server would answer for the object that is on its way out.
            self._wait_until_gone(step)
        if step.action is Action.UPDATE:
            self._hand_over_replicas(step)
        return self._apply(step, plan, outcome)

    def _apply(self, step: Step, plan: Plan, outcome: ApplyResult) -> dict[str, Any] | None:
        def write() -> dict[str, Any]:
            try:
                return self.client.apply(step.desired, dry_run=self.check_mode, force=self.force_conflicts)
            except ApiError as error:
                if error.is_field_conflict and _is_takeback(error, plan):
                    return self.client.apply(step.desired, dry_run=self.check_mode, force=True)
                raise

        return self._validated(write, plan, outcome)

    def _validated(
        self, write: Callable[[], dict[str, Any]], plan: Plan, outcome: ApplyResult
    ) -> dict[str, Any] | None:
        """The server's answer to a write; None, with a warning, for a dry run that only tells that we may not write."""
        try:
            return write()
        except ApiError as error:
            if self.check_mode and (error.is_forbidden or error.is_missing_namespace):
                # A dry run needs the right to write; the plan itself needed only reading. And the namespace may be one
                # that an earlier task of the same check run would have made.
                outcome.warnings.append(f"{describe(plan)}: not validated by the server, {error.message}")
                return None
            raise

    def _recreate(self, step: Step, plan: Plan, outcome: ApplyResult) -> dict[str, Any] | None:
        """Delete, wait until it is gone, create (proved to be valid before); put the old one back when that fails."""
        if self.check_mode:
            return None
        former = resource_of(step.live)
        self.client.delete(former, step.live["metadata"], propagation="Foreground", grace_seconds=self.grace_seconds)
        try:
            self._wait_until_gone(step)
        except KubeError as error:
            raise _PartiallyApplied(str(error)) from error
        try:
            return self._apply(step, plan, outcome)
        except KubeError as error:
            raise _PartiallyApplied(f"{error}. {self._restore(step.live, plan)}") from error

    def _restore(self, live: dict[str, Any], plan: Plan) -> str:
        """Make the former workload again, and what it owned: the garbage collector has taken that along."""
        try:
            # A pause is not among what was applied.
            former = self.client.apply(stay_paused(applied_by(FIELD_MANAGER, live), live))
            for owned in (step.live for step in plan.steps if _is_owned(step.live, live)):
                applied = applied_by(FIELD_MANAGER, owned)
                self.client.apply(with_owner(applied, former, former["metadata"]["uid"]))
        except KubeError as error:
            return f"The former {live['kind']} was deleted and could not be put back: {error}"
        return f"The former {live['kind']} was put back."

    def _delete(self, step: Step, plan: Plan) -> None:
        resource = resource_of(step.live)
        self.client.delete(
            resource,
            step.live["metadata"],
            propagation="Background",
            grace_seconds=self.grace_seconds,
            dry_run=self.check_mode,
        )
        if step.kind in WORKLOAD_KINDS and self.grace_seconds is not None and not self.check_mode:
            # The garbage collector would grant the pods their own grace period.
            self.client.delete_collection(
                POD, plan.namespace, labels=pods_of(plan.name), grace_seconds=self.grace_seconds
            )

    def _wait_until_gone(self, step: Step) -> None:
        """Poll until the live object of the step does not exist any more. Another one of its name may."""
        resource, metadata = resource_of(step.live), step.live["metadata"]

        def is_gone() -> bool:
            now = self.client.get(resource, metadata.get("namespace"), metadata["name"])
            return now is None or now["metadata"]["uid"] != metadata["uid"]

        if not poll(is_gone, self.gone_timeout, backoff(0.1, 1.5, 2.0), sleep=self.sleep):
            raise KubeError(
                f"{step.live['kind']} {metadata['name']} was deleted and is still terminating after "
                f"{self.gone_timeout:.0f} s, so its successor was not created. Run the task again once its pods are "
                f"gone, or raise wait_timeout."
            )

    def _with_owner(self, step: Step, outcome: ApplyResult) -> Step:
        """Point a training's dependents at its Job, now that the Job has a uid (a dry run only makes one up)."""
        workload = outcome.workload
        if not step.owned or workload is None or self.check_mode:
            return step
        owned = with_owner(step.desired, workload, workload["metadata"]["uid"])
        return Step(step.action, owned, step.live, step.changes, owned=True)

    def _hand_over_replicas(self, step: Step) -> None:
        """Before an autoscaler takes over ``replicas``, give the field another holder.

        Otherwise the server would reset it to 1 when we stop applying it (Kubernetes documentation, Server-Side Apply,
        "Transferring ownership").
        """
        for change in step.changes:
            if change.path == ("spec", "replicas") and change.after is ABSENT and not self.check_mode:
                metadata = {name: step.live["metadata"][name] for name in ("name", "namespace")}
                held = {
                    "apiVersion": step.live["apiVersion"],
                    "kind": step.live["kind"],
                    "metadata": metadata,
                    "spec": {"replicas": change.before},
                }
                self.client.apply(held, manager=HANDOVER_MANAGER)


def _is_owned(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    references = obj.get("metadata", {}).get("ownerReferences") or ()
    return any(reference["uid"] == owner["metadata"]["uid"] for reference in references)


def _is_takeback(error: ApiError, plan: Plan) -> bool:
    """All that is contested is ours to take.

    That is what we wrote ourselves without applying it (a paused, resumed or scaled job), ``replicas`` of an autoscaler
    that this very plan removes, and ``replicas`` of our own hand-over to one that is gone (it holds the value on, if no
    autoscaler has ever changed it).
    """
    removes_autoscaler = any(
        step.action is Action.DELETE and step.kind == "HorizontalPodAutoscaler" for step in plan.steps
    )
    ours = (f'"{FIELD_MANAGER}"', f'"{HANDOVER_MANAGER}"')
    return all(
        any(manager in cause.message for manager in ours) or (cause.field == ".spec.replicas" and removes_autoscaler)
        for cause in error.causes
    )
