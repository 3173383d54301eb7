# SPDX-License-Identifier: BSD-2-Clause
"""Apply plans: the steps of one in order, many plans concurrently. In check mode, every write is a dry run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..cluster.status import stay_paused
from ..kube.client import Client
from ..kube.concurrency import run_concurrently_until
from ..kube.errors import ApiError, ConnectionProblem, KubeError
from ..kube.resources import POD, resource_of
from ..labels import FIELD_MANAGER, pods_of
from ..wait.polling import backoff, poll
from .fields import ABSENT, Change, applied_by, identity_of, value_at
from .plan import WORKLOAD_KINDS, Action, Plan, Step, describe, with_hint, with_owner

HANDOVER_MANAGER = f"{FIELD_MANAGER}-handover"
_PATCH_TRIES = 5


@dataclass
class ApplyResult:
    """One applied plan: its objects as the server returned them, by kind and name, and the seconds it took.

    With an ``error``, ``plan`` only has the steps done before it. ``server_unreachable``: other plans would fail too.
    """

    plan: Plan
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None
    server_unreachable: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def workload(self) -> dict[str, Any] | None:
        """The live workload; None after a deletion, or where check mode could not predict it."""
        return next((obj for obj in self.objects.values() if obj["kind"] in WORKLOAD_KINDS), None)


class ApplyFailed(KubeError):
    """A plan could not be applied; ``result`` has the steps done before the error, and the error."""

    def __init__(self, result: ApplyResult) -> None:
        super().__init__(f"{describe(result.plan)}: {result.error}")
        self.result = result


class _PartiallyApplied(KubeError):
    """A step has failed after it had changed the cluster."""


@dataclass(frozen=True)
class Executor:
    """Applies plans. ``gone_timeout``: the seconds that a deletion may take if the next step depends on it.
    ``grace_seconds``: the grace period of deletions; 0 kills pods at once. ``before_replacing`` is called before a
    workload is deleted to be created again, from the thread of its plan; what it raises prevents the deletion."""

    client: Client
    check_mode: bool
    gone_timeout: float
    warn: Callable[[str], None]
    force_conflicts: bool = False
    grace_seconds: int | None = None
    before_replacing: Callable[[Plan], None] = lambda plan: None
    sleep: Callable[[float], None] = time.sleep

    def apply_plan(self, plan: Plan) -> ApplyResult:
        """Apply every step of the plan in order. Raises ApplyFailed."""
        result = self._apply_steps(plan)
        for warning in result.warnings:
            self.warn(warning)
        if result.error is not None:
            raise ApplyFailed(result)
        return result

    def apply_plans(self, plans: Sequence[Plan], *, keep_going: bool) -> list[ApplyResult | None]:
        """Apply independent plans concurrently; the results have the order of the plans, None for those not begun.

        Shared prerequisites are made once, first, and count for the first plan that needs them. Unless ``keep_going``,
        no plan is begun after the first failure; an unreachable server always ends it.
        """
        shared: dict[tuple[str, str], ApplyResult] = {}
        for plan in plans:
            for step in plan.prerequisites:
                if (step.kind, step.name) not in shared:
                    shared[step.kind, step.name] = self._apply_steps(replace(plan, prerequisites=(step,), steps=()))

        def apply_plan(plan: Plan) -> ApplyResult:
            needed = [shared[step.kind, step.name] for step in plan.prerequisites]
            failed = next((result for result in needed if result.error is not None), None)
            if failed:
                none = replace(plan, prerequisites=(), steps=())
                return ApplyResult(none, error=failed.error, server_unreachable=failed.server_unreachable)
            return self._apply_steps(replace(plan, prerequisites=()))

        def stops(result: ApplyResult) -> bool:
            return result.server_unreachable or (result.error is not None and not keep_going)

        results = run_concurrently_until(stops, apply_plan, plans, self.client.concurrency)
        for plan, result in zip(plans, results, strict=True):
            if result is None:
                continue
            for step in plan.prerequisites:
                if made := shared.pop((step.kind, step.name), None):
                    prerequisites = (*result.plan.prerequisites, *made.plan.prerequisites)
                    result.plan = replace(result.plan, prerequisites=prerequisites)
                    result.objects = {**made.objects, **result.objects}
                    result.warnings = [*made.warnings, *result.warnings]
            for warning in result.warnings:
                self.warn(warning)
        return results

    def _apply_steps(self, plan: Plan) -> ApplyResult:
        """Apply the steps of the plan until one of them fails."""
        result = ApplyResult(plan, error=plan.blocker)
        started = time.monotonic()
        before, steps = len(plan.prerequisites), (*plan.prerequisites, *plan.steps)
        for number, step in enumerate(steps):
            try:
                obj = self._apply_step(step, plan, result)
            except KubeError as error:
                done = number + isinstance(error, _PartiallyApplied)
                result.plan = replace(plan, prerequisites=steps[: min(done, before)], steps=steps[before:done])
                result.error = with_hint(error, plan) if isinstance(error, ApiError) else str(error)
                result.server_unreachable = isinstance(error, ConnectionProblem)
                break
            if obj is not None:
                result.objects[step.kind, step.name] = obj
        result.seconds = time.monotonic() - started
        return result

    def _apply_step(self, step: Step, plan: Plan, result: ApplyResult) -> dict[str, Any] | None:
        if step.action is Action.UNCHANGED:
            return step.live
        if step.action is Action.DELETE:
            self._delete(step, plan)
            return None
        if step.owned and result.workload and not self.check_mode:  # In check mode, the Job has no real uid.
            owner = result.workload
            step = replace(step, desired=with_owner(step.desired, owner, owner["metadata"]["uid"]))
        if step.replaces:
            return self._recreate(step, plan, result)
        if step.action is Action.CREATE and step.live:
            if self.check_mode:
                return None  # A dry run would be about the object that is terminating.
            self._wait_until_gone(step)
        if step.action is Action.UPDATE:
            self._hand_over_replicas(step)
        return self._write(step, plan, result)

    def _write(self, step: Step, plan: Plan, result: ApplyResult) -> dict[str, Any] | None:
        """The written object; None, with a warning, if a dry run cannot validate the write."""
        try:
            if step.patches:
                return patch(self.client, step, dry_run=self.check_mode)
            return self._apply(step, plan)
        except ApiError as error:
            if self.check_mode and (error.is_forbidden or error.is_missing_namespace):
                # A dry run needs permission to write, a plan only to read. And an earlier task of this check run may be
                # the one that creates the namespace.
                result.warnings.append(f"{describe(plan)}: not validated by the server: {error.message}")
                return None
            raise

    def _apply(self, step: Step, plan: Plan) -> dict[str, Any]:
        try:
            return self.client.apply(step.desired, dry_run=self.check_mode, force=self.force_conflicts)
        except ApiError as error:
            if error.is_field_conflict and _is_own_conflict(error, plan):
                return self.client.apply(step.desired, dry_run=self.check_mode, force=True)
            raise

    def _recreate(self, step: Step, plan: Plan, result: ApplyResult) -> dict[str, Any] | None:
        """Delete, wait for the deletion, create (validated before); restore the former object if that fails."""
        if self.check_mode:
            return None
        self.before_replacing(plan)
        former = resource_of(step.live)
        self.client.delete(former, step.live["metadata"], propagation="Foreground", grace_seconds=self.grace_seconds)
        try:
            self._wait_until_gone(step)
        except KubeError as error:
            raise _PartiallyApplied(str(error)) from error
        try:
            return self._write(step, plan, result)
        except KubeError as error:
            raise _PartiallyApplied(f"{error}. {self._restore(step.live, plan)}") from error

    def _restore(self, live: dict[str, Any], plan: Plan) -> str:
        """Create the former workload again, and what it owned: the garbage collector has deleted that as well."""
        try:
            # A pause is not part of what was applied.
            former = self.client.apply(stay_paused(applied_by(FIELD_MANAGER, live), live))
            for dependent in (step.live for step in plan.steps):
                owners = dependent.get("metadata", {}).get("ownerReferences") or ()
                if any(owner["uid"] == live["metadata"]["uid"] for owner in owners):
                    applied = applied_by(FIELD_MANAGER, dependent)
                    self.client.apply(with_owner(applied, former, former["metadata"]["uid"]))
        except KubeError as error:
            return f"The former {live['kind']} was deleted and could not be restored: {error}"
        return f"The former {live['kind']} was restored."

    def _delete(self, step: Step, plan: Plan) -> None:
        resource, metadata, grace = resource_of(step.live), step.live["metadata"], self.grace_seconds
        self.client.delete(resource, metadata, propagation="Background", grace_seconds=grace, dry_run=self.check_mode)
        if step.kind in WORKLOAD_KINDS and grace is not None and not self.check_mode:
            # Deleted by the garbage collector, the pods would keep their own grace period.
            self.client.delete_collection(POD, plan.namespace, labels=pods_of(plan.name), grace_seconds=grace)

    def _wait_until_gone(self, step: Step) -> None:
        """Wait until the live object of the step is gone; a new one may have its name."""
        resource, metadata = resource_of(step.live), step.live["metadata"]

        def is_gone() -> bool:
            now = self.client.get(resource, metadata.get("namespace"), metadata["name"])
            return now is None or now["metadata"]["uid"] != metadata["uid"]

        if not poll(is_gone, self.gone_timeout, backoff(0.1, 1.5, 2.0), sleep=self.sleep):
            raise KubeError(
                f"{step.live['kind']} {metadata['name']} was deleted and is still terminating after "
                f"{self.gone_timeout:.0f} s; its replacement was not created. Run the task again once its pods are "
                f"gone, or raise wait_timeout."
            )

    def _hand_over_replicas(self, step: Step) -> None:
        """Before an autoscaler takes over ``replicas``, give the field to another field manager.

        Otherwise the server resets it to 1 when we stop applying it (Kubernetes documentation, Server-Side Apply,
        "Transferring ownership").
        """
        for change in step.changes:
            if change.path == ("spec", "replicas") and change.after is ABSENT and not self.check_mode:
                held = {**identity_of(step.live), "spec": {"replicas": change.before}}
                self.client.apply(held, manager=HANDOVER_MANAGER)


def _is_own_conflict(error: ApiError, plan: Plan) -> bool:
    """Whether gpuctl itself holds all fields in conflict.

    These are fields that we patched (a paused, resumed or scaled job), ``replicas`` of an autoscaler that this plan
    deletes, and ``replicas`` that we handed over to one that no longer exists.
    """
    deleted = {step.kind for step in plan.steps if step.action is Action.DELETE}
    own = (f'"{FIELD_MANAGER}"', f'"{HANDOVER_MANAGER}"')
    return all(
        any(manager in cause.message for manager in own)
        or (cause.field == ".spec.replicas" and "HorizontalPodAutoscaler" in deleted)
        for cause in error.causes
    )


def patch(client: Client, step: Step, *, dry_run: bool) -> dict[str, Any]:
    """The live object with the changes of the step.

    The patch is guarded by the resourceVersion. Controllers change that all the time, so after a conflict only the
    fields of the changes are compared. Raises KubeError if they differ from what the plan was made for.
    """
    live = step.live
    for _try in range(_PATCH_TRIES):
        try:
            return client.merge_patch(resource_of(live), live["metadata"], _merge_patch(step.changes), dry_run=dry_run)
        except ApiError as error:
            if error.status != 409:
                raise
            problem = error
        now = client.get(resource_of(live), live["metadata"].get("namespace"), live["metadata"]["name"])
        if now is None or now["metadata"]["uid"] != live["metadata"]["uid"]:
            raise KubeError(f"{step.kind} {step.name} was deleted in the meantime. Run the task again.")
        if all(value_at(now, change.path) == change.after for change in step.changes):
            return now  # Our own write, whose response was lost; or someone else made the same change.
        for change in step.changes:
            if value_at(now, change.path) != change.before:
                raise KubeError(
                    f"{change} of {step.kind} {step.name} was changed by someone else in the meantime. "
                    f"Run the task again."
                )
        live = now
    raise problem


def _merge_patch(changes: Iterable[Change]) -> dict[str, Any]:
    """A JSON merge patch (RFC 7386): null removes a field."""
    root: dict[Any, Any] = {}
    for change in changes:
        node = root
        for name in change.path[:-1]:
            node = node.setdefault(name, {})
        node[change.path[-1]] = None if change.after is ABSENT else change.after
    return root
