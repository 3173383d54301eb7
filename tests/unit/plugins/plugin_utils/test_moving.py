# SPDX-License-Identifier: BSD-2-Clause
"""Which placed jobs move, where to, and what follows where a move was interrupted or something came in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.moving import (
    Candidate,
    MoveWish,
    Steps,
    decide_move,
    move_row,
    select_moves,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placement_report import moves_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing import Inventory, Wish
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
JOB = {"name": "sft", "namespace": "team-a"}
PLACED = {**JOB, "cluster": "b", "leaving": None}
LEAVING = {**JOB, "cluster": "c", "leaving": "b"}
LACKS, SILENT = {"not_found": ["sft"], "msg": "not found"}, {"msg": "cannot reach it"}
CLUSTERS = Inventory(
    clusters=["a", "b", "c"],
    in_play=["a", "b", "c"],
    groups={"all": ["a", "b", "c", "localhost"], "eu": ["b", "c"]},
    home="a",
    prices={"a": 3, "b": 2, "c": 1},
    storage={"b": "lab", "c": "lab", "a": "other"},
)
ALL = Wish(chosen=["all"])
BY_NAME = MoveWish(to=ALL, name="sft")
DRAIN = MoveWish(to=ALL, source="b")
LONG = MoveWish(to=ALL, waiting=1800)


def has(status: str = "Pending", created: str = "2026-03-01T11:00:00Z", **facts: Any) -> dict[str, Any]:
    """What gpuctl_job_info has returned."""
    row = {**JOB, "status": status, "created_at": created, "started_at": None, "managed": True, **facts}
    return {"results": [row]}


def looked(**clusters: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"a": LACKS, "b": LACKS, "c": LACKS, **clusters}


# -- which jobs --------------------------------------------------------------------------------------------------------

#: wish, placement, what the clusters have -> None for left out, else its error or why it stays, or "" if it may move
SELECTED: dict[str, tuple[MoveWish, dict[str, Any], dict[str, Any], str | None]] = {
    "it waits": (BY_NAME, PLACED, looked(b=has()), ""),
    "it is paused": (BY_NAME, PLACED, looked(b=has("Paused")), ""),
    "it is paused, and its cluster is drained": (
        DRAIN,
        PLACED,
        looked(b=has("Paused")),
        "It is paused, and would run elsewhere. Move it by its name.",
    ),
    "it runs where it may": (BY_NAME, PLACED, looked(b=has("Running")), "It runs in b."),
    "it runs where it should not": (
        replace(BY_NAME, to=Wish(chosen=["c"])),
        PLACED,
        looked(b=has("Running")),
        "it runs. gpuctl_running=true stops it, and starts it elsewhere.",
    ),
    "it may be stopped": (
        replace(BY_NAME, to=Wish(chosen=["c"]), running=True),
        PLACED,
        looked(b=has("Running")),
        "",
    ),
    "it runs in a cluster that is drained": (
        DRAIN,
        PLACED,
        looked(b=has("Partially Running")),
        "It runs. gpuctl_running=true stops it, and starts it elsewhere.",
    ),
    "all that runs there is stopped": (replace(DRAIN, running=True), PLACED, looked(b=has("Running")), ""),
    "another cluster is drained": (replace(DRAIN, source="c"), PLACED, looked(b=has()), None),
    "another one is silent": (replace(DRAIN, source="c"), PLACED, looked(b=SILENT), None),
    "it has waited for long": (LONG, PLACED, looked(b=has()), ""),
    "it has not waited for long": (LONG, PLACED, looked(b=has(created="2026-03-01T11:45:00Z")), None),
    "it was resumed": (LONG, PLACED, looked(b=has(started_at="2026-03-01T11:45:00Z")), None),
    "it does not wait": (LONG, PLACED, looked(b=has("Running")), None),
    "its move was interrupted": (LONG, LEAVING, looked(b=has("Paused")), ""),
    "its move was interrupted, and it is gone": (DRAIN, LEAVING, looked(), ""),
    "its move was interrupted, and it is there": (BY_NAME, LEAVING, looked(c=has("Running")), ""),
    "it has ended": (BY_NAME, PLACED, looked(b=has("Failed")), "It has ended in b: Failed."),
    "it has ended in a cluster that is drained": (DRAIN, PLACED, looked(b=has("Succeeded")), None),
    "it is gone from a cluster that is drained": (DRAIN, PLACED, looked(), None),
    "it is gone": (
        BY_NAME,
        PLACED,
        looked(),
        "it is placed in b, which does not have it. Submit or delete it.",
    ),
    "it is of another tool": (
        DRAIN,
        PLACED,
        looked(b=has(managed=False)),
        "It exists in b, but gpuctl does not manage it.",
    ),
    "it is not placed": (
        BY_NAME,
        {**PLACED, "cluster": None},
        looked(b=has()),
        "it is not placed in a cluster. Submit it with gpuctl_clusters, which records where it is.",
    ),
    "its cluster is silent": (
        DRAIN,
        PLACED,
        looked(b=SILENT),
        "cluster b could not be asked, and may have it: cannot reach it. If it is lost, submit the job with "
        "gpuctl_assume_lost=b.",
    ),
    "where it goes is silent": (
        BY_NAME,
        LEAVING,
        looked(c=SILENT),
        "cluster c could not be asked, and may have it: cannot reach it. If it is lost, submit the job with "
        "gpuctl_assume_lost=c.",
    ),
    "a third one is silent": (BY_NAME, PLACED, looked(a=SILENT, b=has()), ""),
    "the inventory lacks its cluster": (
        BY_NAME,
        {**PLACED, "cluster": "d\n"},
        looked(),
        "it is placed in d\\x0a, which the inventory does not have. If it is lost, submit the job with "
        "gpuctl_assume_lost=d\\x0a.",
    ),
    "it exists twice": (
        BY_NAME,
        PLACED,
        looked(a=has(), b=has()),
        "it exists in a as well, and is placed in b. Delete it in a: ansible-playbook runwhere.gpuctl.delete -e "
        "gpuctl_name=sft --limit a",
    ),
}


@pytest.mark.parametrize(("wish", "placed", "known", "said"), SELECTED.values(), ids=SELECTED)
def test_jobs_are_chosen(wish: MoveWish, placed: dict[str, Any], known: dict[str, Any], said: str | None) -> None:
    found = select_moves(wish, CLUSTERS, [placed], known, NOW)
    assert [each.error or each.stays or "" for each in found] == ([] if said is None else [said])


def test_those_that_wait_longest_come_first() -> None:
    names = {"new": "2026-03-01T11:00:00Z", "old": "2026-02-01T11:00:00Z"}
    placed = [{**PLACED, "name": name} for name in names]
    rows = [{**has(created=moment)["results"][0], "name": name} for name, moment in names.items()]
    found = select_moves(DRAIN, CLUSTERS, placed, looked(b={"results": rows}), NOW)
    assert [each.name for each in found] == ["old", "new"]


# -- where to, and how far ---------------------------------------------------------------------------------------------

WAITS = Candidate(name="sft", namespace="team-a", source="b", status="Pending")
GOES = replace(WAITS, target="c")
MANIFEST = {"kind": "training", "job": {"name": "sft"}, "environment": {"env": [{"name": "A", "value": "b"}]}}
RUN = {**JOB, "manifest": MANIFEST, "manifest_note": None, "gpu_hours": 0.0}


def judged(action: str = "create", verdict: str | None = "now", error: str | None = None) -> dict[str, Any]:
    fit = verdict and {"verdict": verdict, "reason": "Why.", "hint": None, "runs_at": None}
    return {
        "results": [{"name": "other", "namespace": "team-a"}, {**JOB, "action": action, "error": error, "fit": fit}]
    }


SAME = judged("unchanged", None)
ASKED = Steps(
    looked=looked(b=has()), recorded={"b": {"results": [RUN]}}, judged={"a": judged(), "b": SAME, "c": judged()}
)


def asked(**clusters: dict[str, Any]) -> Steps:
    return replace(ASKED, judged={**ASKED.judged, **clusters})


def recorded(**facts: Any) -> Steps:
    return replace(ASKED, recorded={"b": {"results": [{**RUN, **facts}]}})


def paused(status: str | None, action: str = "unchanged") -> dict[str, Any]:
    """What gpuctl_job has returned in check mode once the job was to be paused."""
    return {"b": {"results": [{**JOB, "status": status, "action": action, "error": None}]}}


GONE = replace(asked(b=judged()), looked=looked())

#: candidate, steps -> the cluster that the job goes to
TARGETS: dict[str, tuple[MoveWish, Candidate, Steps, str]] = {
    "the first in which it runs": (BY_NAME, WAITS, ASKED, "a"),
    "the one that its manifest names": (
        replace(BY_NAME, to=Wish(chosen=[], order="")),
        replace(WAITS, placement={"clusters": ["c"], "groups": [], "order": "free"}),
        ASKED,
        "c",
    ),
    "the cheapest": (replace(BY_NAME, to=Wish(chosen=["all"], order="cheapest")), WAITS, ASKED, "c"),
    "the one in which it runs now": (BY_NAME, WAITS, asked(a=judged(verdict="after_jobs")), "c"),
    "one that sees its storage": (BY_NAME, replace(WAITS, status="Paused"), ASKED, "c"),
    "one that sees its storage, as it has run": (BY_NAME, WAITS, recorded(gpu_hours=0.1), "c"),
    "the one that was claimed": (BY_NAME, GOES, asked(c=judged(verdict="never")), "c"),
    "the one that was claimed, and it is paused": (BY_NAME, replace(GOES, status="Paused"), ASKED, "c"),
    "the one that was claimed, and it is gone": (BY_NAME, replace(GOES, status=None), GONE, "c"),
    "the one that was claimed, and the other one would refuse it": (
        BY_NAME,
        replace(GOES, status=None),
        replace(recorded(result="Deleted"), judged={**GONE.judged, "b": judged(error="no such pool")}),
        "c",
    ),
    "the one that was claimed, and it may be stopped": (
        replace(BY_NAME, running=True),
        replace(GOES, status="Running"),
        ASKED,
        "c",
    ),
}


@pytest.mark.parametrize(("wish", "candidate", "steps", "cluster"), TARGETS.values(), ids=TARGETS)
def test_a_job_goes_to(wish: MoveWish, candidate: Candidate, steps: Steps, cluster: str) -> None:
    move = decide_move(wish, CLUSTERS, candidate, steps)
    assert (move.error, move.stays, move.target, move.back) == (None, None, cluster, False)
    assert move.manifest["job"] == {"name": "sft", "namespace": "team-a"}


FORGED = {
    "no manifest": {"manifest": None},
    "a text": {"manifest": "kind: training"},
    "no job": {"manifest": {"kind": "training"}},
    "a job that is a text": {"manifest": {"kind": "training", "job": "sft"}},
    "a note with a line break": {"manifest": None, "manifest_note": "kept\nelsewhere"},
}


@pytest.mark.parametrize("facts", FORGED.values(), ids=FORGED)
def test_a_record_that_others_wrote_is_not_submitted(facts: dict[str, Any]) -> None:
    move = decide_move(BY_NAME, CLUSTERS, WAITS, recorded(**facts))
    assert move.error is not None
    assert move.error.endswith("Give its manifest as gpuctl_src.")
    assert (move.target, "\n" in move.error) == (None, False)


def test_the_record_names_another_place() -> None:
    """The manifest is submitted under the name and in the namespace of the job that is moved."""
    own = {**MANIFEST, "job": {"name": "root", "namespace": "team-b"}}
    move = decide_move(BY_NAME, CLUSTERS, WAITS, recorded(manifest=own))
    assert move.manifest["job"] == {"name": "sft", "namespace": "team-a"}


REFUSED: dict[str, tuple[Candidate, Steps, str]] = {
    "its manifest has a secret": (
        WAITS,
        recorded(manifest={**MANIFEST, "environment": {"env": [{"name": "TOKEN", "value": "********"}]}}),
        "its manifest has secret values, which are not recorded: environment.env TOKEN. Give its manifest as "
        "gpuctl_src.",
    ),
    "the history cannot be read": (
        WAITS,
        replace(ASKED, recorded={"b": {"msg": "forbidden"}}),
        "its manifest could not be read: forbidden. Give its manifest as gpuctl_src.",
    ),
    "it was changed": (
        WAITS,
        asked(b=judged("update")),
        "its manifest is another one than that of the job in b. Submit it there first.",
    ),
    "its cluster refuses it": (
        WAITS,
        asked(b=judged("update", error="no such pool")),
        "its manifest could not be compared with the job in b: no such pool",
    ),
    "its cluster fails": (
        WAITS,
        asked(b={"msg": "went away", "failed": True}),
        "its manifest could not be compared with the job in b: went away.",
    ),
    "it runs nowhere now": (
        WAITS,
        asked(a=judged(verdict="after_jobs"), c=judged(error="no such pool")),
        "It would run now in no other cluster. a (after other jobs): Why. c (refused): no such pool.",
    ),
    "another run has claimed another one": (
        WAITS,
        replace(ASKED, claimed={"a": {**JOB, "cluster": "c", "leaving": "b"}}),
        "another run has placed it in c meanwhile.",
    ),
    "the claim fails": (
        WAITS,
        replace(ASKED, claimed={"a": {"msg": "forbidden", "failed": True}}),
        "its move could not be recorded, so nothing was changed: forbidden.",
    ),
    "it does not stop": (
        GOES,
        replace(ASKED, stopped={"b": {"msg": "timed out", "failed": True}}),
        "it could not be stopped in b: timed out. The same command goes on from there.",
    ),
    "it was resumed": (
        GOES,
        replace(ASKED, checked=paused("Running")),
        "it was stopped in b, and is Running there now. The same command goes on from there.",
    ),
    "another run has deleted it": (
        GOES,
        replace(ASKED, checked=paused(None, "create")),
        "it was stopped in b, and is not found there now. The same command goes on from there.",
    ),
    "another run has changed it": (
        GOES,
        replace(ASKED, checked=paused("Paused", "update")),
        "it was stopped in b, and is changed there now. The same command goes on from there.",
    ),
    "it is not deleted": (
        GOES,
        replace(ASKED, deleted={"b": {"results": [{"error": "no"}], "msg": "no"}}),
        "it is paused, and could not be deleted in b: no. The same command goes on from there.",
    ),
    "its placement was released": (
        GOES,
        replace(ASKED, due={"c": {**JOB, "cluster": None, "leaving": None, "msg": "job sft is not placed"}}),
        "its placement was changed meanwhile, so it was not submitted in c: job sft is not placed.",
    ),
    "it is not submitted": (
        GOES,
        replace(ASKED, submitted={"c": {"msg": "quota", "failed": True}}),
        "it is no longer in b, and could not be submitted in c: quota. The same command goes on from there.",
    ),
    "another run has placed it elsewhere": (
        GOES,
        replace(ASKED, confirmed={"c": {**JOB, "cluster": "a"}}),
        "it is not known to be placed in c: a",
    ),
}


@pytest.mark.parametrize(("candidate", "steps", "said"), REFUSED.values(), ids=REFUSED)
def test_a_move_ends_with_an_error(candidate: Candidate, steps: Steps, said: str) -> None:
    move = decide_move(BY_NAME, CLUSTERS, candidate, steps)
    assert (move.error, move.back) == (said, False)


BACK = {
    "it has ended": (replace(GOES, status="Succeeded"), ASKED, "It has ended in b before it was moved: Succeeded."),
    "it has ended and is gone": (
        replace(GOES, status=None),
        replace(ASKED, looked=looked()),
        "It has ended in b before it was moved.",
    ),
    "it has ended, as is recorded": (
        replace(GOES, status=None),
        replace(recorded(result="Failed"), judged=GONE.judged),
        "It has ended in b before it was moved.",
    ),
    "it runs by now": (replace(GOES, status="Running"), ASKED, "It runs in b by now."),
    "it has ended while it was paused": (
        GOES,
        replace(ASKED, checked=paused("Failed")),
        "It has ended in b before it was moved: Failed.",
    ),
}


@pytest.mark.parametrize(("candidate", "steps", "said"), BACK.values(), ids=BACK)
def test_a_placement_goes_back(candidate: Candidate, steps: Steps, said: str) -> None:
    move = decide_move(BY_NAME, CLUSTERS, candidate, steps)
    assert (move.error, move.stays, move.back) == (None, said, True)


def test_nothing_follows_before_the_clusters_were_asked() -> None:
    for steps in (Steps(looked=looked(b=has())), replace(ASKED, judged={})):
        move = decide_move(BY_NAME, CLUSTERS, WAITS, steps)
        assert (move.error, move.stays, move.target, move.back) == (None, None, None, False)


def test_the_manifest_of_the_user_needs_no_record() -> None:
    alone = {"results": SAME["results"][1:]}
    steps = replace(asked(b=alone), recorded={"b": {"msg": "forbidden"}})
    move = decide_move(BY_NAME, CLUSTERS, WAITS, steps, has_manifest=True)
    assert (move.target, move.manifest) == ("a", None)
    several = decide_move(BY_NAME, CLUSTERS, WAITS, ASKED, has_manifest=True)
    assert several.error == "gpuctl_src has other jobs. Give the manifest of this one alone."


def test_the_screen() -> None:
    steps = asked(a=judged(verdict="after_jobs"), c=judged(error="no such pool"))
    moves = [
        (WAITS, decide_move(DRAIN, CLUSTERS, WAITS, ASKED)),
        (replace(WAITS, name="sft-2"), decide_move(DRAIN, CLUSTERS, WAITS, steps)),
    ]
    rows = [move_row(candidate, move, done=False) for candidate, move in moves]
    result = {"report": "moves", "results": rows, "done": False, "msg": "Nothing was changed."}
    lines = screen_lines(moves_report(result), View(100, True, lambda _key, cell: cell))
    assert "\n".join(lines) == (
        "NAME   NAMESPACE  STATUS   FROM  TO  ACTION\n"
        "sft    team-a     Pending  b     a   would move\n"
        "sft-2  team-a     Pending  b     -   stays\n"
        "\n"
        "team-a/sft: It moves from b to a, where it runs now.\n"
        "team-a/sft-2: It would run now in no other cluster. a (after other jobs): Why. c (refused): no such\n"
        "  pool.\n"
        "\n"
        "1 job would move, 1 stays. Nothing was changed."
    )
