# SPDX-License-Identifier: BSD-2-Clause
"""Send the plans of quotas: all of them as dry runs, then for real, many namespaces concurrently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..engine.apply import ApplyFailed, ApplyResult, Executor
from ..engine.plan import Action, Plan, Step, describe, with_hint
from ..engine.rounds import apply_in_rounds, merged
from ..kube.client import Client
from ..kube.concurrency import run_concurrently, run_concurrently_until
from ..kube.errors import ApiError, ConcurrentChange, KubeError
from ..kube.resources import NAMESPACE, RESOURCE_QUOTA, resource_of
from ..reporter import Counter
from ..task import Task, TaskFailed
from .live_quotas import (
    LiveQuotas,
    concurrent_claims,
    read_live_quotas,
    still_terminating,
    wait_until_counted,
    wait_until_gone,
)
from .quota_plan import QuotaPlans
from .quota_results import quota_results
from .usage import unenforced_keys

if TYPE_CHECKING:
    from .quota_options import QuotaOptions

_ATTEMPTS = 5


def validate_quotas(task: Task[QuotaOptions], plans: Sequence[Plan]) -> tuple[list[ApplyResult], list[str]]:
    """The predicted results, and what the server rejects. In check mode, a missing permission only warns."""
    client = task.client()

    def validate(plan: Plan) -> tuple[ApplyResult, list[str], ApiError | None]:
        result = ApplyResult(plan)
        warnings: list[str] = []
        try:
            for step in (*plan.prerequisites, *plan.steps):
                answer = _dry_run(client, step, plan, warnings.append, force_conflicts=task.options.force_conflicts)
                if answer is not None:
                    result.objects[step.kind, step.name] = answer
        except ApiError as error:
            return result, warnings, error
        return result, warnings, None

    counter = Counter(task.progress, len(plans), "namespace", "checked")
    validated = run_concurrently(validate, plans, client.concurrency, counter.add)
    errors = []
    for result, warnings, error in validated:
        if warnings:
            found = "; ".join(dict.fromkeys(warnings))
            task.warn(f"{describe(result.plan)}: {found}. Running pods continue, but are not created again like that.")
        if error and task.check_mode and error.is_forbidden:
            task.warn(f"{describe(result.plan)}: not validated by the server, {error.message}")
        elif error:
            errors.append(f"{describe(result.plan)}: {with_hint(error, result.plan)}")
    return [result for result, *_others in validated], errors


def apply_quotas(
    task: Task[QuotaOptions], planned: QuotaPlans, plan: Callable[[LiveQuotas], QuotaPlans]
) -> list[ApplyResult]:
    """Raises TaskFailed with the results up to then. ``plan`` plans again when other tasks may have written."""
    client, options = task.client(), task.options
    done: dict[tuple[str, str], list[ApplyResult]] = {}

    def results() -> list[ApplyResult]:
        found = (done.get((each.name, each.namespace)) for each in planned.plans)
        merged_results = [merged(outcomes) for outcomes in found if outcomes]
        # Nothing was done to one that failed at once.
        return [result for result in merged_results if result.plan.changed or result.error is None]

    def failure(text: str) -> TaskFailed:
        result = quota_results(task, results(), planned)
        text = text if result["changed"] else f"{text}\nNothing was changed."
        return TaskFailed(text, **{name: result[name] for name in ("changed", "results", "diff")})

    def plan_again() -> list[Plan] | None:
        live = read_live_quotas(client)
        if claims := concurrent_claims(live, results()):
            raise TaskFailed("\n".join(claims))
        again = plan(live)
        changed = [each for each in again.plans if each.changed]
        if changed and again.blockers:
            raise TaskFailed("\n".join(again.blockers))
        return changed or None

    changes = any(each.changed for each in planned.plans)
    try:
        apply_in_rounds(
            planned.plans,
            lambda plans: _apply_plans(task, plans, done),
            plan_again if changes else lambda: None,
            subject=", ".join(dict.fromkeys(f"quota {each.name}" for each in planned.plans if each.name)) or "quotas",
            warn=task.warn,
        )
    except (KubeError, TaskFailed) as problem:
        raise failure(str(problem)) from problem
    applied = results()
    try:
        # A new ResourceQuota has no usage until its controller has counted; it would look as if all of it were free.
        wait_until_counted(client, applied)
    except KubeError as problem:
        task.warn(f"the quotas were written, but their usage is not known: {problem}")
    if options.wait:
        try:
            leaving = {*deleted_namespaces(planned.plans), *planned.terminating}
            left = wait_until_gone(client, leaving, float(options.wait_timeout), task.progress)
        except KubeError as problem:
            raise failure(str(problem)) from problem
        if left:
            raise failure(still_terminating(left, options.wait_timeout))
    return applied


def _apply_plans(
    task: Task[QuotaOptions], plans: Sequence[Plan], done: dict[tuple[str, str], list[ApplyResult]]
) -> None:
    """Adds what was done, also to plans that have failed. Raises ConcurrentChange, and TaskFailed with the errors."""
    client, options = task.client(), task.options
    executor = Executor(
        client=client,
        check_mode=False,
        gone_timeout=options.wait_timeout,
        warn=task.warn,
        force_conflicts=options.force_conflicts,
        progress=task.progress,
    )

    def apply(plans: list[Plan]) -> list[KubeError]:
        for plan in plans:
            outcome = done.setdefault((plan.name, plan.namespace), [])
            try:
                outcome.append(executor.apply_plan(plan))
                _drop_unenforced(client, outcome[-1])
            except ApplyFailed as failure:
                outcome.append(failure.result)
                return [ConcurrentChange(str(failure)) if failure.result.conflict else failure]
            except KubeError as error:
                return [error]
        return []

    # In order within a namespace, so that one that moves to another quota is never without.
    by_namespace: dict[str, list[Plan]] = {}
    for plan in plans:
        by_namespace.setdefault(plan.namespace, []).append(plan)
    answers = run_concurrently_until(
        lambda errors: any(not isinstance(error, ConcurrentChange) for error in errors),
        apply,
        by_namespace.values(),
        client.concurrency,
        Counter(task.progress, len(by_namespace), "namespace", "done").add,
    )
    started = [errors for errors in answers if errors is not None]
    errors = list(chain.from_iterable(started))
    if all(isinstance(error, ConcurrentChange) for error in errors):
        for conflict in errors:
            raise conflict
        return
    rest = f"{len(started) - len(errors)} other namespaces done, {len(by_namespace) - len(started)} not started."
    raise TaskFailed("\n".join([*map(str, errors), *([rest] if len(by_namespace) > 1 else [])]))


def created_namespaces(plans: Iterable[Plan]) -> list[str]:
    """The namespaces that the plans create."""
    steps = (step for plan in plans for step in (*plan.prerequisites, *plan.steps))
    return [step.name for step in steps if step.kind == NAMESPACE.kind and step.action is Action.CREATE]


def deleted_namespaces(plans: Iterable[Plan]) -> list[str]:
    """The namespaces that the plans delete."""
    steps = [(plan.namespace, step) for plan in plans for step in plan.steps]
    return [name for name, step in steps if step.kind == NAMESPACE.kind and step.action is Action.DELETE]


def _dry_run(
    client: Client, step: Step, plan: Plan, on_violation: Callable[[str], None], *, force_conflicts: bool
) -> dict[str, Any] | None:
    """The server's answer to one step, or None if it cannot predict one. Raises ApiError.

    ``on_violation`` is called with what the server says about pods that violate a new level of the namespace
    (plugin/pkg/admission/security/podsecurity).

    In a namespace that the plan creates, the server checks permissions and then answers that the namespace is not
    found (authorization comes before NamespaceLifecycle in admission).
    """
    if step.action is Action.UNCHANGED:
        return step.live
    creates_namespace = bool(created_namespaces([plan]))
    if creates_namespace and plan.prerequisites[0].live:
        return None  # The previous namespace is terminating and accepts no objects.
    try:
        if step.action is Action.DELETE:
            client.delete(resource_of(step.live), step.live["metadata"], propagation="Background", dry_run=True)
            return None
        on_warning = on_violation if step.kind == NAMESPACE.kind else None
        return client.apply(step.desired, dry_run=True, force=force_conflicts, on_warning=on_warning)
    except ApiError as error:
        if creates_namespace and error.status == 404 and step.kind != NAMESPACE.kind:
            return None
        raise


def _drop_unenforced(client: Client, result: ApplyResult) -> None:
    """Remove keys from the ResourceQuota that limit nothing: an apply removes only what we applied ourselves.

    The quota controller writes the status at about the same time, so after a conflict the object is read again.
    """
    for (kind, name), obj in list(result.objects.items()):
        unenforced = unenforced_keys(obj) if kind == RESOURCE_QUOTA.kind else []
        if not unenforced:
            continue
        patch = {"spec": {"hard": dict.fromkeys(unenforced)}}
        for attempt in range(_ATTEMPTS):
            try:
                result.objects[kind, name] = client.merge_patch(RESOURCE_QUOTA, obj["metadata"], patch)
                break
            except ApiError as error:
                now = client.get(RESOURCE_QUOTA, result.plan.namespace, name)
                if error.status != 409 or now is None or attempt == _ATTEMPTS - 1:
                    raise
                obj = now
