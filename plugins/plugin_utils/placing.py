# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which of several clusters a job is submitted, from what each of them has answered. Pure.

A job that has a cluster stays there. A cluster that does not answer may have the job, so nothing is placed then,
unless that cluster is given up by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from ..module_utils.insight.fit.verdicts import (
    AFTER_JOBS,
    AFTER_PREEMPTION,
    NEVER,
    NOW,
    SHORT_VERDICTS,
    UNKNOWN,
    VERDICTS,
)
from ..module_utils.kube.errors import as_sentence
from ..module_utils.manifest.problems import abridged, enumerated, nearest
from ..module_utils.policies.guards import full_image, is_below
from ..module_utils.printable import one_line
from .cluster_hosts import GROUP, TAGS, clusters_of_play
from .job_cluster import has_own_job

FREE, CHEAPEST, LISTED = "free", "cheapest", "listed"
PLACEMENT = "placement in the manifest"
REFUSED, NOT_ASKED = "refused", "not asked"

# The best first. Where it is not known whether a job runs, it may at least; where it never runs, it is not placed.
_RANKS = [*(verdict for verdict in VERDICTS if verdict not in (NEVER, UNKNOWN)), UNKNOWN]
_WHERE = {
    NOW: "where it runs now",
    AFTER_PREEMPTION: "where it runs by preempting other jobs",
    AFTER_JOBS: "where it runs first, after other jobs",
    UNKNOWN: "where it may run",
}
_NAMED = 3
_LONGEST_REASON = 500

Result = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for: ``chosen`` are names of clusters and groups, ``lost`` the clusters that are given up.

    ``by`` names what says so: variables, or placement in the manifest. ``image`` is that of the job, if it is known.
    ``taken`` is how many jobs of the same command each cluster has, where these are to be spread.
    """

    chosen: Sequence[str]
    order: str = FREE
    lost: Sequence[str] = ()
    in_awx: bool = False
    by: str = GROUP
    image: str = ""
    taken: Mapping[str, int] = field(default_factory=dict)

    def with_manifest(self, placement: Mapping[str, Any] | None, image: str | None = None) -> Wish:
        """The wish for a job: what placement in its manifest says counts where variables say nothing."""
        said = placement or {}
        named = [*said.get("clusters", ()), *said.get("groups", ())]
        by = self.by if self.chosen or placement is None else PLACEMENT
        order = self.order or said.get("order") or FREE
        return replace(self, chosen=self.chosen or named or ["all"], order=order, by=by, image=image or "")

    def giving_up(self, clusters: Sequence[str]) -> str:
        """How to go on without clusters that do not answer."""
        names = enumerated(clusters, "and")
        setting = f"gpuctl_assume_lost={','.join(clusters)}"
        add = f"set the extra variable {setting}" if self.in_awx else f"add -e {setting}"
        return f"If {names} {'is' if len(clusters) == 1 else 'are'} lost with all that ran there, {add}."

    def moving(self, name: str) -> str:
        """How to end a move that was interrupted."""
        if self.in_awx:
            return f"To end the move, run the playbook runwhere.gpuctl.move with gpuctl_name={name}."
        return f"To end the move: ansible-playbook runwhere.gpuctl.move -e gpuctl_name={name}"

    def deleting(self, name: str, cluster: str) -> str:
        """How to delete a copy of a job."""
        if self.in_awx:
            return f"Delete it in {cluster}, with the playbook runwhere.gpuctl.delete and the limit {cluster}."
        command = f"ansible-playbook runwhere.gpuctl.delete -e gpuctl_name={name} --limit {cluster}"
        return f"Delete it in {cluster}: {command}"


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """The clusters of the inventory in its order, and those of them that the play has. A cluster may have no price.

    Clusters with the same ``storage`` see what jobs store in each other, as the inventory says. Those
    with ``registries`` have images of no others.
    """

    clusters: Sequence[str]
    in_play: Sequence[str]
    groups: Mapping[str, Sequence[str]]
    home: str | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    registries: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def chosen(self, names: Sequence[str]) -> list[str]:
        """The clusters of names and groups, in that order, each once."""
        found = (name for each in names for name in ([each] if each in self.clusters else self.groups.get(each, ())))
        return list(dict.fromkeys(name for name in found if name in self.clusters))


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the tasks have returned so far: ``placed`` and ``claimed`` gpuctl_placement of the home cluster, ``looked``
    gpuctl_job_info of each cluster, ``judged`` gpuctl_job in check mode of those that have answered."""

    placed: Result = field(default_factory=dict)
    looked: Mapping[str, Result] = field(default_factory=dict)
    judged: Mapping[str, Result] = field(default_factory=dict)
    claimed: Result = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """``problem``: why nothing is submitted. Without it and a ``cluster``, the clusters are to be asked whether the job
    runs there. ``reason`` is recorded; ``rows`` are the clusters, once they were asked."""

    problem: str | None = None
    cluster: str | None = None
    reason: str = ""
    rows: Sequence[Result] = ()

    def as_result(self, name: str) -> dict[str, Any]:
        """A result that gpuctl_show shows, with what the playbook goes on with."""
        sentence = f"job {one_line(name)} {self.reason}." if self.reason else ""
        report = {"report": "placement", "results": list(self.rows), "msg": sentence, "clusters": []}
        return {"problem": self.problem, "cluster": self.cluster, "reason": self.reason, "shown": report}


