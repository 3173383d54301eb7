# SPDX-License-Identifier: BSD-2-Clause
"""Two tasks that give one namespace to two quotas at the same time."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.apply import ApplyResult
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.plan import Action, Plan, Step
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.live_quotas import find_rivals
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_objects import resource_quota


class Cluster:
    """Answers a list with what others have written meanwhile."""

    def __init__(self, *quotas: str) -> None:
        self.objects = [limits(name) for name in quotas]

    def list_objects(self, *_what: Any, **_how: Any) -> list[dict[str, Any]]:
        return self.objects


def limits(quota: str) -> dict[str, Any]:
    (document,) = load((), {"kind": "quota", "quota": {"name": quota}, "users": {"team": {"pods": 1}}})
    return resource_quota(cast(Any, document.model), "team")


CASES = {
    "nobody else": (Action.CREATE, ["a"], []),
    "somebody else was as fast": (Action.CREATE, ["a", "b"], ["the namespace team to the quota b at the same time"]),
    "nothing was claimed": (Action.UPDATE, ["a", "b"], []),
}


@pytest.mark.parametrize(("action", "there", "told"), CASES.values(), ids=CASES)
def test_who_looks_last_is_told(action: Action, there: list[str], told: list[str]) -> None:
    outcome = ApplyResult(Plan("a", "team", "quota", (Step(action, limits("a"), {}),)))
    found = find_rivals(cast(Client, Cluster(*there)), [outcome])
    assert len(found) == len(told)
    assert all(words in sentence for words, sentence in zip(told, found, strict=True))
