# SPDX-License-Identifier: BSD-2-Clause
"""metadata.managedFields."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def track_update(old: Object | None, new: Object, manager: str, now: str, subresource: str = "") -> None:
    """Give `manager` the fields that a write set or changed."""


def without_times(obj: Object) -> Object:
    """The object with the times of its managedFields left out: what two versions are compared by."""
    return obj