def read_inventory(variables: Mapping[str, Any], home: str | None) -> Inventory:
    """What the variables of a play say of the clusters."""
    groups, hosts = variables.get("groups") or {}, variables["hostvars"]
    clusters = [str(name) for name in groups.get(GROUP) or ()]
    tags = {name: hosts[name].get(TAGS) or {} for name in clusters}
    prices = {name: own["price"] for name, own in tags.items() if _is_number(own.get("price"))}
    storage = {name: str(own["storage"]) for name, own in tags.items() if own.get("storage")}
    registries = {name: _texts(own["registries"]) for name, own in tags.items() if own.get("registries")}
    return Inventory(
        clusters=clusters,
        in_play=clusters_of_play(variables),
        groups=groups,
        home=home,
        prices=prices,
        storage=storage,
        registries=registries,
    )


def registered_results(variables: Mapping[str, Any], clusters: Sequence[str], name: str) -> dict[str, Result]:
    """What a task has registered for each cluster on which it was not skipped."""
    results = {cluster: variables["hostvars"][cluster].get(name) or {} for cluster in clusters}
    return {cluster: result for cluster, result in results.items() if result and not result.get("skipped")}


def _texts(value: Any) -> list[str]:
    """Of one text or several. A registry may be written with the slash that ends it."""
    return [str(each).rstrip("/") for each in (value if isinstance(value, (list, tuple)) else [value])]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def inventory_problem(wish: Wish, inventory: Inventory) -> str | None:
    """Why jobs cannot be placed in the clusters of this inventory, before any of them is asked."""
    clusters = inventory.clusters
    if not clusters:
        return "gpuctl_clusters: the inventory has no clusters. Add -i with one that has the group gpuctl_clusters."
    if missing := [name for name in clusters if name not in inventory.in_play]:
        return (
            f"gpuctl_clusters: a job is looked for in all clusters of the inventory, and this play leaves out "
            f"{abridged(missing, _NAMED)}. Leave out the limit: gpuctl_clusters chooses where a job may go."
        )
    if unknown := [name for name in wish.chosen if not inventory.chosen([name])]:
        meant = nearest(unknown[0], [*clusters, *inventory.groups])
        hint = f"Did you mean {meant}?" if meant else f"Use {abridged(clusters, _NAMED)}, or a group of them."
        return f"{wish.by}: no cluster or group of clusters: {one_line(unknown[0])}. {hint}"
    if inventory.home not in clusters:
        what = f"no cluster of the inventory: {one_line(inventory.home)}" if inventory.home else "not set"
        return (
            f"gpuctl_home: {what}. Placements are recorded in one cluster, which is never another one later: set home "
            f"in the file clusters.yml, or the variable gpuctl_home of the inventory, for example to {clusters[0]}."
        )
    unpriced = [name for name in inventory.chosen(wish.chosen) if name not in inventory.prices]
    if wish.order == CHEAPEST and unpriced:
        order = "gpuctl_order=cheapest" if wish.by == GROUP else f"{wish.by}: order cheapest"
        return f"{order}: no price of {abridged(unpriced, _NAMED)}. Add the tag price in the inventory."
    return None


