# SPDX-License-Identifier: BSD-2-Clause
"""Which source declares a job, and what that means for a plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..cluster.read_jobs import ByJob
from ..declared_source import keep_source, own_sources, record_source, recorded_source, source_problem, with_source
from ..engine.dry_run import Blocker
from ..engine.plan import WORKLOAD_KINDS, Plan
from ..engine.planning import active_objects

if TYPE_CHECKING:
    from .job_options import JobOptions
    from .ownership import Ownership

Object = dict[str, Any]


def _declaring_objects(live: Iterable[Object]) -> list[Object]:
    """The objects that say which source declares a job: its workloads, without one what is left of it.

    Its other objects are known by labels alone, which every account that may write in the namespace can set.
    """
    active = active_objects(live)
    return [obj for obj in active if obj["kind"] in WORKLOAD_KINDS] or active


def declared_by_others(plans: Iterable[Plan], live: ByJob, options: JobOptions) -> list[Blocker]:
    """A blocker for each job that another source declares."""
    found = ((plan, source_problem(_declaring_objects(live[plan.namespace, plan.name]), options)) for plan in plans)
    return [(plan, problem) for plan, problem in found if problem]


def keep_sources(objects: tuple[Object, ...], live: list[Object]) -> tuple[Object, ...]:
    """The objects of a job with the sources that are recorded on the live ones, or else on what declares the job."""
    present = {(obj["kind"], obj["metadata"]["name"]): obj for obj in live}
    own = next(filter(None, map(recorded_source, _declaring_objects(live))), "")
    kept = []
    for obj in objects:
        found = present.get((obj["kind"], obj["metadata"]["name"]))
        kept.append(keep_source(obj, found) if found or not own else with_source(obj, own))
    return tuple(kept)


def with_source_recorded(plan: Plan, source: str, live: ByJob, ownership: Ownership) -> Plan:
    """The plan that also records what declares the job. One of another user that is as declared stays as it is.

    Last of all, because that starts no pods: nothing has to be checked for it.
    """
    after = record_source(plan, source)
    if plan.changed or not after.changed:
        return after
    workloads = (obj for obj in active_objects(live[plan.namespace, plan.name]) if obj["kind"] in WORKLOAD_KINDS)
    return plan if any(map(ownership.refusal, workloads)) else after


def declared_objects(live: list[Object], options: JobOptions) -> tuple[list[Object], str]:
    """The objects of a job that a task may delete for its source, or why it may delete none.

    What a manifest declares may be of no source yet, but what a name stands for has to be of this one.
    """
    source, declaring = str(options.source), _declaring_objects(live)
    if problem := source_problem(declaring, options):
        return [], problem
    own = own_sources(options) | (set() if options.name else {""})
    if declaring and declaring[0]["kind"] not in WORKLOAD_KINDS:
        return [obj for obj in live if recorded_source(obj) in own], ""
    if any(recorded_source(obj) not in own for obj in declaring):
        return [], f"{source} does not declare it, so it is kept."
    return [obj for obj in live if recorded_source(obj) in ("", *own)], ""
