# SPDX-License-Identifier: BSD-2-Clause
"""What is particular to each kind: STRATEGIES, by kind."""

from __future__ import annotations

from kubesim.kinds.strategy import Strategy
from kubesim.resources import RESOURCES


def _plain(kind: str, namespaced: bool) -> Strategy:
    strategy = Strategy()
    strategy.kind, strategy.namespaced = kind, namespaced
    return strategy


STRATEGIES: dict[str, Strategy] = {r.kind: _plain(r.kind, r.namespaced) for r in RESOURCES if r.hub}