def decide(wish: Wish, inventory: Inventory, answers: Answers) -> Decision:
    """What follows from the answers so far."""
    placed, looked = answers.placed, answers.looked
    if "name" not in placed:
        return Decision(str(placed.get("msg") or "the placement of the job is not known"))
    if problem := _lost_problem(wish, inventory, answers):
        return Decision(problem)
    silent = [name for name in inventory.clusters if not looked.get(name, {}).keys() & {"results", "not_found"}]
    having = [name for name in inventory.clusters if has_own_job(looked.get(name, {}))]
    record = placed.get("cluster")
    if record and record not in wish.lost:
        decision = _as_recorded(wish, inventory, answers, silent, having)
    elif len(having) > 1:
        decision = Decision(_several_copies(wish, placed["name"], having))
    elif waiting := [name for name in silent if name not in wish.lost]:
        decision = Decision(_may_be_there(wish, placed["name"], waiting, answers))
    elif having:
        decision = Decision(None, having[0], f"stays in {having[0]}, where it was submitted before")
    else:
        decision = _anew(wish, inventory, answers) if answers.judged else Decision()
    return as_claimed(_as_manifest(decision, wish, inventory), answers)


def _as_manifest(decision: Decision, wish: Wish, inventory: Inventory) -> Decision:
    """A job stays where it is, also if its manifest is for other clusters by now."""
    if wish.by == GROUP or not decision.cluster or decision.cluster in inventory.chosen(wish.chosen):
        return decision
    return replace(decision, reason=f"{decision.reason}, which is not in {wish.by} any more")


def _lost_problem(wish: Wish, inventory: Inventory, answers: Answers) -> str | None:
    for name in wish.lost:
        placed = [answers.placed.get(key) for key in ("cluster", "leaving")]
        if name not in inventory.clusters and name not in placed:
            known = abridged(inventory.clusters, _NAMED)
            return f"gpuctl_assume_lost: no cluster of the inventory: {one_line(name)}. Use one of: {known}."
        if answers.looked.get(name, {}).keys() & {"results", "not_found"}:
            return f"gpuctl_assume_lost: {name} answers, so it is not lost. Leave it out."
    return None


def _as_recorded(
    wish: Wish, inventory: Inventory, answers: Answers, silent: Sequence[str], having: Sequence[str]
) -> Decision:
    """A job that is placed stays in its cluster, also where an interrupted run has not submitted it."""
    placed = answers.placed
    name, cluster = one_line(placed["name"]), str(placed["cluster"])
    since = f"since {minute_of(placed.get('claimed_at'))} ({placed.get('claimed_by') or 'it is not known by whom'})"
    give_up = wish.giving_up([cluster])
    leaving = placed.get("leaving")
    if leaving and leaving not in wish.lost and (leaving in having or cluster not in having):
        moving = f"job {name} has been moving from {leaving} to {cluster} {since}. Nothing was submitted."
        is_asked = leaving in inventory.clusters and leaving not in silent
        return Decision(f"{moving} {wish.moving(name) if is_asked else wish.giving_up([leaving])}")
    if cluster not in inventory.clusters:
        return Decision(f"job {name} is placed in {cluster} {since}, which the inventory does not have. {give_up}")
    if cluster in silent:
        return Decision(
            f"job {name} is placed in {cluster} {since}, and may run there. Nothing was submitted. "
            f"{cluster} could not be asked: {message_of(answers.looked.get(cluster, {}))} {give_up}"
        )
    if others := [each for each in having if each != cluster]:
        copies = f"job {name} exists in {enumerated(others, 'and')}, and is placed in {cluster} {since}."
        return Decision(f"{copies} Nothing was submitted. {wish.deleting(name, others[0])}")
    if cluster in having:
        return Decision(None, cluster, f"stays in {cluster}, where it is placed {since}")
    return Decision(None, cluster, f"goes to {cluster}, where it is placed {since}")


