# SPDX-License-Identifier: BSD-2-Clause
"""Which source declares a pool, and what a task of another one may not change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..cluster.pool_declarations import Declaration
from ..declared_source import declared_elsewhere, limited_problem, own_sources
from ..options import DeclaringOptions
from .membership import Membership, PoolRequest


def plannable(
    requests: Sequence[PoolRequest],
    declarations: Mapping[str, Declaration],
    options: DeclaringOptions,
    *,
    limited: bool,
) -> tuple[list[PoolRequest], list[str]]:
    """The requests for pools that the source of the task may declare, and why it may not declare the others.

    A limited task records no source on a pool that has none: that may be the pool of others.
    """
    elsewhere = dict(_declared_elsewhere(requests, declarations, options))
    left = [each for each in requests if each.name not in elsewhere]
    unmarked = {name for name, live in declarations.items() if limited and not live.source}
    return [replace(each, source="") if each.name in unmarked else each for each in left], list(elsewhere.values())


def _declared_elsewhere(
    requests: Iterable[PoolRequest], declarations: Mapping[str, Declaration], options: DeclaringOptions
) -> Iterator[tuple[str, str]]:
    """Why the source of the task may not declare, or delete, pools that it names."""
    for request in requests:
        live = declarations.get(request.name)
        problem = declared_elsewhere([live.source], options) if live else None
        if live and not request.present and request.source and live.source not in own_sources(options):
            problem = f"{request.source} does not declare it, so it is kept."
        if problem:
            yield request.name, f"pool {request.name}: {problem}"


def changed_for_others(
    membership: Membership, declarations: Mapping[str, Declaration], options: DeclaringOptions, *, limited: bool
) -> Iterator[str]:
    """What keeps pools from changing: another source declares them, or the namespaces of the task are limited."""
    changed = {pool.name for pool in membership.pools if pool.action != "unchanged"} | membership.declarations.keys()
    for name in sorted(changed & declarations.keys()):
        if problem := declared_elsewhere([declarations[name].source], options):
            yield f"pool {name} would lose nodes: {problem}"
        elif limited and (not options.source or declarations[name].source != options.source):
            yield f"pool {name}: {limited_problem(options.source)}"
