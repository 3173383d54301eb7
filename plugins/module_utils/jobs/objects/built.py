# SPDX-License-Identifier: BSD-2-Clause
"""What is built from the manifest of a job, whatever its kind."""

from __future__ import annotations

from typing import NamedTuple

from ...kube.api_objects import Object


class Built(NamedTuple):
    """The Kubernetes objects of one job, as they are applied.

    ``dependents`` are in the order in which they are applied after the workload. ``priority_class`` is cluster-wide
    and shared by jobs: created when absent, never replaced. ``warnings`` are sentences for the user.
    ``former_commands`` ran instead of the workload's, each after the version (``1.1``) since which another one runs.
    """

    workload: Object
    dependents: list[Object]
    priority_class: Object
    warnings: list[str]
    former_commands: tuple[tuple[str, list[str]], ...] = ()

    @property
    def objects(self) -> list[Object]:
        """The job's own objects, the workload first."""
        return [self.workload, *self.dependents]
