# SPDX-License-Identifier: BSD-2-Clause
"""What pools declare of their hardware. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_ACCELERATOR = "nvidia"


@dataclass(frozen=True)
class PoolHardware:
    """What a pool declares of its hardware, beside its nodes.

    ``type_aliases``: further names of GPU types. ``rdma_env``: variables for jobs that use RDMA. ``topology``: levels
    (rack), the widest first, with their labels of nodes. ``types``: GPU types of its nodes. With a ``device_class``,
    devices are claimed. ``sharing``, ``mig``: its parts. ``new_nodes``: what may come. ``time_limit``: of jobs.
    """

    accelerator: str | None = None
    share_backend: str | None = None
    device_class: str | None = None
    sharing: Mapping[str, int] = field(default_factory=dict)
    mig: str | None = None
    type_aliases: Mapping[str, str] = field(default_factory=dict)
    rdma_resource: str | None = None
    rdma_env: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[str, str] = field(default_factory=dict)
    new_nodes: Mapping[str, str] = field(default_factory=dict)
    time_limit: Mapping[str, str] = field(default_factory=dict)
    types: frozenset[str] = frozenset()

    def type_of(self, wanted: str) -> str:
        """The GPU type that a manifest means: as the pool writes it, or what an alias of the pool stands for."""
        if wanted in self.types:
            return wanted
        meant = {alias.lower(): name for alias, name in self.type_aliases.items()}.get(wanted.lower(), wanted)
        return {name.lower(): name for name in sorted(self.types)}.get(meant.lower(), meant)


class UnfitHardware(Exception):
    """A job asks for what the hardware does not have: ``place`` in the manifest, what is wrong, and what to do."""

    def __init__(self, place: str, problem: str, hint: str) -> None:
        super().__init__(f"{place}: {problem}. {hint}.")
        self.place, self.problem, self.hint = place, problem, hint
