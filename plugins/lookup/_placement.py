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
  - Compares what tasks have registered so far for the clusters of a play, as C(gpuctl_placed), C(gpuctl_looked), C(gpuctl_judged) and
    C(gpuctl_claimed).
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
    that: query('runwhere.gpuctl._placement', 'gpuctl_clusters', home='frankfurt')[0].cluster is not none
"""

RETURN = r"""
_list:
  description: One dictionary with C(problem), C(cluster), C(reason), and C(shown), which M(runwhere.gpuctl.gpuctl_show) shows.
  type: list
  elements: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import is_awx_job
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing import (
    Answers,
    Decision,
    Wish,
    decide,
    inventory_problem,
    read_inventory,
    registered_results,
)
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
        if not problem and "name" in answers.placed:
            said = answers.placed.get("placement")
            if said is None and not wish.chosen:
                name = f"runwhere.gpuctl.{given.get('gpuctl_playbook')}"
                problem = unplaced_problem(name, inventory.in_play, in_awx=wish.in_awx)
            wish = wish.with_manifest(said)
            problem = problem or inventory_problem(wish, inventory)
        if problem:
            decision = Decision(problem)
        else:
            is_asked = answers.looked or (answers.placed and "name" not in answers.placed)
            decision = decide(wish, inventory, answers) if is_asked else Decision()
        return [decision.as_result(str(answers.placed.get("name") or ""))]


def _answers(given: Mapping[str, Any], clusters: Sequence[str]) -> Answers:
    def registered(variable: str) -> dict[str, Mapping[str, Any]]:
        return registered_results(given, clusters, variable)

    placed = next(iter(registered("gpuctl_placed").values()), {})
    claimed = next(iter(registered("gpuctl_claimed").values()), {})
    return Answers(
        placed=placed, looked=registered("gpuctl_looked"), judged=registered("gpuctl_judged"), claimed=claimed
    )
