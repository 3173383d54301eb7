# SPDX-License-Identifier: BSD-2-Clause
"""Apply plans: the steps of one in order, many plans concurrently. In check mode, every write is a dry run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..cluster.status import stay_paused, why_terminating
from ..kube.client import Client
from ..kube.concurrency import run_concurrently_until
from ..kube.errors import ApiError, ConcurrentChange, ConnectionProblem, KubeError, as_sentence
from ..kube.resources import NAMESPACE, POD, UNFINISHED, resource_of
from ..labels import FIELD_MANAGER, SUBMITTED_BY, pods_of
from ..manifest.problems import abridged
from ..reporter import Counter, Report, silent
from ..wait.polling import backoff, poll
from .fields import applied_by
from .guarded_write import concurrent_change, guarded_apply, guarded_delete, guarded_patch, is_as_applied
from .paths import ABSENT, identity_of
from .plan import WORKLOAD_KINDS, Action, Plan, Step, Suggest, describe, with_hint
from .planning import with_owner

_NAMED = 5  # steps in a message
HANDOVER_MANAGER = f"{FIELD_MANAGER}-handover"


@dataclass
class ApplyResult:
    """One applied plan: its objects as the server returned them, by kind and name, and the seconds it took.

    With an ``error``, ``plan`` only has the steps done before it, and one that was done partially or perhaps.
    ``server_unreachable``: other plans would fail too. ``conflict``: the error is that another run changed the same
    objects, so that a new plan may succeed.
    """

    plan: Plan
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None
    server_unreachable: bool = False
    conflict: bool = False
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

    @property
    def message(self) -> str:
        """For a task of this plan alone."""
        return str(self) if self.result.plan.changed else f"{as_sentence(self)} Nothing was changed."


class _PartiallyApplied(KubeError):
    """A step has failed for its ``__cause__`` after it had changed the cluster."""


@dataclass(frozen=True)
class Executor:
    """Applies plans. ``gone_timeout``: the seconds that a deletion may take if the next step depends on it.
    ``grace_seconds``: the grace period of deletions; 0 kills pods at once. ``before_replacing`` is called before a
    workload is deleted to be created again, from the thread of its plan; what it raises prevents the deletion.
    ``progress`` reports how far the plans are, and what one waits for. ``namespace_meant`` is for messages."""

    client: Client
    check_mode: bool
    gone_timeout: float
    warn: Callable[[str], None]
    force_conflicts: bool = False
    grace_seconds: int | None = None
    before_replacing: Callable[[Plan], None] = lambda plan: None
    progress: Report = silent
    sleep: Callable[[float], None] = time.sleep
    namespace_meant: Suggest = lambda name: None

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
            return result.server_unreachable or (result.error is not None and not result.conflict and not keep_going)

        counter = Counter(self.progress, len(plans), "job", "checked" if self.check_mode else _verb(plans))
        results = run_concurrently_until(stops, apply_plan, plans, self.client.concurrency, counter.add)
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
        done = [result for result in results if result and result.error is None and result.plan.changed]
        if done and not self.check_mode:
            from .mixtures import find_mixtures  # Here: most runs change nothing.

            mixtures = find_mixtures(self.client, [(result.plan, result.workload) for result in done], self.warn)
            for result in done:
                if problem := mixtures.get((result.plan.namespace, result.plan.name)):
                    result.error, result.conflict = str(problem), True
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
                cause = error.__cause__ if isinstance(error, _PartiallyApplied) else error
                done = number + (error is not cause or error.may_be_written)
                result.plan = replace(plan, prerequisites=steps[: min(done, before)], steps=steps[before:done])
                result.error = (
                    with_hint(error, plan, self.namespace_meant) if isinstance(error, ApiError) else str(error)
                )
                if error.may_be_written:
                    verb = "deleted" if step.action is Action.DELETE else "written"
                    result.error = (
                        f"{as_sentence(result.error)} It is not known whether {step.kind} {step.name} was {verb}."
                    )
                if not self.check_mode and (progress := _progress(plan, number)):
                    result.error = f"{as_sentence(result.error)} {progress}"
                result.server_unreachable = isinstance(cause, ConnectionProblem)
                result.conflict = isinstance(cause, ConcurrentChange)
                break
            if obj is not None:
                result.objects[step.kind, step.name] = obj
            if step.action is Action.UPDATE and not step.patches:
                from .effect import plan_after  # Here: most tasks update nothing.

                result.plan = plan_after(result.plan, step, obj)
        result.seconds = time.monotonic() - started
        return result

    def _apply_step(self, step: Step, plan: Plan, result: ApplyResult) -> dict[str, Any] | None:
        if step.action is Action.DELETE:
            self._delete(step, plan)
            return None
        owner = result.workload
        if step.owned and owner and not self.check_mode:  # In check mode, the Job has no real uid.
            step = replace(step, desired=with_owner(step.desired, owner, owner["metadata"]["uid"]))
        if owner and not self.check_mode and _is_leftover(step.live, owner):
            return self._apply_object(replace(step, live={}), plan, former=step.live)
        if step.action is Action.UNCHANGED:
            return step.live
        if step.replaces:
            return self._recreate_object(step, plan, result)
        if step.action is Action.CREATE and step.live and self.check_mode:
            return None  # A dry run would be about the object that is terminating.
        if step.action is Action.CREATE and not self.check_mode:
            self._wait_until_gone(step, plan)
            step = replace(step, live={})
        if step.action is Action.UPDATE:
            step = self._hand_over_replicas(step)
        return self._write_step(step, plan, result)

    def _write_step(self, step: Step, plan: Plan, result: ApplyResult) -> dict[str, Any] | None:
        """The written object; None, with a warning, if a dry run cannot validate the write."""
        try:
            if step.patches:
                return guarded_patch(self.client, step, dry_run=self.check_mode)
            return self._apply_object(step, plan)
        except ApiError as error:
            if self.check_mode and (error.is_forbidden or error.is_missing_namespace):
                # A dry run needs the same permission as the write, a plan only that to read (Kubernetes documentation,
                # API Concepts, "Dry-run authorization"). And an earlier task of this check run may be
                # the one that creates the namespace.
                result.warnings.append(f"{describe(plan)}: not validated by the server: {error.message}")
                return None
            raise

    def _apply_object(self, step: Step, plan: Plan, former: dict[str, Any] | None = None) -> dict[str, Any]:
        def apply(*, force: bool) -> dict[str, Any]:
            return guarded_apply(
                self.client,
                step.desired,
                step.live,
                former=former,
                force=force,
                dry_run=self.check_mode,
                sleep=self.sleep,
            )

        try:
            return apply(force=self.force_conflicts)
        except ApiError as error:
            if error.is_field_conflict and _is_own_conflict(error, plan):
                return apply(force=True)
            raise

    def _recreate_object(self, step: Step, plan: Plan, result: ApplyResult) -> dict[str, Any] | None:
        """Delete, wait for the deletion, create (validated before); restore the former object if that fails."""
        if self.check_mode:
            return None  # dry_run.py has sent the creation as a dry run; here, the name is still taken.
        kind = step.live["kind"]
        self.before_replacing(plan)
        # Foreground: the workload stays visible until its pods are gone, because their owner references have
        # blockOwnerDeletion (meta/v1/controller_ref.go). In the background, new pods could meet the old ones.
        try:
            guarded_delete(self.client, step.live, propagation="Foreground", grace_seconds=self.grace_seconds)
        except KubeError as error:
            if not error.may_be_written:
                raise
            unknown = f"It is not known whether {kind} {plan.name} was deleted, to be created again."
            raise _PartiallyApplied(f"{as_sentence(error)} {unknown} {_RUN_AGAIN}") from error
        try:
            self._wait_until_gone(step, plan)
        except ConcurrentChange as error:
            raise _PartiallyApplied(str(error)) from error
        except KubeError as error:
            not_created = f"The former {kind} was deleted, its successor was not created."
            raise _PartiallyApplied(f"{as_sentence(error)} {not_created} {_RUN_AGAIN}") from error
        try:
            return self._write_step(replace(step, live={}), plan, result)
        except ConcurrentChange as error:  # Another run has created it.
            raise _PartiallyApplied(str(error)) from error
        except KubeError as error:
            unknown = f"The former {kind} was deleted. It is not known whether its successor was created. {_RUN_AGAIN}"
            outcome = unknown if error.may_be_written else self._restore_workload(step.live, plan)
            raise _PartiallyApplied(f"{as_sentence(error)} {outcome}") from error

    def _restore_workload(self, live: dict[str, Any], plan: Plan) -> str:
        """Create the former workload again, and what it owned: the garbage collector has deleted that as well."""
        former: dict[str, Any] | None = None
        try:
            # A pause is not part of what was applied.
            former = guarded_apply(self.client, stay_paused(applied_by(FIELD_MANAGER, live), live), sleep=self.sleep)
            for dependent in (step.live for step in plan.steps):
                owners = dependent.get("metadata", {}).get("ownerReferences") or ()
                if any(owner["uid"] == live["metadata"]["uid"] for owner in owners):
                    again = with_owner(applied_by(FIELD_MANAGER, dependent), former, former["metadata"]["uid"])
                    guarded_apply(self.client, again, former=dependent, sleep=self.sleep)
        except ConcurrentChange as error:
            return str(error)
        except KubeError as error:
            outcome = "it was not restored either"
            if former:
                outcome = "it was restored without all that it owned"
            elif error.may_be_written:
                outcome = "it is not known whether it was restored"
            return (
                f"The former {live['kind']} was deleted, its successor was not created, and {outcome}: "
                f"{as_sentence(error)} {_RUN_AGAIN}"
            )
        return f"The former {live['kind']} was restored."

    def _delete(self, step: Step, plan: Plan) -> None:
        grace = self.grace_seconds
        # Background: nothing takes the name, so nothing has to wait for the pods. A wait for the deletion lists them.
        guarded_delete(self.client, step.live, propagation="Background", grace_seconds=grace, dry_run=self.check_mode)
        if step.kind in WORKLOAD_KINDS and not self.check_mode:
            try:
                self._kill_pods(plan)
            except KubeError as error:
                left = f"{step.kind} {step.name} was deleted, but its pods may take their grace period to end."
                raise _PartiallyApplied(f"{as_sentence(error)} {left}") from error

    def _kill_pods(self, plan: Plan) -> None:
        """The garbage collector would leave pods their grace period (garbagecollector/operations.go, deleteObject)."""
        if self.grace_seconds is not None:
            labels, grace = pods_of(plan.name), self.grace_seconds
            self.client.delete_collection(POD, plan.namespace, labels=labels, grace_seconds=grace)

    def _wait_until_gone(self, step: Step, plan: Plan) -> None:
        """Wait until the live object of the step is gone, and former pods; new ones may have their names."""
        if not step.live and not step.former_pods:
            return
        left = ""
        kills = step.kind in WORKLOAD_KINDS

        def is_gone() -> bool:
            nonlocal left, kills
            left = self._remaining_objects(step, plan)
            if left and kills:  # Not before it is certain that the pods are not those of another run.
                self._kill_pods(plan)
                kills = False
            if left:
                self.progress(f"{describe(plan)}: waits until its predecessor is gone: {left}")
            return not left

        if not poll(is_gone, self.gone_timeout, backoff(0.1, 1.5, 2.0), sleep=self.sleep):
            may_kill = step.kind in WORKLOAD_KINDS and self.grace_seconds is None
            at_once = ", or use O(force=true) to delete its pods at once" if may_kill else ""
            raise KubeError(
                f"still terminating after {self.gone_timeout:.0f} s: {left}. Raise O(wait_timeout), or run the task "
                f"again once it is gone{at_once}."
            )

    def _remaining_objects(self, step: Step, plan: Plan) -> str:
        """What is not gone yet: the live object, else former pods and their nodes. Raises ConcurrentChange."""
        awaited = step.live or step.desired
        metadata = awaited["metadata"]
        now = self.client.get(resource_of(awaited), metadata.get("namespace"), metadata["name"])
        if now is not None:
            if now["metadata"]["uid"] != metadata.get("uid"):  # Any pods belong to what another run has created.
                raise concurrent_change(awaited, now)
            why = why_terminating(now) if awaited["kind"] == NAMESPACE.kind else ""
            return f"{awaited['kind']} {metadata['name']}{f' ({why})' if why else ''}"
        if not step.former_pods:
            return ""
        former = {pod["metadata"]["uid"] for pod in step.former_pods}
        pods = self.client.list_objects(POD, plan.namespace, labels=pods_of(plan.name), fields=UNFINISHED)
        return ", ".join(
            f"Pod {pod['metadata']['name']} on {pod['spec'].get('nodeName') or 'no node'}"
            for pod in pods
            if pod["metadata"]["uid"] in former
        )

    def _hand_over_replicas(self, step: Step) -> Step:
        """Before an autoscaler takes over ``replicas``, give the field to another field manager.

        Returns the step with the object as it is then.

        Otherwise the server resets it to 1 when we stop applying it (Kubernetes documentation, Server-Side Apply,
        "Transferring ownership").
        """
        for change in step.changes:
            if change.path == ("spec", "replicas") and change.after is ABSENT and not self.check_mode:
                held = {**identity_of(step.live), "spec": {"replicas": change.before}}
                held["metadata"]["uid"] = step.live["metadata"]["uid"]
                try:
                    live = self.client.apply(held, manager=HANDOVER_MANAGER)
                except ApiError as error:
                    if error.status != 409 or error.is_field_conflict:
                        raise
                    metadata = held["metadata"]
                    now = self.client.get(resource_of(held), metadata["namespace"], metadata["name"])
                    raise concurrent_change(step.live, now) from error
                if not is_as_applied(step.live, live):
                    raise concurrent_change(step.live, live)
                return replace(step, live=live)
        return step


_VERBS = {
    Action.CREATE: "created",
    Action.UPDATE: "updated",
    Action.RECREATE: "recreated",
    Action.DELETE: "deleted",
    Action.PAUSE: "paused",
    Action.RESUME: "resumed",
    Action.RESTART: "restarted",
    Action.SCALE: "scaled",
    Action.ANNOTATE: "annotated",
}


def _progress(plan: Plan, done: int) -> str:
    """What the first steps of a plan have changed, and which are left; "" if they have changed nothing."""
    steps = (*plan.prerequisites, *plan.steps)
    made, left = (
        [step for step in part if step.action is not Action.UNCHANGED] for part in (steps[:done], steps[done:])
    )
    if not made:
        return ""
    outcomes = [f"{_step_title(step, plan)} {_VERBS[step.action]}" for step in made]
    return f"Done: {abridged(outcomes, _NAMED)}. Left: {abridged([_step_title(step, plan) for step in left], _NAMED)}."


def _step_title(step: Step, plan: Plan) -> str:
    namespace = step.identity["metadata"].get("namespace") or plan.namespace
    return f"{step.kind} {step.name}" + (f" in namespace {namespace}" if namespace != plan.namespace else "")


def _verb(plans: Iterable[Plan]) -> str:
    """What is done to all of them, in a word."""
    actions = {plan.action for plan in plans}
    return _VERBS.get(actions.pop(), "done") if len(actions) == 1 else "done"


def _is_leftover(live: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether a former workload of the same name owned the object: the garbage collector deletes it, however late.

    Foreground deletion only waits for dependents that block it, and a Service first loses its EndpointSlices
    (pkg/controller/garbagecollector, ``attemptToDeleteItem``): it may still be there long after its owner.
    """
    metadata, former = owner["metadata"], live.get("metadata", {}).get("ownerReferences") or ()
    return any(each["kind"] in WORKLOAD_KINDS and each["name"] == metadata["name"] for each in former) and not any(
        each["uid"] == metadata["uid"] for each in former
    )


_RUN_AGAIN = "Run the task again, or submit the manifest with O(state=present)."


def _is_own_conflict(error: ApiError, plan: Plan) -> bool:
    """Whether gpuctl itself holds all fields in conflict.

    These are fields that we patched (a paused, resumed or scaled job), ``replicas`` of an autoscaler that this plan
    deletes, ``replicas`` that we handed over to one that no longer exists, and who submitted the job, which is only
    written once the job may be taken over.
    """
    deleted = {step.kind for step in plan.steps if step.action is Action.DELETE}
    own = (f'"{FIELD_MANAGER}"', f'"{HANDOVER_MANAGER}"')
    return all(
        any(manager in cause.message for manager in own)
        or cause.field.endswith(SUBMITTED_BY)
        or (cause.field == ".spec.replicas" and "HorizontalPodAutoscaler" in deleted)
        for cause in error.causes
    )
