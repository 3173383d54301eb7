# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_multikueue: the clusters to which the Kueue of this one, the manager, hands jobs.

All clusters are read before anything is written: first each worker gets an account for the manager, then the manager
its kubeconfig. Kueue uses what is complete, so whatever interrupts a task, the next one goes on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..engine.apply import Executor
from ..engine.changes import action_summary, diffs_of
from ..engine.plan import Action, Plan, Step, object_id
from ..engine.planning import step_for
from ..kube.client import Client, cached_client
from ..kube.concurrency import run_concurrently
from ..kube.connect_limit import connect_limit
from ..kube.connection_options import connection_argument_spec, connection_secrets, is_loopback
from ..kube.discovery import group_versions
from ..kube.errors import KubeError, as_sentence
from ..kube.resources import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    KUEUE_VERSION,
    LOCAL_QUEUE,
    MULTIKUEUE_CLUSTER,
    NAMESPACE,
    SECRET,
    SERVICE_ACCOUNT,
    Object,
    Resource,
    resource_of,
)
from ..labels import DNS_LABEL, LABEL_LENGTH, MANAGED, SYSTEM_NAMESPACE, is_managed
from ..manifest.problems import abridged
from ..options import Options, option
from ..pools.lease import system_namespace
from ..queues.backends import BACKENDS
from ..queues.kueue_objects import MULTIKUEUE_NAME
from ..rbac.rbac import require_managed
from ..task import ModuleSpec, Task, TaskFailed
from .account_kubeconfig import MOST_DAYS, create_token
from .account_token import read_claims
from .kubeconfig_file import kubeconfig_text, new_context, read_contexts
from .multikueue_objects import (
    MULTIKUEUE_KINDS,
    SECRET_PREFIX,
    activity,
    dispatching_queues,
    identity,
    kubeconfig_in,
    manager_objects,
    worker_objects,
)

_MOST_WORKERS = 20  # MultiKueueConfig, spec.clusters
_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{MULTIKUEUE_NAME}"
_WORKER_OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "server": {"type": "str"},
    "connection": {"type": "dict", "required": True},
}


@dataclass(frozen=True, kw_only=True)
class MultiKueueOptions(Options):
    workers: list[dict[str, Any]] = option("list", elements="dict", required=True, options=_WORKER_OPTIONS)
    kueue_namespace: str = option("str", default="kueue-system")
    days: int = option("int", default=90)
    renew_days: int = option("int", default=30)


@dataclass
class _Worker:
    """A worker cluster, the plan of what is written there, its LocalQueues, and the kubeconfig for the manager."""

    name: str
    client: Client
    server: str
    plan: Plan
    queues: set[tuple[str, str]]
    kubeconfig: str = ""
    expires: str | None = None


Live = Mapping["tuple[str, str, str]", Object]
"""Objects by kind, namespace and name."""


def run(task: Task[MultiKueueOptions]) -> dict[str, Any]:
    """Bring the worker clusters of this one to those of the task.

    Returns ``changed``, ``results``, ``diff`` and ``msg``; never a token. Raises TaskFailed.
    """
    for each in task.options.workers:
        task.mask(connection_secrets(each["connection"], {}))
    _validate_options(task.options)
    live = _read_manager(task)
    workers = _read_workers(task)
    plan = _plan_manager(task.options, workers, live)
    try:
        require_managed(step.live for step in plan.steps if step.live)
    except TaskFailed as problem:
        raise TaskFailed.before_any_write([str(problem)]) from None
    _warn_of_workers(task, workers, dispatching_queues(live.values()))
    changed = any(worker.plan.changed for worker in workers)
    try:
        for worker in workers:
            _provide_account(task, worker, live)
        plan = _plan_manager(task.options, workers, live)
        Executor(task.client(), check_mode=task.check_mode, gone_timeout=60, warn=task.warn).apply_plan(plan)
    except KubeError as problem:
        text = f"{as_sentence(str(problem))} Kueue uses what is complete. Run the task again for the rest."
        raise TaskFailed(text, changed=changed and not task.check_mode) from problem
    if plan.changed and not task.check_mode:
        live = _listed(task.client(), (MULTIKUEUE_CLUSTER, ADMISSION_CHECK))
    results = list(_rows(task, workers, plan, live))
    plans = [*(worker.plan for worker in workers), plan]
    return {
        "changed": any(each.changed for each in plans),
        "results": results,
        "diff": task.diff(lambda: [diff for each in plans for diff in diffs_of(each)]),
        "msg": action_summary(results, "worker"),
    }


MODULE = ModuleSpec(MultiKueueOptions, run, level="administer")


