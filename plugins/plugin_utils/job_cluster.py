# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of several clusters has a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.manifest.problems import abridged, enumerated
from ..module_utils.printable import one_line
from .variable_problems import choose_cluster

_NAMED = 3


def job_cluster_problem(
    name: str, looked: Mapping[str, Mapping[str, Any]], *, changes: bool, in_awx: bool
) -> str | None:
    """Why it is not known which cluster is meant; None if one of them has the job.

    ``looked`` is what gpuctl_job_info with ``must_exist`` has returned for each cluster. A cluster that could not be
    asked may have a job of that name as well: that matters if the job is to be changed, which ``changes`` says.
    """
    having = [cluster for cluster, result in looked.items() if has_own_job(result)]
    silent = {cluster: result for cluster, result in looked.items() if not result.keys() & {"results", "not_found"}}
    shown = one_line(name)
    if len(having) > 1:
        return f"job {shown} exists in {abridged(having, _NAMED)}. {choose_cluster(having[0], in_awx=in_awx)}."
    asked = [cluster for cluster in looked if cluster not in silent]
    errors = " ".join(f"{cluster} could not be asked: {result.get('msg')}" for cluster, result in silent.items())
    if not having:
        missing = f"job {shown} not found in {enumerated(asked, 'and')}. " if asked else ""
        return f"{missing}{errors}".rstrip()
    if silent and changes:
        choose = choose_cluster(having[0], in_awx=in_awx)
        return f"job {shown} exists in {having[0]}, and may exist elsewhere. {choose} if that one is meant. {errors}"
    return None


def has_own_job(looked: Mapping[str, Any]) -> bool:
    """Whether a cluster has the job itself, not a copy that MultiKueue has made of it for another one."""
    return any(not row.get("copy_of_kueue") for row in looked.get("results") or ())