def _several_copies(wish: Wish, name: str, having: Sequence[str]) -> str:
    shown = one_line(name)
    copies = f"job {shown} exists in {enumerated(having, 'and')}. Nothing was submitted."
    return f"{copies} {wish.deleting(shown, having[-1])}"


def _may_be_there(wish: Wish, name: str, silent: Sequence[str], answers: Answers) -> str:
    errors = " ".join(f"{each} could not be asked: {message_of(answers.looked.get(each, {}))}" for each in silent)
    may = f"job {one_line(name)} may be in {enumerated(silent, 'and')}, so it was not placed."
    return f"{may} {errors} {wish.giving_up(silent)}"


def _anew(wish: Wish, inventory: Inventory, answers: Answers) -> Decision:
    """The cluster that comes first, and of each other one why it is not taken."""
    name = one_line(answers.placed["name"])
    kept = [each for each, result in answers.judged.items() if _is_known(result)]
    if len(kept) > 1:
        return Decision(_several_copies(wish, name, kept))
    if kept:
        return Decision(None, kept[0], f"stays in {kept[0]}, where it has run")
    rows = {each: cluster_row(each, wish, inventory, answers) for each in inventory.clusters}
    chosen = inventory.chosen(wish.chosen)
    if manager := next((each for each in chosen if rows[each].get("dispatched")), None):
        where = "where Kueue chooses one of its worker clusters (queue: multikueue)"
        return Decision(None, manager, f"goes to {manager}, {where}")
    rank = rank_of(wish, inventory, chosen)
    possible = sorted((rows[each] for each in chosen if rows[each]["verdict"] in _RANKS), key=rank)
    if not possible:
        where = enumerated(chosen, "and")
        return Decision(
            f"job {name} would run in none of the clusters as it is: {where}. Nothing was submitted.",
            rows=[rows[each] for each in [*chosen, *(other for other in rows if other not in chosen)]],
        )
    first = possible[0]
    cluster, verdict = first["cluster"], first["verdict"]
    others = [*possible[1:], *(row for row in rows.values() if row not in possible)]
    where = _WHERE.get(verdict, f"where it runs first, {SHORT_VERDICTS[verdict]}")
    shown: list[Result] = [{**first, "placed": "here"}, *(_passed_over(row, first, wish, chosen) for row in others)]
    return Decision(None, cluster, f"goes to {cluster}, {where}", shown)


def _is_known(result: Result) -> bool:
    """Whether the cluster knows a job that its API has no more, such as a training that has ended."""
    rows = result.get("results") or ()
    return any(row.get("action") not in (None, "create") and not row.get("error") for row in rows)


def cluster_row(cluster: str, wish: Wish, inventory: Inventory, answers: Answers) -> dict[str, Any]:
    """What a cluster has answered, as a row of the report."""
    result = answers.judged.get(cluster) or {}
    base = {"cluster": cluster, "price": inventory.prices.get(cluster), "runs_at": None, "placed": "no"}
    if cluster in wish.lost:
        reason = f"It is assumed to be lost. {message_of(answers.looked.get(cluster, {}))}"
        return {**base, "verdict": None, "runs": NOT_ASKED, "reason": reason}
    if problem := image_problem(cluster, wish, inventory):
        return {**base, "verdict": None, "runs": REFUSED, "reason": problem}
    answer = next(iter(result.get("results") or ()), None)
    if answer is None or answer.get("error"):
        reason = as_sentence(answer["error"]) if answer else message_of(result)
        return {**base, "verdict": None, "runs": REFUSED, "reason": reason}
    fit = answer.get("fit") or {}
    verdict = fit.get("verdict") or UNKNOWN
    reason = " ".join(filter(None, (fit.get("reason"), fit.get("hint")))) or "It is not known whether it runs there."
    runs = {"runs": SHORT_VERDICTS[verdict], "runs_at": fit.get("runs_at")}
    return {**base, **runs, "verdict": verdict, "reason": reason, "dispatched": fit.get("dispatched", False)}


