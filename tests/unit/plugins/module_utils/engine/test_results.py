# SPDX-License-Identifier: BSD-2-Clause
"""The diffs that a task shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import plan_job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.results import diffs_of

from .objects import live, wanted


def test_a_diff_shows_what_objects_share_in_full() -> None:
    job = wanted("Job")
    job["spec"] = {"template": {"metadata": {"labels": job["metadata"]["labels"]}}}
    (diff,) = diffs_of(plan_job("train", "ml", "training", [job], []))
    assert "&" not in diff["after"]
    assert "*" not in diff["after"]
    assert yaml.safe_load(diff["after"]) == job


def test_a_diff_masks_values_at_their_place_and_says_that_they_change() -> None:
    plain = [{"name": "MODE", "value": "Job"}, {"name": "OLD", "value": "x"}]
    before = deployment(live, [{"name": "TOKEN", "value": "Job"}, *plain])
    after = deployment(wanted, [{"name": "TOKEN", "value": "other"}, *plain], '["OLD"]')
    (diff,) = diffs_of(plan_job("web", "ml", "compute", [after], [before]))
    assert variables(diff["before"]) == {"TOKEN": "********"}
    assert variables(diff["after"]) == {"TOKEN": "******** (changed)"}
    (created,) = diffs_of(plan_job("web", "ml", "compute", [after], []))
    assert variables(created["after"]) == {"TOKEN": "********", "MODE": "Job", "OLD": "********"}


def test_a_value_was_as_secret_before_its_mark() -> None:
    marks = (None, '["VENDOR"]')
    for mark, other_mark in (marks, marks[::-1]):
        before = deployment(live, [{"name": "VENDOR", "value": "former"}], mark)
        after = deployment(wanted, [{"name": "VENDOR", "value": "newest"}], other_mark)
        (diff,) = diffs_of(plan_job("web", "ml", "compute", [after], [before]))
        assert variables(diff["before"]) == {"VENDOR": "********"}
        assert variables(diff["after"]) == {"VENDOR": "******** (changed)"}


def deployment(
    make: Callable[..., dict[str, Any]], env: list[dict[str, str]], mark: str | None = None
) -> dict[str, Any]:
    obj = make("Deployment", spec={"template": {"spec": {"containers": [{"name": "main", "env": env}]}}})
    obj["metadata"]["annotations"] = {"runwhere.ai/secret-env": mark} if mark else {}
    return obj


def variables(diff: str) -> dict[str, str]:
    (container,) = yaml.safe_load(diff)["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def test_a_text_of_several_lines_is_shown_line_by_line() -> None:
    obj = wanted("ConfigMap")
    obj["data"] = {"ds_config.json": '{\n  "stage": 2\n}\n'}
    (diff,) = diffs_of(plan_job("train", "ml", "training", [obj], []))
    assert '\n    {\n      "stage": 2\n    }\n' in diff["after"]
    assert yaml.safe_load(diff["after"]) == obj
