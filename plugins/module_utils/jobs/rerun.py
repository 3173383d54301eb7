# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of the plan for a training that runs already or has ended: it is run anew, or left as it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..engine.plan import WORKLOAD_KINDS, Completion, Plan, recreated, unchanged
from ..labels import PRIORITY
from .ledger import Entry, is_run_again, last_run_result, why_not_again


def plan_rerun(
    plan: Plan, manifest: str, live: Sequence[dict[str, Any]], entry: Entry | None, rerun: str, now: datetime
) -> Plan:
    """The plan for a training, in the light of its last run.

    ``manifest`` is the digest of what is asked for now, ``live`` are the training's objects, ``entry`` is what the
    ledger says of it. The digest that the ledger has to know is in the plan that comes back.
    """
    workload = next((obj for obj in live if obj["kind"] in WORKLOAD_KINDS), None)
    last_run = last_run_result(workload, entry, now) if workload is None or workload["kind"] == "Job" else None
    known = entry if workload is None or (entry and entry.uid == workload["metadata"]["uid"]) else None
    if last_run is None:
        if workload is not None and known and known.manifest == manifest and _would_be_interrupted(plan, workload):
            plan = replace(unchanged(plan, live), kept=_why_kept(plan))
        return replace(plan, manifest=manifest)
    # A run that the ledger does not know: what Kubernetes could not change in place was changed in the manifest.
    changed = known.manifest != manifest if known else bool(plan.steps[0].immutable)
    if is_run_again(rerun, last_run, changed=changed):
        return replace(recreated(plan), manifest=manifest)
    recorded = manifest if not changed else known.manifest if known else ""
    ended = Completion(last_run.result, why_not_again(rerun, last_run, changed=changed))
    return replace(unchanged(plan, live), manifest=recorded, ended=ended)


def _would_be_interrupted(plan: Plan, workload: Mapping[str, Any]) -> bool:
    """Whether a run is to be replaced for nothing that its digest or its priority says.

    A paused Job is no run: its template may change (pkg/apis/batch/validation, ValidateJobUpdate), and its pods are
    gone.
    """
    step = plan.steps[0]
    if not step.uncertain or workload["spec"].get("suspend"):
        return False
    before, after = (obj["metadata"].get("labels", {}).get(PRIORITY) for obj in (workload, step.desired))
    return bool(before == after)


def _why_kept(plan: Plan) -> str:
    return (
        "It runs on as it was submitted: its manifest is the same, and only this version of runwhere.gpuctl would "
        f"build it otherwise ({', '.join(plan.steps[0].immutable)}). Delete it and submit it again to have it "
        "built anew."
    )