def _validate_options(options: MultiKueueOptions) -> None:
    """Raises TaskFailed with all errors at once."""
    names, errors = [each["name"] for each in options.workers], []
    for each in options.workers:
        name, known = each["name"], connection_argument_spec()
        if len(name) > LABEL_LENGTH or not re.fullmatch(DNS_LABEL, name):
            errors.append(f"workers: invalid name {name!r}. Use lower case letters, digits and '-'.")
        if unknown := sorted(each["connection"].keys() - known.keys()):
            errors.append(f"workers: unknown connection option of {name}: {unknown[0]}. Use those of this module.")
        if not any(each["connection"].get(key) for key in ("kubeconfig", "context", "host")):
            errors.append(f"workers: no connection to {name}. Set kubeconfig, context or host.")
    if len(set(names)) < len(names):
        errors.append("workers: two have the same name. Remove one of them.")
    if len(names) > _MOST_WORKERS:
        errors.append(f"workers: {len(names)} are too many. Kueue has at most {_MOST_WORKERS}.")
    if not 0 <= options.renew_days < options.days <= MOST_DAYS:
        errors.append(f"days: {options.days} is out of range. Use more than renew_days, and at most {MOST_DAYS}.")
    if errors:
        raise TaskFailed.before_any_write(errors)


def _read_manager(task: Task[MultiKueueOptions]) -> Live:
    """What the manager has: its queues, all of MultiKueue, and the Secrets that are ours or have their names."""
    client, namespace = task.client(), task.options.kueue_namespace
    _require_kueue(client)
    if client.get(NAMESPACE, None, namespace) is None:
        raise TaskFailed.before_any_write([f"namespace {namespace} not found. Set O(kueue_namespace) to Kueue's."])
    names = [f"{SECRET_PREFIX}{each['name']}" for each in task.options.workers]
    named = run_concurrently(lambda name: client.get(SECRET, namespace, name), names, client.concurrency)
    ours = client.list_objects(SECRET, namespace, labels=MANAGED, metadata_only=True)
    left = (obj for obj in ours if obj["metadata"]["name"].startswith(SECRET_PREFIX))
    secrets = {object_id(obj): obj for obj in chain(left, filter(None, named))}
    return {**_listed(client, (*MULTIKUEUE_KINDS, CLUSTER_QUEUE, LOCAL_QUEUE)), **secrets}


def _listed(client: Client, kinds: Iterable[Resource]) -> Live:
    found = run_concurrently(client.list_objects, kinds, client.concurrency)
    return {object_id(obj): obj for objects in found for obj in objects}


def _require_kueue(client: Client) -> None:
    if KUEUE_VERSION not in group_versions(client):
        problem = f"the cluster does not serve {KUEUE_VERSION}. {BACKENDS['kueue'].install}."
        raise TaskFailed.before_any_write([problem])


def _read_workers(task: Task[MultiKueueOptions]) -> list[_Worker]:
    """All workers as they are. Raises TaskFailed with the errors of all of them."""
    others = {name: value for name, value in task.environ.items() if not name.startswith("K8S_AUTH_")}
    environ = {**others, **connect_limit(task.environ)}

    def read(given: Mapping[str, Any]) -> _Worker | str:
        try:
            client = cached_client(given["connection"], environ, task.mask)
            server = given["server"] or client.connection.server
            return _read_worker(given["name"], client, server, task.client().connection.server)
        except (KubeError, TaskFailed) as problem:
            text = str(problem).removesuffix("\nNothing was changed.")
            return f"{given['name']}: {as_sentence(text)}"

    found = run_concurrently(read, task.options.workers, task.client().concurrency)
    if errors := [each for each in found if isinstance(each, str)]:
        raise TaskFailed.before_any_write(errors)
    return [each for each in found if isinstance(each, _Worker)]


