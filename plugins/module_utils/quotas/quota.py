# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind the module gpuctl_quota: load, read live, plan, prove, execute, report; one plan per namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..kube.concurrency import concurrency_argument_spec, run_concurrently, run_concurrently_until
from ..task import ModuleSpec, Task, TaskFailed

if TYPE_CHECKING:
    from ..engine.apply import ApplyResult
    from ..engine.plan import Plan
    from ..manifest.models import Quota
    from .quota_plan import Planned

# The heavy imports stand in the functions that need them, see job.py.


def quota_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_quota beside those of the connection."""
    return {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "src": {"type": "list", "elements": "path"},
        "definition": {"type": "raw"},
        "allow_empty": {"type": "bool", "default": False},
        "name": {"type": "str"},
        "namespaces": {"type": "list", "elements": "str"},
        "delete_namespaces": {"type": "bool", "default": False},
        "force": {"type": "bool", "default": False},
        "force_conflicts": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": False},
        "wait_timeout": {"type": "int", "default": 600},
        **concurrency_argument_spec(),
    }


QUOTA_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("src", "definition", "name"), ("src", "definition", "namespaces")],
    "required_one_of": [("src", "definition", "name", "namespaces")],
    "required_if": [("state", "present", ("src", "definition"), True)],
}


def run(task: Task) -> dict[str, Any]:
    """Bring the quotas of a task to the state that it asks for.

    Returns ``changed``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with what was done until then.
    """
    from .live_quotas import read_live
    from .quota_plan import plan_quota_removal, plan_quotas

    task.require_non_negative("wait_timeout")
    declared = _declared(task)
    if not declared and _by_manifest(task):
        return {"changed": False, "results": [], "diff": [], "msg": "0 namespaces: nothing to do"}
    live = read_live(task.client())
    if task.params["state"] == "present":
        planned = plan_quotas(declared, live)
    else:
        planned = plan_quota_removal(
            declared,
            task.params["name"],
            task.params["namespaces"],
            live,
            delete_namespaces=task.params["delete_namespaces"],
        )
    blockers = list(planned.blockers)
    if not task.params["force"]:
        blockers += _running(task, planned.plans)
    dry_runs, refusals = _prove(task, planned.plans)
    blockers += refusals
    if blockers:
        raise TaskFailed("\n".join([*blockers, "Nothing was changed."]), changed=False, results=[])
    for warning in planned.warnings:
        task.warn(warning)
    outcomes = dry_runs if task.check_mode else _apply_steps(task, planned)
    return _report(task, outcomes, planned)


MODULE = ModuleSpec(quota_argument_spec(), run, QUOTA_CONSTRAINTS)


def _declared(task: Task) -> list[Quota]:
    """The quotas of the manifests; none when they are named. No request has been sent when this fails."""
    from ..manifest.load import load
    from ..manifest.models import Quota

    if not _by_manifest(task):
        return []
    documents = load(task.params["src"] or (), task.params["definition"])
    quotas = [document.model for document in documents if isinstance(document.model, Quota)]
    if not quotas and not task.params["allow_empty"]:
        others = ", ".join(f"{document.origin} ({document.model.kind})" for document in documents)
        raise TaskFailed(f"there is no quota in what was given, only: {others}.")
    return quotas


def _by_manifest(task: Task) -> bool:
    return bool(task.params["src"]) or task.params["definition"] is not None


def _running(task: Task, plans: Iterable[Plan]) -> list[str]:
    """What would be lost with the namespaces that the plans delete: pods that run, and claims with their data."""
    from ..cluster.read import UNFINISHED
    from ..kube.resources import PERSISTENT_VOLUME_CLAIM, POD

    client = task.client()

    def look(namespace: str) -> str | None:
        pods = client.list_objects(POD, namespace, fields=UNFINISHED, metadata_only=True)
        claims = client.list_objects(PERSISTENT_VOLUME_CLAIM, namespace, metadata_only=True)
        found = [f"{noun} {_names(objects)}" for noun, objects in (("pods", pods), ("claims", claims)) if objects]
        if not found:
            return None
        return (
            f"namespace {namespace} would be deleted with what is in it: {' and '.join(found)}. "
            f"Delete that first, set force to true to lose it, or leave delete_namespaces out."
        )

    ending = [plan.namespace for plan in plans if _ends_namespace(plan)]
    return [blocker for blocker in run_concurrently(look, ending, client.concurrency) if blocker]


_SHOWN = 10


def _names(objects: list[dict[str, Any]]) -> str:
    names = sorted(obj["metadata"]["name"] for obj in objects)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _prove(task: Task, plans: list[Plan]) -> tuple[list[ApplyResult], list[str]]:
    """Send every write as a dry run: the outcomes that it predicts, and what the server refuses.

    In check mode, who may not write gets the plan all the same, with a warning.
    """
    from ..engine.apply import ApplyResult
    from ..engine.hints import describe, with_hint
    from ..kube.errors import ApiError
    from .quota_writes import dry_run

    client = task.client()

    def validate_by_dry_run(plan: Plan) -> tuple[ApplyResult, ApiError | None]:
        outcome = ApplyResult(plan)
        try:
            for step in (*plan.prerequisites, *plan.steps):
                answer = dry_run(client, step, plan, force_conflicts=task.params["force_conflicts"])
                if answer is not None:
                    outcome.objects[step.kind, step.name] = answer
        except ApiError as error:
            return outcome, error
        return outcome, None

    validated = run_concurrently(validate_by_dry_run, plans, client.concurrency)
    refusals = []
    for outcome, error in validated:
        if error and task.check_mode and error.is_forbidden:
            task.warn(f"{describe(outcome.plan)}: not validated by the server, {error.message}")
        elif error:
            refusals.append(f"{describe(outcome.plan)}: {with_hint(error, outcome.plan)}")
    return [outcome for outcome, dummy in validated], refusals


def _apply_steps(task: Task, planned: Planned) -> list[ApplyResult]:
    from ..engine.apply import Executor
    from ..kube.errors import KubeError
    from .live_quotas import find_rivals, wait_until_counted, wait_until_gone
    from .quota_writes import drop_unenforced

    client = task.client()
    executor = Executor(
        client=client,
        check_mode=False,
        gone_timeout=task.params["wait_timeout"],
        warn=task.warn,
        force_conflicts=task.params["force_conflicts"],
    )

    def apply_plan(plans: list[Plan]) -> tuple[list[ApplyResult], KubeError | None]:
        done: list[ApplyResult] = []
        try:
            for plan in plans:
                done.append(executor.apply_plan(plan))
                drop_unenforced(client, done[-1])
        except KubeError as error:
            return done, error
        return done, None

    # A namespace that moves from one quota to another is never without: its plans stay in their order.
    places: dict[str, list[Plan]] = {}
    for plan in planned.plans:
        places.setdefault(plan.namespace, []).append(plan)
    answers = run_concurrently_until(lambda answer: bool(answer[1]), apply_plan, places.values(), client.concurrency)
    begun = [answer for answer in answers if answer]
    found = {(outcome.plan.name, outcome.plan.namespace): outcome for done, _error in begun for outcome in done}
    outcomes = [found[key] for plan in planned.plans if (key := (plan.name, plan.namespace)) in found]
    errors = [str(error) for _done, error in begun if error]
    if errors:
        rest = f"{len(begun) - len(errors)} other namespaces are done, {len(places) - len(begun)} were not tried."
        raise _failed(task, "\n".join([*errors, rest]), outcomes, planned)
    rivals = find_rivals(client, outcomes)
    if rivals:
        raise _failed(task, "\n".join(rivals), outcomes, planned)
    wait_until_counted(client, outcomes)
    if task.params["wait"]:
        ending = [plan.namespace for plan in planned.plans if _ends_namespace(plan)]
        left = wait_until_gone(client, ending, float(task.params["wait_timeout"]))
        if left:
            text = f"not gone after {task.params['wait_timeout']} s: namespace {', '.join(sorted(left))}"
            raise _failed(task, text, outcomes, planned)
    return outcomes


def _failed(task: Task, message: str, outcomes: list[ApplyResult], planned: Planned) -> TaskFailed:
    report = _report(task, outcomes, planned)
    return TaskFailed(message, **{name: report[name] for name in ("changed", "results", "diff")})


def _ends_namespace(plan: Plan) -> bool:
    from ..engine.plan import Action

    return any(step.kind == "Namespace" and step.action is Action.DELETE for step in plan.steps)


def _report(task: Task, outcomes: list[ApplyResult], planned: Planned) -> dict[str, Any]:
    from ..engine.results import diffs_of

    results = [_result(outcome, planned) for outcome in outcomes]
    for result in results:
        if result["over_quota"] and result["action"] != "unchanged":
            used = ", ".join(f"{each['resource']} {each['used']} of {each['hard']}" for each in result["over_quota"])
            task.warn(
                f"quota {result['name']} in namespace {result['namespace']}: more is in use than the quota allows now "
                f"({used}). What runs goes on; nothing new starts until less is in use."
            )
    counts = Counter(result["action"] for result in results)
    summary = ", ".join(f"{number} {action}" for action, number in sorted(counts.items()))
    return {
        "changed": any(outcome.plan.changed for outcome in outcomes),
        "results": results,
        "diff": task.diff(lambda: (diff for outcome in outcomes for diff in diffs_of(outcome.plan, ()))),
        "msg": f"{len(results)} {'namespace' if len(results) == 1 else 'namespaces'}: {summary or 'nothing to do'}",
    }


def _result(outcome: ApplyResult, planned: Planned) -> dict[str, Any]:
    from ..engine.results import resource_result
    from ..labels import QUOTA_KEYS
    from .usage import description_of, over_quota, usage

    plan = outcome.plan
    found = next((obj for obj in outcome.objects.values() if obj["kind"] == "ResourceQuota"), None)
    return {
        "name": plan.name or None,
        "namespace": plan.namespace,
        "description": description_of(found) if found else None,
        "action": str(plan.action),
        **(usage(found) if found else dict.fromkeys(QUOTA_KEYS)),
        "over_quota": over_quota(found) if found else [],
        "other_quotas": planned.others.get(plan.namespace, []),
        "reason": planned.notes.get(plan.namespace),
        "resources": [resource_result(step) for step in (*plan.prerequisites, *plan.steps)],
    }
