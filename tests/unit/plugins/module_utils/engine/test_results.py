# SPDX-License-Identifier: BSD-2-Clause
"""The diffs that a task shows."""

from __future__ import annotations

import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import plan_job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.results import diffs_of

from .objects import wanted


def test_a_diff_shows_what_objects_share_in_full() -> None:
    job = wanted("Job")
    job["spec"] = {"template": {"metadata": {"labels": job["metadata"]["labels"]}}}
    (diff,) = diffs_of(plan_job("train", "ml", "training", [job], []))
    assert "&" not in diff["after"]
    assert "*" not in diff["after"]
    assert yaml.safe_load(diff["after"]) == job
