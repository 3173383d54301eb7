# SPDX-License-Identifier: BSD-2-Clause
"""In which of several clusters a job is submitted, and what is said where none is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placement_report import placement_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing import (
    Answers,
    Inventory,
    Wish,
    cluster_row,
    decide,
    inventory_problem,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines

HAS, LACKS, SILENT = (
    {"results": [{"name": "sft"}]},
    {"not_found": ["sft"], "msg": "not found"},
    {"msg": "cannot reach it"},
)
JOB = {"name": "sft", "namespace": "team-a"}
PLACED = {**JOB, "cluster": "b", "claimed_by": "alice on laptop", "claimed_at": "2026-03-01T10:00:00.000000Z"}
MOVING = {**PLACED, "leaving": "a"}
SINCE = "since 2026-03-01 10:00 UTC (alice on laptop)"
ALL = Wish(chosen=["all"])
CLUSTERS = Inventory(
    clusters=["a", "b", "c"],
    in_play=["a", "b", "c"],
    groups={"all": ["a", "b", "c", "localhost"], "eu": ["b", "c"]},
    home="a",
    prices={"a": 3.1, "b": 2, "c": 1},
)


def judged(verdict: str = "now", **fit: Any) -> dict[str, Any]:
    """What gpuctl_job has returned in check mode."""
    return {"results": [{"action": "create", "error": None, "fit": {"verdict": verdict, "reason": "Why.", **fit}}]}


REFUSED = {"results": [{"action": "create", "error": "no such pool", "fit": None}]}
UNSEEN = {"msg": "the server went away", "failed": True}
ENDED = {"results": [{"action": "unchanged", "error": None, "fit": None}]}


def answers(looked: str, placed: dict[str, Any] = JOB, **known: Any) -> Answers:
    """``looked``: of each cluster, ``+`` if it has the job, ``-`` if not, ``?`` if it is silent."""
    found = {"+": HAS, "-": LACKS, "?": SILENT}
    return Answers(placed=placed, looked=dict(zip("abc", (found[each] for each in looked), strict=True)), **known)


STAYS = {
    "it is nowhere": (answers("---"), None),
    "it is where it was submitted by hand": (answers("-+-"), "b"),
    "it is where it is placed": (answers("-+-", PLACED), "b"),
    "an interrupted run has not submitted it": (answers("---", PLACED), "b"),
    "another cluster is silent": (answers("?+-", PLACED), "b"),
    "it has moved there": (answers("-+-", MOVING), "b"),
    "it has moved there from a silent one": (answers("?+-", MOVING), "b"),
    "it has ended where it ran": (answers("---", judged={"a": judged(), "b": ENDED, "c": judged()}), "b"),
}


IMAGES = {
    "of a registry": ("registry.example.com/train:v1", ["a"]),
    "of a repository": ("quay.io/team/train@sha256:0", ["a", "c"]),
    "of one that begins alike": ("quay.io/teams/train:v1", ["a"]),
    "of Docker Hub": ("pytorch/pytorch:2.9", ["a", "b"]),
    "that is not known": ("", ["a", "b", "c"]),
}


@pytest.mark.parametrize(("image", "having"), IMAGES.values(), ids=IMAGES)
def test_a_job_goes_where_its_image_can_be_had(image: str, having: list[str]) -> None:
    there = replace(CLUSTERS, registries={"b": ["docker.io"], "c": ["registry.example.com/other", "quay.io/team"]})
    wish = replace(ALL, image=image)
    known = answers("---", judged=dict.fromkeys("abc", judged()))
    found = {each: cluster_row(each, wish, there, known) for each in "abc"}
    assert [each for each, row in found.items() if row["verdict"] == "now"] == having
    if "c" not in having:
        assert found["c"]["runs"] == "refused"
        has = "the tag registries of this cluster has registry.example.com/other, quay.io/team."
        assert found["c"]["reason"] == f"The image is {image}, and {has}"


@pytest.mark.parametrize(("known", "cluster"), STAYS.values(), ids=STAYS)
def test_a_job_stays_where_it_is(known: Answers, cluster: str | None) -> None:
    decision = decide(ALL, CLUSTERS, known)
    assert (decision.problem, decision.cluster) == (None, cluster)


PROBLEMS: dict[str, tuple[Wish, Answers, str]] = {
    "the record cannot be read": (ALL, answers("---", {"msg": "cannot reach it"}), "cannot reach it"),
    "two clusters have it": (
        ALL,
        answers("+-+"),
        "job sft exists in a and c. Nothing was submitted. Delete it in c: ansible-playbook runwhere.gpuctl.delete -e "
        "gpuctl_name=sft --limit c",
    ),
    "a silent one may have it": (
        ALL,
        answers("--?"),
        "job sft may be in c, so it was not placed. c could not be asked: cannot reach it. If c is lost with all that "
        "ran there, add -e gpuctl_assume_lost=c.",
    ),
    "a silent one may have it as well": (
        ALL,
        answers("+?-"),
        "job sft may be in b, so it was not placed. b could not be asked: cannot reach it. If b is lost with all that "
        "ran there, add -e gpuctl_assume_lost=b.",
    ),
    "two silent ones may have it, one of them is given up": (
        replace(ALL, lost=["b"]),
        answers("-??"),
        "job sft may be in c, so it was not placed. c could not be asked: cannot reach it. If c is lost with all that "
        "ran there, add -e gpuctl_assume_lost=c.",
    ),
    "its cluster is silent": (
        ALL,
        answers("-?-", PLACED),
        f"job sft is placed in b {SINCE}, and may run there. Nothing was submitted. b could not be asked: cannot reach "
        "it. If b is lost with all that ran there, add -e gpuctl_assume_lost=b.",
    ),
    "its cluster is of another inventory": (
        ALL,
        answers("---", {**PLACED, "cluster": "mars"}),
        f"job sft is placed in mars {SINCE}, which the inventory does not have. If mars is lost with all that ran "
        "there, add -e gpuctl_assume_lost=mars.",
    ),
    "it is in another cluster than it is placed in": (
        ALL,
        answers("+--", PLACED),
        f"job sft exists in a, and is placed in b {SINCE}. Nothing was submitted. Delete it in a: "
        "ansible-playbook runwhere.gpuctl.delete -e gpuctl_name=sft --limit a",
    ),
    "a cluster that came back has it as well": (
        ALL,
        answers("++-", PLACED),
        f"job sft exists in a, and is placed in b {SINCE}. Nothing was submitted. Delete it in a: "
        "ansible-playbook runwhere.gpuctl.delete -e gpuctl_name=sft --limit a",
    ),
    "it moves": (
        ALL,
        answers("+--", MOVING),
        f"job sft has been moving from a to b {SINCE}. Nothing was submitted. To end the move: ansible-playbook "
        "runwhere.gpuctl.move -e gpuctl_name=sft",
    ),
    "it moves, and is in neither": (
        ALL,
        answers("---", MOVING),
        f"job sft has been moving from a to b {SINCE}. Nothing was submitted. To end the move: ansible-playbook "
        "runwhere.gpuctl.move -e gpuctl_name=sft",
    ),
    "it moves in AWX": (
        replace(ALL, in_awx=True),
        answers("++-", MOVING),
        f"job sft has been moving from a to b {SINCE}. Nothing was submitted. To end the move, run the playbook "
        "runwhere.gpuctl.move with gpuctl_name=sft.",
    ),
    "it moves from a silent one": (
        ALL,
        answers("?--", MOVING),
        f"job sft has been moving from a to b {SINCE}. Nothing was submitted. If a is lost with all that ran there, "
        "add -e gpuctl_assume_lost=a.",
    ),
    "a cluster that answers is given up": (
        replace(ALL, lost=["b"]),
        answers("---", PLACED),
        "gpuctl_assume_lost: b answers, so it is not lost. Leave it out.",
    ),
    "a misspelt cluster is given up": (
        replace(ALL, lost=["bb"]),
        answers("---"),
        "gpuctl_assume_lost: no cluster of the inventory: bb. Use one of: a, b, c.",
    ),
    "it runs in none of them": (
        replace(ALL, chosen=["eu"]),
        answers("---", judged={"a": judged(), "b": judged("never"), "c": REFUSED}),
        "job sft would run in none of the clusters as it is: b and c. Nothing was submitted.",
    ),
    "the claim cannot be written": (
        ALL,
        answers("-+-", claimed={"msg": "cannot reach it"}),
        "cluster b could not be claimed, so nothing was submitted: cannot reach it.",
    ),
}


@pytest.mark.parametrize(("wish", "known", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_nothing_is_placed(wish: Wish, known: Answers, problem: str) -> None:
    decision = decide(wish, CLUSTERS, known)
    assert (decision.problem, decision.cluster) == (problem, None)


def test_a_cluster_that_a_job_was_leaving_is_given_up() -> None:
    """Also one that the inventory has no more."""
    for lost, looked in (("a", "?--"), ("mars", "---")):
        decision = decide(replace(ALL, lost=[lost]), CLUSTERS, answers(looked, {**MOVING, "leaving": lost}))
        assert (decision.problem, decision.cluster) == (None, "b")


LATER, SOON = {"runs_at": "2026-03-01T12:00:00Z"}, {"runs_at": "2026-03-01T11:00:00Z"}
CHOICES: dict[str, tuple[Wish, dict[str, Any], str]] = {
    "the first one is full": (ALL, {"a": judged("after_jobs"), "b": judged(), "c": judged()}, "b"),
    "the first one is refused": (ALL, {"a": REFUSED, "b": judged(), "c": judged()}, "b"),
    "the first one went away": (ALL, {"a": UNSEEN, "b": judged(), "c": judged()}, "b"),
    "all are free": (ALL, dict.fromkeys("abc", judged()), "a"),
    "the list counts": (Wish(chosen=["c", "a"], order="listed"), dict.fromkeys("abc", judged()), "c"),
    "the list has a group": (Wish(chosen=["eu"], order="listed"), dict.fromkeys("abc", judged()), "b"),
    "the price counts": (replace(ALL, order="cheapest"), dict.fromkeys("abc", judged()), "c"),
    "free comes before cheap": (
        replace(ALL, order="cheapest"),
        {"a": judged(), "b": judged(), "c": judged("after_jobs")},
        "b",
    ),
    "preemption comes before waiting": (
        ALL,
        {"a": judged("after_quota"), "b": judged("after_jobs"), "c": judged("after_preemption")},
        "c",
    ),
    "the first end counts": (
        ALL,
        {"a": judged("after_jobs"), "b": judged("after_jobs", **LATER), "c": judged("after_jobs", **SOON)},
        "c",
    ),
    "sooner comes before cheap": (
        replace(ALL, order="cheapest"),
        {"a": judged("after_jobs", **SOON), "b": judged("after_jobs"), "c": judged("after_jobs", **LATER)},
        "a",
    ),
    "what is not known comes last": (ALL, {"a": judged("unknown"), "b": judged("after_quota"), "c": REFUSED}, "b"),
    "what is not known is better than never": (ALL, {"a": judged("never"), "b": judged("unknown"), "c": REFUSED}, "b"),
}


@pytest.mark.parametrize(("wish", "found", "cluster"), CHOICES.values(), ids=CHOICES)
def test_a_new_job_goes_where_it_runs_first(wish: Wish, found: dict[str, Any], cluster: str) -> None:
    decision = decide(wish, CLUSTERS, answers("---", judged=found))
    assert (decision.problem, decision.cluster) == (None, cluster)
    assert [row["cluster"] for row in decision.rows if row["placed"] == "here"] == [cluster]
    assert sorted(row["cluster"] for row in decision.rows) == ["a", "b", "c"]


def test_a_lost_cluster_is_not_chosen() -> None:
    known = answers("-?-", PLACED, judged={"a": judged("after_jobs"), "c": judged("after_quota")})
    decision = decide(replace(ALL, lost=["b"]), CLUSTERS, known)
    assert (decision.problem, decision.cluster) == (None, "a")


def test_the_claim_of_another_run_counts() -> None:
    known = answers("---", judged=dict.fromkeys("abc", judged()), claimed={**JOB, "cluster": "c"})
    decision = decide(ALL, CLUSTERS, known)
    assert (decision.cluster, decision.reason) == ("c", "goes to c, which another run has claimed at the same time")
    assert decision.rows == ()


INVENTORIES: dict[str, tuple[Wish, Inventory, str | None]] = {
    "it can be": (ALL, CLUSTERS, None),
    "there are none": (
        ALL,
        replace(CLUSTERS, clusters=[], in_play=[]),
        "gpuctl_clusters: the inventory has no clusters. Add -i with one that has the group gpuctl_clusters.",
    ),
    "some are left out": (
        ALL,
        replace(CLUSTERS, in_play=["a"]),
        "gpuctl_clusters: a job is looked for in all clusters of the inventory, and this play leaves out b, c. Leave "
        "out the limit: gpuctl_clusters chooses where a job may go.",
    ),
    "one is misspelt": (
        Wish(chosen=["eu", "euu"]),
        CLUSTERS,
        "gpuctl_clusters: no cluster or group of clusters: euu. Did you mean eu?",
    ),
    "no home": (
        ALL,
        replace(CLUSTERS, home=None),
        "gpuctl_home: not set. Placements are recorded in one cluster, which is never another one later: set home in "
        "the file clusters.yml, or the variable gpuctl_home of the inventory, for example to a.",
    ),
    "no price": (
        Wish(chosen=["eu"], order="cheapest"),
        replace(CLUSTERS, prices={"b": 1.0}),
        "gpuctl_order=cheapest: no price of c. Add the tag price in the inventory.",
    ),
    "no price where none is needed": (
        Wish(chosen=["b"], order="cheapest"),
        replace(CLUSTERS, prices={"b": 1.0}),
        None,
    ),
}


@pytest.mark.parametrize(("wish", "inventory", "problem"), INVENTORIES.values(), ids=INVENTORIES)
def test_what_an_inventory_needs(wish: Wish, inventory: Inventory, problem: str | None) -> None:
    assert inventory_problem(wish, inventory) == problem


def test_the_report_says_why_each_other_cluster_is_not_taken() -> None:
    found = {"a": judged("after_jobs", hint="With gpu 4 instead of 8, it runs now."), "b": judged(), "c": judged()}
    decision = decide(Wish(chosen=["a", "b", "c"], order="cheapest"), CLUSTERS, answers("---", judged=found))
    lines = screen_lines(placement_report(decision.as_result("sft")["shown"]), View(80))
    assert "\n".join(lines) == (
        "CLUSTER  RUNS              PRICE  PLACED\n"
        "c        now                   1  here\n"
        "b        now                   2  no\n"
        "a        after other jobs    3.1  no\n"
        "\n"
        "b (now): It runs there as soon, and costs more than in c.\n"
        "a (after other jobs): Why. With gpu 4 instead of 8, it runs now.\n"
        "\n"
        "Job sft goes to c, where it runs now."
    )


def test_the_report_says_why_it_is_not_known_where_a_job_runs() -> None:
    """As with an account that may only list its own pods: no cluster runs it as soon as another one then."""
    unknown = judged("unknown", reason="Not known: the account may not list pods.")
    decision = decide(replace(ALL, order="cheapest"), CLUSTERS, answers("---", judged=dict.fromkeys("abc", unknown)))
    lines = screen_lines(placement_report(decision.as_result("sft")["shown"]), View(80))
    assert "\n".join(lines) == (
        "CLUSTER  RUNS       PRICE  PLACED\n"
        "c        not known      1  here\n"
        "b        not known      2  no\n"
        "a        not known    3.1  no\n"
        "\n"
        "c, b, a: Not known: the account may not list pods.\n"
        "\n"
        "Job sft goes to c, where it may run."
    )
