# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Marks on a model's field: the other forms in which manifests may write it, and what its JSON Schema says.

The reader brings each form to the field's own before the model sees it; the JSON Schemas allow each.
"""

from __future__ import annotations

from typing import Any


class InSchema:
    """What the JSON Schema says of a value beside its type: keywords such as pattern and minimum."""

    def __init__(self, keywords: dict[str, Any]) -> None:
        self.keywords = keywords


class Also:
    """Further names of the field (in snake case)."""

    def __init__(self, *names: str) -> None:
        self.names = names


class OneOrMany:
    """A list that may be written as its only item."""


class MapForm:
    """A list of blocks that may be written as a map from one of their fields to another."""

    def __init__(self, key: str, value: str) -> None:
        self.key = key
        self.value = value


class NamesForm:
    """A map of blocks that may be written as a list of its keys, the blocks empty."""


class DefaultEntry:
    """A map one entry of which may stand beside it, as a key of the block that has the map."""

    def __init__(self, name: str) -> None:
        self.name = name
