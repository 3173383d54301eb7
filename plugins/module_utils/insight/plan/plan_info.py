# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_plan_info: what the playbook provision would change, and what that means."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache, partial
from typing import Any

from ...cluster.declared import read_declared
from ...cluster.nodes import Node, PodUse, slim_node, with_use
from ...cluster.read_jobs import JobId, read_pods
from ...cluster.read_nodes import read_uses
from ...declared_source import require_usable
from ...engine.changes import diffs_of
from ...engine.plan import Action, Plan
from ...jobs.advisers import without_failing
from ...jobs.job_options import JobOptions
from ...jobs.runs.run_history import REPLACED, PastRun, read_history
from ...jobs.select import SelectedJob
from ...kube.client import Client
from ...kube.errors import ApiError, KubeError, if_allowed
from ...kube.resources import NAMESPACE, NODE, RESOURCE_QUOTA, ROLE_BINDING
from ...kube.rights import may_everything
from ...kube.times import time_as_text
from ...labels import MANAGED, QUOTA
from ...manifest.problems import ManifestError, ManifestErrors, MissingLibrary, abridged, number_of, qualified_name
from ...namespaces import allowed_namespaces, own_namespace
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from ..directory.directory_plan import DirectoryOptions, DirectoryPlan, plan_directory
from ..directory.source_marks import only_annotates, unmarked_text
from ..directory.undeclared import Undeclared, find_undeclared, whole_source
from ..fit.fit_adviser import FitAdviser, fits_of
from ..history.past_runs import read_histories
from .plan_capacity import below_use, node_rows, pool_rows_of, quota_rows_of, team_rows
from .plan_effects import PlanEffect, jobs_with_pods, plan_effect, with_preemptions
from .plan_permissions import how_to_get, missing_permissions
from .saved_plan import (
    FORMAT,
    PLAN_KEY,
    WasReplaced,
    differences,
    key_problem,
    manifests_digest,
    problem_of,
    signature,
    signature_problem,
    step_digests,
    step_targets,
    steps_done,
)

_CLUSTER = "kube-system"  # A cluster has no ID of its own. The uid of this namespace serves as one.


@dataclass(frozen=True, kw_only=True)
class PlanOptions(DirectoryOptions):
    plan: Any = option("raw")
    permissions: bool = option("bool", default=False)


_NOT_OF_PLAN = ("plan", "permissions", "concurrency", "cluster")  # The steps have the shares of the cluster.


def run(task: Task[PlanOptions]) -> dict[str, Any]:
    """Plan, and with ``plan`` compare: raises TaskFailed if that is not the plan that would be made now."""
    options = task.options
    require_usable(options)
    key = task.environ.get(PLAN_KEY, "")
    task.mask({key} - {""})
    if unfit := key_problem(key):
        raise TaskFailed(unfit)
    saved = _saved(options.plan, key) if options.plan not in (None, "") else None
    if options.permissions:
        require_permissions(task)
        if saved is None:
            return {"changed": False, "msg": "The account may make the changes."}
    now = datetime.now(timezone.utc)
    found = plan_directory(task, options, _fits)
    effects = _effects(task, found, now)
    plan = {
        "format": FORMAT,
        "made_at": time_as_text(now),
        "cluster": _cluster_uid(task),
        "options": _saved_options(task),
        "manifests": manifests_digest(_files([*options.src, *(options.policies or ())])),
        "steps": step_digests(effects),
        "targets": step_targets(effects),
    }
    if key:
        plan["signature"] = signature(plan, key)
    problems = [
        {"kind": each.kind, "namespace": each.namespace or None, "name": each.name or None, "problem": each.text}
        for each in found.problems
    ]
    if saved is not None:
        _require_same(task, saved, plan, problems)
    done, number = steps_done(saved, plan) if saved is not None else ([], 0)
    result = _plan_result(task, found, effects)
    message = plan_summary(result["results"], result["totals"], problems, result["unmarked"])
    if done:
        message = (
            f"{len(done)} of {number_of(number, 'step')} of the plan done before, {number - len(done)} now. {message}"
        )
    return {
        "changed": False,
        "made_at": plan["made_at"],
        "src": list(options.src),
        "problems": problems,
        "notes": _notes(found.warnings),
        **result,
        "plan": plan,
        "steps_done": done,
        "msg": message,
    }


MODULE = ModuleSpec(PlanOptions, run, report="plan")


def require_permissions(task: Task[PlanOptions]) -> None:
    """Raises TaskFailed, or warns in check mode, if the account may not write all that the directory changes.

    What else is wrong with the directory, and what the account may not even read, say the tasks that apply it.
    """
    client = task.client()
    try:
        if may_everything(client):
            return
        missing = missing_permissions(client, plan_directory(task, task.options))
    except (KubeError, ManifestErrors, MissingLibrary, TaskFailed):
        return
    if not missing:
        return
    text = f"The account may not make all changes of {', '.join(task.options.src)}. {how_to_get(missing)}"
    if not task.check_mode:
        raise TaskFailed.before_any_write([text])
    task.warn(text)


