# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What building a job results in, and the two shapes that every part of it shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Object = dict[str, Any]


class Built(NamedTuple):
    """The Kubernetes objects of one job, as they are applied.

    ``dependents`` are in the order in which they are applied after the workload. ``priority_class`` is cluster-wide
    and shared by jobs: created when absent, never replaced. ``warnings`` are sentences for the user.
    """

    workload: Object
    dependents: list[Object]
    priority_class: Object
    warnings: list[str]

    @property
    def objects(self) -> list[Object]:
        """The job's own objects, the workload first."""
        return [self.workload, *self.dependents]


def sparse(fields: Mapping[str, Any]) -> Object:
    """Only the fields that hold something; 0 does.

    Kubernetes drops empty values when it decodes an object (Go's omitempty), so that sending them would show as a
    difference for ever after.
    """
    return {name: value for name, value in fields.items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {}, ())
