# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The keys of the models' blocks: their spellings, what each holds, and where else a key would belong."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

from .forms import Also, DefaultEntry
from .models import KINDS, Block


class Text(NamedTuple):
    """One value, handed to the model as the text it was written; `annotation` is its type in the model."""

    annotation: Any = str


class ListOf(NamedTuple):
    item: Shape


class MapOf(NamedTuple):
    item: Shape
    name: Text


class BlockOf(NamedTuple):
    model: type[Block]


Shape: TypeAlias = "Text | ListOf | MapOf | BlockOf"


@dataclass(frozen=True)
class Key:
    """A field of a block as users write it."""

    field: str
    documented: str
    shape: Shape
    required: bool
    marks: tuple[Any, ...]

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every accepted spelling, the documented one first."""
        names = (self.field, *(name for mark in self.marks if isinstance(mark, Also) for name in mark.names))
        forms = [form for name in names for form in (name, name.replace("_", "-"), _camel(name))]
        return tuple(dict.fromkeys([self.documented, *forms]))

    def mark(self, kind: type) -> Any:
        """The mark of that class, or None."""
        return self._marks.get(kind)

    @cached_property
    def _marks(self) -> dict[type, Any]:
        return {type(mark): mark for mark in reversed(self.marks)}


@cache
def keys_of(model: type[Block]) -> tuple[Key, ...]:
    """The keys of a block, in the order of the model."""
    return tuple(
        Key(
            field=name,
            documented=field.serialization_alias or name,
            shape=_shape(field.annotation),
            required=field.is_required(),
            marks=tuple(field.metadata),
        )
        for name, field in model.model_fields.items()
    )


@cache
def key_by_spelling(model: type[Block]) -> dict[str, Key]:
    return {spelling: key for key in keys_of(model) for spelling in key.spellings}


@cache
def default_entry_of(model: type[Block]) -> tuple[str, Key] | None:
    """The key that stands beside a map but belongs into it (`default` of a quota), and the map's key."""
    for key in keys_of(model):
        mark = key.mark(DefaultEntry)
        if mark is not None:
            return mark.name, key
    return None


def item_of(key: Key) -> BlockOf:
    """The block that a key holds a list or map of. Raises TypeError for other keys."""
    if isinstance(key.shape, (ListOf, MapOf)) and isinstance(key.shape.item, BlockOf):
        return key.shape.item
    raise TypeError(f"{key.field} holds no list or map of blocks")


def homes_of(spelling: str, kind: str) -> list[str]:
    """The blocks of a kind, by path, in which the key is valid: `gpu` -> [`resources`]."""
    return [path for path, model in blocks_of(kind) if spelling in key_by_spelling(model)]


def kinds_with(spelling: str, block: str) -> list[str]:
    """The kinds that have the key in the block of that path."""
    return [
        kind
        for kind in KINDS
        if any(path == block and spelling in key_by_spelling(model) for path, model in blocks_of(kind))
    ]


def documented_path(kind: str, location: tuple[str | int, ...]) -> str:
    """The path of a block as blocks_of gives it, for its place in the data: without list positions and map keys."""
    model: type[Block] = KINDS[kind]
    path: list[str] = []
    steps = iter(location)
    for step in steps:
        key = next(key for key in keys_of(model) if key.field == step)
        path.append(key.documented)
        shape = key.shape
        while isinstance(shape, (ListOf, MapOf)):
            next(steps)
            shape = shape.item
        if isinstance(shape, BlockOf):
            model = shape.model
    return ".".join(path)


@cache
def blocks_of(kind: str) -> tuple[tuple[str, type[Block]], ...]:
    """The blocks of a kind with their paths; the manifest itself has the path ''."""
    return tuple(_blocks("", KINDS[kind]))


def _blocks(path: str, model: type[Block]) -> Iterator[tuple[str, type[Block]]]:
    yield path, model
    for key in keys_of(model):
        below = f"{path}.{key.documented}" if path else key.documented
        shape = key.shape
        while isinstance(shape, (ListOf, MapOf)):
            shape = shape.item
        if isinstance(shape, BlockOf):
            yield from _blocks(below, shape.model)


def _shape(annotation: Any) -> Shape:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = _shape(arguments[0])
        return Text(annotation) if isinstance(inner, Text) else inner
    if origin in {Union, types.UnionType}:
        return _shape(next(argument for argument in arguments if argument is not type(None)))
    if origin is list:
        return ListOf(_shape(arguments[0]))
    if origin is dict:
        return MapOf(_shape(arguments[1]), Text(arguments[0]))
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return BlockOf(annotation)
    return Text(annotation)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