def _saved_options(task: Task[PlanOptions]) -> dict[str, Any]:
    """Those that the plan depends on. Its namespace is not that of the context in which it is applied."""
    own = own_namespace(task, task.options.namespace)
    given = {name: value for name, value in asdict(task.options).items() if name not in _NOT_OF_PLAN}
    return {**given, "namespace": own.name}


def _saved(given: Any, key: str) -> Mapping[str, Any]:
    """The part of a saved plan that says what it was made from. Raises TaskFailed."""
    if isinstance(given, str):
        try:
            with open(os.path.expanduser(given), encoding="utf-8") as file:
                given = json.load(file)
        except OSError as problem:
            raise TaskFailed(f"O(plan): cannot read {given}: {problem.strerror or problem}. Check the path.") from None
        except (ValueError, RecursionError):
            raise TaskFailed(
                f"O(plan): {given} is no JSON. Name the file that a plan was written to with O(output), such as "
                f"plan.json."
            ) from None
    saved = given.get("plan", given) if isinstance(given, Mapping) else given
    if unfit := problem_of(saved) or signature_problem(saved, key):
        raise TaskFailed(unfit)
    return dict(saved)


def _require_same(
    task: Task[Any], saved: Mapping[str, Any], plan: Mapping[str, Any], problems: Sequence[Mapping[str, Any]]
) -> None:
    """Raises TaskFailed for a plan that is neither what would be done now, nor was applied, as a whole or in part."""
    found = [*differences(saved, plan, _was_replaced(task)), *_without_access(task, saved, plan)]
    if not found and not problems:
        return
    why = found or [_problem_text(problem) for problem in problems]
    said = "is out of date" if found else "cannot be applied"
    raise TaskFailed(
        "\n".join(
            [f"The plan of {saved['made_at']} {said}. Nothing was changed. Make a new plan and look at it.", *why]
        ),
    )


def _was_replaced(task: Task[Any]) -> WasReplaced:
    """A task records the end of a run before it replaces it."""

    @cache
    def runs_of(namespace: str) -> dict[str, PastRun]:
        histories = if_allowed(lambda: read_histories(task.client(), [namespace]), None) or {}
        return read_history(histories.get(namespace, ()))

    def was_replaced(namespace: str, uid: str) -> bool:
        run = runs_of(namespace).get(uid)
        return run is not None and run.result == REPLACED

    return was_replaced


