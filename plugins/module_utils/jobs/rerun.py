# SPDX-License-Identifier: BSD-2-Clause
"""Plan a training that is running or has ended: run it again, or leave it as it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..engine.plan import WORKLOAD_KINDS, Completion, Plan
from ..engine.planning import recreated, unchanged, upgraded
from ..labels import FIELD_MANAGER, PRIORITY
from .runs.ledger import Entry, Writer, last_run_result, not_rerun_reason, should_run_again

_GPUCTL = Writer(FIELD_MANAGER)


def plan_rerun(
    plan: Plan,
    manifest: str,
    live: Sequence[dict[str, Any]],
    entry: Entry | None,
    rerun: str,
    now: datetime,
    writer: Writer = _GPUCTL,
    *,
    upgrade: bool = False,
) -> Plan:
    """The plan for a training, given its last run, with the digest to record in the ledger.

    ``manifest`` is the digest of the manifest, ``live`` are the training's objects, ``entry`` is its ledger entry, and
    ``writer`` who wrote that. A live Job says itself how it ended. Once it is gone, an entry that another client wrote
    proves nothing: the training is not run again, and its status is unknown. ``upgrade``: a running one is replaced
    also where only this version of the collection builds it otherwise.
    """
    workload = next((obj for obj in live if obj["kind"] in WORKLOAD_KINDS), None)
    last_run = last_run_result(workload, entry, now) if workload is None or workload["kind"] == "Job" else None
    known = entry if workload is None or (entry and entry.uid == workload["metadata"]["uid"]) else None
    if known and known.is_being_replaced and not known.manifest:  # announced by a restart without any other record
        known = None
    if last_run is None:
        if upgrade:
            plan = upgraded(plan)
        elif workload is not None and known and known.manifest == manifest and _would_be_interrupted(plan, workload):
            plan = replace(unchanged(plan, live), kept=_kept_reason(plan))
        return replace(plan, manifest=manifest)
    # Without a ledger entry, a difference that Kubernetes cannot change in place is a change of the manifest.
    changed = known.manifest != manifest if known else bool(plan.steps[0].immutable)
    if should_run_again(rerun, last_run, changed=changed):
        return replace(recreated(plan), manifest=manifest)
    recorded = manifest if not changed else known.manifest if known else ""
    recorded_by = writer if workload is None else None
    status = last_run.result if recorded_by is None or recorded_by.is_gpuctl else None
    ended = Completion(status, not_rerun_reason(rerun, last_run, changed=changed, recorded_by=recorded_by))
    return replace(unchanged(plan, live), manifest=recorded, ended=ended)


def _would_be_interrupted(plan: Plan, workload: Mapping[str, Any]) -> bool:
    """Whether the plan would replace a running Job although neither manifest nor priority has changed.

    A paused Job has no pods, and its template may change (pkg/apis/batch/validation, ValidateJobUpdate).
    """
    step = plan.steps[0]
    if not step.uncertain or workload["spec"].get("suspend"):
        return False
    before, after = (obj["metadata"].get("labels", {}).get(PRIORITY) for obj in (workload, step.desired))
    return bool(before == after)


def _kept_reason(plan: Plan) -> str:
    return (
        "It keeps running as it was submitted: its manifest is the same, and only this version of runwhere.gpuctl "
        f"builds it differently ({', '.join(plan.steps[0].immutable)}). To apply that, use O(upgrade=true)."
    )
