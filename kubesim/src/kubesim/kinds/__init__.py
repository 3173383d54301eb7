# SPDX-License-Identifier: BSD-2-Clause
"""The strategies of all stored kinds, by kind: every subclass of Strategy in this package that names a kind."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from kubesim.kinds.strategy import Strategy
from kubesim.versions import MUTABLE_JOBS_SINCE, POD_GENERATION_SINCE, Release


def _strategies(parent: type[Strategy] = Strategy) -> Iterator[type[Strategy]]:
    for child in parent.__subclasses__():
        if "kind" in vars(child):
            yield child
        yield from _strategies(child)


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
STRATEGIES: dict[str, Strategy] = {strategy.kind: strategy() for strategy in _strategies()}


def strategies(release: Release) -> dict[str, Strategy]:
    """Those of a version."""
    if release.minor >= MUTABLE_JOBS_SINCE:
        return STRATEGIES
    from kubesim.kinds.job import JobStrategy

    found: dict[str, Strategy] = {**STRATEGIES, "Job": JobStrategy(resources_change=False)}
    if release.minor < POD_GENERATION_SINCE:
        from kubesim.kinds.pod import PodStrategy

        found["Pod"] = PodStrategy()
        found["Pod"].generation_of = ""
    return found
