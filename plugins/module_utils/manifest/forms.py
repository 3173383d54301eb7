# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Marks on a model's field for the other forms in which manifests may write it.

The reader brings each to the field's own form before the model sees it; the JSON Schemas allow each.
"""

from __future__ import annotations

from dataclasses import dataclass


class Also:
    """Further names of the field (in snake case)."""

    def __init__(self, *names: str) -> None:
        self.names = names


@dataclass(frozen=True)
class OneOrMany:
    """A list that may be written as its only item."""


@dataclass(frozen=True)
class MapForm:
    """A list of blocks that may be written as a map from one of their fields to another."""

    key: str
    value: str


@dataclass(frozen=True)
class NamesForm:
    """A map of blocks that may be written as a list of its keys, the blocks empty."""


@dataclass(frozen=True)
class DefaultEntry:
    """A map one entry of which may stand beside it, as a key of the block that has the map."""

    name: str
