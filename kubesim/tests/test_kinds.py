# SPDX-License-Identifier: BSD-2-Clause
"""Each stored kind has a strategy, and both descriptions of the kind agree."""

from __future__ import annotations

from kubesim import resources
from kubesim.kinds import STRATEGIES


def test_each_stored_kind_has_a_strategy() -> None:
    assert set(STRATEGIES) == set(resources.stored_kinds())


def test_strategies_and_resources_agree_on_namespaces() -> None:
    stored = [resources.by_kind(kind) for kind in STRATEGIES]
    assert [one.kind for one in stored if STRATEGIES[one.kind].namespaced != one.namespaced] == []