def _without_access(task: Task[Any], saved: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """The bindings that the plan was to create with their namespace, and that the existing namespace lacks."""
    titles = [title for title in steps_done(saved, plan)[0] if saved.get("targets", {}).get(title, {}).get("access")]
    missing = []
    for title in titles:
        namespace, _slash, name = title.partition(" ")[2].partition("/")
        if if_allowed(partial(_is_missing, task, namespace, name), False):
            missing.append(title)
    if not missing:
        return []
    return [f"{abridged(missing, 5)}: not found. Run gpuctl_rbac again for the accounts that have a level everywhere."]


def _is_missing(task: Task[Any], namespace: str, binding: str) -> bool:
    return task.client().get(ROLE_BINDING, namespace, binding) is None


def _problem_text(problem: Mapping[str, Any]) -> str:
    place = qualified_name(problem["namespace"], problem["name"])
    return f"{problem['kind']} {place}: {problem['problem']}" if place else str(problem["problem"])


def _files(paths: Sequence[str]) -> list[tuple[str, str]]:
    """The manifests by their paths within what was named: a checkout may lie elsewhere."""
    from ...manifest.sources import read_files

    found = []
    for path in paths:
        for each in read_files([path]):
            if not isinstance(each, ManifestError):
                file, text = each
                found.append((os.path.relpath(file, path) if os.path.isdir(path) else os.path.basename(file), text))
    return found


def _fits(task: Task[JobOptions], jobs: Sequence[SelectedJob], plans: Sequence[Plan]) -> Mapping[JobId, dict[str, Any]]:
    none: dict[JobId, dict[str, Any]] = {}
    return without_failing(task, FitAdviser.unknown, lambda: fits_of(task, jobs, plans), none)


def _cluster_uid(task: Task[Any]) -> str:
    """Empty without permission to read the namespace: then a saved plan is not compared by it."""
    found = if_allowed(lambda: task.client().get(NAMESPACE, None, _CLUSTER), None)
    return str(found["metadata"].get("uid", "")) if found else ""


def _effects(task: Task[Any], found: DirectoryPlan, now: datetime) -> list[PlanEffect]:
    jobs = jobs_with_pods(found.manifests)
    pods = if_allowed(lambda: read_pods(task.client(), jobs), None) if jobs else {}
    if pods is None:
        found.warnings.append("the account may not list pods, so it is not known which of them end.")
    return [
        plan_effect(each, (pods or {}).get((each.namespace, each.name), ()), now.timestamp())
        for each in found.manifests
    ]


def _plan_result(task: Task[PlanOptions], found: DirectoryPlan, effects: Sequence[PlanEffect]) -> dict[str, Any]:
    client = task.client()
    read_declared(found.client, found.warnings.append)
    unknown_use = "pods of all namespaces, so it is not known how many GPUs are in use"

    def before_and_after(node: dict[str, Any]) -> tuple[Node, Node]:
        return slim_node(node), slim_node(found.client.after(node) or node)

    uses = _if_listed(found, unknown_use, lambda: read_uses(client))
    known: list[PodUse] = uses or []
    pairs = _if_listed(found, "nodes, so pools are not shown", lambda: client.list_slim(NODE, before_and_after)) or []
    before, after = [now for now, _then in pairs], [then for _now, then in pairs]
    nodes = node_rows(with_use(before, known), after, known, effects)
    declared = [name for _namespace, name in found.declared.get("pool", ())]
    changed = [effect for effect in effects if effect.manifest.plan.changed or effect.manifest.problem]
    shown = (each for each in changed if each.manifest.problem or not only_annotates(each.manifest.plan))
    rows = with_preemptions(each.row for each in shown)
    quotas = quota_rows_of(_quotas(client), _quotas(found.client), effects)
    found.warnings += below_use(quotas)
    return {
        "results": rows,
        "source": task.options.source,
        "unmarked": len(changed) - len(rows),
        "not_declared": _undeclared(task, found),
        "unchanged": sum(not effect.manifest.plan.changed for effect in effects),
        "pools": pool_rows_of(nodes, effects, declared),
        "nodes": nodes,
        "teams": team_rows(known, effects),
        "quotas": quotas,
        "totals": _plan_totals(effects, nodes),
        "diff": task.diff(lambda: (diff for effect in effects for diff in diffs_of(effect.manifest.plan))),
    }


_UNVALIDATED = "not validated by the server"


def _notes(warnings: Sequence[str]) -> list[str]:
    """The warnings, each once; those about dry runs that the account may not send are one."""
    found = list(dict.fromkeys(warnings))
    unvalidated = [text for text in found if _UNVALIDATED in text]
    if len(unvalidated) < 2:
        return found
    number = f"{len(unvalidated)} changes were {_UNVALIDATED}"
    one = f"{number}, because the account may not write. The first: {unvalidated[0]}"
    return [one, *(text for text in found if text not in unvalidated)]


def _undeclared(task: Task[PlanOptions], found: DirectoryPlan) -> list[dict[str, Any]]:
    undeclared: list[Undeclared] = []
    try:
        allowed = allowed_namespaces(task)
        undeclared.extend(find_undeclared(task.client(), found.declared, allowed, whole_source(task.options)))
    except ApiError as error:
        if not error.is_forbidden:
            raise
        found.warnings.append(f"it is not known what the directory does not declare: {error.message}")
    return [{"kind": each.kind, "namespace": each.namespace or None, "name": each.name} for each in undeclared]


def _quotas(client: Client) -> list[dict[str, Any]]:
    none: list[dict[str, Any]] = []
    return if_allowed(lambda: client.list_objects(RESOURCE_QUOTA, labels=f"{MANAGED},{QUOTA}"), none)


def _if_listed(found: DirectoryPlan, what: str, read: Any) -> Any:
    answer = if_allowed(read, None)
    if answer is None:
        found.warnings.append(f"the account may not list {what}.")
    return answer


def _plan_totals(effects: Sequence[PlanEffect], nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    jobs = [effect for effect in effects if effect.manifest.job is not None]
    moving = [effect.gpus_after - effect.gpus_before for effect in jobs]
    return {
        "restarts": sum(effect.restarts for effect in jobs),
        "pods_ending": sum(len(effect.ending) for effect in jobs),
        "hours_lost": round(sum(effect.hours_lost for effect in jobs), 2),
        "gpu_hours_lost": round(sum(effect.gpu_hours_lost for effect in jobs), 2),
        "gpus_freed": -sum(gpus for gpus in moving if gpus < 0),
        "gpus_taken": sum(gpus for gpus in moving if gpus > 0),
        "jobs_preempted": len({name for effect in jobs for name in effect.row["preempts"]}),
        "nodes_moved": sum(bool(node["moves"]) for node in nodes),
    }


_WORDS = {
    Action.CREATE: "to create",
    Action.UPDATE: "to update in place",
    Action.RECREATE: "to recreate",
    Action.DELETE: "to delete",
}


def plan_summary(
    rows: Sequence[Mapping[str, Any]],
    totals: Mapping[str, Any],
    problems: Sequence[Mapping[str, Any]],
    unmarked: int = 0,
) -> str:
    """``12 changes: 3 to create, 9 to update in place; 2 jobs restart.``"""
    counts = Counter(row["action"] for row in rows if not row["problem"])
    parts = [f"{counts[action]} {word}" for action, word in _WORDS.items() if counts[action]]
    text = f"{number_of(sum(counts.values()), 'change')}: {', '.join(parts)}" if parts else "Nothing to change"
    if totals["restarts"]:
        text += f"; {number_of(totals['restarts'], 'job')} {'restarts' if totals['restarts'] == 1 else 'restart'}"
    if problems:
        text += f"; refused because of {number_of(len(problems), 'problem')}"
    annotated = f" {unmarked_text(unmarked)} Applying adds it without a restart." if unmarked else ""
    return f"{text}.{annotated}"