def _read_worker(name: str, client: Client, server: str, manager: str) -> _Worker:
    if client.connection.server == manager:
        raise TaskFailed("this is the manager itself, which Kueue does not support as a worker")
    if not client.connection.validate_certs:
        raise TaskFailed("validate_certs is off, which Kueue does not accept. Give the certificate authority")
    _require_kueue(client)
    desired = worker_objects()
    live = [client.get(resource_of(obj), obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in desired]
    require_managed(obj for obj in live if obj)
    steps = tuple(step_for(obj, found) for obj, found in zip(desired, live, strict=True))
    has_namespace = client.get(NAMESPACE, None, SYSTEM_NAMESPACE) is not None
    prerequisites = () if has_namespace else (step_for(system_namespace(), None),)
    plan = Plan(MULTIKUEUE_NAME, SYSTEM_NAMESPACE, f"account in {name}", steps, prerequisites)
    return _Worker(name, client, server, plan, set(map(identity, client.list_objects(LOCAL_QUEUE, metadata_only=True))))


def _warn_of_workers(task: Task[MultiKueueOptions], workers: Iterable[_Worker], queues: set[tuple[str, str]]) -> None:
    for worker in workers:
        if is_loopback(worker.server):
            task.warn(
                f"{worker.name}: Kueue cannot connect to {worker.server}, which is this machine only. Set server to "
                f"the URL by which the manager reaches the cluster."
            )
        if missing := [f"{name} in {namespace}" for namespace, name in sorted(queues - worker.queues)]:
            task.warn(
                f"{worker.name} has no LocalQueue {abridged(missing, 3)}, so it gets no job from there. Apply the "
                f"pool, with queue: kueue, and the quotas to that cluster too."
            )


def _provide_account(task: Task[MultiKueueOptions], worker: _Worker, live: Live) -> None:
    """The account in the worker, and its kubeconfig: with the former token for as long as that may be kept."""
    options, former = task.options, worker.plan.steps[0].live
    run_in = Executor(worker.client, check_mode=task.check_mode, gone_timeout=60, warn=task.warn, force_conflicts=True)
    made = run_in.apply_plan(worker.plan).objects.get((SERVICE_ACCOUNT.kind, MULTIKUEUE_NAME))
    secret = live.get((SECRET.kind, options.kueue_namespace, f"{SECRET_PREFIX}{worker.name}"))
    contexts, _current = read_contexts(kubeconfig_in(secret)) or ([], "")
    token = str(contexts[0].user["user"].get("token") or "") if contexts else ""
    task.mask(filter(None, [token]))
    uid = (made or former or {"metadata": {"uid": ""}})["metadata"]["uid"]
    claims = read_claims(token)
    if not claims or not claims.may_be_kept(_USER, uid, time.time(), days=options.days, renew_days=options.renew_days):
        token, claims = "", None  # In check mode, it is yet to be issued.
        if not task.check_mode:
            token, _expires = create_token(worker.client, SYSTEM_NAMESPACE, MULTIKUEUE_NAME, options.days)
            task.mask([token])
            claims = read_claims(token)
    context = new_context(worker.client.connection, worker.server, _USER, None, {"token": token}, worker.name)
    worker.kubeconfig, worker.expires = kubeconfig_text(_USER, [context]), claims.expiry if claims else None


def _plan_manager(options: MultiKueueOptions, workers: Iterable[_Worker], live: Live) -> Plan:
    """Users come after what they use, and go before it."""
    kubeconfigs = {worker.name: worker.kubeconfig for worker in workers}
    desired = manager_objects(kubeconfigs, options.kueue_namespace)
    steps = [step_for(obj, live.get(object_id(obj))) for obj in desired]
    order = [*(kind.kind for kind in MULTIKUEUE_KINDS), SECRET.kind]
    kept = set(map(object_id, desired))
    left = [obj for key, obj in live.items() if key not in kept and key[0] in order and is_managed(obj)]
    steps += [Step(Action.DELETE, {}, dict(obj)) for obj in sorted(left, key=lambda obj: order.index(obj["kind"]))]
    return Plan(MULTIKUEUE_NAME, options.kueue_namespace, "multikueue", tuple(steps))


def _rows(
    task: Task[MultiKueueOptions], workers: Iterable[_Worker], plan: Plan, live: Live
) -> Iterator[dict[str, Any]]:
    """A row for each worker, with what Kueue says of it, as far as it has."""
    active, why = activity(live.get((ADMISSION_CHECK.kind, "", MULTIKUEUE_NAME)))
    if active is False:
        task.warn(f"AdmissionCheck {MULTIKUEUE_NAME} is not active, so no job starts: {why}")
    steps = {(step.kind, step.name): step.action for step in plan.steps}
    for worker in workers:
        action = steps[MULTIKUEUE_CLUSTER.kind, worker.name]
        is_same = steps[SECRET.kind, f"{SECRET_PREFIX}{worker.name}"] is Action.UNCHANGED and not worker.plan.changed
        action = Action.UPDATE if action is Action.UNCHANGED and not is_same else action
        active, why = activity(live.get((MULTIKUEUE_CLUSTER.kind, "", worker.name)))
        facts = {"server": worker.server, "expires": worker.expires, "active": active, "reason": why or None}
        yield {"name": worker.name, "action": str(action), **facts}
    left = f"Its account {MULTIKUEUE_NAME} is left in that cluster. Delete it with M(gpuctl_rbac)."
    for (kind, name), action in steps.items():
        if kind == MULTIKUEUE_CLUSTER.kind and action is Action.DELETE:
            facts = {"server": None, "expires": None, "active": None, "reason": left}
            yield {"name": name, "action": str(action), **facts}
