# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Carry out a plan, one job at a time. In check mode the same road, with every write a dry run of the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..kube.client import Client
from ..kube.errors import ApiError, KubeError
from ..kube.resources import POD, resource_of
from ..labels import FIELD_MANAGER, pods_of
from .fields import ABSENT, applied_by
from .plan import WORKLOAD_KINDS, Action, Plan, Step, with_owner
from .remedies import describe, remedied

HANDOVER_MANAGER = f"{FIELD_MANAGER}-handover"


@dataclass
class Outcome:
    """What became of one job: its objects as the server answered, by kind and name."""

    plan: Plan
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def workload(self) -> dict[str, Any] | None:
        """The live workload; None after a deletion, or where check mode could not predict it."""
        return next((obj for obj in self.objects.values() if obj["kind"] in WORKLOAD_KINDS), None)


class Failed(KubeError):
    """A job could not be brought to its plan; the message says what is left.

    ``outcome`` is what was done until then: its plan has just those steps.
    """

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class _HalfDone(KubeError):
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

    def carry_out(self, plan: Plan) -> Outcome:
        """Do every step of the plan in its order. Raises Failed for what the server refuses."""
        outcome = Outcome(plan)
        started = time.monotonic()
        before, steps = len(plan.prerequisites), (*plan.prerequisites, *plan.steps)
        for number, step in enumerate(steps):
            try:
                result = self._do(step, plan, outcome)
            except KubeError as error:
                done = number + isinstance(error, _HalfDone)
                outcome.plan = replace(plan, prerequisites=steps[: min(done, before)], steps=steps[before:done])
                outcome.seconds = time.monotonic() - started
                why = remedied(error, plan) if isinstance(error, ApiError) else str(error)
                raise Failed(f"{describe(plan)}: {why}", outcome) from error
            if result is not None:
                outcome.objects[step.kind, step.name] = result
        outcome.seconds = time.monotonic() - started
        return outcome

    def _do(self, step: Step, plan: Plan, outcome: Outcome) -> dict[str, Any] | None:
        if step.action is Action.UNCHANGED:
            return step.live
        if step.action is Action.DELETE:
            self._delete(step, plan)
            return None
        step = self._with_owner(step, outcome)
        if step.action is Action.RECREATE:
            return self._recreate(step, plan)
        if step.action is Action.CREATE and step.live:
            if self.check_mode:
                return None  # The server would answer for the object that is on its way out.
            self._wait_until_gone(step)
        if step.action is Action.UPDATE:
            self._hand_over_replicas(step)
        return self._apply(step, plan)

    def _apply(self, step: Step, plan: Plan) -> dict[str, Any] | None:
        try:
            return self.client.apply(step.desired, dry_run=self.check_mode, force=self.force_conflicts)
        except ApiError as error:
            if error.is_field_conflict and _is_takeback(error, plan):
                return self.client.apply(step.desired, dry_run=self.check_mode, force=True)
            if self.check_mode and error.is_forbidden:
                # A dry run needs the right to write; the plan itself needed only reading.
                self.warn(f"{describe(plan)}: not validated by the server, {error.message}")
                return None
            raise

    def _recreate(self, step: Step, plan: Plan) -> dict[str, Any] | None:
        """Delete, wait until it is gone, create (proved to be valid before); put the old one back when that fails."""
        if self.check_mode:
            return None
        former = resource_of(step.live)
        self.client.delete(former, step.live["metadata"], propagation="Foreground", grace_seconds=self.grace_seconds)
        try:
            self._wait_until_gone(step)
        except KubeError as error:
            raise _HalfDone(str(error)) from error
        try:
            return self._apply(step, plan)
        except KubeError as error:
            raise _HalfDone(f"{error}. {self._restore(step.live)}") from error

    def _restore(self, live: dict[str, Any]) -> str:
        try:
            self.client.apply(applied_by(FIELD_MANAGER, live))
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
        """Poll until the live object of the step is no more (or another has taken its name)."""
        metadata = step.live["metadata"]
        deadline = time.monotonic() + self.gone_timeout
        delay = 0.1
        while True:
            now = self.client.get(resource_of(step.live), metadata.get("namespace"), metadata["name"])
            if now is None or now["metadata"]["uid"] != metadata["uid"]:
                return
            if time.monotonic() > deadline:
                raise KubeError(
                    f"{step.live['kind']} {metadata['name']} was deleted and is still terminating after "
                    f"{self.gone_timeout:.0f} s, so its successor was not created. Run the task again once its pods "
                    f"are gone, or raise wait_timeout."
                )
            self.sleep(delay)
            delay = min(delay * 1.5, 2.0)

    def _with_owner(self, step: Step, outcome: Outcome) -> Step:
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


def _is_takeback(error: ApiError, plan: Plan) -> bool:
    """Only ``replicas`` is contested, and by an autoscaler that this very plan removes, or by our own hand-over to one
    that is gone (it holds the value on, if no autoscaler has ever changed it)."""
    removes_autoscaler = any(
        step.action is Action.DELETE and step.kind == "HorizontalPodAutoscaler" for step in plan.steps
    )
    return all(
        cause.field == ".spec.replicas" and (removes_autoscaler or f'"{HANDOVER_MANAGER}"' in cause.message)
        for cause in error.causes
    )
