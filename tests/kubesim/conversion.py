# SPDX-License-Identifier: BSD-2-Clause
"""Kinds that are served in two versions: from the stored one to the one that was asked for, and back."""

from __future__ import annotations

from typing import Any

from kubesim.resources import Resource

Object = dict[str, Any]


def from_hub(obj: Object, resource: Resource) -> Object:
    """A stored object in the version of `resource` (the object itself where that is the stored one)."""
    return obj


def to_hub(obj: Object, resource: Resource) -> Object:
    return obj
