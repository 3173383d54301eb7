# SPDX-License-Identifier: BSD-2-Clause
"""What a user wrote, before it is interpreted: a tree of maps, lists and texts with the place of each.

Scalars keep their source text. YAML 1.1 would turn `NO` into false, `0755` into 493 and `1.10` into 1.1.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ..printable import half_of_a_character
from .budget import Budget
from .place import Place

MAX_DEPTH = 32
HALF_HINT = "Write the character itself, or both halves of it"

_SURROGATE = re.compile("[\ud800-\udfff]")


class ScalarNode(NamedTuple):
    text: str
    place: Place
    is_null: bool = False
    plain: bool = False
    """Written without quotes, so that 4 is a number and not a string."""


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
    """A value of a definition that cannot be part of a manifest. The arguments are the problem and the hint.

    ``steps`` lead to it: keys and positions, the outermost last.
    """

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.steps: list[str | int] = []


def from_python(data: Any, budget: Budget) -> Node:
    """The tree of plain data. Raises TooMuchError, and UnsupportedValueError for other types and more than MAX_DEPTH
    levels."""
    ranks = itertools.count(1)

    def convert(data: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise UnsupportedValueError(f"nested more than {MAX_DEPTH} levels deep", "Use fewer levels")
        place = Place(None, None, next(ranks))
        budget.spend("values", 1 + len(data) if isinstance(data, Mapping) else 1)
        if isinstance(data, Mapping):
            entries = (
                (ScalarNode(_plain_text(key), place._replace(rank=next(ranks))), value) for key, value in data.items()
            )
            return MapNode(tuple((key, below(key.text, value, depth)) for key, value in entries), place)
        if isinstance(data, (list, tuple)):
            return ListNode(tuple(below(position, item, depth) for position, item in enumerate(data)), place)
        return ScalarNode(_plain_text(data), place, is_null=data is None, plain=not isinstance(data, str))

    def below(step: str | int, data: Any, depth: int) -> Node:
        try:
            return convert(data, depth + 1)
        except UnsupportedValueError as error:
            error.steps.append(step)
            raise

    return convert(data, 1)


def joined_surrogates(text: str) -> str:
    r"""The text with the halves of characters beyond U+FFFF joined: JSON and older tools write \ud83d\ude00 for one."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def whole_text(text: str) -> str:
    """The text with its surrogates joined. Raises UnsupportedValueError if one is left."""
    joined = joined_surrogates(text)
    if problem := half_of_a_character(joined):
        raise UnsupportedValueError(problem, HALF_HINT)
    return joined


def _plain_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (str, int, float)):
        return whole_text(str(value))
    hint = "Use text, numbers, true, false, lists and maps"
    raise UnsupportedValueError(f"unsupported type: {type(value).__name__}", hint)
