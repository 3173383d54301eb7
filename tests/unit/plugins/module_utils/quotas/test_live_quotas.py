# SPDX-License-Identifier: BSD-2-Clause
"""Two tasks that add one namespace to two quotas at the same time."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.apply import ApplyResult
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.live_quotas import LiveQuotas, concurrent_claims
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_objects import resource_quota


def limits(quota: str) -> dict[str, Any]:
    (document,) = load((), {"kind": "quota", "quota": {"name": quota}, "users": {"team": {"pods": 1}}})
    return resource_quota(cast(Any, document.model), "team")


CASES = {
    "no other task": (Action.CREATE, ["a"], []),
    "another task": (Action.CREATE, ["a", "b"], ["the namespace team to the quota b at the same time"]),
    "no quota was created": (Action.UPDATE, ["a", "b"], []),
}


@pytest.mark.parametrize(("action", "live", "errors"), CASES.values(), ids=CASES)
def test_the_last_task_reports_the_conflict(action: Action, live: list[str], errors: list[str]) -> None:
    outcome = ApplyResult(Plan("a", "team", "quota", (Step(action, limits("a"), {}),)))
    namespace = {"metadata": {"name": "team"}}
    found = concurrent_claims(LiveQuotas({"team": namespace}, {"team": [limits(name) for name in live]}), [outcome])
    assert len(found) == len(errors)
    assert all(words in sentence for words, sentence in zip(errors, found, strict=True))
