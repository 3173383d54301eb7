# SPDX-License-Identifier: BSD-2-Clause
"""In which of several clusters each job of a command is submitted: as if each was placed by itself, in turn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placement_report import placement_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing import Answers, Inventory, Wish
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing_jobs import place_jobs
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines

NAMES = ("a", "b", "c")
PRICES = {"a": 3.0, "b": 2.0, "c": 1.0}
CLUSTERS = Inventory(clusters=NAMES, in_play=NAMES, groups={"all": NAMES}, home="a", prices=PRICES)
ALL = Wish(chosen=["all"], order="")
Sizes = Mapping[str, int]  # GPUs of each job, and of each cluster


def placed(jobs: Sizes, **placements: Any) -> dict[str, Any]:
    """What gpuctl_placement returns of the jobs."""
    rows = [{"name": name, "namespace": "x", "cluster": None, "leaving": None} for name in jobs]
    return {"placements": [{**row, "placement": placements.get(row["name"])} for row in rows]}


def answer(free: int, asked: Sequence[str], jobs: Sizes, unfit: Sequence[str] = ()) -> dict[str, Any]:
    """What gpuctl_job returns in check mode: what does not run now leaves its room to the others."""
    names = [name for name in jobs if f"x/{name}" in asked]
    if bad := [name for name in names if name in unfit]:
        return {"msg": f"{bad[0]} asks for what is not there", "failed": True}
    rows = []
    for name in names:
        runs = jobs[name] <= free
        free -= jobs[name] if runs else 0
        fit = {"verdict": "now" if runs else "after_jobs", "reason": f"{free} are free."}
        rows.append({"name": name, "namespace": "x", "action": "create", "error": None, "fit": fit})
    return {"results": rows}


def rounds(
    free: Sizes, jobs: Sizes, wish: Wish = ALL, unfit: Mapping[str, Sequence[str]] | None = None, **placements: Any
) -> Iterator[dict[str, Any]]:
    """What follows after each round of questions."""
    looked = {name: {"results": []} for name in free}
    answers, before = Answers(placed=placed(jobs, **placements), looked=looked), {}
    for _round in range(2 * len(jobs) + 1):
        found = place_jobs(wish, CLUSTERS, answers, before)
        yield found
        if not found["ask"]:
            return
        judged = {
            name: answer(free[name], asked, jobs, (unfit or {}).get(name, ())) for name, asked in found["ask"].items()
        }
        answers = Answers(placed=answers.placed, looked=looked, judged=judged)
        before = place_jobs(wish, CLUSTERS, answers, before)["next"]
    pytest.fail("it asks without end")


def where(found: Mapping[str, Any]) -> dict[str, str]:
    return {job["name"]: job["cluster"] for job in found["jobs"]}


def one_by_one(
    free: Sizes, jobs: Sizes, orders: Mapping[str, Sequence[str]], spread: Collection[str] = ()
) -> dict[str, str]:
    """The truth: each job in the first of its clusters in which it runs, given those before it. Of those to be spread,
    in the first of them that have the fewest jobs."""
    left, found = dict(free), {}
    for name, size in jobs.items():
        taken = Counter(found.values()) if name in spread else Counter()
        order = sorted(orders[name], key=taken.__getitem__)
        found[name] = next((each for each in order if size <= left[each]), order[0])
        left[found[name]] -= size if size <= left[found[name]] else 0
    return found


def test_jobs_that_fit_into_one_cluster_are_asked_about_once() -> None:
    first, last = rounds({"a": 8, "b": 8, "c": 8}, dict.fromkeys(map(str, range(8)), 1))
    assert first["ask"] == {name: [f"x/{number}" for number in range(8)] for name in NAMES}
    assert set(where(last).values()) == {"a"}


def test_jobs_that_fill_up_all_clusters_are_asked_about_once_for_each() -> None:
    found = [*rounds({"a": 8, "b": 8, "c": 8}, dict.fromkeys(map(str, range(24)), 1))]
    assert len(found) == 1 + len(NAMES)
    assert found[1]["ask"]["a"] == [f"x/{number}" for number in range(24)]
    assert found[1]["ask"]["b"] == [f"x/{number}" for number in range(8, 24)]
    assert [*where(found[-1]).values()] == ["a"] * 8 + ["b"] * 8 + ["c"] * 8


@pytest.mark.parametrize("seed", range(60))
def test_each_job_goes_where_it_would_go_by_itself(seed: int) -> None:
    chance = random.Random(seed)
    jobs = {f"j{number}": chance.choice((1, 2, 4, 8)) for number in range(chance.randint(1, 9))}
    free = {name: chance.randint(0, 12) for name in NAMES}
    orders = {name: chance.sample(NAMES, chance.randint(1, 3)) for name in jobs}
    said = {name: {"clusters": order, "groups": [], "order": "listed"} for name, order in orders.items()}
    *_, last = rounds(free, jobs, Wish(chosen=[], order=""), **said)
    assert last["problem"] is None
    assert where(last) == one_by_one(free, jobs, orders)


@pytest.mark.parametrize("seed", range(60))
def test_jobs_are_spread_over_the_clusters_in_which_they_run(seed: int) -> None:
    chance = random.Random(seed)
    jobs = {f"j{number}": chance.choice((1, 1, 2, 4)) for number in range(chance.randint(2, 12))}
    free = {name: chance.randint(0, 12) for name in NAMES}
    orders = {name: chance.sample(NAMES, chance.randint(1, 3)) for name in jobs}
    spread = {name for name in jobs if chance.random() < 0.8}
    said = {
        name: {"clusters": order, "groups": [], "order": "listed", "spread": name in spread}
        for name, order in orders.items()
    }
    *_, last = rounds(free, jobs, Wish(chosen=[], order=""), **said)
    assert last["problem"] is None
    assert where(last) == one_by_one(free, jobs, orders, spread)


def test_spread_jobs_say_why_a_cluster_is_passed_over() -> None:
    jobs = dict.fromkeys(map(str, range(7)), 1)
    said = {name: {"clusters": ["b", "a"], "groups": [], "order": "cheapest", "spread": True} for name in jobs}
    *_, last = rounds({"a": 8, "b": 8, "c": 8}, jobs, Wish(chosen=[], order=""), **said)
    assert [*where(last).values()] == ["b", "a", "b", "a", "b", "a", "b"]
    reasons = [row["reason"] for row in last["shown"]["results"]]
    not_there = "c (now): It is not in placement in the manifest."
    costs_more = "a (now): It runs there as soon, and costs more than in b."
    assert reasons[0] == f"It goes to b, where it runs now. {costs_more} {not_there}"
    assert reasons[1] == (
        f"It goes to a, where it runs now. b (now): It runs there as soon, and a has fewer of these jobs. {not_there}"
    )


def test_a_cluster_without_the_image_is_not_asked_again() -> None:
    there = replace(CLUSTERS, registries={"a": ["docker.io"]})
    jobs = dict.fromkeys(map(str, range(8)), 1)
    looked = {name: {"results": []} for name in NAMES}
    rows = [{**row, "image": "quay.io/train:v1"} for row in placed(jobs)["placements"]]
    answers = Answers(placed={"placements": rows}, looked=looked)
    ask = place_jobs(ALL, there, answers, {})["ask"]
    judged = {name: answer(8, asked, jobs) for name, asked in ask.items()}
    before = place_jobs(ALL, there, replace(answers, judged=judged), {})["next"]
    found = place_jobs(ALL, there, replace(answers, judged=judged), before)
    assert (found["ask"].keys(), {*where(found).values()}) == ({}.keys(), {"b"})
    said = "a (refused): The image is quay.io/train:v1, and the tag registries of this cluster has docker.io."
    assert said in found["shown"]["results"][0]["reason"]


def test_a_cluster_that_refuses_one_job_gets_the_others() -> None:
    """It says so of all jobs at once."""
    *_, last = rounds({"a": 8, "b": 8, "c": 8}, {"one": 1, "two": 1, "three": 1}, unfit={"a": ["two"]})
    assert where(last) == {"one": "a", "two": "b", "three": "a"}


def test_nothing_is_submitted_if_one_job_runs_nowhere() -> None:
    unfit = {name: ["two"] for name in NAMES}
    *_, last = rounds({"a": 8, "b": 8, "c": 8}, {"one": 1, "two": 1, "three": 1}, unfit=unfit)
    assert last["problem"] == "job two would run in none of the clusters as it is: a, b and c. Nothing was submitted."
    assert last["jobs"] == []


def test_a_cluster_that_could_not_be_claimed_for_one_job_gets_none() -> None:
    jobs = {"one": 1, "two": 1}
    *_, last = rounds({"a": 8, "b": 8, "c": 8}, jobs)
    before = {"decided": {job["id"]: {"cluster": "a", "reason": "goes to a"} for job in last["jobs"]}}
    claimed = {"x/one": {"name": "one", "namespace": "x", "cluster": "b"}, "x/two": {"msg": "cannot reach it"}}
    answers = Answers(placed=placed(jobs), looked={name: {"results": []} for name in NAMES}, claimed=claimed)
    found = place_jobs(ALL, CLUSTERS, answers, before)
    assert found["problem"] == "cluster a could not be claimed, so nothing was submitted: cannot reach it."
    del claimed["x/two"]
    found = place_jobs(ALL, CLUSTERS, answers, before)
    assert (found["problem"], where(found)) == (None, {"one": "b", "two": "a"})


def test_the_report_has_a_row_for_each_job() -> None:
    *_, last = rounds({"a": 8, "b": 8, "c": 0}, {"one": 8, "two": 8})
    assert "\n".join(screen_lines(placement_report(last["shown"]), View(80))) == (
        "NAME  NAMESPACE  CLUSTER  RUNS\n"
        "one   x          a        now\n"
        "two   x          b        now\n"
        "\n"
        "x/one: It goes to a, where it runs now. b (now): It runs there as soon, and a\n"
        "  comes first. c (after other jobs): 0 are free.\n"
        "x/two: It goes to b, where it runs now. a (after other jobs): 0 are free. c\n"
        "  (after other jobs): 0 are free.\n"
        "\n"
        "2 jobs: 1 in a, 1 in b."
    )