def image_problem(cluster: str, wish: Wish, inventory: Inventory) -> str | None:
    """Why the cluster cannot have the image of the job, as the inventory says."""
    registries = inventory.registries.get(cluster)
    if not (registries and wish.image) or any(is_below(full_image(wish.image), each) for each in registries):
        return None
    has = abridged([one_line(each) for each in registries], _NAMED)
    return f"The image is {one_line(wish.image)}, and the tag registries of this cluster has {has}."


def rank_of(wish: Wish, inventory: Inventory, chosen: Sequence[str]) -> Callable[[Result], tuple[Any, ...]]:
    """Soonest first. Of those in which it runs as soon: the one with the fewest jobs, if they are spread, and of these
    the cheapest one, or the first in the list or inventory."""
    order = chosen if wish.order == LISTED else inventory.clusters

    def rank(row: Result) -> tuple[Any, ...]:
        price = _price(row) if wish.order == CHEAPEST else 0.0
        at = row["runs_at"] or "~"  # after all times
        taken = wish.taken.get(row["cluster"], 0)
        return _RANKS.index(row["verdict"]), at, taken, price, order.index(row["cluster"])

    return rank


def _passed_over(row: Result, first: Result, wish: Wish, chosen: Sequence[str]) -> Result:
    """The row of a cluster that is not taken, with the reason."""
    if row["cluster"] not in chosen:
        return {**row, "reason": f"It is not in {wish.by}."}
    if row["verdict"] != first["verdict"] or row["verdict"] == UNKNOWN:  # Nothing says that it runs there as soon.
        return row
    if first["runs_at"] != row["runs_at"]:
        why = f"runs later than in {first['cluster']}"
    elif wish.taken.get(row["cluster"], 0) > wish.taken.get(first["cluster"], 0):
        why = f"runs there as soon, and {first['cluster']} has fewer of these jobs"
    elif wish.order == CHEAPEST and _price(row) > _price(first):
        why = f"runs there as soon, and costs more than in {first['cluster']}"
    else:
        why = f"runs there as soon, and {first['cluster']} comes first"
    return {**row, "reason": f"It {why}."}


def _price(row: Result) -> float:
    """Without a known one, after all others."""
    return inf if row["price"] is None else float(row["price"])


def as_claimed(decision: Decision, answers: Answers) -> Decision:
    """What another run has claimed at the same time counts."""
    claimed = answers.claimed
    if not claimed or decision.problem:
        return decision
    if "name" not in claimed:
        unclaimed = f"cluster {decision.cluster} could not be claimed, so nothing was submitted"
        return Decision(f"{unclaimed}: {message_of(claimed)}")
    if claimed["cluster"] == decision.cluster:
        return decision
    other = claimed["cluster"]
    return Decision(None, other, f"goes to {other}, which another run has claimed at the same time")


def message_of(result: Result) -> str:
    return as_sentence(one_line(" ".join(str(result.get("msg") or "no answer").split()))[:_LONGEST_REASON])


def minute_of(moment: Any) -> str:
    """``2026-03-01T10:00:00.000000Z`` -> ``2026-03-01 10:00 UTC``"""
    text = one_line(str(moment or ""))
    return f"{text[:10]} {text[11:16]} UTC" if len(text) > 16 else "an unknown time"


def reasons_of(rows: Sequence[Result]) -> Iterator[Result]:
    """The rows with a reason why their cluster is not taken, or why it is not known whether the job runs there."""
    for row in rows:
        if row.get("placed") != "here" or row["verdict"] == UNKNOWN:
            yield {**row, "status": row["runs"] if row["verdict"] != UNKNOWN else None}
