# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup plugin of the playbooks that decides which jobs move to which cluster. PRIVATE: may change or go at any time."""

from __future__ import annotations

DOCUMENTATION = r"""
name: _moves
short_description: Decide which placed jobs move to which of several clusters
author: runwhere.gpuctl contributors (@runwhere)
description:
  - This plugin is for the playbooks of this collection. It may change or be removed at any time.
  - Compares what tasks have registered so far for the clusters of a play.
options:
  _terms:
    description: Names of clusters and of groups of them, to which jobs may move. By default, those of their manifests.
    type: list
    elements: str
  order:
    description: Which of the clusters comes first in which a job runs now. By default, what its manifest says.
    type: str
    choices: [free, cheapest, listed, '']
    default: ''
  name:
    description: The job that moves.
    type: str
    default: ''
  source:
    description: The cluster whose jobs move.
    type: str
    default: ''
  waiting:
    description: How long jobs that move wait at least.
    type: str
    default: ''
  running:
    description: Whether jobs that run move as well.
    type: bool
    default: false
  has_manifest:
    description: Whether the user gives the manifest of the job.
    type: bool
    default: false
  job:
    description: One of the jobs that this plugin has returned. By default, it returns these.
    type: dict
  done:
    description: Whether the job has been moved, rather than planned to.
    type: bool
    default: false
"""

EXAMPLES = r"""
---
- name: Fail unless there is a job to move
  ansible.builtin.assert:
    that: query('runwhere.gpuctl._moves', 'gpuctl_clusters', name='sft') | length > 0
"""

RETURN = r"""
_list:
  description: The jobs. With O(job), what follows for it so far, and its C(row) for the report.
  type: list
  elements: dict
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.runwhere.gpuctl.plugins.module_utils.given_times import InvalidTime, duration
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import is_awx_job
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.moving import (
    Candidate,
    MoveWish,
    Steps,
    decide_move,
    move_row,
    select_moves,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.placing import Wish, read_inventory, registered_results


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(
        self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        given, option = variables or {}, self.get_option
        chosen = [name.strip() for name in terms if name.strip()]
        try:
            waiting = duration("gpuctl_waiting", option("waiting")) if option("waiting") else None
        except InvalidTime as problem:
            raise AnsibleLookupError(str(problem).replace("O(gpuctl_waiting)", "gpuctl_waiting")) from None
        wish = MoveWish(
            to=Wish(chosen=chosen, order=option("order"), in_awx=is_awx_job(given)),
            name=option("name"),
            source=option("source"),
            waiting=waiting,
            running=option("running"),
        )
        inventory = read_inventory(given, None)
        looked = registered_results(given, inventory.clusters, "gpuctl_looked")
        if option("job") is None:
            placed = next(iter(registered_results(given, inventory.clusters, "gpuctl_placed").values()), {})
            placements = placed.get("placements", [placed] if "name" in placed else [])
            found = select_moves(wish, inventory, placements, looked, datetime.now(timezone.utc))
            return [dict(vars(each)) for each in found]
        candidate = Candidate(**option("job"))
        names = [each.name for each in fields(Steps) if each.name != "looked"]
        known = {name: registered_results(given, inventory.clusters, f"gpuctl_{name}") for name in names}
        steps = Steps(looked=looked, **known)
        move = decide_move(wish, inventory, candidate, steps, has_manifest=option("has_manifest"))
        return [{**vars(move), "row": move_row(candidate, move, done=option("done"))}]
