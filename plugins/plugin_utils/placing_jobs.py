# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which of several clusters each job of a command is submitted: one after the other, given those before it. Pure.

Each cluster is asked about all jobs at once. What it answers for a job counts on the jobs before it that run there
now. If one of these goes to another cluster, that answer may be too bad, and where it matters, clusters are asked again
about the jobs that are left. So they are asked about as often as clusters fill up, however many jobs there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..module_utils.insight.fit.verdicts import AFTER_PREEMPTION, NOW, UNKNOWN
from ..module_utils.kube.errors import as_sentence
from ..module_utils.manifest.problems import number_of
from ..module_utils.printable import one_line
from .placing import (
    NOT_ASKED,
    Answers,
    Decision,
    Inventory,
    Result,
    Wish,
    as_claimed,
    decide,
    image_problem,
    rank_of,
    reasons_of,
)

_TAKES_ROOM = (NOW, AFTER_PREEMPTION, UNKNOWN)  # for the jobs after it, as far as its cluster knows


def place_jobs(wish: Wish, inventory: Inventory, answers: Answers, before: Mapping[str, Any]) -> dict[str, Any]:
    """What the playbook goes on with. ``before`` is what this has returned as ``next``, after the last answers.

    ``ask``: which jobs each cluster is to be asked about. Once that is none, ``problem`` says why nothing is submitted,
    or else ``jobs`` where each of them goes.
    """
    jobs = {job_id(each): each for each in answers.placed["placements"]}
    wishes = {name: wish.with_manifest(job.get("placement"), job.get("image")) for name, job in jobs.items()}
    decided = {name: Decision(**each) for name, each in before.get("decided", {}).items()}
    for name, job in jobs.items():
        if name not in decided:
            known = decide(wishes[name], inventory, replace(_of_job(answers, job), judged={}, claimed={}))
            decided |= {name: known} if known.problem or known.cluster else {}
    left = [] if any(each.problem for each in decided.values()) else [name for name in jobs if name not in decided]
    alone = {*before.get("alone", ())}  # clusters that refuse all jobs because of one
    ask = {
        cluster: [
            *(name for name, each in decided.items() if each.cluster == cluster),
            *(left[:1] if cluster in alone else left),
        ]
        for cluster, result in answers.looked.items()
        if left and result.keys() & {"results", "not_found"}
    }
    taken = Counter(each.cluster for each in decided.values() if each.cluster)
    new = dict(_settled(left, jobs, wishes, inventory, answers, alone, taken)) if left and answers.judged else {}
    failing = {cluster for cluster, result in answers.judged.items() if "results" not in result}
    if left and not new and failing <= alone:
        new = {left[0]: Decision(f"where job {one_line(jobs[left[0]]['name'])} would run is not known.")}
    final = {name: as_claimed(each, _of_job(answers, jobs[name])) for name, each in decided.items()}
    problems = list(dict.fromkeys(each.problem for each in final.values() if each.problem))
    return {
        "problem": "\n".join(problems) or None,
        "ask": ask,
        "next": {
            "decided": {name: asdict(each) for name, each in (decided | new).items()},
            "alone": [*alone | failing],
        },
        "jobs": [
            {**jobs[name], "id": name, "cluster": each.cluster, "reason": each.reason}
            for name, each in (final.items() if not left and not problems else ())
        ],
        "shown": _report({name: final[name] for name in jobs if name in final}, jobs),
    }


def job_id(job: Result) -> str:
    return f"{job['namespace']}/{job['name']}"


def _of_job(answers: Answers, job: Result) -> Answers:
    """The answers about one of several jobs."""

    def own(result: Result) -> Result:
        rows = [row for row in result.get("results", ()) if (row.get("namespace"), row.get("name")) == mine]
        return {**result, "results": rows} if "results" in result else result

    mine = (job["namespace"], job["name"])
    looked, judged = ({name: own(each) for name, each in found.items()} for found in (answers.looked, answers.judged))
    return Answers(placed=job, looked=looked, judged=judged, claimed=answers.claimed.get(job_id(job), {}))


def _settled(
    left: Sequence[str],
    jobs: Mapping[str, Result],
    wishes: Mapping[str, Wish],
    inventory: Inventory,
    answers: Answers,
    alone: Collection[str],
    taken: Counter[str],
) -> Iterator[tuple[str, Decision]]:
    """The jobs, in their order, up to the first one for which clusters are to be asked again."""
    counting: set[str] = set()  # clusters that count on a job which goes elsewhere
    for name in left:
        own, spread = _of_job(answers, jobs[name]), (jobs[name].get("placement") or {}).get("spread")
        wish = replace(wishes[name], taken=dict(taken)) if spread else wishes[name]
        decision = decide(wish, inventory, replace(own, claimed={}))
        rows = {row["cluster"]: row for row in decision.rows}
        first, chosen = rows.get(decision.cluster or ""), inventory.chosen(wish.chosen)
        chosen = [each for each in chosen if not image_problem(each, wish, inventory)]
        is_asked_alone = len(left) == 1 or name == left[0]
        doubtful = []
        for cluster in (each for each in chosen if each in rows and each in own.judged):
            found = own.judged[cluster].get("results")
            is_open = not found if found is not None else not (is_asked_alone and (cluster in alone or len(left) == 1))
            if is_open or (cluster in counting and rows[cluster]["verdict"] != NOW):
                doubtful.append(cluster)
        rank = rank_of(wish, inventory, chosen)
        best = (rank({**rows[cluster], "verdict": NOW, "runs_at": None}) for cluster in doubtful)
        if any(first is None or each < rank(first) for each in best):
            return
        for cluster in doubtful:
            rows[cluster] = {**rows[cluster], "runs": NOT_ASKED, "reason": f"{decision.cluster} comes first."}
        yield name, replace(decision, rows=[*rows.values()])
        taken[decision.cluster or ""] += 1
        counting |= {each for each, row in rows.items() if each != decision.cluster and row["verdict"] in _TAKES_ROOM}


def _report(decided: Mapping[str, Decision], jobs: Mapping[str, Result]) -> dict[str, Any]:
    """For one job what each cluster has answered, for several a row for each."""
    if len(jobs) == 1:
        return next((each.as_result(jobs[name]["name"])["shown"] for name, each in decided.items()), _shown([], ""))
    rows = [_job_row(jobs[name], each) for name, each in decided.items()]
    numbers = Counter(row["to"] for row in rows if row["to"])
    where = ", ".join(f"{number} in {cluster}" for cluster, number in numbers.items())
    return _shown(rows, f"{number_of(len(jobs), 'job')}: {where or 'none is placed'}.")


def _shown(rows: Sequence[Result], text: str) -> dict[str, Any]:
    return {"report": "placement", "results": [*rows], "msg": text, "clusters": []}


def _job_row(job: Result, decision: Decision) -> dict[str, Any]:
    first = next((row for row in decision.rows if row["placed"] == "here"), None)
    why = as_sentence(f"It {decision.reason}") if decision.cluster else "It would run in none of the clusters."
    others = [f"{row['cluster']} ({row['runs']}): {row['reason']}" for row in reasons_of(decision.rows)]
    shown = {"name": job["name"], "namespace": job["namespace"], "to": decision.cluster, "status": None}
    return {**shown, "runs": first and first["runs"], "reason": " ".join([why, *others])}
