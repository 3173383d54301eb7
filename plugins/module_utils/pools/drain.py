# SPDX-License-Identifier: BSD-2-Clause
"""Jobs on nodes whose devices are divided otherwise: paused for it where the task asks, else named in a warning."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..accelerators.catalog import NodeDivision, divisions_of
from ..cluster.read_nodes import read_uses
from ..engine.node_writer import read_node_metadata
from ..kube.errors import ApiError, KubeError
from ..manifest.problems import abridged
from ..task import Task, TaskFailed
from ..wait.polling import backoff, poll
from .pool_plan import PoolPlans

if TYPE_CHECKING:
    from .pool_options import PoolOptions

_Job = tuple[str, str]  # namespace, name
_POLLED_EVERY = 5.0
_SILENT_FOR = 30.0  # seconds after which nodes that show nothing have nothing that would show it
_MOST_NAMES = 5


def jobs_on_divided_nodes(task: Task[PoolOptions], plans: PoolPlans) -> dict[str, list[_Job]]:
    """The jobs with pods on nodes that are divided otherwise, by pool. One list of requests, and only if there are any.

    Raises TaskFailed if they are to be paused and the account has no permission to list pods.
    """
    pools = {node: pool.name for pool in plans.membership.pools for node in pool.divided}
    if not pools:
        return {}
    try:
        uses = read_uses(task.client())
    except ApiError as error:
        if task.options.drain or not error.is_forbidden:
            raise
        task.warn(f"It is not known which jobs use the devices of {abridged(sorted(pools), _MOST_NAMES)}: {error}")
        return {}
    found: dict[str, set[_Job]] = {}
    for use in uses:
        if use.node in pools and use.job and use.job_kind:
            found.setdefault(pools[use.node], set()).add((use.namespace, use.job))
    return {pool: sorted(jobs) for pool, jobs in found.items()}


def disturbance(pool: str, jobs: list[_Job]) -> str:
    """The messages about jobs that are not paused."""
    names = abridged([f"{namespace}/{name}" for namespace, name in jobs], _MOST_NAMES)
    return (
        f"pool {pool}: devices that jobs use are divided otherwise: {names}. MIG changes once their pods are gone, and "
        f"others may fail. Pause them first, or use O(drain=true)."
    )


@contextmanager
def drained(task: Task[PoolOptions], jobs: Mapping[str, list[_Job]]) -> Iterator[list[dict[str, str]]]:
    """Pause the jobs, and resume them after the block, whatever happens in it. Yields the entries for ``diff``.

    Raises TaskFailed for those that could not be resumed.
    """
    paused: list[_Job] = []
    diff: list[dict[str, str]] = []
    try:
        for job in sorted({job for own in jobs.values() for job in own}):
            try:
                done = _to_state(task, job, "paused")
            except TaskFailed as failure:  # A pause that takes too long is one as well.
                paused += [job] if failure.result.get("changed") else []
                raise
            paused += [job] if done["changed"] else []  # A job that was paused before stays paused.
            diff += done["diff"]
        yield diff
    except BaseException:
        for problem in _resume(task, paused):
            task.warn(problem)
        raise
    if problems := _resume(task, paused):
        raise TaskFailed("\n".join(problems), changed=True)


def _resume(task: Task[PoolOptions], jobs: Iterable[_Job]) -> list[str]:
    """Resume every one of the jobs, and say which of them are still paused."""
    problems = []
    for job in jobs if not task.check_mode else ():
        try:
            _to_state(task, job, "resumed")
        except (KubeError, TaskFailed) as problem:
            namespace, name = job
            problems.append(f"job {name} in namespace {namespace} is still paused: {problem}")
    return problems


def _to_state(task: Task[PoolOptions], job: _Job, state: str) -> dict[str, Any]:
    from ..jobs.job import MODULE
    from ..jobs.job_options import JobOptions

    namespace, name = job
    options = JobOptions(
        name=name,
        namespace=namespace,
        state=state,
        takeover=True,
        wait=state == "paused",
        wait_timeout=task.options.drain_timeout,
    )
    return MODULE.run(task.with_options(options))


def await_division(task: Task[PoolOptions], plans: PoolPlans) -> None:
    """Wait until nodes show that they are divided, as far as they show it. Raises TaskFailed if they are late."""
    wanted = {
        node: divisions
        for pool in plans.membership.pools
        if (divisions := divisions_of(plans.live.profiles.profiles, pool.hardware))
        for node in pool.divided
    }
    if not wanted:
        return

    def all_done() -> bool:
        nodes = read_node_metadata(task.client())
        found.update({node: _division_state(divisions, nodes.get(node, {})) for node, divisions in wanted.items()})
        is_silent = time.monotonic() - begun >= min(_SILENT_FOR, timeout)
        return set(found.values()) <= {"done", *(["unknown"] if is_silent else [])}

    found: dict[str, str] = {}
    timeout, begun = task.options.drain_timeout, time.monotonic()
    if not poll(all_done, timeout, backoff(_POLLED_EVERY), immediate=False):
        late = [f"{node} ({state})" for node, state in sorted(found.items()) if state not in ("done", "unknown")]
        raise TaskFailed(
            f"nodes are not divided as declared after {timeout} seconds: {abridged(late, _MOST_NAMES)}. See the logs "
            f"of the vendor's software on these nodes.",
            changed=True,
        )


def _division_state(divisions: list[NodeDivision], metadata: Mapping[str, Any]) -> str:
    states = [division.state(metadata.get("labels") or {}) for division in divisions]
    return next((state for state in states if state != "done"), "done")
