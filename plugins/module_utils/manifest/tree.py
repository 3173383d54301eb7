# SPDX-License-Identifier: BSD-2-Clause
"""What a user wrote, before it is interpreted: a tree of maps, lists and texts with the place of each.

Scalars keep their source text. YAML 1.1 would turn `NO` into false, `0755` into 493 and `1.10` into 1.1.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

MAX_DEPTH = 32


class Place(NamedTuple):
    """The place of a node: line and column from 1 (None outside of YAML text), and its rank in reading order."""

    line: int | None
    column: int | None
    rank: int


NO_PLACE = Place(None, None, 0)


class ScalarNode(NamedTuple):
    text: str
    place: Place
    is_null: bool = False
    plain: bool = False
    """Written without quotes, so that 4 is a number and not a text."""


class ListNode(NamedTuple):
    items: tuple[Node, ...]
    place: Place


class MapNode(NamedTuple):
    entries: tuple[Entry, ...]
    place: Place


Node: TypeAlias = "ScalarNode | ListNode | MapNode"
Entry: TypeAlias = "tuple[ScalarNode, Node]"


class Origin(NamedTuple):
    """Where a manifest came from: the file as it was named ("definition" for none), and its number in it from 1."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, document {self.number}"


class Location(NamedTuple):
    """A place in a manifest: its path in the user's spelling, '' for all of the document, and the node there."""

    path: str
    node: Node


class SourceNode(NamedTuple):
    """A manifest as it was written, which is a whole document or an item of a list in it."""

    origin: Origin
    location: Location


class UnsupportedValueError(ValueError):
    """A value of a definition that cannot be part of a manifest. The arguments are the problem and the hint."""


def from_python(data: Any) -> Node:
    """The tree of plain data. Raises UnsupportedValueError for other types and more than MAX_DEPTH levels."""
    ranks = itertools.count(1)

    def convert(data: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise UnsupportedValueError(f"nested more than {MAX_DEPTH} levels deep", "Use fewer levels")
        place = Place(None, None, next(ranks))
        if isinstance(data, Mapping):
            entries = ((ScalarNode(_text(key), place._replace(rank=next(ranks))), value) for key, value in data.items())
            return MapNode(tuple((key, convert(value, depth + 1)) for key, value in entries), place)
        if isinstance(data, (list, tuple)):
            return ListNode(tuple(convert(item, depth + 1) for item in data), place)
        return ScalarNode(_text(data), place, is_null=data is None, plain=not isinstance(data, str))

    return convert(data, 1)


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (str, int, float)):
        return str(value)
    hint = "Use text, numbers, true, false, lists and maps"
    raise UnsupportedValueError(f"unsupported type: {type(value).__name__}", hint)
