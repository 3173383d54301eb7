# SPDX-License-Identifier: BSD-2-Clause
"""The diffs that a task shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.changes import diffs_of, fold_numbered
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.planning import plan_job

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


SLICES = {f"slices-{number}": f"replicas: {number}\n" for number in range(2, 12)}


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        (SLICES, {"slices-N (N from 2 to 11)": "replicas: N\n"}),
        ({"a": "1", **SLICES, "b": "2"}, {"a": "1", "slices-N (N from 2 to 11)": "replicas: N\n", "b": "2"}),
        (
            {"slices-2": "replicas: 2", "slices-4": "replicas: 4", "slices-8": "replicas: 8"},
            {"slices-N (N in 2, 4, 8)": "replicas: N"},
        ),
        (
            {**SLICES, "slices-3": "replicas: 4\n"},
            {"slices-N (N in 2, 4, 5, 6, 7, 8, 9, 10, 11)": "replicas: N\n", "slices-3": "replicas: 4\n"},
        ),
        # Two are not worth a riddle, and a number within another one is not that number.
        ({"slices-2": "2", "slices-3": "3"}, {"slices-2": "2", "slices-3": "3"}),
        ({"s-1": "11", "s-2": "12", "s-3": "13"}, {"s-1": "11", "s-2": "12", "s-3": "13"}),
    ],
)
def test_files_that_differ_by_their_number_are_shown_once(files: dict[str, str], shown: dict[str, str]) -> None:
    assert fold_numbered(files) == shown
    config_map = {**wanted("ConfigMap"), "data": files}
    (diff,) = diffs_of(plan_job("stack", "ml", "stack", [config_map], []))
    assert yaml.safe_load(diff["after"])["data"] == shown
