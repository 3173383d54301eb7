# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup plugin of the playbooks that decides in which cluster a job is submitted. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _placement
short_description: Decide in which of several clusters a job is submitted
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks of this collection. It may change or be removed at any time.
  - Compares what tasks have registered so far for the clusters of a play, as C(gpuctl_placed), C(gpuctl_looked), C(gpuctl_judged),
    C(gpuctl_claimed) and C(gpuctl_round).
options:
  _terms:
    description: Names of clusters and of groups of them, in which the job may be submitted. By default, those of its manifest.
    type: list
    elements: str
  order:
    description: Which of the clusters comes first in which the job runs equally soon. By default, what its manifest says.
    type: str
    choices: [free, cheapest, listed, '']
    default: ''
  assume_lost:
    description: Clusters that are given up.
    type: list
    elements: str
    default: []
  home:
    description: The cluster with the records of placements.
    type: str
"""

EXAMPLES = r"""
---
- name: Fail unless it is known where a job goes
  ansible.builtin.assert:
    that: query('runwhere.gpuctl._placement', 'gpuctl_clusters', home='frankfurt')[0].jobs | length > 0
"""

RETURN = r"""
_list:
  description: One dictionary with C(problem), C(ask), C(jobs), C(next), and C(shown), which M(runwhere.gpuctl.gpuctl_show) shows.
  type: list
  elements: dict
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import is_awx_job
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing import (
    Answers,
    Inventory,
    Wish,
    decide,
    inventory_problem,
    read_inventory,
    registered_results,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing_jobs import job_id, place_jobs
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.variable_problems import unplaced_problem


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(
        self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        given = variables or {}
        lost = [name.strip() for name in self.get_option("assume_lost") or [] if name.strip()]
        wish = Wish(
            chosen=[name.strip() for name in terms if name.strip()],
            order=self.get_option("order"),
            lost=lost,
            in_awx=is_awx_job(given),
        )
        inventory = read_inventory(given, self.get_option("home") or None)
        answers = _answers(given, inventory.clusters)
        problem = inventory_problem(wish, inventory)
        jobs = answers.placed.get("placements")
        if not problem and answers.placed:
            name = f"runwhere.gpuctl.{given.get('gpuctl_playbook')}"
            problem = (
                next(_manifest_problems(wish, inventory, jobs, name), None)
                if jobs
                else decide(wish, inventory, answers).problem
            )
        if problem or not answers.looked or not jobs:
            return [{"problem": problem, "ask": {}, "jobs": [], "shown": {"results": []}}]
        return [place_jobs(wish, inventory, answers, given.get("gpuctl_round") or {})]


def _manifest_problems(
    wish: Wish, inventory: Inventory, jobs: Sequence[Mapping[str, Any]], playbook: str
) -> Iterator[str]:
    for job in jobs:
        said = job.get("placement")
        if said is None and not wish.chosen:
            yield unplaced_problem(playbook, inventory.in_play, in_awx=wish.in_awx)
        if problem := inventory_problem(wish.with_manifest(said), inventory):
            yield problem


def _answers(given: Mapping[str, Any], clusters: Sequence[str]) -> Answers:
    def registered(variable: str) -> dict[str, Mapping[str, Any]]:
        return registered_results(given, clusters, variable)

    placed = next(iter(registered("gpuctl_placed").values()), {})
    claims = [each.get("results", ()) for each in registered("gpuctl_claimed").values()]
    claimed = {job_id(row["gpuctl_claiming"]): row for rows in claims for row in rows}
    return Answers(
        placed=placed, looked=registered("gpuctl_looked"), judged=registered("gpuctl_judged"), claimed=claimed
    )
