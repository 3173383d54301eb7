# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of the plan for a training that runs or has ended."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Completion
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import plan_job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.rerun import plan_rerun
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import Entry, Writer
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import PRIORITY

from ..engine.objects import live, wanted

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
CREATED = "2026-01-01T00:00:00Z"


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


def job(condition: str = "", **options: Any) -> dict[str, Any]:
    """The live Job with image a, ended by the condition."""
    conditions = [{"type": condition, "status": "True", "lastTransitionTime": CREATED}] if condition else []
    found = live("Job", spec=image("a"), status={"conditions": conditions}, **options)
    found["metadata"]["creationTimestamp"] = CREATED
    return found


def entry(manifest: str = "a", uid: str = "uid-of-train", result: str | None = None, ttl: int = 3600) -> Entry:
    return Entry(manifest, uid, CREATED, ttl, result, CREATED if result else None)


SERVICE = live("Service", "svc-train", spec={"clusterIP": "None"})
FORMER = live("Deployment", spec=image("a"))
LEAVING = job("Complete", leaving=True)
PAUSED = job()
PAUSED["spec"]["suspend"] = True
URGENT = job()
URGENT["metadata"]["labels"][PRIORITY] = "high"

# wanted image (its digest is the same letter), what is live, the entry, rerun:
# the plan's steps, the digest to record, the last status if the training is left as it is (None: it is not left)
CASES = {
    "never run": ("a", [], None, "on_change", ["create Job train"], "a", None),
    "running": ("a", [job()], entry(), "always", ["unchanged Job train"], "a", None),
    "running, changed": ("b", [job()], entry(), "never", ["update Job train"], "b", None),
    "running, not in the ledger, built otherwise": ("b", [job()], None, "never", ["update Job train"], "b", None),
    "running, built otherwise by another version": (
        "b", [job()], entry("b"), "always", ["unchanged Job train"], "b", None,
    ),
    "paused, built otherwise by another version": (
        "b", [PAUSED], entry("b"), "on_change", ["update Job train"], "b", None,
    ),
    "running, of another priority": ("b", [URGENT], entry("b"), "on_change", ["update Job train"], "b", None),
    "done": ("a", [job("Complete")], entry(), "on_change", ["unchanged Job train"], "a", "Succeeded"),
    "done, always": ("a", [job("Complete")], entry(), "always", ["recreate Job train"], "a", None),
    "done, changed": ("b", [job("Complete")], entry(), "on_change", ["recreate Job train"], "b", None),
    "done, changed, never": ("b", [job("Complete")], entry(), "never", ["unchanged Job train"], "a", "Succeeded"),
    "failed": ("a", [job("Failed")], entry(), "on_change", ["unchanged Job train"], "a", "Failed"),
    "failed, on_failure": ("a", [job("Failed")], entry(), "on_failure", ["recreate Job train"], "a", None),
    "done, built otherwise by another version": (
        "b", [job("Complete")], entry("b"), "on_change", ["unchanged Job train"], "b", "Succeeded",
    ),
    "done, not in the ledger": ("a", [job("Complete")], None, "on_change", ["unchanged Job train"], "a", "Succeeded"),
    "done, another run in the ledger": (
        "a", [job("Complete")], entry("x", "uid-0"), "on_change", ["unchanged Job train"], "a", "Succeeded",
    ),
    "done, not in the ledger, changed": (
        "b", [job("Complete")], None, "on_change", ["recreate Job train"], "b", None,
    ),
    "done, not in the ledger, changed, never": (
        "b", [job("Complete")], None, "never", ["unchanged Job train"], "", "Succeeded",
    ),
    "done and on its way out": ("a", [LEAVING], entry(), "on_change", [], "a", "Succeeded"),
    "done and on its way out, always": ("a", [LEAVING], entry(), "always", ["create Job train"], "a", None),
    "removed": ("a", [], entry(result="Succeeded"), "on_change", [], "a", "Succeeded"),
    "removed, failed": ("a", [], entry(result="Failed"), "on_change", [], "a", "Failed"),
    "removed, failed, on_failure": ("a", [], entry(result="Failed"), "on_failure", ["create Job train"], "a", None),
    "removed, changed": ("b", [], entry(result="Succeeded"), "on_change", ["create Job train"], "b", None),
    "removed, changed, never": ("b", [], entry(result="Succeeded"), "never", [], "a", "Succeeded"),
    "removed, always": ("a", [], entry(result="Succeeded"), "always", ["create Job train"], "a", None),
    "deleted before its end": ("a", [], entry(ttl=10**6), "never", ["create Job train"], "a", None),
    "a service of that name runs now": (
        "a", [FORMER], entry(result="Succeeded"), "on_change", ["recreate Job train"], "a", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "found", "known", "rerun", "steps", "manifest", "left"), CASES.values(), ids=CASES)
def test_a_training_is_run_again_or_left(asked, found, known, rerun, steps, manifest, left):
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=image(asked))], found)
    plan = plan_rerun(plan, asked, found, known, rerun, NOW)
    assert [str(step).partition(":")[0] for step in plan.steps] == steps
    assert plan.manifest == manifest
    assert (plan.ended and plan.ended.status) == left
    assert plan.changed == (not left and "unchanged" not in steps[0])


def test_an_entry_of_another_field_manager_is_no_evidence_but_a_live_job_is():
    """The training is not run, which might overwrite its results, and nothing is claimed about it."""
    forged, by = entry(result="Succeeded"), Writer("kubectl-edit")
    gone = plan_rerun(plan_job("train", "ml", "training", [wanted("Job")], []), "a", [], forged, "on_change", NOW, by)
    assert (gone.action, (gone.ended or Completion("?")).status) == (Action.UNCHANGED, None)
    found = [job("Failed")]
    live = plan_rerun(plan_job("train", "ml", "training", found, found), "a", found, forged, "never", NOW, by)
    assert (live.ended or Completion()).status == "Failed"


def test_an_unseen_end_counts_as_an_end():
    plan = plan_job("train", "ml", "training", [wanted("Job", spec=image("a"))], [])
    plan = plan_rerun(plan, "a", [], entry(), "on_failure", NOW)
    assert (plan.steps, plan.ended.status) == ((), None)
    assert "with an unknown result" in plan.ended.reason


def test_owned_objects_are_recreated_with_the_training():
    desired = [wanted("Job", spec=image("a")), wanted("Service", "svc-train", spec={"clusterIP": "None"})]
    found = [job("Failed"), SERVICE]
    plan = plan_job("train", "ml", "training", desired, found)
    again = plan_rerun(plan, "a", found, entry(), "always", NOW)
    assert [str(step.action) for step in again.steps] == ["recreate", "update"]
    left = plan_rerun(plan, "a", found, entry(), "on_change", NOW)
    assert [str(step.action) for step in left.steps] == ["unchanged", "unchanged"]
